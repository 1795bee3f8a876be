"""Compressed blocks of VTK XML files as chunks of an array, where they are whole planes, rows, or parts of rows."""

from __future__ import annotations

import math

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.description import Array, in_table, table_of
from farfield.volume.formats.vtk.arrays import Blocks


def chunk_of(shape: tuple[int, ...], item: int, size: int) -> tuple[int, ...] | None:
    """The box of elements that a block of `size` bytes is, blocks following one another; None where it is no box.

    >>> chunk_of((128, 256, 256), 1, 32768), chunk_of((136, 470, 500), 1, 32768), chunk_of((10, 4, 8), 2, 128)
    ((1, 128, 256), None, (2, 4, 8))
    """
    for n in range(len(shape)):
        below = math.prod(shape[n + 1 :]) * item
        if size % below:
            continue
        count = size // below
        # Along a dimension that is not the slowest one blocks must end where it ends.
        if n and (count > shape[n] or shape[n] % count):
            continue
        return (*([1] * n), min(count, shape[0]) if n == 0 else count, *shape[n + 1 :])
    return None


def in_place(path: str, blocks: Blocks, array: Array, tables: list[bytes]) -> bool:
    """Makes chunks of an array of the blocks, if they are boxes of it."""
    chunk = chunk_of(array.shape, array.item, blocks.size)
    if chunk is None:
        return False
    grid = math.prod(-(-s // c) for s, c in zip(array.shape, chunk, strict=True))
    if grid != len(blocks.lengths):
        raise DataError(
            f"{path}: '{array.name}' has {len(blocks.lengths):,} blocks where {grid:,} fit; copy or write it again"
        )
    lengths = np.array(blocks.lengths, dtype=np.uint64)
    rows = np.zeros((grid, 3), dtype=np.uint64)
    rows[:, 1] = np.uint64(blocks.at) + np.concatenate([[np.uint64(0)], np.cumsum(lengths[:-1], dtype=np.uint64)])
    rows[:, 2] = lengths
    array.chunk = chunk
    array.codecs = [{"name": "zlib"}]
    array.place = in_table([path], len(tables))
    tables.append(table_of(rows))
    return True
