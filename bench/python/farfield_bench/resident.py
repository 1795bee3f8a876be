"""One work over an open dataset, repeated in one process: `python -m farfield_bench.resident OPTIONS`.

The first round finds no page in memory, later ones find those of earlier rounds. Prints one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import farfield as ff

Work = Callable[[ff.Dataset, str, dict[str, Any]], list[NDArray[Any]]]


def _trace(ds: ff.Dataset, field: str, o: dict[str, Any]) -> list[NDArray[Any]]:
    lines = ds.streamlines(
        seeds=o["seeds"],
        integration_direction="forward",
        max_length=o["max_length"],
        max_steps=10_000,
        scalars=[field],
        progress=False,
    )
    return [lines[field], lines.points]


def _surface(ds: ff.Dataset, field: str, o: dict[str, Any]) -> list[NDArray[Any]]:
    ff.extract_surface(ds, o["output"], surfaces=o["surfaces"], scalars=[field], progress=False)
    with np.load(o["output"]) as found:
        return [found[field]]


def _array(ds: ff.Dataset, field: str, o: dict[str, Any]) -> list[NDArray[Any]]:
    return [ds[field][(..., *(slice(a, b) for a, b in o["box"]))]]


def _probes(ds: ff.Dataset, field: str, o: dict[str, Any]) -> list[NDArray[Any]]:
    found = [ds.probe(position, fields=[field]) for position in np.load(o["seeds"])[: o["count"]]]
    return [np.array([probe.values[field] for probe in found if probe is not None])]


WORKS: dict[str, Work] = {"trace": _trace, "surface": _surface, "array": _array, "probes": _probes}


def run(o: dict[str, Any]) -> dict[str, Any]:
    """Runs `o["work"]` for each of `o["fields"]` of `o["source"]`, in `o["rounds"]` turns; every other turn has the
    reverse order. The result has, for each field and turn, wall and CPU seconds of all threads, bytes read, pages
    touched and pages made. The last turn also gives some values and a checksum of the other results.
    """
    fields = list(o["fields"])
    rows: dict[str, list[dict[str, float]]] = {field: [] for field in fields}
    out: dict[str, list[NDArray[Any]]] = {}
    with ff.open(
        o["source"],
        memory_limit=o["memory_limit"],
        workers=o.get("workers"),
        events=o.get("events"),
        define=o.get("define"),
        progress=False,
    ) as ds:
        ds.info()
        for turn in range(o["rounds"]):
            for field in fields[:: -1 if turn % 2 else 1]:
                before = ds.stats()
                wall, cpu = time.perf_counter(), time.process_time()
                out[field] = WORKS[o["work"]](ds, field, o)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                after = ds.stats()
                pages = {key: after["pages"][key] - before["pages"][key] for key in ("touched", "derived", "evictions")}
                rows[field].append(
                    {"wall_s": wall, "cpu_s": cpu, "read_bytes": after["bytes_read"] - before["bytes_read"], **pages}
                )
    return {field: {"rounds": rows[field], **_said(out[field])} for field in fields}


def _said(out: list[NDArray[Any]]) -> dict[str, Any]:
    """Some of the values, and a checksum of all other results."""
    value = np.asarray(out[0], dtype=np.float64)
    rest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in out[1:])).hexdigest()
    return {"values": value.ravel()[:: max(1, value.size // 1000)].tolist(), "rest": rest}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
