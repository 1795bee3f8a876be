"""Nodes of Zarr stores, v2 and v3: their metadata documents, read by us, so that nothing of theirs is loaded."""

from __future__ import annotations

import base64
import binascii
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats import number_parts
from farfield.volume.formats.description import Array, dtype_of, text_of
from farfield.volume.formats.files import json_object, unreadable
from farfield.volume.formats.zarr import codecs as zarr_codecs
from farfield.volume.formats.zarr import consolidated
from farfield.volume.formats.zarr.codecs import whole_numbers

_MOST_NODES = 10_000
_DEEPEST = 8
_KEYS = frozenset((
    "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes",
    "dimension_names", "storage_transformers", "consolidated_metadata",
))  # fmt: skip
"""Of a document of v3. Any other must be understood, unless it says that it need not."""


@dataclass
class Group:
    """A group: its attributes, and where it is."""

    path: str
    version: int
    attributes: dict[str, Any]


@dataclass
class Node:
    """An array: how its chunks lie, and what its attributes say."""

    path: str
    version: int
    attributes: dict[str, Any]
    shape: tuple[int, ...]
    array: Array
    """With axes that are not known yet."""
    names: list[str | None] | None = field(default=None)
    """Names of its dimensions, where it has them."""
    undecoded: zarr_codecs.UndecodedError | None = None
    """Why it is not read where it lies: then its array has no place yet."""
    table: bytes | None = None
    """Where its chunks lie in a file that holds all of them."""
    said: list[str] = field(default_factory=list)
    """What was guessed when its numbers were placed."""
    no_fill: bool = False
    """Its document says that nothing is known of chunks that are not there."""

    @property
    def name(self) -> str:
        """Its own name in its group."""
        return os.path.basename(self.path.rstrip("/"))


def kind_of(path: str) -> str | None:
    """`array`, `group` or `v3` (either; its document says) of a folder; None where it is no node."""
    consolidated.look(path)
    if places.isfile(os.path.join(path, "zarr.json")):
        return "v3"
    if places.isfile(os.path.join(path, ".zarray")):
        return "array"
    if any(places.isfile(os.path.join(path, name)) for name in (".zgroup", ".zattrs", ".zmetadata")):
        return "group"
    return None


def prefetch(folders: Sequence[str]) -> None:
    """Asks for the documents of folders at a server at once."""
    names = [places.join(folder, name) for folder in folders if places.is_remote(folder) for name in places.DOCUMENTS]
    places.prefetch_stats(names)
    places.prefetch_files([name for name in names if places.isfile(name)])


def open_node(path: str) -> Group | Node | None:
    """The node in a folder; None where there is none.

    Raises:
        DataError: if its metadata is damaged, or its chunks lie in a way that is not read here.
    """
    kind = kind_of(path)
    if kind is None:
        return None
    if kind == "v3":
        document = os.path.join(path, "zarr.json")
        found = json_object(document)
        attributes = _attributes(document, found.get("attributes") or {})
        if found.get("zarr_format") != 3:
            raise DataError(
                f"{document}: its 'zarr_format' is {found.get('zarr_format')!r}, not 3; the metadata is damaged"
            )
        for key, value in found.items():
            if key not in _KEYS and not (isinstance(value, Mapping) and value.get("must_understand") is False):
                raise DataError(
                    f"{document}: it has the key '{key}', which is not known here and does not say that it need not be "
                    "understood; copy it with the program that wrote it, to Zarr without that extension"
                )
        if found.get("node_type") == "group":
            return Group(path, 3, attributes)
        if found.get("node_type") != "array":
            raise DataError(f"{document}: its 'node_type' is {found.get('node_type')!r}; the metadata is damaged")
        try:
            return _array_v3(path, document, found, attributes)
        except zarr_codecs.UndecodedError as error:
            return _opaque(path, document, found, attributes, error)
    beside = os.path.join(path, ".zattrs")
    attributes = json_object(beside) if places.isfile(beside) else {}
    if kind == "group":
        return Group(path, 2, attributes)
    document = os.path.join(path, ".zarray")
    found = json_object(document)
    try:
        return _array_v2(path, document, found, attributes)
    except zarr_codecs.UndecodedError as error:
        return _opaque(path, document, found, attributes, error)


