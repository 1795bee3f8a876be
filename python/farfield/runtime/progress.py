"""Progress on a terminal: a bar on stderr, made only when a run has taken a second, and gone when it ends.

>>> with reporting(False) as report:
...     print(report)
None
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Report = Callable[[str, float, float], bool]
"""`report(phase, done, total)`; total is 0 where it is not known. False cancels the run."""

PATIENCE_S = 1.0
"""A run shorter than this shows nothing: a bar that flashes by tells nobody anything."""


class Bar:
    """A `Report` that draws."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._phase = ""

    def __call__(self, phase: str, done: float, total: float) -> bool:
        """Shows where the run stands; never cancels it (Ctrl-C does)."""
        if self._progress is None:
            if time.monotonic() - self._started < PATIENCE_S:
                return True
            self._progress = self._start()
        bar = self._progress
        known = total if total > 0 else None
        if self._task is None or phase != self._phase:
            if self._task is not None:
                bar.remove_task(self._task)
            self._task, self._phase = bar.add_task(phase, total=known), phase
        bar.update(self._task, completed=done, total=known)
        return True

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        made = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        made.start()
        return made

    def close(self) -> None:
        """Takes the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def reporting(progress: bool | Report | None = None) -> Iterator[Report | None]:
    """The report function of a run: the caller's own, a bar where stderr is a terminal (None) or in any case (True), or
    None."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _wanted()):
        yield None
        return
    bar = Bar()
    try:
        yield bar
    finally:
        bar.close()


def _wanted() -> bool:
    return _is_terminal(sys.stderr)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:  # closed
        return False
