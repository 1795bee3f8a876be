"""NRRD: attached and detached headers, raw, gzip, bzip2, text (https://teem.sourceforge.net/nrrd/format.html)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.compression import unpacked
from farfield.volume.formats.decimals import tidied
from farfield.volume.formats.description import (
    Array,
    Channel,
    Geometry,
    Level,
    Volume,
    check_size,
    colour_channels,
    contiguous,
    from_affine,
    planes,
    text_of,
)
from farfield.volume.formats.files import head, stem
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.raster import nrrd_text
from farfield.volume.formats.units import in_common, unit

_LONGEST_HEADER = 4 << 20
_TYPES = {
    "int8": ("signed char", "int8", "int8_t"),
    "uint8": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "int16": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "uint16": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "int32": ("int", "signed int", "int32", "int32_t"),
    "uint32": ("uint", "unsigned int", "uint32", "uint32_t"),
    "int64": ("longlong", "long long", "long long int", "signed long long", "signed long long int", "int64", "int64_t"),
    "uint64": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "float32": ("float",),
    "float64": ("double",),
}
_NAMES = {name: dtype for dtype, names in _TYPES.items() for name in names}
_SPACES = {
    "right-anterior-superior": "RAS", "ras": "RAS", "left-anterior-superior": "LAS", "las": "LAS",
    "left-posterior-superior": "LPS", "lps": "LPS", "right-anterior-superior-time": "RAS", "rast": "RAS",
    "left-anterior-superior-time": "LAS", "last": "LAS", "left-posterior-superior-time": "LPS", "lpst": "LPS",
}  # fmt: skip
_COLOURS = {"rgb-color": 3, "rgba-color": 4, "3-color": 3, "4-color": 4}
_COMPONENTS = (
    "vector", "list", "point", "covariant-vector", "normal", "scalar", "stub", "none", "2-vector", "3-vector", "3-normal",
    "3-gradient", "4-vector", "quaternion", "3-symmetric-matrix", "3-masked-symmetric-matrix", "3-matrix", "3-masked-matrix",
    "complex", "hsv-color", "xyz-color",
)  # fmt: skip


@dataclass
class _Header:
    path: str
    fields: dict[str, str]
    end: int
    """Offset of the first byte after an attached header."""

    def words(self, key: str) -> list[str]:
        return self.fields.get(key, "").split()

    def numbers(self, key: str, kind: Any, count: int | None = None) -> list[Any]:
        try:
            found = [kind(w) for w in self.words(key)]
        except ValueError as error:
            raise DataError(
                f"{self.path}: its '{key}' is '{self.fields[key]}', which is not numbers; correct the header"
            ) from error
        if count is not None and len(found) != count:
            raise DataError(f"{self.path}: its '{key}' has {len(found)} entries for {count} axes; correct the header")
        return found


@dataclass(frozen=True)
class _Samples:
    """Positions of an axis's samples from `spacings` or `axis mins` and `axis maxs`; NaN if absent."""

    apart: float
    first: float
    guessed: bool = False
    """Whether it is unknown if the least position is a sample or a cell's edge; the edge is assumed, as in teem and
    ITK."""


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume of an NRRD file.

    Raises:
        DataError: naming the invalid field.
    """
    header = _parse(path)
    rank = _whole(header, "dimension", 1, 16)
    sizes = header.numbers("sizes", int, rank)
    if min(sizes) < 1:
        raise DataError(f"{path}: its 'sizes' are {text_of(sizes)}, and should be at least 1; correct the header")
    word = " ".join(header.fields.get("type", "").lower().split())
    dtype = _NAMES.get(word)
    if dtype is None:
        raise DataError(f"{path}: its type '{word}' is none that a volume can have; convert it to float32 first")
    guessed: list[str] = []
    letters = _letters(header, rank, sizes, dtype, guessed)
    order = [letters[n] for n in range(rank)]
    # The file's first axis is the fastest; here the last one is.
    array = Array(stem(path), dtype, tuple(reversed(sizes)), "".join(reversed(order)), {})
    array.channels = list(range(array.length("c")))
    endian = header.fields.get("endian", "").lower()
    if array.item > 1 and endian not in ("little", "big"):
        guessed.append("it does not say its byte order: little-endian")
    array.big_endian = endian == "big" and array.item > 1
    files = _place(header, array, resources)
    geometry, anatomy, length_unit = _geometry(header, sizes, order, guessed)
    kind, channels = _channels(header, array, order)
    times, time_units = _times(header, array, sizes, order, guessed)
    return Volume(
        path=path,
        format=header.fields["magic"],
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=length_unit,
        anatomy=anatomy,
        direction=geometry.direction,
        times=times,
        time_units=time_units,
        reads=[path, *files],
    )


def _parse(path: str) -> _Header:
    raw = head(path, _LONGEST_HEADER)
    # An attached header ends with an empty line, a detached one with its file.
    match = re.search(rb"\r?\n\r?\n", raw)
    text, end = (raw[: match.start()], match.end()) if match else (raw, len(raw))
    if match is None and len(raw) == _LONGEST_HEADER:
        raise DataError(f"{path}: its header has no end within {_LONGEST_HEADER >> 20} MiB; copy the file again")
    lines = text.decode("utf-8", errors="replace").splitlines()
    fields = {"magic": lines[0].strip() if lines else ""}
    listing: list[str] | None = None
    for line in lines[1:]:
        if listing is not None:
            listing.append(line.strip())
        elif line.startswith("#") or not line.strip():
            continue
        elif ":=" in line and ": " not in line.split(":=")[0]:
            continue  # a key of a program, not a field of the format
        elif ":" in line:
            key, _, value = line.partition(":")
            key = " ".join(key.lower().split())
            key = {
                "datafile": "data file",
                "centerings": "centers",
                "axismins": "axis mins",
                "axismaxs": "axis maxs",
                "lineskip": "line skip",
                "byteskip": "byte skip",
            }.get(key, key)
            if key == "data file" and value.split()[:1] == ["LIST"]:
                listing = []
            fields[key] = value.strip()
        else:
            raise DataError(f"{path}: its header has the line '{line[:60]}', which is no field; copy the file again")
    if listing is not None:
        fields["data file"] = "LIST\n" + "\n".join(listing)
    return _Header(path, fields, end)


def _whole(header: _Header, key: str, least: int, most: int) -> int:
    found = header.numbers(key, int, 1)[0]
    if not least <= found <= most:
        raise DataError(f"{header.path}: its '{key}' is {found}, and should be {least} to {most}; correct the header")
    return int(found)


def _directions(header: _Header, rank: int) -> list[list[float] | None] | None:
    """Direction of each axis; None for an axis outside of space."""
    text = header.fields.get("space directions")
    if text is None:
        return None
    found: list[list[float] | None] = []
    for part in re.findall(r"none|\([^)]*\)", text):
        found.append(None if part == "none" else _vector(header, "space directions", part))
    if len(found) != rank:
        raise DataError(f"{header.path}: its 'space directions' are {len(found)} for {rank} axes; correct the header")
    return found


def _space_units(header: _Header) -> list[str]:
    """Units of the dimensions of the space, with or without quotes."""
    return re.findall(r'"([^"]*)"', header.fields.get("space units", "")) or header.words("space units")


def _in_common(names: Sequence[str], main: str, guessed: list[str]) -> tuple[str, list[float]]:
    """The unit of x, y and z, with `main` for missing ones, and the factors to it."""
    units = [unit(name) or main for name in names]
    found, ratios, alone = in_common([*units, main, main, main][:3])
    if alone is not None:
        guessed.append(f"x, y and z are in {', '.join(alone)}: their numbers are taken as of one unit")
    return found, ratios


def _vector(header: _Header, key: str, text: str) -> list[float]:
    try:
        found = [float(v) for v in text.strip("() ").split(",")]
    except ValueError as error:
        raise DataError(f"{header.path}: its '{key}' hold {text}, which is not numbers; correct the header") from error
    if not all(map(math.isfinite, found)):
        raise DataError(f"{header.path}: its '{key}' hold {text}, which are no finite numbers; correct the header")
    return found


def _letters(header: _Header, rank: int, sizes: list[int], dtype: str, guessed: list[str]) -> dict[int, str]:
    """The meaning of each axis of the file as a letter, fastest first."""
    kinds = [k.lower().strip('"') for k in header.words("kinds")]
    if len(kinds) > rank:
        raise DataError(f"{header.path}: its 'kinds' are {len(kinds)} for {rank} axes; correct the header")
    kinds += ["???"] * (rank - len(kinds))
    directions = _directions(header, rank)
    found: dict[int, str] = {}
    for n, kind in enumerate(kinds):
        if directions is not None:
            if (along := directions[n]) is None:
                found[n] = "t" if kind == "time" else "c"
            elif len(along) == 4 and not any(along[:3]):  # a space with time, such as `scanner-xyz-time`
                found[n] = "t"
            continue
        if kind == "time":
            found[n] = "t"
        elif kind in _COLOURS or kind in _COMPONENTS:
            found[n] = "c"
    rest = [n for n in range(rank) if n not in found]
    if len(rest) == 4 and not found:
        if sizes[0] in (3, 4) and dtype == "uint8":
            found[rest.pop(0)] = "c"
            guessed.append(f"its first axis, of {sizes[0]}, is taken as colours: its kinds do not say")
        else:
            found[rest.pop()] = "t"
            guessed.append(f"its last axis, of {sizes[-1]}, is taken as time: its kinds do not say")
    if len(rest) > 3 or len(rest) < 1 or len(set(found.values())) != len(found):
        raise DataError(
            f"{header.path}: its axes of {text_of(sizes)} are not at most three in space, one of time and one of components; "
            "say in its 'kinds' what they are, or split it"
        )
    return found | dict(zip(rest, "xyz", strict=False))


def _place(header: _Header, array: Array, resources: ReaderResources) -> list[str]:
    path = header.path
    encoding = header.fields.get("encoding", "raw").lower()
    files, listed = _data_files(header, array)
    skip = int(header.numbers("byte skip", int, 1)[0]) if "byte skip" in header.fields else 0
    lines = int(header.numbers("line skip", int, 1)[0]) if "line skip" in header.fields else 0
    if skip < -1 or lines < 0:
        raise DataError(
            f"{path}: its 'byte skip' {skip} and 'line skip' {lines} are no places in a file; correct the header"
        )
    codec = {"gzip": "gzip", "gz": "gzip", "bzip2": "bz2", "bz2": "bz2"}.get(encoding) or nrrd_text.NAMES.get(encoding)
    if codec is None and encoding != "raw":
        raise DataError(
            f"{path}: its numbers are written as {encoding}, which is not read; write it again as raw or gzip (unu "
            "save -f nrrd -e raw)"
        )
    each = array.bytes // len(files)
    first = [header.end if file == path else 0 for file in files]
    first = [_after_lines(file, at, lines) for file, at in zip(files, first, strict=True)]
    if codec is None:
        starts = [
            max(0, places.getsize(f) - each) if skip == -1 else at + skip for f, at in zip(files, first, strict=True)
        ]
        for file, start in zip(files, starts, strict=True):
            check_size(file, each, start, f"{text_of(array.shape)} numbers of {array.dtype}")
        array.place = planes(files, starts) if listed else contiguous(files[0], starts[0])
        return files
    if skip == -1:
        raise DataError(f"{path}: a 'byte skip' of -1 goes with raw numbers only; correct the header")
    text = codec in nrrd_text.NAMES.values()
    if codec == "ascii":
        array.big_endian = False
    made = converted(
        path,
        resources,
        count=array.bytes,
        why=f"is {'written' if text else 'compressed'} {'as' if text else 'with'} {encoding}, which cannot be read in part",
        how=f"{codec} from {skip}",
        pieces=lambda: (
            piece
            for file, at in zip(files, first, strict=True)
            for piece in (
                nrrd_text.numbers_of(file, codec, array.dtype, start=at, skip=skip, count=each)
                if text
                else unpacked(file, codec, start=at, skip=skip, count=each, ended=True)
            )
        ),
        files=dict.fromkeys([path, *files]),
    )
    array.place = contiguous(made.path, 0)
    return [*files, made.path]


def _data_files(header: _Header, array: Array) -> tuple[list[str], bool]:
    """Files with the numbers, and whether each contains a piece along the slowest axis."""
    said = header.fields.get("data file")
    if said is None:
        return [header.path], False
    folder = os.path.dirname(header.path)
    words = said.split()
    if words and words[0] == "LIST":
        names = said.split("\n")[1:]
        names = [n for n in names if n]
    elif len(words) in (4, 5) and "%" in words[0]:
        try:
            low, high, step = (int(w) for w in words[1:4])
            if step == 0 or abs(high - low) > 1 << 24:
                raise ValueError("its numbers go nowhere")
            names = [words[0] % n for n in range(low, high + (1 if step > 0 else -1), step)]
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{header.path}: its 'data file' is '{said}', which names no files ({error}); correct the header"
            ) from error
    else:
        return [_found(header, places.join(folder, said))], False
    if len(names) != array.shape[0]:
        raise DataError(
            f"{header.path}: it names {len(names)} files for {array.shape[0]} slices along its last axis; write it "
            "with one file a slice"
        )
    return _all_found(header, [places.join(folder, n) for n in names]), True


def _all_found(header: _Header, files: list[str]) -> list[str]:
    places.prefetch_stats(files)
    return [_found(header, file) for file in files]


def _found(header: _Header, file: str) -> str:
    if not places.isfile(file):
        raise DataError(f"{header.path}: its numbers lie in {file}, which is not there; copy it here too")
    return file


def _after_lines(file: str, start: int, lines: int) -> int:
    if not lines:
        return start
    raw = head(file, _LONGEST_HEADER, start)
    at = 0
    for _ in range(lines):
        at = raw.find(b"\n", at) + 1
        if at == 0:
            raise DataError(
                f"{file}: it has fewer than the {lines} lines that its 'line skip' passes over; correct the header"
            )
    return start + at


def _samples(header: _Header, axis: int, sizes: list[int]) -> _Samples:
    rank = len(sizes)
    apart, low, high = (
        header.numbers(key, float, rank)[axis] if key in header.fields else math.nan
        for key in ("spacings", "axis mins", "axis maxs")
    )
    if math.isnan(low):
        return _Samples(apart, low)
    center = header.numbers("centers", str.lower, rank)[axis].strip('"') if "centers" in header.fields else ""
    node = center == "node"
    # from the first sample to the last, or between the outer edges of cells
    between = sizes[axis] - 1 if node else sizes[axis]
    if math.isnan(apart) and between > 0:
        apart = (high - low) / between
    if not node:
        low += 0.5 * (1.0 if math.isnan(apart) else apart)
    return _Samples(apart, low, guessed=center not in ("cell", "node"))


def _geometry(
    header: _Header, sizes: list[int], order: list[str], guessed: list[str]
) -> tuple[Geometry, str | None, str]:
    spatial = [order.index(a) for a in "xyz" if a in order]
    units = _space_units(header)
    length_unit = unit(units[0]) if units else None
    space = header.fields.get("space", "").lower()
    directions = _directions(header, len(sizes))
    anatomy = _SPACES.get(space)
    if space and anatomy is None and directions is not None and not space.startswith(("scanner", "3d-")):
        guessed.append(f"its space '{space}' is not known: it is taken as it stands")
    if directions is not None:
        columns = [d for n in spatial if (d := directions[n]) is not None]
        origin = _vector(header, "space origin", header.fields.get("space origin", "(0,0,0)"))
        if "space origin" not in header.fields:
            guessed.append("it has no 'space origin': (0, 0, 0)")
        while len(columns) < 3:  # a picture: add the remaining axis
            columns.append(_across(columns))
        if any(len(c) < 3 for c in columns) or len(origin) < 3:
            columns = [[*c, 0.0][:3] for c in columns]
            origin = [*origin, 0.0][:3]
        if length_unit is None:
            length_unit = "mm" if anatomy else "voxel"
            if anatomy:
                guessed.append("it does not say in which unit it lies: mm, as is usual for scans")
        columns, origin = [c[:3] for c in columns], origin[:3]
        length_unit, ratios = _in_common(units[:3], length_unit, guessed)
        columns = [[v * r for v, r in zip(c, ratios, strict=True)] for c in columns]
        origin = [v * r for v, r in zip(origin, ratios, strict=True)]
        if anatomy == "LAS":
            # Pictures belong to right-handed spaces; the given one would mirror them.
            anatomy = "RAS"
            columns, origin = [[-c[0] + 0.0, *c[1:]] for c in columns], [-origin[0] + 0.0, *origin[1:]]
            guessed.append("its space is left-handed, L A S: x is turned around to make it R A S")
        geometry = from_affine(header.path, columns, origin, "'space directions'")
        return geometry, anatomy, length_unit
    spacing, origin = [1.0] * 3, [0.0] * 3
    along = [_samples(header, n, sizes) for n in spatial]
    for axis, of in enumerate(along):
        spacing[axis] = 1.0 if math.isnan(of.apart) else of.apart
        origin[axis] = 0.0 if math.isnan(of.first) else of.first
    if unknown := sum(math.isnan(of.apart) for of in along):
        every = "" if unknown == len(along) else " along all axes"
        guessed.append(f"it does not say how far voxels are apart{every}: 1")
    if any(of.guessed for of in along):
        guessed.append(
            "its centers do not say what its axis mins are of: of the edges of voxels, so that centres are half a voxel further"
        )
    texts = re.findall(r'"([^"]*)"', header.fields.get("units", ""))
    length_unit = (unit(texts[spatial[0]]) if len(texts) == len(sizes) else None) or length_unit or "voxel"
    if len(texts) == len(sizes):
        length_unit, ratios = _in_common([texts[n] for n in spatial], length_unit, guessed)
        spacing = [v * r for v, r in zip(spacing, ratios, strict=True)]
        origin = [v * r for v, r in zip(origin, ratios, strict=True)]
    columns = [[spacing[n] if m == n else 0.0 for m in range(3)] for n in range(3)]
    key = "'spacings'" if "spacings" in header.fields else "'axis mins' and 'axis maxs'"
    return from_affine(header.path, columns, origin, key), None, length_unit


def _across(columns: list[list[float]]) -> list[float]:
    """A unit vector perpendicular to one or two others."""
    import numpy as np

    a = np.array([*columns[0], 0.0, 0.0][:3])
    b = np.array([*columns[1], 0.0, 0.0][:3]) if len(columns) > 1 else np.eye(3)[int(np.argmin(np.abs(a)))]
    made = np.cross(a, b)
    length = float(np.linalg.norm(made))
    return (made / length).tolist() if length > 0 else [0.0, 0.0, 0.0]


def _channels(header: _Header, array: Array, order: list[str]) -> tuple[str, list[Channel]]:
    name = header.fields.get("content", "").strip() or stem(header.path)
    scale = None
    if "old min" in header.fields and "old max" in header.fields:
        low, high = (header.numbers(key, float, 1)[0] for key in ("old min", "old max"))
        largest = 2 ** (8 * array.item) - 1
        if array.dtype.startswith("uint") and math.isfinite(low) and math.isfinite(high) and low != high:
            scale = ((high - low) / largest, low)
    count = array.length("c")
    if count == 1:
        return "scalar", [Channel(name, unit(header.fields.get("sample units", "").strip('"')) or "1", scale=scale)]
    kinds = [k.lower() for k in header.words("kinds")]
    at = order.index("c")
    kind = kinds[at] if at < len(kinds) else ""
    if _COLOURS.get(kind) == count or (not kinds and count in (3, 4) and array.dtype == "uint8"):
        return colour_channels(count)
    return "channels", [Channel(f"{name} {n}", scale=scale) for n in range(count)]


def _times(
    header: _Header, array: Array, sizes: list[int], order: list[str], guessed: list[str]
) -> tuple[list[float], str]:
    steps = array.length("t")
    if steps < 2:
        return [], "1"
    at = order.index("t")
    direction = (_directions(header, len(sizes)) or [None] * len(sizes))[at]
    if direction is not None and len(direction) == 4 and direction[3] > 0:
        origin = [*_vector(header, "space origin", header.fields.get("space origin", "(0,0,0,0)")), 0.0, 0.0][:4]
        units_of_space = _space_units(header)
        found = unit(units_of_space[3]) if len(units_of_space) == 4 else None
        return [tidied(origin[3] + direction[3] * n) for n in range(steps)], found or "1"
    along = _samples(header, at, sizes)
    texts = re.findall(r'"([^"]*)"', header.fields.get("units", ""))
    units = unit(texts[at]) if len(texts) == len(order) else None
    if not math.isfinite(along.apart) or along.apart <= 0:
        return [], "1"
    if along.guessed:
        guessed.append(
            "its centers do not say what the least time is of: of a step's beginning; steps are at their middle"
        )
    first = along.first if math.isfinite(along.first) else 0.0
    return [tidied(first + along.apart * n) for n in range(steps)], units or "1"
