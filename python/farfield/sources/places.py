"""Files and folders of sources, on this machine or at a server (`s3://bucket/a.zarr`): the functions of `os`, `os.path`
and `glob` for both. Paths on this machine go to those, unchanged.

Only what is not there is absent: any other error is raised. `opening` keeps what is known of files at servers.
"""

from __future__ import annotations

import fnmatch
import glob as local_glob
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from farfield.errors import DataError, UsageError
from farfield.sources import remote
from farfield.sources.addresses import (
    DOCUMENTS,
    abspath,
    can_list,
    dirname,
    expanduser,
    has_magic,
    is_remote,
    join,
    normpath,
    parts,
    realpath,
    relpath,
)
from farfield.sources.remote import bound, opening
from farfield.sources.remote_files import open_remote
from farfield.sources.remote_files import prefetch_files as _prefetch_files

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "DOCUMENTS",
    "Entry",
    "abspath",
    "asking",
    "bound",
    "can_list",
    "dirname",
    "entries",
    "exists",
    "expanduser",
    "for_library",
    "getsize",
    "glob",
    "has_magic",
    "is_remote",
    "isdir",
    "isfile",
    "join",
    "listdir",
    "modified_ns",
    "normpath",
    "numbers",
    "numbers_from",
    "open_binary",
    "opening",
    "parts",
    "prefetch_files",
    "prefetch_stats",
    "prefetch_versions",
    "read_bytes",
    "read_text",
    "realpath",
    "relpath",
    "samefile",
    "version",
    "walk",
]


class Entry:
    """An entry of a folder at a server, in the form of `os.DirEntry`."""

    def __init__(self, folder: str, name: str, size: int, *, is_folder: bool) -> None:
        self.name, self.path = name, join(folder, name)
        self._is_folder, self._size = is_folder, size

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self._is_folder

    def is_file(self) -> bool:
        """Whether it is a file."""
        return not self._is_folder

    def stat(self) -> os.stat_result:
        """Its size; nothing else is known."""
        return os.stat_result((0, 0, 0, 0, 0, 0, self._size, 0, 0, 0))


def exists(path: str) -> bool:
    """`os.path.exists`."""
    return _kind(path) is not None if is_remote(path) else os.path.exists(path)


def isfile(path: str) -> bool:
    """`os.path.isfile`."""
    if not is_remote(path):
        return os.path.isfile(path)
    if not _is_named_file(path):
        return _kind(path) == "file"
    (found,) = remote.stats([path], first_bytes=True)
    return found is not None and found.kind == "file"


def isdir(path: str) -> bool:
    """`os.path.isdir`."""
    return _kind(path) == "folder" if is_remote(path) else os.path.isdir(path)


def _kind(path: str) -> str | None:
    """`file`, `folder`, `other`, or None of what is not at its server.

    Folders of servers are names that files begin with; HTTP has none. The documents of a store show that it is there.
    """
    held = remote.knowledge()
    name = normpath(path)
    known = None if held is None else held.known.get(name) or held.in_lists.get(name)
    if known is not None:
        return known.kind
    if _is_named_file(name):
        (found,) = remote.stats([name], first_bytes=True)
        if found is not None or "?" in name or remote.is_document(name):
            return None if found is None else found.kind
    if any(said is not None and said.kind == "file" for said in remote.stats([join(name, d) for d in DOCUMENTS])):
        if held is not None:
            held.in_lists[name] = remote.Stat("folder", 0, "", 0)
        return "folder"
    (found,) = remote.stats([name])
    return None if found is None else found.kind


def _is_named_file(path: str) -> bool:
    """Whether a name is one of a file, so that its server is not asked for a store of this name first."""
    name = path.rsplit("/", 1)[-1]
    # What stands behind a query is a part of it, and no name in a folder.
    return "?" in path or name in DOCUMENTS or os.path.splitext(name)[1].lower() not in ("", ".zarr")


def prefetch_stats(paths: Sequence[str], *, first_bytes: bool | None = None) -> None:
    """Asks for many files at once, so that `isfile` and `getsize` of them cost nothing while a dataset is opened.
    `first_bytes`: as in `remote.stats`.
    """
    asked = [path for path in paths if is_remote(path)]
    if asked and remote.knowledge() is not None:
        remote.stats(asked, first_bytes=first_bytes)


@contextmanager
def asking(paths: Sequence[str]) -> Iterator[None]:
    """As `prefetch_stats`, while the block runs. An error of a server ends the opening (`opening`)."""
    asked = [path for path in paths if is_remote(path)]
    if not asked or remote.knowledge() is None:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor  # the command line imports this module for its help

    with ThreadPoolExecutor(1, thread_name_prefix="documents") as pool:
        pool.submit(remote.bound(prefetch_stats), asked)
        yield


def prefetch_files(paths: Sequence[str]) -> None:
    """Reads the beginnings of small files at servers at once, so that opening them costs nothing while a dataset is opened."""
    _prefetch_files([path for path in paths if is_remote(path)])


def prefetch_versions(paths: Sequence[str]) -> None:
    """As `prefetch_stats`, for `version`: a listed folder says nothing of those."""
    asked = [path for path in paths if is_remote(path)]
    if asked and remote.knowledge() is not None:
        remote.stats(asked, versions=True)


