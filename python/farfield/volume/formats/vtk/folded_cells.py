"""Cells of curvilinear grids that are turned inside out, where points go back and forth: counted once, when a grid is converted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.cache_conversion import PIECE, converted
from farfield.volume.formats.options import Means

_FLAT = 1e-6
"""Cells whose volume is less, in parts of what their edges could have, have none."""
_ROUNDED = 64
"""Edges of fewer roundings of their coordinates go anywhere."""


def folds_of(
    source: str,
    grid: str,
    zones: Sequence[tuple[int, tuple[int, ...]] | None],
    names: Sequence[str],
    item: int,
    files: Sequence[str],
    means: Means,
) -> list[str]:
    """What is to be said of zones some of whose cells are turned, and others not.

    Args:
        source: What the grid was made of.
        grid: The converted file.
        zones: Where the coordinates of each zone begin there, and its points along the axes; None of zones that are not looked at.
        names: What zones are called; empty: by their numbers.
        item: Bytes of a coordinate.
        files: All files that it was made of.
        means: Where the cache is.

    Raises:
        DataError: if the disk is full.
    """

    def counted() -> Iterator[bytes]:
        with open(grid, "rb") as file:
            found = [None if zone is None else _turned(file, *zone, item) for zone in zones]
        yield json.dumps(found).encode()

    kept = converted(
        source, replace(means, say=None, progress=None), count=None, why="is a curvilinear grid", how=f"folds {item} {zones}",
        pieces=counted, files=files, suffix=".json",
    )  # fmt: skip
    with open(kept.path, "rb") as file:
        found = json.load(file)
    said = []
    for n, about in enumerate(found):
        if about is None or not about["turned"]:
            continue
        name = names[n] if names else f"zone{n + 1}"
        one, first = about["turned"] == 1, ", ".join(map(str, about["first"]))
        said.append(
            f"Of the {about['cells']:,} cells of {name} {about['turned']:,} {'is' if one else 'are'} turned inside out against the "
            f"others, the first at {first}: the grid is folded there, and a place may lie in several cells."
        )
    return said


def _turned(file: BinaryIO, start: int, dims: tuple[int, ...], item: int) -> dict[str, Any]:
    """How many cells have a volume of the sign that fewer have, and the first of them, counted from 1."""
    count = [0, 0]
    first: list[Any] = [None, None]
    for (k, j), edges in _edges(file, start, dims, item):
        volume = _determinant(edges)
        signs = [volume < 0, volume > 0]
        # Where all are alike none is in doubt.
        if not (signs[0].all() or signs[1].all()):
            sure = _is_sure(volume, edges, item)
            signs = [sign & sure for sign in signs]
        for n, sign in enumerate(signs):
            if here := int(np.count_nonzero(sign)):
                count[n] += here
                row, i = divmod(int(np.argmax(sign)), sign.shape[1])
                place = (k + 1, j + row + 1, i + 1)
                first[n] = place if first[n] is None else min(first[n], place)
    fewer = int(np.argmin(count))
    at = first[fewer]
    return {
        "cells": int(np.prod([n - 1 for n in dims])),
        "turned": count[fewer],
        "first": None if at is None else list(at[::-1][: len(dims)]),
    }


class _Edges(NamedTuple):
    """Mean edges of cells along each axis, [xyz, row, i], and the largest of their coordinates."""

    along: list[NDArray[np.float64]]
    largest: float


def _edges(file: BinaryIO, start: int, dims: tuple[int, ...], item: int) -> Iterator[tuple[tuple[int, int], _Edges]]:
    """Plane and first row of some rows of cells, and their edges."""
    nx, ny = dims[:2]
    axes, nodes = len(dims), int(np.prod(dims))
    rows = max(1, PIECE // (nx * 8 * axes * 4))
    for j in range(0, ny - 1, rows):
        count = min(rows, ny - 1 - j) + 1
        before: tuple[Any, ...] | None = None
        for k in range(dims[2] if axes == 3 else 1):
            points = np.empty((axes, count, nx))
            for n in range(axes):
                file.seek(start + (n * nodes + (k * ny + j) * nx) * item)
                points[n] = np.fromfile(file, f"<f{item}", count * nx).reshape(count, nx)
            # Twice the mean of two; what is common to all edges of a cell changes no sign.
            across, up = points[:, :-1] + points[:, 1:], points[..., :-1] + points[..., 1:]
            plane = (np.diff(across, axis=2), np.diff(up, axis=1), across[..., :-1] + across[..., 1:])
            largest = float(np.fmax.reduce(np.abs(points), axis=None))
            if axes == 2:
                yield (k, j), _Edges([edge / 2 for edge in plane[:2]], largest)
            elif before is not None:
                along = [(before[0] + plane[0]) / 4, (before[1] + plane[1]) / 4, (plane[2] - before[2]) / 4]
                yield (k - 1, j), _Edges(along, max(largest, before[3]))
            before = (*plane, largest)


def _determinant(edges: _Edges) -> NDArray[np.float64]:
    a, b = edges.along[:2]
    if len(edges.along) == 2:
        return np.asarray(a[0] * b[1] - a[1] * b[0])
    c = edges.along[2]
    return np.asarray(
        c[0] * (a[1] * b[2] - a[2] * b[1]) + c[1] * (a[2] * b[0] - a[0] * b[2]) + c[2] * (a[0] * b[1] - a[1] * b[0])
    )


def _is_sure(volume: NDArray[np.float64], edges: _Edges, item: int) -> NDArray[np.bool_]:
    """Where the sign of a volume says something: not of a cell that has none, nor of edges that are what their coordinates are
    rounded to."""
    lengths = [np.sqrt((edge**2).sum(axis=0)) for edge in edges.along]
    least = _ROUNDED * float(np.finfo(f"f{item}").eps) * edges.largest
    whole = np.prod(lengths, axis=0)
    return np.asarray((np.minimum.reduce(lengths) > least) & (np.abs(volume) > _FLAT * whole))
