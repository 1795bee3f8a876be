"""Particles in time in core, beside VTK's particle tracer and Parcels' compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from farfield_bench import arms, common, data, series
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

MORE = 10
"""Factor of Farfield's steps in an arm of its own."""
APART = 2
"""Runge-Kutta steps from one time step of the dataset to the next: as many as VTK's tracer makes, independent of the
times.
"""
CELLS = 0.3
"""Longest step of a particle, in cells."""

VTK: dict[series.Kind, list[tuple[str, str]]] = {
    # An image needs no locator.
    "uniform": [("static cells", "static")],
    "warped": [("static cells", "static"), ("jump and walk", "static"), ("points", "static")],
    "moving": [
        ("static cells", "same topology"),
        ("static cells", "different"),
        ("jump and walk", "same topology"),
        ("jump and walk", "different"),
        ("points", "same topology"),
        ("points", "different"),
    ],
}
"""For each kind of grid, kinds of locator and the tracer's setting for changes of the mesh."""

WORDS = {"uniform": "uniform grid", "warped": "curvilinear grid", "moving": "moving grid"}


@experiment("tracers", "Particles in time, in core, one core: beside VTK and Parcels")
def measure(recorder: Recorder) -> None:
    """10,000 particles by RK4 with a fixed step of at most 0.3 cells, seeds at random in the inner part of the box. All
    data are in memory before the clock starts; for all but Farfield, velocities are computed beforehand. Positions are
    stored at the times of the dataset. VTK's particle path filter always makes two steps from one time step to the
    next, so beside it the times are two steps apart. There are 8 of them on a uniform grid of 256 x 256 x 256 points
    (an image for VTK). There are 17 on a curvilinear one of 128 x 128 x 128, static and with swaying points. VTK is
    measured from the first request to the last, seeds and locators included. It has the fastest locator and mesh
    setting that lose no particle. A second tracer, which finds the locators on the datasets, shows their part of the
    time. Farfield's boxes are made in the conversion of the series. It also makes twenty steps where VTK can make two:
    a particle's cost at each time step is most of that of two steps. Parcels' kernel is compiled, and its particles are
    found, before the clock starts. It goes through the series of the plain loop, 8 times some 400 steps apart, on the
    uniform grid, and so does Farfield.
    """
    common.cache(recorder)
    dims = (49, 49, 49) if recorder.quick else (256, 256, 256)
    smaller = (33, 33, 33) if recorder.quick else (128, 128, 128)
    count = 1000 if recorder.quick else 10_000
    table: list[list[str | float | int]] = []
    sizes: list[tuple[series.Kind, data.Dims, int]] = [
        ("uniform", dims, 8),
        ("warped", smaller, 17),
        ("moving", smaller, 17),
    ]
    for kind, size, times in sizes:
        if recorder.quick:
            times = min(times, 5)
        _beside_vtk(recorder, kind, size, times, count, table)
    _beside_parcels(recorder, dims, 4 if recorder.quick else 8, count, table)
    recorder.table(
        "Steps",
        ["arm", "particles", "RK4 steps", "million steps a CPU second", "locators built before"],
        table,
    )


