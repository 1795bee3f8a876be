"""Files that are compressed as a whole: what they hold from a place on, in pieces."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Generator, Iterator

from farfield.errors import DataError
from farfield.volume.conversion import PIECE
from farfield.volume.files import unreadable


def unpacked(
    path: str, codec: str, *, start: int = 0, skip: int = 0, count: int | None = None, ended: bool = False
) -> Iterator[bytes]:
    """The bytes of a gzip, zlib or bzip2 stream that begins at byte `start` of a file, in pieces of bounded size.

    `skip` of them are left out, and `count` bytes at most are given; checksums are checked where the stream is read to its end.
    With `ended`, one that holds no more than what is asked for is.

    Raises:
        DataError: if the stream is damaged or cut off before what is asked for.
    """
    try:
        with open(path, "rb") as file:
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
                        # Goes on to the end of this stream, or to more of it: no pass of its own.
                        next(found, None)
                    return
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _members(path: str, codec: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What the streams in a file hold, and nothing at the end of each: gzip and bzip2 files may be several, one after the other."""
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
        except (OSError, zlib.error, ValueError, EOFError) as error:
            if isinstance(error, DataError):
                raise
            if not first and isinstance(error, OSError | zlib.error):
                return  # whatever follows the last stream is no part of it
            raise DataError(f"{path}: its {codec} data are damaged ({error}); copy it again") from error
        first = False
        yield b""


def _member(path: str, codec: str, data: bytes, pieces: Iterator[bytes]) -> Generator[bytes, None, bytes]:
    if codec == "bz2":
        return (yield from _bz2(path, data, pieces))
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


def _bz2(path: str, data: bytes, pieces: Iterator[bytes]) -> Generator[bytes, None, bytes]:
    stream = bz2.BZ2Decompressor()
    while not stream.eof:
        if stream.needs_input and not data:
            data = next(pieces, b"")
            if not data:
                raise DataError(f"{path}: its bz2 data are cut off; copy it again")
        out = stream.decompress(data, PIECE)
        data = b""
        if out:
            yield out
    return stream.unused_data


def is_gzip(head: bytes) -> bool:
    """Whether a file that begins so is a gzip file."""
    return head.startswith(b"\x1f\x8b")
