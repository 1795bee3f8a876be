"""VTK XML images: `.vti`, and `.vtr` whose coordinates are even. Text, base64, appended; zlib, LZ4 and LZMA.

Other grids are zones (`vtk_zones.py`).

Appended numbers that are not compressed are paged where they lie; compressed ones too where their blocks are whole rows or planes.
All else is converted into the cache.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError, UnknownName
from farfield.volume import vtk_blocks
from farfield.volume.conversion import PIECE, converted
from farfield.volume.description import Array, Channel, Level, Volume, colour_channels, contiguous, from_affine, text_of
from farfield.volume.files import local_name, refuse_entities, stem, unreadable
from farfield.volume.options import Means, Options
from farfield.volume.vtk_arrays import TYPES, DataArray, Encoding, Reader

_COMPRESSORS = {
    "": None,
    "vtkZLibDataCompressor": "zlib",
    "vtkLZ4DataCompressor": "lz4",
    "vtkLZMADataCompressor": "lzma",
}
_DEEPEST = 64
_LONGEST_LINE = 1 << 20
_MOST_BOXES = 1 << 24
"""Pieces that cut the whole into more boxes are not held against one another."""


@dataclass
class _Piece:
    extent: list[int]
    arrays: dict[str, list[DataArray]] = field(default_factory=dict)
    """Under `PointData`, `CellData`, `Coordinates`, `Points`."""
    active: dict[str, str] = field(default_factory=dict)


@dataclass
class _File:
    path: str
    kind: str = ""
    about: dict[str, str] = field(default_factory=dict)
    grid: dict[str, str] = field(default_factory=dict)
    pieces: list[_Piece] = field(default_factory=list)
    appended: int | None = None
    """First byte of the appended numbers."""
    appended_base64: bool = True


class _Enough(Exception):  # noqa: N818 - no error: what follows is no XML
    """Raised where the appended numbers begin."""


def read(path: str, options: Options, means: Means) -> Volume:
    """The volume in a file.

    Raises:
        DataError: if the file is damaged, or of another kind.
        UnknownName: if `options.variable` names no array.
    """
    length = os.path.getsize(path)
    try:
        with open(path, "rb") as file:
            found = outline(path, file, length)
            return _volume(found, file, length, options, means)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _volume(found: _File, file: BinaryIO, length: int, options: Options, means: Means) -> Volume:
    path = found.path
    _refuse_others(found)
    if not found.pieces:
        raise DataError(f"{path}: it holds no <Piece>, and so no numbers; write it again")
    encoding = encoding_of(found)
    reader = Reader(path, file, length, encoding)
    whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
    guessed: list[str] = []
    where, names = _chosen(found, options, guessed)
    dims = dims_of(whole, cells=where == "CellData")
    if where == "CellData":
        guessed.append("its numbers are of cells: each is taken to stand at its cell's centre")
    origin, spacing, direction = _placed(found, reader, whole)
    columns = [[direction[r][n] * spacing[n] for r in range(3)] for n in range(3)]
    half = [0.5 if where == "CellData" and whole[2 * n] < whole[2 * n + 1] else 0.0 for n in range(3)]
    first = [origin[r] + sum(columns[n][r] * (whole[2 * n] + half[n]) for n in range(3)) for r in range(3)]
    geometry = from_affine(path, columns, first, "Direction")
    arrays, channels, tables, reads = _arrays(found, reader, where, names, whole, dims, means)
    kind = "scalar" if len(channels) == 1 else "channels"
    if len(arrays) == 1 and arrays[0].dtype == "uint8" and len(channels) in (3, 4):
        kind, channels = colour_channels(len(channels))
    if "Spacing" not in found.grid and found.kind == "ImageData":
        guessed.append("it does not say how far voxels are apart: 1")
    return Volume(
        path=path,
        format=f"VTK XML {found.kind}",
        levels=[Level(arrays, geometry.origin, (spacing[0], spacing[1], spacing[2]))],
        channels=channels,
        kind=kind,
        guessed=guessed,
        direction=geometry.direction,
        tables=tables,
        reads=[path, *reads],
    )


def _refuse_others(found: _File) -> None:
    path = found.path
    if found.kind.startswith("P"):
        raise DataError(
            f"{path}: this names the files of a volume that was written in parallel; save it as one file (in "
            f"ParaView: File, Save Data, {found.kind[1:]}), or open one of the files"
        )
    if found.kind not in ("ImageData", "RectilinearGrid"):
        raise DataError(f"{path}: this is VTK XML of the kind '{found.kind}', and no volume; a .vti is one")


def outline(path: str, file: BinaryIO, length: int) -> _File:
    """The elements of a file and where numbers stand, by one pass over its XML; numbers are passed over."""
    found = _File(path)
    stack: list[str] = []
    current: list[DataArray] = []
    parser = expat.ParserCreate()
    refuse_entities(path, parser)

    def start(tag: str, about: dict[str, str]) -> None:
        name = local_name(tag)
        if len(stack) > _DEEPEST:
            raise DataError(f"{path}: its elements are nested too deeply; write it again")
        stack.append(name)
        if current and not current[-1].end:
            # Keys of information stand behind the numbers, in the same element.
            current[-1].end = parser.CurrentByteIndex
        if name == "VTKFile":
            found.kind, found.about = about.get("type", ""), about
        elif len(stack) == 2 and name == found.kind:
            found.grid = about
        elif name == "Piece":
            found.pieces.append(_Piece([], {}, {}))
            found.pieces[-1].extent = extent_of(path, "Extent", about.get("Extent", found.grid.get("WholeExtent", "")))
        elif name in ("PointData", "CellData") and found.pieces:
            found.pieces[-1].active[name] = about.get("Scalars", "")
        elif name == "DataArray" and len(stack) > 1:
            made = _data_array(path, about)
            made.start = (
                _after_tag(path, file, parser.CurrentByteIndex) if made.format in ("ascii", "binary") else made.start
            )
            current.append(made)
            if found.pieces and stack[-2] in ("PointData", "CellData", "Coordinates", "Points"):
                found.pieces[-1].arrays.setdefault(stack[-2], []).append(made)
        elif name == "AppendedData":
            found.appended_base64 = about.get("encoding", "base64") != "raw"
            found.appended = _underscore(path, file, parser.CurrentByteIndex)
            raise _Enough

    def end(tag: str) -> None:
        if local_name(tag) == "DataArray" and current:
            array = current.pop()
            array.end = array.end or parser.CurrentByteIndex
        stack.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        at = 0
        while at < length:
            file.seek(at)  # the handlers move it
            piece = file.read(PIECE)
            if not piece:
                break
            at += len(piece)
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except _Enough:
        pass  # as said there
    except expat.ExpatError as error:
        raise DataError(
            f"{path}: its XML cannot be read ({error}): it was cut off or changed; copy or write it again"
        ) from error
    return found


def _data_array(path: str, about: dict[str, str]) -> DataArray:
    name = about.get("Name", "")
    dtype = TYPES.get(about.get("type", ""), about.get("type", "nothing"))
    components = _whole(path, f"NumberOfComponents of '{name}'", about.get("NumberOfComponents") or "1", 1)
    form = about.get("format", "ascii")
    made = DataArray(name, dtype, components, form)
    if form == "appended":
        made.start = _whole(path, f"offset of '{name}'", about.get("offset", ""), 0)
    elif form not in ("ascii", "binary"):
        raise DataError(
            f"{path}: '{name}' has the format '{form}', which is none of ascii, binary and appended; write it again"
        )
    return made


def _whole(path: str, what: str, text: str, least: int) -> int:
    try:
        found = int(text)
    except ValueError as error:
        raise DataError(
            f"{path}: the {what} is '{text}', which is no whole number; the file is damaged: write it again"
        ) from error
    if found < least:
        raise DataError(
            f"{path}: the {what} is {found}, which is less than {least}; the file is damaged: write it again"
        )
    return found


def _after_tag(path: str, file: BinaryIO, at: int) -> int:
    """The byte after the `>` of the tag that begins at a byte."""
    return _find(path, file, at, b">") + 1


def _underscore(path: str, file: BinaryIO, at: int) -> int:
    """The byte after the `_` that stands before appended numbers."""
    return _find(path, file, _find(path, file, at, b">") + 1, b"_") + 1


def _find(path: str, file: BinaryIO, at: int, mark: bytes) -> int:
    file.seek(at)
    text = file.read(1 << 16)
    found = text.find(mark)
    if found < 0:
        raise DataError(
            f"{path}: a tag of it has no '{mark.decode()}' after it: it was cut off; copy or write it again"
        )
    return at + found


def extent_of(path: str, what: str, text: str) -> list[int]:
    """Six whole numbers: first and last point along each axis."""
    try:
        found = [int(w) for w in text.split()]
    except ValueError as error:
        raise DataError(f"{path}: its {what} is '{text}', which is not six whole numbers; write it again") from error
    if len(found) != 6 or any(found[2 * n] > found[2 * n + 1] for n in range(3)):
        raise DataError(f"{path}: its {what} is '{text}', which is not three ranges; write it again")
    return found


def dims_of(extent: list[int], *, cells: bool) -> tuple[int, int, int]:
    """Points along each axis of an extent, or cells."""
    a, b, c = (
        extent[2 * n + 1] - extent[2 * n] + (0 if cells and extent[2 * n] < extent[2 * n + 1] else 1) for n in range(3)
    )
    return a, b, c


def encoding_of(found: _File) -> Encoding:
    """How the numbers of a file are written."""
    about, path = found.about, found.path
    order = about.get("byte_order", "LittleEndian")
    if order not in ("LittleEndian", "BigEndian"):
        raise DataError(f"{path}: its byte_order is '{order}'; write it again")
    header = {"UInt32": "u4", "UInt64": "u8"}.get(about.get("header_type", "UInt32"))
    if header is None:
        raise DataError(
            f"{path}: its header_type is '{about['header_type']}', which is neither UInt32 nor UInt64; write it again"
        )
    named = about.get("compressor", "")
    if named not in _COMPRESSORS:
        raise DataError(
            f"{path}: its compressor '{named}' is not known; write it with vtkZLibDataCompressor, or without one"
        )
    return Encoding(order == "BigEndian", (">" if order == "BigEndian" else "<") + header, _COMPRESSORS[named])


def _chosen(found: _File, options: Options, guessed: list[str]) -> tuple[str, list[str]]:
    """Whether arrays of points or of cells are shown, and their names."""
    first = found.pieces[0]
    for where in ("PointData", "CellData"):
        names = [a.name for a in first.arrays.get(where, []) if a.dtype in TYPES.values()]
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
    there = [a.name for arrays in first.arrays.values() for a in arrays]
    if options.variable is not None:
        raise UnknownName(f"{found.path}: no array named '{options.variable}'; there are: {', '.join(there) or 'none'}")
    raise DataError(f"{found.path}: it holds no array of numbers of points or cells; write it again with its data")


def _placed(found: _File, reader: Reader, whole: list[int]) -> tuple[list[float], list[float], list[list[float]]]:
    """Origin of index 0, spacing and direction (columns are axes)."""
    path = found.path
    if found.kind == "ImageData":
        origin = _floats(path, "Origin", found.grid.get("Origin", "0 0 0"), 3)
        spacing = _floats(path, "Spacing", found.grid.get("Spacing", "1 1 1"), 3)
        matrix = _floats(path, "Direction", found.grid.get("Direction", "1 0 0 0 1 0 0 0 1"), 9)
        for n in range(3):
            # An axis of one voxel has no distance between voxels, and some writers say 0.
            if spacing[n] == 0 and whole[2 * n] == whole[2 * n + 1]:
                spacing[n] = 1.0
        if not all(v > 0 for v in spacing):
            raise DataError(
                f"{path}: its Spacing is {spacing}, and should be positive; correct it, or give --spacing X,Y,Z"
            )
        return origin, spacing, [matrix[0:3], matrix[3:6], matrix[6:9]]
    lines = found.pieces[0].arrays.get("Coordinates", [])
    if len(lines) != 3 or len(found.pieces) != 1:
        raise DataError(
            f"{path}: a rectilinear grid has one piece with three arrays of coordinates; save it as a .vti instead"
        )
    origin, spacing = [0.0] * 3, [1.0] * 3
    for n, line in enumerate(lines):
        count = whole[2 * n + 1] - whole[2 * n] + 1
        first, step = _even(found, reader, line, count, "xyz"[n])
        origin[n], spacing[n] = first - step * whole[2 * n], step
    return origin, spacing, np.eye(3).tolist()


def _even(found: _File, reader: Reader, line: DataArray, count: int, axis: str) -> tuple[float, float]:
    values = line_of(found, reader, line, count, axis)
    if not is_even(values):
        raise DataError(
            f"{found.path}: its {axis} coordinates are not evenly spaced, so that it is no volume; resample it to a .vti "
            "(in ParaView: Resample To Image), or save it as one piece, which Farfield reads as a zone"
        )
    return float(values[0]), float(values[-1] - values[0]) / (count - 1) if count > 1 else 1.0


def line_of(found: _File, reader: Reader, line: DataArray, count: int, axis: str) -> NDArray[np.float64]:
    """The coordinates along an axis of a rectilinear grid.

    Raises:
        DataError: if they are not so many finite numbers.
    """
    path = found.path
    if count > _LONGEST_LINE or line.dtype not in TYPES.values():
        raise DataError(
            f"{path}: its {axis} coordinates are {count:,} numbers of {line.dtype}; save it as a .vti instead"
        )
    # It may have been asked for before.
    array = replace(line)
    settle(found, array)
    raw = b"".join(reader.pieces(array, count * np.dtype(array.dtype).itemsize))
    big = found.about.get("byte_order") == "BigEndian" and array.format != "ascii"
    values = np.frombuffer(raw, np.dtype(array.dtype).newbyteorder(">" if big else "<")).astype(np.float64)
    if len(values) != count or not np.isfinite(values).all():
        raise DataError(f"{path}: its {axis} coordinates are not {count:,} numbers; write it again")
    return values


def is_even(values: NDArray[np.float64]) -> bool:
    """Whether coordinates rise by the same step each."""
    count = len(values)
    if count == 1:
        return True
    step = float(values[-1] - values[0]) / (count - 1)
    slack = max(abs(step) * 1e-3, 4 * float(np.finfo(np.float32).eps) * float(np.abs(values).max()))
    return bool(step > 0 and np.abs(values - (values[0] + step * np.arange(count))).max() <= slack)


def _floats(path: str, what: str, text: str, count: int) -> list[float]:
    try:
        found = [float(w) for w in text.split()]
    except ValueError as error:
        raise DataError(f"{path}: its {what} is '{text}', which is not numbers; write it again") from error
    if len(found) != count or not all(map(math.isfinite, found)):
        raise DataError(f"{path}: its {what} is '{text}', which is not {count} finite numbers; write it again")
    return found


def settle(found: _File, array: DataArray) -> None:
    """Turns an offset among the appended numbers into a place in the file."""
    if array.format != "appended":
        return  # or it was settled before
    if found.appended is None:
        raise DataError(
            f"{found.path}: '{array.name}' is appended, and nothing is: it was cut off; copy or write it again"
        )
    array.format = "base64" if found.appended_base64 else "raw"
    array.start += found.appended


def _arrays(
    found: _File,
    reader: Reader,
    where: str,
    names: list[str],
    whole: list[int],
    dims: tuple[int, int, int],
    means: Means,
) -> tuple[list[Array], list[Channel], list[bytes], list[str]]:
    encoding = encoding_of(found)
    arrays: list[Array] = []
    channels: list[Channel] = []
    tables: list[bytes] = []
    reads: list[str] = []
    for name in names:
        parts = []
        for piece in found.pieces:
            part = next((a for a in piece.arrays.get(where, []) if a.name == name), None)
            if part is None:
                raise DataError(f"{found.path}: one of its pieces has no '{name}'; write it again")
            settle(found, part)
            parts.append((piece, part))
        first = parts[0][1]
        count = first.components
        shape = (*reversed(dims), count) if count > 1 else tuple(reversed(dims))
        array = Array(name or stem(found.path), first.dtype, shape, "zyxc" if count > 1 else "zyx", {})
        array.channels = list(range(len(channels), len(channels) + count))
        array.big_endian = encoding.big_endian and array.item > 1 and first.format != "ascii"
        only = len(parts) == 1 and found.pieces[0].extent == whole
        if any(p.dtype != first.dtype or p.components != count for _, p in parts):
            raise DataError(f"{found.path}: '{name}' is not of one type in all pieces; write it again")
        if not (only and first.format == "raw" and _in_place(found, reader, array, first, encoding, tables)):
            made = converted(
                found.path,
                means,
                count=array.bytes,
                why=_why(first, encoding, only=only),
                how=f"{where} {name}",
                pieces=partial(reader.pieces, first, array.bytes) if only else None,
                write=None if only else scatter(found.path, reader, array, parts, whole, where),
            )
            array.place = contiguous(made.path, 0)
            reads.append(made.path)
        arrays.append(array)
        label = array.name
        channels += [Channel(label)] if count == 1 else [Channel(f"{label} {n}") for n in range(count)]
    return arrays, channels, tables, reads


def _in_place(
    found: _File, reader: Reader, array: Array, part: DataArray, encoding: Encoding, tables: list[bytes]
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


def scatter(
    path: str,
    reader: Reader,
    array: Array,
    parts: list[tuple[_Piece, DataArray]],
    whole: list[int],
    where: str,
) -> Callable[[BinaryIO, Callable[[int], None]], None]:
    """Writes pieces to their places, row by row."""
    cells = where == "CellData"
    size = array.item * array.length("c")
    nx, ny, _ = array.dims

    def rows(piece: _Piece, part: DataArray) -> Iterator[tuple[int, bytes]]:
        px, py, pz = dims_of(piece.extent, cells=cells)
        at = [piece.extent[2 * n] - whole[2 * n] for n in range(3)]
        if any(at[n] < 0 or at[n] + (px, py, pz)[n] > array.dims[n] for n in range(3)):
            raise DataError(f"{path}: a piece of it lies outside of its WholeExtent; write it again")
        kept = bytearray()
        row, n = px * size, 0
        for data in reader.pieces(part, px * py * pz * size):
            kept += data
            usable = len(kept) // row * row
            for start in range(0, usable, row):
                k, j = divmod(n, py)
                if k >= pz:
                    raise DataError(f"{path}: a piece of it holds more numbers than its extent; write it again")
                yield (((at[2] + k) * ny + at[1] + j) * nx + at[0]) * size, bytes(kept[start : start + row])
                n += 1
            del kept[:usable]
        if n != py * pz:
            raise DataError(
                f"{path}: a piece of it holds {n:,} rows of {py * pz:,}: it was cut off; copy or write it again"
            )

    def write(file: BinaryIO, tell: Callable[[int], None]) -> None:
        total = sum(math.prod(dims_of(p.extent, cells=cells)) for p, _ in parts) * size
        done = told = 0
        for piece, part in parts:
            for place, data in rows(piece, part):
                file.seek(place)
                file.write(data)
                done += len(data)
                if done * array.bytes // total - told > PIECE:
                    tell(done * array.bytes // total - told)
                    told = done * array.bytes // total
        if not _covered([p.extent for p, _ in parts], whole, cells=cells):
            raise DataError(
                f"{path}: its pieces do not fill its WholeExtent {text_of(array.dims)}; save it as one piece"
            )
        tell(array.bytes - told)

    return write


def _covered(extents: list[list[int]], whole: list[int], *, cells: bool) -> bool:
    """Whether pieces fill the whole: between all borders that they have along the axes each box lies in one of them."""
    cuts = []
    for n in range(3):
        top = whole[2 * n + 1] + (0 if cells and whole[2 * n] < whole[2 * n + 1] else 1)
        found = {whole[2 * n], top}
        for e in extents:
            found |= {e[2 * n], e[2 * n + 1] + (0 if cells and e[2 * n] < e[2 * n + 1] else 1)}
        cuts.append(sorted(found))
    if math.prod(len(c) for c in cuts) * len(extents) > _MOST_BOXES:
        return False
    for z in cuts[2][:-1]:
        for y in cuts[1][:-1]:
            for x in cuts[0][:-1]:
                inside = any(
                    all(
                        e[2 * n] <= v < e[2 * n + 1] + (0 if cells and e[2 * n] < e[2 * n + 1] else 1)
                        for n, v in enumerate((x, y, z))
                    )
                    for e in extents
                )
                if not inside:
                    return False
    return True