def _beside_vtk(
    recorder: Recorder,
    kind: series.Kind,
    dims: data.Dims,
    times: int,
    count: int,
    table: list[list[str | float | int]],
) -> None:
    cells = CELLS * 2.0 / (min(dims) - 1)
    flow = series.make(recorder.work, dims, times, kind=kind, span=APART * (times - 1) * cells / series.FASTEST)
    seeds = common.seeds_file(recorder, f"tracers-{kind}", data.random_seeds(dims, count))
    # Rounding of the times must not add a third step.
    step = 1.0001 * float(np.diff(flow.times).max()) / APART
    total = APART * (times - 1) * count
    words = WORDS[kind]
    ours, ends = _farfield(recorder, f"Farfield, {words}", flow, seeds, step, total, table)
    settings = [
        {"locator": locator, "mesh": mesh, "runs": recorder.runs, "ends": str(recorder.work / f"tracers-vtk-{n}.npy")}
        for n, (locator, mesh) in enumerate(VTK[kind])
    ]
    found = arms.run(
        arms.vtk_particles(
            **_in_memory(flow, kind),
            times=flow.times.tolist(),
            seeds=seeds,
            settings=settings,
        ),
        cores=common.one_core(),
        takes_bytes=4 * sum(p.stat().st_size for p in flow.paths),
        timeout_s=3600,
    ).json()
    whole = [row for row in found["settings"] if row["lost"] == 0]
    best = min(whole or found["settings"], key=lambda row: float(np.median([r["cpu_s"] for r in row["runs"]])))
    theirs = f"VTK, {words}"
    chosen = best["setting"]
    for row in best["runs"]:
        recorder.run(theirs, **row, step_us=1e6 * row["cpu_s"] / total)
    rate = 1.0 / recorder.median(theirs, "step_us")
    alone = 1e-6 * total / recorder.median(theirs, "located_cpu_s")
    table.append([theirs, count, total, rate, alone])
    tried = [
        f"{row['setting']['locator']}, {row['setting']['mesh']}: "
        + (f"{row['lost']:,} of {count:,} particles lost" if row["lost"] else f"{row['runs'][-1]['cpu_s']:.3g} s")
        for row in found["settings"]
    ]
    recorder.note(
        f"{words.capitalize()}: VTK {found['version']} with a locator of {chosen['locator']}, mesh {chosen['mesh']}. "
        f"CPU seconds of all tried: {'; '.join(tried)}."
    )
    recorder.claim(f"{words}: particles that VTK lost", best["lost"], "==", 0)
    _distance(recorder, words, "VTK's", ends, np.load(chosen["ends"]), APART_ENDS[kind])
    several = 6 if kind == "moving" else 3
    recorder.claim(
        f"{words}: steps a CPU second over VTK's, the same steps", ours / rate, ">=", several if kind == "moving" else 1
    )
    name = f"Farfield, {words}, {MORE * APART} steps"
    more, _ = _farfield(recorder, name, flow, seeds, step / MORE, MORE * total, table)
    recorder.claim(f"{words}: steps a CPU second over VTK's, {MORE * APART} steps", more / rate, ">=", several)
    recorder.claim(f"{words}: the same over VTK's with its locators built before", more / alone, ">=", 3)


APART_ENDS: dict[series.Kind, float] = {"uniform": 1e-6, "warped": 1e-5, "moving": 1e-3}
"""Largest distance of ends from VTK's, in box heights. On one grid both take the same steps through the same field, VTK
in single precision. Between two grids, VTK interpolates a vector at one point of space and Farfield at one point of the
cell. These differ by the square of the grid's displacement.
"""


def _in_memory(flow: series.Series, kind: series.Kind) -> dict[str, Any]:
    """The series as options of peers."""
    even = [edge / (n - 1) for edge, n in zip(data.box(flow.dims), flow.dims, strict=True)]
    return {
        "grids": [str(p) for p in flow.grids or (flow.grid,)],
        "q": [str(p) for p in flow.steps],
        "dims": list(flow.dims),
        **({"spacing": even} if kind == "uniform" else {}),
    }


def _farfield(
    recorder: Recorder,
    name: str,
    flow: series.Series,
    seeds: str,
    step: float,
    total: int,
    table: list[list[str | float | int]],
) -> tuple[float, data.Array]:
    """Million steps a CPU second, pages resident, and the ends of particles."""
    store = common.series_store(recorder, flow)
    spec = {
        "kind": "pathline",
        "direction": "forward",
        "seeds": seeds,
        "integrator": "rk4",
        "time_step": step,
        "max_steps": 100_000_000,
        "points": "steps",
    }
    resources = {"memory_limit": common.PLENTY, "workers": 1, "rounds": recorder.runs + 1, "traces": [spec]}
    arm = arms.inside(arm="pathlines", source=str(store), **resources)
    # The first round reads.
    rows = arms.run(arm, cores=common.one_core(), timeout_s=3600).json()["runs"][1:]
    for row in rows:
        recorder.run(name, cpu_s=row["cpu_s"], wall_s=row["wall_s"], step_us=1e6 * row["cpu_s"] / total)
    rate = 1.0 / recorder.median(name, "step_us")
    count = len(np.load(seeds))
    table.append([name, count, total, rate, ""])
    recorder.claim(
        f"{name}: particles that did not come to the end",
        count - rows[-1]["reasons"].get("time", 0),
        "==",
        0,
        right=True,
    )
    output = recorder.work / "tracers.npz"
    options = ["--kind", "pathline", "--integrator", "rk4", "--time-step", repr(step), "--points", "steps"]
    common.trace(store, seeds, output, limit=common.PLENTY, options=[*options, "--max-steps", "100000000"]).json()
    with np.load(output) as lines:
        ends: data.Array = lines["points"][lines["offsets"][1:] - 1]
    return rate, ends


