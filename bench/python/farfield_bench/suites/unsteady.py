"""Particles in time against analytic flows: orders of accuracy, moving grids, VTK's tracer, a vortex street."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import farfield
from farfield.errors import DataError
from farfield_bench import arms, common, street
from farfield_bench.analytic import ABC, GYRE, Affine, Field, Velocity, between, follow, sampled, write_series
from farfield_bench.data import Array
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

Rows = list[list[str | float | int]]


@experiment("unsteady", "Right in time: pathlines against analytic flows, VTK and a vortex street")
def measure(recorder: Recorder) -> None:
    """Ends of pathlines against integrations of the flow's formula by RK4 in double precision, with 4,000 steps (500 in
    quick runs). Errors are root mean squares over 100 particles; orders are slopes of their logarithms. Grid: the
    reference is linear in time between the same few time steps, and the grid is refined. Time steps: the reference is
    trilinear between the points of the same grid, and time steps are refined. Both: the reference is the formula, and
    both are refined together. Flows: an unsteady ABC flow, and a double gyre that is the same at all heights. The
    integrators: a flow that interpolation gives exactly. A uniform flow on a rotating grid: straight lines. VTK's
    particle path filter on the same data, with the same steps. The tapered cylinder: shedding frequencies along the
    span, by fits of one sinusoid. They come from velocities at points of its wake and from particles released there.
    """
    common.cache(recorder)
    orders: Rows = []
    for name, flow in (("ABC flow", ABC), ("double gyre", GYRE)):
        _orders(recorder, name, flow, orders)
    recorder.table(
        "Error of ends as the sampling is refined", ["flow", "refined", "coarse", "", "fine", "order"], orders
    )
    _integrators(recorder)
    _rotating(recorder)
    _beside_vtk(recorder)
    _cylinder(recorder)


def _ends(source: str, seeds: Array, **how: Any) -> Array:
    """Positions of Farfield's particles at the last time.

    Raises:
        DataError: if one does not come to it; the flows here keep them all.
    """
    with farfield.open(source, progress=False) as ds:
        lines = ds.pathlines(seeds=seeds, max_steps=None, progress=False, **how)
    lost = int((lines.reason != "time").sum())
    if lost:
        raise DataError(f"{source}: {lost} particles do not come to the last time")
    ends: Array = lines.points[lines.offsets[1:] - 1]
    return ends


def _rms(away: Array) -> float:
    return float(np.sqrt((away**2).sum(axis=1).mean()))


def _slope(errors: Sequence[float], factor: float = 2.0) -> float:
    """Order of errors under a sampling refined by a constant factor."""
    return float(-np.polyfit(np.arange(len(errors)) * np.log(factor), np.log(errors), 1)[0])


def _orders(recorder: Recorder, name: str, flow: Field, table: Rows) -> None:
    n, m = (8, 4) if recorder.quick else (16, 8)
    seeds = flow.seeds(100)
    few, many = np.linspace(0.0, flow.until, 4), 4 * n
    by_refinement: dict[str, tuple[Velocity, list[tuple[int, int]]]] = {
        "grid": (between(flow, few), [(c * n, 3) for c in (1, 2, 4)]),
        "time steps": (sampled(flow, many), [(many, c * m) for c in (1, 2, 4)]),
        "both": (flow.at, [(c * n, c * m) for c in (1, 2, 4)]),
    }
    for refined, (truth, samplings) in by_refinement.items():
        reference = follow(truth, seeds, flow.until, _steps(recorder))
        errors = []
        for cells, steps in samplings:
            path = recorder.work / f"unsteady-{name.replace(' ', '-')}-{cells}-{steps}"
            source = write_series(path, flow, cells, np.linspace(0.0, flow.until, steps + 1))
            errors.append(_rms(_ends(source, seeds, integrator="rk4", time_step=flow.until / 1000) - reference))
        order = _slope(errors)
        table.append([name, refined, *errors, order])
        recorder.claim(f"{name}: order as the sampling is refined, {refined}", order, ">=", 1.8, right=True)


def _steps(recorder: Recorder) -> int:
    """Runge-Kutta steps of the references."""
    return 500 if recorder.quick else 4000


def _integrators(recorder: Recorder) -> None:
    """Steps of 1/8 to 1/64 of the time, in a flow that is linear in space and in time."""
    flow = Affine()
    source = write_series(recorder.work / "unsteady-affine", flow, 8, np.array([0.0, flow.until]), precision=64)
    seeds = flow.seeds(20)
    table: Rows = []
    for integrator, least in (("euler", 0.9), ("rk4", 3.8), ("rk45", 4.8)):
        # A tolerance that refuses no step: only the length of steps is refined.
        ends = [
            _ends(source, seeds, integrator=integrator, time_step=flow.until / n, tolerance=1e3)
            for n in (8, 16, 32, 64)
        ]
        errors = [_rms(e - flow.exact(seeds)) for e in ends]
        order = _slope(errors)
        table.append([integrator, *errors, order])
        recorder.claim(f"order of {integrator} in the length of the step", order, ">=", least, right=True)
    recorder.table("Error of ends as steps get shorter", ["method", "1/8", "1/16", "1/32", "1/64", "order"], table)


def _rotating(recorder: Recorder) -> None:
    """Each step of the grid is a rotated copy. Its points move between steps on straight lines; the flow is uniform."""
    speed = np.array([0.3, 0.2, 0.05])
    steps = 9 if recorder.quick else 33
    times = np.linspace(0.0, 2.0, steps)

    class Uniform(Field):
        low, high, until = (-1.0, -1.0, -1.0), (1.0, 1.0, 1.0), 2.0

        def at(self, x: Array, time: float) -> Array:
            moved: Array = np.zeros_like(x) + speed
            return moved

        def grid(self, x: Array, time: float) -> Array:
            angle = 0.5 * np.pi * time
            c, s = np.cos(angle), np.sin(angle)
            turned: Array = x @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]).T
            return turned

    source = write_series(recorder.work / f"unsteady-rotating-{steps}", Uniform(), 16, times, moving=True)
    seeds = np.random.default_rng(5).uniform(-0.3, 0.1, (50, 3))
    for label, how in (
        ("RK45", {}),
        ("RK4", {"integrator": "rk4", "time_step": 0.01}),
        ("RK45, the grid of a time step holds until the next", {"hold_steps": True}),
    ):
        with farfield.open(source, progress=False) as ds:
            lines = ds.pathlines(seeds=seeds, max_steps=None, progress=False, **how)
        which = np.repeat(np.arange(len(seeds)), np.diff(lines.offsets))
        away = np.linalg.norm(lines.points - seeds[which] - lines.time[:, None] * speed, axis=1)
        recorder.claim(
            f"rotating grid, {label}: particles that did not come to the end",
            int((lines.reason != "time").sum()),
            "==",
            0,
            right=True,
        )
        length = 2.0 * float(np.linalg.norm(speed))
        recorder.claim(
            f"rotating grid, {label}: distance from straight lines over their length",
            float(away.max()) / length,
            "<=",
            1e-6,
            right=True,
        )


def _beside_vtk(recorder: Recorder) -> None:
    """Two Runge-Kutta steps from one time step to the next, as VTK's filter makes them."""
    if not arms.has_vtk():
        recorder.note("Without VTK: it is not installed.")
        return
    seeds_file = recorder.work / "unsteady-vtk.npy"
    flow = ABC
    seeds = flow.seeds(100)
    np.save(seeds_file, seeds)
    table: Rows = []
    truth = follow(flow.at, seeds, flow.until, _steps(recorder))
    n, m = (8, 8) if recorder.quick else (16, 16)
    found: dict[str, list[float]] = {"still": [], "moving": []}
    for kind, differences in found.items():
        for factor in (1, 2):
            cells, steps = factor * n, factor * m
            times = np.linspace(0.0, flow.until, steps + 1)
            folder = recorder.work / f"unsteady-vtk-{kind}-{cells}"
            source = write_series(folder, flow, cells, times, curved=True, moving=kind == "moving")
            ours = _ends(source, seeds, integrator="rk4", time_step=1.0001 * flow.until / steps / 2)
            saved = folder / "ends.npy"
            setting = {"locator": "static cells", "mesh": "static" if kind == "still" else "different", "runs": 1}
            arms.run(
                arms.vtk_particles(
                    grids=[str(p) for p in sorted(folder.glob("*.xyz"))],
                    q=[str(p) for p in sorted(folder.glob("*.q"))],
                    dims=[cells + 1] * 3,
                    times=times.tolist(),
                    seeds=str(seeds_file),
                    settings=[{**setting, "ends": str(saved)}],
                )
            ).json()
            theirs = np.load(saved)
            differences.append(float(np.linalg.norm(ours - theirs, axis=1).max()))
            table.append([kind, cells, steps, differences[-1], _rms(ours - truth), _rms(theirs - truth)])
    recorder.table(
        "Ends beside VTK's",
        ["curvilinear grid", "cells an edge", "time steps", "largest difference", "error of Farfield", "error of VTK"],
        table,
    )
    # One interpolation and the same steps: the rest is single precision, in which VTK stores points, over some hundred
    # steps.
    apart = max(found["still"])
    recorder.claim("grid that stands still: largest difference from VTK's ends", apart, "<=", 1e-5, right=True)
    # VTK interpolates in time at one point of space, Farfield at one point of the cell: both are of second order.
    ratio = found["moving"][0] / found["moving"][1]
    recorder.claim("moving grid: differences from VTK's ends, coarse over fine", ratio, ">=", 3, right=True)


