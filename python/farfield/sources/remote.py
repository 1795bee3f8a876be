"""What servers say of their files, asked through the extension.

While a dataset is opened (`opening`), each answer is kept: a file is asked about once, and is of one version throughout.
An error of a server ends the opening, whoever has caught it meanwhile: only a file of which a server says that it is not
there is absent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from farfield.errors import AccessError, DataError
from farfield.sources.addresses import DOCUMENTS, can_list, normpath

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Stat:
    """What a server says of a file."""

    kind: str
    """`file`, `folder` or `other`."""
    size: int
    version: str
    changed_ns: int
    """The last change, in nanoseconds since 1970; 0 where it is unknown."""


@dataclass
class Knowledge:
    """What is known of files at servers during an opening."""

    known: dict[str, Stat | None] = field(default_factory=dict)
    listed: dict[str, list[tuple[str, bool, int]]] = field(default_factory=dict)
    in_lists: dict[str, Stat] = field(default_factory=dict)
    """Files of listed folders, whose versions are unknown."""
    documents: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """By folder: small files below it, as one document of it repeats them."""
    names: dict[str, frozenset[str]] = field(default_factory=dict)
    """By the same folders: the names of which no other files are below them."""
    readers: dict[str, Any] = field(default_factory=dict)
    """Open files, the last used one last."""
    error: Exception | None = None
    """The first error of a server."""
    native: ExitStack | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


_OPENING: ContextVar[Knowledge | None] = ContextVar("farfield_opening", default=None)


def extension() -> Any:
    """What asks the servers; tests replace it."""
    from farfield import _core

    return _core


@contextmanager
def opening() -> Iterator[None]:
    """The context in which a dataset is opened. A nested one is part of the outer one.

    Raises:
        AccessError: if a server refused or did not answer, even where that was caught inside.
        DataError: likewise, if a file at a server has changed meanwhile.
    """
    outer = _OPENING.get()
    held = Knowledge() if outer is None else outer
    token = _OPENING.set(held)
    try:
        yield
    except Exception as error:
        if held.error is not None and error is not held.error:
            raise held.error from error
        raise
    finally:
        _OPENING.reset(token)
        if outer is None and held.native is not None:
            held.native.close()
    if held.error is not None:
        raise held.error


def knowledge() -> Knowledge | None:
    """What the present opening knows; None outside of one."""
    return _OPENING.get()


def bound(read: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """`read` as a part of the present opening, for other threads."""
    held = _OPENING.get()

    def call(asked: _T) -> _R:
        token = _OPENING.set(held)
        try:
            return read(asked)
        finally:
            _OPENING.reset(token)

    return call


def ask(call: Callable[[Any], _T], *, ends: tuple[type[Exception], ...] = (AccessError, DataError)) -> _T:
    """The answer of the extension to a call. Errors that are one of `ends` end the opening."""
    held = _OPENING.get()
    native = extension()
    if held is not None and held.native is None:
        with held.lock:
            if held.native is None:
                held.native = ExitStack()
                held.native.enter_context(native.Opening())
    try:
        return call(native)
    except ends as error:
        if held is not None:
            held.error = held.error or error
        raise


def stats(paths: Sequence[str], *, versions: bool = False, first_bytes: bool | None = None) -> list[Stat | None]:
    """What servers say of files, asked in one batch; None of those that are not there. Without `versions`, lists of
    folders answer, too. `first_bytes`: the first block of each comes with the answer, for whoever reads it next; None: of
    documents of stores.

    Raises:
        AccessError: if a server does not answer, or refuses.
    """
    names = [normpath(path) for path in paths]
    held = _OPENING.get() or Knowledge()
    unknown = []
    for name in dict.fromkeys(names):
        if name in held.known:
            continue
        laid = _laid(held, name)
        if laid is not None:
            held.known[name] = laid[0]
        elif versions or name not in held.in_lists:
            unknown.append(name)
    if unknown:
        begins = all(map(is_document, unknown)) if first_bytes is None else first_bytes
        found = ask(lambda native: native.stat_files(unknown, first_bytes=begins))
        for name, said in zip(unknown, found, strict=True):
            held.known[name] = None if said is None else Stat(*said)
    return [held.known[name] if name in held.known else held.in_lists[name] for name in names]


def is_document(path: str) -> bool:
    """Whether a name is one of a document of a store."""
    return path.rsplit("/", 1)[-1] in DOCUMENTS


def listing(folder: str, *, optional: bool = False) -> list[tuple[str, bool, int]]:
    """Names in a folder, whether they are folders, and their bytes. `optional`: an opening goes on without it.

    Raises:
        AccessError: if the server does not answer, or refuses.
        DataError: if it gives no lists.
    """
    name = normpath(folder)
    held = _OPENING.get() or Knowledge()
    if name in held.listed:
        return held.listed[name]
    if not can_list(name):
        raise DataError(
            f"{folder}: this server does not say what its folders hold; name a file, or list the files, one a line, in a "
            "text file, and give that as @names.txt"
        )
    # That a folder is not there, or gives no lists, may be of no account to whoever asks.
    listed = ask(lambda native: native.list_folder(name), ends=() if optional else (AccessError,))
    found = [(str(n), bool(is_folder), int(size)) for n, is_folder, size in listed]
    with held.lock:
        held.listed[name] = found
        for inner, is_folder, size in found:
            held.in_lists[f"{name}/{inner}"] = Stat("folder" if is_folder else "file", size, "", 0)
    return found


def lay(folder: str, documents: Mapping[str, bytes], names: frozenset[str]) -> None:
    """Makes known all files below a folder that have one of these names, by their paths from there."""
    held = _OPENING.get()
    if held is not None:
        with held.lock:
            held.documents.setdefault(normpath(folder), dict(documents))
            held.names.setdefault(normpath(folder), names)


def is_laid(folder: str) -> bool:
    """Whether the documents below a folder are known."""
    held = _OPENING.get()
    return held is not None and _root_of(held, normpath(folder)) is not None


def laid_below(folder: str) -> list[str]:
    """Folders in a folder that have known documents below them, by name."""
    held = _OPENING.get()
    name = normpath(folder)
    root = None if held is None else _root_of(held, name)
    if held is None or root is None:
        return []
    inside = "" if root == name else name[len(root) + 1 :] + "/"
    below = (path[len(inside) :] for path in held.documents[root] if path.startswith(inside))
    return sorted({path.split("/")[0] for path in below if "/" in path})


def document_of(path: str) -> bytes | None:
    """The bytes of a file that another document repeats."""
    held = _OPENING.get()
    laid = None if held is None else _laid(held, normpath(path))
    return None if laid is None else laid[1]


def _root_of(held: Knowledge, name: str) -> str | None:
    return next((root for root in tuple(held.documents) if name == root or name.startswith(root + "/")), None)


def _laid(held: Knowledge, name: str) -> tuple[Stat | None, bytes | None] | None:
    """What is known of a file from documents; None where they say nothing of it."""
    root = _root_of(held, name) if held.documents else None
    if root is None or name.rsplit("/", 1)[-1] not in held.names[root]:
        return None
    inside = name[len(root) + 1 :]
    text = held.documents[root].get(inside)
    if text is None:
        # Of files beside that document nothing says that they are not there.
        return (None, None) if "/" in inside else None
    return Stat("file", len(text), "", 0), text
