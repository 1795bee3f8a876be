"""The cache: generated demo datasets (`demo`), and what is kept of foreign data (`data`): boxes, ranges, text and volumes that were
converted.

Each entry of `data` has a record, `data/.records/NAME.json`, which the extension and this module write: of which files it was
made, and, by its time of change, when it was last used. The cache is kept within a size: what was made of files that changed
goes first, then what was used longest ago. What is in use stays: each process that uses the cache holds the lock of a file of
its own, and nothing goes that was used since the first of those that still run began.
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

PARTS = ("demo", "data")
"""Only these subfolders are ever listed or removed, so that a cache_dir set to a folder with other things is safe."""
RECORDS = ".records"
"""The folder of records, in `data`."""
JUST_NOW_S = 60.0
"""An entry that was used so recently stays: who asked for it may not have opened it yet."""
MOMENT_S = 1.0
"""Likewise one that was made of a file which has changed: nobody asks for it any more."""
_BEGUN: dict[str, BinaryIO] = {}
"""By cache, the locked file by which others know that this process uses it."""
_LOOKED: dict[str, int] = {}
"""By cache, the time of change of its folder when this process last kept it within its size."""


@dataclass(frozen=True)
class Entry:
    """One file or folder of the cache."""

    part: str
    name: str
    bytes: int
    used: float = 0.0
    """When it was last used, in seconds since 1970."""
    stale: bool = False
    """Whether a file that it was made of has changed since, so that it will not be used again."""


def entries(folder: Path) -> list[Entry]:
    """What the cache holds, by name.

    >>> entries(Path("no-such-cache"))
    []
    """
    found = []
    for part in PARTS:
        if (folder / part).is_dir():
            for path in sorted((folder / part).iterdir()):
                if path.name != RECORDS:
                    with contextlib.suppress(FileNotFoundError):  # another process was faster
                        found.append(Entry(part, path.name, _size(path), _used(path), _is_stale(path)))
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
            _BEGUN.pop(str(folder), None)
    return freed


def note_use(entry: Path, sources: Iterable[str] = ()) -> None:
    """Notes that an entry is used now, and of which files it was made. Where nothing can be written nothing is lost: an entry
    without a record is as old as its own file."""
    # Before the record has its time: what is used was used since this process began.
    begin(entry.parent.parent)
    record = _record(entry)
    states = []
    for source in sources:
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
    """Has other processes know that this one uses the cache from now on."""
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
    """Begins, and keeps the cache within its size if anything came or went since this process last looked."""
    begin(folder)
    try:
        changed = (folder / "data").stat().st_mtime_ns
    except OSError:  # there is none
        return
    if _LOOKED.get(str(folder)) != changed:
        keep_within(folder, limit)
        with contextlib.suppress(OSError):
            _LOOKED[str(folder)] = (folder / "data").stat().st_mtime_ns


def keep_within(folder: Path, limit: int | None, *, room: int = 0) -> list[Entry]:
    """Removes what was made of files that changed, and what was used longest ago, until the cache and `room` bytes more are no
    larger than `limit` (None: as large as it gets); what went. What is in use stays, so that it may be larger all the same."""
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
    """When the first of the processes began that use the cache and still run."""
    first = math.inf
    for place in (folder / "data" / RECORDS).glob("*.lock"):
        with contextlib.suppress(OSError), open(place, "rb") as file:
            begun = os.fstat(file.fileno()).st_mtime
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # its process runs
                first = min(first, begun)
            else:
                place.unlink(missing_ok=True)
    return first


def _remove(path: Path) -> bool:
    try:
        # Under another name first: half of a folder is not found by who looks for it meanwhile.
        away = path.with_name(f".{path.name}.{os.getpid()}.gone")
        os.replace(path, away)
        if away.is_dir() and not away.is_symlink():
            shutil.rmtree(away)
        else:
            away.unlink()
    except OSError:  # not ours to remove
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
    """Whether a file that an entry was made of is another one now. One that is not there may come back, with its disk."""
    try:
        sources = json.loads(_record(path).read_text(encoding="utf-8"))["sources"]
        for source, size, changed in sources:
            with contextlib.suppress(FileNotFoundError, PermissionError):
                about = os.stat(source)
                if (about.st_size, about.st_mtime_ns) != (size, changed):
                    return True
    except (OSError, ValueError, KeyError, TypeError):  # no record, or none that can be read
        return False
    return False


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(f.lstat().st_size for f in path.rglob("*") if not f.is_dir())
