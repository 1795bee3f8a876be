"""A dataset of eight times the limit, from disk to lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from farfield_bench import arms, common, data
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LENGTH = 1.0
STEPS = 10_000


@experiment("outofcore", "Out of core: 2.1 GB within 256 MiB")
def measure(recorder: Recorder) -> None:
    """A curvilinear zone of 512 x 512 x 256 points as PLOT3D (2.1 GB). 1,000 seeds as a rake and 1,000 at random, lines
    of at most one unit (128 cells), forward. Farfield reads its store or the unconverted files, whose boxes are cached.
    It is a process inside a memory cgroup of its limit, 256 MiB, and its base. The same kernel over `mmap`, and VTK
    with its own reader, get unlimited memory. Data files are evicted from the page cache before every run. Times are of
    the whole process, from start to written lines; the `mmap` arm writes none. A store with lz4 shows the effect of a
    codec on data that compress to less than a half. The default has no codec.
    """
    quick = recorder.quick
    dims = (129, 129, 97) if quick else (512, 512, 256)
    limit = 12 * MIB if quick else 256 * MIB
    count = 100 if quick else 1000
    cache = common.cache(recorder)
    flow = data.single(recorder.work, dims)
    path = recorder.work / f"{flow.grid.stem}.zarr"
    store = common.store(recorder, flow)
    packed = common.store(recorder, flow, codec="lz4")
    base = common.base_bytes(recorder, store)
    points = {"rake": _along(data.rake(dims, count)), "random": data.random_seeds(dims, count)}
    seeds = {name: str((recorder.work / f"outofcore-{name}.npy").resolve()) for name in points}
    for name, array in points.items():
        np.save(seeds[name], array)
    options = ["--max-length", str(LENGTH), "--max-steps", str(STEPS)]
    scratch = recorder.work / "warm-up.npz"
    common.remove(cache)
    index_s = common.index(flow, seeds["rake"], scratch)
    rows: list[list[str | float | int]] = []
    for name, spec in seeds.items():
        outputs = {}
        for source_name, files in (("store", [store]), ("in place", [*flow.paths, cache])):
            source = store if source_name == "store" else flow.source
            arm = f"{name}: Farfield, {source_name}"
            output = recorder.work / f"outofcore-{source_name.replace(' ', '-')}.npz"
            for _ in range(recorder.runs):
                run = common.trace(
                    source, spec, output, limit=limit, options=options, memory_bytes=limit + base, cold=files
                )
                found = run.json()
                recorder.run(
                    arm,
                    settings={"memory": f"{limit // MIB} MiB + base"},
                    wall_s=run.wall_s,
                    cpu_s=run.cpu_s,
                    peak_bytes=found["resident_peak_bytes"],
                    read_bytes=found["bytes_read"],
                    disk_bytes=run.read_bytes,
                )
            outputs[source_name] = output
        common.same_bytes(recorder, name, outputs)
        spec_json = {"seeds": spec, "max_length": LENGTH, "max_steps": STEPS}
        bare = {"traces": [spec_json], "memory_limit": limit, "cache_dir": str(cache)}
        digests = set()
        # In turns, since the speed of a shared disk varies.
        for _ in range(recorder.runs):
            for arm_name, kind, made_of in (
                ("Farfield, store, bare", "paged", store),
                ("mmap", "mmap", None),
                ("Farfield, store with lz4, bare", "paged", packed),
                ("mmap, no reading ahead", "mmap_random", None),
            ):
                options_of = flow.options if made_of is None else {"source": str(made_of)}
                bounded = None if made_of is None else limit + base
                files = [*flow.paths, cache] if made_of is None else [made_of]
                run = arms.run(arms.inside(arm=kind, **options_of, **bare), memory_bytes=bounded, cold=files)
                found = run.json()
                digests.add(found["runs"][0]["digest"])
                recorder.run(
                    f"{name}: {arm_name}",
                    settings={"memory": "unlimited" if bounded is None else f"{limit // MIB} MiB + base"},
                    wall_s=run.wall_s,
                    cpu_s=run.cpu_s,
                    peak_bytes=found["resident_peak_bytes"],
                    disk_bytes=run.read_bytes,
                )
        for _ in range(min(recorder.runs, 3)):
            command = arms.peer(
                "vtk_file", grid=str(flow.grid), q=str(flow.q), seeds=spec, max_length=LENGTH, max_steps=STEPS * 10
            )
            run = arms.run(command, cold=flow.paths, timeout_s=1200)
            found = run.json()
            recorder.run(
                f"{name}: VTK {found['version']}",
                settings={"memory": "unlimited"},
                wall_s=run.wall_s,
                cpu_s=run.cpu_s,
                peak_bytes=found["resident_peak_bytes"],
                disk_bytes=run.read_bytes,
            )
        recorder.claim(f"{name}: results that differ between bare arms", len(digests) - 1, "==", 0, right=True)
        touched = _touched(store, spec)
        ours, vtk = f"{name}: Farfield, store", f"{name}: VTK {found['version']}"
        wall = recorder.median(ours, "wall_s")
        bare_wall = recorder.median(f"{name}: Farfield, store, bare", "wall_s")
        mmap = min(recorder.median(f"{name}: {m}", "wall_s") for m in ("mmap", "mmap, no reading ahead"))
        recorder.claim(f"{name}: VTK over store, wall", recorder.median(vtk, "wall_s") / wall, ">=", 15, unit="times")
        recorder.claim(f"{name}: the faster mmap over store, both bare, wall", mmap / bare_wall, ">=", 2, unit="times")
        ratio = recorder.median(ours, "read_bytes") / touched["bytes"]
        recorder.claim(f"{name}: bytes read over bytes of pages touched, store", ratio, "<=", 1.3)
        rows.append([name, touched["pages"], touched["bytes"] / MIB, recorder.median(ours, "read_bytes") / MIB])
    recorder.table("Pages touched, store", ["seeds", "pages", "MiB of these", "MiB read"], rows)
    made = common.convert(flow, path, limit=limit, memory_bytes=limit + base, cold=flow.paths)
    made.json()
    recorder.note(
        f"Conversion, once, evicted and within the same memory: {made.wall_s:.1f} s wall, {made.cpu_s:.1f} s CPU."
    )
    recorder.note(f"Cached boxes of the unconverted files, built once: {index_s:.1f} s with the first trace.")


def _along(spec: str) -> data.Array:
    """The points of a `line:` seed specification."""
    _, first, last, count = spec.split(":")
    a, b = (np.array([float(v) for v in end.split(",")]) for end in (first, last))
    points: data.Array = a + (b - a) * np.linspace(0, 1, int(count))[:, None]
    return points


def _touched(store: Path, seeds: str) -> dict[str, float]:
    """Pages and bytes that a trace touches, from a run with unlimited memory."""
    spec = {"seeds": seeds, "max_length": LENGTH, "max_steps": STEPS}
    command = arms.inside(arm="paged", source=str(store), traces=[spec], memory_limit=common.PLENTY, touched=True)
    found: dict[str, float] = arms.run(command).json()["runs"][0]["touched"]["total"]
    return found
