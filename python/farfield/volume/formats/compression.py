"""Reading of files compressed as a whole, in pieces."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Generator, Iterator

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.files import head, unreadable


def unpacked(
    path: str, codec: str, *, start: int = 0, skip: int = 0, count: int | None = None, ended: bool = False
) -> Iterator[bytes]:
    """The bytes of a gzip, zlib, bzip2 or xz stream that begins at byte `start` of a file, in pieces of bounded size.

    The first `skip` bytes are omitted, and at most `count` bytes are yielded. Checksums are checked if the stream is read
    to its end. With `ended`, that includes a stream that ends with the last requested byte.

    Raises:
        DataError: if the stream is damaged or too short.
    """
    try:
        with places.open_binary(path) as file:
            file.seek(start)
            left = count
            found = _members(path, codec, iter(lambda: file.read(PIECE), b""))
            for piece in found:
                if skip >= len(piece):
                    skip -= len(piece)
                    continue
                piece, skip = piece[skip:], 0
                more = left is not None and len(piece) > left
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                if piece:
                    yield piece
                if left == 0:
                    if ended and not more:
                        # Reads the end of this stream, which checks its checksum without another pass.
                        next(found, None)
                    return
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _members(path: str, codec: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of all streams in a file, with an empty piece at the end of each. gzip and bzip2 files may consist of
    several."""
    rest = b""
    first = True
    while True:
        rest = rest or next(pieces, b"")
        # Padding with zeros after the last stream is common on tapes.
        if not rest or (not first and not rest.strip(b"\0")):
            if first:
                raise DataError(f"{path}: it ends before its {codec} data begin: it was cut off; copy it again")
            return
        if not first and codec == "zlib":
            return
        try:
            rest = yield from _member(path, codec, rest, pieces)
        except (OSError, zlib.error, lzma.LZMAError, ValueError, EOFError) as error:
            if isinstance(error, DataError):
                raise
            if not first and isinstance(error, OSError | zlib.error | lzma.LZMAError):
                return  # other data after the last stream are ignored
            raise DataError(f"{path}: its {codec} data are damaged ({error}); copy it again") from error
        first = False
        yield b""


def _member(path: str, codec: str, data: bytes, pieces: Iterator[bytes]) -> Generator[bytes, None, bytes]:
    if codec in ("bz2", "xz"):
        return (yield from _of_blocks(path, codec, data, pieces))
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16 if codec == "gzip" else zlib.MAX_WBITS)
    while not stream.eof:
        if not data:
            data = next(pieces, b"")
            if not data:
                raise DataError(f"{path}: its {codec} data are cut off; copy it again")
        out = stream.decompress(data, PIECE)
        data = stream.unconsumed_tail
        if out:
            yield out
    return stream.unused_data


def _of_blocks(path: str, codec: str, data: bytes, pieces: Iterator[bytes]) -> Generator[bytes, None, bytes]:
    stream = bz2.BZ2Decompressor() if codec == "bz2" else lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_XZ)
    while not stream.eof:
        if stream.needs_input and not data:
            data = next(pieces, b"")
            if not data:
                raise DataError(f"{path}: its {codec} data are cut off; copy it again")
        out = stream.decompress(data, PIECE)
        data = b""
        if out:
            yield out
    return stream.unused_data


_MOST_XZ = 128 << 20
"""Largest dictionary of an xz stream in bytes."""
_MARKS = {b"\x1f\x8b\x08": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
SUFFIXES = (".gz", ".gzip", ".bz2", ".xz")
"""Suffixes of files compressed as a whole."""


def codec_of(start: bytes) -> str | None:
    r"""The compression of a file with this beginning; None if it is not compressed as a whole.

    >>> codec_of(b"\x1f\x8b\x08\0"), codec_of(b"BZh91AY&SY"), codec_of(b"NRRD0004")
    ('gzip', 'bz2', None)
    """
    found = next((codec for mark, codec in _MARKS.items() if start.startswith(mark)), None)
    return None if found == "bz2" and start[4:10] not in (b"1AY&SY", b"\x17rE8P\x90") else found


def beginning(path: str, count: int) -> bytes:
    """The first bytes of a file, decompressed if it is compressed as a whole; fewer if it is damaged or shorter.

    Raises:
        DataError: if it cannot be read.
    """
    start = head(path, count)
    codec = codec_of(start)
    if codec is None:
        return start
    found = b""
    try:
        for piece in unpacked(path, codec, count=count):
            found += piece
    except DataError:  # later reads report the error
        return found
    return found


def plain_name(path: str) -> str:
    """A file's name without the suffix of its compression.

    >>> plain_name("a/head.nii.bz2"), plain_name("head.nii")
    ('a/head.nii', 'head.nii')
    """
    suffix = next((s for s in SUFFIXES if path.lower().endswith(s)), "")
    return path[: len(path) - len(suffix)]


def is_gzip(head: bytes) -> bool:
    """Whether a file with this beginning is gzip."""
    return head.startswith(b"\x1f\x8b")
