"""The datasets behind `demo:NAME` and `farfield demo`.

`taper` is the wake of a tapered cylinder in six zones that abut, overlap and cut holes into each other, as in
practice: four quarters of an O-grid around the body, a fine box in the wake, and a coarse box around everything.
Points of the coarse box inside the body are holes; iblank names a finer zone at the same place. `box` is one warped
zone in rigid rotation about z with a steady rise; its streamlines are exact helices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farfield.demo import wake
from farfield.demo.plot3d import Plane, ZonePlan

Array = NDArray[np.float32]

QUARTERS = 4
WAKE_ZONE = 5
"""Number of the fine box behind the body, counted from 1."""
WAKE_BOX = ((0.9, 16.0), (-2.6, 2.6))
"""Extent of the fine box in x and y, in thick diameters; it spans the cylinder."""
FAR_BOX = ((-5.0, 16.0), (-5.0, 5.0))
"""Extent of the coarse box in x and y."""
O_GRID_REACH = 5.0
"""Outer radius of the O-grid, in local radii."""


@dataclass(frozen=True)
class Kind:
    """A generated dataset: its zones at a resolution of 1, 2, ..., and the q header."""

    zones: Callable[[int], list[ZonePlan]]
    header: tuple[float, float, float, float]


def taper_zones(scale: int) -> list[ZonePlan]:
    """The six zones; the number of points grows with the cube of `scale` (1: 0.2 million, 4: 10 million)."""
    return [
        *(_quarter(n, scale) for n in range(QUARTERS)),
        _box(WAKE_BOX, scale, fine=True),
        _box(FAR_BOX, scale, fine=False),
    ]


def _heights(cells: int) -> Array:
    return np.linspace(0.0, wake.SPAN, cells + 1).astype(np.float32)


def _quarter(number: int, scale: int) -> ZonePlan:
    """A quarter of the O-grid: i around the body, j away from it (j = 1 is the wall), k along the span."""
    ni, nj, nk = 12 * scale + 1, 20 * scale + 1, 48 * scale + 1
    angle = np.linspace(0.0, 0.5 * math.pi, ni) + 0.5 * math.pi * number - 0.25 * math.pi
    # Cells at the wall are a twelfth of those at the outer edge.
    t = np.linspace(0.0, 1.0, nj)
    away = np.expm1(2.5 * t) / math.expm1(2.5)
    unit = (1 + (O_GRID_REACH - 1) * away)[:, np.newaxis]
    cosine, sine = np.cos(angle)[np.newaxis, :], np.sin(angle)[np.newaxis, :]
    heights = _heights(nk - 1)
    iblank = np.ones((nj, ni), dtype=np.int32)
    iblank[0, :] = 2

    def plane(k: int) -> Plane:
        z = float(heights[k])
        radius = 0.5 * wake.diameter(z)
        x, y = (radius * unit * cosine).astype(np.float32), (radius * unit * sine).astype(np.float32)
        return _filled(x, y, z, iblank, wall_row=True)

    return ZonePlan((ni, nj, nk), plane)


def _box(sides: tuple[tuple[float, float], tuple[float, float]], scale: int, *, fine: bool) -> ZonePlan:
    ni, nj, nk = (
        (72 * scale + 1, 32 * scale + 1, 48 * scale + 1) if fine else (24 * scale + 1, 16 * scale + 1, 16 * scale + 1)
    )
    x = np.broadcast_to(np.linspace(*sides[0], ni, dtype=np.float32)[np.newaxis, :], (nj, ni))
    y = np.broadcast_to(np.linspace(*sides[1], nj, dtype=np.float32)[:, np.newaxis], (nj, ni))
    heights = _heights(nk - 1)
    plain = np.ones((nj, ni), dtype=np.int32)

    def plane(k: int) -> Plane:
        z = float(heights[k])
        return _filled(x, y, z, plain if fine else _covered(x, y, z), wall_row=False)

    return ZonePlan((ni, nj, nk), plane)


def _covered(x: Array, y: Array, z: float) -> NDArray[np.int32]:
    """Iblank of the coarse box: holes in the body, and the number of a finer zone well inside that zone."""
    radius = 0.5 * wake.diameter(z)
    r = np.hypot(x, y)
    quarter = np.floor((np.arctan2(y, x) + 0.25 * math.pi) / (0.5 * math.pi)).astype(np.int32) % QUARTERS
    iblank = np.ones(x.shape, dtype=np.int32)
    (x0, x1), (y0, y1) = WAKE_BOX
    margin = 0.3
    in_wake = (x > x0 + margin) & (x < x1 - margin) & (y > y0 + margin) & (y < y1 - margin)
    iblank[in_wake] = -WAKE_ZONE
    near = r < 0.85 * O_GRID_REACH * radius
    iblank[near] = -(quarter[near] + 1)
    iblank[r < 1.2 * radius] = 0
    return iblank


def _filled(x: Array, y: Array, z: float, iblank: NDArray[np.int32], *, wall_row: bool) -> Plane:
    u, v, w, core = wake.velocity(x, y, z)
    if wall_row:
        u[0], v[0], w[0] = 0.0, 0.0, 0.0
    density, energy = wake.state(u, v, w, core)
    return Plane((x, y, np.full_like(x, z)), iblank, (density, density * u, density * v, density * w, energy))


def box_zones(scale: int) -> list[ZonePlan]:
    """One warped unit box in rigid rotation; 49 x 41 x 33 points at scale 1."""
    ni, nj, nk = 48 * scale + 1, 40 * scale + 1, 32 * scale + 1
    i = np.linspace(0.0, 1.0, ni)[np.newaxis, :]
    j = np.linspace(0.0, 1.0, nj)[:, np.newaxis]
    warp = 0.12

    def plane(n: int) -> Plane:
        k = n / (nk - 1)
        x = (i + warp * np.sin(3 * j) * i * (1 - i)).astype(np.float32)
        y = (j + warp * np.sin(2 * k + i) * j * (1 - j)).astype(np.float32)
        z = (k + warp * np.cos(2 * i) * k * (1 - k) + 0 * j).astype(np.float32)
        density = np.full_like(x, 1.2)
        u, v, w = 0.5 - y, x - 0.5, np.full_like(x, 0.1)
        energy = 0.8 / 0.4 + 0.5 * density * (u * u + v * v + w * w)
        return Plane(
            (x, y, z), np.ones(x.shape, dtype=np.int32), (density, density * u, density * v, density * w, energy)
        )

    return [ZonePlan((ni, nj, nk), plane)]


KINDS = {
    "taper": Kind(taper_zones, (wake.MACH, 0.0, 150.0, 0.0)),
    "box": Kind(box_zones, (0.5, 0.0, 0.0, 0.0)),
}
