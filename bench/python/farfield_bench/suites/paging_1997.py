"""Memory from all of the data down to a thirty-second: demand paging beside its rivals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from farfield_bench import arms, common, network, rights
from farfield_bench.common import MIB
from farfield_bench.kin import Kin, kin
from farfield_bench.papers import Paper
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

SHARES = (1, 2, 4, 8, 16, 32)
"""Divisors of the data's size that give the memory."""
PAGES = (4, 8, 16, 32)
"""Points along an edge; of one component in single precision 256 B, 2, 16 and 128 KiB."""
REFERENCE = "cubed 16"
"""Farfield's default. Its time sets when other arms stop, and it is compared with the paper's paged runs."""
TIMES = 10
"""An arm is stopped at this multiple of the reference's time at that memory."""
LATENCY_S = 0.002
REMOTE = "2 ms"
"""Name of the simulated device: the time of a read."""
SERVED = ("cubed 8", "cubed 16", "cubed 32")
"""Stores that a page server has, too."""
LEAST_TIMEOUT_S = 5.0
"""No arm is stopped earlier, since the process's start is a large part of shorter runs."""
SLOW_S = 30.0
"""Seconds. An arm with a longer run is run once."""
LINE_BYTES = 2 * 40
"""Bytes of a point of a line in memory: position, time, zone, with the spare room of a growing array."""
SLACK = 4 * MIB
"""Memory of a cgroup beside the base, the lines and the share of the data: the kernel's memory for the process, and
stacks.
"""


@dataclass(frozen=True)
class _Way:
    """One arm over a data set: its options and its files."""

    name: str
    options: dict[str, Any]
    """Options of `arms.inside`, except the memory limit."""
    files: list[Path]
    settings: dict[str, str] = field(default_factory=dict)
    paged: bool = True
    """Farfield, which gets the limit as its own; other arms have the cgroup alone."""
    swaps: bool = False
    end: network.Network | None = None
    """The client's end, for an arm with a page server."""

    @property
    def remote(self) -> bool:
        """Whether its data are not on the local disk."""
        return self.end is not None or "latency_s" in self.options


@experiment(
    "paging-1997", "Application-controlled demand paging: memory from all of the data to a thirty-second (1997)"
)
def measure(recorder: Recorder) -> None:
    """The measurement of Cox and Ellsworth (1997) on relatives of its four data sets. The first is a tapered cylinder
    (one zone, 60 time steps): the real one if FARFIELD_DATA has it, else a made flow of its size. The second is a
    steady flow in eight zones (0.3 GB). The third is unsteady, in four zones (16 time steps, 0.3 GB). The last is large
    and steady (one zone, 2.1 GB). Steady: streamlines from random seeds, at most one unit long, forward. Unsteady:
    pathlines from the first time to the last. Arm 1 loads everything: all files of grid and solution are read into
    memory, which may go to swap space, then the same kernel runs in a plain loop. Arm 2 is the same loop over `mmap` of
    the files. Arm 3 is Farfield on PLOT3D files in place. The others are Farfield's stores, without compression, with
    pages of 4, 8, 16 and 32 points along an edge, cubed and flat. They take some 17 GB for the largest set, and are
    removed after it. The bytes of a page stand with each arm. All components of an array lie in one page, so a vector's
    page of 8 points is three of the paper's 2 KB pages. Memory: every arm is in a memory cgroup of data / 1, 2, 4, ...
    32 and the base of its process with its lines. The cgroup also counts the page cache. Farfield's limit is the share.
    Local: files evicted before each run. Server: the stores of 8, 16 and 32 points, cubed, at a page server (`farfield
    serve`) on a loopback device of this machine, its files in memory. Remote: the same on a simulated device over files
    in memory. It takes 2 ms a read and serves 32 at a time. Both kinds of arms have the limit but no cgroup; loading
    everything over a network is not measured. Two workers, or one a core if there are fewer. Times are of
    the whole process, each arm at most three times, in turns, and once if it takes half a minute. An arm is stopped and
    marked at ten times the time of Farfield with its default pages at that memory, but not before five seconds. Pages
    touched are of a run with memory for everything and without read-ahead, separately for grid and solution, over the
    arrays read. The working set of a steady set is the pages that a tenth of the lines touches. That of an unsteady one
    is the pages touched of a time step. The only bounds: all arms of a data set give the same lines, and files of all
    layouts the same bytes.
    """
    quick = recorder.quick
    shares = (1, 4) if quick else SHARES
    cache = common.cache(recorder)
    bounded = rights.memory_cgroup().record(recorder)
    rights.eviction(recorder.work).record(recorder)
    rights.drop_caches().record(recorder)
    recorder.condition(
        "a second machine", False, f"a server on this one, and a device of {1e3 * LATENCY_S:g} ms a read"
    )
    spaces = network.namespaces().record(recorder)
    paper = Paper("Cox and Ellsworth")
    touched: list[list[str | float | int]] = []
    sets: list[list[str | float | int]] = []
    with ExitStack() as stack:
        largest = (64 if quick else 4096) * MIB
        swap = stack.enter_context(rights.swap(recorder.work, largest)).record(recorder)
        if not bounded:
            recorder.note(
                "Without the local arms: they need a memory cgroup. Pages touched and the remote arms are here."
            )
        near = stack.enter_context(network.loopback(recorder.work, apart=spaces))
        served = network.page_server(near, recorder.work)
        for one in kin(recorder):
            ways, grown = _ways(recorder, one, cache, swap)
            ways += [_at_server(way, near, served) for way in ways if way.name in SERVED]
            of_set = _Set(recorder, one, ways, cache, bounded)
            of_set.look(touched, paper)
            sets.append([one.title, one.about, one.bytes / MIB, of_set.points, grown])
            for share in shares:
                of_set.run(share)
            of_set.compare()
            _beside(recorder, one, shares, paper)
            for way in ways:
                for path in way.files if way.settings.get("layout") else []:
                    common.remove(path)
    recorder.table("Data sets", ["", "", "MiB", "points of lines", "largest store, times the files"], sets)
    columns = [
        "",
        "grid, %",
        "solution, %",
        "working set, grid, %",
        "working set, solution, %",
        "its most, solution, %",
    ]
    recorder.table("Pages of 16 points touched, share of the bytes of the arrays that are read", columns, touched)
    paper.record(recorder)


