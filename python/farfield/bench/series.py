"""Unsteady data of the experiments: a series of solutions on a warped grid, made step by step."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farfield.bench.data import GAMMA, HEADER, Array, Dims, box, warped
from farfield.demo.plot3d import Plane, ZonePlan, write
from farfield.errors import DataError
from farfield.sizes import format_bytes

SPAN = 10.0
"""From the first time of a series to the last."""
FASTEST = 0.4 * 3**0.5
"""No speed of `swaying` is above this."""


@dataclass(frozen=True)
class Series:
    """A grid and its solutions on disk."""

    grid: Path
    steps: tuple[Path, ...]
    dims: Dims

    @property
    def source(self) -> str:
        """As the command line takes it."""
        return f"{self.grid}+q={self.grid.parent}/{self.grid.stem}_*.q"

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return [self.grid, *self.steps]

    @property
    def times(self) -> Array:
        """Time of each step."""
        return np.linspace(0.0, SPAN, len(self.steps))


def swaying(x: Sequence[Array], time: float, edges: tuple[float, float, float]) -> list[Array]:
    """A flow that goes to and fro and nowhere leaves a box: each component is 0 on the two faces that it would cross."""
    u, v, w = (np.pi * a / edge for a, edge in zip(x, edges, strict=True))
    return [
        0.25 * np.sin(u) * (np.cos(v + 0.9 * time) + 0.6 * np.cos(2 * w - 0.5 * time)),
        0.25 * np.sin(v) * (np.cos(w - 0.7 * time) + 0.6 * np.sin(2 * u + 0.4 * time)),
        0.25 * np.sin(w) * (np.sin(u + 0.8 * time) + 0.6 * np.cos(2 * v + 0.6 * time)),
    ]


def make(work: Path, dims: Dims, steps: int, *, uniform: bool = False) -> Series:
    """A series of so many steps, made once; on a warped grid, or on a uniform one.

    Raises:
        DataError: if the files cannot be written.
    """
    label = f"swaying-{'x'.join(map(str, dims))}-{steps}{'-uniform' if uniform else ''}"
    folder = work / label
    series = Series(folder / "flow.xyz", tuple(folder / f"flow_{n:04d}.q" for n in range(steps)), dims)
    todo = [n for n, path in enumerate(series.steps) if not path.exists()]
    if todo or not series.grid.exists():
        print(f"farfield: making {folder}", file=sys.stderr, flush=True)
    for n in todo if series.grid.exists() else range(steps):
        _step(series, n, uniform)
    if todo:
        print(
            f"farfield: made {format_bytes(sum(p.stat().st_size for p in series.paths))}", file=sys.stderr, flush=True
        )
    return series


def even(dims: Dims, k: int) -> list[Array]:
    """Coordinates of plane `k` of a uniform grid that fills the box."""
    x, y, z = (edge * np.arange(n) / (n - 1) for n, edge in zip(dims, box(dims), strict=True))
    return [np.broadcast_to(v, (dims[1], dims[0])) for v in (x[None, :], y[:, None], z[k : k + 1, None])]


def _step(series: Series, n: int, uniform: bool) -> None:
    time = float(series.times[n])
    edges = box(series.dims)

    def plane(k: int) -> Plane:
        x = even(series.dims, k) if uniform else warped(series.dims, k, slice(None), slice(None))
        v = swaying(x, time, edges)
        density = 1.0 + 0.1 * np.sin(x[0] + time) * np.cos(x[1])
        energy = 1 / GAMMA / (GAMMA - 1) + 0.5 * density * sum(c * c for c in v)
        return Plane(x, None, [density, *(density * c for c in v), energy])

    header = (*HEADER[:3], time)
    parts = [p.with_suffix(p.suffix + ".part") for p in (series.grid, series.steps[n])]
    try:
        series.grid.parent.mkdir(parents=True, exist_ok=True)
        write(parts[0], parts[1], [ZonePlan(series.dims, plane)], header=header, precision=32)
        for part, path in zip(parts, (series.grid, series.steps[n]), strict=True):
            os.replace(part, path)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{error.filename or series.grid}: cannot write the data: {error.strerror}") from error


def cloud(dims: Dims, count: int, *, radius: float = 0.25, seed: int = 1) -> Array:
    """Points even in a ball in the middle of the box; its radius is in box heights. (N, 3)."""
    edges = np.array(box(dims))
    random = np.random.default_rng(seed)
    away = random.normal(size=(count, 3))
    away *= (random.uniform(size=count) ** (1 / 3) / np.linalg.norm(away, axis=1))[:, None]
    points: Array = 0.5 * edges + radius * edges.min() * away
    return points
