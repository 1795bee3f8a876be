"""Contents of the volumes of the experiments: a trunk of ellipsoids with texture and noise, and a foam."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Dims = tuple[int, int, int]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Triple = tuple[float, float, float]

AIR, LUNG, FROZEN_LUNG, FAT, MUSCLE, CONTRAST = 6.0, 24.0, 128.0, 58.0, 84.0, 246.0
"""Values of tissues. A lung is transparent to X-rays, and as visible as other parts in a photograph."""
NOISE, MOST_NOISE = 2.5, 9.0
"""Standard deviation of the noise, and the largest of it."""
TABLE = 1 << 22
"""Count of random numbers. Each plane takes its noise from another place in them."""
SOFT = 2.0
"""Voxels of the transition between tissues."""
FOAM_PERIOD = 1024 / 33
"""Voxels between bubbles: slightly less than 32, so that every box of 32 has the middle of one."""


@dataclass(frozen=True)
class Ellipsoid:
    """A part of the trunk. Lengths are shares of half the volume along each axis, which reaches from -1 to 1."""

    centre: Triple
    radii: Triple
    value: float
    wall: float | None = None
    """Half the thickness of a hollow part, as a share of its radii."""
    bars: float = 0.0
    """Number of bars along z that remain of the wall of a hollow part, as ribs; 0: the whole wall."""


def _trunk(phase: float, lung: float) -> list[Ellipsoid]:
    """Parts, later ones over earlier ones. `phase`: of a beat, 0 to 1; `lung`: the value of lungs."""
    beat = 1.0 + 0.12 * np.sin(2 * np.pi * phase)
    breath = 1.0 + 0.05 * np.cos(2 * np.pi * phase)
    lungs = [
        Ellipsoid((side * 0.36, 0.02, 0.36), (0.26 * breath, 0.38 * breath, 0.46 * breath), lung)
        for side in (-1.0, 1.0)
    ]
    heart = Ellipsoid((0.1, -0.14, 0.22), (0.2 * beat, 0.2 * beat, 0.22 * beat), 112.0)
    spine = [Ellipsoid((0.0, 0.4, z), (0.1, 0.13, 0.055), 200.0) for z in np.arange(-0.93, 0.95, 0.124)]
    marrow = [replace(v, radii=(0.06, 0.08, 0.034), value=140.0) for v in spine]
    return [
        *lungs,
        Ellipsoid((0.0, 0.03, 0.34), (0.7, 0.5, 0.66), 154.0, wall=0.03, bars=9.0),  # ribs
        heart,
        replace(heart, radii=(0.1 * beat, 0.11 * beat, 0.13 * beat), value=132.0),
        Ellipsoid((-0.3, -0.05, -0.3), (0.34, 0.33, 0.24), 104.0),  # liver
        Ellipsoid((0.4, 0.12, -0.26), (0.15, 0.16, 0.18), 108.0),  # spleen
        *(Ellipsoid((side * 0.3, 0.3, -0.42), (0.1, 0.1, 0.17), 118.0) for side in (-1.0, 1.0)),  # kidneys
        *spine,
        *marrow,
        Ellipsoid((0.0, 0.1, -0.78), (0.52, 0.4, 0.2), 152.0, wall=0.08),  # pelvis
        Ellipsoid((0.1, -0.2, -0.62), (0.19, 0.19, 0.19), CONTRAST),  # what the patient has drunk
    ]


class Body:
    """A trunk, plane by plane. `part`: share of its length in the volume, about the middle; `phase`: of its beat;
    `lung`: the value of lungs.
    """

    def __init__(self, dims: Dims, *, part: float = 1.0, phase: float = 0.0, lung: float = LUNG, seed: int = 1) -> None:
        self._dims, self._part = dims, part
        self._x, self._y = (np.linspace(-1, 1, n, dtype=np.float32) for n in dims[:2])
        self._parts = _trunk(phase, lung)
        rng = np.random.default_rng(seed)
        size = max(TABLE, 2 * dims[0] * dims[1])
        self._noise = (NOISE * rng.standard_normal(size, dtype=np.float32)).clip(-MOST_NOISE, MOST_NOISE)
        self._from = rng.integers(0, size - dims[0] * dims[1], dims[2])
        self._colours = palette()

    def plane(self, k: int) -> Bytes:
        """Values of plane k."""
        nx, ny, nz = self._dims
        z = (2.0 * k / max(nz - 1, 1) - 1.0) * self._part
        x, y = self._x, self._y
        wave = np.sin(23.0 * x + 9.0 * z) * 2.5
        value = np.multiply(np.sin(19.0 * y - 7.0 * z)[:, None], wave[None, :])
        value += (MUSCLE + 3.0 * np.sin(61.0 * x + 3.0 * z))[None, :]
        for one in self._parts:
            self._paint(value, one, z)
        # Cross-sections are ellipses that grow wider towards the shoulders and the hips.
        a = 0.86 + 0.06 * np.cos(3.0 * z)
        b = 0.66 + 0.04 * np.cos(4.0 * z + 0.5)
        within = np.add((y / b).astype(np.float32)[:, None] ** 2, (x / a).astype(np.float32)[None, :] ** 2)
        within -= 1.0
        within *= -0.25 * b * ny / SOFT  # voxels from the skin, inwards, over the softness
        inner = (within - 0.02 * ny / SOFT).clip(0.0, 1.0)
        value -= FAT
        value *= inner
        value += FAT - AIR
        value *= within.clip(0.0, 1.0)
        value += AIR
        begin = int(self._from[k])
        value += self._noise[begin : begin + nx * ny].reshape(ny, nx)
        np.clip(value, 0.0, 255.0, out=value)
        found: Bytes = value.astype(np.uint8)
        return found

    def coloured(self, k: int) -> Bytes:
        """Colours of plane k."""
        found: Bytes = self._colours[self.plane(k)]
        return found

    def _paint(self, value: Floats, one: Ellipsoid, z: float) -> None:
        """Draws the cut of plane z through a part over the earlier parts."""
        w = ((z - one.centre[2]) / one.radii[2]) ** 2
        margin = 1.0 + 2.0 * (one.wall or 0.0) + 0.02
        if w >= margin**2:
            return
        across = np.sqrt(margin**2 - w)
        i, j = (
            slice(*np.searchsorted(axis, (c - r * across, c + r * across)))
            for axis, c, r in ((self._x, one.centre[0], one.radii[0]), (self._y, one.centre[1], one.radii[1]))
        )
        rows = (((self._y[j] - one.centre[1]) / one.radii[1]) ** 2 + (w - 1.0)).astype(np.float32)
        columns = (((self._x[i] - one.centre[0]) / one.radii[0]) ** 2).astype(np.float32)
        # Twice the distance from its surface as a share of its radii, near the surface.
        share = rows[:, None] + columns[None, :]
        voxels = 0.5 * min(r * n / 2 for r, n in zip(one.radii[:2], self._dims[:2], strict=True)) / SOFT
        if one.wall is None:
            share *= -voxels
            share += 0.5
        else:
            np.abs(share, out=share)
            share -= 2.0 * one.wall
            share *= -voxels
            share += 0.5
        np.clip(share, 0.0, 1.0, out=share)
        if one.bars:
            # Ribs slope down to the front.
            fall = z * one.bars + 1.2 * (self._y[j] - one.centre[1])
            share *= (0.5 + 6.0 * (np.sin(2 * np.pi * fall) + 0.1)).clip(0.0, 1.0).astype(np.float32)[:, None]
        part = value[j, i]
        share *= np.subtract(np.float32(one.value), part)
        part += share


def palette() -> Bytes:
    """Colours of the body's values: blue for the medium around the frozen body, then fat, muscle, organs, bone."""
    nodes = {
        0: (34, 58, 120), 30: (40, 70, 138), 34: (96, 70, 70), 50: (214, 176, 110), 66: (206, 160, 96), 76: (132, 44, 40),
        96: (150, 52, 46), 112: (110, 36, 38), 130: (176, 80, 70), 150: (196, 140, 110), 168: (228, 214, 186),
        200: (240, 232, 212), 255: (250, 248, 240),
    }  # fmt: skip
    at = np.arange(256)
    rows = [np.interp(at, list(nodes), [colour[c] for colour in nodes.values()]) for c in range(3)]
    found: Bytes = np.rint(np.stack(rows, axis=-1)).astype(np.uint8)
    return found


class Foam:
    """Bubbles at the coincidence of three waves, plane by plane."""

    def __init__(self, dims: Dims) -> None:
        self._waves = [np.cos(2 * np.pi * np.arange(n) / FOAM_PERIOD).astype(np.float32) for n in dims]
        self._slow = [np.sin(2 * np.pi * 1.7 * np.arange(n) / max(dims)).astype(np.float32) for n in dims]

    def plane(self, k: int) -> Bytes:
        """Values of plane k: highest in the middle of bubbles."""
        (x, y, z), (u, v, w) = self._waves, self._slow
        value = np.add(y[:, None], x[None, :])
        value += z[k] + 3.0
        value *= 1 / 6
        # Steep in bubbles, so that 8 bits resolve them.
        value *= 255 * value * value
        # A share of a bubble's contrast, which varies through the volume.
        value += np.multiply(v[:, None], u[None, :]) * (2.5 * w[k])
        value += 0.5
        np.clip(value, 0.0, 255.0, out=value)
        found: Bytes = value.astype(np.uint8)
        return found
