"""Orientation of pictures from Exif, which cameras and phones write into JPEG and PNG."""

from __future__ import annotations

import struct

from farfield.volume.formats.tiff.placement import UPRIGHT

_ORIENTATION = 0x0112


def orientation(raw: bytes) -> int:
    r"""The orientation from an Exif block, which is a TIFF: 1 to 8; 1 if absent.

    >>> orientation(b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"), orientation(b"")
    (6, 1)
    """
    mark = {b"II": "<", b"MM": ">"}.get(raw[:2])
    if mark is None:
        return UPRIGHT
    try:
        (at,) = struct.unpack_from(mark + "I", raw, 4)
        (count,) = struct.unpack_from(mark + "H", raw, at)
        for n in range(count):
            tag, _, _, value = struct.unpack_from(mark + "HHIH", raw, at + 2 + 12 * n)
            if tag == _ORIENTATION:
                return int(value) if 1 <= value <= 8 else UPRIGHT
    except struct.error:  # a truncated block is ignored
        pass
    return UPRIGHT
