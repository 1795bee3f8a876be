"""Slow exact pictures of a volume from the formulas: the reference for pictures of ray-casters.

All is in double precision, without tables and omissions, and no ray ends before the volume does.

- The ray of a pixel goes through its middle. Samples are at t = (n + 1/2) dt from the eye. They are those between the first and
  the last voxel along each axis. Each covers a step. The first and the
  last step are extended or cut at the ray's entry and exit. A part inside that is too short for a sample has one in its middle.
- A value is interpolated between the eight voxels around it. Opacity and colour of a value are linear between the nodes of the
  transfer function, colours in sRGB.

- A sample of opacity a for a length of one unit has 1 - (1 - a)^(n dt / unit) over n steps. Light is added front to back in linear
  light, over the background, and made sRGB of 8 bits at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield_bench.volumes import Transfer, View

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rays:
    """Rays of some pixels: an eye and directions of length 1."""

    eye: Floats
    directions: Floats
    """(N, 3)"""


def rays(view: View, size: tuple[int, int], pixels: NDArray[np.int64]) -> Rays:
    """Rays of pixels (N, 2), each across and down from the upper left one."""
    eye, target, up = (np.array(v, dtype=np.float64) for v in (view.position, view.target, view.up))
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, up)
    right /= np.linalg.norm(right)
    above = np.cross(right, ahead)
    scale = size[1] / 2 / np.tan(np.radians(view.fov_degrees) / 2)
    a = (pixels[:, 0] + 0.5 - size[0] / 2) / scale
    b = (size[1] / 2 - pixels[:, 1] - 0.5) / scale
    d = a[:, None] * right + b[:, None] * above + ahead
    return Rays(eye, d / np.linalg.norm(d, axis=1)[:, None])


def within(dims: tuple[int, ...], r: Rays) -> tuple[Floats, Floats]:
    """Distances at which each ray enters and leaves the volume of voxel centres. A ray that misses it enters after it
    leaves.
    """
    low, high = np.zeros(len(r.directions)), np.full(len(r.directions), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for a, n in enumerate(dims):
            ends = [(end - r.eye[a]) / r.directions[:, a] for end in (0.0, n - 1.0)]
            parallel = r.directions[:, a] == 0
            inside = 0.0 <= r.eye[a] <= n - 1.0
            first = np.where(parallel, -np.inf if inside else np.inf, np.minimum(*ends))
            last = np.where(parallel, np.inf if inside else -np.inf, np.maximum(*ends))
            low, high = np.maximum(low, first), np.minimum(high, last)
    return low, high


def interpolated(voxels: NDArray[Any], x: Floats) -> Floats:
    """Values (N, ...) of a volume [k, j, i, ...] at places (N, 3) in voxels."""
    top = np.array(voxels.shape[2::-1]) - 2
    cell = np.minimum(np.floor(x).astype(np.int64), top)
    f = x - cell
    value: Any = 0.0
    for corner in range(8):
        step = [corner >> a & 1 for a in range(3)]
        weight = np.prod([f[:, a] if step[a] else 1 - f[:, a] for a in range(3)], axis=0)
        stored = voxels[cell[:, 2] + step[2], cell[:, 1] + step[1], cell[:, 0] + step[0]]
        value = value + weight.reshape(-1, *(1,) * (stored.ndim - 1)) * stored
    return np.asarray(value, dtype=np.float64)


def linear(srgb: Floats) -> Floats:
    """Linear light of sRGB values, 0 to 1 (IEC 61966-2-1)."""
    return np.where(srgb <= 0.04045, srgb / 12.92, ((np.maximum(srgb, 0.04045) + 0.055) / 1.055) ** 2.4)


def srgb8(light: Floats) -> NDArray[np.uint8]:
    """8-bit sRGB of linear light."""
    light = np.clip(light, 0.0, 1.0)
    curve = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 0.0031308) ** (1 / 2.4) - 0.055)
    found: NDArray[np.uint8] = np.rint(255 * curve).astype(np.uint8)
    return found


class Shown:
    """Opacity and light of stored numbers through a transfer function."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer

    def __call__(self, values: Floats) -> tuple[Floats, Floats]:
        """For values (N,): opacities of a unit of length (N,), and linear light of colours (N, 3)."""
        at, opacity = zip(*self._transfer.opacities, strict=True)
        nodes, colours = zip(*self._transfer.colours, strict=True)
        rgb = np.stack([np.interp(values, nodes, [c[n] for c in colours]) for n in range(3)], axis=-1)
        return np.interp(values, at, opacity), linear(rgb)


def picture(
    voxels: NDArray[Any],
    shown: Any,
    view: View,
    size: tuple[int, int],
    pixels: NDArray[np.int64],
    *,
    dt: float = 1.0,
    unit: float = 1.0,
) -> Floats:
    """Light (N, 4) of pixels: red, green and blue, linear, times opacity, and opacity. `shown`: see [`Shown`]."""
    r = rays(view, size, pixels)
    low, high = within(tuple(reversed(voxels.shape[:3])), r)
    first = np.ceil(np.nan_to_num(low / dt, posinf=0.0) - 0.5).astype(np.int64)
    # Samples come before the ray's exit.
    last = np.where(low < high, np.ceil(np.where(np.isfinite(high), high, 0.0) / dt - 0.5).astype(np.int64), first)
    few = (low < high) & (first == last)
    last = np.where(few, first + 1, last)
    light = np.zeros((len(pixels), 4))
    through = np.ones(len(pixels))
    for n in range(int(first.min(initial=0)), int(last.max(initial=0))):
        on = np.flatnonzero((n >= first) & (n < last))
        if len(on) == 0:
            continue
        t = np.where(few[on], (low[on] + high[on]) / 2, (n + 0.5) * dt)
        x = r.eye + r.directions[on] * t[:, None]
        opacity, colour = shown(interpolated(voxels, x))
        steps = 1 + np.where(n == first[on], n - low[on] / dt, 0)
        steps = steps + np.where(n == last[on] - 1, high[on] / dt - last[on], 0)
        steps = np.where(few[on], (high[on] - low[on]) / dt, steps)
        a = 1 - (1 - opacity) ** (steps * dt / unit)
        part = through[on] * a
        light[on, :3] += part[:, None] * colour
        light[on, 3] += part
        through[on] *= 1 - a
    return light


def every(size: tuple[int, int], step: int) -> NDArray[np.int64]:
    """Pixels of every `step`th row and column, (N, 2)."""
    x, y = np.meshgrid(np.arange(step // 2, size[0], step), np.arange(step // 2, size[1], step))
    return np.stack([x.reshape(-1), y.reshape(-1)], axis=-1)


def largest_difference(picture8: NDArray[np.uint8], light: Floats, pixels: NDArray[np.int64]) -> int:
    """Largest difference of a picture [row, column, rgb] over black from the light of some of its pixels, in 255ths."""
    ours = picture8[pixels[:, 1], pixels[:, 0], :3].astype(np.int64)
    return int(np.abs(ours - srgb8(light[:, :3]).astype(np.int64)).max(initial=0))
