"""A stand-in for the extension's volumes that decodes whole arrays with numcodecs: for tests of readers alone."""

from __future__ import annotations

import itertools
import json
import math
import types
from typing import Any

import numcodecs
import numpy as np
import pytest

from fake_native import STATS, put


def stand_in(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Puts `Volume` in place of the extension's while a test runs."""
    core = types.ModuleType("farfield._core")
    core.Dataset = Volume  # type: ignore[attr-defined]
    # Nothing is kept of servers.
    core.disk_cache_info = lambda folder: (0, 0)  # type: ignore[attr-defined]
    core.disk_cache_clear = lambda folder: 0  # type: ignore[attr-defined]
    put(monkeypatch, core)
    return core


def decode(data: bytes, codecs: list[dict[str, Any]], dtype: np.dtype[Any]) -> bytes:
    for codec in codecs:
        name = codec["name"]
        if name == "shuffle":
            raw = np.frombuffer(data, np.uint8).reshape(codec["size"], -1)
            data = raw.T.tobytes()
        elif name == "delta":
            numbers = np.frombuffer(data, dtype)
            data = np.cumsum(numbers, dtype=dtype).tobytes()
        elif name in ("crc32c", "fletcher32"):
            data = data[:-4]
        elif name == "predictor":
            native = dtype.newbyteorder("=")
            rows = np.frombuffer(data, dtype).astype(native)
            assert codec["kind"] == 2
            rows = rows.view(f"u{dtype.itemsize}").reshape(-1, codec["width"], codec["samples"])
            data = np.cumsum(rows, axis=1, dtype=rows.dtype).view(native).astype(dtype).tobytes()
        else:
            data = bytes(numcodecs.get_codec({"id": name}).decode(data))
    return data


def array_of(spec: dict[str, Any], tables: list[bytes]) -> np.ndarray[Any, Any]:
    """A whole array, axes as in its spec."""
    shape, dtype = spec["shape"], np.dtype(spec["dtype"])
    stored = dtype.newbyteorder(">" if spec.get("big_endian") else "<")
    ((kind, place),) = spec["where"].items()
    if kind == "contiguous":
        with open(place["file"], "rb") as file:
            file.seek(place["offset"])
            raw = file.read(math.prod(shape) * stored.itemsize)
        return np.frombuffer(raw, stored).reshape(shape).astype(dtype)
    if kind == "planes":
        offsets = place.get("offsets") or [place["offset"]] * len(place["files"])
        parts = []
        for name, offset in zip(place["files"], offsets, strict=True):
            with open(name, "rb") as file:
                file.seek(offset)
                raw = file.read(math.prod(shape[1:]) * stored.itemsize)
            parts.append(np.frombuffer(raw, stored).reshape(shape[1:]))
        return np.stack(parts).astype(dtype)
    chunk = spec["chunk"]
    out = np.zeros(shape, dtype)
    grid = [-(-s // c) for s, c in zip(shape, chunk, strict=True)]
    for n, index in enumerate(itertools.product(*map(range, grid))):
        encoded = _encoded(kind, place, tables, n, index, chunk)
        where = tuple(slice(i * c, min((i + 1) * c, s)) for i, c, s in zip(index, chunk, shape, strict=True))
        if encoded is None:
            assert spec.get("fill") is not None, "a chunk is missing and there is no fill"
            fill = spec["fill"]
            out[where] = float(fill.replace("Infinity", "inf")) if isinstance(fill, str) else fill
            continue
        raw = decode(encoded, spec["codecs"], stored)
        order = spec.get("order") or list(range(len(shape)))
        box = [chunk[d] for d in order]
        if len(raw) < math.prod(box) * stored.itemsize:  # at the edge only what lies in the array may be stored
            box[0] = len(raw) // (math.prod(box[1:]) * stored.itemsize)
            if math.prod(box) == 0:  # rows of a strip
                rows = next(n for n, c in enumerate(chunk) if c > 1)
                box = list(chunk)
                box[rows] = len(raw) // (math.prod(chunk[rows + 1 :]) * stored.itemsize)
        numbers = np.frombuffer(raw[: math.prod(box) * stored.itemsize], stored).reshape(box)
        numbers = numbers.transpose(np.argsort(order))
        out[where] = numbers[tuple(slice(0, w.stop - w.start) for w in where)]
    return out


def _encoded(
    kind: str, place: dict[str, Any], tables: list[bytes], n: int, index: tuple[int, ...], chunk: list[int]
) -> bytes | None:
    if kind == "table":
        file, offset, length = np.frombuffer(tables[place["table"]], "<u8").reshape(-1, 3)[n].tolist()
        if length == 0:
            return None
        with open(place["files"][file], "rb") as handle:
            handle.seek(offset)
            return handle.read(length)
    keys = index
    if kind == "shards":
        per = [s // c for s, c in zip(place["shard"], chunk, strict=True)]
        keys = tuple(i // p for i, p in zip(index, per, strict=True))
    try:
        with open(place["prefix"] + place["separator"].join(map(str, keys)), "rb") as handle:
            raw = handle.read()
    except FileNotFoundError:
        return None
    if kind == "keys":
        return raw
    count = math.prod(per)
    size = count * 16 + (4 if place["index_crc32c"] else 0)
    head = raw[-size:] if place["index_at_end"] else raw[:size]
    at = int(np.ravel_multi_index(tuple(i % p for i, p in zip(index, per, strict=True)), per))
    offset, length = np.frombuffer(head[: count * 16], "<u8").reshape(-1, 2)[at].tolist()
    return None if offset == 2**64 - 1 else raw[offset : offset + length]


class Volume:
    """As `farfield._native.Dataset` of a volume."""

    def __init__(self, spec: dict[str, Any], tables: list[bytes]) -> None:
        self.spec, self.tables = spec, tables

    @staticmethod
    def open(source: str, resources: str, *, tables: list[bytes], **_: Any) -> Volume:
        return Volume(json.loads(source)["volume"], tables)

    def whole(self, level: int, channel: int, step: int) -> np.ndarray[Any, Any]:
        """[z, y, x] of a channel."""
        for array in self.spec["levels"][level]["arrays"]:
            if channel in array["channels"]:
                numbers, axes = array_of(array, self.tables), array["axes"]
                if "t" in axes:
                    numbers, axes = numbers.take(step, axes.index("t")), axes.replace("t", "")
                if "c" in axes:
                    numbers, axes = (
                        numbers.take(array["channels"].index(channel), axes.index("c")),
                        axes.replace("c", ""),
                    )
                for axis in "zyx":
                    if axis not in axes:
                        numbers, axes = numbers[None], axis + axes
                return numbers.transpose([axes.index(a) for a in "zyx"])
        raise AssertionError(f"no array has channel {channel}")

    def read_box(
        self, level: int, channel: int, lo: tuple[int, ...], hi: tuple[int, ...], step: int
    ) -> np.ndarray[Any, Any]:
        whole = self.whole(level, channel, step)
        return whole[lo[2] : hi[2], lo[1] : hi[1], lo[0] : hi[0]].copy()

    def info(self) -> str:
        levels = [{"page": [4, 4, 4], "pages": 8} for _ in self.spec["levels"]]
        return json.dumps({
            "pages": {"total": 8 * len(levels), "bytes": 64}, "levels": levels, "bytes_disk": 512, "bytes_memory": 1024,
            "checked": False, "limit_least_bytes": 1 << 20,
        })  # fmt: skip

    def stats(self) -> str:
        return json.dumps({**STATS, "limit_bytes": 1 << 30, "pages": {**STATS["pages"], "never_written": 0}})

    def set_memory_limit(self, memory_limit: int) -> None:
        pass

    def close(self) -> None:
        pass
