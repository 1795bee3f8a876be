"""Where the bytes of a VTK XML array lie, and how they are had in pieces: raw, in base64, or as text."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import PIECE

Segment = Callable[[int, int], Iterator[bytes]]
"""`segment(at, count)`: so many bytes of the segment that begins at byte `at` of the file, in pieces."""


def cut_off(path: str) -> DataError:
    """The error for a file that ends too early."""
    return DataError(f"{path}: it ends within the numbers of an array: it was cut off; copy or write it again")


def raw_segment(path: str, file: BinaryIO, at: int, count: int) -> Iterator[bytes]:
    """Bytes as they lie."""
    file.seek(at)
    while count:
        piece = file.read(min(PIECE, count))
        if not piece:
            raise cut_off(path)
        count -= len(piece)
        yield piece


def base64_segment(path: str, file: BinaryIO, at: int, count: int) -> Iterator[bytes]:
    """Bytes of a base64 text, whose white space counts for nothing."""
    file.seek(at)
    kept = b""
    while count:
        read = file.read(PIECE)
        text = kept + b"".join(read.split())
        usable = len(text) - len(text) % 4
        if not usable or not read:
            raise cut_off(path)
        needed = (count + 2) // 3 * 4
        usable = min(usable, needed)
        try:
            piece = binascii.a2b_base64(text[:usable], strict_mode=False)[:count]
        except binascii.Error as error:
            raise DataError(f"{path}: its base64 text is damaged ({error}); copy or write it again") from error
        if not piece:
            raise DataError(f"{path}: its base64 text is damaged; copy or write it again")
        kept = text[usable:]
        count -= len(piece)
        yield piece


def base64_length(count: int) -> int:
    """Letters of so many bytes."""
    return (count + 2) // 3 * 4


def after_letters(path: str, file: BinaryIO, at: int, letters: int) -> int:
    """The byte after so many letters of a base64 text, white space passed over."""
    file.seek(at)
    while letters:
        read = file.read(PIECE)
        if not read:
            raise cut_off(path)
        found = len(b"".join(read.split()))
        if found < letters:
            letters -= found
            at += len(read)
            continue
        flags = np.frombuffer(read, np.uint8)
        solid = np.flatnonzero(~np.isin(flags, np.frombuffer(b" \t\r\n", np.uint8)))
        return at + int(solid[letters - 1]) + 1
    return at


def text_numbers(path: str, file: BinaryIO, start: int, end: int, dtype: str) -> Iterator[bytes]:
    """Numbers written as text, as bytes of their type, in pieces."""
    file.seek(start)
    kept = b""
    left = end - start
    while left or kept:
        read = file.read(min(PIECE, left))
        if left and not read:
            raise cut_off(path)
        left -= len(read)
        text = kept + read
        cut = len(text) if not left else max(text.rfind(c) for c in (b" ", b"\n", b"\t", b"\r")) + 1
        kept = text[cut:]
        if len(kept) > 1 << 10:
            raise DataError(f"{path}: a number in it is {len(kept):,} letters long; copy or write it again")
        words = text[:cut].split()
        if words:
            yield numbers_of(path, words, dtype).tobytes()
        if not left and not kept:
            return


def numbers_of(path: str, words: list[bytes], dtype: str) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Words as numbers of a type.

    Raises:
        DataError: if one is none.
    """
    try:
        return _numbers(words, dtype)
    except (ValueError, OverflowError):
        wrong = next((word for word in words if not _is_number(word, dtype)), words[0])
    raise DataError(
        f"{path}: its text holds '{wrong[:40].decode(errors='replace')}', which is no number of {dtype}; write it again"
    )


def _numbers(words: list[bytes], dtype: str) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    if np.dtype(dtype).kind == "f":
        return np.array(words).astype(dtype)
    # One by one: a number beyond its type is an error, and not another number.
    return np.array([int(word) for word in words], dtype=dtype)


def _is_number(word: bytes, dtype: str) -> bool:
    try:
        _numbers([word], dtype)
    except (ValueError, OverflowError):
        return False
    return True
