"""Summaries of runs that never were, with every key that the extension's have: for tests of what people see of them."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

Summary = dict[str, Any]

STATS = {
    "wall_s": 45.0, "cpu_s": 27.5, "wait_s": 31.5, "base_bytes": 57_647_104, "peak_bytes": 120 << 20, "limit_bytes": 128 << 20,
    "resident_peak_bytes": 180 << 20,
    "pages": {"total": 160_000, "touched": 7_400, "touched_exact": True, "faults": 10_000, "hits": 812_345, "evictions": 2_500,
              "given_back": 300, "prefetched": 900, "prefetched_used": 700, "prefetch_dropped": 20, "failed": 0, "fills": 0,
              "derived": 0},
    "bytes_read": 640 << 20, "reads": 9_000, "workers": 2, "readers": 4, "replacement": "clock", "transport": "io_uring",
    "warnings": [],
}  # fmt: skip
RUN = {
    "version": "0.1.0", "command": ["/usr/bin/python3", "/usr/bin/farfield", "trace", "wing.zarr", "--kind", "pathline"],
    "memory_limit": 128 << 20, "workers": 2, "readers": 4, "replacement": "clock", "cores": 8,
}  # fmt: skip
COUNTS = ("faults", "reads", "bytes", "evictions", "given_back", "prefetched", "prefetch_used", "prefetch_wasted",
          "retries_failed")  # fmt: skip
SERIES = (*COUNTS, "depth_mean", "used_bytes", "limit_bytes", "computing", "waiting", "reading")


def distribution(count: int, mean_us: float) -> Summary:
    quantiles = {"min_us": 0.2, "mean_us": 1.0, "p50_us": 0.9, "p90_us": 1.8, "p99_us": 3.5, "max_us": 6.0}
    return {"count": count, "total_s": count * mean_us * 1e-6, **{k: mean_us * f for k, f in quantiles.items()}}


def latencies(rng: random.Random, count: int, mean_us: float, seconds: int) -> Summary:
    rows = [
        {"t_s": float(t), **distribution(count // seconds, mean_us * rng.uniform(0.7, 1.4))} for t in range(seconds)
    ]
    edges = [int(mean_us * 2 ** (n / 4)) for n in range(-14, 12)]
    shape = [math.exp(-(((n - 12) / 4) ** 2)) for n in range(len(edges) - 1)]
    histogram = [[a, b, int(count * s / sum(shape))] for a, b, s in zip(edges, edges[1:], shape, strict=False)]
    return {"all": distribution(count, mean_us), "seconds": rows, "histogram": [h for h in histogram if h[2]]}


def summary(steps: int = 200, zones: int = 4, bins: int = 400) -> Summary:
    """A run of 45 s: 10,000 faults, 2 threads that wait for 4 readers 68 % of their time."""
    rng = random.Random(1)
    width = 45.0 / (bins - 0.5)
    wave = [0.5 + 0.5 * math.sin(n / bins * 20.0) for n in range(bins)]
    counts = {name: [0] * bins for name in COUNTS}
    for name, most in [("faults", 10_000), ("evictions", 2_500), ("prefetched", 900), ("given_back", 300)]:
        for _ in range(most):
            counts[name][min(bins - 1, int(rng.betavariate(1.2, 1.5) * bins))] += 1
    counts["prefetch_used"][0], counts["prefetch_wasted"][-1] = 700, 180
    counts["reads"] = [9_000 // bins] * bins
    counts["reads"][0] += 9_000 - sum(counts["reads"])
    counts["bytes"] = [(640 << 20) // bins] * bins
    counts["bytes"][0] += (640 << 20) - sum(counts["bytes"])
    series: Summary = {
        **counts,
        "depth_mean": [2.6 + 1.3 * w for w in wave],
        "used_bytes": [
            int((40 << 20) + (80 << 20) * min(1.0, n / 90)) if n > 1 or bins < 3 else None for n in range(bins)
        ],
        "limit_bytes": [128 << 20] * bins,
        "computing": [0.1 + 0.8 * w * (n < bins - 4) for n, w in enumerate(wave)],
        "waiting": [(1.7 - 0.8 * w) * (n < bins - 4) for n, w in enumerate(wave)],
        "reading": [0.98] * bins,
    }
    arrays: list[Summary] = []
    first = 0
    for zone in range(zones):
        for name, role, pages, touched in [
            ("xyz/index", "index", 1, 1), ("xyz", "grid", 400, 160), ("iblank", "grid", 200, 90),
            ("density", "solution", 200, 20), ("momentum", "solution", 600, 40), ("vorticity", "derived", 600, 10),
        ]:  # fmt: skip
            times = 1 if role in ("grid", "index") else steps
            arrays.append({
                "array": len(arrays), "name": f"zone{zone + 1}/{name}", "zone": f"zone{zone + 1}", "role": role,
                "first": first, "pages": pages, "steps": times, "touched": touched * times,
                "touched_bytes": touched * times * 16_384, "published": touched * times + zone * 10,
                "published_bytes": (touched * times + zone * 10) * 16_384, "read_again": zone * 10,
                "faults": touched * times,
            })  # fmt: skip
            first += pages
    rows = min(256, first)
    for array in arrays:
        array["first"] = array["first"] * rows // first
    history = [[0] * bins for _ in range(rows)]
    for _ in range(10_000):
        column = min(bins - 1, int(rng.betavariate(1.2, 1.5) * bins))
        row = int((column / bins * 1.7 + rng.gauss(0.0, 0.05)) % 1.0 * rows)
        history[min(rows - 1, row)][column] += 1
    grid_bytes, solution_bytes = zones * 250 * 16_384, zones * 60 * 16_384
    moved = [1.0 + 0.4 * math.sin(n / 9.0) for n in range(steps)]
    return {
        "file": "run.events", "form": "log", "events": 456_789, "unknown": 0, "lost_bytes": 0, "whole": True, "damaged": False,
        "run": copy.deepcopy(RUN), "stats": copy.deepcopy(STATS), "wall_s": 45.0,
        "kinds": {"fault": 10_000, "read": 9_000, "read end": 9_000, "task": 30_000},
        "threads": [
            {"thread": 0, "name": "caller", "worker": False, "first_s": 0.0, "last_s": 45.0, "compute_s": 0.0, "wait_s": 0.0,
             "decode_s": 0.0, "derive_s": 0.0, "spans": {}, "other_s": 45.0},
            *({"thread": n, "name": f"farfield-{n - 1}", "worker": True, "first_s": 0.0, "last_s": 45.0, "compute_s": 9.9,
               "wait_s": 31.5, "decode_s": 2.7, "derive_s": 0.45, "spans": {}, "other_s": 0.45} for n in (1, 2)),
        ],
        "where": {"thread_s": 90.0, "compute_s": 19.8, "wait_reads_s": 61.2, "wait_memory_s": 1.8, "wait_other_s": 0.0,
                  "decode_s": 5.4, "derive_s": 0.9, "spans": {}, "other_s": 0.9},
        "bins": {"width_s": width, "count": bins}, "series": series,
        "latency": latencies(rng, 9_000, 24_000.0, 45), "waiting": latencies(rng, 8_000, 60_000.0, 45),
        "arrays": arrays, "history": {"rows": rows, "columns": bins, "pages": first, "counts": history},
        "steps": [
            {"step": n, "grid_touched": zones * 250 * (n == 0), "grid_bytes": grid_bytes * (n == 0),
             "grid_share": 0.417 * (n == 0), "solution_touched": int(zones * 60 * m), "solution_bytes": int(solution_bytes * m),
             "solution_share": 0.075 * m}
            for n, m in enumerate(moved)
        ],
        "touched": {"grid": {"pages": zones * 250, "total": zones * 600, "bytes": grid_bytes, "total_bytes": zones * 600 * 16_384},
                    "solution": {"pages": zones * 60 * steps, "total": zones * 800 * steps, "bytes": solution_bytes * steps,
                                 "total_bytes": zones * 800 * steps * 16_384}},
        "sources": [
            {"name": f"wing.zarr/zone{n + 1}/{a}/c.{n}.0.0.0", "reads": 900 // (n + 1), "bytes": (64 << 20) // (n + 1),
             "mean_us": 20_000.0 + 1_500.0 * n}
            for n in range(zones) for a in ("momentum", "density", "xyz", "iblank")
        ],
        "depth": {"mean": 3.84, "max": 4, "limit": 4, "share_at_limit": 0.92},
        "overlap": {"units": steps, "unit": "time steps", "compute_s": 12.0, "reading_s": 40.0, "both_s": 9.0, "neither_s": 2.0,
                    "serial_s": 52.0, "ideal_s": 40.0 + 12.0 / steps, "wall_s": 45.0},
        "lifelines": lifelines(rng), "frames": [], **servers(rng),
        "advice": [
            {"change": "--readers 16", "of": "readers", "from": 4, "to": 16, "predicted_s": 24.0, "saving_s": 21.0,
             "saving_share": 21.0 / 45.0, "why": "as many reads were in flight as may be (4)"},
            {"change": "--memory-limit 512MiB", "of": "memory", "from": 128 << 20, "to": 512 << 20, "predicted_s": 39.6,
             "saving_s": 5.4, "saving_share": 0.12, "why": "pages that were dropped had to be read again"},
        ],
        "model": {"predicted_s": 43.0, "measured_s": 45.0, "covers": 1.0},
    }  # fmt: skip


PARTS = ("waiting", "again", "line", "queue", "service", "receiving")


def servers(rng: random.Random) -> Summary:
    """Two page servers, and courses of forty reads of them."""
    means = {
        "a.example:7207": (2000.0, 30.0, 10_400.0, 3100.0, 240.0, 900.0),
        "b.example:7207": (900.0, 0.0, 9800.0, 60.0, 210.0, 850.0),
    }
    rows = [
        {"name": name, "reads": 4_500, "bytes": 320 << 20, "unanswered": 2, "connections": 4,
         "connecting": distribution(4, 11_000.0), "retried": 3, "hedged": 40, "withdrawn": 41,
         "took": distribution(4_500, sum(of)),
         "parts": {part: distribution(4_500, mean) for part, mean in zip(PARTS, of, strict=True)}}
        for name, of in means.items()
    ]  # fmt: skip

    def parts(name: str, n: int) -> list[float]:
        again = float(n % 9 == 0)
        return [
            rng.uniform(0.5, 1.5) * mean * 1e-6 * (again if part == "again" else 1.0)
            for part, mean in zip(PARTS, means[name], strict=True)
        ]

    names = sorted(means) * 20
    reads = [{"server": name, "begin_s": 22.0 + 0.002 * n, "parts_s": parts(name, n)} for n, name in enumerate(names)]
    return {"servers": rows, "server_reads": {"parts": list(PARTS), "reads": reads}}


def lifelines(rng: random.Random) -> Summary:
    """Two seconds around the middle: 24 tasks, 2 threads, 4 readers."""
    begin, end = 21.5, 23.5

    def spans(*kinds: tuple[str, float]) -> list[Any]:
        rows: list[Any] = []
        at = begin
        while at < end:
            for what, mean_s in kinds:
                to = min(end, at + rng.expovariate(1.0 / mean_s))
                if to > at:
                    rows.append([at, to, what])
                at = to
        return rows

    readers = [
        [slot, a, b, 65_536]
        for slot in range(4)
        for a, b, what in spans(("read", 0.024), ("none", 0.004))
        if what == "read"
    ]
    return {
        "window": [begin, end],
        "tasks": [
            {
                "task": n,
                "name": f"task {n}",
                "spans": spans(("run", 0.004), ("wait", 0.06), ("run", 0.004), ("turn", 0.03)),
            }
            for n in range(400, 424)
        ],
        "readers": readers,
        "threads": [
            {"name": f"farfield-{n}", "spans": spans(("compute", 0.006), ("wait", 0.02), ("decode", 0.002))}
            for n in (0, 1)
        ],
        "frames": [],
    }


def empty() -> Summary:
    """A log in which nothing happened: whatever can be null, zero or empty is."""
    nothing = {"pages": 0, "total": 0, "bytes": 0, "total_bytes": 0}
    zeros = dict.fromkeys(
        ["units", "compute_s", "reading_s", "both_s", "neither_s", "serial_s", "ideal_s", "wall_s"], 0.0
    )
    keys = ["thread_s", "compute_s", "wait_reads_s", "wait_memory_s", "wait_other_s", "decode_s", "derive_s", "other_s"]
    return {
        "file": "none.events", "form": "log", "events": 0, "unknown": 0, "lost_bytes": 0, "whole": True, "damaged": False,
        "run": None,
        "stats": None, "wall_s": 0.0, "kinds": {}, "threads": [], "where": {**dict.fromkeys(keys, 0.0), "spans": {}},
        "bins": {"width_s": 0.0001, "count": 1},
        "series": {name: [None if name == "used_bytes" else 0] for name in SERIES},
        "latency": {"all": None, "seconds": [], "histogram": []}, "waiting": {"all": None, "seconds": [], "histogram": []},
        "arrays": [], "history": {"rows": 0, "columns": 1, "pages": 0, "counts": []}, "steps": [],
        "touched": {"grid": dict(nothing), "solution": dict(nothing)}, "sources": [],
        "depth": {"mean": 0.0, "max": 0, "limit": 0, "share_at_limit": 0.0}, "overlap": {**zeros, "unit": "run"},
        "lifelines": {"window": [0.0, 0.0], "tasks": [], "readers": [], "threads": [], "frames": []}, "frames": [],
        "advice": [], "model": None, "servers": [], "server_reads": {"parts": list(PARTS), "reads": []},
    }  # fmt: skip


def converted() -> Summary:
    """A conversion: no tasks, no worker threads, spans of one thread, reads that the pager does not see."""
    spans = {"reading": 6.0, "writing": 3.0}
    caller = {"thread": 0, "name": "caller", "worker": False, "first_s": 0.0, "last_s": 12.0, "compute_s": 0.0, "wait_s": 0.0,
              "decode_s": 0.0, "derive_s": 0.0, "spans": spans, "other_s": 3.0}  # fmt: skip
    return {**empty(), "events": 20, "wall_s": 12.0, "run": copy.deepcopy(RUN), "kinds": {"span": 12}, "threads": [caller],
            "where": {**empty()["where"], "spans": spans}}  # fmt: skip
