"""The elements of a VTK XML file of a structured grid, and where its numbers stand: by one pass over its XML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.files import local_name, refuse_entities
from farfield.volume.formats.vtk.arrays import TYPES, DataArray, Encoding

GHOSTS = "vtkGhostType"
"""The array that says which points or cells are not a piece's own, or hidden: no field."""
LEVELS = "vtkGhostLevels"
"""The same of old files: above 0 is what is not a piece's own."""
BLANKING = "BLANKING"
"""Of legacy files: the array, in a group of its own, whose zeros are hidden points."""
_COMPRESSORS = {
    "": None,
    "vtkZLibDataCompressor": "zlib",
    "vtkLZ4DataCompressor": "lz4",
    "vtkLZMADataCompressor": "lzma",
}
_DEEPEST = 64


@dataclass
class Piece:
    """A box of a grid."""

    extent: list[int]
    arrays: dict[str, list[DataArray]] = field(default_factory=dict)
    """Under `PointData`, `CellData`, `Coordinates`, `Points`."""
    active: dict[str, str] = field(default_factory=dict)
    source: str = ""
    """Of a file that was written in parallel: the file that holds it, as it is named there."""
    file: Outline | None = None
    """That file, once it was looked at (`vtk_parallel.py`); None where the numbers are in the file that lists the piece."""


@dataclass
class Outline:
    """What a file says of itself."""

    path: str
    kind: str = ""
    about: dict[str, str] = field(default_factory=dict)
    grid: dict[str, str] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    time: DataArray | None = None
    """The number under `TimeValue`."""
    appended: int | None = None
    """First byte of the appended numbers."""
    appended_base64: bool = True


class _Enough(Exception):  # noqa: N818 - no error: what follows is no XML
    """Raised where the appended numbers begin."""


def outline(path: str, file: BinaryIO, length: int) -> Outline:
    """The elements of a file and where numbers stand, by one pass over its XML; numbers are passed over."""
    found = Outline(path)
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
            extent = about.get("Extent", found.grid.get("WholeExtent", ""))
            # Who had nothing to write may be listed all the same.
            if not (found.kind.startswith("P") and _is_empty(extent)):
                found.pieces.append(Piece(extent_of(path, "Extent", extent), source=about.get("Source", "")))
        elif name in ("PointData", "CellData") and found.pieces:
            found.pieces[-1].active[name] = about.get("Scalars", "")
        elif name == "DataArray" and len(stack) > 1:
            made = _data_array(path, about)
            made.start = (
                _after_tag(path, file, parser.CurrentByteIndex) if made.format in ("ascii", "binary") else made.start
            )
            current.append(made)
            if stack[-2] == "FieldData" and made.name == "TimeValue":
                found.time = made
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
    made = DataArray(name, dtype, components, form, most=about.get("RangeMax", ""))
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


def _is_empty(text: str) -> bool:
    words = text.split()
    whole = len(words) == 6 and all(w.lstrip("-").isdigit() for w in words)
    return whole and any(int(words[2 * n]) > int(words[2 * n + 1]) for n in range(3))


def dims_of(extent: list[int], *, cells: bool) -> tuple[int, int, int]:
    """Points along each axis of an extent, or cells."""
    a, b, c = (
        extent[2 * n + 1] - extent[2 * n] + (0 if cells and extent[2 * n] < extent[2 * n + 1] else 1) for n in range(3)
    )
    return a, b, c


def encoding_of(found: Outline) -> Encoding:
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


def settle(found: Outline, array: DataArray) -> None:
    """Turns an offset among the appended numbers into a place in the file."""
    if array.format != "appended":
        return  # or it was settled before
    if found.appended is None:
        raise DataError(
            f"{found.path}: '{array.name}' is appended, and nothing is: it was cut off; copy or write it again"
        )
    array.format = "base64" if found.appended_base64 else "raw"
    array.start += found.appended
