"""Cost of paging when all pages are resident."""

from __future__ import annotations

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder


@experiment("tax", "Translation tax: resident pages against flat arrays")
def measure(recorder: Recorder) -> None:
    """The same kernel over the same 256 x 256 x 128 points, one core, 10,000 random seeds, lines of two units (128
    cells). It runs over flat arrays in a plain loop, one line after another. It runs over flat arrays by the executor,
    four lines in turn, and by the executor over resident pages. Arms take turns, so that disturbances of the machine
    reach all. The claim is on the faster of the two flat arms.
    """
    dims = common.SMALL if recorder.quick else (256, 256, 128)
    count = 300 if recorder.quick else 10_000
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    spec = {"seeds": f"random:{count}:1", "max_length": 2.0, "max_steps": 10_000}
    kinds = {
        "flat arrays, plain loop": ("flat", flow.options),
        "flat arrays, executor": ("flat_turns", flow.options),
        "resident pages": ("paged", {"source": str(store)}),
        "resident pages, in place": ("paged", flow.options),
    }
    cache = str(common.cache(recorder))
    digests = set()
    for _ in range(recorder.runs):
        for name, (arm, source) in kinds.items():
            # The first run of a process brings the pages in; of the others the fastest is least disturbed.
            command = arms.inside(
                arm=arm, **source, traces=[spec] * 4, memory_limit=common.PLENTY, workers=1, cache_dir=cache
            )
            rows = arms.run(command, cores=common.one_core()).json()["runs"][1:]
            best = min(rows, key=lambda r: r["cpu_s"])
            recorder.run(
                name, cpu_s=best["cpu_s"], wall_s=best["wall_s"], million_steps_a_s=1e-6 * best["steps"] / best["cpu_s"]
            )
            digests |= {r["digest"] for r in rows}
    flat = min(recorder.median(name, "cpu_s") for name in list(kinds)[:2])
    recorder.claim(
        "resident pages over the faster flat arm, CPU time",
        recorder.median("resident pages", "cpu_s") / flat,
        "<=",
        1.10,
    )
    recorder.claim("different results", len(digests) - 1, "==", 0, right=True)
