"""HDF5 files at servers. The library follows names of other files on this machine, or takes them for the same file: such
files are refused, since it would give other numbers."""

from __future__ import annotations

from typing import Any

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.hdf5.tree import few


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
                f"{path}: links of it lead into other files ({few(outside)}), which are not followed at a server; copy all of "
                "its files here"
            )
    except BaseException:
        file.close()
        raise
    return file


def refuse_others(h5py: Any, where: str, path: str, plan: Any) -> None:
    """Refuses a dataset of a file at a server that has its numbers in other files.

    Raises:
        DataError: naming one of them.
    """
    if not places.is_remote(path):
        return
    names = [plan.get_external(n)[0].decode("utf-8", errors="replace") for n in range(plan.get_external_count())]
    if plan.get_layout() == h5py.h5d.VIRTUAL:
        names += [name for n in range(plan.get_virtual_count()) if (name := plan.get_virtual_filename(n)) != "."]
    if names:
        raise DataError(
            f"{where}: a part of it lies in {names[0]}, and numbers in several files are not read from a server; copy all of "
            "them here"
        )