def _ways(recorder: Recorder, one: Kin, cache: Path, swap: bool) -> tuple[list[_Way], float]:
    """All arms over a data set, and the size of the largest store over that of the files."""
    in_place = {**one.files, "cache_dir": str(cache)}
    whole = "_pathlines" if one.unsteady else ""
    paged = "pathlines" if one.unsteady else "paged"
    files = [*one.paths, cache]
    ways = [_Way("mmap", {"arm": f"mmap{whole}", **in_place}, files, paged=False)]
    if swap:
        ways.append(_Way("load everything", {"arm": f"read{whole}", **in_place}, files, paged=False, swaps=True))
    ways.append(_Way("in place", {"arm": paged, **in_place}, files, _packing(one.source, "PLOT3D, where it lies")))
    grown = 0.0
    for layout in ("cubed", "flat"):
        for page in (16,) if recorder.quick else PAGES:
            path = recorder.work / f"paging-{one.name}-{layout}-{page}.zarr"
            made = common.convert(
                one.flow, path, page=page, codec="none", layout=layout, limit=512 * MIB, timeout_s=1200
            )
            grown = max(grown, made.json()["bytes_out"] / one.bytes)
            settings = {**_packing(path, f"{layout}, {page} points asked for"), "layout": layout}
            options = {"arm": paged, "source": str(path)}
            ways.append(_Way(f"{layout} {page}", options, [path], settings))
            if layout == "cubed" and page >= 8:
                remote = {**options, "latency_s": LATENCY_S, "readers": 32}
                ways.append(_Way(f"remote, {layout} {page}", remote, [path], settings))
    return ways, grown


def _at_server(way: _Way, near: network.Network, served: network.Served) -> _Way:
    """The same store at the page server."""
    source = f"{served.url}/{way.files[0].name}"
    options = {**way.options, "source": source, "readers": 32}
    return replace(way, name=f"server, {way.name}", options=options, end=near)


def _packing(source: str | Path, words: str) -> dict[str, str]:
    """Contents of a page, from `info` of the first zone."""
    page = arms.run(arms.farfield("info", source, "--json")).json()["zones"][0]["page"]
    one = 4 * page[0] * page[1] * page[2]
    return {"page": f"{words}: {' x '.join(map(str, page))}, {one:,} B a component, {3 * one:,} B a vector"}


