"""Conversion of numbers that are not paged in place: parts of complex numbers, and floating-point labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import PIECE, converted
from farfield.volume.formats.description import Array, contiguous
from farfield.volume.formats.files import head
from farfield.volume.formats.options import ReaderResources

COMPONENTS = ("magnitude", "real", "imag", "phase")
"""Parts of complex numbers; the first is the default."""
REAL = {"complex64": "float32", "complex128": "float64"}
"""Types of complex numbers, and of their parts."""
WHY = "holds complex numbers"


@dataclass
class _Choice:
    name: str | None = None
    taken: bool = False


_CHOICE: ContextVar[_Choice] = ContextVar("farfield_component")


@contextmanager
def choosing(name: str | None) -> Iterator[Callable[[], bool]]:
    """Sets the part of complex numbers for readers in this context. The result tells whether a reader has found some."""
    choice = _Choice(name)
    token = _CHOICE.set(choice)
    try:
        yield lambda: choice.taken
    finally:
        _CHOICE.reset(token)


def chosen(guessed: list[str]) -> str:
    """The requested part of complex numbers; a default goes into `guessed`."""
    choice = _CHOICE.get(_Choice())
    choice.taken = True
    if choice.name is not None:
        return choice.name
    said = f"its numbers are complex: {COMPONENTS[0]}s are shown; --component real, imag or phase shows another part"
    if said not in guessed:
        guessed.append(said)
    return COMPONENTS[0]


class Parted:
    """An array of complex numbers that reads as one of their parts."""

    def __init__(self, stored: Any, name: str) -> None:
        self._stored, self._name = stored, name
        self.chunks = stored.chunks

    def __getitem__(self, place: Any) -> NDArray[np.floating]:
        return component(self._stored[place], self._name)


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
    resources: ReaderResources,
    guessed: list[str],
) -> None:
    """Replaces an array of complex numbers, which must be contiguous, by one of their parts in the cache.

    Raises:
        DataError: if the numbers cannot be read.
    """
    part = chosen(guessed)
    place = array.place["contiguous"]
    file, offset = str(place["file"]), int(place["offset"])
    stored = np.dtype(dtype).newbyteorder(">" if array.big_endian else "<")
    made_of = REAL[dtype]
    count = int(np.prod(array.shape))

    def pieces() -> Iterator[bytes]:
        for raw in _pieces(file, offset, count * stored.itemsize):
            values = np.frombuffer(raw, stored).astype(dtype)
            if scale != (1.0, 0.0):
                values = values * scale[0] + scale[1]
            yield component(values, part).astype(np.dtype(made_of).newbyteorder("<")).tobytes()

    array.dtype, array.big_endian = made_of, False
    how = f"{part} of {dtype} times {scale[0]!r} plus {scale[1]!r} from {offset}"
    made = converted(source, resources, count=array.bytes, why=WHY, how=how, pieces=pieces, files=[source, file])
    array.place = contiguous(made.path, 0)


def whole(source: str, array: Array, resources: ReaderResources, guessed: list[str]) -> bool:
    """Whether floating-point numbers are labels, as their file declares; if so, replaces the array by integers in the
    cache.

    Raises:
        DataError: if the first samples are integers, but later numbers are not.
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
        resources,
        count=array.bytes,
        why="has labels as floating-point numbers",
        how=how,
        pieces=pieces,
        files=[source, file],
    )
    array.place = contiguous(made.path, 0)
    return True


_LOOK = 64 << 10
"""Bytes of each sample at the beginning, in the middle and at the end."""


def _pieces(file: str, offset: int, count: int) -> Iterator[bytes]:
    done = 0
    while done < count:
        raw = head(file, min(PIECE, count - done), offset + done)
        if not raw:
            return
        yield raw
        done += len(raw)
