"""VTK grids that are zones, as PLOT3D has them: `.vts`, and `.vtr` whose coordinates are uneven; `.vti` and even `.vtr` that hold a
flow, or are blocks of several; `.pvts`, `.pvtr`, `.pvti` of such pieces.

All components of a point lie together there, mostly compressed, so that no part of them can be had by itself. So each file is
converted into the cache once, into what is paged where it lies: a grid, and a function file with everything else, of all blocks of
a time step together. Memory that this takes does not depend on how large the file is.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import PIECE, converted, identity
from farfield.volume.formats.files import unreadable
from farfield.volume.formats.options import Means
from farfield.volume.formats.vtk.array_names import Arrayed, is_flow, variables_of
from farfield.volume.formats.vtk.arrays import Reader
from farfield.volume.formats.vtk.folded_cells import folds_of
from farfield.volume.formats.vtk.grids import Column, Grid, blanks, grid_of, image_of, of_points, reading
from farfield.volume.formats.vtk.hidden_cells import hides_any
from farfield.volume.formats.vtk.legacy import is_legacy, is_legacy_grid
from farfield.volume.formats.vtk.multiblock import Block, names_of
from farfield.volume.formats.vtk.outline import Outline, dims_of, encoding_of, extent_of
from farfield.volume.formats.vtk.parallel import whole_outline
from farfield.volume.formats.vtk.pieces import (
    coordinates_of,
    files_of,
    is_even,
)

_HEAD = 4096
_KIND = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\'](P?)(StructuredGrid|RectilinearGrid|ImageData)["\']')
_SINGLE = ("int8", "uint8", "int16", "uint16", "float32")
"""Types whose numbers single precision holds."""

Tell = Callable[[int], None]


@dataclass(frozen=True)
class ZoneFiles:
    """Files of a time step as PLOT3D: the grid, and the fields if there are any."""

    grid: str
    function: str | None
    names: tuple[str, ...]
    of_cells: tuple[str, ...] = ()
    """Fields that files have for cells."""
    made_of: tuple[str, ...] = ()
    """The files, and those of their pieces where they have their own."""
    time: float | None = None
    """The time that the first file gives; NaN where that is no number."""
    dims: tuple[tuple[int, int, int], ...] = ()
    """Points of each zone."""
    define: dict[str, str] = field(default_factory=dict)
    """Fields that go by other names too."""
    remarks: tuple[str, ...] = ()
    format: str = "VTK XML"
    folds: tuple[str, ...] = ()
    """What makes places doubtful."""


def is_zone(path: str, start: bytes | None = None) -> bool:
    """Whether a file is a VTK grid that is a zone by itself: no volume, or one with a flow in it or with hidden cells. `start` are
    its first bytes, where they are known.

    What is damaged is left to the reader of volumes, which says what is wrong.
    """
    try:
        if start is None:
            with open(path, "rb") as file:
                start = file.read(_HEAD)
        if not is_grid(start):
            return False
        kind = _KIND.search(start)
        if kind is not None and kind[2] == b"StructuredGrid":
            return True
        # A file that is only an outline has its numbers in others.
        own = identity(path)
        files = _files_of(path, own) if kind is not None and kind[1] else (path,)
        return _is_zone(path, own if files == (path,) else "\n".join(map(identity, files)))
    except (OSError, DataError):
        return False


@lru_cache(maxsize=1024)
def _files_of(path: str, _identity: str) -> tuple[str, ...]:
    """A file, and those of its pieces."""
    with open(path, "rb") as file:
        return tuple(files_of(whole_outline(path, file, os.path.getsize(path))))


@lru_cache(maxsize=1024)
def _is_zone(path: str, _identities: str) -> bool:
    """As `is_zone`; asked for several times a command, and numbers in the text of a file are passed over each time."""
    try:
        with open(path, "rb") as file:
            length = os.path.getsize(path)
            found = whole_outline(path, file, length)
            if found.kind == "StructuredGrid":
                return True
            if not found.pieces:
                return False
            whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
            if found.kind == "RectilinearGrid":
                if any(len(p.arrays.get("Coordinates", [])) != 3 for p in found.pieces):
                    return False
                reader = Reader(path, file, length, encoding_of(found))
                if not all(map(is_even, coordinates_of(found, reader, whole))):
                    return True
            if hides_any(found, Reader(path, file, length, encoding_of(found))):
                return True
            return _has_flow(found, whole)
    except (OSError, DataError):
        return False


def _has_flow(found: Outline, whole: list[int]) -> bool:
    held = [a for data in ("PointData", "CellData") for a in found.pieces[0].arrays.get(data, [])]
    return is_flow([(a.name, a.components, a.dtype) for a in held], planar=1 in dims_of(whole, cells=False))


def holds_flow(grid: Grid) -> bool:
    """Whether arrays of a grid are a flow's."""
    return _has_flow(grid.found, grid.whole)


