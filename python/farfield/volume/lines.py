"""Coordinates: arrays of one dimension that are read whole, since they are short."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.description import Array, Channel, Level, Volume, describe

LONGEST = 1 << 20
"""A coordinate with more numbers is none."""
_LIMIT = 32 << 20
"""Memory for reading one."""


def line_of(path: str, array: Array, tables: Sequence[bytes] = ()) -> NDArray[Any]:
    """The numbers of an array of one dimension, through the extension: as volumes are read.

    Raises:
        DataError: if it is too long, or cannot be read.
    """
    if len(array.shape) != 1 or array.shape[0] > LONGEST:
        raise DataError(f"{path}: '{array.name}' is no coordinate: it has {array.shape} numbers")
    from farfield import _core

    line = replace(array, axes="x", channels=[0])
    found = describe(Volume(path, "coordinate", [Level([line])], [Channel(array.name)]))
    native = _core.Volume.open(json.dumps(found.spec), list(tables), memory_limit=_LIMIT, workers=1, readers=0)
    try:
        count = array.shape[0]
        read = native.read_box(0, 0, (0, 0, 0), (count, 1, 1), 0)
        return np.asarray(read).reshape(count)
    finally:
        native.close()
