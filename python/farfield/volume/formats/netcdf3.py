"""NetCDF classic (CDF-1, CDF-2, CDF-5): variables paged in place.

The header is parsed by the format's grammar (NetCDF User's Guide, "File Format Specifications").
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError, UnknownName
from farfield.sources import places
from farfield.volume.formats import unsupported_meshes
from farfield.volume.formats.cf import auxiliary_coordinates
from farfield.volume.formats.cf import axes as naming
from farfield.volume.formats.cf import conventions as cf
from farfield.volume.formats.cf.auxiliary_coordinates import COORDINATE_RANK, Other
from farfield.volume.formats.cf.coordinates import LONGEST
from farfield.volume.formats.contents import Content
from farfield.volume.formats.description import (
    Array,
    Channel,
    Level,
    Volume,
    colour_channels,
    contiguous,
    planes,
    text_of,
)
from farfield.volume.formats.files import head
from farfield.volume.formats.options import Options, ReaderResources

_TYPES = {
    1: ("int8", 1), 2: ("char", 1), 3: ("int16", 2), 4: ("int32", 4), 5: ("float32", 4), 6: ("float64", 8), 7: ("uint8", 1),
    8: ("uint16", 2), 9: ("uint32", 4), 10: ("int64", 8), 11: ("uint64", 8),
}  # fmt: skip
_LONGEST_HEADER = 64 << 20
_LONGEST_NAME = 1024
"""Largest length of a name in UTF-8 bytes; the library allows 256 characters."""
_MOST = 1 << 20
"""Largest number of dimensions, attributes and variables in a header."""
_MOST_STEPS = 1 << 20


@dataclass
class _Variable:
    name: str
    dimensions: list[int]
    attributes: dict[str, Any]
    kind: int
    begin: int
    shape: tuple[int, ...] = ()
    record: bool = False


@dataclass
class _Header:
    records: int
    dimensions: list[tuple[str, int]] = field(default_factory=list)
    variables: list[_Variable] = field(default_factory=list)
    record_bytes: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)


class _Cursor:
    """A parser that reads a header from its beginning."""

    def __init__(self, path: str, raw: bytes, version: int) -> None:
        self._path, self._raw, self._at = path, raw, 4
        self._count = ">q" if version == 5 else ">i"
        self._offset = ">i" if version == 1 else ">q"

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._raw):
            raise DataError(f"{self._path}: its header ends early: it was cut off; copy it again")
        found = self._raw[self._at : self._at + count]
        self._at += count
        return found

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def word(self) -> int:
        return self._number(">i")

    def count(self) -> int:
        found = self._number(self._count)
        if not 0 <= found <= len(self._raw):
            raise DataError(
                f"{self._path}: its header says that there are {found} of something; it is damaged: copy the file again"
            )
        return found

    def length(self) -> int:
        return self._number(self._count)

    def offset(self) -> int:
        return self._number(self._offset)

    def text(self) -> str:
        count = self.count()
        if count > _LONGEST_NAME:
            raise DataError(
                f"{self._path}: its header has a name of {count:,} letters, which there are none of; it is damaged: copy the "
                "file again"
            )
        return self.padded(count).decode("utf-8", errors="replace")

    def padded(self, count: int) -> bytes:
        found = self.take(count)
        self.take(-count % 4)
        return found


def _parse(path: str) -> _Header:
    raw = head(path, _LONGEST_HEADER)
    version = raw[3]
    at = _Cursor(path, raw, version)
    found = _Header(at.length())
    for _ in range(_list(path, at, 10)):
        found.dimensions.append((at.text(), at.length()))
    found.attributes = _attributes(path, at)
    for _ in range(_list(path, at, 11)):
        name = at.text()
        dimensions = [at.count() for _ in range(at.count())]
        about = _attributes(path, at)
        kind = at.word()
        at.length()  # the size, which is wrong for large variables; the shape gives it
        found.variables.append(_Variable(name, dimensions, about, kind, at.offset()))
    _settle(path, found)
    return found


def _list(path: str, at: _Cursor, tag: int) -> int:
    said, count = at.word(), at.count()
    if said not in (0, tag) or (said == 0 and count) or count > _MOST:
        raise DataError(
            f"{path}: its header has a list of kind {said} with {count} entries; it is damaged: copy the file again"
        )
    return count


def _attributes(path: str, at: _Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(_list(path, at, 12)):
        name, kind, count = at.text(), at.word(), at.count()
        if kind not in _TYPES:
            raise DataError(
                f"{path}: its attribute '{name}' is of type {kind}, which there is not; the file is damaged: copy it again"
            )
        dtype, size = _TYPES[kind]
        raw = at.padded(count * size)
        if dtype == "char":
            found[name] = raw.decode("utf-8", errors="replace").rstrip("\0")
        else:
            values = np.frombuffer(raw, np.dtype(dtype).newbyteorder(">")).tolist()
            found[name] = values[0] if len(values) == 1 else values
    return found


def _settle(path: str, header: _Header) -> None:
    """Computes shapes of variables, and the bytes of a record."""
    size = places.getsize(path)
    for v in header.variables:
        if any(d >= len(header.dimensions) for d in v.dimensions) or v.kind not in _TYPES:
            raise DataError(
                f"{path}: its variable '{v.name}' is of a dimension or type that there is not; it is damaged: copy it again"
            )
        lengths = [header.dimensions[d][1] for d in v.dimensions]
        v.record = bool(lengths) and lengths[0] == 0
        if any(n < (0 if m == 0 else 1) for m, n in enumerate(lengths)):
            raise DataError(
                f"{path}: its variable '{v.name}' has the shape {text_of(lengths)}; the file is damaged: copy it again"
            )
        v.shape = tuple(lengths)
    records = [v for v in header.variables if v.record]
    each = [math.prod(v.shape[1:]) * _TYPES[v.kind][1] for v in records]
    # Records are padded to four bytes, unless there is a single variable.
    header.record_bytes = each[0] if len(each) == 1 else sum(n + -n % 4 for n in each)
    if header.records < 0:  # still being written: the size of the file gives the number
        first = min((v.begin for v in records), default=size)
        header.records = max(0, size - first) // header.record_bytes if header.record_bytes else 0
    for v in records:
        v.shape = (header.records, *v.shape[1:])


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a file: `options.variable`, else the only variable with three or more dimensions, or the largest.

    Raises:
        DataError: if the file is damaged.
        UnknownName: if the variable does not exist.
    """
    header = _parse(path)
    guessed: list[str] = []
    chosen = _chosen(path, header, options, guessed)
    dtype, item = _TYPES[chosen.kind]
    letters, by_axis, unplaced, said = _axes_of(path, header, chosen)
    array = Array(chosen.name, dtype, chosen.shape, letters, {}, big_endian=item > 1)
    array.channels = list(range(array.length("c")))
    _place(path, header, chosen, array)
    _refuse_short(path, header)
    about = chosen.attributes
    located = cf.locate(letters, array.shape, by_axis, unplaced)
    missing, beyond = cf.missing_of(array, about, cf.DEFAULT_FILLS.get(dtype))
    channel, more = cf.channel_of(chosen.name, about, missing)
    more += beyond
    count = array.length("c")
    kind, channels = "scalar", [channel]
    if letters.endswith("c") and count in (3, 4) and dtype == "uint8":
        kind, channels = colour_channels(count)
    elif count > 1:
        kind = "channels"
        channels = [
            Channel(f"{channel.name} {n}", channel.units, scale=channel.scale, missing=channel.missing)
            for n in range(count)
        ]
    geometry = located.geometry
    held = [v.name for v in _held(header)]
    return Volume(
        path=path,
        format="NetCDF classic",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=[*guessed, *said, *located.guessed, *more],
        length_unit=located.length_unit,
        axis_units=located.axis_units,
        direction=geometry.direction,
        times=located.times,
        time_units=located.time_units,
        places=located.places,
        reads=[path],
        contents=[Content(v.name, f"{text_of(v.shape)} {_TYPES[v.kind][0]}") for v in _held(header)],
        shown=held.index(chosen.name) if chosen.name in held else None,
    )


