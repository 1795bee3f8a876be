"""Imaris: an HDF5 file with a dataset for each level, time and channel, each padded to whole chunks.

The datasets of a channel are one array here, whose times lie in datasets of their own: its table of chunks has theirs one after the
other, as far as voxels that count reach.
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError, UnknownName
from farfield.volume.formats.description import Array, Channel, Level, Volume, dtype_of, in_table, table_of
from farfield.volume.formats.hdf5.chunks import place
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.units import unit


def is_imaris(file: Any) -> bool:
    """Whether an HDF5 file is one of Imaris."""
    return "DataSet/ResolutionLevel 0/TimePoint 0" in file and "DataSetInfo" in file


def read(h5py: Any, file: Any, path: str, asked: str | None, resources: ReaderResources) -> Volume:
    """The image of an Imaris file.

    Raises:
        DataError: if levels, times and channels do not go together.
        UnknownName: if something of it is asked for that is no dataset.
    """
    if asked is not None:
        raise UnknownName(f"{path}: no dataset named '{asked}'; an Imaris file is one image: leave ::{asked} away")
    root = file["DataSet"]
    levels = _counted(root, "ResolutionLevel")
    steps = _counted(root["ResolutionLevel 0"], "TimePoint")
    count = _counted(root["ResolutionLevel 0/TimePoint 0"], "Channel")
    about = file["DataSetInfo/Image"].attrs if "DataSetInfo/Image" in file else {}
    low = [_number(about, f"ExtMin{n}", 0.0) for n in range(3)]
    made: list[Level] = []
    tables: list[bytes] = []
    reads, guessed = [path], list[str]()
    high: list[float] = []
    for level in range(levels):
        arrays = []
        for channel in range(count):
            groups = [root[f"ResolutionLevel {level}/TimePoint {t}/Channel {channel}"] for t in range(steps)]
            arrays.append(_array(h5py, path, groups, channel, tables, resources, reads, guessed))
        dims = arrays[0].dims
        if not high:
            high = [_number(about, f"ExtMax{n}", low[n] + dims[n]) for n in range(3)]
        spacing = [(b - a) / d if b > a else 1.0 for a, b, d in zip(low, high, dims, strict=True)]
        x, y, z = (a + s / 2 for a, s in zip(low, spacing, strict=True))
        made.append(Level(arrays, (x, y, z), (spacing[0], spacing[1], spacing[2])))
    channels = [_channel(file, n) for n in range(count)]
    times = _times(file, steps, guessed)
    return Volume(
        path, "Imaris", made, channels, "channels" if count > 1 else "scalar", guessed,
        length_unit=unit(_text(about, "Unit")) or ("um" if "ExtMax0" in about else "voxel"), times=times,
        time_units="s" if times else "1", tables=tables, reads=reads,
    )  # fmt: skip


def _counted(group: Any, word: str) -> int:
    """How many of a name there are, numbered from 0."""
    count = 0
    while f"{word} {count}" in group:
        count += 1
    return count


def _array(
    h5py: Any,
    path: str,
    groups: list[Any],
    channel: int,
    tables: list[bytes],
    resources: ReaderResources,
    reads: list[str],
    guessed: list[str],
) -> Array:
    """The numbers of a channel at a level, at all times."""
    found: list[Array] = []
    parts: list[NDArray[np.uint64]] = []
    files: list[str] = []
    first = groups[0]["Data"]
    dtype, big = dtype_of(first.dtype, f"{path}::{first.name}")
    size = [int(_number(groups[0].attrs, f"ImageSize{axis}", n)) for axis, n in zip("ZYX", first.shape, strict=True)]
    shape = tuple(min(max(1, s), int(n)) for s, n in zip(size, first.shape, strict=True))
    for group in groups:
        data = group["Data"]
        if data.shape != first.shape or data.dtype != first.dtype or data.chunks != first.chunks:
            raise DataError(f"{path}: {data.name} is of another size or type than {first.name}; write it again")
        array = Array("Data", dtype, tuple(int(n) for n in data.shape), "zyx", {}, big_endian=big)
        own: list[bytes] = []
        place(h5py, path, data, array, own, resources, reads, guessed)
        found.append(array)
        parts.append(_rows(array, own, shape, files))
    whole = found[0]
    if any((a.chunk, a.codecs) != (whole.chunk, whole.codecs) for a in found):
        raise DataError(f"{path}: the datasets of channel {channel} are compressed in unlike ways; write it again")
    made = Array(f"Channel {channel}", dtype, (len(groups), *shape), "tzyx", in_table(files, len(tables)), [channel])
    made.big_endian, made.codecs = whole.big_endian, whole.codecs
    made.chunk = (1, *(whole.chunk or (1, 1, whole.shape[2])))
    made.fill = next((a.fill for a in found if a.fill is not None), None)
    made.never_written = sum(a.never_written for a in found)
    tables.append(table_of(np.concatenate(parts)))
    return made


def _rows(array: Array, own: list[bytes], shape: tuple[int, ...], files: list[str]) -> NDArray[np.uint64]:
    """File, place and length of the chunks that hold voxels that count; of what is not chunked each row is one."""
    _, ny, nx = array.shape
    if array.chunk is None:
        of = array.place["contiguous"]
        at = files.index(of["file"]) if of["file"] in files else len(files)
        files[at:] = [of["file"]] if at == len(files) else files[at:]
        k, j = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
        offsets = of["offset"] + (k * ny + j).reshape(-1) * nx * array.item
        rows = np.stack([np.full(offsets.shape, at), offsets, np.full(offsets.shape, nx * array.item)], axis=1)
        return rows.astype(np.uint64)
    grid = [-(-n // c) for n, c in zip(array.shape, array.chunk, strict=True)]
    kept = [-(-n // c) for n, c in zip(shape, array.chunk, strict=True)]
    place_of = array.place["table"]
    table = np.frombuffer(own[place_of["table"]], "<u8").reshape(*grid, 3)[: kept[0], : kept[1], : kept[2]].copy()
    numbers = []
    for name in place_of["files"]:
        if name not in files:
            files.append(name)
        numbers.append(files.index(name))
    table[..., 0] = np.array(numbers, dtype=np.uint64)[table[..., 0].astype(int)]
    return table.reshape(-1, 3).astype(np.uint64)


def _channel(file: Any, number: int) -> Channel:
    group = file.get(f"DataSetInfo/Channel {number}")
    about = {} if group is None else group.attrs
    found = Channel(_text(about, "Name") or f"Channel {number}")
    color = [float(v) for v in re.findall(r"[0-9.]+", _text(about, "Color"))[:3]]
    if len(color) == 3 and all(0 <= v <= 1 for v in color):
        found.color = "#" + "".join(f"{round(255 * v):02x}" for v in color)
    limits = [float(v) for v in re.findall(r"-?[0-9.]+(?:e[+-]?\d+)?", _text(about, "ColorRange"))[:2]]
    if len(limits) == 2 and limits[0] < limits[1]:
        found.limits = (limits[0], limits[1])
    return found


def _times(file: Any, steps: int, guessed: list[str]) -> list[float]:
    """Seconds since the first of the times that the file says; none where it says none, or they do not rise."""
    group = file.get("DataSetInfo/TimeInfo")
    if group is None or steps < 2:
        return []
    try:
        said = [datetime.datetime.fromisoformat(_text(group.attrs, f"TimePoint{n + 1}")) for n in range(steps)]
    except ValueError:
        return []
    found = [(t - said[0]).total_seconds() for t in said]
    if any(b <= a for a, b in itertools.pairwise(found)):
        return []
    guessed.append(f"its times are counted from {said[0].isoformat(sep=' ')}")
    return found


def _text(about: Any, key: str) -> str:
    value = about.get(key)
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip("\0 ")
    parts = np.asarray(value).reshape(-1)[:4096]
    return "".join(p.decode("utf-8", "replace") if isinstance(p, bytes) else str(p) for p in parts).strip("\0 ")


def _number(about: Any, key: str, otherwise: float) -> float:
    try:
        found = float(_text(about, key))
    except ValueError:
        return otherwise
    return found if math.isfinite(found) else otherwise
