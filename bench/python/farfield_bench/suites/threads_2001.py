"""Gain from waiting tasks and readers, by their number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data, network, rights
from farfield_bench.common import MIB
from farfield_bench.papers import Paper
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LATENCY_S = 0.005
SLOW = "5 ms"
"""Name of the simulated device: the time of a read."""
SERVER = "server"
"""Name of a page server on this machine, with its files evicted."""
READERS = (1, 2, 4, 8, 16, 32, 64)
TASKS = (1, 4, 16, 64, 256, 1024, 4096)
"""Tasks a core."""
MANY_READERS, MANY_TASKS = 16, 1024
"""Fixed number of one while the other varies."""


@experiment("threads-2001", "Readers and tasks: one of each to dozens and thousands (2001)")
def measure(recorder: Recorder) -> None:
    """Ellsworth's measurement of threads (2001): the same streamlines by a loop that waits for each page, and by tasks
    that free the processor while pages come. The numbers of readers and tasks grow. The 256 x 256 x 128 flow (0.3 GB)
    in its store, 4,200 random seeds, lines of at most a quarter unit (16 cells), forward. Memory holds everything and
    nothing is resident at the start. Serial: one thread takes one line after another (four in turn, as everywhere) and
    reads each page when needed, by a plain read. Readers: reads in flight, 1 to 64, with up to 1,024 tasks a core under
    way. Tasks: lines under way at a time, 1 to 4,096 a core, with 16 readers. One worker a core, on one core and on
    two. Data are on the local disk with files evicted, or on a simulated device over files in memory. The device takes
    5 ms for each read of any length. Server: a page server (`farfield serve`) on a loopback device of this machine,
    with its files evicted; how many reads are under way follows from what is measured of it, so these arms have no
    number of readers. Its serial arm has one line under way. The server's own processor time is not counted; it may use
    all cores. Times are of the trace, with the dataset open; bytes and reads stand beside them. The only bound: all
    lines are the same. The paper's figures stand beside ours: a third off local time, 35 to 60 %
    off remote time, remote as fast as local, 13 % for threading alone.
    """
    quick = recorder.quick
    dims, count = (common.SMALL, 60) if quick else ((256, 256, 128), 4200)
    readers, tasks = ((1, 16), (1, 64)) if quick else (READERS, TASKS)
    runs = 1 if quick else min(recorder.runs, 3)
    common.cache(recorder)
    rights.eviction(recorder.work).record(recorder)
    spaces = network.namespaces().record(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    spec = {"seeds": f"random:{count}:1", "max_length": 0.25, "max_steps": 10_000}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        recorder.note("Without the arms on two cores: this machine has one.")
    digests: set[str] = set()
    many = min(MANY_TASKS, max(tasks))
    for _ in range(runs):
        for device in ("disk", SLOW):
            _serial(recorder, device, store, spec, cores[:1], digests)
            for workers in range(1, min(len(cores), 2) + 1):
                use = cores[:workers]
                for n in readers:
                    _paged(recorder, device, store, spec, use, n, many, digests)
                for n in tasks:
                    if (MANY_READERS, n) not in [(r, many) for r in readers]:
                        _paged(recorder, device, store, spec, use, MANY_READERS, n, digests)
    with network.loopback(recorder.work, apart=spaces) as near:
        of = _Remote(recorder, near, network.page_server(near, store.resolve().parent), store, spec, digests)
        for _ in range(runs):
            of.run(cores[:1], 1)
            for workers in range(1, min(len(cores), 2) + 1):
                for n in tasks:
                    of.run(cores[:workers], n, tasks_of=workers)
    _resident(recorder, store, spec, cores[:1], runs, digests)
    recorder.claim("results that differ between arms", len(digests) - 1, "==", 0, right=True)
    _judge(recorder, len(cores) > 1, many, max(readers))


def _name(device: str, workers: int, readers: int, tasks: int) -> str:
    return f"{device}, {workers} core{'s' * (workers > 1)}: {readers} readers, {tasks} tasks a core"


def _record(recorder: Recorder, arm: str, row: dict[str, Any], reads: str = "reads") -> None:
    recorder.run(arm, wall_s=row["wall_s"], cpu_s=row["cpu_s"], read_bytes=row["bytes_read"], reads=row[reads])


def _paged(
    recorder: Recorder,
    device: str,
    store: Path,
    spec: dict[str, Any],
    cores: Sequence[int],
    readers: int,
    tasks: int,
    digests: set[str],
) -> None:
    """Farfield with so many readers, and so many tasks a core."""
    local = device == "disk"
    if not local:
        arms.warm([store])
    command = arms.inside(
        arm="paged",
        source=str(store),
        traces=[spec],
        memory_limit=common.PLENTY,
        workers=len(cores),
        readers=readers,
        active=tasks * len(cores),
        latency_s=None if local else LATENCY_S,
    )
    done = arms.run(command, cold=[store] if local else [], cores=cores, takes_bytes=1024 * MIB, timeout_s=1200)
    row = done.json()["runs"][0]
    digests.add(row["digest"])
    _record(recorder, _name(device, len(cores), readers, tasks), row)


@dataclass(frozen=True)
class _Remote:
    """The same lines from a page server."""

    recorder: Recorder
    end: network.Network
    served: network.Served
    store: Path
    spec: dict[str, Any]
    digests: set[str]

    def run(self, cores: Sequence[int], tasks: int, *, tasks_of: int = 0) -> None:
        """So many tasks a core; without `tasks_of`, the cores that have them, the serial arm."""
        command = arms.inside(
            arm="paged",
            source=f"{self.served.url}/{self.store.name}",
            traces=[self.spec],
            memory_limit=common.PLENTY,
            workers=len(cores),
            readers=MANY_READERS,
            active=tasks * len(cores),
        )
        command = self.end.at_client(command, self.served.environment)
        done = arms.run(command, cold=[self.store], cores=cores, takes_bytes=1024 * MIB, timeout_s=1200)
        row = done.json()["runs"][0]
        self.digests.add(row["digest"])
        _record(self.recorder, _of_server(tasks_of, tasks) if tasks_of else f"{SERVER}: serial", row)


def _of_server(workers: int, tasks: int) -> str:
    return f"{SERVER}, {workers} core{'s' * (workers > 1)}: {tasks} tasks a core"


def _serial(
    recorder: Recorder, device: str, store: Path, spec: dict[str, Any], cores: Sequence[int], digests: set[str]
) -> None:
    """The plain loop that waits, from the arms of the overlap."""
    how: dict[str, Any] = {"source": str(store), "traces": [spec], "memory_limit": common.PLENTY, "workers": 1}
    if device == "disk":
        command = arms.inside(arm="overlap_disk", waiting=True, **how)
    else:
        arms.warm([store])
        command = arms.inside(arm="overlap", latency_s=LATENCY_S, readers=MANY_READERS, **how)
    cold = [store] if device == "disk" else []
    row = arms.run(command, cold=cold, cores=cores, takes_bytes=1024 * MIB, timeout_s=1200).json()["waiting"]
    digests.add(row["digest"])
    _record(recorder, f"{device}: serial", row)


def _resident(
    recorder: Recorder, store: Path, spec: dict[str, Any], cores: Sequence[int], runs: int, digests: set[str]
) -> None:
    """Cost of tasks without waits: one at a time and many, all pages resident."""
    for _ in range(runs):
        for tasks in (1, MANY_TASKS):
            command = arms.inside(
                arm="paged",
                source=str(store),
                traces=[spec] * 3,
                memory_limit=common.PLENTY,
                workers=1,
                active=tasks,
            )
            rows = arms.run(command, cores=cores, timeout_s=1200).json()["runs"]
            digests.update(row["digest"] for row in rows)
            # The first run reads the pages.
            _record(recorder, f"resident, 1 core: {tasks} tasks", min(rows[1:], key=lambda row: float(row["cpu_s"])))


def _judge(recorder: Recorder, two: bool, tasks: int, most: int) -> None:
    """The paper's figures beside the fastest of ours."""
    paper = Paper("the paper's threads")
    readers = min(MANY_READERS, most)
    for device, low, high in (("disk", 1 / 3, 1 / 3), (SLOW, 0.35, 0.60)):
        serial = recorder.median(f"{device}: serial", "wall_s")
        for workers in (1, 2) if two else (1,):
            ours = recorder.median(_name(device, workers, readers, tasks), "wall_s")
            what = f"{device}, {workers} core{'s' * (workers > 1)}: off the serial time, share"
            if low == high:
                paper.ratio(what, 1 - ours / serial, low)
            else:
                paper.span(what, 1 - ours / serial, low, high)
    serial = recorder.median(f"{SERVER}: serial", "wall_s")
    for workers in (1, 2) if two else (1,):
        ours = recorder.median(_of_server(workers, tasks), "wall_s")
        paper.span(
            f"{SERVER}, {workers} core{'s' * (workers > 1)}: off the serial time, share", 1 - ours / serial, 0.35, 0.60
        )
    ours = recorder.median(_of_server(1, tasks), "wall_s")
    paper.ratio(
        f"{SERVER} over disk, one core", ours / recorder.median(_name("disk", 1, readers, tasks), "wall_s"), 1.0
    )
    walls = [recorder.median(_name(device, 1, readers, tasks), "wall_s") for device in (SLOW, "disk")]
    paper.ratio(f"{SLOW} over disk, one core", walls[0] / walls[1], 1.0)
    alone = [recorder.median(f"resident, 1 core: {n} tasks", "cpu_s") for n in (MANY_TASKS, 1)]
    paper.ratio(
        "processor time of many tasks over one at a time, nothing waited for", alone[0] / alone[1], 1.13, factor=1.1
    )
    paper.record(recorder)
