"""Lines of particles that go on while the flow changes."""

from __future__ import annotations

import json
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from farfield import _core
from farfield.dataset.field_names import field_names
from farfield.errors import UsageError
from farfield.flow.seeds import file_of, resolve
from farfield.results import outputs
from farfield.results.lines import MOST_STEPS, Lines
from farfield.runtime.progress import Report, reporting
from farfield.sources.source import Source


class OverTime(ABC):
    """What a dataset of several time steps can be asked for, beside what each of them can."""

    _native: _core.Dataset
    _source: Source

    @abstractmethod
    def _since(self, t0: float | None, t1: float | None = None, direction: str | None = None) -> float | None:
        """When particles are let go, with regard to the steps that are selected."""

    @abstractmethod
    def _until(self, t0: float | None, t1: float | None, direction: str | None) -> float | None:
        """Until when they are followed, likewise."""

    def _span(self, t0: float | None, t1: float | None, direction: str | None) -> tuple[float | None, float | None]:
        """From when until when, of the time steps that were selected."""
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
            stop: A condition that ends a line, as in `streamlines`; it is looked at after every step, whether its point is kept or
                not.
            output_every: Time between the files of a `.pvd` that the lines are saved as; steps end there.
            output_times: The times of those files instead; None or `"steps"` for `t0`, each time step and `t1`.
            trail: How much of its line each particle trails behind it in those files, time; None: nothing.
            save_state: A file that keeps the state of the particles, so that they go on when there are more time steps. `t1` must
                be a time step then; `output_times` may go on behind it, for the runs that do. It is written when the run is done,
                and not where pages could not be read: then there is a warning.
            resume: A state that was kept: of the same dataset, which may have got longer, by the same options; it may be the file
                of `save_state`, too. The lines are those of one run from `t0` to `t1`, bit for bit.
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
        how = {**how_far(integrator, tolerance, max_steps, scalars, stop), "max_length": max_length, "trail": trail}
        kept = output_options(output_every, output_times, save_state, resume)
        times = (integration_direction, *self._span(t0, t1, integration_direction), time_step, hold_steps)
        return self._particles(
            "pathline", vectors, seeds, {**path_options("pathline", *times), **how, **kept}, progress
        )

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
            scalars: Fields sampled at the particles.
            stop: As in `pathlines`: a particle for which it has held once is not there any more.
            output_every: Time between streaklines, where more than the one at `t1` is wanted: a line a seed and time, whose
                `line_time` says when it is.
            output_times: The times of the streaklines instead; `"steps"` for `t0`, each time step and `t1`.
            save_state: As in `pathlines`; `release_times` may go on behind `t1`, too.
            resume: As in `pathlines`.
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
        how = {
            **how_far(integrator, tolerance, max_steps, scalars, stop),
            **release_options(release_every, release_steps, release_times),
            **output_options(output_every, output_times, save_state, resume),
        }
        times = (integration_direction, *self._span(t0, t1, integration_direction), time_step, hold_steps)
        return self._particles("streakline", vectors, seeds, {**path_options("streakline", *times), **how}, progress)

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
        """Where curves are at `t1` that are let go at `t0` and move with the flow: one line a curve, or one a curve and time of
        output. Each point has `s`, the number of its seed in the curve, with fractions between two seeds, and its `age`.

        Where neighbours get too far apart a particle is let go between them, on the curve as it was released and at the time of
        the release: every point is where a particle really is. Particles that have left, or met a hole or a wall, are left out.

        Args:
            vectors: The vector field.
            seeds: As in `streamlines`, of positions: points of curves, in order.
            t0: When the curves are let go; None as in `pathlines`.
            t1: The time of the timelines; None for the last time, or backward the first.
            curves: How many seeds make a curve, or where curves begin among the seeds and last how many seeds there are,
                `[0, 50, 120]`; None: all seeds are one curve.
            refine: How many times as far apart as at the release two neighbours may get; None: however far.
            refine_length: How far apart neighbours may get, a length, instead.
            max_points: The most points of a curve. One that wants more ends as `points`.
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
            UsageError: if an argument makes no sense, or a time lies outside of the dataset's.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> curve = ff.rake((0.7, 0.5, 0.3), (0.9, 0.5, 0.3), n_points=3)
        >>> line = ff.open("demo:box").timelines(seeds=curve, t0=0.0, t1=0.2)
        >>> line["s"].tolist(), [round(float(age), 3) for age in line["age"]]
        ([0.0, 1.0, 2.0], [0.2, 0.2, 0.2])
        """
        how = {
            **how_far(integrator, tolerance, max_steps, scalars, stop),
            **curve_options(curves, refine, refine_length, max_points),
            **output_options(output_every, output_times),
        }
        times = (integration_direction, *self._span(t0, t1, integration_direction), time_step, hold_steps)
        return self._particles("timeline", vectors, seeds, {**path_options("timeline", *times), **how}, progress)

    def _particles(
        self,
        kind: str,
        vectors: str,
        seeds: ArrayLike | str | os.PathLike[str],
        how: Mapping[str, Any],
        progress: bool | Report | None,
    ) -> Lines:
        spec, array = resolve(seeds)
        options = {**how, "seeds": spec, "field": vectors, "kind": kind}
        # The state that the run goes on from may be the one that it keeps: that takes its place when the run is done.
        outputs.check([options.get("save_state")], [*self._source.reads(), *file_of(spec)])
        with reporting(progress) as report:
            lines = Lines(self._native.streamlines(options_text(options), seeds=array, progress=report))
        if said := not_saved(lines.summary, options.get("save_state")):
            warnings.warn(said, RuntimeWarning, stacklevel=3)
        return lines


def not_saved(summary: Mapping[str, Any], path: str | None) -> str | None:
    """What there is to say where the state of the particles was to be kept and is not.

    >>> str(not_saved({"state_saved": False, "failure": "s_1.q: cut off"}, "a.state")).split(",")[0]
    'a.state: the state is not saved'
    >>> not_saved({"state_saved": True}, "a.state") is None
    True
    """
    if summary.get("state_saved") is not False:
        return None
    failure = f" ({why})" if (why := summary.get("failure")) else ""
    return (
        f"{path}: the state is not saved, because lines met a page that could not be read{failure} and would have ended there "
        "in every run that goes on; put that file right and trace again"
    )


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
    return {"release_every": every, "release_steps": steps, "release_times": _times("release", times)}


def _times(what: str, times: Any) -> list[float] | None:
    """Times of releases or of output, as numbers.

    Raises:
        UsageError: for what is none, or is no finite number.
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


def how_far(
    integrator: str, tolerance: float, max_steps: int | None, scalars: Sequence[str], stop: str | None
) -> dict[str, Any]:
    """Options of the extension that all kinds of particles have."""
    most = MOST_STEPS if max_steps is None else max_steps
    return {"integrator": integrator, "tolerance": tolerance, "max_steps": most, "scalars": scalars, "stop": stop}


def output_options(
    every: float | None,
    times: Sequence[float] | Literal["steps"] | None,
    save_state: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Options of the extension that say when lines are wanted, and where the state of their particles is.

    Raises:
        UsageError: for a time that is no finite number.

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
    """Options of the extension that timelines have. A length wins over the default of `refine`.

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
    """Numbers of time steps, of `count`.

    Raises:
        UsageError: for what says no steps.

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
