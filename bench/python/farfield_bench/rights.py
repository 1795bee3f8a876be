"""Rights of an experiment on a machine: to bound memory, to evict files from the page cache, to swap. Each has a text
for its absence.

A missing right is never replaced by another under its name. Arms that need it are left out, and the result's conditions
list it.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farfield.errors import AccessError
from farfield.runtime.page_cache import evict
from farfield.runtime.sizes import format_bytes
from farfield_bench import arms
from farfield_bench.machine import describe_machine
from farfield_bench.result import Recorder

SWAPS = Path("/proc/swaps")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
SMALL = 64 << 20
"""Bytes of the cgroup made as a test."""


@dataclass(frozen=True)
class Right:
    """Whether this machine permits an operation."""

    what: str
    here: bool
    why: str = ""
    """Why not; or how, if there are several ways."""

    def record(self, recorder: Recorder) -> bool:
        """Records it among the conditions of a result. Returns whether it is granted."""
        return recorder.condition(self.what, self.here, self.why)


def memory_cgroup() -> Right:
    """Whether arms can be bounded in memory, page cache included."""
    what = "memory cgroup"
    try:
        with arms.memory_group(SMALL):
            return Right(what, True)
    except AccessError as error:
        return Right(what, False, str(error))


def drop_caches() -> Right:
    """Whether the kernel's caches as a whole can be dropped: not only pages of files, but the names and places of files, too."""
    what = "dropping the kernel's caches"
    if not DROP_CACHES.exists():
        return Right(what, False, f"there is no {DROP_CACHES}")
    if not os.access(DROP_CACHES, os.W_OK):
        return Right(what, False, f"{DROP_CACHES} cannot be written; run as root")
    return Right(what, True)


def eviction(folder: Path) -> Right:
    """Whether files of a folder can be evicted from the page cache. Those of a file system in memory cannot, and are
    never cold.
    """
    what = "evicting files from the page cache"
    kind = describe_machine(folder).disk.split()[0]
    if kind in ("tmpfs", "ramfs"):
        return Right(what, False, f"{folder} is a {kind}, which is memory")
    path = folder / ".evict-probe"
    try:
        path.write_bytes(bytes(1 << 16))
        evict([path])
        number = os.open(path, os.O_RDONLY)
        try:
            # Returns bytes in the page cache, and fails with EAGAIN instead of reading.
            os.preadv(number, [bytearray(1 << 12)], 0, os.RWF_NOWAIT)
            return Right(what, False, f"files in {folder} stay in memory")
        finally:
            os.close(number)
    except BlockingIOError:
        return Right(what, True)
    except (AttributeError, OSError) as error:
        # An older system, or a file system without this check: trusted, as `posix_fadvise` is everywhere else.
        if isinstance(error, AttributeError) or error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            return Right(what, True, "not checked: the file system does not say what it has in memory")
        return Right(what, False, str(error))
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def swap(folder: Path, size: int) -> Iterator[Right]:
    """Swap space within a context: the existing one, or a file in a folder, if permitted. The file is removed at the
    end.
    """
    what = "swap space"
    there = _swaps()
    if there > 0:
        yield Right(what, True, f"{format_bytes(there)} that were there")
        return
    path = folder.resolve() / "swap-space"
    why = _make_swap(path, size)
    try:
        yield Right(what, not why, why or f"{format_bytes(size)} in a file of the working folder")
    finally:
        if not why:
            subprocess.run(["swapoff", str(path)], capture_output=True, check=False)
        path.unlink(missing_ok=True)


def _swaps() -> int:
    """Bytes of swap space."""
    try:
        rows = SWAPS.read_text(encoding="utf-8").splitlines()[1:]
        return sum(int(row.split()[2]) * 1024 for row in rows)
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel without swap
        return 0


def _make_swap(path: Path, size: int) -> str:
    """Makes swap space. Returns why it failed; empty on success."""
    if not SWAPS.exists():
        return "this kernel has none"
    if os.geteuid() != 0:
        return "there is none, and making some needs root"
    for tool in ("mkswap", "swapon", "swapoff"):
        if shutil.which(tool) is None:
            return f"there is none, and no {tool} to make some"
    if shutil.disk_usage(path.parent).free < 2 * size:
        return f"there is none, and less than twice {format_bytes(size)} are free for some"
    try:
        with path.open("wb") as file:
            path.chmod(0o600)
            # Allocated blocks: the kernel refuses a file with holes.
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        return f"there is none, and {path.name} cannot be made: {error.strerror}"
    for command in (["mkswap", str(path)], ["swapon", str(path)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"there is none, and {command[0]} fails: {' '.join(done.stderr.split())[:200]}"
    return ""
