"""Conversion of TIFF pages that the extension cannot decode: tifffile decodes them into the cache, by strip or tile."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.sources import places
from farfield.volume.formats import number_parts
from farfield.volume.formats.description import Array

_PALETTE = 3
_AT_ONCE = 1 << 16
"""Numbers unpacked at a time, a multiple of 8."""
LARGEST = 256 << 20
"""Largest strip or tile in bytes that is decoded whole."""


def reason(page: Any, known: Sequence[int], *, coloured: bool = False) -> str | None:
    """Why pages are converted; None if they are paged in place. `known` are codecs of the extension. `coloured`: the
    colours of a palette are shown, not its numbers."""
    code = int(page.compression)
    if is_complex(page):
        return number_parts.WHY
    if coloured:
        return "has its colours in a palette"
    if code not in known:
        return f"is compressed as {getattr(page.compression, 'name', code)}, which is not read in place"
    bits = page.bitspersample
    return None if bits in (8, 16, 32, 64) else f"has {bits} bits a sample, which are not read in place"


def is_complex(page: Any) -> bool:
    """Whether a page's numbers are complex."""
    return page.dtype is not None and np.dtype(page.dtype).name in number_parts.REAL


def is_palette(page: Any) -> bool:
    """Whether a page has a palette that is not plain grey."""
    if int(page.photometric) != _PALETTE or int(page.samplesperpixel) != 1:
        return False
    found = getattr(page, "colormap", None)
    if found is None or page.dtype is None:
        return False
    grey = np.linspace(0, 255, np.shape(found)[-1])
    return bool(np.abs(np.asarray(found, np.float64) / 257 - grey).max() > 1)


def knows_codec(page: Any) -> bool:
    """Whether tifffile can decode a page with the installed codecs; some come with imagecodecs."""
    import tifffile

    return int(page.compression) == 1 or int(page.compression) in tifffile.TIFF.DECOMPRESSORS


