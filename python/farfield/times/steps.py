"""Selection of time steps by `isel` and `sel`, as in xarray, without reading data."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from farfield.errors import UsageError

_METHODS = {None: None, "nearest": "nearest", "pad": "pad", "ffill": "pad", "backfill": "backfill", "bfill": "backfill"}
_SAME = 1e-9
"""Relative difference below which times are equal, since one may have been converted to text and back."""


class TimeSteps(ABC):
    """Selections of time steps. A view shares files, pages and memory limit with its dataset."""

    _steps: range | None = None
    """The steps of a view among all; None: all."""
    _one: bool = False
    """Whether a single step was selected, from which particles continue through later steps."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """The JSON of `farfield info --json`."""

    @abstractmethod
    def _view(self) -> Self:
        """A copy of the dataset that shares its files and pages."""

    @property
    def _step(self) -> int | None:
        """The step for results of a single time; None: the first of all."""
        return None if self._steps is None else self._steps[0]

    @property
    def _all_times(self) -> NDArray[np.float64]:
        return np.asarray(self.info()["times"], dtype=np.float64)

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of the selected steps, in `time_units`."""
        times = self._all_times
        return times if self._steps is None else times[list(self._steps)]

    @property
    def time_values(self) -> NDArray[np.float64]:
        """The same as `times`, under the name in PyVista's readers."""
        return self.times

    @property
    def time_units(self) -> str:
        """Unit of times, ages and release times: `"s"`, or `"1"` if times have no unit or count steps.

        >>> import farfield as ff
        >>> ff.open("demo:box").time_units
        '1'
        """
        return str(self.info()["time_units"])

    def isel(self, *, time: int | slice) -> Self:
        """A time step by number, negative ones from the end; or several by a slice.

        Of several steps, results of a single time (streamlines, slices, arrays) use the first. Particles move from
        the first to the last.

        Raises:
            UsageError: if the step does not exist.

        >>> import farfield as ff
        >>> ff.open("demo:box").isel(time=-1)["density"].shape
        (33, 41, 49)
        """
        steps = self._steps if self._steps is not None else range(max(1, len(self._all_times)))
        if isinstance(time, slice):
            try:
                chosen = steps[time]
            except (TypeError, ValueError) as error:
                raise UsageError(f"steps are selected by whole numbers, not {time}: {error}") from None
            if not chosen or chosen.step < 0:
                what = "goes backward" if chosen else "selects none"
                raise UsageError(f"{time} {what} of {_count(len(steps))}, counted from 0; give first:last:stride")
            return self._with(chosen, one=False)
        try:
            number = operator.index(time)
        except TypeError:
            raise UsageError(
                f"a step is a whole number or a slice of them, not {time!r}; sel(time=...) takes times"
            ) from None
        if not -len(steps) <= number < len(steps):
            there = "is 1" if len(steps) == 1 else f"are {len(steps)}"
            raise UsageError(f"there is no time step {number}; there {there}, counted from 0")
        at = steps[number]
        return self._with(range(at, at + 1), one=True)

    def sel(self, *, time: float | slice, method: str | None = None, tolerance: float | None = None) -> Self:
        """A time step by its time; or by a slice, all steps between two times, both inclusive. Steps without times in
        the files are only numbered and cannot be selected by time.

        Args:
            time: Time in `time_units`.
            method: None for an exact match, `"nearest"` for the closest step, `"pad"` (or `"ffill"`) for the last one
                before, `"backfill"` (or `"bfill"`) for the first one after.
            tolerance: Largest difference; None for no bound.

        Raises:
            UsageError: if no step matches, or if the steps have no times.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> ds.sel(time=float(ds.times[0])), ds.sel(time=0.42, method="nearest")
        (<farfield.Dataset demo:box: ..., at step 0, <farfield.Dataset demo:box: ..., at step 0)
        """
        times = self.times
        if len(times) == 0:
            raise UsageError("the dataset has no times; it is steady")
        why = self.info()["times_why"]
        if why is not None:
            raise UsageError(f"{why} isel(time=...) takes the numbers of steps")
        if method not in _METHODS:
            raise UsageError(f"method is None, 'nearest', 'pad' or 'backfill', not {method!r}")
        if tolerance is not None and (method is None or not _number("tolerance", tolerance) >= 0):
            raise UsageError(
                "a tolerance is a distance in time of 0 or more, and goes with method='nearest', 'pad' or 'backfill'"
            )
        if isinstance(time, slice):
            return self._between_times(time, method)
        time = _number("time", time)
        if not math.isfinite(time):
            raise UsageError(f"a time is a finite number, not {time}")
        step = _find(times, time, _METHODS[method])
        if step is None:
            raise UsageError(f"no step has time {time}; {self._range()}{_hint(times, time, method)}")
        away = abs(float(times[step]) - time)
        if tolerance is not None and away > tolerance:
            raise UsageError(
                f"no step is within {tolerance} of time {time}: the closest that method={method!r} finds is {times[step]}"
            )
        return self.isel(time=step)

    def _between_times(self, time: slice, method: str | None) -> Self:
        if method is not None or time.step is not None:
            raise UsageError("a slice of times is first:last, without method and stride; isel takes strides")
        times = self.times
        low, high = (_bound(t, d) for t, d in ((time.start, -math.inf), (time.stop, math.inf)))
        slack = _SAME * max(abs(float(times[0])), abs(float(times[-1])))
        found = np.flatnonzero((times >= low - slack) & (times <= high + slack))
        if len(found) == 0:
            raise UsageError(f"no step lies between times {time.start} and {time.stop}; {self._range()}")
        return self.isel(time=slice(int(found[0]), int(found[-1]) + 1))

    def _range(self) -> str:
        """The existing times, for messages."""
        times = self.times
        unit = f" [{self.time_units}]"
        if len(times) == 1:
            return f"the one step there is has {times[0]:g}{unit}"
        return f"the {len(times)} steps have times {times[0]:g} to {times[-1]:g}{unit}"

    def _with(self, steps: range, *, one: bool) -> Self:
        view = self._view()
        view._steps, view._one = steps, one
        return view

    def _all_selected(self) -> list[int] | None:
        """Numbers of the selected steps; None for all or a single one."""
        return None if self._steps is None or self._one else list(self._steps)

    def _of_selected(self, steps: Sequence[int]) -> list[int]:
        """Numbers in the whole dataset of selected steps."""
        return list(steps) if self._steps is None else [self._steps[n] for n in steps]

    def _since(self, t0: float | None, t1: float | None = None, direction: str | None = None) -> float | None:
        """Time of release: that of a selected step; of several selected steps the first, or backward the last."""
        if self._steps is None:
            return t0
        if self._one:
            return float(self.times[0]) if t0 is None else t0
        return self._within("t0", t0, last=self._backward(t0, t1, direction))

    def _until(self, t0: float | None, t1: float | None, direction: str | None) -> float | None:
        """Time of the end: the last of several selected steps, or backward the first."""
        if self._steps is None or self._one:
            return t1
        return self._within("t1", t1, last=not self._backward(t0, t1, direction))

    def _backward(self, t0: float | None, t1: float | None, direction: str | None) -> bool:
        return direction == "backward" or (direction is None and t0 is not None and t1 is not None and t1 < t0)

    def _within(self, what: str, time: float | None, *, last: bool) -> float:
        stride = 1 if self._steps is None else self._steps.step
        if stride != 1:
            raise UsageError(
                f"particles need all steps, and every {stride}th is selected; select them without a stride"
            )
        times = self.times
        if time is not None and not float(times[0]) <= time <= float(times[-1]):
            raise UsageError(f"{what} is {time}, but {self._range()}; select more steps")
        return float(times[-1 if last else 0]) if time is None else time


