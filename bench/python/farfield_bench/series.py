"""Unsteady data of the experiments: a series of solutions on a warped grid, made step by step."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from farfield.demo.plot3d import Plane, ZonePlan, write
from farfield.errors import DataError
from farfield.runtime.sizes import format_bytes
from farfield_bench.data import GAMMA, HEADER, Array, Dims, Span, box, cut, warped

SPAN = 10.0
"""Span of a series, from its first time to its last."""
FASTEST = 0.4 * 3**0.5
"""Upper bound of the speed of `swaying`."""


@dataclass(frozen=True)
class Series:
    """A grid and its solutions on disk."""

    grid: Path
    steps: tuple[Path, ...]
    dims: Dims
    """Points of all zones together, as if they were one."""
    span: float = SPAN
    """Time from the first step to the last."""
    grids: tuple[Path, ...] = ()
    """The grid of each step, the first included, if it moves."""

    @property
    def source(self) -> str:
        """Source string for the command line."""
        folder = self.grid.parent
        return f"{folder}/flow_*.xyz+q={folder}/flow_*.q" if self.grids else f"{self.grid}+q={folder}/flow_*.q"

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return [*(self.grids or [self.grid]), *self.steps]

    @property
    def times(self) -> Array:
        """Time of each step, as in its file: the shortest decimal of a single-precision number."""
        return np.array([float(str(t)) for t in np.linspace(0.0, self.span, len(self.steps)).astype("f4")])

    def longest(self, cells: float) -> float:
        """Time in which no particle passes more than so many cells."""
        return longest_step(self.dims, cells)


def swaying(x: Sequence[Array], time: float, edges: tuple[float, float, float]) -> list[Array]:
    """An oscillating flow that stays in a box: each component is 0 on the two faces that it would cross."""
    u, v, w = (np.pi * a / edge for a, edge in zip(x, edges, strict=True))
    return [
        0.25 * np.sin(u) * (np.cos(v + 0.9 * time) + 0.6 * np.cos(2 * w - 0.5 * time)),
        0.25 * np.sin(v) * (np.cos(w - 0.7 * time) + 0.6 * np.sin(2 * u + 0.4 * time)),
        0.25 * np.sin(w) * (np.sin(u + 0.8 * time) + 0.6 * np.cos(2 * v + 0.6 * time)),
    ]


Kind = Literal["warped", "uniform", "moving"]
"""Kinds of grids: warped, uniform, and warped with moving inner points."""


def make(
    work: Path, dims: Dims, steps: int, *, kind: Kind = "warped", cuts: Dims = (1, 1, 1), span: float = SPAN
) -> Series:
    """A series of so many steps, made once; in one zone, or cut in several that share the points of their faces.

    Raises:
        DataError: if the files cannot be written.
    """
    words = ["swaying", "x".join(map(str, dims)), str(steps), kind * (kind != "warped")]
    words += [f"{np.prod(cuts)}zones" * (cuts != (1, 1, 1)), f"span{span:.4g}" * (span != SPAN)]
    folder = work / "-".join(word for word in words if word)
    grids = tuple(folder / f"flow_{n:04d}.xyz" for n in range(steps)) if kind == "moving" else ()
    grid = grids[0] if grids else folder / "flow.xyz"
    series = Series(grid, tuple(folder / f"flow_{n:04d}.q" for n in range(steps)), dims, span, grids)
    missing = [n for n, path in enumerate(series.steps) if not path.exists()]
    todo = missing if all(path.exists() for path in grids or [grid]) else range(steps)
    if todo:
        print(f"farfield: making {folder}", file=sys.stderr, flush=True)
    for n in todo:
        _step(series, n, kind, cuts)
    if todo:
        print(
            f"farfield: made {format_bytes(sum(p.stat().st_size for p in series.paths))}", file=sys.stderr, flush=True
        )
    return series


def longest_step(dims: Dims, cells: float) -> float:
    """Time in which no particle of the swaying flow passes more than so many cells of a grid."""
    return cells * (2.0 / (min(dims) - 1)) / FASTEST


def even(dims: Dims, k: int) -> list[Array]:
    """Coordinates of plane `k` of a uniform grid that fills the box."""
    x, y, z = (edge * np.arange(n) / (n - 1) for n, edge in zip(dims, box(dims), strict=True))
    return [np.broadcast_to(v, (dims[1], dims[0])) for v in (x[None, :], y[:, None], z[k : k + 1, None])]


def swung(x: Sequence[Array], share: float, edges: tuple[float, float, float]) -> list[Array]:
    """A grid's points at a share of a series' span. Inner points oscillate once, by up to a fortieth of the box's
    height; those on its faces stay.
    """
    u, v, w = (np.sin(np.pi * a / edge) for a, edge in zip(x, edges, strict=True))
    way = 0.025 * min(edges) * u * v * w
    return [a + way * np.sin(2 * np.pi * share + phase) for a, phase in zip(x, (0.0, 2.0, 4.0), strict=True)]


def _step(series: Series, n: int, kind: Kind, cuts: Dims) -> None:
    time = float(series.times[n])
    edges = box(series.dims)

    def plane(k: int) -> Plane:
        x = even(series.dims, k) if kind == "uniform" else warped(series.dims, k, slice(None), slice(None))
        if kind == "moving":
            x = swung(x, time / series.span, edges)
        v = swaying(x, time, edges)
        density = 1.0 + 0.1 * np.sin(x[0] + time) * np.cos(x[1])
        energy = 1 / GAMMA / (GAMMA - 1) + 0.5 * density * sum(c * c for c in v)
        return Plane(x, None, [density, *(density * c for c in v), energy])

    spans = [cut(points, pieces) for points, pieces in zip(series.dims, cuts, strict=True)]
    zones = [_part(plane, i, j, k) for k in spans[2] for j in spans[1] for i in spans[0]]
    grid = series.grids[n] if series.grids else series.grid
    header = (*HEADER[:3], time)
    parts = [p.with_suffix(p.suffix + ".part") for p in (grid, series.steps[n])]
    try:
        grid.parent.mkdir(parents=True, exist_ok=True)
        write(parts[0], parts[1], zones, header=header, precision=32)
        for part, path in zip(parts, (grid, series.steps[n]), strict=True):
            os.replace(part, path)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{error.filename or grid}: cannot write the data: {error.strerror}") from error


def _part(plane: Callable[[int], Plane], i: Span, j: Span, k: Span) -> ZonePlan:
    """The zone of some points along each axis."""

    def cut_out(level: int) -> Plane:
        whole = plane(k[0] + level)
        x, q = ([a[j[0] : j[1], i[0] : i[1]] for a in arrays] for arrays in (whole.xyz, whole.q))
        return Plane(x, None, q)

    return ZonePlan((i[1] - i[0], j[1] - j[0], k[1] - k[0]), cut_out)


def cloud(dims: Dims, count: int, *, radius: float = 0.25, seed: int = 1) -> Array:
    """Points even in a ball in the middle of the box; its radius is in box heights. (N, 3)."""
    edges = np.array(box(dims))
    random = np.random.default_rng(seed)
    away = random.normal(size=(count, 3))
    away *= (random.uniform(size=count) ** (1 / 3) / np.linalg.norm(away, axis=1))[:, None]
    points: Array = 0.5 * edges + radius * edges.min() * away
    return points
