"""Cost of a fault, and of a run with faults: disk against the memory of another machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data, network, rights
from farfield_bench.common import MIB
from farfield_bench.papers import Paper
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

FAULTS: dict[str, float] = {"0.3 ms": 0.3e-3, "11.6 ms": 11.6e-3}
"""Seconds of a fault in the paper: from another machine's memory, and from the disk."""
SERVER = "page server"
"""A page server on a loopback device, its files in memory: the memory of another machine."""
MEMORY = "network memory"
"""The same with a cache of its own for all data (`--cache`), filled before, in front of a disk whose files are evicted."""
FAULT_US = 60.0
"""Most microseconds of a fault from either, one at a time."""
SHARES: dict[str, float] = {"7/8": 7 / 8, "1/8": 1 / 8}
"""Shares of the data; the paper had 896 MB and 128 MB for 971 MB."""
IN_CORE, DISK, NETWORK, NETWORK_TIGHT = 27.2, 1388.0, 64.7, 113.0
"""Seconds of the paper: in core, paging to disk and to other machines' memory with 896 MB, and to that with 128 MB."""
ROOM = 24 * MIB
"""Memory of a cgroup beside limit and base: the lines, which these arms hold in memory, and Python's objects for them.
"""


@dataclass(frozen=True)
class _Case:
    """A trace and its inputs."""

    recorder: Recorder
    flow: data.Flow
    store: Path
    spec: dict[str, Any]
    base: int
    bounded: bool
    digests: set[str]

    def remote(self, end: network.Network, served: network.Served, share: str, device: str, *, one: bool) -> None:
        """Runs the paged arm once from a server: tasks and reads as they come, or with `one`, one line."""
        arm = f"{share}: {device}{', one at a time' * one}"
        limit = int(self.flow.bytes * SHARES[share])
        command = arms.inside(
            arm="paged",
            source=f"{served.url}/{self.store.name}",
            traces=[self.spec],
            memory_limit=limit,
            workers=1,
            readers=1 if one else 32,
            active=1 if one else 0,
        )
        cold = [self.store] if device == MEMORY else []
        if not cold:
            arms.warm([self.store])
        command = end.at_client(command, served.environment)
        done = arms.run(command, takes_bytes=limit, cold=cold, cores=common.one_core(), timeout_s=3600)
        self._record(arm, limit, None, done.json()["runs"][0])

    def fill(self, end: network.Network, served: network.Served) -> None:
        """Lets a server's cache have all pages that the trace needs."""
        command = arms.inside(
            arm="paged",
            source=f"{served.url}/{self.store.name}",
            traces=[self.spec],
            memory_limit=common.PLENTY,
            workers=1,
            readers=32,
            active=0,
        )
        row = arms.run(end.at_client(command, served.environment), takes_bytes=self.flow.bytes, timeout_s=3600).json()
        self.digests.add(row["runs"][0]["digest"])

    def paged(
        self, arm: str, share: float, *, latency_s: float | None, one: bool, timeout_s: float = 3600.0
    ) -> dict[str, Any]:
        """Runs the paged arm once: other lines advance while pages come, or with `one`, one fault at a time."""
        limit = int(self.flow.bytes * share)
        command = arms.inside(
            arm="paged",
            source=str(self.store),
            traces=[self.spec],
            memory_limit=limit,
            workers=1,
            readers=1 if one else 32,
            active=1 if one else 0,
            latency_s=latency_s,
        )
        cold = [self.store] if latency_s is None else []
        if latency_s is not None:
            arms.warm([self.store])
        # Files of a simulated device are in memory, which a cgroup would count: the limit alone bounds the pages there.
        memory = limit + self.base + ROOM if latency_s is None and self.bounded else None
        done = arms.run(command, memory_bytes=memory, cold=cold, cores=common.one_core(), timeout_s=timeout_s)
        row: dict[str, Any] = done.json()["runs"][0]
        self._record(arm, limit, memory, row)
        return row

    def _record(self, arm: str, limit: int, memory: int | None, row: dict[str, Any]) -> None:
        self.digests.add(row["digest"])
        self.recorder.run(
            arm,
            settings={"limit": f"{limit / MIB:.0f} MiB", "cgroup": "no" if memory is None else "yes"},
            wall_s=row["wall_s"],
            cpu_s=row["cpu_s"],
            faults=row["faults"],
            read_bytes=row["bytes_read"],
            reads=row["reads"],
        )


