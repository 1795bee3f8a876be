"""The data of the experiments: made plane by plane, kept in the working folder, the same on every machine.

A flow through a box on a warped grid: a stream along i on which ABC vortices ride, so that lines wander through all of the box
and leave it by every side. As PLOT3D: Fortran records, little-endian, WHOLE, multi-zone.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.demo.plot3d import Plane, ZonePlan, write
from farfield.errors import DataError
from farfield.runtime.sizes import format_bytes

Array = NDArray[Any]
Dims = tuple[int, int, int]
Span = tuple[int, int]
"""Half-open range of points."""
GAMMA = 1.4
HEADER = (0.5, 0.0, 1e6, 0.0)
"""Mach, alpha, Reynolds number, time."""


@dataclass(frozen=True)
class Flow:
    """A dataset on disk."""

    grid: Path
    q: Path
    dims: Dims
    """Points of all zones together, as if they were one."""

    @property
    def source(self) -> str:
        """Source string for the command line."""
        return f"{self.grid}+q={self.q}"

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return [self.grid, self.q]

    @property
    def bytes(self) -> int:
        """Bytes of both files."""
        return sum(p.stat().st_size for p in self.paths)

    @property
    def options(self) -> dict[str, Any]:
        """Options of `arms.inside`."""
        return {"source": str(self.grid), "q": [str(self.q)]}


def box(dims: Dims) -> tuple[float, float, float]:
    """Edges of the box of a grid of so many points: two units high, with nearly cubic cells."""
    edge = 2.0 / (min(dims) - 1)
    a, b, c = ((n - 1) * edge for n in dims)
    return a, b, c


def warped(dims: Dims, k: int, js: slice, is_: slice) -> list[Array]:
    """Coordinates of a part of plane `k` of a warped grid that fills the box."""
    r = (np.arange(dims[0], dtype=np.float64) / (dims[0] - 1))[None, is_]
    s = (np.arange(dims[1], dtype=np.float64) / (dims[1] - 1))[js, None]
    t = k / (dims[2] - 1)
    a, b, c = box(dims)
    x = a * (r + 0.1 * np.sin(3 * s) * r * (1 - r))
    y = b * (s + 0.1 * np.sin(2 * t + r) * s * (1 - s))
    z = c * (t + 0.1 * np.cos(2 * r) * t * (1 - t)) + 0 * s
    return [np.broadcast_to(v, (s.size, r.size)) for v in (x, y, z)]


def vortices(x: Sequence[Array]) -> list[Array]:
    """The stream with its vortices."""
    a, b, c = (3.0 * v for v in x)
    return [
        1.0 + 0.5 * (np.sin(c) + 0.7 * np.cos(b)),
        0.5 * (0.8 * np.sin(a) + np.cos(c)),
        0.5 * (0.7 * np.sin(b) + 0.8 * np.cos(a)),
    ]


def along_i(x: Sequence[Array]) -> list[Array]:
    """A stream nearly along its rows, on which reads of whole rows should win."""
    a, b, c = (3.0 * v for v in x)
    return [1.0 + 0.1 * np.sin(b) * np.cos(c), 0.01 * np.sin(a), 0.01 * np.cos(a) + 0 * b]


def _solution(x: Sequence[Array], flow: Callable[[Sequence[Array]], list[Array]]) -> list[Array]:
    v = flow(x)
    density = 1.0 + 0.1 * np.sin(x[0]) * np.cos(x[1])
    energy = 1 / GAMMA / (GAMMA - 1) + 0.5 * density * sum(c * c for c in v)
    return [density, *(density * c for c in v), energy]


def single(
    work: Path,
    dims: Dims,
    *,
    flow: str = "vortices",
    precision: int = 32,
    cuts: Dims = (1, 1, 1),
) -> Flow:
    """One grid, in one zone or cut in several that share the points of their faces.

    Raises:
        DataError: if the files cannot be written.
    """
    field = {"vortices": vortices, "along-i": along_i}[flow]

    def zone(spans: list[tuple[int, int]]) -> ZonePlan:
        (i0, i1), (j0, j1), (k0, k1) = spans

        def plane(k: int) -> Plane:
            x = warped(dims, k0 + k, slice(j0, j1), slice(i0, i1))
            return Plane(x, None, _solution(x, field))

        return ZonePlan((i1 - i0, j1 - j0, k1 - k0), plane)

    spans = [cut(n, c) for n, c in zip(dims, cuts, strict=True)]
    zones = [zone([i, j, k]) for k in spans[2] for j in spans[1] for i in spans[0]]
    label = "-".join([flow, "x".join(map(str, dims)), *([f"f{precision}"] if precision != 32 else [])])
    if len(zones) > 1:
        label += f"-{len(zones)}zones"
    return _made(work, label, dims, zones, precision)


def cut(points: int, pieces: int) -> list[Span]:
    """Points in so many pieces of nearly equal size. Neighbouring pieces share one point."""
    cells = points - 1
    edges = [round(cells * n / pieces) for n in range(pieces + 1)]
    return [(a, b + 1) for a, b in itertools.pairwise(edges)]


def overset(work: Path, dims: Dims) -> Flow:
    """Two zones: the box with a hole, and a finer, rotated block that covers the hole. iblank marks the ends of each.

    Raises:
        DataError: if the files cannot be written.
    """
    a, b, c = box(dims)
    centre = np.array([a, b, c]) / 2
    half = np.array([a, b, c]) * 0.28
    u, w = np.radians(25.0), np.radians(15.0)
    turn = np.array([[np.cos(u), -np.sin(u), 0], [np.sin(u), np.cos(u), 0], [0, 0, 1]]) @ np.array(
        [[np.cos(w), 0, np.sin(w)], [0, 1, 0], [-np.sin(w), 0, np.cos(w)]]
    )

    def outer(k: int) -> Plane:
        x = warped(dims, k, slice(None), slice(None))
        away = np.stack([v - o for v, o in zip(x, centre, strict=True)], axis=-1) @ turn / half
        depth = np.abs(away).max(axis=-1)
        # The hole is well inside the block; points around it get values from the block.
        blank = np.where(depth < 0.7, 0, np.where(depth < 0.8, -2, 1))
        return Plane(x, blank.astype(np.int32), _solution(x, vortices))

    def inner(k: int) -> Plane:
        r, s = (np.linspace(-1, 1, n) for n in dims[:2])
        t = 2 * k / (dims[2] - 1) - 1
        local = np.stack(np.broadcast_arrays(r[None, :], s[:, None], np.float64(t)), axis=-1) * half
        at = local @ turn.T + centre
        x = [at[..., n] for n in range(3)]
        edge = np.ones((dims[1], dims[0]), dtype=np.int32)
        rim = 2
        edge[:rim], edge[-rim:], edge[:, :rim], edge[:, -rim:] = -1, -1, -1, -1
        if k < rim or k >= dims[2] - rim:
            edge[:] = -1
        return Plane(x, edge, _solution(x, vortices))

    label = "overset-" + "x".join(map(str, dims))
    return _made(work, label, dims, [ZonePlan(dims, outer), ZonePlan(dims, inner)], 32)


def _made(work: Path, label: str, dims: Dims, zones: Sequence[ZonePlan], precision: int) -> Flow:
    flow = Flow(work / f"{label}.xyz", work / f"{label}.q", dims)
    if not all(p.exists() for p in flow.paths):
        print(f"farfield: making {flow.grid}", file=sys.stderr, flush=True)
        parts = [p.with_suffix(p.suffix + ".part") for p in flow.paths]
        try:
            work.mkdir(parents=True, exist_ok=True)
            write(parts[0], parts[1], zones, header=HEADER, precision=precision)
            for part, path in zip(parts, flow.paths, strict=True):
                os.replace(part, path)
        except OSError as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{error.filename or flow.grid}: cannot write the data: {error.strerror}") from error
        print(f"farfield: made {format_bytes(flow.bytes)}", file=sys.stderr, flush=True)
    return flow


def arrays(flow: Flow) -> Iterator[Array]:
    """Coordinates, then density, momentum and energy of a single-zone flow in single precision, each [component, k, j, i],
    mapped."""
    shape = tuple(reversed(flow.dims))
    points = flow.dims[0] * flow.dims[1] * flow.dims[2]
    head = 12 + 20 + 4
    yield np.memmap(flow.grid, "<f4", "r", head, (3, *shape))
    for first, count in ((0, 1), (1, 3), (4, 1)):
        yield np.memmap(flow.q, "<f4", "r", head + 24 + 4 * first * points, (count, *shape))


def random_seeds(dims: Dims, count: int, seed: int = 1) -> Array:
    """Random points well inside the box, (N, 3)."""
    share = np.random.default_rng(seed).uniform(0.1, 0.9, (count, 3))
    seeds: Array = share * np.array(box(dims))
    return seeds


def rake(dims: Dims, count: int, *, shift_cells: float = 0.0) -> str:
    """A line of seeds across the stream near its inlet, in the form of `--seeds`. `shift_cells` moves it along its own
    direction.
    """
    a, b, c = box(dims)
    by = shift_cells * 2.0 / (min(dims) - 1)
    return f"line:{0.1 * a},{0.15 * b + by},{0.5 * c}:{0.1 * a},{0.75 * b + by},{0.5 * c}:{count}"
