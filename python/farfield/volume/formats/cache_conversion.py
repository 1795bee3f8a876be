"""Conversion of files that cannot be read in part into plain numbers in the cache, once per file.

The name of a converted file has the name of its source and a digest. The digest covers the source's path, size, time
of change and inode, and the way of reading. A converted file is complete, since it gets its name last.
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

from farfield.errors import AccessError, DataError, Interrupted, MemoryLimitError
from farfield.runtime.cache import keep_within, note_use
from farfield.runtime.sizes import format_bytes
from farfield.sources import places
from farfield.volume.formats.files import stem, unreadable
from farfield.volume.formats.options import ReaderResources

Bytes = bytes | bytearray | memoryview

_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
"""Errors of the system when writing a file."""
PIECE = 1 << 20
"""Bytes in memory at a time."""
_DECODING = 3
"""Copies in memory during decoding by libraries: encoded, decoded, and as written."""
_FORMAT = "volume 1"
"""Part of the digest; change it when conversions give other bytes."""


@dataclass(frozen=True)
class Converted:
    """A file of the cache with the numbers of a source, readable in part."""

    path: str
    bytes: int


def identity(path: str) -> str:
    """A text that changes whenever the file changes.

    Raises:
        DataError: if the file does not exist.
    """
    try:
        return f"{places.realpath(path)}\n{places.version(path)}"
    except OSError as error:
        raise unreadable(path, error) from error


def converted(
    source: str,
    resources: ReaderResources,
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
    """The converted file of a source, made now unless it exists.

    Args:
        source: The source as the caller gave it.
        resources: Cache, limits and progress.
        count: Exact size of the result in bytes; None: unknown.
        why: Reason for the conversion, as in "is compressed with gzip".
        how: Further inputs of the result, such as the array's name.
        pieces: Yields the bytes in order.
        write: Writes to a file of `count` bytes in any order, and calls its second argument with the bytes done since
            the last call.
        files: All files of the source, if there are several.
        suffix: Ending of the result's name.
        at_once: Size in bytes of parts that a library decodes whole, such as a chunk or an image.
        instead: An alternative that needs no room, as in "open a.vti::NAME".

    Raises:
        DataError: if the source ends early, or the disk is full.
        MemoryLimitError: if a part that is decoded whole exceeds the memory limit.
        Interrupted: if the report function returns False.
    """
    made_of = list(files) or [source]
    places.prefetch_versions(made_of)
    digest = hashlib.sha256("\n".join([_FORMAT, how, str(count), *map(identity, made_of)]).encode())
    name = re.sub(r"[^A-Za-z0-9._-]", "", stem(source))[:40] or "volume"
    folder = resources.cache_dir / "data"
    target = folder / f"{name}-{digest.hexdigest()[:20]}{suffix}"

    def is_made() -> bool:
        return target.is_file() and count in (None, target.stat().st_size)

    if is_made():
        note_use(target, made_of)
        return Converted(str(target), target.stat().st_size)
    if resources.memory_limit is not None and at_once * _DECODING > resources.memory_limit:
        needs = at_once * _DECODING
        raise MemoryLimitError(
            f"the memory limit of {format_bytes(resources.memory_limit)} is too small: {source}: it {why}, and what is "
            f"decoded whole, {format_bytes(at_once)} at a time, needs about {format_bytes(needs)}; raise --memory-limit to that"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_within(resources.cache_dir, resources.cache_size, room=count or 0)
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
            # Another process may have made the file during the wait for the lock.
            if is_made():
                scratch.unlink(missing_ok=True)
            else:
                if resources.say is not None:
                    much = "it goes" if count is None else f"{format_bytes(count)} go"
                    resources.say(f"{source}: it {why}, and is converted once: {much} to {target}")
                try:
                    file.truncate(0)
                    _fill(source, file, resources, count, pieces, write)
                    file.flush()
                    os.fsync(file.fileno())
                    os.replace(scratch, target)
                except BaseException:
                    # Frees the disk; a file without its final name is never read.
                    scratch.unlink(missing_ok=True)
                    raise
    except OSError as error:
        if isinstance(error, DataError | AccessError):
            raise
        if error.errno not in _OF_DISKS:  # an error of reading the source
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
    """Removes files of killed conversions. A running one holds a lock on its file."""
    for old in folder.glob(".*.part"):
        try:
            with open(old, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                old.unlink(missing_ok=True)
        except OSError:  # in use, or already removed
            continue


def _held(scratch: Path) -> BinaryIO:
    """Opens and locks the file: a single process fills it, and the end of a process releases its lock."""
    while True:
        file = open(scratch, "a+b")  # noqa: SIM115 - the caller closes it, and its lock goes with it
        fcntl.flock(file, fcntl.LOCK_EX)
        # The previous owner of the lock may have renamed or removed the file: then this is another file.
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(scratch)):
                return file
        except FileNotFoundError:  # renamed or removed
            pass
        file.close()


def _fill(
    source: str,
    file: BinaryIO,
    resources: ReaderResources,
    count: int | None,
    pieces: Callable[[], Iterable[Bytes]] | None,
    write: Callable[[BinaryIO, Callable[[int], None]], None] | None,
) -> None:
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if resources.progress is not None and not resources.progress(
            "converting", float(done), float(max(done, count or done))
        ):
            raise Interrupted("interrupted")

    if write is not None and count is not None:
        # Opened again, because a file in append mode is written only at its end.
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
