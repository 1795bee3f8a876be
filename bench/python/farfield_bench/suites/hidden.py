"""Share of the reading that is hidden behind computing."""

from __future__ import annotations

import os
from pathlib import Path

from farfield_bench import common, series
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.windows import Windows

DEVICES: dict[str, tuple[float | None, int]] = {"disk": (None, 128), "5 ms": (0.005, 32), "25 ms": (0.025, 32)}
"""Seconds of each read (None: the real disk), and largest number of reads at a time."""


@experiment("hidden", "Hidden I/O: how much of the reading goes on behind computing")
def measure(recorder: Recorder) -> None:
    """Hidden I/O as GODIVA counted it (Ma et al. 2004): the time that overlapping saves of a serial run, over the time
    that this run reads. A unit is the pages that particles touch between two time steps. 4,000 pathlines by RK45 go
    through 81 time steps of a curvilinear grid of 129 x 129 x 97 points in its store. Memory holds everything and
    nothing is resident at the start. Times are of the trace with its output, without opening. Serial: an earlier run
    lists the pages that each window needs and no window before it needed. All of them are read at once, with as deep a
    queue as ours. Only then do the particles advance, by the same executor. Each window is a run of its own that starts
    from the saved particles of the one before; this transfer is not counted. Overlapped: ours. L is the time for which
    the serial run reads, R the time for which it computes. No more than the shorter of them can be hidden. With one
    core and with two (a worker each), on three devices. First the disk, with files evicted: much of L is processor time
    (copying and checking), which a busy processor cannot hide. Then simulated devices over files in memory. They take 5
    ms or 25 ms for each read of any length and serve 32 at a time. 5 ms is a seeking disk or a server nearby; a fifth
    of L is processor time. 25 ms is a server far away; nearly all of L is waiting, and L is longer than R. There more
    than all can be hidden, since the serial run waits for the last read of each window before it requests the next. The
    cost of overlapping for computing stands beside it: the processor time of the overlapped run without that of the
    serial run's reading, over that of the serial run's computing.
    """
    quick = recorder.quick
    dims, steps = ((33, 33, 33), 9) if quick else ((129, 129, 97), 81)
    common.cache(recorder)
    flow = series.make(recorder.work, dims, steps)
    store = common.series_store(recorder, flow)
    seeds = common.seeds_file(recorder, "hidden", series.cloud(dims, 200 if quick else 4000))
    spec = {"kind": "pathline", "direction": "forward", "seeds": seeds, "max_steps": 1_000_000, "points": "steps"}
    cores, takes = sorted(os.sched_getaffinity(0)), (64 if quick else 1024) * common.MIB
    if len(cores) < 2:
        recorder.note("Without the arms on two cores: this machine has one.")
    rows: list[list[str | float | int]] = []
    outputs: dict[str, Path] = {}
    devices = list(DEVICES)[:2] if quick else list(DEVICES)
    for device in devices:
        latency_s, readers = DEVICES[device]
        units = Windows(recorder, "hidden", store, spec, latency_s, readers, takes, outputs)
        units.ready()
        units.run(f"{device}: listing the windows", "listed", cores[:1])
        for workers in range(1, min(len(cores), 2) + 1):
            title = f"{device}, {workers} core" + "s" * (workers > 1)
            lacked = 0
            for _ in range(recorder.runs):
                found = units.run(f"{title}: units, serial", "units", cores[:workers])
                lacked += found["faults"] - found["reading"]["faults"]
                units.run(f"{title}: overlapped", "ours", cores[:workers])
            recorder.claim(f"{title}: pages that the serial run lacked while it computed", lacked, "==", 0)
            rows.append(_judged(recorder, title))
    common.same_bytes(recorder, "pathlines", outputs)
    columns = ["", "L, s", "of it processor, s", "R, s", "saved, s", "saved of L", "can be hidden", "hidden of that"]
    recorder.table("Hidden", [*columns, "processor, times that of computing"], rows)


def _judged(recorder: Recorder, title: str) -> list[str | float | int]:
    """The share hidden by overlapping: its row and its claim."""
    serial, ours = f"{title}: units, serial", f"{title}: overlapped"
    reading, computing = recorder.median(serial, "reading_s"), recorder.median(serial, "computing_s")
    reading_cpu = recorder.median(serial, "reading_cpu_s")
    saved = recorder.median(serial, "wall_s") - recorder.median(ours, "wall_s")
    most = min(reading, computing)
    slower = (recorder.median(ours, "cpu_s") - reading_cpu) / (recorder.median(serial, "cpu_s") - reading_cpu)
    recorder.claim(f"{title}: hidden, of what can be", saved / most, ">=", 0.95)
    return [title, reading, reading_cpu, computing, saved, saved / reading, most / reading, saved / most, slower]
