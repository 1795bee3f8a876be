"""Running one arm: a command in a new process, with its data evicted from the page cache and, out of core, inside a memory
cgroup. This is the same for every arm.

A memory cgroup charges the page cache to the process that reads. So an arm gains nothing from files cached by the kernel.

Options and result of each arm of the extension's `bench`, as JSON:

"flat", "flat_turns": the kernel over whole arrays in memory, one line after another, or by the executor; "mmap", "mmap_random",
"read": over PLOT3D files mapped, mapped without reading ahead, or read whole; "paged": over pages.
    {"arm", "source", "q": [paths], "plot3d", "cache_dir", "memory_limit", "workers", "readers", "replacement",
     "traces": [as Dataset.streamlines, with "seeds"],    # one after another over the same open dataset
     "touched": bool,                                     # also list the pages read, which costs time
     "active": lines under way at most (0: as a trace), "latency_s": with "paged", a device as in "overlap"}
    Result: {"opened": {"wall_s", "cpu_s"}, "base_bytes", "peak_bytes", "resident_peak_bytes", "transport", "threads",
             "device_latency_s", "runs": [RUN, with "touched": {"total", "arrays": {name: {"pages", "bytes", "reads",
             "steps": {step: bytes}}}, "again": pages of earlier runs read again}]}
"counters": {"arm"} alone: the cost of counting, in a loop. Result, in nanoseconds: {"lookup": of a page, by a worker, "tally":
    under the pager's lock, "touch": a page noted as touched, "charge": a charge and its release, "ask": a check whether
    an event is wanted, "step": by a thread alone, "shared": by all threads together, "clock"}
"crossings": one thread, the first trace. For each step that changes the zone, requested pages of coordinates, iblank and boxes.
    Result: {"lines", "points", "crossings", "coordinates": [int], "iblank": [int], "boxes": [int], "pages_touched",
             "pages_total"}
"overlap": a store on a device that takes "latency_s" a read, at most "readers" at a time, with "active" tasks (0: as a trace).
    Result: {"paged": RUN, nothing resident, "resident": RUN, the same again, "waiting": RUN, a plain loop that waits for each
             page, "readers", "workers", "latency_s", "latency_seen_s"}; each RUN with "device_reads"
"overlap_disk": {"paged": RUN, "resident": RUN, "reading": RUN, the same pages only read, "pages", ...}; "waiting": true, also
    "waiting": RUN, a plain loop that reads each page when needed, from files dropped from the page cache
"pathlines": pathlines, "rounds" times over the same open dataset; "output" to a file, else lines in memory; "touched" and
    "latency_s" as above. Result: {"runs": [LINES], "peak_bytes", "resident_peak_bytes", "device_latency_s"}
"mmap_pathlines", "read_pathlines": pathlines by a plain loop over PLOT3D files mapped or read whole, time step by time step.
    Result: {"loading": {"wall_s", "cpu_s"}, "threads", "resident_peak_bytes", "runs": [{"wall_s", "cpu_s", "steps", "points",
    "digest"}]}
"recorded": a trace, and a "list" of all its reads, in order. Result: LINES, with "listed_bytes", "listed_reads",
"opening_bytes".
"replayed": {"arm", "list", "memory_limit", "readers"}: these reads once more, as many at a time, and no other work.
    Result: {"wall_s", "cpu_s", "bytes_read", "reads", "direct", "readers", "transport", "resident_peak_bytes"}
"turns": the "traces" one after another, "rounds" times, each over the dataset opened anew. The files and folders of "cold" are
    dropped from the page cache before. Result: {"traces": [[LINES]]}
"windows": pathlines through the steps of a store, "output" to a file. "way": "listed" writes the pages of each window between
    two steps to "list"; "units" reads these pages before it computes the window. Both make a run of each window, and do not
    count the transfer between them. "ours" does any kind of trace. "latency_s": a device as in "overlap". "events": a
    log of this way.
    Result: LINES, with "stats": STATS and "reading": {"windows", "wall_s", "cpu_s",
    "bytes_read", "reads", "faults"}, "device_latency_s", "readers".
LINES = {"wall_s", "cpu_s", "wait_s", "points", "dropped", "faults", "bytes_read", "reads", "evictions", "prefetched",
         "prefetched_used"}, and for lines in memory "prefetch_dropped", "reasons", "digest", "ends".
"page_reads": {"arm", "source": a store, "zone": 0-based, "array", "count", "batch", "rounds", "seed", "memory_limit",
               "readers", "direct": past the page cache, "pread_buffers": 0, or number of buffers for pread and crc32c}
    Result: {"rounds": [{"wall_s", "cpu_s", "bytes_read", "reads", "faults"}], "pages", "page_bytes", "stored_bytes",
             "spanned_bytes": of 4 KiB blocks, mean, "transport", "path"}
"remote_reads": {"arm", "source": address of a file, "bytes": of a read, "depth": demanded reads under way, "ahead": prefetched
    reads under way, "seconds": of the reading, "warm_up_s": of them not counted}
    Result: {"wall_s", "cpu_s", "reads", "bytes", "demand": CLASS, "ahead": CLASS, "resident_peak_bytes"}; CLASS = {"reads",
    "p50_s", "p99_s"}
RUN = {"wall_s", "cpu_s", "lines", "points", "steps", "reasons", "digest": of all positions and times, "restarts",
       "rounds_most": most stops of one line for pages, "wait_s", "faults", "evictions", "bytes_read", "reads",
       "index_faults"}
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield.errors import AccessError, DataError
from farfield.runtime.page_cache import evict, files_in


@dataclass(frozen=True)
class Run:
    """One finished command."""

    code: int
    """Exit code; negative: killed by that signal."""
    wall_s: float
    cpu_s: float
    resident_peak_bytes: int
    """Peak resident bytes of the child, from the kernel. Includes the parent's memory at the child's start."""
    read_bytes: int
    """Bytes from the disk, from the kernel's count."""
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        """Whether it was killed (for example by the memory limit) or ran out of time."""
        return self.code < 0

    def json(self) -> dict[str, Any]:
        """The JSON object that it printed.

        Raises:
            DataError: if it failed, with its messages.
        """
        try:
            if self.code not in (0, 3):
                raise ValueError(f"exit code {self.code}")
            found = json.loads(self.stdout.strip().splitlines()[-1] if "\n" in self.stdout.strip() else self.stdout)
            if not isinstance(found, dict):
                raise ValueError("not an object")
            return found
        except (ValueError, IndexError) as error:
            said = self.stderr.strip().splitlines()[-5:]
            raise DataError(f"an arm failed ({error}): {' '.join(said) or self.stdout[:200]}") from error


