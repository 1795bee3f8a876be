"""VTK XML grids that are no volumes: `.vts`, and `.vtr` whose coordinates are uneven; `.pvts` and `.pvtr` of such pieces. They are
zones, as PLOT3D has them.

All components of a point lie together there, mostly compressed, so that no part of them can be had by itself. So each file is
converted into the cache once, into what is paged where it lies: a grid, and a function file with everything else. Memory that this
takes does not depend on how large the file is.
"""

from __future__ import annotations

import json
import os
import re
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
from farfield.volume.conversion import PIECE, converted
from farfield.volume.description import Array
from farfield.volume.files import unreadable
from farfield.volume.options import Means
from farfield.volume.vtk_arrays import TYPES, Reader
from farfield.volume.vtk_hidden import HIDDEN, of_cells
from farfield.volume.vtk_outline import GHOSTS, Outline, dims_of, encoding_of, extent_of
from farfield.volume.vtk_parallel import whole_outline
from farfield.volume.vtk_pieces import Part, coordinates_of, files_of, is_even, is_whole, parts_of, scatter

_HEAD = 4096
_KIND = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\']P?(StructuredGrid|RectilinearGrid)["\']')
_SINGLE = ("int8", "uint8", "int16", "uint16", "float32")
"""Types whose numbers single precision holds."""

Tell = Callable[[int], None]


@dataclass
class _Column:
    """What becomes a variable, or several: an array of points or of cells."""

    name: str
    where: str
    parts: list[Part]
    dtype: str
    components: int


@dataclass
class _Grid:
    """What a file holds, as far as it becomes a zone."""

    path: str
    found: Outline
    reader: Reader
    scratch: Path
    """A folder for files on the way."""
    whole: list[int]
    dims: tuple[int, int, int]
    points: list[_Column]
    fields: list[_Column] = field(default_factory=list)
    ghosts: list[_Column] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        """Points of the grid."""
        return self.dims[0] * self.dims[1] * self.dims[2]


@dataclass(frozen=True)
class ZoneFiles:
    """A file as PLOT3D: its grid, and its fields if it has any."""

    grid: str
    function: str | None
    names: tuple[str, ...]
    of_cells: tuple[str, ...] = ()
    """Fields that the file has for cells."""
    made_of: tuple[str, ...] = ()
    """The file, and those of its pieces where they have their own."""


def is_zone(path: str, start: bytes | None = None) -> bool:
    """Whether a file is VTK XML of a grid that is no volume. `start` are its first bytes, where they are known.

    What is damaged is left to the reader of volumes, which says what is wrong.
    """
    try:
        if start is None:
            with open(path, "rb") as file:
                start = file.read(_HEAD)
        kind = _KIND.search(start)
        if kind is None or kind[1] == b"StructuredGrid":
            return kind is not None
        with open(path, "rb") as file:
            length = os.path.getsize(path)
            found = whole_outline(path, file, length)
            if not found.pieces or any(len(p.arrays.get("Coordinates", [])) != 3 for p in found.pieces):
                return False
            reader = Reader(path, file, length, encoding_of(found))
            whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
            return not all(map(is_even, coordinates_of(found, reader, whole)))
    except (OSError, DataError):
        return False


def as_plot3d(path: str, means: Means) -> ZoneFiles:
    """The files of the cache that hold what a file holds, made now if they are not there.

    Raises:
        DataError: if the file is damaged, or the disk is full.
        Interrupted: if the report function says so.
    """
    length = os.path.getsize(path)
    try:
        with open(path, "rb") as file:
            grid = _grid_of(path, file, length, means.cache_dir / "data")
            return _converted(grid, means)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _grid_of(path: str, file: BinaryIO, length: int, scratch: Path) -> _Grid:
    found = whole_outline(path, file, length)
    if not found.pieces:
        raise DataError(f"{path}: it holds no <Piece>, and so no numbers; write it again")
    whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
    dims = dims_of(whole, cells=False)
    reader = Reader(path, file, length, encoding_of(found))
    where = "Points" if found.kind == "StructuredGrid" else "Coordinates"
    first = found.pieces[0].arrays.get(where, [])
    if len(first) != (1 if where == "Points" else 3) or (where == "Points" and first[0].components != 3):
        raise DataError(f"{path}: it says of no point where it is; write it again")
    grid = _Grid(path, found, reader, scratch, whole, dims, [_column(found, where, n) for n in range(len(first))])
    taken: set[str] = set()
    for data in ("PointData", "CellData"):
        for n, array in enumerate(found.pieces[0].arrays.get(data, [])):
            if array.dtype not in TYPES.values():
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
    return grid


