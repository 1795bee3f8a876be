"""Indices of arrays on disk: ints, slices and `...`, as in NumPy."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np

Index = int | slice | EllipsisType


def bounds_of(
    index: Index | tuple[Index, ...], shape: tuple[int, ...]
) -> tuple[list[tuple[int, int]], list[int | slice], tuple[int, ...]]:
    """Returns the bounds of an index per dimension, the index within that box, and the shape of the result.

    Raises:
        IndexError: if an index is out of range or is not an int, slice or `...`.

    >>> bounds_of((slice(2, 8, 3), -1), (10, 5, 4))
    ([(2, 6), (4, 5), (0, 4)], [slice(None, None, 3), 0, slice(None, None, None)], (2, 4))
    """
    given = index if isinstance(index, tuple) else (index,)
    dots = [n for n, item in enumerate(given) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index holds '...' at most once")
    at = dots[0] if dots else len(given)
    middle = len(shape) - (len(given) - len(dots))
    if middle < 0:
        raise IndexError(f"{len(given) - len(dots)} indices for {len(shape)} dimensions")
    full: list[Any] = [*given[:at], *[slice(None)] * middle, *given[at + 1 :]]
    bounds: list[tuple[int, int]] = []
    rest: list[int | slice] = []
    result: list[int] = []
    for n, (item, size) in enumerate(zip(full, shape, strict=True)):
        if isinstance(item, slice):
            places = range(*item.indices(size))
            low, high = (min(places[0], places[-1]), max(places[0], places[-1]) + 1) if places else (0, 0)
            bounds.append((low, high))
            rest.append(slice(None, None, item.step))
            result.append(len(places))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool):
            if not -size <= item < size:
                raise IndexError(f"index {item} is out of range for dimension {n} of {size}")
            place = int(item) % size
            bounds.append((place, place + 1))
            rest.append(0)
        else:
            raise IndexError(f"an index is an int, a slice or '...', not {type(item).__name__}")
    return bounds, rest, tuple(result)