def _axes_of(
    path: str, header: _Header, v: _Variable
) -> tuple[str, dict[str, cf.Coordinate], tuple[str, ...], list[str]]:
    """A letter per dimension, coordinates by letter, coordinates without a place, and assumptions."""
    names = _names(header, v)
    beside = _coordinates(path, header, names)
    others = (
        Other(o.name, _names(header, o), o.shape, o.attributes, partial(_read_whole, path, header, o))
        for o in header.variables
        if o is not v and 0 < len(o.shape) <= COORDINATE_RANK and _TYPES[o.kind][0] != "char"
    )
    more = auxiliary_coordinates.find(names, v.shape, v.attributes, beside, others)
    beside |= more.lines
    letters, said = naming.of_array(
        f"{path}::{v.name}",
        v.shape,
        names,
        {n: c.attributes for n, c in beside.items()},
        colours=_TYPES[v.kind][0] == "uint8",
    )
    by_axis = {a: beside[n] for a, n in zip(letters, names, strict=True) if n is not None and n in beside}
    return letters, by_axis, more.beyond, [*more.said, *said]


def _names(header: _Header, v: _Variable) -> list[str | None]:
    return [header.dimensions[d][0] for d in v.dimensions]


def laid(path: str, options: Options) -> cf.Laid:
    """The layout of the variable that `read` chooses.

    Raises:
        DataError: if the file is damaged.
        UnknownName: if the variable does not exist.
    """
    header = _parse(path)
    v = _chosen(path, header, options, [])
    letters, by_axis, beyond, _ = _axes_of(path, header, v)
    others = tuple(o.name for o in _fields(header) if o.dimensions == v.dimensions and o is not v)
    rest = tuple(o.name for o in _held(header) if o.name not in (v.name, *others))
    return cf.Laid(v.name, letters, v.shape, by_axis, others, beyond, rest)