def is_flow_image(path: str) -> bool:
    """Whether a file is a volume, too: an image, or a rectilinear grid of even spacing."""
    try:
        with open(path, "rb") as file:
            length = os.path.getsize(path)
            found = whole_outline(path, file, length)
            if found.kind != "RectilinearGrid":
                return found.kind == "ImageData"
            whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
            return all(map(is_even, coordinates_of(found, Reader(path, file, length, encoding_of(found)), whole)))
    except (OSError, DataError):
        return False


def is_grid(start: bytes) -> bool:
    """Whether a file that begins so is a VTK grid of points in rows, planes and layers."""
    return _KIND.search(start) is not None or is_legacy_grid(start)


def grids_of(blocks: Sequence[Block], means: Means) -> list[Grid]:
    """What the files of a time step hold.

    Raises:
        DataError: if a file is damaged.
    """
    grids = []
    for block in blocks:
        try:
            grids.append(grid_of(block.file, means.cache_dir / "data"))
        except OSError as error:
            if isinstance(error, DataError):
                raise
            raise unreadable(block.file, error) from error
    return grids


@dataclass(frozen=True)
class Form:
    """How files of the cache are written: those of a series are alike, whatever its steps are."""

    places: int
    """Bytes of a coordinate."""
    numbers: int
    """Bytes of a number of a field."""
    blanked: bool
    planar: bool
    arrays: tuple[str, ...]
    """Their order, which is that of the first step."""


def form_of(steps: Sequence[Sequence[Grid]]) -> Form:
    """The form that holds the grids of all steps of a series."""
    grids = [grid for step in steps for grid in step]
    arrays = dict.fromkeys(column.name for grid in steps[0] for column in grid.fields)
    return Form(
        4 if all(grid.points and all(c.dtype in _SINGLE for c in grid.points) for grid in grids) else 8,
        4 if all(c.dtype in _SINGLE for grid in grids for c in grid.fields) else 8,
        any(grid.ghosts for grid in grids),
        all(grid.plane is not None for grid in grids),
        tuple(arrays),
    )


def _shape_of(grid: Grid, *, planar: bool) -> tuple[int, ...]:
    """Points along the axes, as the grid file says them: two of a plane."""
    return tuple(n for n in grid.dims if n > 1) if planar else grid.dims


def _fields_of(grids: Sequence[Grid]) -> tuple[list[Arrayed], list[str]]:
    """The arrays of all zones, and what is to be said of those that not all have."""
    found: dict[str, Arrayed] = {}
    lacking: dict[str, int] = {}
    for grid in grids:
        for column in grid.fields:
            there = found.setdefault(column.name, Arrayed(column.name, column.components))
            if there.components != column.components:
                raise DataError(
                    f"{grid.path}: its array '{column.name}' has {column.components} numbers a point, and another block "
                    f"{there.components}; the blocks of a dataset are alike"
                )
    for name in found:
        without = [grid for grid in grids if all(column.name != name for column in grid.fields)]
        if without:
            lacking[name] = len(without)
    remarks = [
        f"Of the {len(grids)} zones {count} lack{'s' if count == 1 else ''} {name}: there it is no number (NaN)."
        for name, count in lacking.items()
    ]
    return list(found.values()), remarks


