"""The result of an experiment: one JSON document, the same schema for all.

>>> recorder = Recorder("demo", "A demonstration", runs=3)
>>> for seconds in (1.0, 1.2, 1.1):
...     recorder.run("farfield", wall_s=seconds)
>>> recorder.claim("fast enough", recorder.median("farfield", "wall_s"), "<=", 1.5, unit="s")
True
>>> recorder.result().arms[0].median
{'wall_s': 1.1}
"""

from __future__ import annotations

import contextlib
import operator
import statistics
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from farfield.errors import DataError, UsageError
from farfield_bench.machine import Machine, describe_machine

Relation = Literal["<=", ">=", "=="]
_HOLDS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Stop(_Document):
    """Why an arm has no figures, or fewer than asked for."""

    what: Literal["over", "killed", "refused"]
    """Over: stopped after far longer than the arm that it is compared with. Killed: by its memory limit. Refused: it
    reported that the memory is too small.
    """
    text: str
    """Short text for the table."""
    after_s: float | None = None
    """Seconds until its stop: a lower bound of its time."""


class Condition(_Document):
    """What an experiment needs of the machine, or would use, and whether it is there. Arms that need what is not are left out."""

    what: str
    here: bool
    why: str = ""
    """Why not, or which, as text."""


class Arm(_Document):
    """One way of doing the work, measured several times."""

    name: str
    settings: dict[str, str] = {}
    """Its distinguishing settings, for the table."""
    runs: list[dict[str, float]]
    median: dict[str, float]
    spread: dict[str, float]
    """Largest less smallest value of each quantity, as a share of its median."""
    stop: Stop | None = None


class Claim(_Document):
    """A figure that must hold, and whether it does."""

    text: str
    value: float
    relation: Relation
    bound: float
    unit: str = ""
    holds: bool
    right: bool = False
    """Whether it is about correct results or a kept memory limit. Small data show these as well as large, so it must
    hold in quick runs, too. Older results lack this key.
    """


class Table(_Document):
    """Figures that are not medians of arms: counts by zone, errors by line."""

    title: str
    columns: list[str]
    rows: list[list[str | float | int]]


class Result(_Document):
    """One run of an experiment."""

    schema_version: Literal[1] = 1
    name: str
    title: str
    about: str = ""
    started: str
    """UTC, ISO 8601."""
    seconds: float
    commit: str | None
    """Commit of the code's checkout; null outside one. A `+` at its end marks uncommitted changes."""
    machine: Machine
    versions: dict[str, str] = {}
    """Versions by name: Farfield with its commit, Python, NumPy, the system's kernel, and peers."""
    conditions: list[Condition] = []
    quick: bool
    """Smaller data and fewer runs, to test the experiment: not figures to quote."""
    arms: list[Arm]
    claims: list[Claim]
    tables: list[Table]
    notes: list[str]

    @property
    def missed(self) -> list[Claim]:
        """Claims that should hold and do not: in quick runs only those marked as `right`."""
        return [claim for claim in self.claims if not claim.holds and (claim.right or not self.quick)]


