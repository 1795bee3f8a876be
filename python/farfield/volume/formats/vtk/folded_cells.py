"""Cells of curvilinear grids that are turned inside out, where points go back and forth: counted once, when a grid is converted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.cache_conversion import PIECE, converted
from farfield.volume.formats.options import ReaderResources

_FLAT = 1e-6
"""Cells whose volume is less, in parts of what their edges could have, have none."""
_ROUNDED = 64
"""Edges of fewer roundings of their coordinates go anywhere."""


class Folded(NamedTuple):
    """The positions of a zone that may be folded."""

    rows: Callable[[int, int, int], NDArray[Any]]
    """Positions [xyz, row, i] of plane k from row j on, so many rows."""
    dims: tuple[int, ...]
    """Points along the axes, two of a plane."""


def folds_of(
    source: str,
    zones: Sequence[Folded | None],
    names: Sequence[str],
    dtype: str,
    files: Sequence[str],
    resources: ReaderResources,
) -> list[str]:
    """What is to be said of zones some of whose cells are turned, and others not.

    Args:
        source: What the grid was made of.
        zones: Those of a time step; None for those that are not looked at.
        names: What zones are called; empty: by their numbers.
        dtype: Type of coordinates in the dataset.
        files: All files that it was made of.
        resources: Where the cache is.

    Raises:
        DataError: if the disk is full.
    """

    def counted() -> Iterator[bytes]:
        found = [None if zone is None else _turned(zone, dtype) for zone in zones]
        yield json.dumps(found).encode()

    how = f"folds {dtype} {[zone and zone.dims for zone in zones]}"
    own = replace(resources, say=None, progress=None)
    why = "is a curvilinear grid"
    kept = converted(source, own, count=None, why=why, how=how, pieces=counted, files=files, suffix=".json")
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


def _turned(zone: Folded, dtype: str) -> dict[str, Any]:
    """How many cells have a volume of the sign that fewer have, and the first of them, counted from 1."""
    dims, count = zone.dims, [0, 0]
    first: list[Any] = [None, None]
    for (k, j), edges in _edges(zone):
        volume = _determinant(edges)
        signs = [volume < 0, volume > 0]
        # Where all are alike none is in doubt.
        if not (signs[0].all() or signs[1].all()):
            sure = _is_sure(volume, edges, dtype)
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


def _edges(zone: Folded) -> Iterator[tuple[tuple[int, int], _Edges]]:
    """Plane and first row of some rows of cells, and their edges."""
    dims, axes = zone.dims, len(zone.dims)
    nx, ny = dims[:2]
    rows = max(1, PIECE // (nx * 8 * axes * 4))
    for j in range(0, ny - 1, rows):
        count = min(rows, ny - 1 - j) + 1
        before: tuple[Any, ...] | None = None
        for k in range(dims[2] if axes == 3 else 1):
            points = zone.rows(k, j, count).astype(np.float64)
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


def _is_sure(volume: NDArray[np.float64], edges: _Edges, dtype: str) -> NDArray[np.bool_]:
    """Where the sign of a volume says something: not of a cell that has none, nor of edges that are what their coordinates are
    rounded to."""
    lengths = [np.sqrt((edge**2).sum(axis=0)) for edge in edges.along]
    least = _ROUNDED * float(np.finfo(dtype).eps) * edges.largest
    whole = np.prod(lengths, axis=0)
    return np.asarray((np.minimum.reduce(lengths) > least) & (np.abs(volume) > _FLAT * whole))
