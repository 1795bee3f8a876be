"""The vortex street of the tapered cylinder: shedding frequencies along the span, by probes and by particles.

The cylinder is one unit thick at z = 0 and half as thick at z = 16. The stream along x has speed 1. Reynolds
numbers are 150 and 75.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import farfield
from farfield.errors import DataError
from farfield_bench.data import Array

HEIGHT = 16.0
AGE_STEPS = 6
"""Age of particles at their measurement, in time steps: they have then passed less than half a vortex."""


@dataclass(frozen=True)
class Fit:
    """The sinusoid nearest to a signal."""

    frequency: float
    error: float
    """One standard deviation of the frequency, from the residual of the signal."""


@dataclass(frozen=True)
class Station:
    """A place along the span."""

    z: float
    diameter: float
    span: float
    """From the first time to the last."""
    probe: Fit
    tracks: Fit
    uniform: float
    """Frequency of a cylinder of this constant thickness."""


def sinusoid(time: Array, signal: Array, low: float = 0.05, high: float = 0.5) -> Fit:
    """The frequency of the sinusoid that, with a constant, leaves the smallest residual of a signal.

    >>> import numpy as np
    >>> t = np.linspace(0, 15, 60)
    >>> round(sinusoid(t, 2 + np.cos(2 * np.pi * 0.21 * t + 1)).frequency, 4)
    0.21
    """

    def columns(f: float) -> Array:
        turn = 2 * np.pi * f * time
        return np.stack([np.ones_like(time), np.cos(turn), np.sin(turn)], axis=-1)

    def rest(f: float) -> float:
        found, *_ = np.linalg.lstsq(columns(f), signal, rcond=None)
        return float(((signal - columns(f) @ found) ** 2).sum())

    grid = np.linspace(low, high, 226)
    for _ in range(3):
        best = grid[int(np.argmin([rest(f) for f in grid]))]
        step = grid[1] - grid[0]
        grid = np.linspace(best - step, best + step, 41)
    turn = 2 * np.pi * best * time
    found, *_ = np.linalg.lstsq(columns(best), signal, rcond=None)
    slope = 2 * np.pi * time * (found[2] * np.cos(turn) - found[1] * np.sin(turn))
    tangent = np.column_stack([columns(best), slope])
    variance = rest(best) / (len(time) - 4) * np.linalg.inv(tangent.T @ tangent)[3, 3]
    return Fit(float(best), float(np.sqrt(variance)))


def stations(source: str, count: int) -> list[Station]:
    """Frequencies at places along the span, from the thick end to the thin one.

    Probes: the velocity across the stream two and a half diameters behind the axis. Tracks: particles are released two
    diameters behind it at each time step. Their displacement across the stream at a fixed age oscillates with the time
    of release.

    Raises:
        DataError: if a place is in no zone.
    """
    heights = np.linspace(0.05, 0.95, count) * HEIGHT
    diameters = 1 - 0.5 * heights / HEIGHT
    with farfield.open(source, progress=False) as ds:
        times = np.asarray(ds.time_values)
        seeds = np.stack([2.0 * diameters, 0 * heights, heights], axis=-1)
        smoke = ds.streaklines(
            seeds=seeds, release_steps=1, output_times="steps", max_steps=None, integrator="rk45", progress=False
        )
        across = np.array(
            [
                [_velocity(ds.isel(time=n), (2.5 * d, 0.0, z)) for n in range(len(times))]
                for d, z in zip(diameters, heights, strict=True)
            ]
        )
        line = np.repeat(np.arange(len(smoke)), np.diff(smoke.offsets))
        age = AGE_STEPS * (times[1] - times[0])
        chosen = np.abs(smoke["age"] - age) < 1e-6
        found = []
        for s, (z, d) in enumerate(zip(heights, diameters, strict=True)):
            own = chosen & (smoke.seed[line] == s)
            order = np.argsort(smoke["birth"][own])
            tracks = sinusoid(smoke["birth"][own][order], smoke.points[own][order, 1])
            reynolds = 150.0 * d
            strouhal = 0.1816 - 3.3265 / reynolds + 1.6e-4 * reynolds
            probe = sinusoid(times, across[s])
            found.append(Station(float(z), float(d), float(times[-1] - times[0]), probe, tracks, float(strouhal / d)))
    return found


def _velocity(ds: farfield.Dataset, at: tuple[float, float, float]) -> float:
    """Across the stream."""
    found = ds.probe(at, fields=["velocity"])
    if found is None:
        raise DataError(f"the tapered cylinder: {at} lies in no zone")
    return float(found.values["velocity"][1])
