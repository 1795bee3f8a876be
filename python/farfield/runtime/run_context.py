"""What one run finds out about its sources: found once, however often the run opens them, and said once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast


@dataclass
class _Run:
    quiet: bool = False
    found: dict[Hashable, Any] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)


_T = TypeVar("_T")
_RUN: ContextVar[_Run | None] = ContextVar("farfield_run", default=None)


@contextmanager
def run(*, quiet: bool = False) -> Iterator[None]:
    """One run: a command line, or a picture with all that is looked at for it. One within another is a part of that.

    What lies between two runs may have changed, so nothing is kept from one to the next.
    """
    if _RUN.get() is not None:
        yield
        return
    token = _RUN.set(_Run(quiet))
    try:
        yield
    finally:
        _RUN.reset(token)


def once(key: Hashable, find: Callable[[], _T]) -> _T:
    """What `find` gives, asked once a run; outside of runs each time.

    >>> asked = []
    >>> with run():
    ...     [once("a", lambda: asked.append(1) or len(asked)) for _ in range(3)]
    [1, 1, 1]
    """
    inside = _RUN.get()
    if inside is None:
        return find()
    if key not in inside.found:
        inside.found[key] = find()
    return cast("_T", inside.found[key])


def to_stderr(text: str) -> None:
    """A note on stderr: once a run, and never in one that is quiet."""
    inside = _RUN.get()
    if inside is not None:
        if inside.quiet or text in inside.said:
            return
        inside.said.add(text)
    print(f"farfield: note: {text}", file=sys.stderr, flush=True)


def remark(path: str, sentence: str) -> None:
    """Says of a source what was taken for granted on the way, and keeps it for the notes of the run's result."""
    inside = _RUN.get()
    if inside is not None and sentence not in inside.remarks:
        inside.remarks.append(sentence)
    to_stderr(f"{path}: {sentence}")


def remarks() -> list[str]:
    """What was remarked in this run so far.

    >>> with run(quiet=True):
    ...     remark("a.tif", "9999 is taken for no value")
    ...     remarks()
    ['9999 is taken for no value']
    """
    inside = _RUN.get()
    return list(inside.remarks) if inside is not None else []
