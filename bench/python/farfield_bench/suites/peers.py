"""The same work by others: random pages, a box, lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data, readers
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.suites.tracers import beside_parcels

PAGE = 16
ROUNDS = 3
DEPTH = 16
BATCH = 64
LENGTH = 1.0
STEPS = 10_000
ENVIRONMENTS = {"zarr-python": "zarr", "zarrs": "zarrs", "TensorStore": "tensorstore", "h5py": "h5py", "VTK": "vtk"}
"""Name of the environment of each peer. Parcels runs only in its own, and reports its own absence."""
OURS = ("Farfield, Python", "mmap")
"""Arms without optional packages."""
UNABLE = {
    "random pages": "VTK reads files whole, so that a page costs it what a box does; Parcels has no reader of its own",
    "a box": "Parcels has no reader of its own",
    "lines": "zarr-python, zarrs, TensorStore and h5py read arrays and trace nothing",
}
"""Peers missing from a work, and why."""


@experiment("peers", "Peers: the same pages, the same box, the same lines")
def measure(recorder: Recorder) -> None:
    """Three pieces of work on one flow of 256 x 256 x 128 points (0.3 GB) in single precision. All peers that can do a
    work take turns, each in a process of its own. Random pages: 1,000 pages of momentum (three components of 16 x 16 x
    16 points, 48 KiB), the same for all in the same order. A box: momentum in the middle half of each edge, an eighth
    of it. Farfield's Python package has a limit of 32 MiB. Beside it, for the pages, Farfield's pager alone (in
    batches, 16 reads in flight). On the same uncompressed store: zarr-python, zarr-python with the `zarrs` pipeline,
    and TensorStore (in batches, no cache). h5py reads an HDF5 file of the same chunks with checksums. NumPy's `mmap` of
    the PLOT3D file has neither pages nor checksums. For the box, VTK's reader reads its files whole. One process makes
    three rounds. The first is cold, its files evicted. The faster of the others, with files in the page cache, is the
    warm one; Farfield's own memory then holds what fits its limit. Imports and opening come before the clock. Lines:
    300 random seeds, at most one unit (64 cells) long, forward, from evicted files to lines, times of the whole
    process. Farfield over its store and the same kernel over `mmap` are bare; VTK has its own reader. Particles: 1,000
    by RK4 through a series on a uniform grid in memory, beside Parcels' compiled kernel, on one core, in CPU time.
    Peers that are not installed are left out and listed among the conditions. The only bound: all readers give the same
    values.
    """
    quick = recorder.quick
    dims: data.Dims = (96, 96, 48) if quick else (256, 256, 128)
    runs = 1 if quick else min(recorder.runs, 3)
    cache = common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow, page=PAGE, codec="none")
    for name, where in ENVIRONMENTS.items():
        here = arms.environment(where) is not None
        why = "" if here else "it runs in Farfield's if that has it; `make bench-setup` makes one"
        recorder.condition(f"{name} in an environment of its own", here, why)
    _boxes(recorder, flow, store, runs, 100 if quick else 1000)
    _lines(recorder, flow, store, cache, runs, 30 if quick else 300)
    table: list[list[str | float | int]] = []
    found = beside_parcels(recorder, (33, 33, 33) if quick else (128, 128, 128), 4, 100 if quick else 1000, table)
    if found is not None:
        recorder.table("Particles", ["arm", "particles", "RK4 steps", "million steps a CPU second", ""], table)
        recorder.note(f"Particles: {found[0]:.3g} times the steps a CPU second of Parcels.")
    for work, who in UNABLE.items():
        recorder.note(f"Not in {work}: {who}.")
    _judge(recorder)


def _boxes(recorder: Recorder, flow: data.Flow, store: Path, runs: int, count: int) -> None:
    """Pages and a box by all readers of arrays."""
    shape = tuple(reversed(flow.dims))
    common_options: dict[str, Any] = {"store": str(store), "array": "zone1/momentum", "rounds": ROUNDS, "batch": BATCH}
    common_options |= {"depth": DEPTH, "seed": 1, "count": count}
    file = recorder.work / f"peers-{store.stem}.h5"
    readers.hdf5(recorder, file, common_options)
    common_options["file"] = str(file)
    on_files = {"grid": str(flow.grid), "q": str(flow.q), "dims": list(flow.dims), "page": [PAGE] * 3}
    ours = {"shape": shape, "page": [PAGE] * 3, "memory_limit": 32 * MIB}
    box = [(n // 4, n // 4 + n // 2) for n in shape]
    for work, what in (("random pages", {}), ("a box", {"box": box})):
        options = {**common_options, **what}
        values: dict[str, str] = {}
        who: dict[str, tuple[str, dict[str, Any], list[Path]]] = {
            "Farfield, Python": ("farfield_boxes", {**options, **ours}, [store]),
            "mmap": ("mmap_boxes", {**options, **on_files}, flow.paths),
        }
        for name, (peer, extra) in readers.LIBRARIES.items():
            who[name] = (peer, {**options, **extra}, [file if name == "h5py" else store])
        if work == "a box":
            who["VTK"] = ("vtk_box", {**options, **on_files}, flow.paths)
        for _ in range(runs):
            if work == "random pages":
                _native(recorder, work, store, count)
            for name, (peer, said, files) in who.items():
                done = arms.run(arms.peer(peer, **said), cold=files, takes_bytes=1024 * MIB, timeout_s=1200)
                if name not in OURS and not readers.ran(recorder, name, done):
                    continue
                found = done.json()
                if name not in OURS:
                    recorder.version(name, found["version"])
                values[name] = found["values"]
                _record(recorder, f"{work}: {name}", found["rounds"])
        different = len(set(values.values())) - 1
        recorder.claim(f"{work}: values that differ between {', '.join(values)}", different, "==", 0, right=True)


def _native(recorder: Recorder, work: str, store: Path, count: int) -> None:
    """Farfield's pager alone, without arrays for Python."""
    options = {"source": str(store), "array": "momentum", "count": count, "batch": BATCH, "readers": DEPTH}
    command = arms.inside(arm="page_reads", **options, rounds=ROUNDS, memory_limit=32 * MIB)
    found = arms.run(command, cold=[store], takes_bytes=1024 * MIB).json()
    _record(recorder, f"{work}: Farfield, pager", found["rounds"])


