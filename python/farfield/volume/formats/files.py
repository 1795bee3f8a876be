"""Bounded reading of small files, and functions on names."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from farfield.errors import AccessError, DataError
from farfield.sources import places, remote

LONGEST_DOCUMENT = 64 << 20
"""Largest size of a metadata document in bytes; documents are read whole."""


def head(path: str, count: int, offset: int = 0) -> bytes:
    """The bytes of a file from `offset`, at most `count`.

    Raises:
        DataError: if it cannot be read.
        AccessError: if permissions prevent reading.
    """
    try:
        with places.open_binary(path) as file:
            file.seek(offset)
            return file.read(count)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError) -> DataError | AccessError:
    """The error for an error of the system."""
    if isinstance(error, DataError | AccessError):  # a server's
        return error
    if isinstance(error, PermissionError):
        return AccessError(f"{path}: permission denied; ask its owner for the right to read it")
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: there is no such file; it is part of the volume: copy it here too")
    if error.errno == errno.EMFILE:
        what = "the process may have no more files open; close datasets, or raise its limit (ulimit -n)"
        return DataError(f"{path}: cannot read it: {what}")
    return DataError(f"{path}: cannot read it: {error.strerror or error}")


def document(path: str) -> bytes:
    """The whole of a metadata document.

    Raises:
        DataError: if it does not exist, or is too long.
    """
    text = head(path, LONGEST_DOCUMENT + 1)
    if len(text) > LONGEST_DOCUMENT:
        raise DataError(f"{path}: this is longer than {LONGEST_DOCUMENT >> 20} MiB, which no metadata document is")
    return text


def json_object(path: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        DataError: if the file is not a JSON object.
    """
    try:
        found = json.loads(document(path))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: this is not JSON ({error}); the file was cut off or changed: write it again"
        ) from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: this holds no JSON object; write it again with the tool that made it")
    return found


def xml(path: str, text: str | bytes) -> ElementTree.Element:
    """The root of an XML document. It may not define entities, which could expand a few lines to gigabytes.

    Raises:
        DataError: if it is not XML.
    """
    parser = expat.ParserCreate()
    builder = ElementTree.TreeBuilder()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    refuse_entities(path, parser)
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, AssertionError, ValueError) as error:
        raise DataError(
            f"{path}: its XML cannot be read ({error}); write it again with the tool that made it"
        ) from error


def refuse_entities(path: str, parser: expat.XMLParserType) -> None:
    """Makes a parser stop at a definition of an entity."""

    def refuse(*_: Any) -> None:
        raise DataError(f"{path}: its XML defines entities, which no volume needs; take the DOCTYPE out of it")

    parser.EntityDeclHandler = refuse


def local_name(tag: str) -> str:
    """A tag without its namespace.

    >>> local_name("{http://x}Image"), local_name("ome:Image"), local_name("Image")
    ('Image', 'Image', 'Image')
    """
    return tag.rsplit("}", 1)[-1].rsplit(":", 1)[-1]


_MOST_GAPS = 4
"""Largest number of gaps in a sentence."""


def missing_slices(files: Sequence[str], counts: Sequence[int]) -> str:
    """The number of missing slices in a series and their places. `counts` are the steps from each slice to the next.

    >>> missing_slices(["s/1.png", "s/2.png", "s/4.png", "s/7.png"], [1, 2, 3])
    '3 slices are missing, 1 between 2.png and 4.png, 2 between 4.png and 7.png'
    >>> missing_slices(["1.png", "3.png"], [2])
    'a slice is missing between 1.png and 3.png'
    """
    lacking = sum(counts) - len(counts)
    at = [
        f"{f'{n - 1} ' if lacking > 1 else ''}between {os.path.basename(before)} and {os.path.basename(after)}"
        for n, (before, after) in zip(counts, itertools.pairwise(files), strict=True)
        if n > 1
    ]
    what = "a slice is missing" if lacking == 1 else f"{lacking} slices are missing,"
    more = f", and {len(at) - _MOST_GAPS} times more" if len(at) > _MOST_GAPS else ""
    return f"{what} {', '.join(at[:_MOST_GAPS])}{more}"


def stem(path: str) -> str:
    """A file's name without its suffixes.

    >>> stem("/data/head.nii.gz"), stem("head.v2.raw")
    ('head', 'head.v2')
    """
    name = os.path.basename(path.rstrip("/"))
    for packed in (".gz", ".gzip", ".bz2", ".xz"):
        if name.lower().endswith(packed):
            name = name[: -len(packed)]
    for suffix in (".companion.ome", ".ome.tiff", ".ome.tif", ".ome.zarr"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return os.path.splitext(name)[0] or name


MOST_FILES = 100_000
"""Largest number of chunk files to sum sizes of, which takes about a second."""


MOST_FOLDERS = 256
"""Largest number of folders of a server to list: each is a round trip, sixteen at a time."""
_LISTS_AT_ONCE = 16


def bytes_of_chunks(spec: Mapping[str, Any], *, at_servers: bool = False) -> int | None:
    """Bytes of the files of a volume with one file per chunk or shard; None for others, for too many files, and for files at
    a server that gives no lists. `at_servers`: servers are asked.
    """
    wheres = [a["where"] for level in spec["levels"] for a in level["arrays"]]
    chunked = [where.get("keys") or where.get("shards") for where in wheres]
    prefixes = [str(of["prefix"]) for of in chunked if of is not None]
    if len(prefixes) < len(wheres):
        return None
    folders = list(dict.fromkeys(os.path.dirname(prefix) or "." for prefix in prefixes))
    if any(map(places.is_remote, folders)):
        if not at_servers or not all(map(places.can_list, folders)):
            return None
        with contextlib.suppress(AccessError):  # whoever may read files may not always list them
            return _bytes_at_servers(folders)
        return None
    total = files = 0
    for folder in folders:
        waiting = [folder]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except FileNotFoundError:
                continue  # all its chunks may be the fill value
            for entry in entries:
                if entry.is_dir():
                    waiting.append(entry.path)
                    continue
                files += 1
                if files > MOST_FILES:
                    return None
                try:
                    total += entry.stat().st_size
                except FileNotFoundError:  # a link to an absent file
                    continue
    return total


def _bytes_at_servers(folders: list[str]) -> int | None:
    """The same by lists of servers, folder below folder."""
    from concurrent.futures import ThreadPoolExecutor  # the command line imports this module for its help

    def entries(folder: str) -> list[tuple[str, bool, int]]:
        try:
            listed = remote.listing(folder, optional=True)
            return [(places.join(folder, name), is_folder, size) for name, is_folder, size in listed]
        except DataError:  # a folder of chunks that were never written is not there
            return []

    total = files = listed = 0
    with ThreadPoolExecutor(_LISTS_AT_ONCE, thread_name_prefix="lists") as pool:
        while folders:
            listed += len(folders)
            if listed > MOST_FOLDERS:
                return None
            found = [entry for part in pool.map(places.bound(entries), folders) for entry in part]
            folders = [path for path, is_folder, _ in found if is_folder]
            files += len(found) - len(folders)
            if files > MOST_FILES:
                return None
            total += sum(size for _, is_folder, size in found if not is_folder)
    return total