def _column(found: Outline, where: str, number: int) -> _Column:
    """An array with its parts in all pieces."""
    first = found.pieces[0].arrays[where][number]
    parts = parts_of(found, where, first.name)
    if first.dtype not in TYPES.values():
        raise DataError(f"{found.path}: '{first.name}' holds no numbers ({first.dtype}); write it again")
    return _Column(first.name, where, parts, first.dtype, first.components)


def _converted(grid: _Grid, means: Means) -> ZoneFiles:
    nodes = grid.nodes
    places = 4 if all(c.dtype in _SINGLE for c in grid.points) else 8
    numbers = 4 if all(c.dtype in _SINGLE for c in grid.fields) else 8
    what = "curvilinear grid" if grid.found.kind == "StructuredGrid" else "rectilinear grid of uneven spacing"
    why = f"is a {what} in VTK's XML"
    blanks = 4 * nodes if grid.ghosts else 0
    of_grid = converted(
        grid.path,
        means,
        count=12 + 3 * places * nodes + blanks,
        why=why,
        how=f"zone {2 if blanks else 1} grid {places} {bool(blanks)}",
        files=files_of(grid.found),
        write=partial(_write_grid, grid, places),
    )
    names = _names(grid)
    function = None
    if names:
        function = converted(
            grid.path,
            means,
            count=16 + len(names) * numbers * nodes,
            why=f"{why}, with fields",
            how=f"zone {2 if blanks else 1} fields {numbers} {names}",
            files=files_of(grid.found),
            write=partial(_write_fields, grid, numbers, len(names)),
        ).path
    settings: dict[str, Any] = {
        "format": "binary",
        "byte-order": "little",
        "dimension": "3",
        "order": "whole",
        "plot3d-zones": "single",
        "iblank": "yes" if blanks else "no",
        "grid": {"precision": str(8 * places)},
        "function": {"precision": str(8 * numbers)},
        "names": names,
    }
    _put(Path(of_grid.path + ".p3d.json"), json.dumps(settings))
    of_cells = tuple(column.name for column in grid.fields if column.where == "CellData")
    return ZoneFiles(of_grid.path, function, tuple(names), of_cells, tuple(files_of(grid.found)))


def _put(path: Path, text: str) -> None:
    """Writes a small file that is there whole or not at all."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)


def _names(grid: _Grid) -> list[str]:
    """A line for each variable, as PLOT3D's files of names have it: three of an array are a vector."""
    lines: list[str] = []
    for column in grid.fields:
        name = column.name.replace(";", ",").replace("\n", " ").strip()
        if column.components == 3:
            lines += [f"{name} x ; {name}", f"{name} y", f"{name} z"]
        elif column.components == 1:
            lines.append(name)
        else:
            lines += [f"{name} {n}" for n in range(column.components)]
    return lines


def _header(*numbers: int) -> bytes:
    return np.array(numbers, "<i4").tobytes()


