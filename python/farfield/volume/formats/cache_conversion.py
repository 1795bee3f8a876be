"""What cannot be read in part is converted once into a file of the cache that can: numbers one after the other, without a header.

Such a file has the name of its source and of a digest of what the source is (its path, size, time of change and inode) and of
how it was read; one that is there is whole, since a file takes that name only when all of it is on disk.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from farfield.errors import DataError, Interrupted, MemoryLimitError
from farfield.runtime.cache import keep_within, note_use
from farfield.runtime.sizes import format_bytes
from farfield.volume.formats.files import stem, unreadable
from farfield.volume.formats.options import Means

Bytes = bytes | bytearray | memoryview

_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
"""What goes wrong with a file that is written."""
PIECE = 1 << 20
"""Bytes that are in memory at a time."""
_DECODING = 3
"""Times that something is in memory while it is decoded by others: encoded, decoded, and as it is written."""
_FORMAT = "volume 1"
"""Part of the digest: changes when the same source would be converted otherwise."""


@dataclass(frozen=True)
class Converted:
    """A file of the cache that holds what a source holds, readable in part."""

    path: str
    bytes: int


def identity(path: str) -> str:
    """What tells a file from what it was before a change.

    Raises:
        DataError: if it is not there.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    return f"{os.path.realpath(path)}\n{found.st_size} {found.st_mtime_ns} {found.st_dev}:{found.st_ino}"


def converted(
    source: str,
    means: Means,
    *,
    count: int | None,
    why: str,
    how: str,
    pieces: Callable[[], Iterable[Bytes]] | None = None,
    write: Callable[[BinaryIO, Callable[[int], None]], None] | None = None,
    files: Iterable[str] = (),
    at_once: int = 0,
    suffix: str = ".raw",
    instead: str = "",
) -> Converted:
    """The converted file of a source, made now if it is not there.

    Args:
        source: What the user named.
        means: Where the cache is, and who is told.
        count: Bytes that come of it: no more are written, and fewer are an error; None: as many as there are.
        why: Why the source is not read as it is, as in "is compressed with gzip".
        how: What else the result depends on, such as the array's name.
        pieces: Gives its bytes in order, a piece at a time.
        write: Writes to a file that is `count` long, in any order; it calls its second argument with the bytes done since.
        files: All files of which it is made, where it is more than one.
        suffix: Ending of its name.
        at_once: Bytes of what others decode whole, such as a chunk or an image: more than pieces.
        instead: What needs no room, as in "open a.vti::NAME", where there is such a way.

    Raises:
        DataError: if the source ends early, or the disk is full.
        MemoryLimitError: if what is decoded whole does not fit.
        Interrupted: if the report function says so.
    """
    made_of = list(files) or [source]
    digest = hashlib.sha256("\n".join([_FORMAT, how, str(count), *map(identity, made_of)]).encode())
    name = re.sub(r"[^A-Za-z0-9._-]", "", stem(source))[:40] or "volume"
    folder = means.cache_dir / "data"
    target = folder / f"{name}-{digest.hexdigest()[:20]}{suffix}"

    def is_made() -> bool:
        return target.is_file() and count in (None, target.stat().st_size)

    if is_made():
        note_use(target, made_of)
        return Converted(str(target), target.stat().st_size)
    if means.memory_limit is not None and at_once * _DECODING > means.memory_limit:
        needs = at_once * _DECODING
        raise MemoryLimitError(
            f"the memory limit of {format_bytes(means.memory_limit)} is too small: {source}: it {why}, and what is decoded whole, "
            f"{format_bytes(at_once)} at a time, needs about {format_bytes(needs)}; raise --memory-limit to that"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_within(means.cache_dir, means.cache_size, room=count or 0)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise DataError(
            f"{folder}: cannot make the cache: {error.strerror or error}; set cache_dir to another folder"
        ) from error
    if count is not None and free < count:
        raise DataError(
            f"{source}: it {why} and takes {format_bytes(count)} when it is converted, but {folder} has {format_bytes(free)} free; "
            f"make room, {'' if instead else 'or '}set cache_dir to a folder with more{', or ' if instead else ''}{instead}"
        )
    scratch = folder / f".{target.name}.part"
    _forget_killed(folder)
    try:
        with _held(scratch) as file:
            # Who waited here finds the file made by who was first.
            if is_made():
                scratch.unlink(missing_ok=True)
            else:
                if means.say is not None:
                    much = "it goes" if count is None else f"{format_bytes(count)} go"
                    means.say(f"{source}: it {why}, and is converted once: {much} to {target}")
                try:
                    file.truncate(0)
                    _fill(source, file, means, count, pieces, write)
                    file.flush()
                    os.fsync(file.fileno())
                    os.replace(scratch, target)
                except BaseException:
                    # Nothing is left that takes room; what has no final name is never read.
                    scratch.unlink(missing_ok=True)
                    raise
    except OSError as error:
        if isinstance(error, DataError):
            raise
        if error.errno not in _OF_DISKS:  # what reads the source says so
            said = " ".join(str(error).split())[:300]
            raise DataError(
                f"{source}: it {why}, and cannot be converted: {said}; copy all of its files here, or write it again"
            ) from error
        place = error.filename or scratch
        raise DataError(
            f"{place}: cannot convert {source}: {error.strerror or error}; make room, or set cache_dir"
        ) from error
    note_use(target, made_of)
    return Converted(str(target), target.stat().st_size)


def _forget_killed(folder: Path) -> None:
    """Removes what conversions left that were killed: whoever fills a file holds its lock."""
    for old in folder.glob(".*.part"):
        try:
            with open(old, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                old.unlink(missing_ok=True)
        except OSError:  # it is being filled, or gone
            continue


def _held(scratch: Path) -> BinaryIO:
    """The file of that name, open and locked: one process fills it, and a killed one gives its lock back."""
    while True:
        file = open(scratch, "a+b")  # noqa: SIM115 - the caller closes it, and its lock goes with it
        fcntl.flock(file, fcntl.LOCK_EX)
        # Who had the lock before may have given the file its final name, or removed it: then this is no longer the file of that
        # name.
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(scratch)):
                return file
        except FileNotFoundError:  # as said
            pass
        file.close()


def _fill(
    source: str,
    file: BinaryIO,
    means: Means,
    count: int | None,
    pieces: Callable[[], Iterable[Bytes]] | None,
    write: Callable[[BinaryIO, Callable[[int], None]], None] | None,
) -> None:
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if means.progress is not None and not means.progress(
            "converting", float(done), float(max(done, count or done))
        ):
            raise Interrupted("interrupted")

    if write is not None and count is not None:
        # Opened again: a file opened to append would be written at its end only.
        with open(file.name, "r+b") as at:
            at.truncate(count)
            write(at, tell)
    for piece in pieces() if pieces is not None else ():
        view = memoryview(piece).cast("B")
        if count is not None and done + len(view) > count:
            raise DataError(
                f"{source}: it holds more than the {count:,} bytes that its header says; the header is damaged"
            )
        file.write(view)
        tell(len(view))
    if count is not None and done != count:
        raise DataError(
            f"{source}: it ends after {done:,} of the {count:,} bytes that its header says: it was cut off; copy or write it again"
        )
