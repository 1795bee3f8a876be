"""In core on one core, beside VTK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LENGTH = 2.0
STEPS = 10_000
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
TIGHTER = 1000.0


@experiment("incore", "In core, one core: streamlines beside VTK")
def measure(recorder: Recorder) -> None:
    """A single curvilinear zone of 256 x 256 x 128 points in single precision, all in memory. Seeds are random, lines
    of at most two units (127 cells). Both sides integrate with RK45 on one core. VTK has its arrays in memory and its
    locator built: the runs after the first count. Error is the largest distance of a line's points from the curve of a
    run of the same program with a 1,000 times tighter tolerance. VTK's default setting (error 1e-6, steps of at most
    half a cell) sets the error to reach. VTK gets the fastest setting that reaches it, from a search over tolerance,
    largest step and kind of locator. Farfield gets its largest tolerance that reaches it.
    """
    quick = recorder.quick
    dims = common.SMALL if quick else (256, 256, 128)
    counts = [100, 300] if quick else [1000, 10_000]
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    seeds = {n: _seeds(recorder.work, dims, n) for n in counts}
    core = common.one_core()

    few = counts[0]
    theirs = _search_vtk(recorder, flow, seeds[few])
    ours = _search_farfield(recorder, store, dims, seeds[few])
    goal = next(s for s in theirs if s["default"])
    reach = [s for s in theirs if s["median"] <= 1.01 * goal["median"] and s["high"] <= 1.01 * goal["high"]]
    best = min(reach, key=lambda s: s["cpu_s"])
    enough = [s for s in ours if s["median"] <= goal["median"] and s["high"] <= goal["high"]]
    if not enough:
        recorder.note("No tolerance of Farfield reached VTK's error; the tightest is used.")
    tolerance = max(enough, key=lambda s: s["tolerance"], default=ours[-1])["tolerance"]
    recorder.table(
        f"Achieved errors, {few:,} seeds",
        ["setting", "median error", "95th percentile", "points", "CPU s (VTK)"],
        [[s["name"], s["median"], s["high"], s["points"], s.get("cpu_s", "")] for s in [*theirs, *ours]],
    )
    recorder.note(f"Chosen: {best['name']}; Farfield tolerance {tolerance:g}.")

    for n in counts:
        options = {**_vtk(flow, seeds[n]), "point_locator": best["point_locator"]}
        setting = {"error": best["error"], "most_step": best["most_step"], "least_step": best["least_step"]}
        found = arms.run(
            arms.peer("vtk_in_core", **options, settings=[{**setting, "runs": recorder.runs}]),
            cores=core,
            timeout_s=3600,
        ).json()
        recorder.version("VTK", found["version"])
        for row in found["settings"][0]["runs"]:
            _record(recorder, f"VTK, {n:,} seeds", row["cpu_s"], row["wall_s"], row["points"])
        spec = {"seeds": str(seeds[n]), "tolerance": tolerance, "max_length": LENGTH, "max_steps": STEPS}
        # The first run brings the pages in.
        traces = [spec] * (recorder.runs + 1)
        digests = set()
        for name, arm, source in (
            ("Farfield, flat arrays", "flat", flow.options),
            ("Farfield, resident pages", "paged", {"source": str(store)}),
        ):
            command = arms.inside(arm=arm, **source, traces=traces, memory_limit=common.PLENTY, workers=1)
            for row in arms.run(command, cores=core).json()["runs"][1:]:
                _record(recorder, f"{name}, {n:,} seeds", row["cpu_s"], row["wall_s"], row["points"])
                digests.add(row["digest"])
        recorder.claim(
            f"{n:,} seeds: different results of flat arrays and pages", len(digests) - 1, "==", 0, right=True
        )
        for name in ("Farfield, flat arrays", "Farfield, resident pages"):
            for quantity, words in (("cpu_s", "CPU time"), ("step_us", "time a step")):
                ratio = recorder.median(f"VTK, {n:,} seeds", quantity) / recorder.median(
                    f"{name}, {n:,} seeds", quantity
                )
                recorder.claim(f"{n:,} seeds, {words}: VTK over {name}", ratio, ">=", 8, unit="times")
    recorder.note("Seeds include their cold location on both sides.")


def _record(recorder: Recorder, arm: str, cpu_s: float, wall_s: float, points: int) -> None:
    recorder.run(arm, cpu_s=cpu_s, wall_s=wall_s, points=points, step_us=1e6 * cpu_s / points)


def _seeds(work: Path, dims: data.Dims, count: int) -> Path:
    path = work / f"seeds-{'x'.join(map(str, dims))}-{count}.npy"
    np.save(path, data.random_seeds(dims, count))
    return path.resolve()


def _vtk(flow: data.Flow, seeds: Path) -> dict[str, Any]:
    return {
        "grid": str(flow.grid),
        "q": str(flow.q),
        "dims": list(flow.dims),
        "seeds": str(seeds),
        "max_length": LENGTH,
        "max_steps": STEPS * 100,
    }


def _errors(path: Path, reference: Path) -> dict[str, float]:
    away = common.deviations(common.Lines.load(path), common.Lines.load(reference))[:, 1]
    return {"median": float(np.median(away)), "high": float(np.percentile(away, 95))}


def _search_vtk(recorder: Recorder, flow: data.Flow, seeds: Path) -> list[dict[str, Any]]:
    tolerances = (1e-5, 1e-6) if recorder.quick else (1e-4, 1e-5, 1e-6, 1e-7)
    settings: list[dict[str, Any]] = []
    for error in tolerances:
        for most in (0.5, 1.0, 2.0):
            settings.append({"error": error, "most_step": most, "least_step": 0.01})
    if not recorder.quick:
        # VTK's cost of a smaller distance from the curve.
        settings.append({"error": 1e-7, "most_step": 0.1, "least_step": 0.001})
    references = {}
    for s in settings:
        key = s["error"] / TIGHTER
        # The reference may step as finely as it likes, and finely enough to be interpolated.
        references[key] = {"error": key, "most_step": 0.05, "least_step": 1e-5}
    found = []
    for point_locator in (False, True):
        asked = []
        for n, s in enumerate([*settings, *references.values()]):
            asked.append({**s, "runs": 2 if n < len(settings) else 1, "save": str(recorder.work / f"vtk-{n}.npz")})
        command = arms.peer("vtk_in_core", **_vtk(flow, seeds), point_locator=point_locator, settings=asked)
        rows = arms.run(command, cores=common.one_core(), timeout_s=3600).json()["settings"]
        saved = dict(zip(references, (a["save"] for a in asked[len(settings) :]), strict=True))
        for s, a, row in zip(settings, asked, rows, strict=False):
            name = f"VTK, error {s['error']:g}, steps to {s['most_step']:g} cells, {'point' if point_locator else 'cell'} locator"
            errors = _errors(Path(a["save"]), Path(saved[s["error"] / TIGHTER]))
            measured = {"cpu_s": min(r["cpu_s"] for r in row["runs"]), "points": row["runs"][0]["points"]}
            default = s["error"] == 1e-6 and s["most_step"] == 0.5 and not point_locator
            found.append({**s, **errors, **measured, "name": name, "point_locator": point_locator, "default": default})
        for a in asked:
            Path(a["save"]).unlink()
    return found


def _search_farfield(recorder: Recorder, store: Path, dims: data.Dims, seeds: Path) -> list[dict[str, Any]]:
    found = []
    path, reference = recorder.work / "lines.npz", recorder.work / "reference.npz"
    points = 0
    for tolerance in TOLERANCES:
        for target, value in ((path, tolerance), (reference, tolerance / TIGHTER)):
            options = ["--tolerance", str(value), "--max-length", str(LENGTH), "--max-steps", str(STEPS * 100)]
            if target == reference:
                options += ["--max-step", str(0.1 * 2.0 / (min(dims) - 1))]  # a tenth of a cell, as VTK's
            run = common.trace(store, seeds, target, limit=common.PLENTY, options=[*options, "--scalars", "velocity"])
            if target == path:
                points = run.json()["points"]
        found.append(
            {
                "tolerance": tolerance,
                "name": f"Farfield, tolerance {tolerance:g}",
                "points": points,
                **_errors(path, reference),
            }
        )
    return found
