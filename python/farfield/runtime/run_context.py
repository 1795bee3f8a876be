"""Findings of one run about its sources: computed once, and reported once, however often the run opens them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from farfield.sources import places


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
    """The context of one run: a command line, or a picture with all that it reads. A nested run is part of the outer
    one.

    Nothing is shared between runs, since files may change in between.
    """
    if _RUN.get() is not None:
        yield
        return
    token = _RUN.set(_Run(quiet))
    try:
        with places.opening():
            yield
    finally:
        _RUN.reset(token)


def once(key: Hashable, find: Callable[[], _T]) -> _T:
    """The result of `find`, called once per run; without a run, each time.

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
    """Prints a note to stderr, once per run, and never in a quiet run."""
    inside = _RUN.get()
    if inside is not None:
        if inside.quiet or text in inside.said:
            return
        inside.said.add(text)
    print(f"farfield: note: {text}", file=sys.stderr, flush=True)


def remark(path: str, sentence: str) -> None:
    """Notes an assumption about a source on stderr, and keeps it for the run's result."""
    inside = _RUN.get()
    if inside is not None and sentence not in inside.remarks:
        inside.remarks.append(sentence)
    to_stderr(f"{path}: {sentence}")


def remarks() -> list[str]:
    """The remarks of this run so far.

    >>> with run(quiet=True):
    ...     remark("a.tif", "9999 is taken for no value")
    ...     remarks()
    ['9999 is taken for no value']
    """
    inside = _RUN.get()
    return list(inside.remarks) if inside is not None else []
