"""What a VTK file holds, as far as it becomes a zone: where its points are, and its arrays, at the points in their order."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.description import Array
from farfield.volume.formats.vtk.arrays import TYPES, Reader
from farfield.volume.formats.vtk.hidden_cells import is_hidden, of_cells
from farfield.volume.formats.vtk.outline import BLANKING, GHOSTS, LEVELS, Outline, dims_of, encoding_of, extent_of
from farfield.volume.formats.vtk.parallel import whole_outline
from farfield.volume.formats.vtk.pieces import (
    Part,
    coordinates_of,
    image_placed,
    is_whole,
    parts_of,
    scatter,
    time_of,
)


@dataclass
class Column:
    """What becomes a variable, or several: an array of points or of cells."""

    name: str
    where: str
    parts: list[Part]
    dtype: str
    components: int


@dataclass
class Grid:
    """What a file holds, as far as it becomes a zone."""

    path: str
    found: Outline
    reader: Reader
    """Reads while the file is open (`reading`)."""
    scratch: Path
    """A folder for files on the way."""
    whole: list[int]
    dims: tuple[int, int, int]
    points: list[Column]
    fields: list[Column] = field(default_factory=list)
    ghosts: list[Column] = field(default_factory=list)
    time: float | None = None
    """NaN where it gives something else than a number."""
    remarks: list[str] = field(default_factory=list)
    plane: float | None = None
    """Where z is, of a grid one point thick in a plane of one z."""

    @property
    def nodes(self) -> int:
        """Points of the grid."""
        return self.dims[0] * self.dims[1] * self.dims[2]


@contextmanager
def reading(grid: Grid) -> Iterator[None]:
    """The file is open meanwhile, and `grid.reader` reads it: of thousands of blocks not all are open at once."""
    length = places.getsize(grid.path)
    with places.open_binary(grid.path) as file:
        grid.reader = Reader(grid.path, file, length, encoding_of(grid.found))
        yield


def grid_of(path: str, scratch: Path) -> Grid:
    """What a file holds; `scratch` is a folder for files on the way.

    Raises:
        DataError: if the file is damaged, of another kind, or its points are in no order.
        OSError: if it cannot be read.
    """
    length = places.getsize(path)
    with places.open_binary(path) as file:
        found = whole_outline(path, file, length)
        if not found.pieces:
            raise DataError(f"{path}: it holds no <Piece>, and so no numbers; write it again")
        if found.kind not in ("StructuredGrid", "RectilinearGrid", "ImageData"):
            raise DataError(f"{path}: this is VTK's kind '{found.kind}', and no grid of points in rows and planes")
        whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
        dims = dims_of(whole, cells=False)
        reader = Reader(path, file, length, encoding_of(found))
        where = {"StructuredGrid": "Points", "RectilinearGrid": "Coordinates"}.get(found.kind, "")
        first = found.pieces[0].arrays.get(where, [])
        if (where == "Points" and (len(first) != 1 or first[0].components != 3)) or (
            where == "Coordinates" and len(first) != 3
        ):
            raise DataError(f"{path}: it says of no point where it is; write it again")
        grid = Grid(path, found, reader, scratch, whole, dims, [_column(found, where, n) for n in range(len(first))])
        if where == "Coordinates":
            _refuse_folds(path, coordinates_of(found, reader, whole))
        grid.ghosts = [_column(found, BLANKING, n) for n in range(len(found.pieces[0].arrays.get(BLANKING, [])))]
        taken: set[str] = set()
        others: list[str] = []
        for data in ("PointData", "CellData"):
            for n, array in enumerate(found.pieces[0].arrays.get(data, [])):
                if array.name == LEVELS:
                    continue  # what is not a piece's own is seen
                if array.dtype not in TYPES.values():
                    others.append(f"{array.name} ({array.dtype})")
                    continue
                column = _column(found, data, n)
                if column.name == GHOSTS:
                    grid.ghosts.append(column)
                    continue
                column.name = column.name or f"{'points' if data == 'PointData' else 'cells'} {n + 1}"
                # Points and cells may have arrays of one name.
                column.name = column.name if column.name not in taken else f"{column.name} of cells"
                taken.add(column.name)
                grid.fields.append(column)
        if others:
            grid.remarks.append(f"Left out, as they are no numbers that are read: {', '.join(others)}.")
        try:
            grid.time = time_of(found, reader)
        except DataError:  # its numbers are as good as without
            grid.time = math.nan
            grid.remarks.append(f"The TimeValue of {os.path.basename(path)} is not one number: it has no time.")
        grid.plane = _plane_of(grid)
    return grid


def _refuse_folds(path: str, lines: Sequence[NDArray[np.float64]]) -> None:
    """Raises where coordinates go up and down again: a place would lie in several cells. Those that are the same twice are a cell
    of no volume."""
    for axis, line in zip("xyz", lines, strict=True):
        steps = np.sign(np.diff(line))
        if (steps > 0).any() and (steps < 0).any():
            rising = steps[np.flatnonzero(steps)[0]]
            at = int(np.flatnonzero(steps == -rising)[0])
            raise DataError(
                f"{path}: its {axis} coordinates go back and forth ({line[at + 1]:g} follows {line[at]:g}), so that a place lies "
                "in several cells; sort them with their values, or cut the grid there"
            )


def _plane_of(grid: Grid) -> float | None:
    """The z of a grid that is one point thick and lies in a plane of one z."""
    if sorted(n > 1 for n in grid.dims) != [False, True, True]:
        return None
    if grid.found.kind == "StructuredGrid":
        seen: set[float] = set()
        for values in of_points(grid, grid.points[0]):
            seen |= {float(values[:, 2].min()), float(values[:, 2].max())}
            if len(seen) > 1:
                return None
        return seen.pop() if seen else None
    if grid.found.kind == "RectilinearGrid":
        return float(coordinates_of(grid.found, grid.reader, grid.whole)[2][0]) if grid.dims[2] == 1 else None
    origin, columns = image_of(grid)
    along = [n for n in range(3) if grid.dims[n] > 1]
    return float(origin[2]) if not any(columns[n][2] for n in along) else None


def image_of(grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where an image's first point is, and what lies between points along each axis, [axis, xyz]."""
    origin, spacing, direction = image_placed(grid.found)
    columns = np.array([[direction[r][n] * spacing[n] for r in range(3)] for n in range(3)])
    return np.array(origin) + sum(columns[n] * grid.whole[2 * n] for n in range(3)), columns