class Recorder:
    """Receiver of an experiment's measurements."""

    def __init__(
        self, name: str, title: str, *, about: str = "", runs: int = 5, quick: bool = False, work: Path = Path()
    ) -> None:
        from datetime import UTC, datetime

        self.runs = runs
        """Number of runs of each arm."""
        self.quick = quick
        self.work = work
        """A folder for data, kept between runs."""
        self._name, self._title, self._about = name, title, about
        self._started = datetime.now(UTC)
        self._arms: dict[str, list[dict[str, float]]] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._stops: dict[str, Stop] = {}
        self._versions: dict[str, str] = {}
        self._conditions: dict[str, Condition] = {}
        self._claims: list[Claim] = []
        self._tables: list[Table] = []
        self._notes: list[str] = []

    def run(self, arm: str, *, settings: dict[str, str] | None = None, **quantities: float) -> None:
        """Records one run of an arm. Names carry units: wall_s, peak_bytes, error_length."""
        self._arms.setdefault(arm, []).append({key: float(value) for key, value in quantities.items()})
        self._settings.setdefault(arm, {}).update(settings or {})

    def stop(
        self,
        arm: str,
        what: Literal["over", "killed", "refused"],
        text: str,
        *,
        after_s: float | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        """Records that an arm did not finish. It has no figure from that run, and needs none."""
        self._arms.setdefault(arm, [])
        self._settings.setdefault(arm, {}).update(settings or {})
        self._stops[arm] = Stop(what=what, text=text, after_s=after_s)

    def stopped(self, arm: str) -> bool:
        """Whether an arm did not finish."""
        return arm in self._stops

    def condition(self, what: str, here: bool, why: str = "") -> bool:
        """Records whether a need is met, and returns it. An unmet need is also a note."""
        self._conditions[what] = Condition(what=what, here=here, why=why)
        if not here:
            self.note(f"Not here: {what}{f' ({why})' if why else ''}.")
        return here

    def version(self, of: str, version: str) -> None:
        """Records the version of a program in the run."""
        if version:
            self._versions[of] = version

    def median(self, arm: str, quantity: str) -> float:
        """The median of a quantity over the runs of an arm.

        Raises:
            UsageError: if it is not recorded.
        """
        values = [run[quantity] for run in self._arms.get(arm, []) if quantity in run]
        if not values:
            raise UsageError(f"the experiment '{self._name}' recorded no {quantity} of '{arm}'")
        return statistics.median(values)

    def measured(self, arm: str, quantity: str) -> bool:
        """Whether a quantity of an arm was recorded."""
        return any(quantity in run for run in self._arms.get(arm, []))

    def claim(
        self, text: str, value: float, relation: Relation, bound: float, *, unit: str = "", right: bool = False
    ) -> bool:
        """Records a figure that must hold, and returns whether it does. `right`: it is about correct results or a kept
        memory limit, so it must hold on small data, too. Not every count that must be 0 is of that kind.
        """
        holds = bool(_HOLDS[relation](value, bound))
        self._claims.append(
            Claim(text=text, value=value, relation=relation, bound=bound, unit=unit, holds=holds, right=right)
        )
        return holds

    def table(self, title: str, columns: list[str], rows: list[list[str | float | int]]) -> None:
        """Records a table."""
        self._tables.append(Table(title=title, columns=columns, rows=rows))

    def note(self, text: str) -> None:
        """Records a sentence: an omission, or a disturbance of a figure. Repeated sentences count once."""
        if text not in self._notes:
            self._notes.append(text)

    def result(self) -> Result:
        """Everything so far."""
        from datetime import UTC, datetime

        from farfield_bench.machine import commit, versions

        head = commit(Path(__file__).parent)
        return Result(
            name=self._name,
            title=self._title,
            about=self._about,
            started=self._started.isoformat(timespec="seconds"),
            seconds=(datetime.now(UTC) - self._started).total_seconds(),
            commit=head,
            machine=describe_machine(self.work),
            versions={**versions(head), **self._versions},
            conditions=list(self._conditions.values()),
            quick=self.quick,
            arms=[
                _arm(name, runs, self._settings.get(name, {}), self._stops.get(name))
                for name, runs in self._arms.items()
            ],
            claims=self._claims,
            tables=self._tables,
            notes=self._notes,
        )


def _arm(name: str, runs: list[dict[str, float]], settings: dict[str, str], stop: Stop | None) -> Arm:
    keys = list(dict.fromkeys(key for run in runs for key in run))
    values = {key: [run[key] for run in runs if key in run] for key in keys}
    median = {key: statistics.median(v) for key, v in values.items()}
    spread = {key: (max(v) - min(v)) / abs(median[key]) if median[key] else 0.0 for key, v in values.items()}
    return Arm(name=name, settings=settings, runs=runs, median=median, spread=spread, stop=stop)


def write_result(result: Result, folder: Path) -> Path:
    """Writes `NAME.json` into a folder. Returns its path.

    Raises:
        DataError: if it cannot be written.
    """
    path = folder / f"{result.name}.json"
    part = path.with_suffix(".json.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Complete or not at all: until then the file is of an earlier run.
        part.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise DataError(f"{error.filename or path}: cannot write the result: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return path


def read_results(folder: Path) -> list[Result]:
    """All results of a folder, by name.

    Raises:
        DataError: if one cannot be read.
    """
    return [read_result(path) for path in sorted(folder.glob("*.json"))]


def read_result(path: Path) -> Result:
    """One result.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return Result.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a benchmark result: {error}") from error


def result_schema() -> dict[str, Any]:
    """The JSON Schema of results."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Result.model_json_schema()}
