"""Particles in time: beside a plain loop over flat arrays, and out of core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, common, data, series
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder


@experiment("particles", "Particles in time, in core, one core: beside a plain loop")
def measure(recorder: Recorder) -> None:
    """10,000 particles by RK4 through 8 time steps of a uniform grid of 256 x 256 x 256 points. Seeds are random in its
    inner part, steps are at most 0.3 cells, and positions are stored at the times of the dataset. The plain loop has
    all velocities in single precision in flat arrays, all components of a point together. It advances time step by time
    step, its particles in the order in which Farfield begins its own. Farfield has its pages resident, with momentum
    and density. The same flow on a warped grid is Farfield alone.
    """
    quick = recorder.quick
    dims = (65, 65, 65) if quick else (256, 256, 256)
    steps, count = (4, 1000) if quick else (8, 10_000)
    common.cache(recorder)
    core = common.one_core()
    longest = series.longest_step(dims, 0.3)
    spec: dict[str, Any] = {
        "kind": "pathline",
        "direction": "forward",
        "seeds": common.seeds_file(recorder, "particles", data.random_seeds(dims, count)),
        "integrator": "rk4",
        "time_step": longest,
        "max_steps": 100_000_000,
        "points": "steps",
    }
    resources = {"memory_limit": common.PLENTY, "workers": 1, "rounds": recorder.runs + 1, "traces": [spec]}
    ends: dict[str, Any] = {}
    made: dict[str, int] = {}
    kinds: tuple[series.Kind, ...] = ("uniform", "warped")
    for grid in kinds:
        flow = series.make(recorder.work, dims, steps, kind=grid)
        store = common.series_store(recorder, flow)
        each = int(np.ceil(np.diff(flow.times) / longest - 1e-9).sum())
        for name, arm in (("plain loop", "plain"), ("Farfield", "pathlines")):
            if (grid, arm) == ("warped", "plain"):
                continue
            rows = arms.run(arms.inside(arm=arm, source=str(store), **resources), cores=core, timeout_s=3600).json()[
                "runs"
            ]
            for row in rows[1:]:
                total = row.get("steps", each * count)
                recorder.run(
                    f"{name}, {grid} grid",
                    cpu_s=row["cpu_s"],
                    wall_s=row["wall_s"],
                    points=row["points"],
                    step_us=1e6 * row["cpu_s"] / total,
                )
            ends[f"{name}, {grid} grid"] = rows[-1]["ends"]
            made[f"{name}, {grid} grid"] = total
            if arm == "pathlines":
                left = count - rows[-1]["reasons"].get("time", 0)
                recorder.claim(f"{grid} grid: particles that did not come to the end", left, "==", 0, right=True)
    rate = {arm: 1.0 / recorder.median(arm, "step_us") for arm in made}
    recorder.table(
        "Steps", ["arm", "RK4 steps", "million steps a CPU second"], [[arm, made[arm], rate[arm]] for arm in made]
    )
    away = np.abs(np.subtract(ends["plain loop, uniform grid"], ends["Farfield, uniform grid"])).max() / count
    name = "uniform grid: distance of the mean of all ends from that of the plain loop, box heights"
    recorder.claim(name, away / 2, "<=", 1e-5, right=True)
    ratio = rate["Farfield, uniform grid"] / rate["plain loop, uniform grid"]
    recorder.claim("uniform grid: steps a CPU second over those of the plain loop", ratio, ">=", 0.85)


class _Reading:
    """The reads of a trace alone, in a new process."""

    def __init__(self, recorder: Recorder, name: str, store: Path, spec: dict[str, Any], limit: int, base: int) -> None:
        self.recorder, self.arm, self.store = recorder, f"{name}, reading alone", store
        self.limit, self.memory_bytes = limit, limit + base
        self.resources = {"memory_limit": limit, "list": str(recorder.work / f"pathlines-{limit}.reads")}
        listing = arms.inside(arm="recorded", source=str(store), traces=[spec], **self.resources)
        # Without a cgroup, since its lines are in memory. Its reads follow from the limit.
        self.listed = int(arms.run(listing, cold=[store], timeout_s=3600).json()["listed_bytes"])

    def run(self) -> None:
        """Records one run."""
        done = arms.run(
            arms.inside(arm="replayed", **self.resources), memory_bytes=self.memory_bytes, cold=[self.store]
        )
        found = done.json()
        self.recorder.run(
            self.arm,
            settings={"memory": f"{self.limit // MIB} MiB + base"},
            wall_s=found["wall_s"],
            cpu_s=found["cpu_s"],
            read_bytes=found["bytes_read"],
            disk_bytes=done.read_bytes,
            reads=found["reads"],
        )
        self.missing = self.listed - int(found["bytes_read"])


@experiment("pathlines", "Out of core: 10,000 pathlines through 200 time steps")
def out_of_core(recorder: Recorder) -> None:
    """20 GB in 200 time steps on a curvilinear grid of 192 x 176 x 152 points, as a store. 10,000 particles start in a
    ball with a diameter of half of the box's height. RK45 follows them from the first time to the last, with points at
    the time steps. Limits are 512, 64 and 32 MiB (a third of one time step), each with the base beside it in a memory
    cgroup. Data are evicted from the page cache before every run. Computing alone is the same run with all pages
    resident, its output file included, without start and opening, in a process that ran it before. Reading alone: a run
    at each limit lists every read that it makes. Another process, in the same cgroup and as cold, repeats these reads
    in the same order and as many at a time, repeated reads included. It neither checks nor decodes the data. Arms at 64
    MiB: without read-ahead; ours. Without bounds: the largest and the smallest limit with a ball of half the volume.
    All arms take turns, so that a machine that slows down does so for all of them.
    """
    quick = recorder.quick
    dims = (65, 65, 65) if quick else (192, 176, 152)
    steps, count = (20, 1000) if quick else (200, 10_000)
    limits = [16, 8] if quick else [512, 64, 32]
    common.cache(recorder)
    flow = series.make(recorder.work, dims, steps)
    store = common.series_store(recorder, flow)
    seeds = common.seeds_file(recorder, "pathlines", series.cloud(dims, count))
    small = common.seeds_file(recorder, "pathlines-small", series.cloud(dims, count, radius=0.2))
    base = common.base_bytes(recorder, store)
    options = ["--kind", "pathline", "--points", "steps", "--max-steps", "1000000"]
    outputs: dict[str, Path] = {}

    def run(arm: str, limit: int, *more: str, begin: str = seeds) -> dict[str, Any]:
        outputs.setdefault(arm, recorder.work / f"pathlines-{len(outputs)}.npz")
        done = common.trace(
            store,
            begin,
            outputs[arm],
            limit=limit * MIB,
            options=[*options, *more],
            memory_bytes=limit * MIB + base,
            cold=[store],
        )
        found = done.json()
        recorder.run(
            arm,
            settings={"memory": f"{limit} MiB + base"},
            wall_s=done.wall_s,
            cpu_s=done.cpu_s,
            wait_s=found["wait_s"],
            peak_bytes=found["resident_peak_bytes"],
            read_bytes=found["bytes_read"],
            disk_bytes=done.read_bytes,
        )
        return found

    spec = {"kind": "pathline", "direction": "forward", "seeds": seeds, "max_steps": 1_000_000, "points": "steps"}
    readings = [_Reading(recorder, f"{limit} MiB", store, spec, limit * MIB, base) for limit in limits]
    middle = limits[1]
    for _ in range(recorder.runs):
        found = {limit: run(f"{limit} MiB", limit) for limit in limits}
        outputs["computing alone"] = recorder.work / "pathlines-resident.npz"
        resident = arms.inside(
            arm="pathlines",
            source=str(store),
            traces=[spec],
            memory_limit=common.PLENTY,
            rounds=2,
            output=str(outputs["computing alone"]),
        )
        row = arms.run(resident, timeout_s=3600).json()["runs"][-1]
        recorder.run("computing alone", wall_s=row["wall_s"], cpu_s=row["cpu_s"], read_bytes=row["bytes_read"])
        for reading in readings:
            reading.run()
        run(f"{middle} MiB, nothing ahead", middle, "--read-ahead", "none")
        for limit in (limits[0], limits[-1]):
            run(f"{limit} MiB, half the volume", limit, begin=small)
    computing = recorder.median("computing alone", "wall_s")
    half = {arm: path for arm, path in outputs.items() if "half" in arm}
    common.same_bytes(recorder, "pathlines", {arm: path for arm, path in outputs.items() if arm not in half})
    common.same_bytes(recorder, "half the volume", half)
    for reading in readings:
        name = f"{reading.limit // MIB} MiB: bytes of the trace that reading alone did not read"
        recorder.claim(name, reading.missing, "==", 0)
    smallest = f"{limits[-1]} MiB"
    for limit in limits:
        pages = found[limit]["pages"]
        recorder.claim(
            f"{limit} MiB: peak below limit and base, MiB",
            (limit * MIB + base - found[limit]["resident_peak_bytes"]) / MIB,
            ">=",
            0,
            right=True,
        )
        recorder.note(
            f"{limit} MiB: {pages['touched']:,} of {pages['total']:,} pages touched, {pages['prefetched']:,} read ahead, "
            f"{pages['prefetched'] - pages['prefetched_used']:,} of these in vain, {pages['given_back']:,} given back."
        )
    least = min(recorder.median(f"{limit} MiB", "read_bytes") for limit in limits)
    for limit in limits:
        over = recorder.median(f"{limit} MiB", "read_bytes") / least
        recorder.claim(f"{limit} MiB: bytes read over the least that any limit read", over, "<=", 1.3)
    volume = [recorder.median(f"{limit} MiB, half the volume", "read_bytes") for limit in (limits[0], limits[-1])]
    recorder.note(f"Half the volume: {smallest} read {volume[-1] / volume[0]:.2f} times the bytes of {limits[0]} MiB.")
    walls = {limit: recorder.median(f"{limit} MiB", "wall_s") for limit in limits}
    recorder.claim(f"{smallest} over {limits[0]} MiB, wall", walls[limits[-1]] / walls[limits[0]], "<=", 1.5)
    for limit in limits:
        bound = max(computing, recorder.median(f"{limit} MiB, reading alone", "wall_s"))
        over = (walls[limit] - 1.0) / bound
        recorder.claim(
            f"{limit} MiB, all but a second, over the longer of computing and reading alone, wall", over, "<=", 1.1
        )
    ours = walls[middle]
    bare = recorder.median(f"{middle} MiB, nothing ahead", "wall_s")
    recorder.claim("ours over nothing ahead, wall", ours / bare, "<=", 1.03)
