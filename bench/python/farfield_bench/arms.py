"""Running one arm: a command in a process of its own, with its data evicted from the page cache and, out of core, inside a
memory cgroup, every arm alike.

A memory cgroup charges the page cache to the process that reads, so that an arm cannot win by files that the kernel keeps.

What each arm of the extension's `bench` takes and gives, as JSON:

"flat", "flat_turns": the kernel over whole arrays in memory, one line after another, or by the executor; "mmap", "mmap_random",
"read": over PLOT3D files mapped, mapped without reading ahead, or read whole; "paged": over pages.
    {"arm", "source", "q": [paths], "plot3d", "cache_dir", "memory_limit", "workers", "readers", "replacement",
     "traces": [as Dataset.streamlines, with "seeds"],    # one after another over the same open dataset
     "touched": bool,                                     # also list the pages that were read, which costs time
     "active": lines under way at most (0: as a trace), "latency_s": of "paged", a store on a device as that of "overlap"}
    Result: {"opened": {"wall_s", "cpu_s"}, "base_bytes", "peak_bytes", "resident_peak_bytes", "transport", "threads",
             "device_latency_s", "runs": [RUN, with "touched": {"total", "arrays": {name: {"pages", "bytes", "reads",
             "steps": {step: bytes}}}, "again": pages of earlier runs read again}]}
"counters": {"arm"} alone: what counting costs, in a loop. Result, in nanoseconds: {"lookup": of a page, by a worker, "tally":
    under the pager's lock, "touch": a page noted as touched, "charge": a charge and its release, "ask": whether anybody wants
    an event, "step": by a thread for itself, "shared": by all threads together, "clock"}
"crossings": one thread, the first trace; for each step that changed the zone, pages of coordinates, iblank and boxes asked for.
    Result: {"lines", "points", "crossings", "coordinates": [int], "iblank": [int], "boxes": [int], "pages_touched",
             "pages_total"}
"overlap": a store behind a device that takes "latency_s" a read, at most "readers" at a time, "active" tasks (0: as a trace).
    Result: {"paged": RUN, nothing resident, "resident": RUN, the same again, "waiting": RUN, a plain loop that waits for each
             page, "readers", "workers", "latency_s", "latency_seen_s"}; each RUN with "device_reads"
"overlap_disk": {"paged": RUN, "resident": RUN, "reading": RUN, the same pages only read, "pages", ...}; "waiting": true, also
    "waiting": RUN, a plain loop that reads each page where it needs it, from files dropped from the page cache
"pathlines": pathlines, "rounds" times over the same open dataset; "output" to a file, else lines in memory; "touched" and
    "latency_s" as above. Result: {"runs": [LINES], "peak_bytes", "resident_peak_bytes", "device_latency_s"}
"mmap_pathlines", "read_pathlines": pathlines by a plain loop over PLOT3D files mapped or read whole, time step by time step.
    Result: {"loading": {"wall_s", "cpu_s"}, "threads", "resident_peak_bytes", "runs": [{"wall_s", "cpu_s", "steps", "points",
    "digest"}]}
"recorded": a trace, and a "list" of every read that it makes, in order. Result: LINES, with "listed_bytes", "listed_reads",
"opening_bytes".
"replayed": {"arm", "list", "memory_limit", "readers"}: those reads once more, as many at a time, and nothing else.
    Result: {"wall_s", "cpu_s", "bytes_read", "reads", "direct", "readers", "transport", "resident_peak_bytes"}
"turns": the "traces" one after another, "rounds" times, each over the dataset opened anew, with the files and folders of "cold"
    dropped from the page cache before. Result: {"traces": [[LINES]]}
"windows": pathlines through the steps of a store, "output" to a file; "way": "listed" (which pages each window between two
    steps takes goes to "list"), "units" (those are read before anything goes on in it), "ours", which takes any kind of
    trace; both others make a run of each window, and count no handing on between them; "latency_s": on a device
    as that of "overlap"; "events": a log of this way.
    Result: LINES, with "stats": STATS and "reading": {"windows", "wall_s", "cpu_s",
    "bytes_read", "reads", "faults"}, "device_latency_s", "readers"
LINES = {"wall_s", "cpu_s", "wait_s", "points", "dropped", "faults", "bytes_read", "reads", "evictions", "prefetched",
         "prefetched_used"}, and of lines in memory "prefetch_dropped", "reasons", "digest", "ends"
"page_reads": {"arm", "source": a store, "zone": 0-based, "array", "count", "batch", "rounds", "seed", "memory_limit",
               "readers", "direct": past the page cache, "pread_buffers": 0, or by pread and crc32c into so many buffers}
    Result: {"rounds": [{"wall_s", "cpu_s", "bytes_read", "reads", "faults"}], "pages", "page_bytes", "stored_bytes",
             "spanned_bytes": of 4 KiB blocks, mean, "transport", "path"}
RUN = {"wall_s", "cpu_s", "lines", "points", "steps", "reasons", "digest": of all positions and times, "restarts",
       "rounds_most": most times that one line had to stop for pages, "wait_s", "faults", "evictions", "bytes_read", "reads",
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
    """As the kernel counts it for the child; includes what the parent held when the child was started."""
    read_bytes: int
    """From the disk, as the kernel counts them."""
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        """Whether it was killed (as by the memory limit) or ran out of time."""
        return self.code < 0

    def json(self) -> dict[str, Any]:
        """The object that it printed.

        Raises:
            DataError: if it failed, with what it said.
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
    """A command that runs `farfield_bench._native.bench` in a process of its own and prints what it gives."""
    code = "import sys; from farfield_bench import _native; print(_native.bench(sys.argv[1]))"
    return [sys.executable, "-c", code, json.dumps(options)]


