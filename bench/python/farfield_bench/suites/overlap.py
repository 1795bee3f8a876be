"""Overlap of reading and computing."""

from __future__ import annotations

import os
from typing import Any

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LATENCY_S = 0.002
READERS = 16


@experiment("overlap", "Overlap: wall time against the longest of computing, reading and waiting")
def measure(recorder: Recorder) -> None:
    """The 256 x 256 x 128 flow in its store, 1,000 random seeds, lines of at most two units (128 cells). Nothing is
    resident at the start. A simulated device takes 2 ms for each read and serves 16 at a time. The bound is the largest
    of three times. Computing: the same trace again, all resident. Reading: reads x 2 ms / 16. Waiting: the longest
    chain of dependent faults x 2 ms, the most stops of one line for pages. On disk, with the files evicted, the bound
    is the larger of computing and reading. Reading is then that of the same pages in the same order, 16 at a time,
    without computing; chains are left out. With one and with two cores. One task and one reader are compared with a
    plain loop that waits for each page on the same device.
    """
    quick = recorder.quick
    dims = common.SMALL if quick else (256, 256, 128)
    count = 100 if quick else 1000
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    trace = {"seeds": f"random:{count}:1", "max_length": 2.0, "max_steps": 10_000}
    cores = sorted(os.sched_getaffinity(0))
    late: list[float] = []
    for workers in (1, 2):
        if len(cores) < workers:
            recorder.note("Without the arms on two cores: this machine has one.")
            break
        use = cores[:workers]
        title = f"{workers} core" + "s" * (workers > 1)
        for _ in range(recorder.runs):
            common_options: dict[str, Any] = {
                "source": str(store),
                "traces": [trace],
                "memory_limit": common.PLENTY,
                "workers": workers,
                "readers": READERS,
            }
            found = arms.run(arms.inside(arm="overlap", latency_s=LATENCY_S, **common_options), cores=use).json()
            paged, compute = found["paged"], found["resident"]["wall_s"]
            reading = paged["device_reads"] * LATENCY_S / READERS
            chain = paged["rounds_most"] * LATENCY_S
            bound = max(compute, reading, chain)
            late.append(found["latency_seen_s"])
            recorder.run(
                f"2 ms, {title}",
                wall_s=paged["wall_s"],
                compute_s=compute,
                reading_s=reading,
                chain_s=chain,
                over_bound=paged["wall_s"] / bound,
                reads=paged["device_reads"],
            )
            found = arms.run(arms.inside(arm="overlap_disk", **common_options), cores=use, cold=[store]).json()
            bound = max(found["resident"]["wall_s"], found["reading"]["wall_s"])
            recorder.run(
                f"disk, {title}",
                wall_s=found["paged"]["wall_s"],
                compute_s=found["resident"]["wall_s"],
                reading_s=found["reading"]["wall_s"],
                over_bound=found["paged"]["wall_s"] / bound,
                reads=found["paged"]["reads"],
            )
        for device in ("2 ms", "disk"):
            recorder.claim(
                f"{device}, {title}: wall over bound", recorder.median(f"{device}, {title}", "over_bound"), "<=", 1.1
            )
    different = 0
    few = {"seeds": f"random:{5 if quick else 30}:1", "max_length": 2.0, "max_steps": 10_000}
    for _ in range(recorder.runs):
        command = arms.inside(
            arm="overlap",
            latency_s=LATENCY_S,
            source=str(store),
            traces=[few],
            memory_limit=common.PLENTY,
            workers=1,
            readers=1,
            active=1,
        )
        found = arms.run(command, cores=common.one_core()).json()
        for name, key in (("one task, one reader", "paged"), ("plain loop that waits", "waiting")):
            recorder.run(name, wall_s=found[key]["wall_s"], reads=found[key]["device_reads"])
        different += found["paged"]["digest"] != found["waiting"]["digest"]
    ratio = recorder.median("one task, one reader", "wall_s") / recorder.median("plain loop that waits", "wall_s")
    recorder.claim("one task and one reader over the plain loop, wall", ratio, "<=", 1.03)
    recorder.claim("runs whose results differ from the plain loop's", different, "==", 0, right=True)
    recorder.note(
        f"The simulated reader was woken late: its reads took {1e3 * max(late):.2f} ms on average; the bounds say 2 ms."
    )
