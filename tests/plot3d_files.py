"""PLOT3D files for tests, written independently of the package's own writer."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Block:
    """A zone: coordinates, iblank and five q arrays, all [k, j, i]."""

    xyz: list[Array]
    q: list[Array] = field(default_factory=list)
    iblank: NDArray[np.int32] | None = None

    @property
    def dims(self) -> tuple[int, int, int]:
        nk, nj, ni = self.xyz[0].shape
        return ni, nj, nk


def box(ni: int, nj: int, nk: int, origin: Sequence[float] = (0, 0, 0), size: Sequence[float] = (1, 1, 1)) -> Block:
    """A slightly warped box with rigid rotation about (0.5, 0.5), density 1.2, pressure 0.8 and a rise of 0.1."""
    k, j, i = np.meshgrid(*(np.linspace(0, 1, n) for n in (nk, nj, ni)), indexing="ij")
    x = origin[0] + size[0] * (i + 0.08 * np.sin(3 * j) * i * (1 - i))
    y = origin[1] + size[1] * (j + 0.08 * np.sin(2 * k + i) * j * (1 - j))
    z = origin[2] + size[2] * (k + 0.08 * np.cos(2 * i) * k * (1 - k))
    u, v, w = 0.5 - y, x - 0.5, np.full_like(x, 0.1)
    rho = np.full_like(x, 1.2)
    energy = 0.8 / 0.4 + 0.5 * rho * (u * u + v * v + w * w)
    return Block([x, y, z], [rho, rho * u, rho * v, rho * w, energy])


def cut(whole: Block, parts: int) -> list[Block]:
    """Zones of about as many cells each, cut along i; neighbours share a layer of points, each has a copy."""
    cells = whole.dims[0] - 1
    edges = [cells * n // parts for n in range(parts + 1)]
    spans = [slice(a, b + 1) for a, b in itertools.pairwise(edges)]
    return [Block([c[:, :, n].copy() for c in whole.xyz], [c[:, :, n].copy() for c in whole.q]) for n in spans]


def source_of(grid: Path, solution: Path | str) -> str:
    """Both as one word of the command line."""
    return f"{grid}+q={solution}"


def write(
    folder: Path,
    blocks: Sequence[Block],
    *,
    form: str = "fortran",
    order: str = "<",
    real: int = 8,
    count: bool = True,
    stem: str = "flow",
    time: float = 3.25,
) -> tuple[Path, Path]:
    """Grid and q file."""
    grid, solution = folder / f"{stem}.xyz", folder / f"{stem}.q"
    iblank = blocks[0].iblank is not None
    with grid.open("wb") as g, solution.open("wb") as s:
        for file in (g, s):
            if count:
                _record(file, form, order, real, [np.array([len(blocks)], "i4")])
            _record(file, form, order, real, [np.array([n for b in blocks for n in b.dims], "i4")])
        for b in blocks:
            _record(g, form, order, real, [*b.xyz, *([b.iblank] if iblank and b.iblank is not None else [])])
            _record(s, form, order, real, [np.array([0.5, 2.0, 1e5, time])])
            _record(s, form, order, real, b.q)
    return grid, solution


def _record(file, form, order, real, arrays):  # type: ignore[no-untyped-def]
    body = b"".join(
        a.ravel().astype(f"{order}i4" if a.dtype.kind == "i" else f"{order}f{real}").tobytes() for a in arrays
    )
    mark = struct.pack(order + "i", len(body)) if form == "fortran" else b""
    file.write(mark + body + mark)