def own_bytes(**options: Any) -> int:
    """What a process of `inside` holds for itself when it has run an arm: memory of its own, without the files that it has mapped
    (programs and libraries, which others have in memory too).

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
"""The environments that `make bench-setup` makes, beside this one."""


def environment(name: str) -> Path | None:
    """The Python of a peer's own environment, if that was made."""
    python = ENVIRONMENTS / name / "bin" / "python"
    return python if python.exists() else None


def has_vtk() -> bool:
    """Whether VTK is installed, in an environment of its own or in ours."""
    from farfield_bench.peers import version

    return environment("vtk") is not None or bool(version("vtk"))


def _of_peer(name: str, module: str, *words: str) -> list[str]:
    """A command that runs a module of ours in a peer's environment, which has what we need but not us; in ours if there is none."""
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
    """A command that runs a function of `farfield_bench.peers` in a process of its own and prints what it gives."""
    # A function is called after whom it runs.
    return _of_peer(
        "zarrs" if options.get("zarrs") else name.split("_")[0], "farfield_bench.peers", name, json.dumps(options)
    )


def vtk_particles(**options: Any) -> list[str]:
    """A command that runs VTK's particle tracer in a process of its own and prints what it gives."""
    return _of_peer("vtk", "farfield_bench.tracing_peers", json.dumps(options))


def vtk_volumes(name: str, **options: Any) -> list[str]:
    """A command that runs a function of `farfield_bench.volume_peers` in a process of its own and prints what it gives."""
    return _of_peer("vtk", "farfield_bench.volume_peers", name, json.dumps(options))


PARCELS = ENVIRONMENTS / "parcels"
"""Without it there is no Parcels: it cannot share an environment with us."""


def parcels(**options: Any) -> list[str]:
    """A command that runs Parcels in its environment and prints what it gives."""
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
"""In quick runs, whose times are none to quote: touching a gigabyte before each arm takes longer than most of them."""
POPULATE_WRITE = 23
"""`MADV_POPULATE_WRITE` of Linux 5.14, which Python's `mmap` does not name."""


_most_ready = MOST_READY


def quickly(quick: bool) -> None:
    """Says whether the runs from now on are quick ones."""
    global _most_ready
    _most_ready = QUICK_READY if quick else MOST_READY


def ready_memory(wanted: int) -> None:
    """Touches so many bytes of memory, at most half of what is free, and gives them back.

    A virtual machine gives free memory back to its host, and touching it again can cost seconds a GiB (2.6 were seen, and
    0.16 for memory that the machine still had). That would fall on whichever arm takes memory that the one before did not.
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
    """Runs a command to its end, after `ready_memory` for it. `memory_bytes`: inside a cgroup of that size; `takes_bytes`:
    memory that it will take, page cache included, if that is not the cgroup's and much less than four times the files that it
    may read; `cold`: files evicted before; `cores`: that it may use; `swap`: its memory may go to swap space. A run that takes
    longer than `timeout_s` is killed and has code -9.

    Raises:
        AccessError: if a cgroup is asked for and cannot be made (it needs root).
    """
    cold = files_in(cold)
    ready_memory(memory_bytes or takes_bytes or 4 * sum(f.stat().st_size for f in cold) + (1 << 30))
    evict(cold)
    with (
        memory_group(memory_bytes, swap=swap) as group,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):

        def enter() -> None:  # in the child, before it becomes the command
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
            # Not `wait`: only this says what this one child used.
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
    """A new memory cgroup, version 1 or 2, removed at the end. What is in it does not go to swap space unless that is said.

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
        for _ in range(50):  # a killed child leaves its group a moment after it was waited for
            try:
                group.rmdir()
                break
            except OSError:  # not empty yet
                time.sleep(0.1)
