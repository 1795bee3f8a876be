"""Numbers that are not paged as they are stored: parts of complex numbers, and labels that are floating-point numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.conversion import PIECE, converted
from farfield.volume.description import Array, contiguous
from farfield.volume.files import head
from farfield.volume.options import Means

COMPONENTS = ("magnitude", "real", "imag", "phase")
"""Of complex numbers, the first where nobody says which."""


def component(numbers: NDArray[np.complexfloating], name: str) -> NDArray[np.floating]:
    """A part of complex numbers; phases are in radians, from -pi to pi.

    >>> [float(component(np.array([3 - 4j]), name)[0]) for name in ("magnitude", "real", "imag")]
    [5.0, 3.0, -4.0]
    """
    if name == "magnitude":
        return np.asarray(np.abs(numbers))
    if name == "phase":
        return np.asarray(np.angle(numbers))
    return np.asarray(numbers.real if name == "real" else numbers.imag)


def take(
    source: str,
    array: Array,
    dtype: str,
    scale: tuple[float, float],
    name: str | None,
    means: Means,
    guessed: list[str],
) -> None:
    """Makes an array of complex numbers, which lie one after the other, one of a part of their values, in the cache.

    Raises:
        DataError: if they cannot be read.
    """
    chosen = name or COMPONENTS[0]
    if name is None:
        guessed.append(
            f"its numbers are complex: {chosen}s are shown; --component real, imag or phase shows another part"
        )
    place = array.place["contiguous"]
    file, offset = str(place["file"]), int(place["offset"])
    stored = np.dtype(dtype).newbyteorder(">" if array.big_endian else "<")
    made_of = "float32" if dtype == "complex64" else "float64"
    count = int(np.prod(array.shape))

    def pieces() -> Iterator[bytes]:
        for raw in _pieces(file, offset, count * stored.itemsize):
            values = np.frombuffer(raw, stored).astype(dtype)
            if scale != (1.0, 0.0):
                values = values * scale[0] + scale[1]
            yield component(values, chosen).astype(np.dtype(made_of).newbyteorder("<")).tobytes()

    array.dtype, array.big_endian = made_of, False
    how = f"{chosen} of {dtype} times {scale[0]!r} plus {scale[1]!r} from {offset}"
    made = converted(
        source, means, count=array.bytes, why="holds complex numbers", how=how, pieces=pieces, files=[source, file]
    )
    array.place = contiguous(made.path, 0)


def whole(source: str, array: Array, means: Means, guessed: list[str]) -> bool:
    """Whether floating-point numbers are labels, as their file says: then the array becomes one of whole numbers, in the cache.

    Raises:
        DataError: if some are whole and others, further on, are not.
    """
    place = array.place["contiguous"]
    file, offset = str(place["file"]), int(place["offset"])
    stored = np.dtype(array.dtype).newbyteorder(">" if array.big_endian else "<")
    count = array.bytes // stored.itemsize

    def are_whole(raw: bytes) -> bool:
        values = np.frombuffer(raw, stored)
        return bool((np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2**31)).all())

    some = [at // stored.itemsize * stored.itemsize for at in (0, array.bytes // 2, max(0, array.bytes - _LOOK))]
    if not all(are_whole(head(file, min(_LOOK, array.bytes - at), offset + at)) for at in some):
        guessed.append("it says that its numbers are labels, and some are no whole numbers: they are taken as values")
        return False

    def pieces() -> Iterator[bytes]:
        for raw in _pieces(file, offset, count * stored.itemsize):
            if not are_whole(raw):
                raise DataError(
                    f"{source}: it says that its numbers are labels, and some are not whole; --kind scalar takes them as values"
                )
            yield np.frombuffer(raw, stored).astype("<i4").tobytes()

    array.dtype, array.big_endian = "int32", False
    how = f"whole numbers of {stored.str} from {offset}"
    made = converted(
        source,
        means,
        count=array.bytes,
        why="has labels as floating-point numbers",
        how=how,
        pieces=pieces,
        files=[source, file],
    )
    array.place = contiguous(made.path, 0)
    return True


_LOOK = 64 << 10
"""Bytes at the beginning, in the middle and at the end by which it is told what numbers are."""


def _pieces(file: str, offset: int, count: int) -> Iterator[bytes]:
    done = 0
    while done < count:
        raw = head(file, min(PIECE, count - done), offset + done)
        if not raw:
            return
        yield raw
        done += len(raw)
