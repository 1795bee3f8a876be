"""Pixels of DICOM files: their places, or their conversion into the cache."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.runtime.optional_libraries import need
from farfield.sources import places
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import Array, contiguous, in_table, planes, table_of
from farfield.volume.formats.dicom.headers import DEFLATED, Slice
from farfield.volume.formats.dicom.values import Values
from farfield.volume.formats.library_logs import heard
from farfield.volume.formats.options import ReaderResources

_BIG = "Explicit VR Big Endian"


def array_of(first: Slice, steps: int, slices: int) -> Array:
    """The array for these numbers of steps and slices, without a place."""
    rows, columns = first.size
    inner: tuple[int, ...] = (rows, columns)
    axes = "zyx"
    if first.samples > 1:
        inner = (first.samples, rows, columns) if first.planar else (rows, columns, first.samples)
        axes = "zcyx" if first.planar else "zyxc"
    shape: tuple[int, ...] = (slices, *inner)
    if steps > 1:
        shape, axes = (steps, *shape), "t" + axes
    array = Array(first.label or "slices", first.dtype, shape, axes, {}, list(range(first.samples)))
    array.big_endian = first.big_endian and array.item > 1
    return array


def in_place(listed: Sequence[Slice], array: Array, steps: int, tables: list[bytes]) -> None:
    """Sets the places of the slices' pixels in an array."""
    files = [s.file for s in listed]
    offsets = [s.plain_offset or 0 for s in listed]
    if steps == 1:
        array.place = planes(files, offsets)
        return
    each = array.bytes // len(listed)
    rows = np.zeros((len(listed), 3), dtype=np.uint64)
    rows[:, 0], rows[:, 1], rows[:, 2] = np.arange(len(listed)), offsets, each
    array.chunk = (1, 1, *array.shape[2:])
    array.place = in_table(files)
    tables.append(table_of(rows))


