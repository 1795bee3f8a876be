"""Mosaics in headers of Siemens scanners: number of slices and their normal.

They are in a private element, or in the CSA header (layout: nipy.org/nibabel/dicom/siemens_csa.html).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from farfield.volume.formats.dicom.elements import values_in

COUNT = (0x0019, 0x100A)
CSA = (0x0029, 0x1010)
_NAME = 64
"""Length of a name in a CSA header in bytes."""


@dataclass(frozen=True)
class Mosaic:
    """The tiles of a mosaic."""

    count: int
    size: tuple[int, int]
    """Rows and columns of a tile."""
    normal: tuple[float, ...] | None = None
    """Direction from slice to slice, if the file gives it."""


def mosaic_of(header: Any, size: tuple[int, int]) -> Mosaic | None:
    """The tiles of a mosaic; None for any other picture, or if their number is unknown."""
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
    """Number of tiles along a side, from the acquisition matrix of one tile."""
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