def as_plot3d(grids: Sequence[Grid], blocks: Sequence[Block], form: Form, means: Means) -> ZoneFiles:
    """The files of the cache that hold what the files of a time step hold, made now if they are not there.

    Raises:
        DataError: if a file is damaged, or the disk is full.
        Interrupted: if the report function says so.
    """
    planar, places, numbers = form.planar, form.places, form.numbers
    single = len(grids) == 1
    coordinates = 2 if planar else 3
    nodes = sum(grid.nodes for grid in grids)
    what = {
        "StructuredGrid": "a curvilinear grid",
        "RectilinearGrid": "a rectilinear grid",
        "ImageData": "a uniform grid",
    }[grids[0].found.kind]
    what = what if single else f"the first of {len(grids):,} blocks, {what}"
    legacy = is_legacy(grids[0].found)
    why = f"is {what} in " + ("a legacy VTK file" if legacy else "VTK's XML")
    blanked = 4 if form.blanked else 0
    arrays, remarks = _fields_of(grids)
    place_of = {name: n for n, name in enumerate(form.arrays)}
    arrays.sort(key=lambda array: place_of.get(array.name, len(place_of)))
    variables = variables_of(arrays, planar=planar)
    names = variables.lines
    files = list(dict.fromkeys(file for grid in grids for file in files_of(grid.found)))
    image = single and is_flow_image(grids[0].path)
    instead = f"open {grids[0].path}::NAME, which reads an array of it as a volume where it lies" if image else ""
    head = (0 if single else 4) + 4 * coordinates * len(grids)
    of_grid = converted(
        grids[0].path,
        means,
        count=head + (coordinates * places + blanked) * nodes,
        why=why,
        # What stands beside it says of the fields, too, how they are written.
        how=f"zones {len(grids)} grid {places} {2 if blanked else 0} {coordinates} {numbers} {names}",
        files=files,
        instead=instead,
        write=partial(_write_grids, grids, places, planar=planar, blanked=bool(blanked)),
    )
    function = None
    if names:
        by_name = {array.name: array for array in arrays}
        ordered = [by_name[name] for name in variables.order]
        function = converted(
            grids[0].path,
            means,
            count=head + 4 * len(grids) + len(names) * numbers * nodes,
            why=f"{why}, with fields",
            how=f"zones {len(grids)} fields {numbers} {names} {coordinates} {2 if blanked else 0}",
            files=files,
            instead=instead,
            write=partial(_write_functions, grids, ordered, numbers, len(names), planar=planar),
        ).path
    zone_names = names_of(blocks)
    settings: dict[str, Any] = {
        "format": "binary",
        "byte-order": "little",
        "dimension": str(coordinates),
        "order": "whole",
        "plot3d-zones": "single" if single else "multi",
        "iblank": "yes" if blanked else "no",
        "grid": {"precision": str(8 * places)},
        "function": {"precision": str(8 * numbers)},
        "names": names,
        **({"zone-names": zone_names} if zone_names else {}),
    }
    put_text(Path(of_grid.path + ".p3d.json"), json.dumps(settings))
    planes = sorted({grid.plane for grid in grids if grid.plane is not None})
    if planar:
        at = f"z = {planes[0]:g}" if len(planes) == 1 else f"z = {planes[0]:g} to {planes[-1]:g}"
        remarks.append(f"It is flat ({at}), and so two-dimensional: lines stay in its plane, and positions are x,y.")
    starts = np.cumsum([head, *((coordinates * places + blanked) * grid.nodes for grid in grids)]).tolist()
    folds = folds_of(
        grids[0].path,
        of_grid.path,
        [
            # What hidden cells hold is of no account.
            None
            if grid.found.kind != "StructuredGrid" or grid.ghosts or (1 in grid.dims and not planar)
            else (start, _shape_of(grid, planar=planar))
            for grid, start in zip(grids, starts, strict=False)
        ],
        zone_names,
        places,
        files,
        means,
    )
    of_cells = tuple(dict.fromkeys(c.name for grid in grids for c in grid.fields if c.where == "CellData"))
    return ZoneFiles(
        of_grid.path,
        function,
        tuple(names),
        of_cells,
        tuple(files),
        grids[0].time,
        tuple(grid.dims for grid in grids),
        variables.define,
        (*grids[0].remarks, *remarks, *variables.remarks),
        "legacy VTK" if legacy else "VTK XML",
        tuple(folds),
    )