def farfield(*words: str | os.PathLike[str]) -> list[str]:
    """The command line of this Farfield, as a command."""
    return [sys.executable, "-m", "farfield", *(os.fspath(w) for w in words)]


def inside(**options: Any) -> list[str]:
    """A command that runs `farfield_bench._native.bench` in a new process and prints its result."""
    code = "import sys; from farfield_bench import _native; print(_native.bench(sys.argv[1]))"
    return [sys.executable, "-c", code, json.dumps(options)]


def own_bytes(**options: Any) -> int:
    """Bytes of a process of `inside` after an arm: its own memory, without mapped files. Those are programs and
    libraries, which other processes share.

    Raises:
        DataError: if the arm fails.
    """
    code = (
        "import sys; from farfield_bench import _native; _native.bench(sys.argv[1])\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('RssAnon:')))"
    )
    done = run([sys.executable, "-c", code, json.dumps(options)])
    if done.code != 0 or not done.stdout.strip().isdigit():
        raise DataError(f"an arm failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    return int(done.stdout) * 1024


ENVIRONMENTS = Path(sys.prefix).parent / ".peers"
"""The folder of environments made by `make bench-setup`, beside this one."""


def environment(name: str) -> Path | None:
    """The Python of a peer's own environment; None without one."""
    python = ENVIRONMENTS / name / "bin" / "python"
    return python if python.exists() else None


def has_vtk() -> bool:
    """Whether VTK is installed, in an environment of its own or in ours."""
    from farfield_bench.peers import version

    return environment("vtk") is not None or bool(version("vtk"))


def _of_peer(name: str, module: str, *words: str) -> list[str]:
    """A command that runs one of our modules in a peer's environment, or in ours if there is none. A peer's environment
    has our dependencies, but not Farfield.
    """
    python = environment(name)
    if python is None:
        return [sys.executable, "-m", module, *words]
    code = (
        "import runpy, sys; sys.path[:0] = [sys.argv.pop(1), sys.argv.pop(1)]; "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    packages = (
        Path(module.__file__ or "").parents[1] for module in (sys.modules["farfield"], sys.modules[__package__])
    )
    return [os.fspath(python), "-c", code, *map(os.fspath, packages), *words]


def peer(name: str, **options: Any) -> list[str]:
    """A command that runs a function of `farfield_bench.peers` in a new process and prints its result."""
    # A function has the name of its peer.
    return _of_peer(
        "zarrs" if options.get("zarrs") else name.split("_")[0], "farfield_bench.peers", name, json.dumps(options)
    )


def remote_peer(name: str, **options: Any) -> list[str]:
    """A command that runs a function of `farfield_bench.remote_peers` in a new process and prints its result."""
    return _of_peer(name.split("_")[0], "farfield_bench.remote_peers", name, json.dumps(options))


def vtk_particles(**options: Any) -> list[str]:
    """A command that runs VTK's particle tracer in a new process and prints its result."""
    return _of_peer("vtk", "farfield_bench.tracing_peers", json.dumps(options))


def vtk_volumes(name: str, **options: Any) -> list[str]:
    """A command that runs a function of `farfield_bench.volume_peers` in a new process and prints its result."""
    return _of_peer("vtk", "farfield_bench.volume_peers", name, json.dumps(options))


PARCELS = ENVIRONMENTS / "parcels"
"""Parcels runs only in its own environment, since it cannot share ours."""


def parcels(**options: Any) -> list[str]:
    """A command that runs Parcels in its environment and prints its result."""
    script = Path(__file__).with_name("parcels_peer.py")
    return [os.fspath(PARCELS / "bin" / "python"), os.fspath(script), json.dumps(options)]


def warm(paths: Iterable[Path]) -> None:
    """Brings files into the page cache."""
    for file in files_in(paths):
        with file.open("rb", buffering=0) as f:
            while f.read(1 << 20):
                pass


MOST_READY = 10 << 30
"""No arm takes more: VTK, the largest, 8 GiB."""
QUICK_READY = 64 << 20
"""In quick runs, without times to quote: touching a gigabyte before each arm takes longer than most arms."""
POPULATE_WRITE = 23
"""`MADV_POPULATE_WRITE` of Linux 5.14, which Python's `mmap` lacks."""


_most_ready = MOST_READY


def quickly(quick: bool) -> None:
    """Sets whether later runs are quick ones."""
    global _most_ready
    _most_ready = QUICK_READY if quick else MOST_READY


def ready_memory(wanted: int) -> None:
    """Touches so many bytes of memory, at most half of the free memory, and frees them.

    A virtual machine returns free memory to its host, and touching it again can cost seconds a GiB. 2.6 were measured, and
    0.16 for memory that the machine still had. An arm would pay this if it takes more memory than the one before.
    """
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(wanted, _most_ready, pages // 2)
    if size > 0:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            try:
                memory.madvise(mmap.MADV_HUGEPAGE)
                memory.madvise(POPULATE_WRITE)
            except OSError:  # an older kernel: page by page
                memory[:: mmap.PAGESIZE] = bytes(-(-size // mmap.PAGESIZE))


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    memory_bytes: int | None = None,
    takes_bytes: int | None = None,
    cold: Iterable[Path] = (),
    timeout_s: float = 600.0,
    cores: Sequence[int] | None = None,
    swap: bool = False,
) -> Run:
    """Runs a command to its end, after `ready_memory` for it.

    `memory_bytes` is the size of its cgroup. `takes_bytes` is its expected memory, page cache included. It is needed if
    that is not the cgroup's, and much less than four times the files read. `cold` are files evicted before, `cores` the
    cores of the run. `swap`: its memory may go to swap space. A run longer than `timeout_s` is killed and has code -9.

    Raises:
        AccessError: if a requested cgroup cannot be made (it needs root).
    """
    cold = files_in(cold)
    ready_memory(memory_bytes or takes_bytes or 4 * sum(f.stat().st_size for f in cold) + (1 << 30))
    evict(cold)
    with (
        memory_group(memory_bytes, swap=swap) as group,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):

        def enter() -> None:  # in the child, before it executes the command
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))
            if cores is not None:
                os.sched_setaffinity(0, cores)

        begun = time.monotonic()
        child = subprocess.Popen(
            [os.fspath(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=enter
        )
        late = threading.Timer(timeout_s, child.kill)
        late.start()
        try:
            # Not `wait`: only this gives the usage of one child.
            _, status, used = os.wait4(child.pid, 0)
        finally:
            late.cancel()
        wall = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Run(
        code=child.returncode,
        wall_s=wall,
        cpu_s=used.ru_utime + used.ru_stime,
        resident_peak_bytes=used.ru_maxrss * 1024,
        read_bytes=used.ru_inblock * 512,
        stdout=texts[0],
        stderr=texts[1],
    )


@contextmanager
def memory_group(memory_bytes: int | None, *, swap: bool = False) -> Iterator[Path | None]:
    """A new memory cgroup, version 1 or 2, removed at the end. Its memory goes to swap space only with `swap`.

    Raises:
        AccessError: if it cannot be made (it needs root).
    """
    if memory_bytes is None:
        yield None
        return
    name = f"farfield-{uuid.uuid4().hex[:12]}"
    old = Path("/sys/fs/cgroup/memory")
    group = (old if old.is_dir() else Path("/sys/fs/cgroup")) / name
    try:
        group.mkdir()
        if old.is_dir():
            (group / "memory.limit_in_bytes").write_text(str(memory_bytes))
            (group / "memory.swappiness").write_text("60" if swap else "0")
        else:
            (group / "memory.max").write_text(str(memory_bytes))
            (group / "memory.swap.max").write_text("max" if swap else "0")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        raise AccessError(f"{group}: cannot make a memory cgroup: {error.strerror}; run as root") from error
    try:
        yield group
    finally:
        for _ in range(50):  # a killed child leaves its group a moment after its wait
            try:
                group.rmdir()
                break
            except OSError:  # not empty yet
                time.sleep(0.1)
