"""Loading a time step while another is computed, in the form of Visapult's measurement."""

from __future__ import annotations

import os
from pathlib import Path

from farfield_bench import arms, common, series
from farfield_bench.papers import Paper
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.windows import Windows

DEVICES: dict[str, tuple[float | None, int]] = {"disk": (None, 128), "25 ms": (0.025, 32)}
"""Seconds of each read (None: the real disk), and largest number of reads at a time."""
STEPS = 10
SPAN = 8.0
"""Length of the series. It differs from the number of steps, since times that only number the steps count as no times.
"""
THEIR_L, THEIR_R, THEIR_SERIAL, THEIR_OVERLAPPED = 15.0, 12.0, 265.0, 169.0
"""Seconds: a step's loading and its rendering, and ten steps of both, one after the other and overlapped (Bethel et al. 2000)."""


@experiment("overlap-2000", "Ten time steps, loaded and computed one after the other or overlapped (2000)")
def measure(recorder: Recorder) -> None:
    """Visapult's measurement (Bethel et al. 2000): N time steps. Each takes L to load and R to compute.
    Serial: N (L + R). Overlapped, one step computed while the next is loaded: N max(L, R) + min(L, R). Here 20,000
    pathlines by RK45 go through N = 10 windows between 11 time steps. The store has a curvilinear grid of 129 x 129 x
    97 points. Memory holds everything and nothing is resident at the start. A step's load is the pages that particles
    first touch in its window. Serial: all of a window's pages are read at once, then its particles advance, by the same
    executor. Each window is a run of its own that starts from the saved particles of the one before; this transfer is
    not counted. Overlapped: Farfield reads page by page along the particles' ways, not bound to one step at a time. L
    is measured alone, while the serial run reads and nothing computes; R alone, in a process with all pages resident.
    With one core and with two, from the local disk with its files evicted, and from a simulated device over files in
    memory. The device takes 25 ms for each read and serves 32 at a time. There is no bound: the measured times stand
    beside both formulas and the paper's ratio. Lines of all arms are compared byte for byte.
    """
    quick = recorder.quick
    dims, count = ((33, 33, 33), 200) if quick else ((129, 129, 97), 20_000)
    runs = 1 if quick else recorder.runs
    common.cache(recorder)
    flow = series.make(recorder.work, dims, STEPS + 1, span=SPAN)
    store = common.series_store(recorder, flow)
    seeds = common.seeds_file(recorder, "overlap-2000", series.cloud(dims, count, radius=0.4))
    spec = {"kind": "pathline", "direction": "forward", "seeds": seeds, "max_steps": 1_000_000, "points": "steps"}
    cores, takes = sorted(os.sched_getaffinity(0)), (64 if quick else 1024) * common.MIB
    if len(cores) < 2:
        recorder.note("Without the arms on two cores: this machine has one.")
    paper = Paper("Visapult's ten steps")
    columns = ["", "N", "L, s", "R, s", "serial, s", "N (L + R), s", "overlapped, s", "N max + min, s", "over it"]
    rows: list[list[str | float | int]] = []
    outputs: dict[str, Path] = {}
    for device, (latency_s, readers) in DEVICES.items():
        units = Windows(recorder, "overlap-2000", store, spec, latency_s, readers, takes, outputs)
        units.ready()
        units.run(f"{device}: listing the windows", "listed", cores[:1])
        for workers in range(1, min(len(cores), 2) + 1):
            title = f"{device}, {workers} core" + "s" * (workers > 1)
            windows = STEPS
            for _ in range(runs):
                windows = int(units.run(f"{title}: serial", "units", cores[:workers])["reading"]["windows"])
                units.run(f"{title}: overlapped", "ours", cores[:workers])
                if not recorder.measured(f"{workers}: computing alone", "wall_s") or device == "disk":
                    _computing(recorder, workers, store, spec, cores[:workers], outputs)
            rows.append(_row(recorder, title, workers, windows, paper))
    recorder.table("Beside the formulas", columns, rows)
    paper.record(recorder)
    recorder.note(
        f"The paper: L {THEIR_L:g} s, R {THEIR_R:g} s, N {STEPS}; serial {THEIR_SERIAL:g} s where the formula says "
        f"{STEPS * (THEIR_L + THEIR_R):g} s, overlapped {THEIR_OVERLAPPED:g} s where it says "
        f"{STEPS * max(THEIR_L, THEIR_R) + min(THEIR_L, THEIR_R):g} s."
    )
    common.same_bytes(recorder, "pathlines", outputs)


def _computing(
    recorder: Recorder, workers: int, store: Path, spec: dict[str, object], cores: list[int], outputs: dict[str, Path]
) -> None:
    """R, alone: the second of two rounds over the same open dataset, with every page resident. It writes its file, as
    all arms do.
    """
    arm = f"{workers}: computing alone"
    output = outputs.setdefault(arm, recorder.work / f"overlap-2000-alone-{workers}.npz")
    command = arms.inside(
        arm="pathlines",
        source=str(store),
        traces=[{**spec, "read_ahead": "none"}],
        memory_limit=common.PLENTY,
        workers=workers,
        rounds=2,
        output=str(output),
    )
    row = arms.run(command, cores=cores, timeout_s=1200).json()["runs"][-1]
    recorder.run(arm, wall_s=row["wall_s"], cpu_s=row["cpu_s"], read_bytes=row["bytes_read"], reads=row["reads"])


def _row(recorder: Recorder, title: str, workers: int, windows: int, paper: Paper) -> list[str | float | int]:
    """Measured times beside those of the formulas."""
    serial, ours = (recorder.median(f"{title}: {way}", "wall_s") for way in ("serial", "overlapped"))
    load = recorder.median(f"{title}: serial", "reading_s") / windows
    compute = recorder.median(f"{workers}: computing alone", "wall_s") / windows
    in_turn = windows * (load + compute)
    at_once = windows * max(load, compute) + min(load, compute)
    paper.ratio(f"{title}: serial over N (L + R)", serial / in_turn, THEIR_SERIAL / (STEPS * (THEIR_L + THEIR_R)))
    theirs = THEIR_OVERLAPPED / (STEPS * max(THEIR_L, THEIR_R) + min(THEIR_L, THEIR_R))
    paper.ratio(f"{title}: overlapped over N max(L, R) + min(L, R)", ours / at_once, theirs)
    paper.ratio(f"{title}: serial over overlapped", serial / ours, THEIR_SERIAL / THEIR_OVERLAPPED)
    return [title, windows, load, compute, serial, in_turn, ours, at_once, ours / at_once]