def _opaque(
    path: str, document: str, found: Mapping[str, Any], attributes: dict[str, Any], why: zarr_codecs.UndecodedError
) -> Node:
    """An array that is decoded by somebody else: its document was looked at before its codecs were."""
    version = int(found["zarr_format"])
    shape = whole_numbers(document, "shape", found.get("shape"), least=0)
    said = found["data_type"] if version == 3 else found["dtype"]
    dtype, _ = dtype_of(number_parts.REAL.get(why.complex) or said, document)
    names = found.get("dimension_names") if version == 3 else attributes.get("_ARRAY_DIMENSIONS")
    array = Array(name=_name(path), dtype=dtype, shape=shape, axes="", place={})
    fill = found.get("fill_value")
    # Of complex numbers somebody else puts it in.
    array.fill = (0.0 if fill is not None else None) if why.complex else _fill(document, fill, dtype)
    return Node(path, version, attributes, shape, array, _names(names, shape), why, no_fill=_no_fill(version, found))


def _no_fill(version: int, found: Mapping[str, Any]) -> bool:
    return version == 2 and found.get("fill_value") is None


def filled(nodes: Sequence[Node]) -> list[str]:
    """Gives arrays of v2 without a fill value the 0 that zarr-python reads for chunks that are not there, and says so.

    GDAL and others leave chunks of such arrays out. Coordinates are not asked: zeros among them would be places.
    """
    without = [node for node in nodes if node.no_fill]
    for node in without:
        node.array.fill = 0
    if not without:
        return []
    return [
        f"no fill value is said of {', '.join(repr(n.name) for n in without[:8])} (null in .zarray), so that nothing says what "
        "chunks hold that are not there: they are read as 0, as zarr-python reads them, and counted as never written"
    ]


def can_list(path: str) -> bool:
    """Whether the nodes below a group are known, or can be asked for."""
    return places.can_list(path) or consolidated.is_known(path)


