"""Progress on a terminal: a bar on stderr that appears after a second and disappears at the end.

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
"""`report(phase, done, total)`; total is 0 if unknown. False cancels the run."""

PATIENCE_S = 1.0
"""Seconds before the bar appears; a brief bar would only distract."""


class Bar:
    """A `Report` that draws a bar."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._phase = ""

    def __call__(self, phase: str, done: float, total: float) -> bool:
        """Shows the progress; never cancels the run (Ctrl-C does)."""
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
        """Removes the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def reporting(progress: bool | Report | None = None) -> Iterator[Report | None]:
    """The report function of a run: the caller's own, a bar, or None. None gives a bar if stderr is a terminal, True
    always."""
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
    except ValueError:  # stderr is closed
        return False