def _write_grid(grid: _Grid, item: int, file: BinaryIO, tell: Tell) -> None:
    file.write(_header(*grid.dims))
    tell(12)
    nodes, dtype = grid.nodes, f"<f{item}"
    if grid.found.kind == "StructuredGrid":
        _deinterleave(grid, grid.points[0], dtype, file, 12, tell)
    else:
        _expand(grid, dtype, file, tell)
    if not grid.ghosts:
        return
    at = 12 + 3 * item * nodes
    for start in range(0, nodes, PIECE // 4):
        file.seek(at + 4 * start)
        file.write(np.ones(min(PIECE // 4, nodes - start), "<i4").tobytes())
    for column in grid.ghosts:
        start = 0
        for blank in _blanks(grid, column):
            file.seek(at + 4 * start)
            before = np.frombuffer(file.read(4 * len(blank)), "<i4")
            # A hidden point hides what begins at it, too.
            kept = np.where(before == 0, 0, np.where(blank == 1, before, blank))
            file.seek(at + 4 * start)
            file.write(kept.astype("<i4").tobytes())
            start += len(blank)
    tell(4 * nodes)


def _is_hidden(bits: int, raw: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(raw.astype(np.int64) & bits != 0)


def _blanks(grid: _Grid, column: _Column) -> Iterator[NDArray[np.int32]]:
    """What an array of ghosts makes of the points, as iblank, some at a time."""
    is_hidden = partial(_is_hidden, HIDDEN[column.where])
    if column.where == "PointData":
        for hidden in _of_points(grid, column, is_hidden):
            yield np.where(hidden[:, 0], 0, 1).astype(np.int32)
        return
    dims = dims_of(grid.whole, cells=True)
    with _scratch(grid, column) as take:
        yield from of_cells(grid.dims, dims, partial(take, is_hidden), max(1, PIECE // (16 * dims[0])))


def _expand(grid: _Grid, dtype: str, file: BinaryIO, tell: Tell) -> None:
    """Three lines of coordinates as the places of all points, plane by plane."""
    nx, ny, nz = grid.dims
    lines = [line.astype(dtype) for line in coordinates_of(grid.found, grid.reader, grid.whole)]
    rows = max(1, PIECE // (nx * lines[0].itemsize))
    for n in range(3):
        for k in range(nz):
            for j in range(0, ny, rows):
                count = min(rows, ny - j)
                block = np.empty((count, nx), dtype)
                block[:] = (lines[0][None, :], lines[1][j : j + count, None], lines[2][k])[n]
                file.write(block.tobytes())
                tell(block.nbytes)


def _write_fields(grid: _Grid, item: int, variables: int, file: BinaryIO, tell: Tell) -> None:
    file.write(_header(*grid.dims, variables))
    tell(16)
    at = 16
    for column in grid.fields:
        _deinterleave(grid, column, f"<f{item}", file, at, tell)
        at += column.components * item * grid.nodes


def _deinterleave(grid: _Grid, column: _Column, dtype: str, file: BinaryIO, at: int, tell: Tell) -> None:
    """Writes the components of an array one after the other from a byte on."""
    item, done = np.dtype(dtype).itemsize, 0
    for values in _of_points(grid, column):
        for c in range(column.components):
            file.seek(at + (c * grid.nodes + done) * item)
            file.write(values[:, c].astype(dtype).tobytes())
        done += len(values)
        tell(values.size * item)


@contextmanager
def _scratch(grid: _Grid, column: _Column) -> Iterator[Callable[..., NDArray[Any]]]:
    """What gives the numbers of an array that lie in a file meanwhile: changed by a function, from one on, so many."""
    dims = dims_of(grid.whole, cells=column.where == "CellData")
    array = Array(column.name, column.dtype, (*reversed(dims), column.components), "zyxc", {})
    array.big_endian = grid.reader.big_endian and column.parts[0][1].format != "ascii"
    dtype = np.dtype(column.dtype).newbyteorder(">" if array.big_endian else "<")
    with tempfile.TemporaryFile(dir=grid.scratch) as scratch:
        _raw(grid, column, array, scratch)
        yield partial(_take, scratch, dtype, column.components)


def _of_points(
    grid: _Grid, column: _Column, change: Callable[[NDArray[Any]], NDArray[Any]] | None = None
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
            hidden = partial(of_ghosts, partial(_is_hidden, HIDDEN["CellData"]))

            def seen(start: int, count: int) -> NDArray[Any]:
                return np.where(hidden(start, count), 0, take(start, count))

            def weight(start: int, count: int) -> NDArray[Any]:
                return np.where(hidden(start, count), 0.0, 1.0)

            means = (_mean_of_cells(grid.dims, dims, of, rows) for of in (seen, weight, take))
            for of_seen, share, of_all in zip(*means, strict=True):
                yield np.where(share > 0, of_seen / np.where(share > 0, share, 1.0), of_all)


def _raw(grid: _Grid, column: _Column, array: Array, scratch: BinaryIO) -> None:
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
