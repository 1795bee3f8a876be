"""Checks that the memory limit holds an array for the caller, before any read."""

from __future__ import annotations

from farfield.errors import MemoryLimitError
from farfield.runtime.sizes import format_bytes

SLAB = 64 << 20
"""Bytes per read into an array of the caller."""


def check_room(name: str, count: int, limit: int, what: str, way: str) -> None:
    """Refuses a result that is larger than the memory limit.

    Args:
        name: The source as the caller gave it.
        count: Size of the result in bytes.
        limit: The memory limit in bytes.
        what: Noun for the result, for the message.
        way: Advice for the message.

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
