"""Peers that read a store from a web server, each in a new process: `python -m farfield_bench.remote_peers NAME OPTIONS`.

Prints one JSON object: {"pages", "wall_s", "cpu_s", "values": a checksum of the last pages, "version"}.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from farfield_bench.peers import _boxes, _values, version

PEERS: dict[str, Callable[..., dict[str, Any]]] = {}
LAST = 16
"""Pages of the checksum."""

Boxes = list[tuple[slice, ...]]


def _peer(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    PEERS[work.__name__] = work
    return work


def _split(
    shape: tuple[int, ...], chunk: tuple[int, ...], shard: tuple[int, ...], o: dict[str, Any]
) -> tuple[Boxes, Boxes]:
    """One page of each shard, which loads its index, and the pages of the measurement. They have no page in common."""
    every = _boxes(shape, chunk, {"seed": o["seed"], "count": 1 << 40})
    first: dict[tuple[int, ...], tuple[slice, ...]] = {}
    rest = []
    for box in every:
        of = tuple(s.start // n for s, n in zip(box, shard, strict=True))
        if of in first:
            rest.append(box)
        else:
            first[of] = box
    return list(first.values()), rest[: o["count"]]


def _timed(read: Callable[[], Any], pages: int) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    last = read()
    found = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {**found, "pages": pages, "values": _values(last)}


@_peer
def tensorstore_http(**o: Any) -> dict[str, Any]:
    """All pages are asked for at once, and `depth` requests are under way. Indexes of shards are cached."""
    import tensorstore as ts

    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "http", "base_url": f"{o['url']}/{o['array']}/"},
        "context": {"cache_pool": {"total_bytes_limit": 1 << 30}, "http_request_concurrency": {"limit": o["depth"]}},
    }
    array: Any = ts.open(spec, read=True, open=True).result()
    chunk, shard = (tuple(layout.shape) for layout in (array.chunk_layout.read_chunk, array.chunk_layout.write_chunk))
    first, boxes = _split(tuple(array.shape), chunk, shard, o)
    for future in [array[box].read() for box in first]:
        future.result()

    def read() -> list[Any]:
        futures = [array[box].read() for box in boxes]
        return [future.result() for future in futures][-LAST:]

    return {**_timed(read, len(boxes)), "version": version("tensorstore")}


@_peer
def obstore_zarr(**o: Any) -> dict[str, Any]:
    """zarr-python over obstore, `depth` threads with a page each."""
    from concurrent.futures import ThreadPoolExecutor

    import zarr
    from zarr.storage import ObjectStore

    # Not among what the checks of types have.
    obstore = importlib.import_module("obstore.store")
    store = obstore.HTTPStore.from_url(o["url"], client_options={"allow_http": True})
    array: Any = zarr.open_array(ObjectStore(store, read_only=True), path=o["array"], mode="r")
    first, boxes = _split(array.shape, array.chunks, array.shards or array.chunks, o)
    with ThreadPoolExecutor(o["depth"]) as threads:
        list(threads.map(array.__getitem__, first))
        found = _timed(lambda: list(threads.map(array.__getitem__, boxes))[-LAST:], len(boxes))
    return {**found, "version": f"{version('zarr')} with obstore {version('obstore')}"}


if __name__ == "__main__":
    # A module run as a script exists under two names; this one has the registry.
    print(json.dumps(PEERS[sys.argv[1]](**json.loads(sys.argv[2]))))
