"""Traces that touch from one per cent of the pages to all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

TARGETS = (1, 6, 23, 50)
USED = 7 / 8
"""Share of a flow's bytes that a trace of velocity can touch: all but energy."""


@experiment("sparsity", "Sparsity: from 1 % of the pages to 100 %")
def measure(recorder: Recorder) -> None:
    """The 512 x 512 x 256 flow (2.1 GB), lines forward. The number of random seeds is such that about 1, 6, 23 and 50 %
    of the pages of the arrays read are touched. Lines have at most one unit (128 cells). For 100 % there is a short
    line in every page. Two arms are the kernel after reading the whole files, and the kernel over `mmap`. Three are
    Farfield: on the files in place, and on a flat and a cubed store with pages of the same bytes. All are bare
    processes, with files evicted before and without a limit that they reach, so that only the reads differ. Then the
    same for a flow along i, one rake: whole rows should win there.
    """
    quick = recorder.quick
    dims = (129, 129, 65) if quick else (512, 512, 256)
    cache = common.cache(recorder)
    flow = data.single(recorder.work, dims)
    common.index(flow, "random:1:1", recorder.work / "warm-up.npz")
    stores = _stores(recorder, flow)
    made = {}
    for layout in ("flat", "cubed"):
        path = recorder.work / f"made-{layout}.zarr"
        run = common.convert(flow, path, layout=layout, cold=flow.paths)
        run.json()
        made[layout] = run.wall_s
        common.remove(path)
    recorder.note(
        f"Conversion, once, files evicted: flat {made['flat']:.1f} s, cubed {made['cubed']:.1f} s. "
        "Boxes of the files in place are cached."
    )
    sets = _sets(stores["cubed"], dims)
    rows: list[list[str | float | int]] = []
    paid: list[list[str | float | int]] = []
    for target, trace in sets.items():
        share = _share(stores["cubed"], trace, flow.bytes)
        _arms(recorder, f"{target} %", trace, flow, stores, cache)
        wall = {name: recorder.median(f"{target} %: {name}", "wall_s") for name in _ARMS}
        rows.append([f"{target} %", 100 * share, *(wall[n] for n in _ARMS)])
        gain = wall["in place"] - wall["cubed store"]
        runs: float | str = math.ceil(made["cubed"] / gain) if gain > 0 else "never"
        against = wall["mmap"] - wall["cubed store"]
        paid.append([f"{target} %", runs, math.ceil(made["cubed"] / against) if against > 0 else "never"])
        if target == 100:
            recorder.claim(
                "100 % of the pages: cubed store over mmap, wall", wall["cubed store"] / wall["mmap"], "<=", 1.2
            )
    recorder.table("Wall seconds by share of pages touched", ["aimed at", "touched, %", *_ARMS], rows)
    recorder.table(
        "The run after which conversion to the cubed store has paid",
        ["pages touched", "against in place", "against mmap"],
        paid,
    )
    straight = data.single(recorder.work, (129, 129, 65) if quick else (256, 256, 256), flow="along-i")
    common.index(straight, "random:1:1", recorder.work / "warm-up.npz")
    along = {"seeds": data.rake(straight.dims, 100 if quick else 1000), "max_steps": 10_000}
    _arms(recorder, "along i", along, straight, _stores(recorder, straight), cache)


_ARMS = ("whole files read", "mmap", "in place", "flat store", "cubed store")


def _stores(recorder: Recorder, flow: data.Flow) -> dict[str, Path]:
    return {layout: common.store(recorder, flow, layout=layout) for layout in ("flat", "cubed")}


def _arms(
    recorder: Recorder, title: str, trace: dict[str, Any], flow: data.Flow, stores: dict[str, Path], cache: Path
) -> None:
    digests = set()
    for _ in range(min(recorder.runs, 3)):
        for name, arm, source, files in (
            (_ARMS[0], "read", flow.options, [*flow.paths, cache]),
            (_ARMS[1], "mmap", flow.options, [*flow.paths, cache]),
            (_ARMS[2], "paged", flow.options, [*flow.paths, cache]),
            (_ARMS[3], "paged", {"source": str(stores["flat"])}, [stores["flat"]]),
            (_ARMS[4], "paged", {"source": str(stores["cubed"])}, [stores["cubed"]]),
        ):
            command = arms.inside(arm=arm, **source, traces=[trace], memory_limit=common.PLENTY, cache_dir=str(cache))
            run = arms.run(command, cold=files)
            row = run.json()["runs"][0]
            digests.add(row["digest"])
            recorder.run(
                f"{title}: {name}", wall_s=run.wall_s, cpu_s=run.cpu_s, disk_bytes=run.read_bytes, lines=row["lines"]
            )
    recorder.claim(f"{title}: results that differ between arms", len(digests) - 1, "==", 0, right=True)


def _sets(store: Path, dims: data.Dims) -> dict[int, dict[str, Any]]:
    """Seeds for each share. Random lines touch pages independently, so the share grows as 1 - exp(-seeds * c)."""
    few = 40
    bytes_ = dims[0] * dims[1] * dims[2] * 32
    touched = _share(store, _random(few), bytes_)
    each = -math.log(1 - touched) / few
    chosen = {t: _random(max(1, round(-math.log(1 - t / 100) / each))) for t in TARGETS}
    # One line from the middle of every second page in each direction, long enough to pass the next.
    spans = ",".join(f"{8.5}-{n - 7.5}/{max(1, n // 16)}" for n in dims)
    chosen[100] = {"seeds": f"ijk:zone1:{spans}", "max_length": 20 * 2.0 / (min(dims) - 1), "max_steps": 10_000}
    return chosen


def _random(count: int) -> dict[str, Any]:
    return {"seeds": f"random:{count}:1", "max_length": 1.0, "max_steps": 10_000}


def _share(store: Path, trace: dict[str, Any], bytes_: int) -> float:
    """Share of the bytes in pages that a trace touches, of the arrays that it reads."""
    command = arms.inside(arm="paged", source=str(store), traces=[trace], memory_limit=common.PLENTY, touched=True)
    arrays = arms.run(command).json()["runs"][0]["touched"]["arrays"]
    touched = sum(v["bytes"] for name, v in arrays.items() if not name.endswith("/index") and "_farfield" not in name)
    return float(touched / (bytes_ * USED))
