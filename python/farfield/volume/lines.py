"""Coordinates: arrays that are read whole, since they are short."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.description import Array, Channel, Level, Volume, describe

LONGEST = 1 << 20
"""A coordinate with more numbers is none."""
_MOST = LONGEST << 3
"""Numbers of one of two or three dimensions."""
_LIMIT = 32 << 20
"""Memory for reading one, at least."""


def line_of(path: str, array: Array, tables: Sequence[bytes] = ()) -> NDArray[Any]:
    """The numbers of an array of one dimension, through the extension: as volumes are read.

    Raises:
        DataError: if it is too long, or cannot be read.
    """
    if len(array.shape) != 1 or array.shape[0] > LONGEST:
        raise DataError(f"{path}: '{array.name}' is no coordinate: it has {array.shape} numbers")
    return numbers_of(path, array, tables)


def numbers_of(path: str, array: Array, tables: Sequence[bytes] = ()) -> NDArray[Any]:
    """The numbers of an array of up to three dimensions.

    Raises:
        DataError: if there are too many, or they cannot be read.
    """
    rank = len(array.shape)
    if not 1 <= rank <= 3 or math.prod(array.shape) > _MOST:
        raise DataError(f"{path}: '{array.name}' is no coordinate: it has {array.shape} numbers")
    from farfield import _core

    line = replace(array, axes="zyx"[-rank:], channels=[0])
    found = describe(Volume(path, "coordinate", [Level([line])], [Channel(array.name)]))
    room = max(_LIMIT, 8 * math.prod(array.chunk or (1,)) * array.item)
    native = _core.Volume.open(json.dumps(found.spec), list(tables), memory_limit=room, workers=1, readers=0)
    try:
        read = native.read_box(0, 0, (0, 0, 0), line.dims, 0)
        return np.asarray(read).reshape(array.shape)
    finally:
        native.close()
