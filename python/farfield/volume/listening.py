"""What libraries log while they read a file: heard, and not printed."""

from __future__ import annotations

import logging
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
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                found.append(record.getMessage())

    logger, listener = logging.getLogger(name), Listener()
    before = logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield found
    finally:
        logger.removeHandler(listener)
        logger.propagate = before
