"""Correctness of lines."""

from __future__ import annotations

import numpy as np

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

TOLERANCE = 1e-6
LENGTH = 2.0
LISTED = 20


@experiment("right", "Right: against VTK, and one zone against eight")
def measure(recorder: Recorder) -> None:
    """The 256 x 256 x 128 flow, 1,000 random seeds, lines of at most two units (128 cells), tolerance 1e-6. A line
    agrees with VTK's from the same seed if all points are within 10 x tolerance x length of VTK's curve. Only the part
    before either ends counts, since their stopping rules differ. VTK runs with an error of 1e-9 and steps of at most a
    twentieth of a cell, and once more with its defaults. The same grid cut in eight zones must give the same lines
    within the same bound. Tests of the Rust crates check orders of convergence.
    """
    quick = recorder.quick
    dims = common.SMALL if quick else (256, 256, 128)
    count = 100 if quick else 1000
    common.cache(recorder)
    one = data.single(recorder.work, dims)
    eight = data.single(recorder.work, dims, cuts=(2, 2, 2))
    seeds = (recorder.work / f"right-{count}.npy").resolve()
    np.save(seeds, data.random_seeds(dims, count))
    lines = {}
    for name, flow in (("one zone", one), ("eight zones", eight)):
        output = recorder.work / f"right-{name.replace(' ', '-')}.npz"
        options = [
            "--tolerance",
            str(TOLERANCE),
            "--max-length",
            str(LENGTH),
            "--max-steps",
            "100000",
            "--scalars",
            "velocity",
        ]
        run = common.trace(common.store(recorder, flow), seeds, output, limit=common.PLENTY, options=options)
        recorder.run(f"Farfield, {name}", wall_s=run.wall_s, points=run.json()["points"])
        lines[name] = common.Lines.load(output)
    settings = {
        "VTK, error 1e-9, steps to 0.05 cells": {"error": 1e-9, "most_step": 0.05, "least_step": 1e-6},
        "VTK, its defaults": {},
    }
    saved = {name: recorder.work / f"right-vtk-{n}.npz" for n, name in enumerate(settings)}
    command = arms.peer(
        "vtk_in_core",
        grid=str(one.grid),
        q=str(one.q),
        dims=list(dims),
        seeds=str(seeds),
        max_length=LENGTH,
        max_steps=1_000_000,
        settings=[{**s, "save": str(saved[name])} for name, s in settings.items()],
    )
    for row, name in zip(arms.run(command, timeout_s=3600).json()["settings"], settings, strict=True):
        recorder.run(name, wall_s=row["runs"][0]["wall_s"], points=row["runs"][0]["points"])
    table: list[list[str | float | int]] = []
    outliers: list[list[str | float | int]] = []
    for name, path in saved.items():
        share = _compare(name, lines["one zone"], common.Lines.load(path), table, outliers)
        if name == next(iter(saved)):
            claim = f"lines within 10 x tolerance x length of {name}"
            recorder.claim(claim, 100 * share, ">=", 95, unit="%", right=True)
    share = _compare("eight zones", lines["one zone"], lines["eight zones"], table, outliers)
    claim = "lines within 10 x tolerance x length of the same grid in eight zones"
    recorder.claim(claim, 100 * share, ">=", 95, unit="%", right=True)
    recorder.table(
        "Distance of Farfield's points (one zone) from the curves of others",
        ["from", "lines", "median", "95 %", "most", "within bound, %"],
        table,
    )
    recorder.table(f"Outliers (the first {LISTED} of each)", ["from", "seed", "distance", "bound"], outliers)
    recorder.note("VTK lists no lines for seeds that it locates outside; only seeds traced by both are compared.")


def _compare(
    name: str,
    ours: common.Lines,
    other: common.Lines,
    table: list[list[str | float | int]],
    outliers: list[list[str | float | int]],
) -> float:
    """The share of lines within their bound."""
    found = common.deviations(ours, other)
    bound = 10 * TOLERANCE * found[:, 2]
    good = found[:, 1] <= bound
    away = found[:, 1]
    share = float(good.mean()) if len(good) else 0.0
    table.append(
        [name, len(found), float(np.median(away)), float(np.percentile(away, 95)), float(away.max()), 100 * share]
    )
    for n in np.flatnonzero(~good)[:LISTED]:
        outliers.append([name, int(found[n, 0]), float(away[n]), float(bound[n])])
    return share
