"""Unsteady lines: pathlines, streaklines and timelines."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from farfield import _core
from farfield.flow.particle_options import (
    Following,
    curve_options,
    not_saved,
    options_text,
    output_options,
    release_options,
)
from farfield.flow.seeds import file_of, resolve
from farfield.results import outputs
from farfield.results.lines import Lines
from farfield.runtime.progress import Report, reporting
from farfield.sources.source import Source


class OverTime(ABC):
    """Unsteady lines of a dataset with several time steps."""

    _native: _core.Dataset
    _source: Source

    @abstractmethod
    def _since(self, t0: float | None, t1: float | None = None, direction: str | None = None) -> float | None:
        """Time of release, given the selected steps."""

    @abstractmethod
    def _until(self, t0: float | None, t1: float | None, direction: str | None) -> float | None:
        """Time of the end, given the selected steps."""

    def _span(self, t0: float | None, t1: float | None, direction: str | None) -> tuple[float | None, float | None]:
        """Times of release and end, given the selected steps."""
        return self._since(t0, t1, direction), self._until(t0, t1, direction)

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
        stop: str | None = None,
        output_every: float | None = None,
        output_times: Sequence[float] | Literal["steps"] | None = None,
        trail: float | None = None,
        save_state: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        progress: bool | Report | None = None,
    ) -> Lines:
        """Follows particles through the unsteady flow, on moving grids too. `time` of the result is the dataset's.

        Args:
            vectors: The vector field.
            seeds: As in `streamlines`.
            t0: Time of release. None: the selected time, else the first; backward the last.
            t1: Time of the end. None: the last time; backward the first.
            integration_direction: `"forward"` or `"backward"` in time; None derives it from `t0` and `t1`.
            integrator: `"rk45"` or `"rk45-physical"`, equal here, with step control; or `"rk4"` or `"euler"` with steps
                of `time_step`.
            time_step: Longest step in time; None derives it from the cell.
            max_steps: Steps of a line; None for no bound.
            max_length: Length of a line; None for no bound.
            tolerance: Estimated local error of a step, relative to its length. Steps cross cell faces, and the estimate
                misses the kinks of sampled fields there. At equal tolerance, pathlines are some hundred times less
                exact than streamlines, whose steps end at faces.
            hold_steps: Values of a time step hold until the next, without interpolation.
            scalars: Fields sampled along the lines (vectors too).
            stop: A condition that ends a line, as in `streamlines`, tested after every step.
            output_every: Time between the files of a saved `.pvd`; steps end at these times.
            output_times: Times of these files instead. None or `"steps"`: `t0`, each time step and `t1`.
            trail: Duration of the part of its line that each particle trails in these files; None: no trail.
            save_state: A file for the state of the particles, from which a later run continues with more time steps.
                `t1` must be a time step; `output_times` may include later times, for those runs. The file is written at
                the end of the run. If pages failed, there is a warning instead.
            resume: A saved state of the same dataset, possibly with more steps, with the same options. It may be the
                file of `save_state`. The lines equal those of one run from `t0` to `t1`, bit for bit.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument is invalid, or if a time is outside of the dataset's.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> lines = ff.open("demo:box").pathlines(seeds=[(0.7, 0.5, 0.3)], t0=0.0, t1=0.5)
        >>> float(lines.time[-1]), str(lines.reason[0])
        (0.5, 'time')
        """
        span = self._span(t0, t1, integration_direction)
        how = Following(*span, integration_direction, integrator, time_step, max_steps, tolerance, hold_steps).native(
            "pathline"
        )
        how |= {"field": vectors, "scalars": scalars, "stop": stop, "max_length": max_length, "trail": trail}
        how |= output_options(output_every, output_times, save_state, resume)
        return self._particles(seeds, how, progress)

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
        stop: str | None = None,
        output_every: float | None = None,
        output_times: Sequence[float] | Literal["steps"] | None = None,
        save_state: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        progress: bool | Report | None = None,
    ) -> Lines:
        """Particles at `t1` that were released one after another at each seed. A seed gives one line, from the last
        released particle to the first, with `birth` and `age` at each. Particles that left, or met a hole or a wall,
        are absent.

        Args:
            vectors: The vector field.
            seeds: As in `streamlines`.
            t0: Time of the first release; None as in `pathlines`.
            t1: Time of the streaklines. None: the last time; backward the first.
            release_every: Time between releases.
            release_steps: Time steps of the dataset between releases; 1 unless one of the three is given.
            release_times: Times of releases.
            integration_direction: As in `pathlines`.
            integrator: As in `pathlines`.
            time_step: As in `pathlines`.
            max_steps: Steps of a particle; None for no bound.
            tolerance: As in `pathlines`.
            hold_steps: As in `pathlines`.
            scalars: Fields sampled at the particles.
            stop: As in `pathlines`; particles that have met the condition are dropped.
            output_every: Time between streaklines, for more than the one at `t1`: a line per seed and time, with its
                time in `line_time`.
            output_times: Times of the streaklines instead; `"steps"` for `t0`, each time step and `t1`.
            save_state: As in `pathlines`; `release_times` may include times after `t1`, too.
            resume: As in `pathlines`.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument is invalid, or if a time is outside of the dataset's.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> smoke = ff.open("demo:box").streaklines(seeds=[(0.7, 0.5, 0.3)], t0=0.0, t1=0.4, release_every=0.1)
        >>> [round(float(age), 3) for age in smoke["age"]]
        [0.0, 0.1, 0.2, 0.3, 0.4]
        """
        span = self._span(t0, t1, integration_direction)
        how = Following(*span, integration_direction, integrator, time_step, max_steps, tolerance, hold_steps).native(
            "streakline"
        )
        how |= {"field": vectors, "scalars": scalars, "stop": stop}
        how |= release_options(release_every, release_steps, release_times)
        how |= output_options(output_every, output_times, save_state, resume)
        return self._particles(seeds, how, progress)

    def timelines(
        self,
        vectors: str = "velocity",
        *,
        seeds: ArrayLike | str | os.PathLike[str],
        t0: float | None = None,
        t1: float | None = None,
        curves: int | Sequence[int] | None = None,
        refine: float | None = 2.0,
        refine_length: float | None = None,
        max_points: int = 10_000,
        integration_direction: str | None = None,
        integrator: str = "rk45",
        time_step: float | None = None,
        max_steps: int | None = 2000,
        tolerance: float = 1e-6,
        hold_steps: bool = False,
        scalars: Sequence[str] = (),
        stop: str | None = None,
        output_every: float | None = None,
        output_times: Sequence[float] | Literal["steps"] | None = None,
        progress: bool | Report | None = None,
    ) -> Lines:
        """Curves released at `t0`, at `t1` after motion with the flow: one line per curve and time of output. Each
        point has an `age` and `s`, its place in the curve: the number of its seed, with fractions between seeds.

        Between neighbours too far apart, a new particle is released, on the initial curve and at the initial time. So
        every point is the true place of a particle. Particles that left, or met a hole or a wall, are dropped.

        Args:
            vectors: The vector field.
            seeds: As in `streamlines`, but positions only: points of curves, in order.
            t0: Time of release; None as in `pathlines`.
            t1: Time of the timelines. None: the last time; backward the first.
            curves: Number of seeds per curve, or the first seed of each curve and then the number of seeds, `[0, 50,
                120]`; None: all seeds are one curve.
            refine: Largest distance of neighbours, relative to that at the release; None: no bound.
            refine_length: Largest distance of neighbours as a length, instead.
            max_points: Largest number of points per curve. A curve that needs more ends with the reason `points`.
            integration_direction: As in `pathlines`.
            integrator: As in `pathlines`.
            time_step: As in `pathlines`.
            max_steps: Steps of a particle; None for no bound.
            tolerance: As in `pathlines`.
            hold_steps: As in `pathlines`.
            scalars: Fields sampled at the points.
            stop: As in `streaklines`.
            output_every: As in `streaklines`.
            output_times: As in `streaklines`.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument is invalid, or if a time is outside of the dataset's.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> curve = ff.rake((0.7, 0.5, 0.3), (0.9, 0.5, 0.3), n_points=3)
        >>> line = ff.open("demo:box").timelines(seeds=curve, t0=0.0, t1=0.2)
        >>> line["s"].tolist(), [round(float(age), 3) for age in line["age"]]
        ([0.0, 1.0, 2.0], [0.2, 0.2, 0.2])
        """
        span = self._span(t0, t1, integration_direction)
        how = Following(*span, integration_direction, integrator, time_step, max_steps, tolerance, hold_steps).native(
            "timeline"
        )
        how |= {"field": vectors, "scalars": scalars, "stop": stop}
        how |= curve_options(curves, refine, refine_length, max_points)
        how |= output_options(output_every, output_times)
        return self._particles(seeds, how, progress)

    def _particles(
        self,
        seeds: ArrayLike | str | os.PathLike[str],
        how: Mapping[str, Any],
        progress: bool | Report | None,
    ) -> Lines:
        spec, array = resolve(seeds)
        options = {**how, "seeds": spec}
        # The saved state may replace the one that the run resumes from.
        outputs.check([options.get("save_state")], [*self._source.reads(), *file_of(spec)])
        with reporting(progress) as report:
            lines = Lines(self._native.streamlines(options_text(options), seeds=array, progress=report))
        if said := not_saved(lines.summary, options.get("save_state")):
            warnings.warn(said, RuntimeWarning, stacklevel=3)
        return lines
