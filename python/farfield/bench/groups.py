"""Control groups of Linux, versions 1 and 2, in which arms have so much memory and no more. They need root."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farfield.errors import AccessError

ROOT = Path("/sys/fs/cgroup")


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
    first = (ROOT / "memory").is_dir()
    if first:
        settings = {"memory.limit_in_bytes": str(memory_bytes), "memory.swappiness": "60" if swap else "0"}
    else:
        settings = {"memory.max": str(memory_bytes), "memory.swap.max": "max" if swap else "0"}
    group = (ROOT / "memory" if first else ROOT) / f"farfield-{uuid.uuid4().hex[:12]}"
    try:
        group.mkdir()
        for name, text in settings.items():
            (group / name).write_text(text)
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
