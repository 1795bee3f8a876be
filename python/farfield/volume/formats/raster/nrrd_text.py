"""Numbers of NRRD files in text, in decimal or hexadecimal digits."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from decimal import Decimal

import numpy as np

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.files import unreadable

NAMES = {"ascii": "ascii", "txt": "ascii", "text": "ascii", "hex": "hex"}
"""Names of encodings in headers, and here."""
_MOST_DIGITS = 20
"""Number of digits of the largest number of 64 bits."""
_LONGEST_WORD = 512
"""Largest number of characters of a number."""


def numbers_of(path: str, encoding: str, dtype: str, *, start: int, skip: int, count: int) -> Iterator[bytes]:
    """At most `count` bytes of a file's numbers from byte `start`, in pieces, after the first `skip` bytes of numbers.
    Hexadecimal numbers are in the file's byte order, decimal ones little-endian.

    Raises:
        DataError: if the text contains anything else.
    """
    kept = b""
    left = count
    try:
        with places.open_binary(path) as file:
            file.seek(start + skip)
            while left > 0:
                piece = file.read(PIECE)
                text, kept = _whole(path, kept + piece, encoding, last=not piece)
                made = _unhex(path, text) if encoding == "hex" else _numbers(path, text, dtype)
                yield made[:left]
                left -= len(made)
                if not piece:
                    return
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _whole(path: str, text: bytes, encoding: str, *, last: bool) -> tuple[bytes, bytes]:
    """The complete words of a text, and the rest for its next piece."""
    if encoding == "hex":
        digits = b"".join(text.split())
        even = len(digits) // 2 * 2
        return digits[:even], digits[even:]
    if last:
        return text, b""
    at = max(text.rfind(blank) for blank in (b" ", b"\n", b"\t", b","))
    if len(text) - at > _LONGEST_WORD:
        raise DataError(f"{path}: a word of its numbers has more than {_LONGEST_WORD} characters; the file is damaged")
    return text[: at + 1], text[at + 1 :]


def _unhex(path: str, digits: bytes) -> bytes:
    try:
        return binascii.unhexlify(digits)
    except binascii.Error as error:
        raise DataError(f"{path}: its numbers are not hexadecimal digits ({error}); copy or write it again") from error


def _numbers(path: str, text: bytes, dtype: str) -> bytes:
    words = text.replace(b",", b" ").split()
    kind = np.dtype(dtype)
    try:
        found = [float(w) for w in words] if kind.kind == "f" else [_integer(w) for w in words]
        return np.array(found, kind.newbyteorder("<")).tobytes()
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise DataError(
            f"{path}: its numbers are not all of {dtype} ({str(error)[:120]}); copy or write it again"
        ) from error


def _integer(word: bytes) -> int:
    """An integer, also in pynrrd's form for 64 bits: 1.5e+01 is 15."""
    try:
        return int(word)
    except ValueError:
        exact = Decimal(word.decode("latin-1"))
        if not exact.is_finite() or exact.adjusted() > _MOST_DIGITS or exact != exact.to_integral_value():
            raise
        return int(exact)