class _Set:
    """One data set and its runs."""

    def __init__(self, recorder: Recorder, one: Kin, ways: list[_Way], cache: Path, bounded: bool) -> None:
        self.recorder, self.one, self.ways, self.cache, self.bounded = recorder, one, ways, cache, bounded
        self.digests: set[str] = set()
        self.points = 0
        self.base = 0
        self.runs = 1 if recorder.quick else min(recorder.runs, 3)

    def _way(self, name: str) -> _Way:
        return next(way for way in self.ways if way.name == name)

    def command(self, way: _Way, limit: int, **more: Any) -> list[str]:
        options = {**way.options, "traces": [self.one.spec], "memory_limit": limit, "workers": 0, **more}
        command = arms.inside(**options)
        return command if way.end is None else way.end.at_client(command)

    def look(self, rows: list[list[str | float | int]], paper: Paper) -> None:
        """Pages touched with unlimited memory. Also makes the boxes of the files in place, and measures the base."""
        reference = self._way(REFERENCE)
        arms.run(self.command(self._way("in place"), common.PLENTY), timeout_s=1200).json()
        trace = {**self.one.spec, **({"read_ahead": "none"} if self.one.unsteady else {})}
        run = arms.run(self.command(reference, common.PLENTY, traces=[trace], touched=True), timeout_s=1200)
        row = run.json()["runs"][0]
        self.points = int(row["points"])
        self.digests.add(row["digest"])
        tiny = {"source": reference.options["source"], "traces": [{"seeds": "random:1:1", "max_steps": 1}]}
        self.base = arms.own_bytes(arm="paged", **tiny, memory_limit=64 * MIB)
        grid, solution = self.one.shares(row["touched"]["arrays"])
        small, most = self._working_set(reference, row["touched"]["arrays"])
        rows.append([self.one.title, *(100 * value for value in (grid, solution, *small, most))])
        paper.span(f"{self.one.title}: grid pages touched, %", 100 * grid, 16, 43)
        # Shares of a time step, if there are several.
        paper.span(
            f"{self.one.title}: solution pages touched, %", 100 * (small[1] if self.one.unsteady else solution), 2, 17
        )

    def _working_set(self, way: _Way, arrays: dict[str, Any]) -> tuple[tuple[float, float], float]:
        """Shares of grid and solution, and the largest of the solution."""
        if self.one.unsteady:
            grid, _ = self.one.shares(arrays)
            each = self.one.by_step(arrays)
            return (grid, sum(each) / len(each)), max(each)
        found = []
        for part in self.one.tenths:
            run = arms.run(self.command(way, common.PLENTY, traces=[part], touched=True), timeout_s=1200)
            found.append(self.one.shares(run.json()["runs"][0]["touched"]["arrays"]))
        grids, solutions = zip(*found, strict=True)
        return (sum(grids) / len(grids), sum(solutions) / len(solutions)), max(solutions)

    def run(self, share: int) -> None:
        """All arms at one memory, in turns. The references come first, since their times stop the others."""
        limit = self.one.bytes // share
        first_ones = (REFERENCE, f"remote, {REFERENCE}")
        ways = [*map(self._way, first_ones), *(way for way in self.ways if way.name not in first_ones)]
        remote_s: float | None = None
        local_s: float | None = None
        for turn in range(self.runs):
            for way in ways:
                remote = way.remote
                arm = self.arm(way.name, share)
                done = self.recorder.stopped(arm) or self._long(arm)
                if done or not (remote or self.bounded) or (turn and not self.recorder.measured(arm, "wall_s")):
                    continue
                first = remote_s if remote else local_s
                timeout_s = max(TIMES * first, LEAST_TIMEOUT_S) if first is not None else 1200.0
                wall = self._once(way, arm, share, limit, timeout_s, first)
                if way.name == f"remote, {REFERENCE}":
                    remote_s = remote_s or wall
                elif way.name == REFERENCE:
                    local_s = local_s or wall

    def arm(self, way: str, share: int) -> str:
        return f"{self.one.title}, {_share(share)}: {way}"

    def _long(self, arm: str) -> bool:
        return self.recorder.measured(arm, "wall_s") and self.recorder.median(arm, "wall_s") > SLOW_S

    def _once(self, way: _Way, arm: str, share: int, limit: int, timeout_s: float, first: float | None) -> float | None:
        """One run. Returns its wall time, or None if it did not finish."""
        remote = way.remote
        memory = None if remote else limit + self.base + LINE_BYTES * self.points + SLACK
        settings = {
            "memory": f"{limit / MIB:.4g} MiB",
            "cgroup": "none" if memory is None else f"{memory / MIB:.4g} MiB",
            "page": way.settings.get("page", ""),
        }
        if remote:
            arms.warm(way.files)
        done = arms.run(
            self.command(way, limit if way.paged else min(limit, 32 * MIB)),
            memory_bytes=memory,
            cold=[] if remote else way.files,
            timeout_s=timeout_s,
            swap=way.swaps,
        )
        if done.killed:
            late = done.wall_s >= timeout_s
            # Ten times the reference's time is unknown without that time.
            text = (f"over {TIMES}x" if first is not None else "not done") if late else "killed by its memory limit"
            what: Literal["over", "killed"] = "over" if late else "killed"
            self.recorder.stop(arm, what, text, after_s=done.wall_s if late else None, settings=settings)
            return None
        if done.code != 0 and "memory limit" in done.stderr and "too small" in done.stderr:
            self.recorder.stop(arm, "refused", "the limit is too small for it", settings=settings)
            return None
        found = done.json()
        row = found["runs"][0]
        self.digests.add(row["digest"])
        self.recorder.run(
            arm,
            settings=settings,
            wall_s=done.wall_s,
            cpu_s=done.cpu_s,
            peak_bytes=found["resident_peak_bytes"],
            read_bytes=row["bytes_read"] if way.paged else done.read_bytes,
            disk_bytes=done.read_bytes,
            **({"faults": row["faults"]} if "faults" in row and way.paged else {}),
        )
        return done.wall_s

    def compare(self) -> None:
        """Claims that all arms give the same lines, and all layouts the same files."""
        self.recorder.claim(
            f"{self.one.title}: results that differ between arms", len(self.digests) - 1, "==", 0, right=True
        )
        outputs = {}
        for name in ("in place", REFERENCE, "flat 16"):
            source = self.one.source if name == "in place" else self._way(name).options["source"]
            output = self.recorder.work / f"paging-{self.one.name}-{name.replace(' ', '-')}.npz"
            common.trace(
                source, self.one.seeds, output, limit=common.PLENTY, options=self.one.options, timeout_s=1200
            ).json()
            outputs[name] = output
        common.same_bytes(self.recorder, self.one.title, outputs)
        for output in outputs.values():
            output.unlink()


