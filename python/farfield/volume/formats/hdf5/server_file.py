"""HDF5 files at servers. The library follows names of other files on this machine, or takes them for the same file: such
files are refused, since it would give other numbers. A link that is named is followed here."""

from __future__ import annotations

from typing import Any

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.hdf5.tree import few

_MOST_LINKS = 16
"""Links that are followed one after the other."""


def opened(h5py: Any, path: str) -> Any:
    """A file at a server.

    Raises:
        DataError: if it has links into other files.
    """
    file = h5py.File(places.for_library(path), "r", locking=False)
    try:
        outside: list[str] = []

        def visit(name: bytes, link: Any) -> None:
            if link.type == h5py.h5l.TYPE_EXTERNAL:
                outside.append("/" + name.decode("utf-8", errors="replace"))

        file.id.links.visit(visit, info=True)
        if outside:
            raise DataError(
                f"{path}: links of it lead into other files ({few(outside)}), which are followed at a server where one is "
                f"named: {path}::{outside[0]}; or copy all of its files here"
            )
    except BaseException:
        file.close()
        raise
    return file


def followed(h5py: Any, path: str, name: str) -> tuple[str, str]:
    """The file and the name in it that a name in a file at a server leads to.

    Raises:
        DataError: if a link leads to a file that is not there, or in a circle.
    """
    for _ in range(_MOST_LINKS):
        with h5py.File(places.for_library(path), "r", locking=False) as file:
            link = _first_link(h5py, file, name)
        if link is None:
            return path, name
        before, found, behind = link
        if isinstance(found, h5py.SoftLink):
            name = "/".join((found.path if found.path.startswith("/") else f"{before}/{found.path}", *behind))
            continue
        folder, named = places.dirname(path), str(found.filename)
        tried = [places.join(folder, named), places.join(folder, named.rsplit("/", 1)[-1])]
        places.prefetch_stats(tried)
        target = next((file for file in tried if places.isfile(file)), None)
        if target is None:
            raise DataError(f"{path}: its link {name} leads into {named}, which is not there; copy that file beside it")
        path, name = target, "/".join((found.path, *behind))
    raise DataError(f"{path}: its links of the name {name} lead in a circle, or through more than {_MOST_LINKS} files")


def _first_link(h5py: Any, file: Any, name: str) -> tuple[str, Any, list[str]] | None:
    """The first link on the way to a name: the group that it is in, the link, and what follows it."""
    group, before = file, ""
    words = [word for word in name.split("/") if word]
    for n, word in enumerate(words):
        found = group.get(word, getlink=True) if isinstance(group, h5py.Group) else None
        if found is None:
            return None
        if not isinstance(found, h5py.HardLink):
            return before, found, words[n + 1 :]
        group, before = group[word], f"{before}/{word}"
    return None


def refuse_others(where: str, path: str, plan: Any) -> None:
    """Refuses a dataset of a file at a server that has its numbers in other files.

    Raises:
        DataError: naming one of them.
    """
    if not places.is_remote(path):
        return
    names = [plan.get_external(n)[0].decode("utf-8", errors="replace") for n in range(plan.get_external_count())]
    if names:
        raise DataError(
            f"{where}: a part of it lies in {names[0]}, and numbers in several files are not read from a server; copy all of "
            "them here"
        )
