"""Cost of zones: time, and grid pages at a crossing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LENGTH = 4.0


@experiment("zones", "Zones: eight against one, and pages at a crossing")
def measure(recorder: Recorder) -> None:
    """A flow of 256 x 256 x 128 points as one zone and cut in eight that share the points of their faces. Both have the
    same seeds, lines of at most four units (256 cells, two zones), resident pages and one core. Then the grid pages
    (coordinates and iblank) requested by a step in which a particle changes its zone. This is counted for the eight
    abutting zones and for an overset pair: a box with a hole, and a finer, rotated block that covers the hole.
    """
    quick = recorder.quick
    dims = common.SMALL if quick else (256, 256, 128)
    count = 200 if quick else 3000
    common.cache(recorder)
    one = data.single(recorder.work, dims)
    eight = data.single(recorder.work, dims, cuts=(2, 2, 2))
    over = data.overset(recorder.work, (65, 65, 49) if quick else (161, 161, 97))
    stores = {"one zone": common.store(recorder, one), "eight zones": common.store(recorder, eight)}
    seeds = _seeds(recorder.work, dims, count)
    trace = {"seeds": seeds, "max_length": LENGTH, "max_steps": 10_000}
    for _ in range(recorder.runs):
        for name, store in stores.items():
            command = arms.inside(
                arm="paged", source=str(store), traces=[trace] * 4, memory_limit=common.PLENTY, workers=1
            )
            best = min(arms.run(command, cores=common.one_core()).json()["runs"][1:], key=lambda r: r["cpu_s"])
            recorder.run(
                name,
                cpu_s=best["cpu_s"],
                wall_s=best["wall_s"],
                points=best["points"],
                step_us=1e6 * best["cpu_s"] / best["steps"],
            )
    ratio = recorder.median("eight zones", "cpu_s") / recorder.median("one zone", "cpu_s")
    recorder.claim("eight zones over one, CPU time", ratio, "<=", 1.15)

    rows = []
    far = {"seeds": _seeds(recorder.work, over.dims, count), "max_length": LENGTH, "max_steps": 10_000}
    for name, store, spec in (
        ("abutting", stores["eight zones"], trace),
        ("overset", common.store(recorder, over), far),
    ):
        found = _crossings(store, spec)
        pages = np.array(found["coordinates"]) + np.array(found["iblank"])
        if pages.size == 0:
            recorder.note(f"{name}: no line changed its zone.")
            continue
        half, most = float(np.percentile(pages, 50)), float(np.percentile(pages, 99))
        recorder.claim(f"{name}: grid pages at a crossing, median", half, "<=", 4)
        recorder.claim(f"{name}: grid pages at a crossing, 99th percentile", most, "<=", 16)
        rows.append(
            [
                name,
                pages.size,
                half,
                most,
                float(pages.max()),
                float(np.percentile(found["coordinates"], 50)),
                float(np.percentile(found["boxes"], 50)),
                float(np.percentile(found["boxes"], 99)),
            ]
        )
    recorder.table(
        "Grid pages that a step asks for in which a particle changes its zone",
        ["zones", "crossings", "median", "99 %", "most", "coordinates only, median", "pages of boxes, median", "99 %"],
        rows,
    )


def _seeds(work: Path, dims: data.Dims, count: int) -> str:
    path = work / f"zones-{'x'.join(map(str, dims))}-{count}.npy"
    np.save(path, data.random_seeds(dims, count))
    return str(path.resolve())


def _crossings(store: Path, trace: dict[str, Any]) -> dict[str, Any]:
    command = arms.inside(arm="crossings", source=str(store), traces=[trace], memory_limit=common.PLENTY, workers=1)
    return arms.run(command).json()
