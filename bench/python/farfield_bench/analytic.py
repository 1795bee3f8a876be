"""Unsteady analytic flows, their samples on disk, and the ends of their particles."""

from __future__ import annotations

import abc
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from farfield.demo.plot3d import Plane, ZonePlan, write
from farfield_bench.data import Array

Point = tuple[float, float, float]
Velocity = Callable[[Array, float], Array]


class Field(abc.ABC):
    """A flow in a box, from time 0 on."""

    low: Point
    high: Point
    until: float
    flat = False
    """Whether it is the same at all heights; it is then sampled at two of them."""

    @abc.abstractmethod
    def at(self, x: Array, time: float) -> Array:
        """The velocity at points (..., 3)."""

    def grid(self, x: Array, time: float) -> Array:
        """Positions (..., 3) of the points of a moving grid that have the place `x` in the box."""
        edges = np.subtract(self.high, self.low)
        r = (x - self.low) / edges
        bump = np.sin(np.pi * r).prod(axis=-1)
        turn = 2 * np.pi * time / self.until
        away = [np.sin(turn + shift) for shift in (0.0, 2.0, 4.0)]
        moved: Array = x + 0.05 * edges * bump[..., None] * away
        return moved

    def seeds(self, count: int) -> Array:
        """Points near the middle, (N, 3)."""
        random = np.random.default_rng(3)
        return random.uniform(-0.12, 0.12, (count, 3)) * np.subtract(self.high, self.low) + self.middle

    @property
    def middle(self) -> Array:
        """Of the box."""
        return 0.5 * np.add(self.low, self.high)


class Beltrami(Field):
    """The flow of Arnold, Beltrami and Childress, with amplitudes that vary in time."""

    low, high, until = (-np.pi,) * 3, (np.pi,) * 3, 1.7

    def at(self, x: Array, time: float) -> Array:
        """As `Field.at`."""
        a = 1.0 + 0.5 * np.sin(4.0 * time)
        b = 0.8 + 0.4 * np.cos(3.0 * time)
        c = 0.6 + 0.3 * np.sin(2.0 * time + 1.0)
        u, v, w = np.moveaxis(x, -1, 0)
        parts = [
            a * np.sin(w) + c * np.cos(v),
            b * np.sin(u) + a * np.cos(w),
            c * np.sin(v) + b * np.cos(u),
        ]
        return 0.7 * np.stack(parts, axis=-1)


class Gyre(Field):
    """The double gyre of Shadden, Lekien and Marsden (2005), period 2 here, without a third dimension."""

    low, high, until = (0.0, 0.0, 0.0), (2.0, 1.0, 0.1), 1.7
    flat = True

    def at(self, x: Array, time: float) -> Array:
        """As `Field.at`."""
        amplitude, sway = 0.3, 0.25 * np.sin(np.pi * time)
        u, v = x[..., 0], x[..., 1]
        f = sway * u**2 + (1 - 2 * sway) * u
        slope = 2 * sway * u + 1 - 2 * sway
        parts = [
            -np.pi * amplitude * np.sin(np.pi * f) * np.cos(np.pi * v),
            np.pi * amplitude * np.cos(np.pi * f) * np.sin(np.pi * v) * slope,
            0.0 * u,
        ]
        return np.stack(parts, axis=-1)


class Affine(Field):
    """A swirl and a stretching that are linear in space and in time, so that interpolation is exact."""

    low, high, until = (-2.0,) * 3, (2.0,) * 3, 1.0

    def at(self, x: Array, time: float) -> Array:
        """As `Field.at`."""
        turn, stretch = 2.0 + 1.5 * time, 0.8 - 1.2 * time
        return np.stack([-turn * x[..., 1], turn * x[..., 0], stretch * x[..., 2]], axis=-1)

    def exact(self, x: Array) -> Array:
        """Ends of particles that start at `x` at time 0: the matrices of all times commute."""
        t = self.until
        angle, stretch = 2.0 * t + 0.75 * t**2, 0.8 * t - 0.6 * t**2
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([c * x[:, 0] - s * x[:, 1], s * x[:, 0] + c * x[:, 1], np.exp(stretch) * x[:, 2]], axis=-1)


