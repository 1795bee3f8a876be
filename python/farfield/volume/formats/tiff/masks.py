"""Masks of a TIFF, which mark valid pixels; all others have no value, as in GDAL.

A mask is a page of the file, or the first page of another file (`a.tif.msk`). Missing values are stored numbers here,
so the image is converted once. Masked pixels get GDAL's number if no valid pixel has it, else a number of a wider
type. Masked colours become transparent.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield import _core
from farfield.errors import DataError
from farfield.runtime.resources import decoding
from farfield.sources import places
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import Array, Channel, Level, Volume, colour_channels, contiguous, describe
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.tiff import decoded as tiff_decoded

_MASK = 4
"""Transparency mask: its photometric interpretation, and a bit of its NewSubfileType."""
_PART = 1 | _MASK
"""Bits of NewSubfileType for a smaller copy or a mask of another page."""
LARGEST = 2 << 30
"""Largest size in bytes of an image that is converted for its mask, since images may be huge."""
_WIDER = {
    "bool": "int16", "uint8": "int16", "int8": "int16", "uint16": "int32", "int16": "int32", "uint32": "int64", "int32": "int64",
    "uint64": "uint64", "int64": "int64", "float16": "float16", "float32": "float32", "float64": "float64",
}  # fmt: skip
_COLOURS = ("uint8", "uint16")
_ALPHA = 3
"""Number of the channel of opacity."""
_LIMIT = 256 << 20
"""Memory in bytes for reading the image."""
_BAND = 16 << 20
"""Bytes of rows read at a time."""
Size = tuple[int, int]
"""Rows and columns."""


def is_mask(page: Any) -> bool:
    """Whether a page marks the valid pixels of another one."""
    return int(page.photometric) == _MASK or bool(int(page.subfiletype) & _MASK)


class Masks:
    """The masks of an image and its levels."""

    def __init__(
        self, path: str, pages: dict[Size, Any], beside: str | None, name: str | None, *, of_stack: bool = False
    ) -> None:
        self._path, self._pages, self._of_stack = path, pages, of_stack
        self.beside = beside
        """The file of the masks, if it is another one."""
        self._name = name
        """The name that opens the mask alone."""

    @classmethod
    def of(
        cls, path: str, stack: contextlib.ExitStack, series: Sequence[Any], shown: Any, names: Sequence[str]
    ) -> Masks | None:
        """The masks of the shown series, or None. Files stay open until `stack` is closed; `names` are those of the
        series."""
        import tifffile

        size = _size(shown.keyframe)
        if is_mask(shown.keyframe):
            return None
        owned = _owned(series, shown)
        pages = {_size(page): page for _, of in owned for page in of}
        is_stack = len(shown.pages) != 1
        if size in pages:
            name = next(names[n] for n, of in owned if size in map(_size, of))
            return cls(path, pages, None, name, of_stack=is_stack)
        if _first(shown) > min((_first(s) for s in series if _is_whole(s)), default=0):
            return None
        beside = path + ".msk"
        if not places.isfile(beside):
            return None
        try:
            file = stack.enter_context(tifffile.TiffFile(places.for_library(beside)))
            pages = {_size(p): p for s in file.series for level in s.levels for p in [level.keyframe]}
        except Exception as error:  # tifffile raises any exception for a damaged directory
            raise DataError(
                f"{beside}: this mask of {path} cannot be read ({error}); copy it again, or remove it"
            ) from error
        kept = {s: p for s, p in pages.items() if int(p.samplesperpixel) == 1}
        return cls(path, kept, beside, None, of_stack=is_stack) if size in kept else None

    def apply(
        self,
        levels: list[Level],
        kind: str,
        channels: list[Channel],
        tables: Sequence[bytes],
        resources: ReaderResources,
    ) -> tuple[list[Level], str, list[Channel], str]:
        """Makes masked pixels missing or transparent; returns levels, kind, channels, and a note.

        Raises:
            DataError: if a mask cannot be decoded.
        """
        which = f"a mask {'in it' if self.beside is None else f'beside it ({os.path.basename(self.beside)})'}"
        which += " says which pixels hold something"
        shows = f"; {self._path}::{self._name} shows it" if self._name else ""
        first = levels[0].arrays[0]
        if self._of_stack:
            return levels, kind, channels, f"{which}, and is not applied{shows}"
        if first.bytes > LARGEST:
            said = f"{which}, and is not applied: the image is larger than {LARGEST >> 30} GiB{shows}"
            return levels, kind, channels, said
        if kind in ("rgb", "rgba") and first.dtype in _COLOURS:
            made = self._levels(levels, first.dtype, None, tables, resources)
            return made, *colour_channels(_ALPHA + 1), f"{which}: others are transparent{shows}"
        none = channels[0].missing
        if _holds(first.dtype, none):
            with contextlib.suppress(_TakenError):
                made = self._levels(levels, first.dtype, none, tables, resources)
                return made, kind, channels, f"{which}: others have no value{shows}"
        wider = _WIDER.get(first.dtype)
        if wider is None or kind in ("rgb", "rgba"):
            return levels, kind, channels, f"{which}, and is not applied: the image's numbers are {first.dtype}{shows}"
        with contextlib.suppress(_TakenError):
            none = _unlikely(wider)
            made = self._levels(levels, wider, none, tables, resources)
            for channel in channels:
                channel.missing = none
            return made, kind, channels, f"{which}: others have no value{shows}"
        return (
            levels,
            kind,
            channels,
            f"{which}, and is not applied: the image's numbers are all that {wider} has{shows}",
        )

    def _levels(
        self, levels: list[Level], dtype: str, none: Any, tables: Sequence[bytes], resources: ReaderResources
    ) -> list[Level]:
        """The levels with `none` at masked pixels; None makes colours transparent. A level without a mask of its size
        uses the nearest pixels of the first mask."""
        size = _extent(levels[0].arrays[0])
        made = []
        for level in levels:
            array = level.arrays[0]
            page = self._pages.get(_extent(array), self._pages[size])
            made.append(replace(level, arrays=[self._masked(array, page, dtype, none, tables, resources)]))
        return made

    def _masked(
        self, array: Array, page: Any, dtype: str, none: Any, tables: Sequence[bytes], resources: ReaderResources
    ) -> Array:
        high, wide = _size(page)
        files = [self._path] if self.beside is None else [self._path, self.beside]
        flat = Array("mask", "uint8", (high, wide), "yx", {})
        mask = converted(
            self._path,
            resources,
            count=high * wide,
            why="has a mask",
            how=f"mask {high} x {wide} at {page.offset}",
            write=tiff_decoded.writer(self.beside or self._path, flat, [page]),
            files=files,
        )
        made = Array(array.name, dtype, array.shape, array.axes, {}, list(array.channels))
        if none is None:
            made.shape = tuple(_ALPHA + 1 if a == "c" else n for a, n in zip(array.axes, array.shape, strict=True))
            made.channels = list(range(_ALPHA + 1))
        stored = converted(
            self._path,
            resources,
            count=made.bytes,
            why="has a mask",
            # Images in one file differ only in their places.
            how=f"{self._place(array, tables)} masked by {high} x {wide} at {page.offset} as {none!r}, as {dtype}",
            pieces=lambda: _pieces(
                self._path, array, made, none, (mask.path, high, wide), tables, resources.memory_limit
            ),
            files=files,
        )
        made.place = contiguous(stored.path, 0)
        return made

    def _place(self, array: Array, tables: Sequence[bytes]) -> str:
        """Text that distinguishes an image from others of its file."""
        table = array.place.get("table")
        listed = "" if table is None else hashlib.sha256(tables[table["table"]]).hexdigest()
        return f"{array.name} {json.dumps(array.place)} {listed}"


def _is_whole(series: Any) -> bool:
    """Whether a series is an image, not a mask or smaller copy."""
    return not int(series.keyframe.subfiletype) & _PART and not is_mask(series.keyframe)


def _first(series: Any) -> int:
    """The number of its first page in the file."""
    return min((_number(page) for page in series.pages if page is not None), default=-1)


def _number(page: Any) -> int:
    """The number of a page in the file; a subordinate page has the number of its parent."""
    return int(page.index[0] if isinstance(page.index, tuple) else page.index)


def _owned(series: Sequence[Any], shown: Any) -> list[tuple[int, list[Any]]]:
    """The pages of masks of an image, by the number of their series. In GDAL's order, masks follow their image among
    its smaller copies. A file with one image has only masks of it."""
    masks = [(n, s) for n, s in enumerate(series) if is_mask(s.keyframe)]
    if not masks:
        return []
    images = [s for s in series if _is_whole(s)]
    own = {_number(page) for page in shown.pages if page is not None}
    starts = sorted({_number(page) for s in images for page in s.pages if page is not None})
    found = []
    for n, mask in masks:
        pages = [s.keyframe for s in mask.levels] if len(mask.pages) == 1 else [p for p in mask.pages if p is not None]
        of = [p for p in pages if len(images) < 2 or _before(starts, _number(p)) in own]
        if of:
            found.append((n, of))
    return found


def _before(starts: Sequence[int], number: int) -> int | None:
    """The last of some rising numbers before another number.

    >>> _before([0, 4], 3), _before([0, 4], 5), _before([2], 1)
    (0, 4, None)
    """
    at = bisect.bisect_left(starts, number)
    return starts[at - 1] if at else None


class _TakenError(Exception):
    """A valid pixel has the number of missing values."""


def _unlikely(dtype: str) -> float:
    """A number that is rare in pixels."""
    if dtype.startswith("float"):
        return math.nan
    return int(np.iinfo(dtype).max if dtype.startswith("u") else np.iinfo(dtype).min)


def _holds(dtype: str, none: Any) -> bool:
    """Whether a type can hold the number of missing values."""
    if not isinstance(none, int | float) or dtype == "bool":
        return False
    if dtype.startswith("float"):
        return True
    return float(none).is_integer() and np.iinfo(dtype).min <= none <= np.iinfo(dtype).max


def _extent(array: Array) -> Size:
    return array.length("y"), array.length("x")


def _size(page: Any) -> Size:
    return int(page.imagelength), int(page.imagewidth)


def _pieces(
    path: str,
    array: Array,
    made: Array,
    none: Any,
    mask: tuple[str, int, int],
    tables: Sequence[bytes],
    memory_limit: int | None,
) -> Iterator[bytes]:
    """The numbers of an array in order, with masked pixels missing or transparent."""
    limit = min(_LIMIT, memory_limit or _LIMIT)
    channels = [Channel(str(n)) for n in array.channels]
    found = describe(Volume(path, "image", [Level([array])], channels, "channels" if len(channels) > 1 else "scalar"))
    native = _core.Dataset.open(found.native(), decoding(limit), tables=list(tables))
    wide, high, _ = array.dims
    name, mask_high, mask_wide = mask
    holds = np.memmap(name, np.uint8, "r", shape=(mask_high, mask_wide))
    columns = _nearest(0, wide, wide, mask_wide)
    within = made.axes.endswith("c")
    rows = max(1, _BAND // max(1, wide * made.item * (len(made.channels) if within else 1)))
    try:
        for group in [made.channels] if within else [[n] for n in made.channels]:
            for top in range(0, high, rows):
                low = min(top + rows, high)
                kept = holds[_nearest(top, low, high, mask_high)][:, columns] != 0
                read = {
                    n: np.asarray(native.read_box(0, n, (0, top, 0), (wide, low, 1), 0))[0]
                    for n in group
                    if n < len(channels)
                }
                rows_of = [_masked(read.get(n), kept, made, none, n) for n in group]
                kind = np.dtype(made.dtype).newbyteorder("<")
                yield np.ascontiguousarray(np.stack(rows_of, axis=-1), dtype=kind).tobytes()
    finally:
        native.close()


def _nearest(first: int, end: int, count: int, mask_count: int) -> NDArray[np.intp]:
    """Pixels of a mask that are nearest to the pixels from `first` to `end`, of `count` along an axis of an image.

    >>> _nearest(0, 3, 3, 6).tolist(), _nearest(1, 3, 4, 4).tolist()
    ([1, 3, 5], [1, 2])
    """
    return ((np.arange(first, end) + 0.5) * mask_count / count).astype(np.intp)


def _masked(values: NDArray[Any] | None, kept: NDArray[np.bool_], made: Array, none: Any, channel: int) -> NDArray[Any]:
    """Rows of a channel with the mask applied. A channel of opacity may be new."""
    kind = np.dtype(made.dtype)
    if none is None:
        stored = np.full(kept.shape, np.iinfo(kind).max, kind) if values is None else values
        return np.where(kept, stored, 0) if channel == _ALPHA else stored
    if values is None:  # a new channel of opacity
        raise ValueError(channel)
    stored = values.astype(kind)
    number = kind.type(none)
    if (stored[kept] == number).any():
        raise _TakenError
    return np.where(kept, stored, number)
