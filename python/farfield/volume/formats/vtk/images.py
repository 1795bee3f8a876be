"""VTK XML images: `.vti`, and `.vtr` whose coordinates are even; `.pvti` and `.pvtr` of such pieces. Text, base64, appended; zlib,
LZ4 and LZMA.

Other grids are zones (`vtk_zones.py`).

Appended numbers that are not compressed are paged where they lie, of several pieces where these hold whole planes; compressed ones
too where their blocks are whole rows or planes.
All else is converted into the cache.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import BinaryIO

import numpy as np

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats import contents
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.contents import Content
from farfield.volume.formats.description import Array, Channel, Level, Volume, colour_channels, contiguous, from_affine
from farfield.volume.formats.files import stem, unreadable
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.vtk import compressed_blocks as vtk_blocks
from farfield.volume.formats.vtk.arrays import TYPES, DataArray, Encoding, Reader
from farfield.volume.formats.vtk.hidden_cells import hides_any
from farfield.volume.formats.vtk.legacy import is_legacy
from farfield.volume.formats.vtk.outline import BLANKING, GHOSTS, LEVELS, Outline, dims_of, encoding_of, extent_of
from farfield.volume.formats.vtk.parallel import whole_outline
from farfield.volume.formats.vtk.pieces import (
    coordinates_of,
    files_of,
    image_placed,
    in_planes,
    is_even,
    is_whole,
    parts_of,
    scatter,
    time_of,
)

NO_TIME = "its TimeValue is not one number: it has no time"
"""What is guessed of a file whose time is none."""


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a file.

    Raises:
        DataError: if the file is damaged, or of another kind.
        UnknownName: if `options.variable` names no array.
    """
    length = places.getsize(path)
    try:
        with places.open_binary(path) as file:
            found = whole_outline(path, file, length)
            return _volume(found, file, length, options, resources)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _volume(found: Outline, file: BinaryIO, length: int, options: Options, resources: ReaderResources) -> Volume:
    path = found.path
    _refuse_others(found)
    if not found.pieces:
        raise DataError(f"{path}: it holds no <Piece>, and so no numbers; write it again")
    encoding = encoding_of(found)
    reader = Reader(path, file, length, encoding)
    whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
    guessed: list[str] = []
    where, names = _chosen(found, options, guessed)
    held = _held(found)
    dims = dims_of(whole, cells=where == "CellData")
    if where == "CellData":
        guessed.append("its numbers are of cells: each is taken to stand at its cell's centre")
    origin, spacing, direction = _placed(found, reader, whole, options)
    columns = [[direction[r][n] * spacing[n] for r in range(3)] for n in range(3)]
    half = [0.5 if where == "CellData" and whole[2 * n] < whole[2 * n + 1] else 0.0 for n in range(3)]
    first = [origin[r] + sum(columns[n][r] * (whole[2 * n] + half[n]) for n in range(3)) for r in range(3)]
    geometry = from_affine(path, columns, first, "Direction")
    time = None
    try:
        time = time_of(found, reader)
    except DataError:  # its voxels are as good as without
        guessed.append(NO_TIME)
    arrays, channels, tables, reads = _arrays(found, reader, where, names, whole, dims, resources)
    kind = "scalar" if len(channels) == 1 else "channels"
    if len(arrays) == 1 and arrays[0].dtype == "uint8" and len(channels) in (3, 4):
        kind, channels = colour_channels(len(channels))
    if hides_any(found, reader):
        words = ["::NAME"] if options.variable is not None else []
        words += ["options of volumes"] if replace(options, variable=None) != Options() else []
        without = f"; opened without {' and '.join(words)} it is a hole" if words else ""
        what = BLANKING if found.pieces[0].arrays.get(BLANKING) else GHOSTS
        guessed.append(f"what its {what} hides is shown{without}")
    if "Spacing" not in found.grid and found.kind == "ImageData":
        guessed.append("it does not say how far voxels are apart: 1")
    return Volume(
        path=path,
        format=_format_of(found),
        levels=[Level(arrays, geometry.origin, (spacing[0], spacing[1], spacing[2]))],
        channels=channels,
        kind=kind,
        guessed=guessed,
        direction=geometry.direction,
        times=[] if time is None else [time],
        tables=tables,
        reads=[*files_of(found), *reads],
        contents=held,
        shown=next(
            n for n, c in enumerate(held) if c.name == names[0] and c.about.startswith("cells") == (where == "CellData")
        ),
    )


def _format_of(found: Outline) -> str:
    if is_legacy(found):
        return f"legacy VTK {found.kind}"
    return f"VTK XML {'P' if found.pieces[0].file is not None else ''}{found.kind}"


def _held(found: Outline) -> list[Content]:
    """What `info` lists of its arrays."""
    first = found.pieces[0]
    return [
        Content(a.name, f"{'cells' if where == 'CellData' else 'points'}, {a.dtype}")
        for where in ("PointData", "CellData")
        for a in first.arrays.get(where, [])
        if a.dtype in TYPES.values() and a.name not in (GHOSTS, LEVELS)
    ]


