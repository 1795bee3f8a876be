"""Coordinates of another name than the dimension that they lie along, or of two dimensions (CF: auxiliary coordinates).

Those of one dimension are lines. Those of several, and several along one, place nothing here, and it is said which they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.cf.axes import by_attributes
from farfield.volume.formats.cf.conventions import Coordinate
from farfield.volume.formats.cf.coordinates import LONGEST

COORDINATE_RANK = 3
"""Dimensions of a coordinate at most: two, and one of length 1."""


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
    if not open_:  # others are not even looked at: there may be many
        return found
    here = [o for o in others if o.name not in sizes and _concerns(o, sizes, listed)]
    for dimension in open_:
        along = [o for o in here if list(_wide(o)) == [dimension] and _is_short(o)]
        asked = [o for o in along if o.name in listed]
        which = asked or along
        if len(which) == 1:
            other = which[0]
            found.lines[dimension] = Coordinate(other.name, other.attributes, _flat(other))
            if not asked:
                found.said.append(
                    f"its dimension '{dimension}' has no coordinate of that name: '{other.name}', which lies along it, is taken"
                )
        elif which:  # stations, say: each has a latitude and a longitude
            beyond += [other.name for other in which if other.name not in beyond]
    for other in here:
        if len(_wide(other)) > 1:
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