def _fields(header: _Header) -> list[_Variable]:
    """Variables of numbers that are not coordinates or parts of other variables."""
    named = cf.not_fields((v.name, v.attributes) for v in header.variables)
    numbers = [v for v in header.variables if _TYPES[v.kind][0] != "char"]
    return [v for v in numbers if v.name not in named and not _is_bound(header, v)]


def _held(header: _Header) -> list[_Variable]:
    """Variables that may be shown, in the order of their numbers."""
    return [v for v in _fields(header) if v.shape]


def _chosen(path: str, header: _Header, options: Options, guessed: list[str]) -> _Variable:
    if options.variable is None:
        of_file = [(v.name, v.attributes) for v in header.variables]
        kind = unsupported_meshes.of_netcdf(header.attributes, [name for name, _ in header.dimensions], of_file)
        if kind is not None:
            raise unsupported_meshes.refusal(path, kind)
    fields = _fields(header) or [v for v in header.variables if _TYPES[v.kind][0] != "char"]
    if options.variable is not None:
        name = options.variable.strip("/")
        found = next((v for v in header.variables if v.name == name), None)
        held = _held(header)
        if found is None and name.isdecimal() and int(name) < len(held):
            return held[int(name)]
        if found is None or _TYPES[found.kind][0] == "char" or not found.shape:
            there = ", ".join(v.name for v in fields[:20])
            raise UnknownName(f"{path}: no variable of numbers named '{name}'; there are: {there or 'none'}")
        return found
    images = [v for v in fields if len(v.shape) >= 3] or [v for v in fields if len(v.shape) == 2]
    if not images:
        raise DataError(
            f"{path}: it holds no variable of two or more dimensions; there are: {', '.join(v.name for v in header.variables)}"
        )
    best = max(images, key=lambda v: math.prod(v.shape) * _TYPES[v.kind][1])
    if len(images) > 1:
        guessed.append(
            f"of its {len(images)} variables ({', '.join(v.name for v in images[:8])}) the largest, {best.name}, is "
            f"shown; {path}::NAME "
            "shows another"
        )
    return best


def _is_bound(header: _Header, v: _Variable) -> bool:
    return cf.is_bound(v.name, v.attributes, _names(header, v))


def _place(path: str, header: _Header, v: _Variable, array: Array) -> None:
    if min(array.shape, default=0) < 1:
        return  # the description reports an empty variable
    size = places.getsize(path)
    if not v.record:
        if v.begin < 0 or v.begin + array.bytes > size:
            raise _short(path, v, v.begin + array.bytes, size)
        array.place = contiguous(path, v.begin)
        return
    if header.records > _MOST_STEPS:
        raise DataError(f"{path}: it has {header.records:,} records, more than are read; take a part of them out first")
    each = array.bytes // header.records
    end = v.begin + (header.records - 1) * header.record_bytes + each
    if v.begin < 0 or end > size:
        raise _short(path, v, end, size)
    if each == header.record_bytes:
        array.place = contiguous(path, v.begin)
        return
    array.place = planes([path] * header.records, [v.begin + n * header.record_bytes for n in range(header.records)])


def _refuse_short(path: str, header: _Header) -> None:
    """Refuses a file that ends within a variable; the last one's padding may be absent."""
    size = places.getsize(path)
    for v in header.variables:
        each = math.prod(v.shape[1:] if v.record else v.shape) * _TYPES[v.kind][1]
        end = v.begin + (max(0, header.records - 1) * header.record_bytes if v.record else 0) + each
        if end > size and not (v.record and header.records == 0):
            raise _short(path, v, end, size)


def _short(path: str, v: _Variable, end: int, size: int) -> DataError:
    return DataError(
        f"{path}: its variable '{v.name}' goes to byte {end:,}, and the file ends at {size:,}: it was cut off; copy it again"
    )


def _coordinates(path: str, header: _Header, names: list[str | None]) -> dict[str, cf.Coordinate]:
    found = {}
    for v in header.variables:
        if (
            v.name in names
            and len(v.shape) == 1
            and header.dimensions[v.dimensions[0]][0] == v.name
            and v.shape[0] <= LONGEST
        ):
            found[v.name] = cf.Coordinate(v.name, v.attributes, partial(_read_whole, path, header, v))
    return found


def _read_whole(path: str, header: _Header, v: _Variable) -> NDArray[Any]:
    """All numbers of a short variable, in order."""
    name, item = _TYPES[v.kind]
    if name == "char":
        return np.empty(0, dtype=object)
    dtype = np.dtype(name).newbyteorder(">")
    if not v.record:
        return np.frombuffer(head(path, math.prod(v.shape) * item, max(0, v.begin)), dtype)
    each = math.prod(v.shape[1:]) * item
    with places.open_binary(path) as file:
        parts = []
        for n in range(v.shape[0]):
            file.seek(v.begin + n * header.record_bytes)
            parts.append(file.read(each))
    raw = b"".join(parts)
    return np.frombuffer(raw[: len(raw) // item * item], dtype)