def _share(share: int) -> str:
    return "all" if share == 1 else f"1/{share}"


def _walls(recorder: Recorder, one: Kin, shares: tuple[int, ...], way: str) -> Iterator[float | None]:
    """Wall times of an arm at the largest and the smallest memory; None without one."""
    for share in (shares[0], shares[-1]):
        arm = f"{one.title}, {_share(share)}: {way}"
        yield recorder.median(arm, "wall_s") if recorder.measured(arm, "wall_s") else None


def _beside(recorder: Recorder, one: Kin, shares: tuple[int, ...], paper: Paper) -> None:
    """The paper's figures of its largest set (F18, 7.4 GB) beside those of a data set."""
    paged, loaded, remote, served, mapped = (
        list(_walls(recorder, one, shares, way))
        for way in (REFERENCE, "load everything", f"remote, {REFERENCE}", f"server, {REFERENCE}", "mmap")
    )
    least = _share(shares[-1])
    if paged[0] and paged[1]:
        paper.ratio(f"{one.title}: paged, {least} of the memory over all", paged[1] / paged[0], 462 / 326)
    for load, page, theirs, memory in zip(loaded, paged, (1052 / 326, 5704 / 462), ("all", least), strict=True):
        arm = f"{one.title}, {memory}: load everything"
        if load and page:
            paper.ratio(f"{one.title}, {memory}: loading everything over paged", load / page, theirs)
        elif recorder.stopped(arm):
            paper.missing(f"{arm} over paged", f"{theirs:.3g}", "stopped: see the arm")
    if remote[0] and paged[0]:
        paper.ratio(f"{one.title}: remote over local, paged, all", remote[0] / paged[0], 183 / 82)
    if remote[1] and paged[1]:
        paper.ratio(f"{one.title}: remote over local, paged, {least}", remote[1] / paged[1], 1.0)
    # Table 7: NFS over 10 Mbit/s, 2.24 of local with most memory and 1.04 with least.
    if served[0] and paged[0]:
        paper.ratio(f"{one.title}: page server over local, paged, all", served[0] / paged[0], 2.24)
    if served[1] and paged[1]:
        paper.ratio(f"{one.title}: page server over local, paged, {least}", served[1] / paged[1], 1.04)
    if mapped[1] and paged[1]:
        paper.side(f"{one.title}, {least}: mmap over paged", mapped[1] / paged[1], 2.0)