def put_text(path: Path, text: str) -> None:
    """Writes a small file that is there whole or not at all."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)


def _header(*numbers: int) -> bytes:
    return np.array(numbers, "<i4").tobytes()


def _heads(grids: Sequence[Grid], *more: int, planar: bool) -> bytes:
    """How many zones there are, if several, and what each is: its size, and what stands behind that."""
    zones = [_header(*_shape_of(grid, planar=planar), *more) for grid in grids]
    return b"".join(zones) if len(grids) == 1 else _header(len(grids)) + b"".join(zones)


def _write_grids(grids: Sequence[Grid], item: int, file: BinaryIO, tell: Tell, *, planar: bool, blanked: bool) -> None:
    heads = _heads(grids, planar=planar)
    file.write(heads)
    tell(len(heads))
    start, coordinates = len(heads), 2 if planar else 3
    for grid in grids:
        with reading(grid):
            _write_grid(grid, item, file, tell, start, coordinates=coordinates, blanked=blanked)
        start += (coordinates * item + (4 if blanked else 0)) * grid.nodes


def _write_grid(
    grid: Grid, item: int, file: BinaryIO, tell: Tell, start: int, *, coordinates: int, blanked: bool
) -> None:
    """Writes a zone's numbers from byte `start` on."""
    nodes, dtype = grid.nodes, f"<f{item}"
    file.seek(start)
    if grid.found.kind == "StructuredGrid":
        _deinterleave(grid, grid.points[0], dtype, file, start, tell, most=coordinates)
    elif grid.found.kind == "RectilinearGrid":
        lines = [line.astype(dtype) for line in coordinates_of(grid.found, grid.reader, grid.whole)]
        _expand(grid, lambda n, x: lines[n][x[n]], dtype, file, tell, coordinates)
    else:
        origin, columns = image_of(grid)
        _expand(grid, partial(_affine, origin, columns), dtype, file, tell, coordinates)
    if not blanked:
        return
    at = start + coordinates * item * nodes
    for start in range(0, nodes, PIECE // 4):
        file.seek(at + 4 * start)
        file.write(np.ones(min(PIECE // 4, nodes - start), "<i4").tobytes())
    for column in grid.ghosts:
        start = 0
        for blank in blanks(grid, column):
            file.seek(at + 4 * start)
            before = np.frombuffer(file.read(4 * len(blank)), "<i4")
            # A hidden point hides what begins at it, too.
            kept = np.where(before == 0, 0, np.where(blank == 1, before, blank))
            file.seek(at + 4 * start)
            file.write(kept.astype("<i4").tobytes())
            start += len(blank)
    tell(4 * nodes)


def _affine(
    origin: NDArray[np.float64], columns: NDArray[np.float64], n: int, x: Sequence[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Coordinate `n` of the points with indices `x`. Of an axis that adds nothing nothing is added: so what is uniform stays so to
    the last bit."""
    found: Any = origin[n]
    for axis in range(3):
        if columns[axis][n] != 0:
            found = found + columns[axis][n] * x[axis]
    return np.asarray(found)


def _expand(
    grid: Grid,
    place: Callable[[int, Sequence[NDArray[np.int64]]], NDArray[Any]],
    dtype: str,
    file: BinaryIO,
    tell: Tell,
    coordinates: int,
) -> None:
    """The places of all points, coordinate by coordinate and plane by plane; `place` gives one of indices along i, j, k."""
    nx, ny, nz = grid.dims
    rows = max(1, PIECE // (nx * 8))
    i = np.arange(nx)[None, :]
    for n in range(coordinates):
        for k in range(nz):
            for j in range(0, ny, rows):
                count = min(rows, ny - j)
                block = np.empty((count, nx), dtype)
                block[:] = place(n, (i, np.arange(j, j + count)[:, None], np.array(k)))
                file.write(block.tobytes())
                tell(block.nbytes)


def _write_functions(
    grids: Sequence[Grid],
    arrays: Sequence[Arrayed],
    item: int,
    variables: int,
    file: BinaryIO,
    tell: Tell,
    *,
    planar: bool,
) -> None:
    heads = _heads(grids, variables, planar=planar)
    file.write(heads)
    tell(len(heads))
    at = len(heads)
    for grid in grids:
        columns = {column.name: column for column in grid.fields}
        with reading(grid):
            for array in arrays:
                column = columns.get(array.name)
                if column is None:
                    _write_missing(file, at, f"<f{item}", array.components * grid.nodes, tell)
                else:
                    _deinterleave(grid, column, f"<f{item}", file, at, tell)
                at += array.components * item * grid.nodes


def _write_missing(file: BinaryIO, at: int, dtype: str, count: int, tell: Tell) -> None:
    """Numbers that are none, where a zone does not have an array."""
    file.seek(at)
    for start in range(0, count, PIECE // 8):
        block = np.full(min(PIECE // 8, count - start), np.nan, dtype)
        file.write(block.tobytes())
        tell(block.nbytes)


def _deinterleave(
    grid: Grid, column: Column, dtype: str, file: BinaryIO, at: int, tell: Tell, most: int | None = None
) -> None:
    """Writes the components of an array one after the other from a byte on, the first `most` of them."""
    item, done = np.dtype(dtype).itemsize, 0
    count = column.components if most is None else min(most, column.components)
    for values in of_points(grid, column):
        for c in range(count):
            file.seek(at + (c * grid.nodes + done) * item)
            file.write(values[:, c].astype(dtype).tobytes())
        done += len(values)
        tell(len(values) * count * item)
