"""Mosaics of Siemens scanners: all slices of a volume as tiles of one picture, row by row from the upper left corner.

How many there are stands in a private element, or in the CSA header (its layout: nipy.org/nibabel/dicom/siemens_csa.html); the
position is that of the whole picture, whose middle is that of each tile.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.volume.description import Level, Volume, from_affine
from farfield.volume.dicom_files import Slice
from farfield.volume.dicom_numbers import values_in
from farfield.volume.dicom_pixels import array_of, convert
from farfield.volume.dicom_times import key_of, order_of, sorter
from farfield.volume.dicom_values import channels_of, look_shown, values_of
from farfield.volume.options import Means, Options

COUNT = (0x0019, 0x100A)
CSA = (0x0029, 0x1010)
_NAME = 64
"""Bytes of a name in a CSA header."""


@dataclass(frozen=True)
class Mosaic:
    """Tiles of a picture."""

    count: int
    size: tuple[int, int]
    """Rows and columns of a tile."""
    normal: tuple[float, ...] | None = None
    """Where slices follow each other, where the file says it."""


def mosaic_of(header: Any, size: tuple[int, int]) -> Mosaic | None:
    """The tiles of a mosaic; None for any other picture, and where nothing says how many there are."""
    if "MOSAIC" not in [str(word).upper() for word in values_in(header.get("ImageType"))]:
        return None
    csa = _value(header, CSA)
    raw = bytes(csa) if isinstance(csa, bytes | bytearray) else b""
    said = _value(header, COUNT)
    count = int.from_bytes(said, "little") if isinstance(said, bytes) else int(said or 0)
    found = _in_csa(raw, "NumberOfImagesInMosaic")
    count = count or (int(float(found[0])) if found else 0)
    across = math.ceil(math.sqrt(count)) if count > 0 else _by_matrix(header, size)
    if across < 1 or size[0] % across or size[1] % across:
        return None
    count = count or across * across
    vector = _in_csa(raw, "SliceNormalVector")
    normal = tuple(float(v) for v in vector) if len(vector) == 3 else None
    return Mosaic(count, (size[0] // across, size[1] // across), normal)


def _value(header: Any, tag: tuple[int, int]) -> Any:
    element = header.get(tag)
    return None if element is None else element.value


def _by_matrix(header: Any, size: tuple[int, int]) -> int:
    """Tiles along a side by the acquisition matrix, which is that of one tile."""
    sides = [int(n) for n in values_in(header.get("AcquisitionMatrix")) if int(n) > 0]
    return next((size[0] // n for n in sides if size[0] % n == 0 and size[0] // n > 1), 0)


def _in_csa(raw: bytes, name: str) -> list[str]:
    """The values of a name in a CSA header of either version."""
    wanted = name.encode() + b"\0"
    at = raw.find(wanted)
    if at < 0 or at + _NAME + 20 > len(raw):
        return []
    (items,) = struct.unpack_from("<i", raw, at + _NAME + 12)
    at += _NAME + 20
    values = []
    for _ in range(max(0, min(items, 64))):
        if at + 16 > len(raw):
            break
        lengths = struct.unpack_from("<4i", raw, at)
        length = lengths[1] if 0 <= lengths[1] <= len(raw) - at - 16 else 0
        text = raw[at + 16 : at + 16 + length].split(b"\0")[0].decode("ascii", "replace").strip()
        if text:
            values.append(text)
        at += 16 + (length + 3) // 4 * 4
    return values


def of_mosaics(path: str, chosen: Sequence[Slice], options: Options, means: Means, guessed: list[str]) -> Volume:
    """The volume of a mosaic, or of one a time step.

    Raises:
        DataError: if mosaics differ.
    """
    said = [[s.moments for s in chosen]]
    key = key_of(said)
    moment = sorter(key, said)
    listed = sorted(chosen, key=lambda s: (moment(s.moments), s.instance, s.file))
    order = order_of(key, [s.moments for s in listed], moment, chosen[0].resolution)
    first = listed[0]
    mosaic = first.mosaic
    odd = next((s for s in listed if s.mosaic != mosaic or s.size != first.size or s.pixel != first.pixel), None)
    if mosaic is None or odd is not None:
        raise DataError(f"{(odd or first).file}: this mosaic has other tiles than {first.file}; take it out of {path}")
    rows, columns = mosaic.size
    guessed.append(f"its pictures are mosaics of {mosaic.count} slices of {columns} x {rows} pixels")
    tile = replace(first, size=mosaic.size)
    array = array_of(tile, len(listed), mosaic.count)
    values = values_of(listed, [s.scale for s in listed], options, guessed)
    reads = [path]
    convert(path, listed, array, means, "has slices as tiles of a picture", reads, values=values, tiles=mosaic.count)
    look = look_shown([s.look for s in listed], "picture", guessed)
    kind, channels = channels_of(first, array, values, look, guessed)
    down, across = first.spacing or (1.0, 1.0)
    if options.spacing is not None:
        across, down, _ = options.spacing
    step = first.thickness or 1.0
    placed = first.orientation is not None and first.position is not None
    if first.orientation is not None and first.position is not None:
        i, j = np.array(first.orientation[:3]), np.array(first.orientation[3:])
        normal = np.cross(i, j)
        if mosaic.normal is not None and float(normal @ np.array(mosaic.normal)) < 0:
            normal = -normal
        corner = (
            np.array(first.position)
            + i * across * (first.size[1] - columns) / 2
            + j * down * (first.size[0] - rows) / 2
        )
        axes = [(i * across).tolist(), (j * down).tolist(), (normal * step).tolist()]
        geometry = from_affine(first.file, axes, corner.tolist(), "PixelSpacing with ImageOrientationPatient")
    else:
        geometry = from_affine(first.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    times = order.times if len(listed) > 1 else []
    return Volume(
        path=path,
        format="DICOM, mosaic",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit="mm",
        anatomy="LPS" if placed else None,
        direction=geometry.direction,
        times=times,
        time_units=order.units if times else "1",
        reads=reads,
    )
