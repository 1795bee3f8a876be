"""Arrays that are handed to the caller: whether the memory limit holds them, before anything is read."""

from __future__ import annotations

from farfield.errors import MemoryLimitError
from farfield.runtime.sizes import format_bytes

SLAB = 64 << 20
"""Bytes that are read at a time into an array of the caller."""


def check_room(name: str, count: int, limit: int, what: str, way: str) -> None:
    """Refuses what is larger than the memory limit.

    Args:
        name: What was opened.
        count: Bytes of the result.
        limit: The memory limit in bytes.
        what: The result, in words.
        way: What to do instead.

    Raises:
        MemoryLimitError: with both sizes.

    >>> check_room("wing.xyz", 3 << 20, 2 << 20, "its grid", "take one zone")
    Traceback (most recent call last):
    farfield.errors.MemoryLimitError: wing.xyz: its grid takes 3.0 MiB, more than the memory limit of 2.0 MiB; take one zone
    """
    if count > limit:
        raise MemoryLimitError(
            f"{name}: {what} takes {format_bytes(count)}, more than the memory limit of {format_bytes(limit)}; {way}"
        )