def children(path: str) -> Iterator[str]:
    """Folders below a group that are nodes, by name.

    Raises:
        DataError: if the folder cannot be listed.
    """
    if not can_list(path):
        raise DataError(
            f"{path}: this server does not say what its folders hold, and this group has no consolidated metadata; name an array "
            f"of it ({path}/NAME), or write these (zarr.consolidate_metadata)"
        )
    try:
        if consolidated.is_known(path):
            found = consolidated.children(path)
        else:
            inside = places.entries(path)
            found = sorted(entry.path for entry in inside if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise unreadable(path, error) from error
    prefetch(found)
    yield from (child for child in found if kind_of(child) is not None)


def arrays_below(path: str, deepest: int = _DEEPEST) -> list[str]:
    """Folders of all arrays of a group, those of its groups behind them; a few thousand at most."""
    found: list[str] = []
    waiting = [(path, 0)]
    while waiting and len(found) < _MOST_NODES:
        folder, depth = waiting.pop(0)
        for child in children(folder):
            is_array = places.isfile(os.path.join(child, ".zarray"))
            if not is_array and places.isfile(os.path.join(child, "zarr.json")):
                is_array = json_object(os.path.join(child, "zarr.json")).get("node_type") == "array"
            if is_array:
                found.append(child)
            elif depth < deepest:
                waiting.append((child, depth + 1))
    return found


def lost_arrays(group: Group) -> list[str]:
    """Arrays that a group's consolidated metadata name, and whose own documents are not there: they were not copied along."""
    listing = os.path.join(group.path, ".zmetadata" if group.version == 2 else "zarr.json")
    if not places.isfile(listing):
        return []
    found = json_object(listing)
    about = found if group.version == 2 else found.get("consolidated_metadata")
    listed = about.get("metadata") if isinstance(about, Mapping) else None
    if not isinstance(listed, Mapping):
        return []
    if group.version == 2:
        names = [key.removesuffix("/.zarray") for key in listed if key.endswith("/.zarray")]
    else:
        names = [key for key, node in listed.items() if isinstance(node, Mapping) and node.get("node_type") == "array"]
    return [name for name in names[:_MOST_NODES] if kind_of(os.path.join(group.path, name)) is None]


def _attributes(document: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise DataError(f"{document}: its 'attributes' are no object; the metadata is damaged")
    return dict(found)


def _array_v2(path: str, document: str, found: Mapping[str, Any], attributes: dict[str, Any]) -> Node:
    if found.get("zarr_format") != 2:
        raise DataError(
            f"{document}: its 'zarr_format' is {found.get('zarr_format')!r}, not 2; the metadata is damaged"
        )
    shape = whole_numbers(document, "shape", found.get("shape"), least=0)
    chunk = whole_numbers(document, "chunks", found.get("chunks"), least=1, length=len(shape))
    dtype, big = _dtype_of(_type_v2(document, found.get("dtype")), document)
    separator = found.get("dimension_separator", ".")
    if separator not in (".", "/"):
        raise DataError(f"{document}: its 'dimension_separator' is {separator!r}; the metadata is damaged")
    if found.get("order", "C") not in ("C", "F"):
        raise DataError(f"{document}: its 'order' is {found.get('order')!r}; the metadata is damaged")
    array = Array(
        name=_name(path),
        dtype=dtype,
        shape=shape,
        axes="",
        place={"keys": {"prefix": _prefix(path), "separator": separator}},
        big_endian=big,
        chunk=chunk,
        order=tuple(reversed(range(len(shape)))) if found.get("order") == "F" else None,
        fill=_fill(document, found.get("fill_value"), dtype),
        codecs=zarr_codecs.of_v2(document, found.get("compressor"), found.get("filters"), dtype),
    )
    names = _names(attributes.get("_ARRAY_DIMENSIONS"), shape)
    return Node(path, 2, attributes, shape, array, names, no_fill=_no_fill(2, found))


def _dtype_of(said: str, document: str) -> tuple[str, bool]:
    """As `dtype_of`. Complex numbers are not decoded here."""
    name = {"<c8": "complex64", ">c8": "complex64", "<c16": "complex128", ">c16": "complex128"}.get(said, said)
    if name in number_parts.REAL:
        error = zarr_codecs.UndecodedError(f"{document}: it holds complex numbers ({name})")
        error.complex = name
        raise error
    return dtype_of(said, document)


def _type_v2(document: str, said: Any) -> str:
    if not isinstance(said, str):
        raise DataError(
            f"{document}: it holds records of several numbers ({said}), which a volume cannot have; copy one of them out"
        )
    return said


def _array_v3(path: str, document: str, found: Mapping[str, Any], attributes: dict[str, Any]) -> Node:
    shape = whole_numbers(document, "shape", found.get("shape"), least=0)
    grid, chunk_of = _configured(found.get("chunk_grid"))
    if grid != "regular":
        raise DataError(
            f"{document}: its chunk grid is '{grid}', and only regular ones are read; copy the array with zarr-python"
        )
    chunk = whole_numbers(document, "chunk_shape", chunk_of.get("chunk_shape"), least=1, length=len(shape))
    said = found.get("data_type")
    if not isinstance(said, str):
        raise DataError(f"{document}: its data type {said} is none that a volume can have; convert it to float32 first")
    dtype, _ = _dtype_of(said, document)
    if found.get("storage_transformers"):
        raise DataError(f"{document}: it has storage transformers, which are not read; copy the array with zarr-python")
    encoding, keys = _configured(found.get("chunk_key_encoding"))
    if encoding not in ("default", "v2"):
        raise DataError(
            f"{document}: its chunks are named by '{encoding}', which is not known; copy the array with zarr-python"
        )
    separator = keys.get("separator", "/" if encoding == "default" else ".")
    if separator not in (".", "/"):
        raise DataError(f"{document}: the separator of its chunk keys is {separator!r}; the metadata is damaged")
    prefix = _prefix(path) + (f"c{separator}" if encoding == "default" else "")
    chain = zarr_codecs.Chain(document, found.get("codecs"), dtype, len(shape))
    place: dict[str, Any] = {"keys": {"prefix": prefix, "separator": separator}}
    if chain.shard is not None:
        inner = whole_numbers(document, "chunk_shape", chain.shard.get("chunk_shape"), least=1, length=len(shape))
        if any(outer % n for outer, n in zip(chunk, inner, strict=True)):
            raise DataError(
                f"{document}: its shards of {text_of(chunk)} are not whole numbers of chunks of {text_of(inner)}; "
                "the metadata is damaged"
            )
        crc, at_end = zarr_codecs.index_of_shard(document, chain.shard)
        place = {
            "shards": {
                "prefix": prefix,
                "separator": separator,
                "shard": list(chunk),
                "index_crc32c": crc,
                "index_at_end": at_end,
            }
        }
        chunk, chain = inner, zarr_codecs.Chain(document, chain.shard.get("codecs"), dtype, len(shape))
        if chain.shard is not None:
            raise zarr_codecs.refuse(document, "sharding_indexed", " within sharding_indexed")
    array = Array(
        name=_name(path),
        dtype=dtype,
        shape=shape,
        axes="",
        place=place,
        big_endian=chain.big_endian and np.dtype(dtype).itemsize > 1,
        chunk=chunk,
        order=chain.order,
        fill=_fill(document, found.get("fill_value"), dtype),
        codecs=chain.steps,
    )
    return Node(path, 3, attributes, shape, array, _names(found.get("dimension_names"), shape))


def _configured(found: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(found, str):
        return found, {}
    if not isinstance(found, Mapping):
        return "none", {}
    config = found.get("configuration")
    return str(found.get("name")), config if isinstance(config, Mapping) else {}


def _prefix(path: str) -> str:
    return path.rstrip("/") + "/"


def _name(path: str) -> str:
    return os.path.basename(path.rstrip("/"))


def _names(found: Any, shape: tuple[int, ...]) -> list[str | None] | None:
    if not isinstance(found, list) or len(found) != len(shape):
        return None
    return [n if isinstance(n, str) else None for n in found]


def _fill(document: str, said: Any, dtype: str) -> float | None:
    """What chunks hold that were never written; None where the format does not say: then such a chunk is an error, and not a
    wrong number.
    """
    found = said
    if isinstance(said, str):
        found = _fill_of_text(said, dtype)
    if isinstance(found, bool):
        return float(found)
    if said is None:
        return None
    if not isinstance(found, int | float):
        raise DataError(
            f"{document}: its 'fill_value' is {said!r}, which is no number of {dtype}; the metadata is damaged"
        )
    if dtype.startswith("float"):
        try:
            return float(found)
        except OverflowError:
            return None
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not math.isfinite(found) or int(found) != found or not limits[0] <= found <= limits[1]:
        raise DataError(
            f"{document}: its 'fill_value' is {said!r}, which is no number of {dtype}; the metadata is damaged"
        )
    return int(found)


def _fill_of_text(said: str, dtype: str) -> float | None:
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "true": 1.0, "false": 0.0}
    if said in words:
        return words[said]
    size = 1 if dtype == "bool" else np.dtype(dtype).itemsize
    try:
        raw = int(said, 16).to_bytes(size, "little") if said.startswith("0x") else base64.b64decode(said, validate=True)
    except (ValueError, OverflowError, binascii.Error):
        return None
    return np.frombuffer(raw, dtype)[0].item() if len(raw) == size and dtype != "bool" else None


def decoded_fill(said: Any, dtype: str) -> float | None:
    """A `_FillValue` attribute as xarray writes it into v3 stores: a number, or the bytes of a double in base64."""
    if isinstance(said, bool):
        return None
    if isinstance(said, list) and len(said) == 1:
        said = said[0]
    if isinstance(said, int | float):
        return float(said)
    if isinstance(said, str):
        if said in ("NaN", "Infinity", "-Infinity"):
            return _fill_of_text(said, dtype)
        try:
            raw = base64.b64decode(said, validate=True)
        except (ValueError, binascii.Error):
            return None
        return float(struct.unpack("<d", raw)[0]) if len(raw) == 8 else None
    return None
