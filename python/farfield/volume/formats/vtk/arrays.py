"""Arrays of VTK XML files: their blocks, compressed or not, and their bytes in pieces."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.lz4 import unpack_block
from farfield.volume.formats.vtk.array_bytes import (
    Segment,
    after_letters,
    base64_length,
    base64_segment,
    raw_segment,
    text_numbers,
)

TYPES = {
    "Int8": "int8", "UInt8": "uint8", "Int16": "int16", "UInt16": "uint16", "Int32": "int32", "UInt32": "uint32",
    "Int64": "int64", "UInt64": "uint64", "Float32": "float32", "Float64": "float64",
}  # fmt: skip
_LARGEST_BLOCK = 256 << 20
"""Blocks that are unpacked whole may not be larger."""


@dataclass
class Encoding:
    """What a file says of all its arrays."""

    big_endian: bool
    header: str
    """NumPy type of the numbers before each array."""
    compressor: str | None


@dataclass
class DataArray:
    """One array: what it is, and where its numbers are."""

    name: str
    dtype: str
    components: int
    format: str
    """`ascii`, `binary` (base64 in its place), `raw` or `base64` (appended), `bare` (of legacy files: without a header)."""
    start: int = 0
    """First byte: of the text, or of the numbers' header."""
    end: int = 0
    """Behind the text, for those in their place."""
    most: str = ""
    """The highest number of it, as the file says it; empty where it does not."""


@dataclass
class Blocks:
    """Blocks of a compressed array: where the first one begins, and how long each is."""

    at: int
    size: int
    """Bytes of a block when it is unpacked, but for the last one."""
    lengths: list[int]


