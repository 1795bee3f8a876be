"""The machine of the measurements."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Machine(BaseModel):
    """A machine, as far as it bears on the figures."""

    model_config = ConfigDict(extra="forbid")

    cpu: str
    cores: int
    """Cores that this process may use."""
    memory_bytes: int
    """Memory of the machine, or of the cgroup if that is less."""
    kernel: str
    python: str
    farfield: str
    disk: str
    """File system and device kind of the working folder."""


def describe_machine(folder: Path = Path()) -> Machine:
    """The machine of this process."""
    from farfield._version import __version__
    from farfield.runtime.sizes import available_memory

    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=available_memory(),
        kernel=platform.release(),
        python=platform.python_version(),
        farfield=__version__,
        disk=_disk(folder),
    )


def versions(head: str | None) -> dict[str, str]:
    """Versions of the programs in every experiment, by name."""
    import numpy

    from farfield._version import __version__

    return {
        "farfield": f"{__version__} at {head or 'no commit'}",
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "linux": platform.release(),
    }


def commit(folder: Path = Path()) -> str | None:
    """The checkout's commit, with a `+` if files differ from it; None outside a checkout."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
        except OSError:  # git is not installed
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "--short=12", "HEAD")
    return None if head is None else head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux: the platform's name instead
    return platform.processor() or platform.machine()


def _disk(folder: Path) -> str:
    """The mount that holds a folder, from the longest mount point above it."""
    here = str(folder.resolve())
    best = ("", "unknown")
    try:
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            left, _, right = line.partition(" - ")
            point = left.split()[4]
            kind, device = right.split()[:2]
            inside = here == point or here.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best[0]):
                best = (point, f"{kind} on {device}")
    except (OSError, IndexError, ValueError):  # not Linux, or not in the form of its manual
        return "unknown"
    return best[1]