def gaps_text(info: Mapping[str, Any]) -> str:
    """Times around gaps between steps, for the first few gaps.

    >>> gaps_text({"times": [0, 1, 5, 6, 9], "times_gaps": [1, 3]}), gaps_text({"times": [0, 1], "times_gaps": []})
    ('1 to 5, 6 to 9', '')
    """
    times, gaps = info["times"], info.get("times_gaps") or []
    more = f" and {len(gaps) - 3} more" if len(gaps) > 3 else ""
    return ", ".join(f"{times[n]:g} to {times[n + 1]:g}" for n in gaps[:3]) + more


def _count(steps: int) -> str:
    return f"{steps} time step{'' if steps == 1 else 's'}"


def _number(what: str, given: Any) -> float:
    try:
        if isinstance(given, str | bytes) or np.ndim(given) > 0:
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        also = ", or a slice from one to another; isel takes numbers of steps" if what == "time" else ""
        raise UsageError(f"{what} is one number in time_units{also}, not {given!r}") from None


def _bound(time: Any, default: float) -> float:
    if time is None:
        return default
    if not isinstance(time, int | float | np.number) or math.isnan(time):
        raise UsageError(f"a time is a number, not {time!r}")
    return float(time)


def _find(times: NDArray[np.float64], time: float, method: str | None) -> int | None:
    """The step for a time; None if there is none."""
    nearest = int(np.argmin(np.abs(times - time)))
    if np.isclose(times[nearest], time, rtol=_SAME, atol=0.0) or method == "nearest":
        return nearest
    steps = np.flatnonzero(times <= time if method == "pad" else times >= time)
    if method is None or len(steps) == 0:
        return None
    return int(steps[-1] if method == "pad" else steps[0])


def _hint(times: NDArray[np.float64], time: float, method: str | None) -> str:
    if method is not None:
        return f", and none is {'before' if _METHODS[method] == 'pad' else 'after'} it"
    nearest = times[int(np.argmin(np.abs(times - time)))]
    return f"; the closest is {nearest}: method='nearest' takes it"
