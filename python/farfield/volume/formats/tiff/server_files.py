"""TIFF files at servers for tifffile, which opens the other files of an OME-TIFF by their names, and knows paths only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from farfield.sources import places

_LOCK = threading.Lock()
_INSIDE = 0
_OWN: dict[str, Any] = {}
"""Members of tifffile's class of open files while they are replaced."""


@contextmanager
def opened(tifffile: Any, path: str, **how: Any) -> Iterator[Any]:
    """A TIFF file, and with it the files that it names."""
    if not places.is_remote(path):
        with tifffile.TiffFile(path, **how) as file:
            yield file
        return
    with _addresses(tifffile.FileHandle), tifffile.TiffFile(path, **how) as file:
        yield file


@contextmanager
def _addresses(handle: Any) -> Iterator[None]:
    """Tifffile opens addresses meanwhile; what it does with other names stays."""
    global _INSIDE
    with _LOCK:
        if not _INSIDE:
            _OWN.update(open=handle.open, is_file=handle.is_file)
            handle.open, handle.is_file = _open, property(_is_file)
        _INSIDE += 1
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE -= 1
            if not _INSIDE:
                handle.open, handle.is_file = _OWN["open"], _OWN["is_file"]


def _open(handle: Any) -> None:
    if isinstance(handle._file, str) and places.is_remote(handle._file):
        handle._file = places.for_library(handle._file)
    _OWN["open"](handle)


def _is_file(handle: Any) -> bool:
    return places.is_remote(handle.path) or bool(_OWN["is_file"].fget(handle))
