"""Coordinates of another name than the dimension that they lie along, or of two dimensions (CF: auxiliary coordinates).

Those of one dimension are lines. Those of two are, where each varies along one dimension alone: that is a rectilinear grid, written
out. Others place nothing here, and it is said which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.axes import by_attributes
from farfield.volume.cf import Coordinate, number
from farfield.volume.lines import LONGEST

_MOST = 1 << 23
"""Numbers of a coordinate of two dimensions that is looked at."""
COORDINATE_RANK = 3
"""Dimensions of a coordinate at most: two, and one of length 1."""
_ALIKE = 1e-6
"""Of what they span, by which numbers along a line may differ: single precision rounds."""


@dataclass(frozen=True)
class Other:
    """An array beside the one that is shown."""

    name: str
    dimensions: Sequence[str | None]
    shape: Sequence[int]
    attributes: Mapping[str, Any]
    values: Callable[[], NDArray[Any]]
    """Reads all of it."""


@dataclass
class Found:
    """What lies beside an array."""

    lines: dict[str, Coordinate]
    """By name of the dimension."""
    beyond: tuple[str, ...]
    """Coordinates that place nothing."""
    said: list[str]


def find(
    names: Sequence[str | None],
    lengths: Sequence[int],
    about: Mapping[str, Any],
    known: Iterable[str],
    others: Iterable[Other],
) -> Found:
    """Coordinates of dimensions that have none of their own name (those are `known`); `about` are attributes of the array.

    >>> lat = Other("lat", ["ny"], [2], {"units": "degrees_north"}, lambda: np.array([1.0, 2.0]))
    >>> find(["ny", "nx"], [2, 3], {"coordinates": "lat"}, [], [lat]).lines["ny"].name
    'lat'
    """
    listed = str(about.get("coordinates", "")).split()
    sizes = {name: length for name, length in zip(names, lengths, strict=True) if name is not None}
    open_ = [name for name in sizes if name not in set(known) and sizes[name] > 1]
    found = Found({}, (), [])
    beyond: list[str] = []
    here = [o for o in others if o.name not in sizes and _concerns(o, sizes, listed)]
    for dimension in open_:
        along = [o for o in here if list(_wide(o)) == [dimension] and len(_wide(o)) == 1 and o.shape and _is_short(o)]
        asked = [o for o in along if o.name in listed]
        which = asked or along
        if len(which) == 1:
            other = which[0]
            found.lines[dimension] = Coordinate(other.name, other.attributes, _flat(other))
            if not asked:
                found.said.append(
                    f"its dimension '{dimension}' has no coordinate of that name: '{other.name}', which lies along it, is taken"
                )
    flat = [o for o in here if len(_wide(o)) == 2]
    lines = {o.name: line for o in flat if (line := _line_in(o)) is not None}
    for dimension in open_:
        which = [o for o in flat if o.name in lines and lines[o.name][0] == dimension]
        if dimension not in found.lines and len(which) == 1:
            found.lines[dimension] = Coordinate(which[0].name, which[0].attributes, _given(lines[which[0].name][1]))
    used = {coordinate.name for coordinate in found.lines.values()}
    written = [o.name for o in flat if o.name in used]
    if written:
        found.said.append(
            f"its coordinates {', '.join(written)} have two dimensions, and vary along one each: they are taken as lines"
        )
    for other in here:
        if len(_wide(other)) > 1 and other.name not in used:
            beyond.append(other.name)
    found.beyond = tuple(beyond)
    return found


def _concerns(other: Other, sizes: Mapping[str, int], listed: Sequence[str]) -> bool:
    """Whether an array is a coordinate of one that has these dimensions."""
    if not other.dimensions or not all(d in sizes for d in _wide(other)):
        return False
    return other.name in listed or by_attributes(other.attributes) is not None


def _wide(other: Other) -> dict[str | None, int]:
    """Its dimensions that are longer than 1."""
    return {d: n for d, n in zip(other.dimensions, other.shape, strict=True) if n > 1}


def _is_short(other: Other) -> bool:
    return math.prod(other.shape) <= LONGEST


def _flat(other: Other) -> Callable[[], NDArray[Any]]:
    return lambda: np.asarray(other.values()).reshape(-1)


def _given(values: NDArray[Any]) -> Callable[[], NDArray[Any]]:
    return lambda: values


def _line_in(other: Other) -> tuple[str | None, NDArray[Any]] | None:
    """The dimension along which an array of two varies, if along the other one it does not, and its numbers there."""
    if math.prod(other.shape) > _MOST:
        return None
    values = np.asarray(other.values())
    if values.dtype.kind not in "iuf" or values.size != math.prod(other.shape):
        return None
    (first, rows), (second, columns) = _wide(other).items()
    table = values.reshape(rows, columns)
    none = number(other.attributes.get("_FillValue"))
    if not np.isfinite(table).all() or (none is not None and (table == none).any()):
        return None
    slack = _ALIKE * float(max(np.ptp(table), np.abs(table).max() * 1e-1))
    if float(np.ptp(table, axis=0).max()) <= slack < float(np.ptp(table)):
        return second, table[0]
    if float(np.ptp(table, axis=1).max()) <= slack < float(np.ptp(table)):
        return first, table[:, 0]
    return None