def _cylinder(recorder: Recorder) -> None:
    """The vortex street of a tapered cylinder, if the data are available."""
    folder = os.environ.get("FARFIELD_DATA")
    archive = Path(folder or ".") / "plot3d" / "taper.tar.xz"
    if folder is None or not archive.exists():
        recorder.note("Without the tapered cylinder: FARFIELD_DATA names no folder with plot3d/taper.tar.xz.")
        return
    target = recorder.work / "taper"
    if not (target / "taper" / "taper_059.q").exists():
        with tarfile.open(archive) as files:
            files.extractall(target, filter="data")
    source = f"{target}/taper/taper.xyz+q={target}/taper/taper_*.q"
    stations = street.stations(source, 4 if recorder.quick else 9)
    table: Rows = []
    worst = 0.0
    for s in stations:
        worst = max(worst, abs(s.tracks.frequency - s.probe.frequency))
        table.append([s.z, s.diameter, s.probe.frequency, s.probe.error, s.tracks.frequency, s.tracks.error, s.uniform])
    recorder.table(
        "Shedding frequency along the span",
        ["z", "diameter", "probe", "its error", "tracks", "their error", "of a uniform cylinder"],
        table,
    )
    span = stations[0].span
    recorder.note(
        f"The series is {span:.4g} long, {span * stations[0].probe.frequency:.2g} periods at the thick end: a spectrum would "
        f"resolve frequencies that differ by {1 / span:.2g}, and the bound is a seventh of that. Of a uniform cylinder: Strouhal "
        "number 0.1816 - 3.3265 / Re + 0.00016 Re (Williamson 1988) at the local diameter. Where two cells of shedding meet "
        "the signals beat, and one sinusoid fits them less well: the errors are larger there."
    )
    recorder.claim(
        "tapered cylinder: frequencies from tracks and probes, largest difference",
        worst,
        "<=",
        1 / (7 * span),
        right=True,
    )
    rise = stations[-1].tracks.frequency / stations[0].tracks.frequency
    name = "tapered cylinder: frequency at the thin end over the thick one, from tracks"
    recorder.claim(name, rise, ">=", 1.2, right=True)
