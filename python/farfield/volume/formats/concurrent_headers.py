"""Concurrent reading of the headers of many files, since each takes round trips on a file server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from farfield.errors import Interrupted
from farfield.runtime.progress import Report
from farfield.sources import places

AT_ONCE = 16
"""Concurrent reads; more would wait for Python's lock."""
_AHEAD = 256
"""Headers read ahead of use."""
_T = TypeVar("_T")


def each(files: Sequence[str], read: Callable[[str], _T], progress: Report | None = None) -> Iterator[_T]:
    """The results of `read` for each file, in order. The first failed file raises its error.

    Raises:
        Interrupted: if the report function returns False.

    >>> list(each(["b", "a"], str.upper))
    ['B', 'A']
    """
    if len(files) < (2 if any(map(places.is_remote, files)) else 2 * AT_ONCE):
        yield from map(read, files)
        return
    places.prefetch_stats(files)
    # Threads are parts of the present opening.
    read = places.bound(read)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="headers") as pool:
        for first in range(0, len(files), _AHEAD):
            if progress is not None and not progress("headers", float(first), float(len(files))):
                raise Interrupted("interrupted")
            yield from pool.map(read, files[first : first + _AHEAD])
