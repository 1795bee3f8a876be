"""Options of unsteady lines, in the form for the extension."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from farfield.dataset.field_names import field_names
from farfield.errors import UsageError
from farfield.results.lines import MOST_STEPS


@dataclass(frozen=True)
class Following:
    """Options that pathlines, streaklines, timelines and flow maps share; `Dataset.pathlines` documents them."""

    t0: float | None
    t1: float | None
    direction: str | None
    integrator: str
    time_step: float | None
    max_steps: int | None
    tolerance: float
    hold_steps: bool

    def native(self, kind: str) -> dict[str, Any]:
        """The form for the extension."""
        most = MOST_STEPS if self.max_steps is None else self.max_steps
        times = path_options(kind, self.direction, self.t0, self.t1, self.time_step, self.hold_steps)
        return {**times, "integrator": self.integrator, "tolerance": self.tolerance, "max_steps": most}


def not_saved(summary: Mapping[str, Any], path: str | None) -> str | None:
    """The message for a requested state of particles that was not saved; None if it was saved.

    >>> str(not_saved({"state_saved": False, "failure": "s_1.q: cut off"}, "a.state")).split(",")[0]
    'a.state: the state is not saved'
    >>> not_saved({"state_saved": True}, "a.state") is None
    True
    """
    if summary.get("state_saved") is not False:
        return None
    failure = f" ({why})" if (why := summary.get("failure")) else ""
    return (
        f"{path}: the state is not saved, because lines met a page that could not be read{failure}. Every later run "
        "would end them there; repair that file and trace again"
    )


def options_text(options: Mapping[str, Any]) -> str:
    """Options as JSON; numbers of NumPy become plain ones."""
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in options.items()}
    for key, value in plain.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{key} is {value}; it must be a finite number, or be left out")
    return json.dumps({**plain, "scalars": field_names(plain.get("scalars"))})


def path_options(
    kind: str, direction: str | None, t0: float | None, t1: float | None, time_step: float | None, hold_steps: bool
) -> dict[str, Any]:
    """Options for a kind of line. Particles with an end before their release go backward.

    >>> path_options("pathline", None, 2.0, 1.0, None, False)["direction"]
    'backward'
    >>> path_options("streamline", None, None, None, None, False)
    {'kind': 'streamline', 'direction': 'both'}
    """
    if kind == "streamline":
        return {"kind": kind, "direction": direction or "both"}
    if direction is None:
        direction = "backward" if t0 is not None and t1 is not None and t1 < t0 else "forward"
    return {
        "kind": kind,
        "direction": direction,
        "t0": t0,
        "t1": t1,
        "time_step": time_step,
        "hold_steps": hold_steps,
    }


def release_options(every: float | None, steps: int | None, times: Sequence[float] | None) -> dict[str, Any]:
    """Options for the release times of streaklines.

    Raises:
        UsageError: if a time is not a finite number.

    >>> release_options(None, None, (0, 0.5))["release_times"]
    [0.0, 0.5]
    """
    return {"release_every": every, "release_steps": steps, "release_times": _times("release", times)}


def _times(what: str, times: Any) -> list[float] | None:
    """Times of releases or of output, as floats.

    Raises:
        UsageError: if they are not a list of finite numbers.
    """
    if times is None:
        return None
    try:
        if isinstance(times, str | bytes):
            raise TypeError
        found = [float(t) for t in times]
    except (TypeError, ValueError):
        raise UsageError(f"{what}_times are numbers such as [0.5, 1.0], not {times!r}") from None
    for t in found:
        if not math.isfinite(t):
            raise UsageError(f"{what} times are finite numbers, not {t}")
    return found


def output_options(
    every: float | None,
    times: Sequence[float] | Literal["steps"] | None,
    save_state: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Options for the output times of lines, and for the files of the particles' state.

    Raises:
        UsageError: if a time is not a finite number.

    >>> output_options(None, "steps", None, "run.state")
    {'output_every': None, 'output_times': None, 'output_steps': True, 'save_state': None, 'resume': 'run.state'}
    """
    if isinstance(times, str) and times != "steps":
        raise UsageError(f"output_times are numbers such as [0.5, 1.0], or the word steps, not '{times}'")
    return {
        "output_every": every,
        "output_times": None if isinstance(times, str) else _times("output", times),
        "output_steps": isinstance(times, str),
        "save_state": None if save_state is None else os.fspath(save_state),
        "resume": None if resume is None else os.fspath(resume),
    }


def curve_options(
    curves: int | Sequence[int] | None, refine: float | None, refine_length: float | None, max_points: int
) -> dict[str, Any]:
    """Options of timelines. `refine_length` takes precedence over the default of `refine`.

    >>> curve_options(5, 2.0, 0.1, 100)
    {'curve_points': 5, 'curves': None, 'refine': None, 'refine_length': 0.1, 'max_points': 100}
    """
    each = curves if isinstance(curves, int) else None
    return {
        "curve_points": each,
        "curves": None if curves is None or isinstance(curves, int) else [int(n) for n in curves],
        "refine": None if refine_length is not None else (0.0 if refine is None else refine),
        "refine_length": refine_length,
        "max_points": max_points,
    }


def step_numbers(steps: str | slice | Sequence[int], count: int) -> list[int]:
    """Numbers of the selected time steps, out of `count`.

    Raises:
        UsageError: if the selection is invalid.

    >>> step_numbers("all", 3), step_numbers(slice(1, None, 2), 5), step_numbers((0, -1), 3), step_numbers("0:4:2", 5)
    ([0, 1, 2], [1, 3], [0, 2], [0, 2])
    """
    chosen: slice | Sequence[int]
    if isinstance(steps, str):
        words = [":"] if steps == "all" else steps.split(",")
        try:
            if len(words) == 1 and ":" in words[0]:
                chosen = slice(*(int(word) if word.strip() else None for word in words[0].split(":")))
            else:
                chosen = [int(word) for word in words]
            if isinstance(chosen, slice):
                chosen.indices(count)
        except (TypeError, ValueError) as error:
            raise UsageError(f"steps are all, a:b:s as in Python, or numbers such as 0,2,5, not '{steps}'") from error
    else:
        chosen = steps
    found = list(range(count))[chosen] if isinstance(chosen, slice) else [int(n) for n in chosen]
    for n in found:
        if not -count <= n < count:
            raise UsageError(
                f"there is no time step {n}; there {'is 1' if count == 1 else f'are {count}'}, counted from 0"
            )
    if not found:
        raise UsageError(f"no time step is chosen; there {'is 1' if count == 1 else f'are {count}'}, counted from 0")
    return [n % count for n in found]
