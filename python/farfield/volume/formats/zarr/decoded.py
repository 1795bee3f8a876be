"""Arrays of Zarr whose codecs the extension does not have: zarr-python decodes them into the cache, box by box."""

from __future__ import annotations

import hashlib
import importlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from farfield.errors import DataError, FarfieldError
from farfield.sources import places
from farfield.volume.formats import number_parts
from farfield.volume.formats.cache_conversion import converted, identity
from farfield.volume.formats.description import contiguous
from farfield.volume.formats.hdf5.chunks import boxes
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.zarr import server_store
from farfield.volume.formats.zarr.codecs import UndecodedError
from farfield.volume.formats.zarr.nodes import Node
from farfield.volume.formats.zarr.zip_files import Mount

_MOUNTED: ContextVar[Mount | None] = ContextVar("farfield_zip", default=None)


@contextmanager
def placing(mounted: Mount) -> Iterator[None]:
    """Nodes that are settled meanwhile are of a store in a zip file."""
    token = _MOUNTED.set(mounted)
    try:
        yield
    finally:
        _MOUNTED.reset(token)


def tables_of(nodes: Sequence[Node]) -> list[bytes]:
    """Tables of where chunks lie, numbered anew for a volume of these arrays."""
    tables: list[bytes] = []
    for node in nodes:
        if node.table is not None:
            node.array.place["table"]["table"] = len(tables)
            tables.append(node.table)
    return tables


def settle(node: Node, resources: ReaderResources) -> list[str]:
    """Converts an array that is not decoded in place, and gives the files that were made; nothing for others. What is in a zip file
    is placed there.

    Raises:
        DataError: if zarr-python is not there, or does not decode it either.
    """
    why = node.undecoded
    mounted = _MOUNTED.get()
    if why is None:
        try:
            node.table = mounted.place(node.path, node.array) if mounted is not None else None
            return []
        except UndecodedError as error:
            why = error
    if mounted is None and not places.can_list(node.path):
        raise DataError(
            f"{why}; zarr-python decodes it, from a place that lists its files, as this server does not: copy the store here"
        ) from why
    try:
        opened = _opened(node, mounted)
    except ImportError as error:
        raise DataError(f"{why}; or pip install zarr, with which Farfield converts it into its cache") from error
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:  # a codec that it does not know
        raise DataError(f"{why}; zarr-python does not read it, either ({_short(error)})") from error
    array, part = node.array, number_parts.chosen(node.said) if why.complex else None
    array.never_written = _missing(opened)
    if array.fill is None and array.never_written:
        raise DataError(
            f"{node.path}: {array.never_written:,} of its chunks are missing, and its fill value does not say what is there; the "
            "data are damaged"
        )
    try:
        made = converted(
            node.path,
            resources,
            count=array.bytes,
            why=number_parts.WHY if part is not None else f"has a codec that is not decoded in place ({why.codec})",
            how=f"{part or ''}{array.dtype} {_state(node.path) if mounted is None else identity(mounted.path)}",
            write=boxes(
                _Whole(opened) if part is None else number_parts.Parted(_Whole(opened), part), array, resources
            ),
            at_once=math.prod(opened.shards or opened.chunks) * array.item,
        )
    except (FarfieldError, OSError, MemoryError):
        raise
    except Exception as error:  # codecs raise whatever they like
        raise DataError(
            f"{node.path}: a chunk of it cannot be decoded by zarr-python ({_short(error)}); copy or write it again"
        ) from error
    array.chunk, array.order, array.codecs, array.big_endian, array.fill = None, None, [], False, None
    array.place = contiguous(made.path, 0)
    return [made.path]


def _opened(node: Node, mounted: Mount | None) -> Any:
    """The array, as zarr-python has it: of a zip file within that."""
    zarr = importlib.import_module("zarr")
    if mounted is None:
        return zarr.open_array(server_store.of(zarr, node.path) if places.is_remote(node.path) else node.path, mode="r")
    store = zarr.storage.ZipStore(mounted.path, mode="r")
    inside = places.relpath(node.path, mounted.folder).replace(os.sep, "/")
    return zarr.open_array(store, path=mounted.root + ("" if inside == "." else inside), mode="r")


class _Whole:
    """An array whose units of reading are its shards, where it has them."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.chunks = opened.shards or opened.chunks

    def __getitem__(self, place: Any) -> Any:
        return self._opened[place]


def _missing(opened: Any) -> int:
    """How many files of chunks, or of shards, are not there."""
    unit = opened.shards or opened.chunks
    within = math.prod(s // c for s, c in zip(unit, opened.chunks, strict=True))
    files: int = math.prod(-(-n // u) for n, u in zip(opened.shape, unit, strict=True))
    there: int = opened.nchunks_initialized // within
    return max(0, files - there)


def _state(path: str) -> str:
    """A digest of what all its files were when they were written last."""
    digest = hashlib.sha256()
    for folder, inner, names in places.walk(path):
        inner.sort()
        places.prefetch_versions([places.join(folder, name) for name in names])
        for name in sorted(names):
            if places.is_remote(path):
                digest.update(f"{folder}/{name} {places.version(places.join(folder, name))}\n".encode())
                continue
            found = os.stat(os.path.join(folder, name))
            digest.update(f"{folder}/{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]