def _distance(recorder: Recorder, words: str, whose: str, ours: data.Array, theirs: data.Array, bound: float) -> None:
    """Claims that particles end at the same places, in heights of the box."""
    away = np.linalg.norm(ours - theirs, axis=1) / 2.0
    name = f"{words}: largest distance of ends from {whose}, box heights"
    recorder.claim(name, float(np.nanmax(away)), "<=", bound, right=True)


def beside_parcels(
    recorder: Recorder, dims: data.Dims, times: int, count: int, table: list[list[str | float | int]]
) -> tuple[float, int, data.Array] | None:
    """Measures both, if Parcels is installed. Returns steps a CPU second over those of Parcels, the number of particles
    that it lost, and the distance of ends, in box heights.
    """
    why = "it has no environment; `make bench-setup` makes one"
    here = (arms.PARCELS / "bin" / "python").exists()
    if not recorder.condition("Parcels", here, "" if here else why):
        return None
    flow = series.make(recorder.work, dims, times, kind="uniform")
    seeds = common.seeds_file(recorder, "tracers-parcels", data.random_seeds(dims, count))
    longest = flow.longest(CELLS)
    between = int(np.ceil(np.diff(flow.times) / longest - 1e-9).max())
    # Rounded times are not equidistant; the number of steps must be equal everywhere.
    step = 1.0001 * float(np.diff(flow.times).max()) / between
    total = between * (times - 1) * count
    name = "Farfield, uniform grid, many steps"
    ours, ends = _farfield(recorder, name, flow, seeds, step, total, table)
    saved = recorder.work / "tracers-parcels-ends.npy"
    found = arms.run(
        arms.parcels(
            **_in_memory(flow, "uniform"),
            times=flow.times.tolist(),
            steps_between=between,
            seeds=seeds,
            runs=recorder.runs,
            ends=str(saved.resolve()),
        ),
        cores=common.one_core(),
        takes_bytes=4 * sum(p.stat().st_size for p in flow.paths),
        timeout_s=3600,
    ).json()
    theirs = "Parcels, uniform grid, many steps"
    for row in found["runs"]:
        recorder.run(theirs, cpu_s=row["cpu_s"], wall_s=row["wall_s"], step_us=1e6 * row["cpu_s"] / row["steps"])
    rate = 1.0 / recorder.median(theirs, "step_us")
    table.append([theirs, count, found["runs"][-1]["steps"], rate, ""])
    recorder.version("parcels", found["version"])
    away = np.linalg.norm(ends - np.load(saved), axis=1) / 2.0
    return ours / rate, found["left"], away


def _beside_parcels(
    recorder: Recorder, dims: data.Dims, times: int, count: int, table: list[list[str | float | int]]
) -> None:
    found = beside_parcels(recorder, dims, times, count, table)
    if found is None:
        return
    faster, lost, away = found
    recorder.claim("uniform grid, many steps: particles that Parcels lost", lost, "==", 0)
    recorder.claim(
        "uniform grid, many steps: median distance of ends from Parcels', box heights",
        float(np.median(away)),
        "<=",
        1e-4,
        right=True,
    )
    recorder.claim("uniform grid, many steps: steps a CPU second over Parcels'", faster, ">=", 3)
