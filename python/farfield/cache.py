"""The cache: generated demo datasets (`demo`), and what is kept of foreign data (`data`): boxes, text and volumes that were
converted."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farfield.errors import DataError, UsageError

PARTS = ("demo", "data")
"""Only these subfolders are ever listed or removed, so that a cache_dir set to a folder with other things is safe."""


@dataclass(frozen=True)
class Entry:
    """One file or folder of the cache."""

    part: str
    name: str
    bytes: int


def entries(folder: Path) -> list[Entry]:
    """What the cache holds, by name."""
    found = []
    for part in PARTS:
        if (folder / part).is_dir():
            found += [Entry(part, path.name, _size(path)) for path in sorted((folder / part).iterdir())]
    return found


def clear(folder: Path, parts: Sequence[str] | None = None) -> int:
    """Removes the parts named, or all; the bytes that this freed.

    Raises:
        UsageError: if there is no such part.
        DataError: if a file cannot be removed.
    """
    unknown = [p for p in parts or () if p not in PARTS]
    if unknown:
        raise UsageError(f"the cache has no part '{unknown[0]}'; there are: {', '.join(PARTS)}")
    freed = 0
    for part in parts or PARTS:
        target = folder / part
        if target.is_dir() and not target.is_symlink():
            freed += _size(target)
            try:
                shutil.rmtree(target)
            except OSError as error:
                raise DataError(f"{error.filename or target}: cannot remove it: {error.strerror or error}") from error
    return freed


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(f.lstat().st_size for f in path.rglob("*") if not f.is_dir())
