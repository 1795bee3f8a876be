"""The cache: generated demo datasets (`demo`) and data derived from foreign files (`data`): boxes, ranges, text and
converted volumes.

Each entry of `data` has a record, `data/.records/NAME.json`, which the extension and this module write. It lists the
files that the entry was made of; its time of change is the last use. The cache has a size limit: entries of changed
files are removed first, then those whose last use is longest ago. Entries in use stay. Each process that uses the
cache locks a file of its own. No entry is removed that was used since the first running process began.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from farfield.errors import DataError, UsageError
from farfield.sources import places

PARTS = ("demo", "data")
"""The only subfolders that are ever listed or removed, so that cache_dir may contain other files."""
RECORDS = ".records"
"""The folder of records, within `data`."""
JUST_NOW_S = 60.0
"""Seconds for which a used entry stays: the process that requested it may not have opened it yet."""
MOMENT_S = 1.0
"""The same for entries of changed files, which no process requests any more."""
_BEGUN: dict[str, BinaryIO] = {}
"""The locked file of this process, by cache; it shows other processes that the cache is in use."""
_LOOKED: dict[str, int] = {}
"""The folder's time of change at this process's last check of the size, by cache."""


@dataclass(frozen=True)
class Entry:
    """A file or folder of the cache."""

    part: str
    name: str
    bytes: int
    used: float = 0.0
    """Time of the last use, in seconds since 1970."""
    stale: bool = False
    """Whether a file that it was made of has changed since, so that it is useless."""


def entries(folder: Path) -> list[Entry]:
    """The entries of the cache, by name.

    >>> entries(Path("no-such-cache"))
    []
    """
    found = []
    for part in PARTS:
        if (folder / part).is_dir():
            for path in sorted((folder / part).iterdir()):
                if path.name != RECORDS:
                    with contextlib.suppress(FileNotFoundError):  # removed by another process
                        found.append(Entry(part, path.name, _size(path), _used(path), _is_stale(path)))
    return found


def clear(folder: Path, parts: Sequence[str] | None = None) -> int:
    """Removes the named parts, or all; returns the freed bytes.

    Raises:
        UsageError: if a part does not exist.
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
            _BEGUN.pop(str(folder), None)
    return freed


def note_use(entry: Path, sources: Iterable[str] = ()) -> None:
    """Records the use of an entry now, and the files that it was made of. If writing fails, the entry's own time of
    change counts."""
    # First, so that the recorded use is later than the beginning of this process.
    begin(entry.parent.parent)
    record = _record(entry)
    states = []
    for source in sources:
        if places.is_remote(source):
            # Its version is a part of the entry's name; no server is asked about it again.
            continue
        with contextlib.suppress(OSError):
            about = os.stat(source)
            states.append([os.path.realpath(source), about.st_size, about.st_mtime_ns])
    text = json.dumps({"sources": states})
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        if record.is_file() and record.read_text(encoding="utf-8") == text:
            os.utime(record)
        else:
            record.write_text(text, encoding="utf-8")


def begin(folder: Path) -> None:
    """Shows other processes that this one uses the cache from now on."""
    key = str(folder)
    if key in _BEGUN or not (folder / "data").is_dir():
        return
    with contextlib.suppress(OSError):
        place = folder / "data" / RECORDS / f"{os.getpid()}.lock"
        place.parent.mkdir(parents=True, exist_ok=True)
        file = open(place, "wb")  # noqa: SIM115 - it stays open, and locked, as long as the process lives
        fcntl.flock(file, fcntl.LOCK_SH)
        os.utime(place)
        _BEGUN[key] = file


def use(folder: Path, limit: int | None) -> None:
    """Begins the use of the cache, and enforces its size if it has changed since this process's last check."""
    begin(folder)
    try:
        changed = (folder / "data").stat().st_mtime_ns
    except OSError:  # no cache yet
        return
    if _LOOKED.get(str(folder)) != changed:
        keep_within(folder, limit)
        with contextlib.suppress(OSError):
            _LOOKED[str(folder)] = (folder / "data").stat().st_mtime_ns


def keep_within(folder: Path, limit: int | None, *, room: int = 0) -> list[Entry]:
    """Removes stale entries, then those whose last use is longest ago, until the cache and `room` bytes are within
    `limit` (None: no limit). Returns the removed entries. Entries in use stay, so the cache may remain larger."""
    found = entries(folder)
    total = sum(e.bytes for e in found) + room
    first, now = _first_begun(folder), time.time()
    gone = []
    for entry in sorted(found, key=lambda e: (not e.stale, e.used, e.name)):
        if not entry.stale and (limit is None or total <= limit):
            break
        if entry.used >= min(first, now - (MOMENT_S if entry.stale else JUST_NOW_S)) or entry.name.startswith("."):
            continue
        if _remove(folder / entry.part / entry.name):
            total -= entry.bytes
            gone.append(entry)
    return gone


def _first_begun(folder: Path) -> float:
    """Time at which the first running process began to use the cache."""
    first = math.inf
    for place in (folder / "data" / RECORDS).glob("*.lock"):
        with contextlib.suppress(OSError), open(place, "rb") as file:
            begun = os.fstat(file.fileno()).st_mtime
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # the lock shows that its process runs
                first = min(first, begun)
            else:
                place.unlink(missing_ok=True)
    return first


def _remove(path: Path) -> bool:
    try:
        # Renamed first, so that no process finds a half-removed folder.
        away = path.with_name(f".{path.name}.{os.getpid()}.gone")
        os.replace(path, away)
        if away.is_dir() and not away.is_symlink():
            shutil.rmtree(away)
        else:
            away.unlink()
    except OSError:  # no permission to remove it
        return False
    with contextlib.suppress(OSError):
        _record(path).unlink(missing_ok=True)
    return True


def _record(entry: Path) -> Path:
    return entry.parent / RECORDS / f"{entry.name}.json"


def _used(path: Path) -> float:
    about = path.lstat()
    with contextlib.suppress(OSError):
        return max(about.st_mtime, _record(path).stat().st_mtime)
    return about.st_mtime


def _is_stale(path: Path) -> bool:
    """Whether a file that an entry was made of has changed. An absent file may come back with its disk."""
    try:
        sources = json.loads(_record(path).read_text(encoding="utf-8"))["sources"]
        for source, size, changed in sources:
            with contextlib.suppress(FileNotFoundError, PermissionError):
                about = os.stat(source)
                if (about.st_size, about.st_mtime_ns) != (size, changed):
                    return True
    except (OSError, ValueError, KeyError, TypeError):  # no readable record
        return False
    return False


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(f.lstat().st_size for f in path.rglob("*") if not f.is_dir())