def _refuse_others(found: Outline) -> None:
    path = found.path
    if found.kind not in ("ImageData", "RectilinearGrid"):
        raise DataError(f"{path}: this is VTK XML of the kind '{found.kind}', and no volume; a .vti is one")


def _chosen(found: Outline, options: Options, guessed: list[str]) -> tuple[str, list[str]]:
    """Whether arrays of points or of cells are shown, and their names."""
    first = found.pieces[0]
    for where in ("PointData", "CellData"):
        names = [
            a.name for a in first.arrays.get(where, []) if a.dtype in TYPES.values() and a.name not in (GHOSTS, LEVELS)
        ]
        if options.variable is not None:
            if options.variable in names:
                return where, [options.variable]
            continue
        if not names:
            continue
        best = next((n for n in names if n == first.active.get(where)), names[0])
        others = [n for n in names if n != best]
        if others:
            guessed.append(f"of its arrays '{best}' is shown; {found.path}::NAME shows another: {', '.join(others)}")
        return where, [best]
    held = _held(found)
    if options.variable is not None:
        number = contents.chosen(found.path, "array", held, options.variable)
        return ("CellData" if held[number].about.startswith("cells") else "PointData"), [held[number].name]
    raise DataError(f"{found.path}: it holds no array of numbers of points or cells; write it again with its data")


def _placed(
    found: Outline, reader: Reader, whole: list[int], options: Options
) -> tuple[list[float], list[float], list[list[float]]]:
    """Origin of index 0, spacing and direction (columns are axes)."""
    path = found.path
    if found.kind == "ImageData":
        return image_placed(found, options.spacing)
    start, step = [0.0] * 3, [1.0] * 3
    for n, values in enumerate(coordinates_of(found, reader, whole)):
        if not is_even(values):
            raise DataError(
                f"{path}: its {'xyz'[n]} coordinates are not evenly spaced, so that it is no volume; resample it to a .vti (in "
                "ParaView: Resample To Image)"
            )
        step[n] = float(values[-1] - values[0]) / (len(values) - 1) if len(values) > 1 else 1.0
        start[n] = float(values[0]) - step[n] * whole[2 * n]
    return start, step, np.eye(3).tolist()


def _arrays(
    found: Outline,
    reader: Reader,
    where: str,
    names: list[str],
    whole: list[int],
    dims: tuple[int, int, int],
    resources: ReaderResources,
) -> tuple[list[Array], list[Channel], list[bytes], list[str]]:
    encoding = encoding_of(found)
    arrays: list[Array] = []
    channels: list[Channel] = []
    tables: list[bytes] = []
    reads: list[str] = []
    for name in names:
        parts = parts_of(found, where, name)
        first = parts[0][1]
        count = first.components
        shape = (*reversed(dims), count) if count > 1 else tuple(reversed(dims))
        array = Array(name or stem(found.path), first.dtype, shape, "zyxc" if count > 1 else "zyx", {})
        array.channels = list(range(len(channels), len(channels) + count))
        array.big_endian = encoding.big_endian and array.item > 1 and first.format != "ascii"
        only = is_whole(found, whole)
        if only:
            in_place = first.format in ("raw", "bare") and _in_place(found, reader, array, first, encoding, tables)
        else:
            in_place = in_planes(found, reader, array, parts, whole, where)
        if not in_place:
            made = converted(
                found.path,
                resources,
                count=array.bytes,
                why=_why(first, encoding, only=only),
                how=f"{where} {name}",
                pieces=partial(reader.pieces, first, array.bytes) if only else None,
                write=None if only else scatter(found, reader, array, parts, whole, where),
                files=files_of(found),
            )
            array.place = contiguous(made.path, 0)
            reads.append(made.path)
        arrays.append(array)
        label = array.name
        channels += [Channel(label)] if count == 1 else [Channel(f"{label} {n}") for n in range(count)]
    return arrays, channels, tables, reads


def _in_place(
    found: Outline, reader: Reader, array: Array, part: DataArray, encoding: Encoding, tables: list[bytes]
) -> bool:
    """Pages an appended array where it lies, if that is possible."""
    if encoding.compressor is None:
        array.place = contiguous(found.path, reader.plain_start(part, array.bytes))
        return True
    if encoding.compressor != "zlib":
        return False
    return vtk_blocks.in_place(found.path, reader.blocks(part, array.bytes), array, tables)


def _why(part: DataArray, encoding: Encoding, *, only: bool) -> str:
    if not only:
        return "is in several pieces"
    if part.format == "ascii":
        return "is written as text"
    if encoding.compressor is not None:
        return f"is compressed with {encoding.compressor} in blocks that are no rows or planes of it"
    return "is written in base64"