def _coloured(path: str, page: Any, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The colours of numbers in a page's palette, uint8, along a further axis.

    Raises:
        DataError: if a number has no colour.
    """
    own = getattr(page, "colormap", None)
    table = np.asarray(page.keyframe.colormap if own is None else own)
    if table.ndim != 2 or len(table) != 3 or (values.size and int(values.max()) >= table.shape[1]):
        raise DataError(f"{path}: its palette has {table.shape[-1]:,} colours, and a pixel is of none; copy it again")
    found: np.ndarray[Any, Any] = (table.T >> 8).astype(np.uint8)[values]
    return found


def writer(
    path: str, array: Array, pages: Sequence[Any], *, coloured: bool = False, component: str | None = None
) -> Callable[[BinaryIO, Callable[[int], None]], None]:
    """Writes the numbers of all pages in order, little-endian; or their colours in a palette.

    Raises:
        DataError: if a strip or tile is too large, or if tifffile cannot decode it.
    """
    key = pages[0].keyframe
    high, wide, samples = int(key.imagelength), int(key.imagewidth), 3 if coloured else int(key.samplesperpixel)
    separate = samples > 1 and not coloured and int(key.planarconfig) == 2
    within = 1 if separate else samples
    deep = int(key.imagedepth)
    of_page = deep * high * wide * samples * array.item
    for kind in {id(p.keyframe): p.keyframe for p in pages}.values():
        rows, columns = (kind.tilelength, kind.tilewidth) if kind.is_tiled else (min(kind.rowsperstrip, high), wide)
        if rows * columns * within * array.item > LARGEST:
            raise DataError(
                f"{path}: its strips of {rows * columns * within * array.item >> 20} MiB are decoded whole, and "
                f"{LARGEST >> 20} MiB are the most; write it again in tiles (tiffcp -t)"
            )

    def put(n: int, page: Any, file: BinaryIO, tell: Callable[[int], None]) -> int:
        done = 0
        for data, (plane, slice_, top, left, _), shape in _segments(page):
            # A segment that was never written.
            data = (
                np.full(shape, array.fill or 0, array.dtype if not coloured else page.dtype) if data is None else data
            )
            part = np.asarray(data)[0, : high - top, : wide - left, :]
            part = _coloured(path, page, part[..., 0]) if coloured else part
            part = part if component is None else number_parts.component(part, component)
            part = np.ascontiguousarray(part, dtype=np.dtype(array.dtype).newbyteorder("<"))
            tall, broad = part.shape[:2]
            # Planes of colours, or slices of one page, are consecutive; no page has both.
            before = (plane + slice_ * within) * high * wide
            start = n * of_page + (before + (top * wide + left) * within) * array.item
            if broad == wide:
                file.seek(start)
                file.write(part.tobytes())
            else:
                for row in range(tall):
                    file.seek(start + row * wide * within * array.item)
                    file.write(part[row].tobytes())
            done += part.nbytes
            tell(part.nbytes)
        return done

    def write(file: BinaryIO, tell: Callable[[int], None]) -> None:
        done = 0
        for n, page in enumerate(pages):
            with opened(page):
                try:
                    done += put(n, page, file, tell)
                except (FarfieldError, OSError, MemoryError):
                    raise
                except Exception as error:  # decoders raise any exception
                    raise failed(path, page.keyframe, error) from error
        if done != math.prod(array.shape) * array.item:
            raise DataError(f"{path}: its pages have fewer strips or tiles than their sizes need; copy it again")

    return write


_NOT_PACKED, _DEFLATE = 1, (8, 32946)


def _segments(page: Any) -> Iterator[Any]:
    """Decoded strips or tiles with their places and shapes. tifffile alone does not unpack odd numbers of bits."""
    if not _is_packed(page):
        yield from page.segments(maxworkers=1)
        return
    key, handle = page.keyframe, page.parent.filehandle
    bits, code = int(key.bitspersample), int(key.compression)
    for n, (offset, count) in enumerate(zip(page.dataoffsets, page.databytecounts, strict=True)):
        _, where, shape = key.decode(None, n)
        if not count:
            yield None, where, shape
            continue
        handle.seek(offset)
        raw = handle.read(count)
        raw = _inflated(raw, _packed_bytes(bits, shape)) if code in _DEFLATE else raw
        yield unpacked(raw, bits, shape), where, shape


def _is_packed(page: Any) -> bool:
    """Whether a page's numbers do not fill whole bytes and are unpacked here."""
    key = page.keyframe
    bits, code = int(key.bitspersample), int(key.compression)
    odd = 1 < bits < 16 and bits != 8 and not is_complex(key)
    return odd and (code == _NOT_PACKED or code in _DEFLATE) and int(key.predictor) == 1


def _values(page: Any) -> np.ndarray[Any, Any]:
    """All numbers of a page."""
    if not _is_packed(page) or int(page.planarconfig) == 2:
        return np.asarray(page.asarray(maxworkers=1))
    high, wide, samples = int(page.imagelength), int(page.imagewidth), int(page.samplesperpixel)
    found = np.zeros((high, wide, samples), page.dtype)
    for data, (_, _, top, left, _), _ in _segments(page):
        if data is not None:
            part = data[0, : high - top, : wide - left]
            found[top : top + len(part), left : left + part.shape[1]] = part
    return found.reshape(page.shape)


def unpacked(raw: bytes, bits: int, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Integers of any number of bits, highest bit first, with rows that begin at a byte: [depth, row, column, sample].

    >>> unpacked(bytes([0x12, 0x30, 0x45, 0x60]), 4, (1, 2, 3, 1))[0, :, :, 0].tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    deep, rows, columns, samples = shape
    count = columns * samples
    across = _packed_bytes(bits, (1, 1, columns, samples))
    table = np.frombuffer(raw, np.uint8, _packed_bytes(bits, shape)).reshape(deep * rows, across)
    kind = np.uint8 if bits <= 8 else np.uint16
    weights = np.left_shift(1, np.arange(bits - 1, -1, -1)).astype(kind)
    made = np.empty((deep * rows, count), kind)
    # Each bit takes whole bytes during unpacking.
    band, wide = max(1, _AT_ONCE // max(1, count)), max(1, _AT_ONCE)
    for top in range(0, deep * rows, band):
        for left in range(0, count, wide):
            # The numbers of each part of a row must begin at a byte.
            right = min(left + wide, count)
            part = table[top : top + band, left * bits // 8 : -(-right * bits // 8)]
            ones = np.unpackbits(part, axis=1, count=(right - left) * bits).reshape(len(part), right - left, bits)
            made[top : top + band, left:right] = np.matmul(ones.astype(kind), weights)
    return made.reshape(deep, rows, columns, samples)


def _packed_bytes(bits: int, shape: Sequence[int]) -> int:
    """Bytes of such numbers, with rows that begin at a byte."""
    deep, rows, columns, samples = shape
    return deep * rows * -(-columns * samples * bits // 8)


def _inflated(raw: bytes, most: int) -> bytes:
    """Decompresses deflate up to a bound.

    Raises:
        ValueError: if the stream is truncated.
    """
    of = zlib.decompressobj()
    # A bound with one more byte lets zlib reach its checksum.
    found = of.decompress(raw, most + 1)
    if not of.eof and len(found) <= most:
        raise ValueError("its deflate stream is cut off")
    return found


@contextmanager
def opened(page: Any) -> Iterator[None]:
    """Reopens other files of an OME-TIFF, which tifffile closes after reading their directories."""
    handle = page.parent.filehandle
    closed = handle.closed
    if closed:
        handle.open()
    try:
        yield
    finally:
        if closed:
            handle.close()


def slices(
    tifffile: Any, files: Sequence[str], array: Array, *, coloured: bool = False, component: str | None = None
) -> Iterator[bytes]:
    """The numbers of single-page files, a file at a time, little-endian; or their colours in a palette.

    Raises:
        DataError: if one is too large, or if tifffile cannot decode it.
    """
    for file in files:
        with tifffile.TiffFile(places.for_library(file)) as opened:
            page = opened.pages[0]
            if array.bytes // len(files) > LARGEST:
                raise DataError(
                    f"{file}: its {array.bytes // len(files) >> 20} MiB are decoded whole, and {LARGEST >> 20} MiB are the most; "
                    "write all of the folder in tiles of one codec (tiffcp -t -c zip)"
                )
            try:
                values = _values(page)
            except (OSError, MemoryError):
                raise
            except Exception as error:  # decoders raise any exception
                raise failed(file, page, error) from error
            values = _coloured(file, page, values) if coloured else values
            values = values if component is None else number_parts.component(values, component)
            yield np.ascontiguousarray(values, dtype=np.dtype(array.dtype).newbyteorder("<")).tobytes()


def failed(path: str, page: Any, error: Exception) -> DataError:
    """The error for pages that tifffile cannot decode."""
    name = getattr(page.compression, "name", int(page.compression))
    said = " ".join(str(error).split())[:160]
    if knows_codec(page) and "imagecodecs" not in said:
        return DataError(
            f"{path}: its numbers ({page.bitspersample} bits, {name}) could not be decoded ({said}): it was cut off or changed; "
            "copy it again"
        )
    return DataError(
        f"{path}: its numbers ({page.bitspersample} bits, {name}) could not be decoded ({said}); pip install imagecodecs may bring "
        "what is missing, or write it again with deflate, LZW or zstd (tiffcp -c zip)"
    )