class Reader:
    """Reads arrays of an open file."""

    def __init__(self, path: str, file: BinaryIO, length: int, encoding: Encoding) -> None:
        self.path = path
        self._file = file
        self._length = length
        self._encoding = encoding
        self.big_endian = encoding.big_endian

    def _segment(self, array: DataArray) -> Segment:
        if array.format == "raw":
            return partial(raw_segment, self.path, self._file)
        return partial(base64_segment, self.path, self._file)

    def _header(self, segment: Segment, at: int, count: int) -> list[int]:
        item = np.dtype(self._encoding.header).itemsize
        raw = b"".join(segment(at, count * item))
        return [int(n) for n in np.frombuffer(raw, self._encoding.header)]

    def plain_start(self, array: DataArray, count: int) -> int:
        """First byte of an array that is appended as it is in memory.

        Raises:
            DataError: if it is not as long as it should be.
        """
        if array.format == "bare":
            self._check(array, array.end - array.start, count)
            return array.start
        (said,) = self._header(self._segment(array), array.start, 1)
        self._check(array, said, count)
        at = array.start + np.dtype(self._encoding.header).itemsize
        if at + count > self._length:
            raise DataError(
                f"{self.path}: '{array.name}' needs {count:,} bytes from byte {at:,} on, and the file ends at "
                f"{self._length:,}: it was cut off; copy or write it again"
            )
        return at

    def _check(self, array: DataArray, said: int, count: int) -> None:
        if said != count:
            raise DataError(
                f"{self.path}: '{array.name}' is {said:,} bytes long, and its extent asks for {count:,}: the file is "
                "damaged, or was written wrong; write it again"
            )

    def blocks(self, array: DataArray, count: int) -> Blocks:
        """The blocks of a compressed array of so many bytes.

        Raises:
            DataError: if they do not add up.
        """
        segment = self._segment(array)
        number, size, last = self._header(segment, array.start, 3)
        whole = number * size if last == 0 else (number - 1) * size + last
        if number < 1 or size < 1 or last > size or whole != count:
            raise DataError(
                f"{self.path}: '{array.name}' has {number:,} blocks of {size:,} bytes (the last one {last:,}), and "
                f"its extent asks for {count:,} bytes: the file is damaged; copy or write it again"
            )
        item = np.dtype(self._encoding.header).itemsize
        if (3 + number) * item > self._length:
            raise DataError(
                f"{self.path}: '{array.name}' has more blocks than the file holds; it was cut off: copy it again"
            )
        lengths = self._header(segment, array.start, 3 + number)[3:]
        bytes_before = (3 + number) * item
        if array.format == "raw":
            at = array.start + bytes_before
        else:
            at = after_letters(self.path, self._file, array.start, base64_length(bytes_before))
        if sum(lengths) > self._length:
            raise DataError(
                f"{self.path}: the blocks of '{array.name}' are longer than the file: it was cut off; copy it again"
            )
        return Blocks(at, size, lengths)

    def pieces(self, array: DataArray, count: int) -> Iterator[bytes]:
        """The bytes of an array, in pieces of bounded size, in the file's byte order (text: the machine's)."""
        if array.format == "ascii":
            yield from text_numbers(self.path, self._file, array.start, array.end, array.dtype)
            return
        if array.format == "bare":
            self._check(array, array.end - array.start, count)
            yield from raw_segment(self.path, self._file, array.start, count)
            return
        if self._encoding.compressor is None:
            yield from self._plain(array, count)
            return
        blocks = self.blocks(array, count)
        stream = Stream(self.path, self._segment(array)(blocks.at, sum(blocks.lengths)))
        for n, length in enumerate(blocks.lengths):
            size = min(blocks.size, count - n * blocks.size)
            yield from self._unpacked(array, stream, length, size)

    def _plain(self, array: DataArray, count: int) -> Iterator[bytes]:
        item = np.dtype(self._encoding.header).itemsize
        segment = self._segment(array)
        (said,) = self._header(segment, array.start, 1)
        self._check(array, said, count)
        skip = item  # the header is in the same base64 text as the numbers
        for piece in segment(array.start, item + count):
            if skip < len(piece):
                yield piece[skip:]
            skip = max(0, skip - len(piece))

    def _unpacked(self, array: DataArray, stream: Stream, length: int, size: int) -> Iterator[bytes]:
        damaged = f"{self.path}: a block of '{array.name}' is damaged; copy or write it again"
        compressor = self._encoding.compressor
        if compressor != "zlib" and max(length, size) > _LARGEST_BLOCK:
            raise DataError(
                f"{self.path}: '{array.name}' has blocks of {size:,} bytes in {compressor}, which are unpacked "
                "whole; write it with smaller blocks, or with zlib"
            )
        try:
            if compressor == "lz4":
                yield unpack_block(stream.take(length), size)
                return
            if compressor == "lzma":
                unpacker = lzma.LZMADecompressor(memlimit=1 << 30)
                out = unpacker.decompress(stream.take(length), max_length=size + 1)
                if len(out) != size:
                    raise DataError(damaged)
                yield out
                return
            yield from _zlib_block(stream, length, size, damaged)
        except (zlib.error, lzma.LZMAError, ValueError) as error:
            raise DataError(damaged) from error


def _zlib_block(stream: Stream, length: int, size: int, damaged: str) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    done = 0
    data = b""
    while not unpacker.eof:
        if not data:
            if not length:
                raise DataError(damaged)
            data = stream.take(min(length, PIECE))
            length -= len(data)
        out = unpacker.decompress(data, PIECE)
        data = unpacker.unconsumed_tail
        done += len(out)
        if done > size:
            raise DataError(damaged)
        if out:
            yield out
    if done != size:
        raise DataError(damaged)
    while length:
        length -= len(stream.take(min(length, PIECE)))


class Stream:
    """Pieces as a file that is read on and on."""

    def __init__(self, path: str, pieces: Iterator[bytes]) -> None:
        self._path = path
        self._pieces = pieces
        self._kept = bytearray()

    def take(self, count: int) -> bytes:
        """The next bytes.

        Raises:
            DataError: if there are fewer.
        """
        while len(self._kept) < count:
            piece = next(self._pieces, None)
            if piece is None:
                raise DataError(
                    f"{self._path}: its compressed numbers end too early: it was cut off; copy or write it again"
                )
            self._kept += piece
        found = bytes(self._kept[:count])
        del self._kept[:count]
        return found
