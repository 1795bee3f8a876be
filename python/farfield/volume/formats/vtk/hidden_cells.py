"""Cells and points that VTK hides, as the iblank of a zone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.vtk.arrays import DataArray, Reader
from farfield.volume.formats.vtk.outline import BLANKING, GHOSTS, Outline, dims_of, settle
from farfield.volume.formats.vtk.pieces import reader_of

HIDDEN = {"PointData": 2, "CellData": 32 | 8}
"""The bits of `vtkGhostType` that say that a point or a cell is not to be seen: hidden, and of cells also refined, in whose place
finer ones stand. Duplicates are seen."""

OF_CELLS = 1 << 30
"""An ordinary point of which bits say what begins at it and is hidden: 1 the cell; 2, 4 and 8 the edges along i, j and k, around
which all cells are; 16, 32 and 64 the faces across i, j and k, on both sides of which they are."""


def hides_any(found: Outline, reader: Reader) -> bool:
    """Whether any point or cell of a file is hidden. Its numbers are read unless it says that the highest of them hides none.

    Raises:
        DataError: if they cannot be read.
    """
    for piece in found.pieces:
        for where in (BLANKING, *HIDDEN):
            for array in piece.arrays.get(where, []):
                if (
                    (where != BLANKING and array.name != GHOSTS)
                    or array.dtype != "uint8"
                    or not _may_hide(where, array)
                ):
                    continue
                settle(found if piece.file is None else piece.file, array)
                count = math.prod(dims_of(piece.extent, cells=where == "CellData"))
                with reader_of(piece, reader) as of:
                    for data in of.pieces(array, count):
                        if is_hidden(where, np.frombuffer(data, np.uint8)).any():
                            return True
    return False


def _may_hide(where: str, array: DataArray) -> bool:
    """Whether the highest number of an array leaves it open that something is hidden."""
    try:
        most = int(float(array.most))
    except (ValueError, OverflowError):
        return True
    return where == BLANKING or most >= HIDDEN[where] & -HIDDEN[where]


def is_hidden(where: str, raw: NDArray[Any]) -> NDArray[np.bool_]:
    """Which points or cells are hidden; `where` is the group of an array of ghosts, or that of a legacy file's blanking."""
    if where == BLANKING:
        return np.asarray(raw == 0)
    return np.asarray(raw.astype(np.int64) & HIDDEN[where] != 0)


Marks = NDArray[np.bool_]


def of_cells(
    nodes: Sequence[int], cells: Sequence[int], take: Callable[[int, int], NDArray[Any]], rows: int
) -> Iterator[NDArray[np.int32]]:
    """What hidden cells make of the points, in their order, rows of a plane at a time.

    A point is 0 where all cells around it are hidden, else 1, or [`OF_CELLS`][] with its bits. `take` gives whether cells are
    hidden, [number, 1], from one on.
    """
    nx, ny, nz = nodes
    mx, my, mz = cells
    for k in range(nz):
        for first in range(0, ny, rows):
            count = min(rows, ny - first)
            low, high = max(first - 1, 0), min(first + count, my)
            # [k, j, i]: the cells before each point and the one that begins there. Where there is none, none is seen.
            hidden = np.ones((2, count + 1, nx + 1), dtype=np.bool_)
            for layer in (k - 1, k):
                if 0 <= layer < mz and low < high:
                    found = take((layer * my + low) * mx, (high - low) * mx).reshape(high - low, mx)
                    at = low - (first - 1)
                    hidden[layer - (k - 1), at : at + high - low, 1 : mx + 1] = found
            begins = (np.arange(nx)[None, :] < mx, np.arange(first, first + count)[:, None] < my, np.array(k < mz))
            yield _codes(hidden, begins).reshape(-1)


def _codes(hidden: Marks, begins: tuple[Marks, Marks, Marks]) -> NDArray[np.int32]:
    """Values of points, [j, i], of the cells around each; `begins` says along i, j and k whether any begins there."""
    i, j, k = begins

    def around(layers: slice, rows: slice, columns: slice) -> Marks:
        """Whether all cells of some around each point are hidden: 0 the one before it, 1 the one that begins there."""
        found = np.ones((hidden.shape[1] - 1, hidden.shape[2] - 1), dtype=np.bool_)
        for c in range(2)[layers]:
            for b in range(2)[rows]:
                for a in range(2)[columns]:
                    found &= hidden[c, b : b + found.shape[0], a : a + found.shape[1]]
        return found

    own, both = slice(1, 2), slice(0, 2)
    parts = (
        (1, around(own, own, own) & i & j & k),
        (2, around(both, both, own) & i),
        (4, around(both, own, both) & j),
        (8, around(own, both, both) & k),
        (16, around(own, own, both) & j & k),
        (32, around(own, both, own) & i & k),
        (64, around(both, own, own) & i & j),
    )
    bits = np.zeros((hidden.shape[1] - 1, hidden.shape[2] - 1), dtype=np.int32)
    for bit, marks in parts:
        bits |= np.where(marks, bit, 0).astype(np.int32)
    blank = np.where(bits != 0, OF_CELLS | bits, 1)
    return np.where(around(both, both, both), 0, blank).astype(np.int32)
