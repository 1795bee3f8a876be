"""Files of a Zarr store by field and time step, from the names of its chunks.

>>> chosen_steps("1:6:2", 8), chosen_steps("0,-1", 8), chosen_steps("all", 3)
([1, 3, 5], [0, 7], [0, 1, 2])
"""

from __future__ import annotations

import itertools
import json
import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farfield.errors import DataError, UnknownName, UsageError
from farfield.sources import places

_TIME = ("time", "t")
_DOCUMENTS = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")
_OWN = "_farfield/"
"""Boxes and ranges in a store of Farfield."""
_MOST_NAMES = 4_000_000
"""Chunks whose names are computed for a store at a server that lists nothing."""


def chosen_steps(text: str, count: int) -> list[int]:
    """Time steps of `all`, `a:b:s` or `n,n,...`; negative numbers count from the end.

    Raises:
        UsageError: if it is none of them, or names a step that does not exist.
    """
    every = range(count)
    try:
        if text == "all":
            found = list(every)
        elif ":" in text:
            found = list(every[slice(*(int(part) if part else None for part in text.split(":")))])
        else:
            found = sorted({every[int(part)] for part in text.split(",")})
    except (ValueError, TypeError, IndexError):
        raise UsageError(
            f"--steps {text}: give all, a:b:s or n,n,...; there are {count} steps, counted from 0"
        ) from None
    if not found:
        raise UsageError(f"--steps {text}: there is no such step; there are {count}, counted from 0")
    return found


@dataclass(frozen=True)
class ZarrArray:
    """What the document of an array says of the names of its files."""

    name: str
    """Below the store."""
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    """Of a file."""
    dimensions: tuple[str, ...]
    prefix: str
    separator: str

    @property
    def field(self) -> str:
        """Its own name."""
        return posixpath.basename(self.name)

    @property
    def is_coordinate(self) -> bool:
        """Whether it numbers one of its own dimensions."""
        return self.dimensions == (self.field,)

    @property
    def time(self) -> int | None:
        """The position of the dimension of time."""
        return next((n for n, name in enumerate(self.dimensions) if name.lower() in _TIME), None)

    @classmethod
    def of(cls, name: str, text: bytes, attributes: Mapping[str, Any]) -> ZarrArray | None:
        """That of a document `zarr.json` or `.zarray`; None of a group."""
        said = json.loads(text)
        if said.get("zarr_format") == 2:
            names = attributes.get("_ARRAY_DIMENSIONS") or ()
            separator = said.get("dimension_separator", ".")
            return cls(name, tuple(said["shape"]), tuple(said["chunks"]), tuple(names), "", separator)
        if said.get("node_type") != "array":
            return None
        grid, keys = said["chunk_grid"], said["chunk_key_encoding"]
        is_v2 = keys["name"] == "v2"
        separator = keys.get("configuration", {}).get("separator", "." if is_v2 else "/")
        names = tuple(str(part or "") for part in said.get("dimension_names") or ())
        chunk = tuple(grid["configuration"]["chunk_shape"])
        return cls(name, tuple(said["shape"]), chunk, names, "" if is_v2 else f"c{separator}", separator)

    def key(self, name: str) -> tuple[int, ...] | None:
        """The numbers of the chunk that a file of it holds; None if it is no chunk."""
        inner = name[len(self.name) + 1 :] if self.name else name
        if not inner.startswith(self.prefix):
            return None
        numbers = inner[len(self.prefix) :].split(self.separator)
        if len(numbers) != len(self.shape) or not all(number.isdigit() for number in numbers):
            return None
        return tuple(map(int, numbers))

    def names(self) -> Iterator[str]:
        """Names of all its chunks, written or not."""
        counts = [math.ceil(n / c) for n, c in zip(self.shape, self.chunk, strict=True)]
        if not counts:
            yield posixpath.join(self.name, self.prefix[:-1] or "0")
            return
        for key in itertools.product(*map(range, counts)):
            yield posixpath.join(self.name, self.prefix + self.separator.join(map(str, key)))


def parts_of_store(folder: str, names: Sequence[str], fields: Sequence[str], steps: str | None) -> list[str]:
    """The files of a store that some of its fields and steps need: their chunks, coordinates, and all documents. Boxes and
    ranges of a store of Farfield always come: it does not open without them.

    Raises:
        UsageError: if the folder is no store, or all fields are in one array.
        UnknownName: if there is no such field.
    """
    arrays = _arrays(folder, names)
    if not arrays:
        raise UsageError(
            f"{folder}: --fields and --steps are for stores of Zarr, which this folder is not; convert it first"
        )
    known = _fields(folder, arrays)
    if fields and (not known or "" in arrays):
        raise UsageError(f"{folder}: its channels are in one array, so that --fields cannot take them apart")
    for name in fields:
        if name not in known:
            raise UnknownName(f"no field named '{name}'; there are: {', '.join(sorted(known))}")
    timed = [a for a in arrays.values() if a.time is not None and not a.is_coordinate and a.field != "time"]
    count = max((a.shape[a.time] for a in timed if a.time is not None), default=1)
    wanted = None if steps is None else set(chosen_steps(steps, count))
    left_out = known - set(fields) if fields else set()

    def is_needed(name: str) -> bool:
        if posixpath.basename(name) in _DOCUMENTS or name.startswith(_OWN):
            return True
        array = _array_of(arrays, name)
        if array is None:
            return True
        if array.field in left_out:
            return False
        key = array.key(name)
        if wanted is None or key is None or array.time is None or array.shape[array.time] != count:
            return True
        first = key[array.time] * array.chunk[array.time]
        return any(step in wanted for step in range(first, first + array.chunk[array.time])) or array.is_coordinate

    return [name for name in names if is_needed(name)]


