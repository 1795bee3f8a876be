"""TIFF pages stored in several ways: the extension reads the pages of each way as a volume, slice by slice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farfield import _core
from farfield.runtime.resources import decoding
from farfield.volume.formats.description import Array, Channel, Level, Volume, describe

_LIMIT = 256 << 20
"""Memory in bytes for reading one way."""
_BAND = 32 << 20
"""Bytes of rows read at a time."""


@dataclass
class Way:
    """Pages stored in one way: their array has them along z, followed by the axes of a page."""

    array: Array
    pages: list[int]
    """Numbers of the pages among all."""
    tables: list[bytes] = field(default_factory=list)


def pieces(path: str, ways: Sequence[Way], memory_limit: int | None = None) -> Iterator[bytes]:
    """The numbers of all pages in order, little-endian.

    Raises:
        DataError: if a page cannot be decoded.
        MemoryLimitError: if a strip or tile exceeds the memory limit.
    """
    where = sorted((n, of, at) for of, way in enumerate(ways) for at, n in enumerate(way.pages))
    limit = min(_LIMIT, memory_limit or _LIMIT)
    with contextlib.ExitStack() as stack:
        natives = []
        for way in ways:
            channels = [Channel(str(n)) for n in way.array.channels]
            kind = "channels" if len(channels) > 1 else "scalar"
            found = describe(Volume(path, "pages", [Level([way.array])], channels, kind))
            native = _core.Dataset.open(found.native(), decoding(limit), tables=way.tables)
            stack.callback(native.close)
            natives.append(native)
        for _, of, at in where:
            yield from _page(natives[of], ways[of].array, at, min(_BAND, limit // 8))


def _page(native: Any, array: Array, at: int, band: int) -> Iterator[bytes]:
    wide, high, _ = array.dims
    count = len(array.channels)
    within = array.axes.endswith("c")
    kind = np.dtype(array.dtype).newbyteorder("<")
    rows = max(1, band // max(1, wide * array.item * (count if within else 1)))
    for group in [array.channels] if within else [[n] for n in array.channels]:
        for top in range(0, high, rows):
            end = (wide, min(top + rows, high), at + 1)
            read = [np.asarray(native.read_box(0, n, (0, top, at), end, 0))[0] for n in group]
            yield np.ascontiguousarray(np.stack(read, axis=-1), dtype=kind).tobytes()
