"""Running one arm: a command in a process of its own, with its data evicted from the page cache and, out of core, inside a
memory cgroup, every arm alike.

A memory cgroup charges the page cache to the process that reads, so that an arm cannot win by files that the kernel keeps.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farfield.errors import AccessError, DataError


@dataclass(frozen=True)
class Run:
    """One finished command."""

    code: int
    """Exit code; negative: killed by that signal."""
    wall_s: float
    cpu_s: float
    resident_peak_bytes: int
    read_bytes: int
    """From the disk, as the cgroup or the kernel counts them; -1 where they are not counted."""
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        """Whether it was killed (as by the memory limit) or ran out of time."""
        return self.code < 0


def evict(paths: Iterable[Path]) -> None:
    """Takes files out of the page cache. Their dirty pages are written first: only clean ones can go.

    Raises:
        DataError: if a file cannot be opened.
    """
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if not file.is_file():
                continue
            try:
                number = os.open(file, os.O_RDONLY)
            except OSError as error:
                raise DataError(f"{file}: cannot evict it: {error.strerror}") from error
            try:
                os.fsync(number)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    memory_bytes: int | None = None,
    cold: Iterable[Path] = (),
    timeout_s: float = 600.0,
    cores: Sequence[int] | None = None,
) -> Run:
    """Runs a command to its end. `memory_bytes`: inside a cgroup of that size; `cold`: files evicted before; `cores`: that it
    may use. A run that takes longer than `timeout_s` is killed and has code -9.

    Raises:
        AccessError: if a cgroup is asked for and cannot be made (it needs root).
    """
    evict(cold)
    with _group(memory_bytes) as group:
        begun = time.monotonic()

        def enter() -> None:  # in the child, before it becomes the command
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))
            if cores is not None:
                os.sched_setaffinity(0, cores)

        child = subprocess.Popen(
            [os.fspath(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=enter,
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
        wall = time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(
        code=child.returncode,
        wall_s=wall,
        cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        resident_peak_bytes=after.ru_maxrss * 1024,
        read_bytes=(after.ru_inblock - before.ru_inblock) * 512,
        stdout=out,
        stderr=err,
    )


@contextmanager
def _group(memory_bytes: int | None) -> Iterator[Path | None]:
    """A new memory cgroup, version 1 or 2, removed at the end."""
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
        else:
            (group / "memory.max").write_text(str(memory_bytes))
            (group / "memory.swap.max").write_text("0")
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
            except OSError:
                time.sleep(0.1)
