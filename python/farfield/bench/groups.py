"""Control groups of Linux, versions 1 and 2, that arms run in: memory that is bounded, a disk that is slow. Both need root."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farfield.errors import AccessError

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Disk:
    """How fast a disk is read at most."""

    folder: Path
    """Any on it."""
    bytes_per_s: int

    @property
    def device(self) -> str:
        """Its numbers, as the kernel names whole devices: MAJOR:MINOR.

        Raises:
            AccessError: if the folder lies on no device.
        """
        number = self.folder.stat().st_dev
        own = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
        if not own.is_dir():
            raise AccessError(f"{self.folder}: cannot bound how fast it is read: it lies on no block device")
        whole = own.parent if (own / "partition").exists() else own
        return (whole / "dev").read_text(encoding="ascii").strip()


@contextmanager
def memory(memory_bytes: int | None, *, swap: bool = False) -> Iterator[Path | None]:
    """A new group with so much memory, page cache included, removed at the end. What is in it does not go to swap space unless
    that is said.

    Raises:
        AccessError: if it cannot be made.
    """
    if memory_bytes is None:
        yield None
        return
    old = {"memory.limit_in_bytes": str(memory_bytes), "memory.swappiness": "60" if swap else "0"}
    new = {"memory.max": str(memory_bytes), "memory.swap.max": "max" if swap else "0"}
    with _group("memory", old, new) as group:
        yield group


@contextmanager
def disk(slow: Disk | None) -> Iterator[Path | None]:
    """A new group whose reads of a disk take their time, removed at the end.

    Raises:
        AccessError: if it cannot be made.
    """
    if slow is None:
        yield None
        return
    old = {"blkio.throttle.read_bps_device": f"{slow.device} {slow.bytes_per_s}"}
    new = {"io.max": f"{slow.device} rbps={slow.bytes_per_s}"}
    with _group("blkio", old, new) as group:
        yield group


@contextmanager
def _group(controller: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Path]:
    """A group of version 1 with `old` in its files, where that controller is there, else one of version 2 with `new`."""
    first = (ROOT / controller).is_dir()
    group = (ROOT / controller if first else ROOT) / f"farfield-{uuid.uuid4().hex[:12]}"
    try:
        group.mkdir()
        for name, text in (old if first else new).items():
            (group / name).write_text(text)
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        raise AccessError(f"{group}: cannot make a {controller} cgroup: {error.strerror}; run as root") from error
    try:
        yield group
    finally:
        for _ in range(50):  # a killed child leaves its group a moment after it was waited for
            try:
                group.rmdir()
                break
            except OSError:  # not empty yet
                time.sleep(0.1)
