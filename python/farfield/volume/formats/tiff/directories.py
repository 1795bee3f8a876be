"""TIFF directories that differ from a known one only in places of numbers, compared by bytes without a library.

Ten thousand slices of one program have ten thousand directories with the same entries. Any other difference is left
to tifffile.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from farfield.volume.formats.files import head
from farfield.volume.formats.tiff.pages import Part

_HEAD = 4096
"""Bytes read from a file. Directories are usually at its beginning; others are left to tifffile."""
_PLACES = ((273, 279), (324, 325))
"""Tags of offsets and lengths, of strips and of tiles."""
_FREE = frozenset((270, 305, 306, 315, 316, 282, 283, 296, 269, 272, 271, 700, 34665, 33432, 65000))
"""Tags of texts, dates and resolutions, which do not affect slices of a folder."""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_LETTERS = {3: "H", 4: "I", 16: "Q"}


@dataclass(frozen=True)
class Head:
    """The first directory of a file with a single page."""

    entries: Mapping[int, bytes]
    """Type, count and value of each tag that describes how numbers are stored."""
    offsets: tuple[int, ...]
    counts: tuple[int, ...]

    def part(self, file: str) -> Part:
        """The place of its numbers."""
        return Part(file, self.offsets, self.counts)


def head_of(file: str) -> Head | None:
    """The only directory of a TIFF, if it and all its values are within the file's first bytes; else None.

    Raises:
        DataError: if the file cannot be read.
    """
    raw = head(file, _HEAD)
    try:
        return _parsed(raw)
    except (struct.error, ValueError, IndexError, KeyError):  # continues elsewhere, or is damaged: tifffile decides
        return None


def _parsed(raw: bytes) -> Head | None:
    orders: dict[bytes, tuple[str, Literal["little", "big"]]] = {b"II": ("<", "little"), b"MM": (">", "big")}
    mark, order = orders[raw[:2]]
    big = struct.unpack_from(mark + "H", raw, 2)[0] == 43
    if not big and struct.unpack_from(mark + "H", raw, 2)[0] != 42:
        return None
    word, count_size, value_size = ("Q", 8, 8) if big else ("I", 2, 4)
    at = int(struct.unpack_from(mark + word, raw, 8 if big else 4)[0])
    count = int.from_bytes(_piece(raw, at, count_size), order)
    at += count_size
    size = 4 + 2 * value_size
    table = _piece(raw, at, count * size)
    if any(_piece(raw, at + count * size, value_size)):
        return None  # another page follows
    entries: dict[int, bytes] = {}
    places: dict[int, tuple[int, ...]] = {}
    for n in range(count):
        entry = table[n * size : (n + 1) * size]
        tag, kind = struct.unpack_from(mark + "HH", entry)
        if tag in _FREE:
            continue
        many = int.from_bytes(entry[4 : 4 + value_size], order)
        length = many * _SIZES[kind]
        value = entry[4 + value_size :][:length]
        if length > value_size:
            value = _piece(raw, int.from_bytes(entry[4 + value_size :], order), length)
        if any(tag in pair for pair in _PLACES):
            places[tag] = struct.unpack(f"{mark}{many}{_LETTERS[kind]}", value)
            entries[tag] = b""
        else:
            entries[tag] = entry[2 : 4 + value_size] + value
    for offsets, counts in _PLACES:
        if offsets in places and counts in places and len(places[offsets]) == len(places[counts]):
            return Head({**entries, 0: raw[:4]}, places[offsets], places[counts])
    return None


def _piece(raw: bytes, at: int, count: int) -> bytes:
    """Bytes of a file's beginning.

    Raises:
        IndexError: if they are beyond it.
    """
    if at < 0 or count < 0 or at + count > len(raw):
        raise IndexError(at)
    return raw[at : at + count]