def getsize(path: str) -> int:
    """`os.path.getsize`."""
    return _there(path).size if is_remote(path) else os.path.getsize(path)


def modified_ns(path: str) -> int:
    """The last change in nanoseconds since 1970; 0 where a server does not say it."""
    return _there(path, versions=True).changed_ns if is_remote(path) else os.stat(path).st_mtime_ns


def version(path: str) -> str:
    """A text that changes whenever the file changes.

    Raises:
        FileNotFoundError: if it is not there.
    """
    if is_remote(path):
        said = _there(path, versions=True)
        return f"{said.size} {said.version or said.changed_ns}"
    found = os.stat(path)
    return f"{found.st_size} {found.st_mtime_ns} {found.st_dev}:{found.st_ino}"


def _there(path: str, *, versions: bool = False) -> remote.Stat:
    (found,) = remote.stats([path], versions=versions)
    if found is None:
        raise FileNotFoundError(2, "No such file or directory", path)
    return found


def samefile(path: str, other: str) -> bool:
    """`os.path.samefile`; addresses are the same where their texts are."""
    if is_remote(path) or is_remote(other):
        return normpath(path) == normpath(other)
    return os.path.samefile(path, other)


def entries(folder: str) -> Iterator[os.DirEntry[str] | Entry]:
    """The entries of a folder, as `os.scandir` gives them.

    Raises:
        DataError: if its server gives no lists.
    """
    if not is_remote(folder):
        with os.scandir(folder) as found:
            yield from found
        return
    for name, is_folder, size in remote.listing(folder):
        yield Entry(folder, name, size, is_folder=is_folder)


def listdir(folder: str) -> list[str]:
    """`os.listdir`."""
    return [name for name, _, _ in remote.listing(folder)] if is_remote(folder) else os.listdir(folder)


def walk(top: str, onerror: Callable[[OSError], object] | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`, from the top. An error of a server is raised, whatever `onerror` is."""
    if not is_remote(top):
        yield from os.walk(top, onerror=onerror)
        return
    found = remote.listing(top)
    folders = [name for name, is_folder, _ in found if is_folder]
    yield top, folders, [name for name, is_folder, _ in found if not is_folder]
    for name in folders:
        yield from walk(join(top, name), onerror)


def glob(pattern: str) -> list[str]:
    """`glob.glob`.

    Raises:
        UsageError: if the server of a pattern gives no lists of its files.
    """
    if not is_remote(pattern):
        return local_glob.glob(pattern)
    if not has_magic(pattern):
        return [pattern] if exists(pattern) else []
    if not can_list(pattern):
        raise UsageError(
            f"{pattern}: this server does not say which files match a pattern; list them, one a line, in a text file, and "
            "give that as @names.txt"
        )
    root, path, _ = parts(pattern)
    found = [root]
    names = path.split("/")[1:]
    for n, name in enumerate(names):
        is_last = n == len(names) - 1
        if not any(mark in name for mark in "*["):
            found = [f"{folder}/{name}" for folder in found]
            # Whether names behind a wildcard are there is asked once, of all of them.
            if is_last:
                found = [path for path, said in zip(found, remote.stats(found), strict=True) if said is not None]
            continue
        matches = re.compile(fnmatch.translate(name.replace("?", "[?]"))).match
        found = [
            f"{folder}/{inner}"
            for folder in found
            for inner, is_folder, _ in _listing(pattern, folder)
            if matches(inner) and (is_last or is_folder) and (name.startswith(".") or not inner.startswith("."))
        ]
    return found


def _listing(pattern: str, folder: str) -> list[tuple[str, bool, int]]:
    try:
        return remote.listing(folder)
    except DataError as error:
        if not exists(folder):
            return []
        raise DataError(
            f"{pattern}: {error}; or list its files, one a line, in a text file, and give that as @names.txt"
        ) from error


def open_binary(path: str) -> BinaryIO:
    """`open(path, "rb")`.

    Raises:
        FileNotFoundError: if the file is not there.
        AccessError: if its server does not answer, or refuses.
    """
    return open_remote(path) if is_remote(path) else open(path, "rb")


def for_library(path: str) -> Any:
    """What a library opens: the path itself, or a file object of a file at a server."""
    return open_remote(path) if is_remote(path) else path


def read_bytes(path: str) -> bytes:
    """All bytes of a file."""
    with open_binary(path) as file:
        return file.read()


def read_text(path: str) -> str:
    """All of a file of UTF-8, with or without a byte order mark."""
    return read_bytes(path).decode("utf-8-sig")


def numbers(path: str, dtype: DTypeLike, count: int, offset: int = 0) -> NDArray[Any]:
    """`np.fromfile` of a path."""
    import numpy as np  # the command line imports this module for its help

    if not is_remote(path):
        return np.fromfile(path, dtype, count, offset=offset)
    with open_remote(path) as file:
        file.seek(offset)
        return numbers_from(file, dtype, count)


def numbers_from(file: BinaryIO, dtype: DTypeLike, count: int) -> NDArray[Any]:
    """`np.fromfile` of an open file; fewer numbers at its end."""
    import numpy as np

    if isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
        return np.fromfile(file, dtype, count)
    kind = np.dtype(dtype)
    raw = file.read(count * kind.itemsize)
    return np.frombuffer(raw, kind, len(raw) // kind.itemsize)