def _column(found: Outline, where: str, number: int) -> Column:
    """An array with its parts in all pieces."""
    first = found.pieces[0].arrays[where][number]
    parts = parts_of(found, where, first.name)
    if first.dtype not in TYPES.values():
        raise DataError(f"{found.path}: '{first.name}' holds no numbers ({first.dtype}); write it again")
    return Column(first.name, where, parts, first.dtype, first.components)


def blanks(grid: Grid, column: Column) -> Iterator[NDArray[np.int32]]:
    """What an array of ghosts makes of the points, as iblank, some at a time."""
    hides = partial(is_hidden, column.where)
    if column.where != "CellData":
        for hidden in of_points(grid, column, hides):
            yield np.where(hidden[:, 0], 0, 1).astype(np.int32)
        return
    dims = dims_of(grid.whole, cells=True)
    with _scratch(grid, column) as take:
        yield from of_cells(grid.dims, dims, partial(take, hides), max(1, PIECE // (16 * dims[0])))


@contextmanager
def _scratch(grid: Grid, column: Column) -> Iterator[Callable[..., NDArray[Any]]]:
    """What gives the numbers of an array that lie in a file meanwhile: changed by a function, from one on, so many."""
    dims = dims_of(grid.whole, cells=column.where == "CellData")
    array = Array(column.name, column.dtype, (*reversed(dims), column.components), "zyxc", {})
    array.big_endian = grid.reader.big_endian and column.parts[0][1].format != "ascii"
    dtype = np.dtype(column.dtype).newbyteorder(">" if array.big_endian else "<")
    grid.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=grid.scratch) as scratch:
        _raw(grid, column, array, scratch)
        yield partial(_take, scratch, dtype, column.components)


def of_points(
    grid: Grid, column: Column, change: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> Iterator[NDArray[Any]]:
    """Values at the points in their order, [point, component], some at a time; of cells the mean of those around."""
    with _scratch(grid, column) as read:
        take = partial(read, change)
        if column.where != "CellData":
            step = max(1, PIECE // (np.dtype(column.dtype).itemsize * column.components))
            for start in range(0, grid.nodes, step):
                yield take(start, min(step, grid.nodes - start))
            return
        dims = dims_of(grid.whole, cells=True)
        rows = max(1, PIECE // (16 * dims[0] * column.components))
        ghosts = next((g for g in grid.ghosts if g.where == "CellData" and g is not column), None)
        if ghosts is None:
            yield from _mean_of_cells(grid.dims, dims, take, rows)
            return
        # What stands in hidden cells is of no account, where there are others.
        with _scratch(grid, ghosts) as of_ghosts:
            hidden = partial(of_ghosts, partial(is_hidden, "CellData"))

            def seen(start: int, count: int) -> NDArray[Any]:
                return np.where(hidden(start, count), 0, take(start, count))

            def weight(start: int, count: int) -> NDArray[Any]:
                return np.where(hidden(start, count), 0.0, 1.0)

            resources = (_mean_of_cells(grid.dims, dims, of, rows) for of in (seen, weight, take))
            for of_seen, share, of_all in zip(*resources, strict=True):
                yield np.where(share > 0, of_seen / np.where(share > 0, share, 1.0), of_all)


def _raw(grid: Grid, column: Column, array: Array, scratch: BinaryIO) -> None:
    """The bytes of an array, in a file, as those of one piece."""
    if not is_whole(grid.found, grid.whole):
        scratch.truncate(array.bytes)
        write = scatter(grid.found, grid.reader, array, column.parts, grid.whole, column.where)
        write(scratch, lambda _: None)
        return
    done = 0
    for piece in grid.reader.pieces(column.parts[0][1], array.bytes):
        scratch.write(piece)
        done += len(piece)
    if done != array.bytes:
        raise DataError(
            f"{grid.path}: '{column.name}' has {done:,} bytes, and its extent asks for {array.bytes:,}; copy or write it again"
        )


def _take(
    scratch: BinaryIO,
    dtype: np.dtype[Any],
    components: int,
    change: Callable[[NDArray[Any]], NDArray[Any]] | None,
    start: int,
    count: int,
) -> NDArray[Any]:
    """[number, component] of some numbers."""
    scratch.seek(start * components * dtype.itemsize)
    found = np.frombuffer(scratch.read(count * components * dtype.itemsize), dtype).reshape(count, components)
    return found if change is None else change(found)


def _mean_of_cells(
    nodes: Sequence[int], cells: Sequence[int], take: Callable[[int, int], NDArray[Any]], rows: int
) -> Iterator[NDArray[Any]]:
    """Of each point the mean of the cells around it, rows of a plane at a time."""
    nx, ny, nz = nodes
    mx, my, mz = cells
    for k in range(nz):
        layers = [n for n in dict.fromkeys((max(k - 1, 0), min(k, mz - 1))) if n < mz]
        for j in range(0, ny, rows):
            count = min(rows, ny - j)
            low, high = max(j - 1, 0), min(j + count, my)
            low = min(low, my - 1)
            total: Any = 0.0
            for layer in layers:
                found = take((layer * my + low) * mx, (high - low) * mx).astype(np.float64)
                total = total + found.reshape(high - low, mx, -1)
            block = total / len(layers)
            above = np.clip(np.arange(j, j + count), 0, my - 1) - low
            below = np.clip(np.arange(j - 1, j + count - 1), 0, my - 1) - low
            block = (block[above] + block[below]) / 2
            right, left = np.clip(np.arange(nx), 0, mx - 1), np.clip(np.arange(-1, nx - 1), 0, mx - 1)
            block = (block[:, right] + block[:, left]) / 2
            yield block.reshape(count * nx, -1)