def why_converted(listed: Sequence[Slice], array: Array) -> str | None:
    """Why pixels cannot be paged in place, apart from the meaning of their numbers; None if they can."""
    first = listed[0]
    if first.photometric.startswith("YBR") and first.syntax_name.endswith(("Endian", "Endian (Retired)")):
        return "has colours as luminance and chrominance"
    if len({s.big_endian for s in listed}) > 1 and array.item > 1:
        return "has slices of either byte order"
    closed = next((s for s in listed if s.plain_offset is None), None)
    if closed is not None:
        return f"has bytes in pairs ({_BIG})" if closed.syntax_name == _BIG else f"is compressed ({closed.syntax_name})"
    if any(s.bits == 1 for s in listed):
        return "has pixels of one bit"
    if any(s.low_bit for s in listed):
        return "has numbers with other bits below them"
    if first.frames == 1 and _spills(first, listed[len(listed) // 2], array):
        return "has numbers with other bits beside them"
    return None


def _spills(first: Slice, middle: Slice, array: Array) -> bool:
    """Whether bits beyond the numbers are set, by old overlays or signs that are not extended."""
    if first.stored_bits >= array.item * 8 or array.dtype.startswith("float") or middle.plain_offset is None:
        return False
    count = math.prod(first.size) * first.samples
    dtype = np.dtype(array.dtype).newbyteorder(">" if array.big_endian else "<")
    values = places.numbers(middle.file, dtype, count, offset=middle.plain_offset)
    low, high = (
        (-(1 << (first.stored_bits - 1)), 1 << (first.stored_bits - 1))
        if array.dtype.startswith("int")
        else (0, 1 << first.stored_bits)
    )
    return bool(len(values)) and (int(values.min()) < low or int(values.max()) >= high)


def convert(
    path: str,
    listed: Sequence[Slice],
    array: Array,
    resources: ReaderResources,
    why: str,
    reads: list[str],
    *,
    values: Values | None = None,
    tiles: int = 0,
    blanks: Sequence[int] = (),
) -> None:
    """Decodes slices into the cache, one after another, with `values` applied. A mosaic gives `tiles` slices. `blanks`:
    the number of missing slices after each."""
    values = values or Values()
    changed = values.meanings is not None
    if changed:
        array.dtype = values.dtype
    array.big_endian = False
    if array.axes.endswith("cyx"):  # pydicom puts the component last
        c, y, x = array.shape[-3:]
        array.axes, array.shape = array.axes.replace("cyx", "yxc"), (*array.shape[:-3], y, x, c)
    if values.colours:
        array.axes, array.shape, array.channels = array.axes + "c", (*array.shape, 3), [0, 1, 2]
    made = converted(
        path,
        resources,
        count=array.bytes,
        why=values.why if changed else why,
        how=f"slices of {listed[0].series} as {array.dtype}"
        + (f", each what it {values.why}" if changed else "")
        + (f", {tiles} tiles of {array.length('y')} x {array.length('x')}" if tiles else "")
        + (" above other bits" if any(s.low_bit for s in listed) else "")
        + (f", {list(blanks)} missing after them" if any(blanks) else ""),
        pieces=lambda: _pixels(listed, array, values, tiles, blanks),
        files=[s.file for s in listed],
        at_once=array.bytes // max(1, math.prod(array.shape[: array.axes.index("y")])) * max(1, tiles),
    )
    array.place = contiguous(made.path, 0)
    reads.append(made.path)


def _pixels(
    listed: Sequence[Slice], array: Array, values: Values, tiles: int, blanks: Sequence[int]
) -> Iterator[bytes]:
    pixels = need("pydicom.pixels", "DICOM files")
    each = iter(values.meanings or ())
    kind = np.dtype(array.dtype).newbyteorder("<")
    for s, blank in zip(listed, blanks or [0] * len(listed), strict=True):
        try:
            for frame in frames_in(pixels, s):
                found = np.asarray(frame)
                if s.low_bit:
                    unused = found.dtype.itemsize * 8 - s.stored_bits
                    found = found << (unused - s.low_bit) >> unused  # the highest bit carries the sign
                meaning = next(each, None)
                if meaning is not None:
                    found = meaning(found)
                if tiles:
                    found = unfolded(found, tiles, array.length("y"), array.length("x"))
                yield np.ascontiguousarray(found, dtype=kind).tobytes()
                for _ in range(blank):
                    yield np.full(found.shape, np.nan if kind.kind == "f" else 0, kind).tobytes()
        except FarfieldError:
            raise
        except MemoryError:
            raise
        except Exception as error:  # decoders raise any exception
            raise undecoded(s, error) from error


def undecoded(s: Slice, error: Exception) -> DataError:
    """The error for pixels that no decoder accepts, with the message of one."""
    version = need("pydicom", "DICOM files").__version__
    return DataError(
        f"{s.file}: its pixels are written as {s.syntax_name}, which pydicom {version} does not decode here "
        f"({' '.join(str(error).split())[:160]}); pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg may bring it, or "
        "write it without compression first (dcmdjpeg, or gdcmconv --raw)"
    )


def unfolded(mosaic: Any, tiles: int, rows: int, columns: int) -> Any:
    """The first `tiles` tiles of a picture, from its upper left corner: [tile, row, column].

    >>> unfolded(np.arange(8).reshape(2, 4), 2, 1, 2).tolist()
    [[[0, 1]], [[2, 3]]]
    """
    down, across = mosaic.shape[0] // rows, mosaic.shape[1] // columns
    cut = mosaic[: down * rows, : across * columns].reshape(down, rows, across, columns)
    return cut.transpose(0, 2, 1, 3).reshape(down * across, rows, columns)[:tiles]


def frames_in(pixels: Any, s: Slice, order: Sequence[int] | None = None) -> Iterator[Any]:
    """Frames of a file, all or those of `order`. pydicom's messages about decoders are suppressed."""
    if s.plain_offset is not None and s.samples == 1:
        yield from _plain(s, range(s.frames) if order is None else order)
        return
    # pydicom treats the lowest bits of a word as the number, whatever HighBit is.
    how: dict[str, Any] = {"correct_unused_bits": False} if s.low_bit else {}
    if order is not None:
        how["indices"] = order
    with heard("pydicom"):
        try:
            yield from pixels.iter_pixels(places.for_library(s.file), **how)
        except AttributeError:
            # pydicom finds no pixels in a deflated file unless it reads the whole file.
            whole = need("pydicom", "DICOM files").dcmread(places.for_library(s.file))
            if str(whole.file_meta.TransferSyntaxUID) != DEFLATED:
                raise
            yield from pixels.iter_pixels(whole, **how)


def _plain(s: Slice, order: Sequence[int]) -> Iterator[Any]:
    """Frames without compression, with bits beyond the numbers cleared."""
    dtype = np.dtype(s.dtype).newbyteorder(">" if s.big_endian else "<")
    count = math.prod(s.size)
    unused = dtype.itemsize * 8 - s.stored_bits
    for n in order:
        if s.bits == 1:
            # Frames of single bits are packed without gaps and may begin within a byte.
            byte, bit = divmod(n * count, 8)
            packed = places.numbers(s.file, np.uint8, -(-(bit + count) // 8), offset=(s.plain_offset or 0) + byte)
            yield np.unpackbits(packed, bitorder="little")[bit : bit + count].reshape(s.size)
            continue
        found = places.numbers(s.file, dtype, count, offset=(s.plain_offset or 0) + n * count * dtype.itemsize)
        found = found.astype(dtype.newbyteorder("=")).reshape(s.size)
        if unused > 0 and not s.low_bit and dtype.kind in "iu":
            found = found << unused >> unused
        yield found


def for_each_frame(s: Slice) -> list[Slice]:
    """A list with the file once per frame, for values per frame."""
    return list(itertools.repeat(s, s.frames))


def alone(s: Slice, scale: tuple[float, float] | None, units: str | None) -> Slice:
    """The file with the scale that its groups give."""
    return replace(s, scale=scale, units=units or s.units)