def _arrays(folder: str, names: Sequence[str]) -> dict[str, ZarrArray]:
    """The arrays of a store, by name."""
    documents = [name for name in names if posixpath.basename(name) in (".zarray", "zarr.json")]
    places.prefetch_files([places.join(folder, name) for name in documents])
    found = {}
    for document in documents:
        name = posixpath.dirname(document)
        attributes = {}
        beside = posixpath.join(name, ".zattrs")
        if document.endswith(".zarray") and beside in names:
            attributes = json.loads(places.read_bytes(places.join(folder, beside)))
        try:
            array = ZarrArray.of(name, places.read_bytes(places.join(folder, document)), attributes)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{places.join(folder, document)}: this is no document of Zarr ({error})") from error
        if array is not None:
            found[name] = array
    return found


def _array_of(arrays: Mapping[str, ZarrArray], name: str) -> ZarrArray | None:
    """The array of a file."""
    while name:
        name = posixpath.dirname(name)
        if name in arrays:
            return arrays[name]
    return None


def _catalog(folder: str) -> Mapping[str, Any] | None:
    """The catalog of a store of Farfield; None of another one."""
    path = places.join(folder, "zarr.json")
    if not places.exists(path):
        return None
    said = json.loads(places.read_bytes(path)).get("attributes", {}).get("farfield", {})
    catalog = said.get("catalog") if isinstance(said, dict) else None
    return catalog if isinstance(catalog, dict) else None


def _fields(folder: str, arrays: Mapping[str, ZarrArray]) -> set[str]:
    """Names of what can be left out."""
    catalog = _catalog(folder)
    if catalog is not None and "zones" in catalog:
        return {array[0] for zone in catalog["zones"] for array in zone["arrays"] if array[1] == "field"}
    attributes = _attributes(folder)
    if "multiscales" in attributes or "ome" in attributes:
        return set()
    dimensions = {name for array in arrays.values() for name in array.dimensions}
    return {a.field for a in arrays.values() if a.field not in dimensions and not a.name.startswith(_OWN)}


def _attributes(folder: str) -> dict[str, Any]:
    """Attributes of the group at the top of a store."""
    for name in ("zarr.json", ".zattrs"):
        path = places.join(folder, name)
        if places.exists(path):
            said = json.loads(places.read_bytes(path))
            found = said.get("attributes", {}) if name == "zarr.json" else said
            return dict(found)
    return {}


def stored_names(folder: str) -> list[str]:
    """Names of the files of a store of Farfield at a server that lists nothing.

    Raises:
        DataError: if it is another folder: nothing says which files it has.
    """
    catalog = _catalog(folder)
    if catalog is None or "zones" not in catalog:
        raise DataError(
            f"{folder}: this server does not say which files a folder has, and this is no store of flows of Farfield; list "
            "its files, one a line, in a text file, and give that as @names.txt"
        )
    documents = ["zarr.json"]
    for zone in catalog["zones"]:
        names = [zone["name"], *(f"{zone['name']}/{array[0]}" for array in zone["arrays"]), f"{zone['name']}/time"]
        names += [f"_farfield/{zone['name']}"]
        documents += [f"{name}/zarr.json" for name in names]
    numbered = [
        f"_farfield/{zone['name']}/{kind}_{{}}/zarr.json"
        for zone in catalog["zones"]
        for kind in ("boxes", *(f"ranges_{array[0]}" for array in zone["arrays"]))
    ]
    documents += ["_farfield/zarr.json"]
    found = _there(folder, documents)
    for number in itertools.count():
        more = _there(folder, [name.format(number) for name in numbered])
        if not more:
            break
        found += more
    arrays = _arrays(folder, found)
    if sum(1 for array in arrays.values() for _ in itertools.islice(array.names(), _MOST_NAMES)) >= _MOST_NAMES:
        raise DataError(f"{folder}: this server does not say which files a folder has, and this store has too many")
    return sorted({*found, *_there(folder, [name for array in arrays.values() for name in array.names()])})


def _there(folder: str, names: Sequence[str]) -> list[str]:
    """Those of the names that exist."""
    places.prefetch_stats([places.join(folder, name) for name in names])
    return [name for name in names if places.exists(places.join(folder, name))]
