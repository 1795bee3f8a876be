"""A rake moved while the dataset stays open."""

from __future__ import annotations

from farfield_bench import arms, common, data
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

PAGE = 16


@experiment("warm", "Warm: the same rake moved by one page width")
def measure(recorder: Recorder) -> None:
    """The 256 x 256 x 128 flow, a rake of 1,000 seeds, lines of at most two units (128 cells), one worker. The rake is
    traced, moved along itself by one page width (16 cells), and traced again over the same open dataset. The second
    trace includes reading its new pages from the evicted store. It is compared with the same trace over flat arrays. A
    rake moved across itself, so that most of its pages are new, is also measured, without a claim.
    """
    quick = recorder.quick
    dims = common.SMALL if quick else (256, 256, 128)
    count = 100 if quick else 1000
    cache = str(common.cache(recorder))
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    how = {"max_length": 2.0, "max_steps": 10_000}
    a, _, c = data.box(dims)
    cell = 2.0 / (min(dims) - 1)
    start = data.rake(dims, count)
    along = data.rake(dims, count, shift_cells=PAGE)
    across = start.replace(f",{0.5 * c}", f",{0.5 * c + PAGE * cell}")
    again = set()
    fresh: dict[str, tuple[float, float]] = {}
    digests: dict[str, set[str]] = {along: set(), across: set()}
    for _ in range(recorder.runs):
        for name, moved in (("moved along itself", along), ("moved across itself", across)):
            flat = arms.inside(
                arm="flat",
                **flow.options,
                traces=[{"seeds": s, **how} for s in (start, moved)],
                memory_limit=common.PLENTY,
                workers=1,
                cache_dir=cache,
            )
            row = arms.run(flat).json()["runs"][1]
            recorder.run(f"{name}: in core, flat arrays", wall_s=row["wall_s"], cpu_s=row["cpu_s"])
            digests[moved].add(row["digest"])
            paged = {
                "source": str(store),
                "traces": [{"seeds": s, **how} for s in (start, moved, moved)],
                "memory_limit": common.PLENTY,
                "workers": 1,
            }
            rows = arms.run(arms.inside(arm="paged", **paged), cold=[store]).json()["runs"]
            recorder.run(
                f"{name}: first trace, cold", wall_s=rows[0]["wall_s"], cpu_s=rows[0]["cpu_s"], faults=rows[0]["faults"]
            )
            recorder.run(
                f"{name}: moved, still open",
                wall_s=rows[1]["wall_s"],
                cpu_s=rows[1]["cpu_s"],
                faults=rows[1]["faults"],
                read_bytes=rows[1]["bytes_read"],
            )
            recorder.run(
                f"{name}: once more, all resident",
                wall_s=rows[2]["wall_s"],
                cpu_s=rows[2]["cpu_s"],
                faults=rows[2]["faults"],
            )
            digests[moved] |= {rows[1]["digest"], rows[2]["digest"]}
            seen = arms.run(arms.inside(arm="paged", touched=True, **paged)).json()["runs"]
            again.add(seen[1]["touched"]["again"])
            fresh[name] = (seen[1]["touched"]["total"]["pages"], seen[0]["touched"]["total"]["pages"])
    name = "moved along itself"
    ratio = recorder.median(f"{name}: moved, still open", "wall_s") / recorder.median(
        f"{name}: in core, flat arrays", "wall_s"
    )
    recorder.claim("moved along itself, still open, over in core, wall", ratio, "<=", 1.15)
    recorder.claim("pages read again that were read before", max(again), "==", 0)
    recorder.claim("different results", sum(len(d) - 1 for d in digests.values()), "==", 0, right=True)
    for name, (new, before) in fresh.items():
        recorder.note(f"Rake {name}: {new:,.0f} pages were new; the first trace read {before:,.0f}.")
    del a