ABC = Beltrami()
GYRE = Gyre()


def follow(velocity: Velocity, seeds: Array, until: float, steps: int) -> Array:
    """Ends of particles, by the classical fourth-order method in double precision."""
    x, h = np.array(seeds, dtype=np.float64), until / steps
    for n in range(steps):
        time = n * h
        a = velocity(x, time)
        b = velocity(x + 0.5 * h * a, time + 0.5 * h)
        c = velocity(x + 0.5 * h * b, time + 0.5 * h)
        d = velocity(x + h * c, time + h)
        x = x + h / 6 * (a + 2 * b + 2 * c + d)
    return x


def between(flow: Field, times: Array) -> Velocity:
    """The flow that is linear in time between its values at some times."""

    def at(x: Array, time: float) -> Array:
        n = int(np.clip(np.searchsorted(times, time, side="right") - 1, 0, len(times) - 2))
        share = (time - times[n]) / (times[n + 1] - times[n])
        mixed: Array = (1 - share) * flow.at(x, times[n]) + share * flow.at(x, times[n + 1])
        return mixed

    return at


def sampled(flow: Field, cells: int) -> Velocity:
    """The flow that is trilinear within the cells of a grid between its values at the grid's points."""
    low, spacing = np.array(flow.low), np.subtract(flow.high, flow.low) / _cells(flow, cells)

    def at(x: Array, time: float) -> Array:
        cell = np.floor((x - low) / spacing)
        share = (x - low) / spacing - cell
        total = np.zeros_like(x)
        for corner in itertools.product((0, 1), repeat=3):
            weight = np.where(corner, share, 1 - share).prod(axis=-1, keepdims=True)
            total += weight * flow.at(low + (cell + corner) * spacing, time)
        return total

    return at


def _cells(flow: Field, cells: int) -> tuple[int, int, int]:
    """Points along the edges of the box; the first edge has twice as many if the flow is flat."""
    return (2 * cells, cells, 1) if flow.flat else (cells, cells, cells)


def write_series(
    folder: Path,
    flow: Field,
    cells: int,
    times: Array,
    *,
    precision: int = 32,
    curved: bool = False,
    moving: bool = False,
) -> str:
    """Samples of a flow at the points of a grid and at some times as PLOT3D, made once. Returns their source string.
    `curved`: on the grid of `Field.grid` at a quarter of the time; `moving`: on its grid at each step.

    Raises:
        DataError: if the files cannot be written.
    """
    ni, nj, nk = (n + 1 for n in _cells(flow, cells))
    x, y, z = (np.linspace(a, b, n) for a, b, n in zip(flow.low, flow.high, (ni, nj, nk), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"

    def step(time: float) -> ZonePlan:
        def plane(k: int) -> Plane:
            at = np.stack(np.broadcast_arrays(x[None, :], y[:, None], z[k]), axis=-1)
            if moving or curved:
                at = flow.grid(at, time if moving else 0.25 * flow.until)
            v = flow.at(at, time)
            one = np.ones(v.shape[:2])
            return Plane([*np.moveaxis(at, -1, 0)], None, [one, *np.moveaxis(v, -1, 0), 3 * one])

        return ZonePlan((ni, nj, nk), plane)

    grid = folder / "flow.xyz"
    if not done.exists():
        for n, time in enumerate(times):
            q = folder / f"flow_{n:04d}.q"
            header = (0.5, 0.0, 1e6, float(time))
            write(q.with_suffix(".xyz") if moving else grid, q, [step(float(time))], header=header, precision=precision)
        done.touch()
    first = f"{folder}/flow_*.xyz" if moving else os.fspath(grid)
    return f"{first}+q={folder}/flow_*.q"