@experiment("network-memory-2003", "What a fault costs: disk, and the memory of another machine (2003)")
def measure(recorder: Recorder) -> None:
    """The experiment of the Visible Human on network memory (2003), with streamlines in place of its ray-caster. The same
    work runs in core, paged from disk, and paged from remote memory, with memory for 7/8 and for 1/8 of the data. The
    flow has 384 x 384 x 192 points (0.9 GB, as its 971 MB). 2,000 random seeds, lines of at most one unit (96 cells),
    forward, one core. Times are of the trace, with the dataset open. In core: the same kernel over flat arrays read
    before. The local disk: files evicted, in a memory cgroup of limit and base. Page server: `farfield serve` on a
    loopback device of this machine, its files in memory; it may use all cores. Network memory: the same with `--cache`
    for all data in front of the disk, filled by a run before, files evicted: what the client's memory lacks is in that
    of the server. Beside it a simulated device over files in memory. It takes the paper's 0.3 ms (another machine's
    memory) or 11.6 ms (its disk) for each read. Both have no cgroup, which would count that memory: the limit alone
    bounds the pages. One at a time: one line, one read, as an operating system pages for a program with one thread, and
    as in the paper. Otherwise Farfield computes other lines while pages come, with up to 32 reads in flight. A fault's
    cost is the time beyond that in core, over the number of faults. Bounds are on the page server and the network
    memory; ratios stand beside those of the paper's 27.2 s, 1388 s, 64.7 s and 113 s. Lines of all arms are compared.
    """
    quick = recorder.quick
    dims, count = ((129, 129, 97), 10) if quick else ((384, 384, 192), 2000)
    runs = 1 if quick else min(recorder.runs, 3)
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    bounded = rights.memory_cgroup().record(recorder)
    rights.eviction(recorder.work).record(recorder)
    recorder.condition("another machine's memory", False, "a server on this machine, and a device of 0.3 ms a read")
    spaces = network.namespaces().record(recorder)
    spec = {"seeds": f"random:{count}:1", "max_length": 1.0, "max_steps": 10_000}
    base = common.base_bytes(recorder, store)
    case = _Case(recorder, flow, store, spec, base, bounded, set())
    for _ in range(runs):
        command = arms.inside(
            arm="flat",
            **flow.options,
            traces=[spec] * 2,
            memory_limit=common.PLENTY,
            workers=1,
            cache_dir=str(common.cache(recorder)),
        )
        # The data are loaded before; the first trace also touches the memory for the first time.
        row = arms.run(command, cores=common.one_core(), timeout_s=3600).json()["runs"][-1]
        case.digests.add(row["digest"])
        recorder.run("in core", wall_s=row["wall_s"], cpu_s=row["cpu_s"])
        for share, of in SHARES.items():
            if bounded:
                case.paged(f"{share}: local disk", of, latency_s=None, one=False)
                case.paged(f"{share}: local disk, one at a time", of, latency_s=None, one=True)
            for device, latency_s in FAULTS.items():
                case.paged(f"{share}: {device}", of, latency_s=latency_s, one=False)
    for share, of in SHARES.items():
        for device, latency_s in FAULTS.items():
            # Once, since tens of thousands of waits average out.
            case.paged(f"{share}: {device}, one at a time", of, latency_s=latency_s, one=True)
    with network.loopback(recorder.work, apart=spaces) as near:
        served = network.page_server(near, store.resolve().parent)
        for share in SHARES:
            for _ in range(runs):
                case.remote(near, served, share, SERVER, one=False)
                case.remote(near, served, share, SERVER, one=True)
        # A cache for all data and their records.
        kept = network.network_memory(near, str(store.resolve().parent), flow.bytes * 5 // 4, local=True)
        case.fill(near, kept)
        filled = network.server_status(near, kept)
        for share in SHARES:
            for _ in range(runs):
                case.remote(near, kept, share, MEMORY, one=False)
                case.remote(near, kept, share, MEMORY, one=True)
        after = network.server_status(near, kept)
        recorder.claim(
            "reads of the origin once its data are in the network memory",
            after["origin_reads"] - filled["origin_reads"],
            "==",
            0,
            right=True,
        )
    if not bounded:
        recorder.note("Without the local disk: its arms need a memory cgroup.")
    _judge(recorder)
    recorder.claim("results that differ between arms", len(case.digests) - 1, "==", 0, right=True)


def _judge(recorder: Recorder) -> None:
    """Cost of a fault in each arm, and the ratios beside the paper's."""
    core = recorder.median("in core", "wall_s")
    rows: list[list[str | float | int]] = []
    ratios: dict[str, float] = {}
    costs: dict[str, float] = {}
    for share in SHARES:
        for device in ("local disk", SERVER, MEMORY, *FAULTS):
            for how in ("", ", one at a time"):
                arm = f"{share}: {device}{how}"
                if not recorder.measured(arm, "wall_s"):
                    continue
                wall, faults = (recorder.median(arm, key) for key in ("wall_s", "faults"))
                ratios[arm], costs[arm] = wall / core, 1e3 * (wall - core) / max(faults, 1)
                rows.append([arm, faults, wall, ratios[arm], costs[arm]])
    recorder.table("What a fault costs", ["arm", "faults", "wall, s", "times in core", "ms a fault"], rows)
    for device in (SERVER, MEMORY):
        fault_us = 1e3 * costs[f"7/8: {device}, one at a time"]
        recorder.claim(f"7/8: {device}, one at a time: a fault", fault_us, "<=", FAULT_US, unit="us")
    for share in SHARES:
        slowest = ratios[f"{share}: 11.6 ms, one at a time"]
        for device in (SERVER, MEMORY):
            ours, one = ratios[f"{share}: {device}"], ratios[f"{share}: {device}, one at a time"]
            if f"{share}: local disk" in ratios:
                local = ratios[f"{share}: local disk"]
                recorder.claim(f"{share}: {device} over the local disk", ours / local, "<=", 1.2)
            recorder.claim(f"{share}, one at a time: {device} over a disk of 11.6 ms", one / slowest, "<=", 0.2)
    paper = Paper("the paper's network memory")
    slow, fast = "7/8: 11.6 ms, one at a time", "7/8: 0.3 ms, one at a time"
    paper.ratio("a fault from disk over one from another machine's memory, ms", costs[slow] / costs[fast], 11.6 / 0.3)
    paper.ratio("7/8, one at a time: disk over network memory", ratios[slow] / ratios[fast], DISK / NETWORK)
    paper.ratio("7/8, one at a time: disk over in core", ratios[slow], DISK / IN_CORE)
    paper.ratio("7/8, one at a time: network memory over in core", ratios[fast], NETWORK / IN_CORE)
    paper.ratio(
        "1/8, one at a time: network memory over in core", ratios["1/8: 0.3 ms, one at a time"], NETWORK_TIGHT / IN_CORE
    )
    tight = ratios["1/8: 0.3 ms, one at a time"] / ratios[fast]
    paper.ratio("network memory, one at a time: 1/8 over 7/8", tight, NETWORK_TIGHT / NETWORK)
    paper.ratio("7/8, Farfield as it is: 11.6 ms over in core", ratios["7/8: 11.6 ms"], DISK / IN_CORE)
    paper.ratio("7/8, Farfield as it is: 0.3 ms over in core", ratios["7/8: 0.3 ms"], NETWORK / IN_CORE)
    if "7/8: local disk" in ratios:
        paper.ratio("7/8, Farfield as it is: today's disk over in core", ratios["7/8: local disk"], DISK / IN_CORE)
    paper.record(recorder)
