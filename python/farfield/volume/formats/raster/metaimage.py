"""MetaImage: `.mhd` with numbers in other files, and `.mha` (https://itk.org/Wiki/MetaIO/Documentation)."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.compression import unpacked
from farfield.volume.formats.decimals import tidied
from farfield.volume.formats.description import (
    Array,
    Channel,
    Level,
    Volume,
    check_size,
    colour_channels,
    contiguous,
    from_affine,
    in_table,
    planes,
    table_of,
    text_of,
)
from farfield.volume.formats.files import head, stem
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.raster import nrrd_text

_TYPES = {
    "MET_CHAR": "int8", "MET_UCHAR": "uint8", "MET_SHORT": "int16", "MET_USHORT": "uint16", "MET_INT": "int32",
    "MET_UINT": "uint32", "MET_LONG": "int32", "MET_ULONG": "uint32", "MET_LONG_LONG": "int64", "MET_ULONG_LONG": "uint64",
    "MET_FLOAT": "float32", "MET_DOUBLE": "float64",
}  # fmt: skip
_DISTANCES = {"um": "um", "mm": "mm", "cm": "cm"}
"""MetaIO's names of units."""
_HEADER = 1 << 20


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume that a header describes.

    Raises:
        DataError: naming the invalid field.
    """
    fields, end = _fields(path)
    rank = len(_numbers(path, fields, "DimSize", None))
    if rank not in (2, 3, 4):
        raise DataError(f"{path}: its DimSize has {rank} numbers, and two to four are read; correct the header")
    if "NDims" in fields and _numbers(path, fields, "NDims", 1)[0] != rank:
        raise DataError(
            f"{path}: its DimSize '{fields['DimSize']}' has {rank} numbers for NDims {fields['NDims']}; correct the header"
        )
    sizes = [int(n) for n in _numbers(path, fields, "DimSize", rank)]
    # The suffix means several numbers per element; ElementNumberOfChannels gives the number.
    dtype = _TYPES.get(fields.get("ElementType", "").removesuffix("_ARRAY"))
    if dtype is None:
        raise DataError(
            f"{path}: its ElementType '{fields.get('ElementType')}' is none of {', '.join(_TYPES)}; correct the header"
        )
    components = (
        int(_numbers(path, fields, "ElementNumberOfChannels", 1)[0]) if "ElementNumberOfChannels" in fields else 1
    )
    if min(sizes) < 1 or components < 1:
        raise DataError(f"{path}: its DimSize {text_of(sizes)} is not positive; correct the header")
    shape = tuple(reversed(sizes)) + ((components,) if components > 1 else ())
    axes = "tzyx"[-rank:] + ("c" if components > 1 else "")
    array = Array(stem(path), dtype, shape, axes, {}, list(range(components)))
    big = fields.get("BinaryDataByteOrderMSB", fields.get("ElementByteOrderMSB", "False")).lower() == "true"
    array.big_endian = big and array.item > 1
    guessed: list[str] = []
    tables: list[bytes] = []
    reads = _place(path, fields, end, array, resources, tables)
    apart = next((k for k in ("ElementSpacing", "ElementSize") if fields.get(k)), None)
    spacing = _numbers(path, fields, apart, rank) if apart else [1.0] * rank
    if apart != "ElementSpacing":
        # Like MetaIO, assume adjacent voxels if only their size is known.
        guessed.append(f"it does not say how far voxels are apart: {f'as much as its {apart}' if apart else 1}")
    key = next((k for k in ("Offset", "Position", "Origin") if k in fields), None)
    origin = _numbers(path, fields, key, rank) if key else [0.0] * rank
    turned = next((k for k in ("TransformMatrix", "Rotation", "Orientation") if k in fields), None)
    matrix = _numbers(path, fields, turned, rank * rank) if turned else []
    columns = [[1.0 if r == n else 0.0 for r in range(3)] for n in range(3)]
    wide = min(rank, 3)
    if matrix:
        for n in range(wide):
            columns[n][:wide] = matrix[n * rank : n * rank + wide]
    steps = [*spacing[:3], 1.0, 1.0][:3]
    if options.spacing is not None:
        steps = list(options.spacing)
    if not all(math.isfinite(s) and s > 0 for s in steps):
        raise DataError(
            f"{path}: its {apart} is {spacing}, and should be positive; correct the header, or give --spacing X,Y,Z"
        )
    geometry = from_affine(
        path, [[v * steps[n] for v in c] for n, c in enumerate(columns)], [*origin[:3], 0.0][:3], "TransformMatrix"
    )
    kind, channels = ("scalar", [Channel(array.name)])
    if components in (3, 4) and dtype == "uint8":
        kind, channels = colour_channels(components)
    elif components > 1:
        kind, channels = "channels", [Channel(f"{array.name} {n}") for n in range(components)]
    times = [tidied(origin[3] + spacing[3] * n) for n in range(sizes[3])] if rank == 4 and sizes[3] > 1 else []
    length_unit = _DISTANCES.get(fields.get("DistanceUnits", "").lower())
    if length_unit is None:
        guessed.append("it does not say in which unit it lies: mm, as is usual for MetaImage")
    slope, offset = (
        _numbers(path, fields, f"ElementToIntensityFunction{end}", 1)[0]
        if f"ElementToIntensityFunction{end}" in fields
        else usual
        for end, usual in (("Slope", 1.0), ("Offset", 0.0))
    )
    if (slope, offset) != (1.0, 0.0) and slope != 0:
        guessed.append(
            f"values are its numbers times {slope:g} plus {offset:g}, as its ElementToIntensityFunction says (ITK leaves them "
            "as they are)"
        )
        channels = [replace(c, scale=(slope, offset)) for c in channels]
    return Volume(
        path=path,
        format="MetaImage",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=length_unit or "mm",
        anatomy="LPS" if rank > 2 and "AnatomicalOrientation" in fields else None,
        direction=geometry.direction,
        times=times,
        tables=tables,
        reads=[path, *reads],
    )


def _fields(path: str) -> tuple[dict[str, str], int]:
    raw = head(path, _HEADER)
    found: dict[str, str] = {}
    at = 0
    while at < len(raw):
        end = raw.find(b"\n", at)
        line = raw[at : end if end >= 0 else len(raw)]
        at = end + 1 if end >= 0 else len(raw)
        key, equals, value = line.decode("latin-1").partition("=")
        if equals:
            found[key.strip()] = value.strip()
        if equals and key.strip() == "ElementDataFile":
            if _is_list(value):
                found["ElementDataFile"] = value.strip() + "\n" + raw[at:].decode("latin-1")
            return found, at
    raise DataError(f"{path}: its header names no ElementDataFile: it was cut off; copy or write it again")


def _is_list(said: str) -> bool:
    return said.split()[:1] == ["LIST"]


def _numbers(path: str, fields: dict[str, str], key: str, count: int | None) -> list[float]:
    try:
        found = [float(w) for w in fields.get(key, "").split()]
    except ValueError as error:
        raise DataError(f"{path}: its {key} is '{fields[key]}', which is not numbers; correct the header") from error
    if (count is not None and len(found) != count) or not all(map(math.isfinite, found)):
        raise DataError(f"{path}: its {key} is '{fields.get(key)}', which is not {count} numbers; correct the header")
    return found


def _place(
    path: str, fields: dict[str, str], end: int, array: Array, resources: ReaderResources, tables: list[bytes]
) -> list[str]:
    is_text = fields.get("BinaryData", "True").lower() == "false"
    said = fields["ElementDataFile"]
    folder = os.path.dirname(path)
    compressed = fields.get("CompressedData", "False").lower() == "true"
    header = int(_numbers(path, fields, "HeaderSize", 1)[0]) if "HeaderSize" in fields else 0
    if said == "LOCAL":
        file, start = path, end
    elif _is_list(said) or "%" in said:
        if is_text:
            raise DataError(f"{path}: its slices are files of text, which are not read; write it again in binary")
        return _slices(path, said, folder, array, header, compressed, tables)
    else:
        file, start = places.join(folder, said), max(0, header)
        if not places.isfile(file):
            raise DataError(f"{path}: its numbers lie in {file}, which is not there; copy it here too")
    if is_text:
        array.big_endian = False
        made = converted(
            path,
            resources,
            count=array.bytes,
            why="is written as text, which cannot be read in part",
            how=f"text from {start}",
            pieces=lambda: nrrd_text.numbers_of(file, "ascii", array.dtype, start=start, skip=0, count=array.bytes),
            files=dict.fromkeys([path, file]),
        )
        array.place = contiguous(made.path, 0)
        return [file, made.path]
    if compressed:
        made = converted(
            path,
            resources,
            count=array.bytes,
            why="is compressed with zlib, which cannot be read in part",
            how=f"zlib from {start}",
            pieces=lambda: unpacked(file, "zlib", start=start, count=array.bytes, ended=True),
            files=dict.fromkeys([path, file]),
        )
        array.place = contiguous(made.path, 0)
        return [file, made.path]
    if header == -1 and file != path:
        start = max(0, places.getsize(file) - array.bytes)
    check_size(file, array.bytes, start, f"{text_of(array.shape)} numbers of {array.dtype}")
    array.place = contiguous(file, start)
    return [file]


def _slices(
    path: str, said: str, folder: str, array: Array, header: int, compressed: bool, tables: list[bytes]
) -> list[str]:
    """The files of slices, from a list or from a pattern with numbers."""
    rank = len(array.axes.rstrip("c"))
    across = rank - 1
    if _is_list(said):
        first, *names = said.split("\n")
        names = [line.strip() for line in names if line.strip()]
        across = _across(first, rank)
    else:
        words = said.split()
        try:
            low, high, step = (int(w) for w in words[1:4])
            if step < 1 or high - low > 1 << 24:
                raise ValueError("its numbers go nowhere")
            names = [words[0] % n for n in range(low, high + 1, step)]
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{path}: its ElementDataFile is '{said}', which names no files ({error}); correct the header"
            ) from error
    count = math.prod(array.shape[: rank - across])
    if len(names) != count or compressed:
        raise DataError(f"{path}: it names {len(names)} files for {count} slices (uncompressed); correct the header")
    files = [places.join(folder, n) for n in names]
    places.prefetch_stats(files)
    within = array.shape[rank - across :]
    each = array.bytes // count
    starts = []
    for file in files:
        if not places.isfile(file):
            raise DataError(f"{path}: a slice of it lies in {file}, which is not there; copy it here too")
        start = max(0, places.getsize(file) - each) if header == -1 else header
        check_size(file, each, start, f"a slice of {text_of(within)} numbers of {array.dtype}")
        starts.append(start)
    if across == rank:
        array.place = contiguous(files[0], starts[0])
    elif across == rank - 1:
        array.place = planes(files, starts)
    else:
        array.chunk = (1,) * (rank - across) + within
        array.place = in_table(files)
        tables.append(table_of([(n, start, each) for n, start in enumerate(starts)]))
    return files


def _across(said: str, rank: int) -> int:
    """Dimensions of a file of `LIST 2D`; without a valid number, those of a slice, as in MetaIO.

    >>> _across("LIST", 3), _across("LIST 3D", 4), _across("LIST 1", 3), _across("LIST 4D", 3)
    (2, 3, 1, 2)
    """
    found = re.match(r"LIST\s+(\d+)", said)
    return int(found[1]) if found is not None and 1 <= int(found[1]) <= rank else rank - 1
