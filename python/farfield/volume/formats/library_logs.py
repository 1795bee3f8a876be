"""Capture of library logs during reads, so that nothing is printed. Each of several threads hears only its own."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard(name: str) -> Iterator[list[str]]:
    """Collects errors of the named logger. Its warnings, and those of Python, concern formalities only.

    >>> with heard("tifffile") as said:
    ...     logging.getLogger("tifffile").error("invalid page offset")
    >>> said
    ['invalid page offset']
    """
    with quiet(name), overheard(name) as found:
        yield found


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Silences the named logger and Python's warnings, in the whole process."""
    logger = logging.getLogger(name)
    before = logger.propagate
    logger.propagate = False
    # Python prints unhandled records to stderr.
    silent = logging.NullHandler()
    logger.addHandler(silent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeHandler(silent)
        logger.propagate = before


@contextmanager
def overheard(name: str) -> Iterator[list[str]]:
    """Collects errors of the named logger from this thread, while some thread holds it `quiet`."""
    found: list[str] = []
    own = threading.get_ident()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR and record.thread == own:
                found.append(record.getMessage())

    logger, listener = logging.getLogger(name), Listener()
    logger.addHandler(listener)
    try:
        yield found
    finally:
        logger.removeHandler(listener)
