"""Where the points of VTK files are, in few numbers: whether two files are the same region or parts beside one another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import AccessError, DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import identity
from farfield.volume.formats.files import head
from farfield.volume.formats.vtk.arrays import Reader
from farfield.volume.formats.vtk.multiblock import blocks_of, is_multiblock, unread
from farfield.volume.formats.vtk.outline import Outline, dims_of, encoding_of, extent_of
from farfield.volume.formats.vtk.parallel import whole_outline
from farfield.volume.formats.vtk.pieces import coordinates_of, image_placed, parts_of, reader_of

_ALIKE = 0.02
"""Regions of as many points are the same where they differ by less, in parts of their size."""
_SAME_BOX, _NEARLY = 0.5, 0.9
"""So much of the boxes of one region is common to both; more where they have other numbers of points."""
_GRIDS = ("StructuredGrid", "RectilinearGrid", "ImageData")


@dataclass(frozen=True)
class Spread:
    """Where points are."""

    dims: tuple[tuple[int, int, int], ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


@dataclass
class _Sums:
    count: int = 0
    low: Any = math.inf
    high: Any = -math.inf
    total: Any = 0.0
    squares: Any = 0.0

    def add(self, points: NDArray[Any]) -> None:
        """Some more points, [number, xyz]."""
        values = points.astype(np.float64)
        self.count += len(values)
        self.low = np.minimum(self.low, values.min(axis=0))
        self.high = np.maximum(self.high, values.max(axis=0))
        self.total = self.total + values.sum(axis=0)
        self.squares = self.squares + (values**2).sum(axis=0)

    def spread(self, dims: list[tuple[int, int, int]]) -> Spread:
        mean = self.total / self.count
        return Spread(
            tuple(dims), self.low, self.high, mean, np.sqrt(np.maximum(self.squares / self.count - mean**2, 0))
        )


def is_one_region(one: str, other: str) -> bool:
    """Whether two files are of the same region, so that one stands for the other. Parts that touch are not, nor is a body's grid
    in that around it. Reads all points of both, once. What is no grid is taken to be of the same.
    """
    a, b = _spread_of(one, _identity(one)), _spread_of(other, _identity(other))
    if a is None or b is None:
        return True
    sizes = np.maximum(a.high, b.high) - np.minimum(a.low, b.low)
    common = np.minimum(a.high, b.high) - np.maximum(a.low, b.low)
    if (common < 0).any():
        return False
    # In a plane that both lie in nothing is apart.
    share = math.prod(float(c / s) for c, s in zip(common, sizes, strict=True) if s > 0)
    if a.dims != b.dims:
        return share >= _NEARLY
    slack = _ALIKE * float(np.linalg.norm(sizes))
    near = all(
        np.abs(p - q).max() <= slack
        for p, q in ((a.low, b.low), (a.high, b.high), (a.mean, b.mean), (a.deviation, b.deviation))
    )
    return share >= _SAME_BOX and near


def outset(path: str) -> tuple[Any, ...] | None:
    """How many points a file has along its axes, and where the first one is, which costs little; None of what is no grid."""
    return _outset(path, _identity(path))


def _identity(path: str) -> str:
    try:
        return identity(path)
    except DataError:
        return ""


@lru_cache(maxsize=4096)
def _outset(path: str, _of: str) -> tuple[Any, ...] | None:
    try:
        for dims, points in _points_of(path):
            return dims, tuple(float(v) for v in points[0])
    except AccessError:
        raise
    except (OSError, DataError):  # whoever reads it says what is wrong
        return None
    return None


@lru_cache(maxsize=4096)
def _spread_of(path: str, _of: str) -> Spread | None:
    sums, dims = _Sums(), []
    try:
        for size, points in _points_of(path):
            if size is not None:
                dims.append(size)
            sums.add(points)
    except AccessError:
        raise
    except (OSError, DataError):  # whoever reads it says what is wrong
        return None
    return sums.spread(dims) if sums.count else None


def _points_of(path: str) -> Iterator[tuple[tuple[int, int, int] | None, NDArray[Any]]]:
    """Points of a grid, or of each block that a file lists, some at a time, with the size of each grid at its first ones."""
    if is_multiblock(head(path, 4096)):
        for block in blocks_of(path):
            if unread(block.file) is None:
                yield from _points_of(block.file)
        return
    with places.open_binary(path) as file:
        length = places.getsize(path)
        found = whole_outline(path, file, length)
        if found.kind not in _GRIDS or not found.pieces:
            return
        whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
        size: tuple[int, int, int] | None = dims_of(whole, cells=False)
        reader = Reader(path, file, length, encoding_of(found))
        for points in _of_kind(found, reader, whole):
            yield size, points
            size = None


def _of_kind(found: Outline, reader: Reader, whole: list[int]) -> Iterator[NDArray[Any]]:
    if found.kind == "RectilinearGrid":
        # Of lines the places are those of their ends and their middles: enough to tell grids apart.
        lines = coordinates_of(found, reader, whole)
        rows = max(len(line) for line in lines)
        yield np.stack(
            [np.interp(np.linspace(0, 1, rows), np.linspace(0, 1, len(line)), line) for line in lines], axis=1
        )
        return
    if found.kind == "ImageData":
        origin, spacing, direction = image_placed(found)
        corners = np.stack(np.meshgrid(*(whole[2 * n : 2 * n + 2] for n in range(3)), indexing="ij"), axis=-1)
        yield corners.reshape(-1, 3) * np.array(spacing) @ np.array(direction).T + np.array(origin)
        return
    name = found.pieces[0].arrays["Points"][0].name if found.pieces[0].arrays.get("Points") else ""
    for piece, array in parts_of(found, "Points", name):
        count = math.prod(dims_of(piece.extent, cells=False)) * 3 * np.dtype(array.dtype).itemsize
        with reader_of(piece, reader) as of:
            big = of.big_endian and array.format != "ascii"
            dtype = np.dtype(array.dtype).newbyteorder(">" if big else "<")
            kept = bytearray()
            for part in of.pieces(array, count):
                kept += part
                usable = len(kept) // (3 * dtype.itemsize) * 3 * dtype.itemsize
                if usable:
                    yield np.frombuffer(bytes(kept[:usable]), dtype).reshape(-1, 3)
                    del kept[:usable]
