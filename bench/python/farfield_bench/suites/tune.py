"""The proposal of `tune` beside the best combination."""

from __future__ import annotations

import itertools
import shutil
import statistics

from farfield.tuning import CODECS, LAYOUTS, PAGES, Bench, Choice
from farfield_bench import common, data, series
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder


@experiment("tune", "Tuning: what is proposed against the best of all combinations")
def measure(recorder: Recorder) -> None:
    """Six kinds of runs: streamlines from random seeds and from a rake, with memory for all and for an eighth of the
    data, a grid surface, and pathlines. For each, `tune` settles page size, layout, codec and readers one after the
    other. Then every combination of page size, layout and codec is measured in the same way. Times are those of the run
    alone, with the store out of the page cache; the median of three. The claim is on the proposal's time over that of
    the best combination.
    """
    quick = recorder.quick
    common.cache(recorder)
    dims = (65, 65, 33) if quick else (193, 193, 97)
    flow = data.single(recorder.work, dims)
    steps = series.make(recorder.work, (33, 33, 33) if quick else (65, 65, 33), 3 if quick else 10)
    few = f"{max(flow.bytes // 8 >> 20, 6)}MiB"
    rake, count = data.rake(dims, 20 if quick else 100), 20 if quick else 300
    trace = f"trace {flow.source} --max-length 2 --max-steps 10000"
    cases = {
        "random seeds": (flow.source, f"{trace} --seeds random:{count}:1"),
        "random seeds, an eighth": (flow.source, f"{trace} --seeds random:{count}:1 --memory-limit {few}"),
        "a rake": (flow.source, f"{trace} --seeds {rake}"),
        "a rake, an eighth": (flow.source, f"{trace} --seeds {rake} --memory-limit {few}"),
        "a grid surface": (flow.source, f"extract grid-surface {flow.source} --surface zone1:k=5 --scalars density"),
        "pathlines": (steps.source, f"trace {steps.source} --kind pathline --seeds random:{count}:1"),
    }
    if quick:
        cases = {"random seeds": cases["random seeds"]}
    ratios = []
    rows: list[list[str | float | int]] = []
    for name, (source, like) in cases.items():
        folder = recorder.work / "tune"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        bench = Bench(source, like.split(), folder, 1 if quick else 3, None)
        chosen = bench.settle()
        for page, layout, codec in itertools.product(
            PAGES[:2] if quick else PAGES, LAYOUTS, CODECS[:2] if quick else CODECS
        ):
            bench.measure(Choice(page, layout, codec))
        best = min(bench.times, key=bench.measure)
        ratios.append(bench.measure(chosen) / bench.measure(best))
        recorder.run(f"{name}: proposed", wall_s=bench.measure(chosen))
        recorder.run(f"{name}: best of {len(bench.times)}", wall_s=bench.measure(best))
        recorder.run(f"{name}: default", wall_s=bench.measure(Choice()))
        rows.append([name, str(chosen), bench.measure(chosen), str(best), bench.measure(best), ratios[-1]])
        shutil.rmtree(folder)
    recorder.table("Proposals", ["run", "proposed", "s", "best", "s", "proposed over best"], rows)
    recorder.claim(
        "time of the proposal over that of the best, median of the cases", statistics.median(ratios), "<=", 1.1
    )
