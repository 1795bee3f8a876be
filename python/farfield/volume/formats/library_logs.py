"""What libraries log while they read a file: heard, and not printed. Several threads may listen, each to what it does itself."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard(name: str) -> Iterator[list[str]]:
    """Errors that the logger of that name gets meanwhile. Its warnings, and those of Python, are of formalities.

    >>> with heard("tifffile") as said:
    ...     logging.getLogger("tifffile").error("invalid page offset")
    >>> said
    ['invalid page offset']
    """
    with quiet(name), overheard(name) as found:
        yield found


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """What that logger gets goes no further, and warnings of Python are not shown: of the whole process."""
    logger = logging.getLogger(name)
    before = logger.propagate
    logger.propagate = False
    # What nobody handles goes to stderr.
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
    """Errors that the logger of that name gets from this thread meanwhile, where some thread holds it `quiet`."""
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
