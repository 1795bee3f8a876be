"""Open datasets.

Indices of arrays in Python count from 0 and run [k, j, i], as the arrays are stored and as xarray shows them; the `ijk` of
`probe` and of the command line count from 1, as PLOT3D does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farfield import _core
from farfield.dataset.contours import Surfaces
from farfield.errors import FarfieldError, UsageError
from farfield.flow import definitions
from farfield.flow.flow_maps import FlowMaps
from farfield.flow.pathlines import OverTime, options_text, step_numbers
from farfield.flow.probes import Probe, probe_of
from farfield.flow.seeds import file_of, resolve
from farfield.flow.vortex_cores import VortexCores
from farfield.flow.zones import Field, Zone
from farfield.pictures.slices import SliceImage, slice_image
from farfield.results import outputs
from farfield.results.lines import MOST_STEPS, Lines
from farfield.runtime.progress import Report, reporting
from farfield.runtime.sizes import resolve_limit
from farfield.sources.source import Source
from farfield.times.steps import TimeSteps, gaps_text

if TYPE_CHECKING:
    from farfield.pictures.slices import SliceImage

if TYPE_CHECKING:
    from farfield.report.verdict import Verdict

Path = str | os.PathLike[str]


@dataclass
class _Known:
    """What a dataset and its views know together: a field that is defined for one is there for all."""

    info: dict[str, Any] | None = None
    defined: dict[str, str] = field(default_factory=dict)
    """What was defined since it was opened."""
    implied: dict[str, str] = field(default_factory=dict)
    """What nobody had to define."""
    events: str | None = None
    """The log of events, if one is kept."""
    given: dict[str, Any] = field(default_factory=dict)
    """Settings that it was opened with: they win over those of another machine."""


class Dataset(TimeSteps, OverTime, FlowMaps, VortexCores, Surfaces):
    """A dataset, or one time step of it. Nothing is read before it is needed; a `repr` reads nothing.

    Pickled, it is the names of its files and how it was opened: where it is loaded it is opened again, with pages, memory limit
    and threads of its own, and without a log of events. A process that was forked opens it again, too.

    >>> import farfield as ff
    >>> print(ff.open("demo:box"))
    <farfield.Dataset demo:box: PLOT3D, Fortran unformatted, little-endian, float32>
      zones (1, 66,297 points):
        zone1        49 x 41 x 33, iblank
      fields: density, momentum, energy
      derived: velocity, velocity_x, ...
      times: 1
    """

    _is_volume = False

    def __init__(self, native: _core.Dataset, source: Source, reopened: Callable[..., Dataset]) -> None:
        self._native = native
        self._source = source
        self._reopened = reopened
        """What opens it again where a pickled one is loaded."""
        self._known = _Known()

    def _reads(self) -> list[str]:
        """Files that it reads."""
        return self._source.reads()

    def __reduce__(self) -> tuple[Any, ...]:
        known = self._known
        return self._reopened, (self._source.elsewhere(), known.given, dict(known.defined), self._steps, self._one)

    def __setattr__(self, name: str, value: Any) -> None:
        # What is misspelt would be without effect, and nobody told.
        if not name.startswith("_") and not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"a dataset has no attribute '{name}' that can be set; memory_limit can")
        super().__setattr__(name, value)

    @property
    def memory_limit(self) -> int:
        """The memory limit in bytes; set, it takes what `set_memory_limit` does."""
        return int(self.stats()["limit_bytes"])

    @memory_limit.setter
    def memory_limit(self, limit: str | int) -> None:
        self.set_memory_limit(limit)

    def info(self, *, ranges: bool = False, progress: bool | Report | None = None) -> dict[str, Any]:
        """What `farfield info --json` prints. `ranges` True: one bounded pass finds ranges and boxes that are not known.

        >>> import farfield as ff
        >>> info = ff.open("demo:box").info()
        >>> info["dimension"], [zone["dims"] for zone in info["zones"]], info["fields"][0]["name"]
        (3, [[49, 41, 33]], 'density')
        """
        if self._known.info is None or ranges:
            with reporting(progress if ranges else False) as report:
                found = json.loads(self._native.info(ranges=ranges, progress=report))
            for known in found["fields"]:
                if known["name"] in self._known.implied:
                    known |= {"long_name": "speed", "defined": False}
            self._known.info = found | self._source.described(found)
        return self._known.info

    @property
    def zones(self) -> Mapping[str, Zone]:
        """Zones by name, in file order.

        >>> import farfield as ff
        >>> list(ff.open("demo:taper").zones)
        ['zone1', 'zone2', 'zone3', 'zone4', 'zone5', 'zone6']
        """
        return {z["name"]: Zone(self, z) for z in self.info()["zones"]}

    def define(self, name: str, expression: str | None = None) -> None:
        """Adds a field that is made of others; its pages are made when they are asked for.

        `define("twice = 2 * mach")`, the form of the command line, says the same as `define("twice", "2 * mach")`.

        Raises:
            UsageError: if the expression does not parse or type, or the name is taken.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> ds.define("twice", "2 * density")
        >>> bool(ds["twice"][0, 0, 0] == 2 * ds["density"][0, 0, 0])
        True
        """
        wanted = definitions.texts(name if expression is None else {name: expression})
        self._native.define(wanted)
        self._known.defined |= definitions.mapping(wanted)
        self._known.info = None

    def _defined(self) -> dict[str, str]:
        """What users have defined, when it was opened and since."""
        return {**definitions.mapping(self._source.options.get("define")), **self._known.defined}

    @property
    def fields(self) -> list[str]:
        """Names of stored and derived fields, those first that every zone has."""
        return [f["name"] for f in self.info()["fields"]]

    def _view(self) -> Dataset:
        view = Dataset(self._native, self._source, self._reopened)
        view._known = self._known
        return view

    def __repr__(self) -> str:
        info = self.info()
        points = sum(int(np.prod(z["dims"])) for z in info["zones"])
        rows = [f"<farfield.Dataset {self._source.text or self._source.path}: {info['format']}>"]
        rows.append(f"  zones ({len(info['zones'])}, {points:,} points):")
        for z in info["zones"][:8]:
            blank = ", iblank" if z["iblank"] else ""
            rows.append(f"    {z['name']:<12} {' x '.join(map(str, z['dims']))}{blank}")
        if len(info["zones"]) > 8:
            rows.append(f"    ... {len(info['zones']) - 8} more")
        stored = [f["name"] for f in info["fields"] if not f.get("derived")]
        derived = [f["name"] for f in info["fields"] if f.get("derived")]
        rows.append(f"  fields: {', '.join(stored) or 'none'}")
        if derived:
            rows.append(f"  derived: {', '.join(derived)}")
        rows.append(f"  times: {self._all_of_them()}{self._selected()}")
        return "\n".join(rows)

    def _all_of_them(self) -> str:
        """How many steps there are and when, for a `repr`."""
        info = self.info()
        times, unit = info["times"], info.get("time_units")
        if len(times) < 2:
            return str(len(times))
        if info.get("times_counted"):
            return f"{len(times)}, only numbered: nothing says when they are (plot3d={{'dt': ...}} does)"
        gaps = gaps_text(info)
        missing = f", gaps: {gaps}" if gaps else ""
        return f"{len(times)}, {times[0]:g} to {times[-1]:g}{f' [{unit}]' if unit else ''}{missing}"

    def _selected(self) -> str:
        """Which steps are selected, for a `repr`."""
        steps = self._steps
        if steps is None or self._one:
            return "" if steps is None else f", at step {steps[0]}"
        stride = "" if steps.step == 1 else f", every {steps.step}th"
        return f", steps {steps[0]} to {steps[-1]}{stride}"

    def probe(self, position: Sequence[float], *, fields: Sequence[str] | None = None) -> Probe | None:
        """Values, units, zone and ijk at a position, or None where it is in no zone. `fields` None: all of them.

        Blanked-out cells hold no positions.

        >>> import farfield as ff
        >>> round(ff.open("demo:box").probe((0.5, 0.5, 0.5)).values["density"], 6)
        1.2
        """
        where = np.asarray(position, dtype=np.float64)
        if where.shape not in ((2,), (3,)) or not np.isfinite(where).all():
            raise UsageError(f"a position is two or three finite numbers, not {position!r}")
        self._need_all_three(where, "X Y Z")
        x, y, z = (*where.tolist(), 0.0)[:3]
        return self._probed(self._native.probe(x, y, z, fields=fields, step=self._step or 0))

    def _probed(self, text: str) -> Probe | None:
        found = probe_of(text)
        return None if found is None else replace(found, units=self._source.units_of_probe(found.units))

    def probe_ijk(self, zone: str, ijk: Sequence[float], *, fields: Sequence[str] | None = None) -> Probe | None:
        """As `probe`, at a 1-based place of a zone's computational space; fractions are fine.

        The place may lie in a cell that is blanked out or has values of another zone at a corner: the result's `note` says so.

        >>> import farfield as ff
        >>> hole = ff.open("demo:taper").probe_ijk("zone6", (7, 9, 1), fields=["density"])
        >>> hole.note
        'the cell is blanked out'
        """
        where = np.asarray(ijk, dtype=np.float64)
        if where.shape not in ((2,), (3,)) or not np.isfinite(where).all():
            raise UsageError(f"ijk are two or three finite numbers, not {ijk!r}")
        self._need_all_three(where, "I J K")
        i, j, k = (*where.tolist(), 1.0)[:3]
        return self._probed(self._native.probe_ijk(zone, i, j, k, fields=fields, step=self._step or 0))

    def slice_image(
        self,
        *,
        normal: str | Sequence[float],
        origin: str | Sequence[float] | None = None,
        up: str | Sequence[float] | None = None,
        extent: str | Sequence[float] | None = None,
        size: str | Sequence[int] | None = None,
        resolution: float | None = None,
        field: str | Sequence[str],
        progress: bool | Report | None = None,
    ) -> SliceImage:
        """A plane sampled at the middles of pixels, as an array with its place.

        Args:
            normal: Across the plane: `"x"`, `"y"`, `"z"` or three numbers; its sign does not matter. In the picture x grows to the
                right wherever it can.
            origin: A point of the plane; None for the middle of the data.
            up: What is up, as far as it lies in the plane; None for z, or y where the plane faces z.
            extent: Left, right, bottom and top edge, as distances from the origin; None for the whole cross-section.
            size: Width and height in pixels; None for 1024 along the longer side.
            resolution: Edge of a pixel, in place of the size.
            field: What is sampled: a field, or several.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument makes no sense, or the plane does not meet the data.

        >>> import farfield as ff
        >>> cut = ff.open("demo:box").slice_image(normal="z", size=(64, 48), field="density")
        >>> cut.values.shape, cut.failed
        ((48, 64), 0)
        """
        plane: dict[str, Any] = {"normal": normal, "origin": origin, "up": up, "extent": extent}
        return slice_image(self, **plane, size=size, resolution=resolution, field=field, progress=progress)

    def _need_all_three(self, where: NDArray[np.float64], form: str) -> None:
        if len(where) == 2 and self.info()["dimension"] == 3:
            raise UsageError(f"the data are 3-D: a place in them is {form}, not {where.tolist()}")

    def streamlines(
        self,
        vectors: str = "velocity",
        *,
        seeds: ArrayLike | str | os.PathLike[str],
        integration_direction: str = "both",
        integrator: str = "rk45",
        initial_step: float | None = None,
        max_step: float | None = None,
        max_steps: int | None = 2000,
        max_length: float | None = None,
        max_time: float | None = None,
        tolerance: float = 1e-6,
        terminal_speed: float | None = None,
        scalars: Sequence[str] = (),
        stop: str | None = None,
        steps: str | slice | Sequence[int] | None = None,
        progress: bool | Report | None = None,
    ) -> Lines:
        """Traces streamlines.

        Args:
            vectors: The vector field.
            seeds: An array (N, 3) or (N, 2), a `.npy`, `.csv` or `.vtp` file, or a specification as the command line takes:
                `"random:100:1"`, `"line:0,0,0:0,1,0:50"`, `"ijk:zone1:1-9,2,1-33/5"`, ... Your array is yours; what is made of
                it, or of a file, stays within the memory limit. `"random:100:1:q_criterion > 0.5"` draws them where a condition
                holds; there are fewer where it holds in fewer cells.
            integration_direction: `"forward"`, `"backward"` or `"both"`.
            integrator: `"rk45"` with step control in computational space, `"rk45-physical"` in physical space, or `"rk4"` or
                `"euler"` with steps of `max_step`.
            initial_step: Length of the first step; None takes it from the cell.
            max_step: Longest step; None takes it from the cell.
            max_steps: Steps of a line in one direction; None for no bound. A line that closes on itself then goes round and
                round, until the memory limit ends the run, unless `max_length` or `max_time` ends it.
            max_length: Length of a line in one direction; None for no bound.
            max_time: Integration time in one direction; None for no bound.
            tolerance: Local error that a step may make.
            terminal_speed: A line stops where the speed is below it. None: a millionth of a millionth of the largest speed that the
                line has had, whatever the units of the flow.
            scalars: Fields sampled along the lines (vectors too).
            stop: A condition of fields, such as `"mach > 1 and x < 2"`, that ends a line: it ends at the first point, the seed or
                the end of a step, where the condition holds, keeps that point, and says `stopped`. The sides of a comparison are
                sampled as `scalars` are and compared at the point.
            steps: Time steps, one after the other, each with a line a seed: `"all"`, a slice, or numbers; the result's `line_step`
                and `line_time` say of which a line is. None: the step that was selected, else the first.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument makes no sense.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> lines = ds.streamlines(seeds=ff.rake((0.6, 0.5, 0.3), (0.8, 0.5, 0.3), n_points=3), max_length=0.2)
        >>> sorted(set(lines.reason.tolist()))
        ['length']
        """
        spec, array = resolve(seeds)
        options = {
            "seeds": spec,
            "field": vectors,
            "step": self._step or 0,
            "direction": integration_direction,
            "integrator": integrator,
            "tolerance": tolerance,
            "initial_step": initial_step,
            "max_step": max_step,
            "max_length": max_length,
            "max_time": max_time,
            "max_steps": MOST_STEPS if max_steps is None else max_steps,
            "terminal_speed": terminal_speed,
            "scalars": scalars,
            "stop": stop,
            "steps": None if steps is None else self._of_selected(step_numbers(steps, max(1, len(self.times)))),
        }
        with reporting(progress) as report:
            return Lines(self._native.streamlines(options_text(options), seeds=array, progress=report))

    def trace(
        self,
        output: Path,
        *,
        options: Mapping[str, Any],
        seeds: NDArray[np.float64] | None = None,
        progress: bool | Report | None = None,
    ) -> dict[str, Any]:
        """Lines straight into a `.vtp`, `.npz`, `.parquet` or `.pvd` file, however many; returns what `trace --json` prints.

        `options` are the extension's: see `farfield/_native.pyi`, `Dataset.streamlines`.

        >>> import tempfile, farfield as ff
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ff.open("demo:box").trace(folder + "/lines.vtp", options={"seeds": "random:9:1"})["lines"]
        9
        """
        outputs.check([output, options.get("save_state")], [*self._source.reads(), *file_of(options.get("seeds"))])
        # The state that the run goes on from may be the one that it keeps: that takes its place when the run is done.
        outputs.check([output], [options["resume"]] if options.get("resume") else [])
        with reporting(progress) as report:
            text = self._native.trace(options_text(options), os.fspath(output), seeds=seeds, progress=report)
        found: dict[str, Any] = json.loads(text)
        return found

    def __getitem__(self, name: str) -> Field:
        """A field of a dataset with one zone; otherwise ask a zone: `ds.zones["zone2"]["pressure"]`."""
        zones = self.zones
        if len(zones) != 1:
            raise UsageError(
                f"the dataset has {len(zones)} zones: say which, as in ds.zones['{next(iter(zones), 'zone1')}']['{name}']"
            )
        return next(iter(zones.values()))[name]

    def stats(self) -> dict[str, Any]:
        """What was read and held since the dataset was opened: STATS of `farfield/_native.pyi`.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box", memory_limit="64MiB")
        >>> float(ds["density"][0, 0, 0]) > 1, ds.stats()["pages"]["touched"], ds.stats()["limit_bytes"]
        (True, 1, 67108864)
        """
        found: dict[str, Any] = json.loads(self._native.stats())
        return found

    def metrics(self) -> str:
        """The counters of the open dataset in the text format that Prometheus collects, for programs that serve it.

        >>> import farfield as ff
        >>> text = ff.open("demo:box", memory_limit="64MiB").metrics()
        >>> [line for line in text.splitlines() if line.startswith("farfield_memory_limit_bytes")]
        ['farfield_memory_limit_bytes 67108864']
        """
        return self._native.metrics()

    def explain(self, *, progress: bool | Report | None = None) -> Verdict:
        """What was waited for since the dataset was opened, and what would help: printed, it is text; in a notebook a small table.

        Of a dataset that was opened with `events` it is the verdict of `farfield report` on what was done so far; of others, what
        the counters say, which are always on.

        Raises:
            DataError: if the log cannot be written or read.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     lines = ds.streamlines(seeds="random:5:1")
        ...     print(ds.explain().lines[-1])
        What waited for what, and which change would save how much, is known where a log is kept: open it with events=FILE.
        """
        from farfield.report import explain
        from farfield.report.counted import counted

        if self._known.events is not None and self._native.flush_events():
            return explain(self._known.events, progress)
        return counted(self._source.text or self._source.path, self.stats())

    def set_memory_limit(self, limit: str | int) -> None:
        """Raises or lowers the memory limit of the open dataset.

        Raises:
            MemoryLimitError: if it is below what any run needs.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box", memory_limit="64MiB")
        >>> ds.set_memory_limit("16MiB")
        >>> ds.stats()["limit_bytes"] >> 20
        16
        """
        self._native.set_memory_limit(resolve_limit(limit))

    def close(self) -> None:
        """Gives memory back and ends the log of events; twice is fine.

        Raises:
            DataError: if the log of events could not be written whole.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> ds.close()
        >>> try:
        ...     ds.probe((0.5, 0.5, 0.5))
        ... except ff.UsageError as error:
        ...     print(error)
        this dataset is closed; open it again
        """
        self._native.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FarfieldError:
            # Of two errors the first one says what went wrong.
            if error is None:
                raise
