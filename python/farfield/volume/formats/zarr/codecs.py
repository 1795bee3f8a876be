"""Codecs of Zarr arrays, as steps of decoding that the extension takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farfield.errors import DataError

Codec = dict[str, Any]
Config = Mapping[str, Any]
_KNOWN = (
    "zstd, gzip, zlib, blosc, lz4, bz2, shuffle, delta, crc32c, fletcher32, quantize, bitround, bytes, transpose, "
    "sharding_indexed"
)


class UndecodedError(DataError):
    """An array has a codec that the extension does not decode."""

    codec = ""
    complex = ""
    """Of complex numbers their type."""


def refuse(path: str, name: object, why: str = "") -> UndecodedError:
    """The error for a codec that is not decoded here."""
    error = UndecodedError(
        f"{path}: the codec '{name}'{why} is not one that Farfield decodes ({_KNOWN}); copy the array with "
        "zarr-python to one that is"
    )
    error.codec = f"{name}{why.strip(',')}"
    return error


def _same_type(path: str, name: str, config: Config, dtype: str) -> None:
    for key in ("dtype", "astype"):
        said = config.get(key)
        if said is None:
            continue
        try:
            same = np.dtype(said).name == dtype
        except TypeError:
            same = False
        if not same:
            raise refuse(
                path, name, f" from {config.get('dtype')} to {config.get('astype', said)} in an array of {dtype}"
            )


def _shuffle(path: str, config: Config, item: int) -> Codec:
    size = config.get("elementsize", item)
    if not isinstance(size, int) or not 1 <= size <= 255:
        raise DataError(f"{path}: its shuffle codec has elements of {size} bytes; the metadata is damaged")
    return {"name": "shuffle", "size": size}


_PLAIN = ("zstd", "gzip", "zlib", "lz4", "blosc", "bz2", "crc32c", "fletcher32")
"""Those whose parameters concern only who writes."""


_ROUNDS = ("quantize", "bitround")
"""Those that only round numbers before they are written: there is nothing to decode."""


def _step(path: str, name: str, config: Config, dtype: str) -> Codec | None:
    item = 1 if dtype == "bool" else np.dtype(dtype).itemsize
    if name in _PLAIN:
        return {"name": name}
    if name == "shuffle":
        return _shuffle(path, config, item)
    if name == "delta":
        _same_type(path, name, config, dtype)
        return {"name": "delta"}
    if name in _ROUNDS:
        _same_type(path, name, config, dtype)
        return None
    raise refuse(path, name)


def of_v2(path: str, compressor: Any, filters: Any, dtype: str) -> list[Codec]:
    """Steps of a v2 array: the compressor was applied last."""
    steps = []
    if compressor is not None:
        steps.append(compressor)
    if filters is not None and not isinstance(filters, list):
        raise DataError(f"{path}: its 'filters' are no list; the metadata is damaged")
    steps += reversed(filters or [])
    found = []
    for step in steps:
        if not isinstance(step, Mapping) or not isinstance(step.get("id"), str):
            raise DataError(f"{path}: one of its codecs has no 'id'; the metadata is damaged")
        found.append(_step(path, step["id"], step, dtype))
    return [step for step in found if step is not None]


class Chain:
    """Codecs of a v3 array or of the chunks in its shards, taken apart."""

    def __init__(self, path: str, listed: Any, dtype: str, rank: int) -> None:
        self.order: tuple[int, ...] | None = None
        self.big_endian = False
        self.steps: list[Codec] = []
        """Steps from stored bytes to elements."""
        self.shard: Config | None = None
        """Configuration of the sharding codec, where the chunks are shards."""
        if not isinstance(listed, list):
            raise DataError(f"{path}: its 'codecs' are no list; the metadata is damaged")
        met_bytes = False
        for codec in listed:
            name, config = _named(path, codec)
            if self.shard is not None:
                raise refuse(path, name, ", which stands after sharding_indexed,")
            if name == "transpose" and not met_bytes:
                self._transpose(path, config, rank)
            elif name in ("bytes", "endian"):
                self.big_endian, met_bytes = config.get("endian") == "big", True
            elif name == "sharding_indexed":
                if self.order is not None or self.steps:
                    raise refuse(path, name, ", with another codec before it,")
                self.shard, met_bytes = config, True
            else:
                step = _step(path, name.removeprefix("numcodecs."), config, dtype)
                if step is not None:
                    self.steps.insert(0, step)
        if not met_bytes:
            raise DataError(f"{path}: its codecs have none that makes bytes of numbers; the metadata is damaged")

    def _transpose(self, path: str, config: Config, rank: int) -> None:
        order = config.get("order")
        plain: dict[str, list[int]] = {"C": list(range(rank)), "F": list(range(rank))[::-1]}
        listed = plain.get(order, []) if isinstance(order, str) else order
        if not isinstance(listed, list) or sorted(listed, key=str) != sorted(range(rank), key=str):
            raise DataError(
                f"{path}: its transpose codec has the order {order!r} for {rank} dimensions; the metadata is damaged"
            )
        before = self.order or tuple(range(rank))
        self.order = tuple(before[n] for n in listed)


def _named(path: str, codec: Any) -> tuple[str, Config]:
    if isinstance(codec, str):
        return codec, {}
    name = codec.get("name") if isinstance(codec, Mapping) else None
    config = codec.get("configuration") or {} if isinstance(codec, Mapping) else {}
    if not isinstance(name, str) or not isinstance(config, Mapping):
        raise DataError(f"{path}: one of its codecs has no name; the metadata is damaged")
    return name, config


def index_of_shard(path: str, config: Config) -> tuple[bool, bool]:
    """Whether a shard's index ends with a crc32c, and whether it stands at the end."""
    names = [_named(path, codec) for codec in config.get("index_codecs") or []]
    if not names or names[0][0] != "bytes" or names[0][1].get("endian", "little") != "little":
        raise refuse(path, "sharding_indexed", " with an index of other than little-endian numbers")
    rest = [name for name, _ in names[1:]]
    if rest not in ([], ["crc32c"]):
        raise refuse(path, "sharding_indexed", f" with an index in {', '.join(rest)}")
    location = config.get("index_location", "end")
    if location not in ("start", "end"):
        raise DataError(f"{path}: its shards have their index at '{location}'; the metadata is damaged")
    return rest == ["crc32c"], location == "end"


def whole_numbers(path: str, key: str, value: Any, *, least: int, length: int | None = None) -> tuple[int, ...]:
    """A list of whole numbers of a metadata document."""
    fine = isinstance(value, Sequence) and not isinstance(value, str)
    if not fine or any(isinstance(n, bool) or not isinstance(n, int) or n < least for n in value):
        raise DataError(
            f"{path}: '{key}' is {value!r}, and should be whole numbers of at least {least}; the metadata is damaged"
        )
    if length is not None and len(value) != length:
        raise DataError(f"{path}: '{key}' has {len(value)} numbers for {length} dimensions; the metadata is damaged")
    return tuple(value)
