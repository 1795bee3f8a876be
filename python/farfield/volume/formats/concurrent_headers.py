"""Headers of many files, several at a time: on a file server each of them takes a round trip, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from farfield.errors import Interrupted
from farfield.runtime.progress import Report

AT_ONCE = 16
"""Files that are looked at together: more would wait for Python."""
_AHEAD = 256
"""Headers that are read ahead of the one that is wanted."""
_T = TypeVar("_T")


def each(files: Sequence[str], read: Callable[[str], _T], progress: Report | None = None) -> Iterator[_T]:
    """What `read` gives of each file, in their order; the first that fails raises what it raises.

    Raises:
        Interrupted: if the report function says so.

    >>> list(each(["b", "a"], str.upper))
    ['B', 'A']
    """
    if len(files) < 2 * AT_ONCE:
        yield from map(read, files)
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="headers") as pool:
        for first in range(0, len(files), _AHEAD):
            if progress is not None and not progress("headers", float(first), float(len(files))):
                raise Interrupted("interrupted")
            yield from pool.map(read, files[first : first + _AHEAD])
