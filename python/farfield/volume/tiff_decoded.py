"""Pages of a TIFF that the extension does not decode: tifffile does, strip by strip or tile by tile, into the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from farfield.errors import DataError
from farfield.volume.description import Array

LARGEST = 256 << 20
"""Bytes of a strip or tile that is decoded whole, in memory."""


def reason(page: Any, known: Sequence[int]) -> str | None:
    """Why pages are converted; None for those that are read where they lie. `known` are codecs that need no conversion."""
    code = int(page.compression)
    if code not in known:
        return f"is compressed as {getattr(page.compression, 'name', code)}, which is not read in place"
    bits = page.bitspersample
    return None if bits in (8, 16, 32, 64) else f"has {bits} bits a sample, which are not read in place"


def writer(path: str, array: Array, pages: Sequence[Any]) -> Callable[[BinaryIO, Callable[[int], None]], None]:
    """Writes the numbers of all pages in order, little-endian.

    Raises:
        DataError: if a strip or tile is too large, or tifffile does not decode it.
    """
    key = pages[0].keyframe if hasattr(pages[0], "keyframe") else pages[0]
    high, wide, samples = int(key.imagelength), int(key.imagewidth), int(key.samplesperpixel)
    separate = samples > 1 and int(key.planarconfig) == 2
    within = 1 if separate else samples
    of_page = high * wide * samples * array.item
    rows, columns = (key.tilelength, key.tilewidth) if key.is_tiled else (min(key.rowsperstrip, high), wide)
    if rows * columns * within * array.item > LARGEST:
        raise DataError(
            f"{path}: its strips of {rows * columns * within * array.item >> 20} MiB are decoded whole, and "
            f"{LARGEST >> 20} MiB are the most; write it again in tiles (tiffcp -t)"
        )

    def put(n: int, page: Any, file: BinaryIO, tell: Callable[[int], None]) -> int:
        done = 0
        for data, (plane, _, top, left, _), _ in page.segments(maxworkers=1):
            if data is None:
                raise DataError(f"{path}: its page {n} has a strip or tile that was never written; write it again")
            part = np.asarray(data)[0, : high - top, : wide - left, :]
            part = np.ascontiguousarray(part, dtype=np.dtype(array.dtype).newbyteorder("<"))
            tall, broad = part.shape[:2]
            start = n * of_page + (plane * high * wide + (top * wide + left) * within) * array.item
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
            with _open(page):
                done += put(n, page, file, tell)
        if done != math.prod(array.shape) * array.item:
            raise DataError(f"{path}: its pages have fewer strips or tiles than their sizes need; copy it again")

    return write


@contextmanager
def _open(page: Any) -> Iterator[None]:
    """The other files of an OME-TIFF are closed again by tifffile once their directories are read."""
    handle = page.parent.filehandle
    closed = handle.closed
    if closed:
        handle.open()
    try:
        yield
    finally:
        if closed:
            handle.close()


def slices(tifffile: Any, files: Sequence[str], array: Array) -> Iterator[bytes]:
    """The numbers of files of one page each, a file at a time, little-endian.

    Raises:
        DataError: if one is too large, or tifffile does not decode it.
    """
    for file in files:
        with tifffile.TiffFile(file) as opened:
            page = opened.pages[0]
            if array.bytes // len(files) > LARGEST:
                raise DataError(
                    f"{file}: its {array.bytes // len(files) >> 20} MiB are decoded whole, and {LARGEST >> 20} MiB are the most; "
                    "write all of the folder in tiles of one codec (tiffcp -t -c zip)"
                )
            try:
                values = page.asarray(maxworkers=1)
            except (OSError, MemoryError):
                raise
            except Exception as error:  # decoders raise whatever they like
                raise failed(file, page, error) from error
            yield np.ascontiguousarray(values, dtype=np.dtype(array.dtype).newbyteorder("<")).tobytes()


def failed(path: str, page: Any, error: Exception) -> DataError:
    """The error for what tifffile does not decode."""
    name = getattr(page.compression, "name", int(page.compression))
    return DataError(
        f"{path}: its numbers ({page.bitspersample} bits, {name}) could not be decoded ({' '.join(str(error).split())[:160]}); "
        "pip install imagecodecs may bring what is missing, or write it again with deflate, LZW or zstd (tiffcp -c zip)"
    )
