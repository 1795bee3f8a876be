"""Read-ahead along the way of particles, in cases at risk of harm."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, series
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

ROOM = 96 * MIB
"""Memory of a cgroup beside limit and base: Python in place of the command line, and its memory from earlier runs."""


@dataclass(frozen=True)
class Case:
    """A trace and its input."""

    name: str
    flow: series.Series
    source: dict[str, Any]
    """Options of `arms.inside`."""
    files: list[Path]
    """Its input files."""
    seeds: int
    how: dict[str, Any] = field(default_factory=dict)
    """Options of the trace beside the common ones."""
    limit: int = 512 * MIB
    bounded: bool = False
    """Whether it is in a cgroup smaller than the data, which are then read past the page cache."""
    workers: int = 0
    warm: bool = False


def _cases(recorder: Recorder, cache: Path) -> Iterator[Case]:
    quick = recorder.quick
    dims = (33, 33, 33) if quick else (97, 97, 65)
    steps, few_steps = (9, 5) if quick else (41, 21)
    some, many = (60, 200) if quick else (4000, 20_000)

    def stored(flow: series.Series, *, page: int | None = None, codec: str | None = None) -> dict[str, Any]:
        path = common.series_store(recorder, flow, page=page, codec=codec)
        return {"flow": flow, "source": {"source": str(path)}, "files": [path]}

    flow = series.make(recorder.work, dims, steps)
    plain = stored(flow)
    span = series.SPAN
    yield Case("forward", **plain, seeds=some)
    yield Case("backward", **plain, seeds=some, how={"direction": "backward"})
    yield Case("few particles", **plain, seeds=20)
    yield Case("many particles", **plain, seeds=many, how={"t1": span / 4})
    yield Case("streaklines", **plain, seeds=some // 20, how={"kind": "streakline", "release_steps": 1})
    yield Case("steps that hold", **plain, seeds=some, how={"hold_steps": True})
    yield Case("a tight limit", **plain, seeds=some, limit=(4 if quick else 20) * MIB, bounded=True)
    yield Case("past the page cache", **plain, seeds=some, limit=(16 if quick else 128) * MIB, bounded=True)
    yield Case("warm", **plain, seeds=some, warm=True)
    yield Case("one worker", **plain, seeds=some, workers=1)
    in_place = {"source": str(flow.grid), "q": [str(q) for q in flow.steps], "cache_dir": str(cache)}
    yield Case("PLOT3D in place", flow, in_place, flow.paths, some)
    yield Case("pages of 8 points", **stored(flow, page=8), seeds=some)
    yield Case("zstd", **stored(flow, codec="zstd"), seeds=some)
    yield Case("a uniform grid", **stored(series.make(recorder.work, dims, few_steps, kind="uniform")), seeds=some)
    yield Case("a moving grid", **stored(series.make(recorder.work, dims, few_steps, kind="moving")), seeds=some // 4)
    yield Case("four zones", **stored(series.make(recorder.work, dims, few_steps, cuts=(2, 2, 1))), seeds=some)
    yield Case("long time steps", **stored(series.make(recorder.work, dims, 5)), seeds=some)
    yield Case("short time steps", **stored(series.make(recorder.work, dims, steps, span=span / 10)), seeds=some)


@experiment("readahead", "Read-ahead: where it might do harm")
def measure(recorder: Recorder) -> None:
    """The full executor, which reads ahead along the particles' ways if there is room, against the same without
    read-ahead. Cases differ in their risk of harm. Unless the case differs, 4,000 pathlines go through 41 time steps of
    a curvilinear grid of 97 x 97 x 65 points in its store. Pages have 16 points and are cold, memory holds everything,
    and each core has a worker. Both ways run in one process in turns, and each comes first in turn. Each turn opens the
    dataset anew with its files evicted from the page cache, except in the warm case. Times are of the trace, without
    opening. The figure is the median, over all turns, of the ratio of both wall times of a turn. In a tight limit, and
    past the page cache, the process is in a memory cgroup that does not hold the data. In long time steps particles
    cross several pages, in short ones a part of one. Uniform and moving grids, and those of several zones, have 21
    steps.
    """
    cache = common.cache(recorder)
    base, takes = 0, (64 if recorder.quick else 2048) * MIB
    rounds = recorder.runs if recorder.quick else 4 * recorder.runs
    ways = {"ours": "along", "nothing ahead": "none"}
    rows: list[list[str | float | int]] = []
    for case in _cases(recorder, cache):
        base = base or common.base_bytes(recorder, case.files[0])
        seeds = common.seeds_file(recorder, f"readahead-{case.seeds}", series.cloud(case.flow.dims, case.seeds))
        spec = {"kind": "pathline", "direction": "forward", "seeds": seeds, "max_steps": 1_000_000, "points": "steps"}
        traces = [{**spec, **case.how, "read_ahead": way} for way in ways.values()]
        command = arms.inside(
            arm="turns",
            **case.source,
            traces=traces,
            memory_limit=case.limit,
            workers=case.workers,
            rounds=rounds + case.warm,
            cold=[] if case.warm else [str(path.resolve()) for path in case.files],
        )
        memory = case.limit + base + ROOM if case.bounded else None
        # Evicted here as well: this first writes dirty pages, which the arm cannot evict.
        done = arms.run(command, memory_bytes=memory, takes_bytes=takes, cold=case.files, timeout_s=1200)
        found = dict(zip(ways, done.json()["traces"], strict=True))
        if case.warm:
            found = {way: turns[1:] for way, turns in found.items()}
        for way, turns in found.items():
            for turn in turns:
                recorder.run(
                    f"{case.name}: {way}",
                    settings={"memory": f"{case.limit // MIB} MiB"},
                    wall_s=turn["wall_s"],
                    cpu_s=turn["cpu_s"],
                    wait_s=turn["wait_s"],
                    read_bytes=turn["bytes_read"],
                    reads=turn["reads"],
                )
        pairs = zip(*(found[way] for way in ways), strict=True)
        ratio = statistics.median(ours["wall_s"] / bare["wall_s"] for ours, bare in pairs)
        recorder.claim(f"{case.name}: ours over nothing ahead, wall", ratio, "<=", 1.03)
        last = found["ours"][-1]
        used, ahead = last["prefetched_used"], last["prefetched"]
        different = len({turn["digest"] for turns in found.values() for turn in turns}) - 1
        recorder.claim(f"{case.name}: results that differ", different, "==", 0, right=True)
        rows.append([case.name, *(found[way][-1]["bytes_read"] / MIB for way in ways), ahead, used, ahead - used])
    columns = ["case", "MiB read, ours", "MiB read, nothing ahead", "pages read ahead", "used", "in vain"]
    recorder.table("Reading, in the last turn of each", columns, rows)
