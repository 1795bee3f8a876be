"""Derived fields beside the same numbers stored."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, common, data, twins
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

DEFINED = {"speed": "magnitude(velocity)"}
POINTWISE = ("pressure", "speed")
GRADIENTS = ("vorticity_magnitude", "q_criterion", "lambda2", "grad_density")
NEEDED = ("xyz", "density", "momentum")
"""Arrays from which gradients of the velocity are computed."""

TURNS = 9
"""With resident pages, in each process."""

Pages = dict[str, set[int]]
Turns = list[tuple[dict[str, float], dict[str, float]]]
"""Figures of a field and of its twin, turn by turn."""


@experiment("derived", "Derived fields: by the page, beside the same numbers stored")
def measure(recorder: Recorder) -> None:
    """A flow of 256 x 256 x 128 points with a twin of each derived field: an array of the same type, computed with
    NumPy and stored beside it. All are in one store with pages of 16 points. Works are streamlines from a rake with the
    field sampled on them, and a grid surface in the middle, written to a file. Others are a picture of it by the
    command line, a box of an eighth of the zone as an array, and random probes. Cold: a process does a work once, with
    its files evicted and no page resident. Resident: one process does it for the field and its twin in turns, within
    one limit that holds all of it. The first turn does not count. The figure is the median, over all turns, of the
    field's time over the twin's in the same turn: a shared machine makes processes fast or slow as a whole. Pointwise
    fields: pressure, computed at the corners of cells, and a user's `magnitude(velocity)`, which has pages. A picture
    is a process of its own, always cold. Pages made are counted against those of the stored twin that the same work
    reads. Pages read are counted against those of the twin's work and the neighbours of the pages made, by the geometry
    of pages. A work that needs only the field reads its twin alone, or the derived field's inputs, which are more
    bytes. Its cold times are shown, and claimed only where the work reads the flow anyway.
    """
    quick = recorder.quick
    dims = common.SMALL if quick else (256, 256, 128)
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    twins.make(flow)
    store = _store(recorder, flow)
    middle = dims[2] // 2
    box = [[n // 4, 3 * n // 4] for n in reversed(dims)]
    seeds = (recorder.work / "derived-seeds.npy").resolve()
    np.save(seeds, data.random_seeds(dims, 20 if quick else 200))
    works: dict[str, dict[str, Any]] = {
        "trace": {"seeds": data.rake(dims, 100 if quick else 1000), "max_length": 4.0},
        "surface": {"surfaces": [f"zone1:k={middle}"], "output": str(recorder.work / "derived.npz")},
        "array": {"box": box},
        "probes": {"seeds": str(seeds), "count": 20 if quick else 200},
    }
    fields = [*POINTWISE, *GRADIENTS]
    if quick:
        works, fields = {name: works[name] for name in ("trace", "array")}, ["pressure", "q_criterion"]
    off: dict[str, float] = {}
    same: dict[str, bool] = {}
    turns: dict[tuple[str, str], Turns] = {}
    for work, field in itertools.product(works, fields):
        pair = (field, twins.stored(field))
        found: dict[str, Any] = {}
        turns[work, field] = []
        for _ in range(1 if quick else recorder.runs):
            for name in pair:
                row = _run(_options(store, [name], work, works[work], 1), store).json()[name]["rounds"][0]
                recorder.run(f"{work}, {name}, cold", **row)
            found = _run(_options(store, pair, work, works[work], 2 if quick else TURNS + 1), store).json()
            for name in pair:
                for row in found[name]["rounds"][1:]:
                    recorder.run(f"{work}, {name}, resident", **row)
            turns[work, field] += list(zip(*(found[name]["rounds"][1:] for name in pair), strict=True))
        own, twin = (np.array(found[name]["values"]) for name in pair)
        scale = float(np.abs(twin).max())
        off[field] = max(off.get(field, 0.0), float(np.abs(own - twin).max()) / scale)
        same[work] = same.get(work, True) and found[pair[0]]["rest"] == found[pair[1]]["rest"]
    for field, away in off.items():
        name = f"{field}: largest difference from NumPy's, as a share of the largest value"
        recorder.claim(name, away, "<=", 2e-5, right=True)
    different = sum(not alike for alike in same.values())
    recorder.claim("works whose lines are not those of the twin's work", different, "==", 0, right=True)
    _pictures(recorder, store, middle, [field for field in POINTWISE if field in fields])
    _ratios(recorder, list(works), fields, turns)
    for field in fields:
        if field != "pressure":
            _counts(recorder, store, works, field)


def _store(recorder: Recorder, flow: data.Flow) -> Path:
    path = recorder.work / f"{flow.grid.stem}-twins.zarr"
    if not (path.exists() and arms.run(arms.farfield("info", path, "--json")).code == 0):
        common.remove(path)
        source = f"{flow.source}+function={flow.grid.with_suffix('.f')}"
        words = ["convert", source, str(path), "--memory-limit", str(256 * MIB), "--json", "--no-progress", "-q"]
        arms.run(arms.farfield(*words)).json()
    return path


def _options(
    store: Path, fields: Sequence[str], work: str, how: dict[str, Any], rounds: int, **more: Any
) -> dict[str, Any]:
    resources = {"source": str(store), "memory_limit": common.PLENTY, "define": DEFINED}
    return {**resources, "work": work, "fields": list(fields), "rounds": rounds, **how, **more}


def _run(options: dict[str, Any], store: Path) -> arms.Run:
    """Does a work in turns in a new process, its files evicted before."""
    command = [sys.executable, "-m", "farfield_bench.resident", json.dumps(options)]
    return arms.run(command, cold=[store], takes_bytes=_takes(store))


def _takes(store: Path) -> int:
    return 2 * sum(f.stat().st_size for f in store.rglob("*") if f.is_file()) + 256 * MIB


def _pictures(recorder: Recorder, store: Path, middle: int, fields: list[str]) -> None:
    for _ in range(1 if recorder.quick else recorder.runs):
        for field in (*fields, *map(twins.stored, fields)):
            words = [
                "render",
                str(store),
                "--surface",
                f"zone1:k={middle}",
                "--color",
                field,
                "--json",
                "--no-progress",
            ]
            words += [*_define(), "-q", "--memory-limit", str(common.PLENTY), "-o", str(recorder.work / "derived.png")]
            run = arms.run(arms.farfield(*words), cold=[store], takes_bytes=_takes(store))
            recorder.run(
                f"picture, {field}, cold", wall_s=run.wall_s, cpu_s=run.cpu_s, read_bytes=run.json()["bytes_read"]
            )


def _define() -> list[str]:
    return [word for name, text in DEFINED.items() for word in ("--define", f"{name} = {text}")]


def _ratios(recorder: Recorder, works: list[str], fields: list[str], turns: dict[tuple[str, str], Turns]) -> None:
    """Cost of a derived field over that of its twin."""
    rows: list[list[str | float | int]] = []
    for field in fields:
        for work, how in itertools.product([*works, "picture"], ("cold", "resident")):
            pair = [f"{work}, {name}, {how}" for name in (field, twins.stored(field))]
            if work == "picture" and (how == "resident" or field in GRADIENTS):
                continue
            if how == "cold":
                wall, cpu = (_over(recorder, pair, what) for what in ("wall_s", "cpu_s"))
            else:
                wall, cpu = (
                    statistics.median(own[what] / twin[what] for own, twin in turns[work, field])
                    for what in ("wall_s", "cpu_s")
                )
            read = _over(recorder, pair, "read_bytes")
            rows.append([field, work, how, wall, cpu, read])
            # Where a work needs only the field, the field's inputs are several times its bytes.
            if field in POINTWISE and (how == "resident" or work in ("trace", "picture")):
                recorder.claim(f"{field}, {work}, {how}: wall over the stored twin's", wall, "<=", 1.3)
            if how == "resident" or (field in POINTWISE and work in ("trace", "picture")):
                recorder.claim(f"{field}, {work}, {how}: CPU time over the stored twin's", cpu, "<=", 1.3)
    columns = ["field", "work", "pages", "wall", "CPU time", "bytes read"]
    recorder.table("Over the stored twin", columns, rows)


def _over(recorder: Recorder, pair: list[str], what: str) -> float:
    one, other = (recorder.median(arm, what) for arm in pair)
    return one / other if other > 0 else 1.0 if one == 0 else float("inf")


def _counts(recorder: Recorder, store: Path, works: dict[str, dict[str, Any]], field: str) -> None:
    """Pages made and read for a field, from the events of one run of each work."""
    pages = _geometry(store)
    rows: list[list[str | float | int]] = []
    others, missing, beyond = 0, 0, 0
    needed = {"speed": ("density", "momentum"), "grad_density": ("xyz", "density")}.get(field, NEEDED)
    for work, how in works.items():
        derived, twin = (_published(recorder, store, name, work, how) for name in (field, twins.stored(field)))
        made, touched = derived.pop(field, set()), twin.pop(twins.stored(field), set())
        around = _beside(touched, pages) if field in GRADIENTS else touched
        counted = {a: twin.get(a, set()) | (around if a in needed else set()) for a in {*needed, *twin}}
        others, missing = others + len(made - touched), missing + len(touched - made)
        beyond += sum(len(read - counted.get(array, set())) for array, read in derived.items())
        of_twin, all_read = (sum(len(p) for p in found.values()) for found in (twin, derived))
        rows.append([work, len(touched), len(made), of_twin, sum(map(len, counted.values())), all_read])
    recorder.claim(
        f"{field}: pages made that the twin's works do not read, or read and not made", others + missing, "==", 0
    )
    recorder.claim(f"{field}: pages read beyond those of the twin's works and the counted neighbours", beyond, "==", 0)
    columns = ["work", "pages of the twin read", "pages made", "others of the twin's work"]
    recorder.table(f"Pages: {field}", [*columns, "those and the neighbours', counted", "read"], rows)


def _published(recorder: Recorder, store: Path, field: str, work: str, how: dict[str, Any]) -> Pages:
    """Pages of each array of the zone that became resident in a work, and no others."""
    events = recorder.work / "derived-events.json"
    _run(_options(store, [field], work, how, 1, events=str(events)), store).json()
    found: Pages = defaultdict(set)
    for event in json.loads(events.read_text()):
        if event["name"] == "publish":
            zone, _, array = event["args"]["array"].partition("/")
            if zone == "zone1" and "/" not in array:
                found[array].add(event["args"]["page"])
    events.unlink()
    return dict(found)


def _geometry(store: Path) -> tuple[int, int, int]:
    """Pages along i, j and k, which are numbered with i fastest."""
    zone = arms.run(arms.farfield("info", store, "--json")).json()["zones"][0]
    i, j, k = (-(-n // page) for n, page in zip(zone["dims"], zone["page"], strict=True))
    return i, j, k


def _beside(touched: set[int], pages: tuple[int, int, int]) -> set[int]:
    """These pages, and those with a node next to one of theirs along i, j or k."""
    every = np.zeros(pages[::-1], dtype=bool)
    every.ravel()[list(touched)] = True
    wide = every.copy()
    for axis in range(3):
        first, last = ([slice(None)] * 3 for _ in range(2))
        first[axis], last[axis] = slice(None, -1), slice(1, None)
        wide[tuple(first)] |= every[tuple(last)]
        wide[tuple(last)] |= every[tuple(first)]
    return set(np.flatnonzero(wide).tolist())
