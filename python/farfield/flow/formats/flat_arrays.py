"""Arrays that no file holds in a form that can be read in part: decoded once into one flat file of the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.flow.formats.description import Stored
from farfield.sources import places
from farfield.volume.formats.cache_conversion import PIECE, converted
from farfield.volume.formats.options import ReaderResources

Tell = Callable[[int], None]
Write = Callable[[BinaryIO, int, Tell], None]
"""Writes an array to a file from a byte on, component by component, and tells bytes that are done."""


@dataclass(frozen=True)
class Slot:
    """An array of the file to be: its place there is known when all are."""

    number: int


@dataclass
class _Kept:
    name: str
    dtype: str
    bytes: int
    write: Write


@dataclass
class FlatArrays:
    """The arrays of one file."""

    kept: list[_Kept] = field(default_factory=list)

    def add(self, name: str, dtype: str, numbers: int, write: Write) -> Slot:
        """An array of so many numbers of all components, little-endian."""
        self.kept.append(_Kept(name, dtype, numbers * np.dtype(dtype).itemsize, write))
        return Slot(len(self.kept) - 1)

    def stored(
        self, source: str, resources: ReaderResources, *, why: str, how: str, files: Sequence[str], instead: str = ""
    ) -> list[Stored]:
        """Where each array is, in the order in which they were added; the file is made now if it is not there.

        Args:
            source: What the user named.
            resources: Where the cache is, and who is told.
            why: Why the source is not read as it is.
            how: What the numbers depend on beside the files, names and types.
            files: All files that they are of.
            instead: What needs no room, where there is such a way.

        Raises:
            DataError: if the source is damaged, or the disk is full.
            Interrupted: if the report function says so.
        """
        if not self.kept:
            return []
        starts: list[int] = [0]
        for each in self.kept:
            # Numbers begin where those of any type may.
            starts.append(-(-(starts[-1] + each.bytes) // 8) * 8)

        def write(file: BinaryIO, tell: Tell) -> None:
            for each, start, following in zip(self.kept, starts, starts[1:], strict=False):
                each.write(file, start, tell)
                tell(following - start - each.bytes)

        parts = [(each.name, each.dtype, each.bytes) for each in self.kept]
        made = converted(
            source,
            resources,
            count=starts[-1],
            why=why,
            how=f"flat arrays {how} {parts}",
            files=files,
            instead=instead,
            write=write,
        )
        return [
            Stored(made.path, ((start, each.bytes),), np.dtype(each.dtype).name)
            for each, start in zip(self.kept, starts, strict=False)
        ]


def write_same(value: float, dtype: str, numbers: int, file: BinaryIO, at: int, tell: Tell) -> None:
    """One number as many."""
    file.seek(at)
    for start in range(0, numbers, PIECE // 8):
        block = np.full(min(PIECE // 8, numbers - start), value, dtype)
        file.write(block.tobytes())
        tell(block.nbytes)


def read_rows(place: Stored, dims: Sequence[int], components: int) -> Callable[[int, int, int], NDArray[Any]]:
    """What gives the numbers of rows, [component, row, i]: those of plane k from row j on, so many.

    Components are one after the other, or those of a point together.
    """
    dtype = np.dtype(place.number).newbyteorder(">" if place.big_endian else "<")
    nx, ny, nz = (*dims, 1)[:3]
    ((start, _),) = place.runs

    def take(k: int, j: int, count: int) -> NDArray[Any]:
        with places.open_binary(place.path) as file:
            if place.point_bytes is not None:
                width = place.point_bytes // dtype.itemsize
                file.seek(start + (k * ny + j) * nx * place.point_bytes)
                found = places.numbers_from(file, dtype, count * nx * width).reshape(count, nx, width)
                return np.moveaxis(found[..., :components], -1, 0)
            rows = []
            for c in range(components):
                file.seek(start + ((c * nz + k) * ny + j) * nx * dtype.itemsize)
                rows.append(places.numbers_from(file, dtype, count * nx).reshape(count, nx))
            return np.stack(rows)

    return take


def are_equal(one: Stored, other: Stored, dims: Sequence[int], components: int, dtype: str) -> bool:
    """Whether two arrays hold the same numbers of a type, to the last bit."""
    if one == other:
        return True
    nx, ny, nz = (*dims, 1)[:3]
    rows = max(1, PIECE // (8 * nx * components))
    takes = [read_rows(place, dims, components) for place in (one, other)]

    def pieces(take: Callable[[int, int, int], NDArray[Any]]) -> Iterator[bytes]:
        for k in range(nz):
            for j in range(0, ny, rows):
                yield take(k, j, min(rows, ny - j)).astype(dtype).tobytes()

    return all(a == b for a, b in zip(*map(pieces, takes), strict=True))
