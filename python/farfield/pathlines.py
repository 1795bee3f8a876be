"""Lines of particles that go on while the flow changes."""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farfield import _core
from farfield.errors import UsageError
from farfield.lines import MOST_STEPS, Lines
from farfield.names import field_names
from farfield.progress import Report, reporting
from farfield.seeds import resolve


class OverTime(ABC):
    """What a dataset of several time steps can be asked for, beside what each of them can."""

    _native: _core.Dataset
    _step: int | None

    @property
    @abstractmethod
    def times(self) -> NDArray[np.float64]:
        """Time of each step."""

    def _since(self, t0: float | None) -> float | None:
        """When particles are let go: at the time that was selected, unless another is given."""
        return float(self.times[self._step]) if t0 is None and self._step is not None else t0

    def pathlines(
        self,
        vectors: str = "velocity",
        *,
        seeds: ArrayLike | str | os.PathLike[str],
        t0: float | None = None,
        t1: float | None = None,
        integration_direction: str | None = None,
        integrator: str = "rk45",
        time_step: float | None = None,
        max_steps: int | None = 2000,
        max_length: float | None = None,
        tolerance: float = 1e-6,
        hold_steps: bool = False,
        scalars: Sequence[str] = (),
        progress: bool | Report | None = None,
    ) -> Lines:
        """Follows particles while the flow, and the grid where it moves, change. `time` of the result is the dataset's.

        Args:
            vectors: The vector field.
            seeds: As in `streamlines`.
            t0: When the particles are let go; None for the time that was selected, else the first, or backward the last.
            t1: Until when they are followed; None for the last time, or backward the first.
            integration_direction: `"forward"` or `"backward"` in time; None follows from `t0` and `t1`.
            integrator: `"rk45"` or `"rk45-physical"`, the same here, with step control; `"rk4"` or `"euler"` with steps of
                `time_step`.
            time_step: Longest step, time; None takes it from the cell.
            max_steps: Steps of a line; None for no bound.
            max_length: Length of a line; None for no bound.
            tolerance: Local error that a step may make, as a share of its length, as the method estimates it. Steps go across
                cell faces, where a sampled field has kinks that the estimate does not see: at one tolerance pathlines are some
                hundred times less exact than streamlines, whose steps end at faces.
            hold_steps: A time step holds until the next, instead of linear interpolation between them.
            scalars: Fields sampled along the lines (vectors too).
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument makes no sense, or a time lies outside of the dataset's.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> lines = ff.open("demo:box").pathlines(seeds=[(0.7, 0.5, 0.3)], t0=0.0, t1=0.5)
        >>> float(lines.time[-1]), str(lines.reason[0])
        (0.5, 'time')
        """
        spec, array = resolve(seeds)
        options = {
            "seeds": spec,
            "field": vectors,
            **path_options("pathline", integration_direction, self._since(t0), t1, time_step, hold_steps),
            "integrator": integrator,
            "tolerance": tolerance,
            "max_length": max_length,
            "max_steps": MOST_STEPS if max_steps is None else max_steps,
            "scalars": scalars,
        }
        with reporting(progress) as report:
            return Lines(self._native.streamlines(options_text(options), seeds=array, progress=report))

    def streaklines(
        self,
        vectors: str = "velocity",
        *,
        seeds: ArrayLike | str | os.PathLike[str],
        t0: float | None = None,
        t1: float | None = None,
        release_every: float | None = None,
        release_steps: int | None = None,
        release_times: Sequence[float] | None = None,
        integration_direction: str | None = None,
        integrator: str = "rk45",
        time_step: float | None = None,
        max_steps: int | None = 2000,
        tolerance: float = 1e-6,
        hold_steps: bool = False,
        scalars: Sequence[str] = (),
        progress: bool | Report | None = None,
    ) -> Lines:
        """Where the particles are at `t1` that were let go at each seed one after the other: one line a seed, from the particle
        let go last to the first. Each has its `birth` and its `age`; those that have left, or met a hole or a wall, are not
        there any more.

        Args:
            vectors: The vector field.
            seeds: As in `streamlines`.
            t0: When the first particles are let go; None as in `pathlines`.
            t1: The time of the streaklines; None for the last time, or backward the first.
            release_every: Time between particles.
            release_steps: Time steps of the dataset between particles; 1 unless one of the three is given.
            release_times: When particles are let go.
            integration_direction: As in `pathlines`.
            integrator: As in `pathlines`.
            time_step: As in `pathlines`.
            max_steps: Steps of a particle; None for no bound.
            tolerance: As in `pathlines`.
            hold_steps: As in `pathlines`.
            scalars: Fields sampled at the particles, at `t1`.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument makes no sense, or a time lies outside of the dataset's.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> smoke = ff.open("demo:box").streaklines(seeds=[(0.7, 0.5, 0.3)], t0=0.0, t1=0.4, release_every=0.1)
        >>> [round(float(age), 3) for age in smoke["age"]]
        [0.0, 0.1, 0.2, 0.3, 0.4]
        """
        spec, array = resolve(seeds)
        options = {
            "seeds": spec,
            "field": vectors,
            **path_options("streakline", integration_direction, self._since(t0), t1, time_step, hold_steps),
            **release_options(release_every, release_steps, release_times),
            "integrator": integrator,
            "tolerance": tolerance,
            "max_steps": MOST_STEPS if max_steps is None else max_steps,
            "scalars": scalars,
        }
        with reporting(progress) as report:
            return Lines(self._native.streamlines(options_text(options), seeds=array, progress=report))


def options_text(options: Mapping[str, Any]) -> str:
    """Options as JSON, NumPy's numbers among them."""
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in options.items()}
    for key, value in plain.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{key} is {value}; it must be a finite number, or be left out")
    return json.dumps({**plain, "scalars": field_names(plain.get("scalars"))})


def path_options(
    kind: str, direction: str | None, t0: float | None, t1: float | None, time_step: float | None, hold_steps: bool
) -> dict[str, Any]:
    """Options of the extension for a kind of line. Particles whose end is before their release go backward.

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
    """Options of the extension that say when the particles of streaklines are let go.

    Raises:
        UsageError: for a time that is no finite number.

    >>> release_options(None, None, (0, 0.5))["release_times"]
    [0.0, 0.5]
    """
    at = None if times is None else [float(t) for t in times]
    for t in at or ():
        if not math.isfinite(t):
            raise UsageError(f"a release time is a finite number, not {t}")
    return {"release_every": every, "release_steps": steps, "release_times": at}
