"""Growth of run time as memory shrinks."""

from __future__ import annotations

from farfield_bench import arms, common, data
from farfield_bench.common import GIB, MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

SHARES = (4, 16, 64)


@experiment("decline", "Decline: memory limits of 1/4, 1/16 and 1/64 of the data")
def measure(recorder: Recorder) -> None:
    """The 512 x 512 x 256 flow (2.1 GB), 4,000 random seeds, lines of at most one unit (128 cells). They touch at least
    twice the largest limit. Farfield from its store, in a memory cgroup of limit and base, against itself without a
    limit. The same kernel over `mmap` in cgroups of the same sizes, stopped after 120 s. Files are evicted before each
    run.
    """
    quick = recorder.quick
    dims = (193, 193, 97) if quick else (512, 512, 256)
    count = 300 if quick else 4000
    timeout_s = 1.5 if quick else 120.0
    cache = common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    base = common.base_bytes(recorder, store)
    size = flow.bytes
    spec = f"random:{count}:1"
    options = ["--max-length", "1", "--max-steps", "10000"]
    command = arms.inside(
        arm="paged",
        source=str(store),
        traces=[{"seeds": spec, "max_length": 1.0, "max_steps": 10_000}],
        memory_limit=common.PLENTY,
        touched=True,
    )
    touched = arms.run(command).json()["runs"][0]["touched"]["total"]["bytes"]
    common.index(flow, spec, recorder.work / "warm-up.npz")
    outputs = {}
    # A sixty-fourth of the small data is too little for any run.
    shares = SHARES[:2] if quick else SHARES
    limits = {"no limit": 4 * GIB, **{f"1/{n} of the data": size // n for n in shares}}
    for name, limit in limits.items():
        output = recorder.work / f"decline-{limit}.npz"
        for _ in range(recorder.runs):
            bounded = None if name == "no limit" else limit + base
            run = common.trace(store, spec, output, limit=limit, options=options, memory_bytes=bounded, cold=[store])
            found = run.json()
            recorder.run(
                f"Farfield, {name}",
                settings={"limit": f"{limit / MIB:.0f} MiB"},
                wall_s=run.wall_s,
                cpu_s=run.cpu_s,
                peak_bytes=found["resident_peak_bytes"],
                read_bytes=found["bytes_read"],
                evictions=found["pages"]["evictions"],
            )
        outputs[name] = output
    common.same_bytes(recorder, "all limits", outputs)
    late = []
    for name, limit in limits.items():
        bounded = None if name == "no limit" else limit + base
        trace = {"seeds": spec, "max_length": 1.0, "max_steps": 10_000}
        command = arms.inside(
            arm="mmap", **flow.options, traces=[trace], memory_limit=min(limit, 32 * MIB), cache_dir=str(cache)
        )
        run = arms.run(command, memory_bytes=bounded, cold=[*flow.paths, cache], timeout_s=timeout_s)
        if run.killed:
            late.append(name)
        else:
            run.json()
            recorder.run(
                f"mmap, {name}",
                settings={"limit": f"{limit / MIB:.0f} MiB"},
                wall_s=run.wall_s,
                cpu_s=run.cpu_s,
                read_bytes=run.read_bytes,
            )
    if late:
        recorder.note(f"mmap did not finish within {timeout_s:g} s with {', '.join(late)}.")
    recorder.note(f"Pages touched: {touched / MIB:,.0f} MiB of {size / MIB:,.0f} MiB.")
    base_wall = recorder.median("Farfield, no limit", "wall_s")
    recorder.claim("pages touched over the largest limit", touched / (size / SHARES[0]), ">=", 2, unit="times")
    ratio = recorder.median("Farfield, 1/16 of the data", "wall_s") / base_wall
    recorder.claim("1/16 of the data over no limit, wall", ratio, "<=", 1.5)
