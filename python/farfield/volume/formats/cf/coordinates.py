"""Coordinates: arrays that are read whole, since they are short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield import _core
from farfield.errors import DataError
from farfield.runtime.resources import decoding
from farfield.volume.formats.description import Array, Channel, Level, Volume, describe

LONGEST = 1 << 20
"""A coordinate with more numbers is none."""
_MOST = LONGEST << 3
"""Numbers of one of two or three dimensions."""
_LIMIT = 48 << 20
"""Memory for reading one, at least: the longest in one chunk."""
_MOST_ROOM = 512 << 20
"""Memory for reading one, at most."""


def line_of(path: str, array: Array, tables: Sequence[bytes] = (), *, memory_limit: int | None = None) -> NDArray[Any]:
    """The numbers of an array of one dimension, through the extension: as volumes are read.

    Raises:
        DataError: if it is too long, or cannot be read.
        MemoryLimitError: if its chunks do not fit.
    """
    if len(array.shape) != 1 or array.shape[0] > LONGEST:
        raise DataError(f"{path}: '{array.name}' is no coordinate: it has {array.shape} numbers")
    return numbers_of(path, array, tables, memory_limit=memory_limit)


def numbers_of(
    path: str, array: Array, tables: Sequence[bytes] = (), *, memory_limit: int | None = None
) -> NDArray[Any]:
    """The numbers of an array of up to three dimensions.

    Raises:
        DataError: if there are too many, or they cannot be read.
        MemoryLimitError: if chunks of them do not fit.
    """
    rank = len(array.shape)
    if not 1 <= rank <= 3 or math.prod(array.shape) > _MOST:
        raise DataError(f"{path}: '{array.name}' is no coordinate: it has {array.shape} numbers")

    line = replace(array, axes="zyx"[-rank:], channels=[0])
    found = describe(Volume(path, "coordinate", [Level([line])], [Channel(array.name)]))
    # What a chunk is said to be is no reason to take more than the user gives.
    most = _MOST_ROOM if memory_limit is None else min(memory_limit, _MOST_ROOM)
    room = max(_LIMIT, min(8 * math.prod(array.chunk or (1,)) * array.item, most))
    native = _core.Dataset.open(found.native(), decoding(room), tables=list(tables))
    try:
        read = native.read_box(0, 0, (0, 0, 0), line.dims, 0)
        return np.asarray(read).reshape(array.shape)
    finally:
        native.close()