def _record(recorder: Recorder, arm: str, rounds: list[dict[str, float]]) -> None:
    warm = min(rounds[1:], key=lambda row: row["wall_s"])
    for state, row in (("cold", rounds[0]), ("warm", warm)):
        recorder.run(f"{arm}, {state}", wall_s=row["wall_s"], cpu_s=row["cpu_s"])


def _lines(recorder: Recorder, flow: data.Flow, store: Path, cache: Path, runs: int, count: int) -> None:
    """Streamlines from evicted files."""
    seeds = common.seeds_file(recorder, "peers", data.random_seeds(flow.dims, count))
    common.index(flow, seeds, recorder.work / "warm-up.npz")
    spec = {"seeds": seeds, "max_length": LENGTH, "max_steps": STEPS}
    bare = {"traces": [spec], "memory_limit": common.PLENTY, "workers": 1, "cache_dir": str(cache)}
    digests: set[str] = set()
    for _ in range(runs):
        for name, kind, source, files in (
            ("Farfield", "paged", {"source": str(store)}, [store]),
            ("mmap", "mmap", flow.options, [*flow.paths, cache]),
        ):
            done = arms.run(arms.inside(arm=kind, **source, **bare), cold=files, timeout_s=1200)
            digests.add(done.json()["runs"][0]["digest"])
            recorder.run(f"lines: {name}", wall_s=done.wall_s, cpu_s=done.cpu_s)
        if arms.has_vtk():
            options = {"seeds": seeds, "max_length": LENGTH, "max_steps": STEPS * 10}
            done = arms.run(
                arms.peer("vtk_file", grid=str(flow.grid), q=str(flow.q), **options), cold=flow.paths, timeout_s=1200
            )
            if readers.ran(recorder, "VTK", done):
                recorder.version("VTK", done.json()["version"])
                recorder.run("lines: VTK", wall_s=done.wall_s, cpu_s=done.cpu_s)
    recorder.claim("lines: results that differ between Farfield and mmap", len(digests) - 1, "==", 0, right=True)


def _judge(recorder: Recorder) -> None:
    """Wall times of all arms of a work over Farfield's."""
    rows: list[list[str | float | int]] = []
    names = ["mmap", *readers.LIBRARIES, "VTK"]
    for work, ours, states in (
        ("random pages", "Farfield, Python", (", cold", ", warm")),
        ("a box", "Farfield, Python", (", cold", ", warm")),
        ("lines", "Farfield", ("",)),
    ):
        for state in states:
            wall = recorder.median(f"{work}: {ours}{state}", "wall_s")
            row: list[str | float | int] = [f"{work}{state}", wall]
            for name in names:
                arm = f"{work}: {name}{state}"
                row.append(recorder.median(arm, "wall_s") / wall if recorder.measured(arm, "wall_s") else "")
            rows.append(row)
    recorder.table("Wall time, times that of Farfield", ["", "Farfield, s", *names], rows)
