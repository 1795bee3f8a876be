"""Files in the page cache of the system."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from farfield.errors import DataError


def evict(paths: Iterable[Path]) -> None:
    """Takes files out of the page cache. Their dirty pages are written first: only clean ones can go.

    Raises:
        DataError: if a file cannot be opened.
    """
    for file in files_in(paths):
        try:
            number = os.open(file, os.O_RDONLY)
        except OSError as error:
            raise DataError(f"{file}: cannot evict it: {error.strerror}") from error
        try:
            os.fsync(number)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def files_in(paths: Iterable[Path]) -> list[Path]:
    """Those paths that are files, and all files in those that are folders."""
    found = (sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths)
    return [file for files in found for file in files if file.is_file()]
