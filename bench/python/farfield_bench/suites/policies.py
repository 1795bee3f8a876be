"""Page replacement: recorded runs replayed with each policy, beside Belady's optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farfield.report.replays import replay
from farfield.runtime.settings import REPLACEMENT
from farfield_bench import arms, common, data, series
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

SHARES = {"1/4": 2, "1/16": 4}
"""Shares of the bytes touched, and how many times the bytes are halved for each."""

LEAST = 6 * MIB
"""The least limit within which all runs work."""


@experiment("policies", "Replacement: recorded runs with each policy, beside the optimum")
def measure(recorder: Recorder) -> None:
    """Streamlines from random seeds and along a line, and streamlines with vorticity, through a steady flow (256 x 256
    x 128). Pathlines and streaklines through 40 steps of a moving one (97 x 97 x 49). All read stores with pages of 16
    points, with two workers. Each run is recorded with memory for all that it touches, and replayed in a quarter and in
    a sixteenth of the bytes touched. It is also recorded within each of these, and replayed in as much room as its
    pages had: a run with little memory has fewer tasks under way and takes another course. This recording contains the
    run's own restarts. A step that lacked a page began again, and uses its pages again under every policy of the
    replay. Runs that touch too little to run in a sixteenth are not recorded at that share. The sums at a sixteenth may
    then be over fewer runs than those at a quarter; the table has their numbers. Uses of pages are replayed in their
    recorded order. Replays are with each policy alone, and with Belady's optimum, which needs the future. The default
    is also replayed with the executor's hints to the pager: pages of finished steps, and pages without users. A further
    replay adds the pending requests of parked tasks ("waiting"). Misses are pages loaded, the first time or again. The
    last claim is on the runs with little memory: a replay with the run's own policy and limit, against the run itself.
    """
    quick = recorder.quick
    flows = common.Flows.make(recorder)
    cloud = common.seeds_file(recorder, "policies", series.cloud(flows.moving_dims, 60 if quick else 1500))
    many, few = (60, 5) if quick else (600, 20)
    short = ["--max-length", "2", "--max-steps", "10000"]
    runs: dict[str, tuple[Path, str, list[str]]] = {
        "streamlines, random seeds": (flows.steady, f"random:{many}:1", short),
        "streamlines, a rake": (flows.steady, data.rake(flows.dims, many // 2), short),
        "streamlines with vorticity": (flows.steady, f"random:{many // 2}:1", [*short, "--scalars", "vorticity"]),
        "pathlines": (flows.moving, cloud, ["--kind", "pathline"]),
        "streaklines": (flows.moving, f"random:{few}:1", ["--kind", "streakline"]),
    }
    misses: dict[tuple[str, str], int] = {}
    counted = dict.fromkeys(SHARES, 0)
    off: list[float] = []
    rows: list[list[str | float | int]] = []
    policies = [*REPLACEMENT, f"{REPLACEMENT[0]}+executor", f"{REPLACEMENT[0]}+waiting", "optimum"]
    for name, (store, seeds, options) in runs.items():
        touched = 0
        for within in ("all", *SHARES):
            limit = touched >> SHARES[within] if touched else common.PLENTY
            if limit < LEAST:
                recorder.note(
                    f"{name}: {within} of {touched / MIB:.0f} MiB is too little for any run, so none was recorded."
                )
                continue
            log, output = recorder.work / "policies.events", recorder.work / "policies.npz"
            words = ["trace", str(store), "--seeds", seeds, "-o", str(output), "--memory-limit", str(limit)]
            words += ["--events", str(log), *options]
            run = arms.run(arms.farfield(*words, "--workers", "2", "--json", "--no-progress", "-q"))
            pages: dict[str, Any] = run.json()["pages"]
            found = replay(log, policies=policies, limits=[limit] if touched else [], progress=False)
            if touched:
                # The room of the run's own limit alone.
                at = {within: {row["policy"]: row for row in found["curves"]}}
                own = found["mirror"]
                off += [abs(own[key] / max(pages[key], 1) - 1) for key in ("faults", "evictions") if pages[key] > 100]
            else:
                touched = found["touched_bytes"]
                at = {share: _nearest(found["curves"], touched >> halved) for share, halved in SHARES.items()}
            title = f"{name}, memory for {within}"
            for share, of in at.items():
                counted[share] += 1
                for policy, row in of.items():
                    misses[share, policy] = misses.get((share, policy), 0) + row["misses"]
                best = of["optimum"]["misses"]
                for policy, row in of.items():
                    rows.append([title, share, policy, row["misses"], row["again"], row["misses"] / best])
    columns = ["run", "memory, of what is touched", "policy", "misses", "of them again", "over the optimum"]
    recorder.table("Misses", columns, rows)
    total: list[list[str | float | int]] = []
    for policy in dict.fromkeys(p for _, p in misses):
        over = [misses[share, policy] / misses[share, "optimum"] for share in SHARES]
        total.append([policy, *counted.values(), *(misses[share, policy] for share in SHARES), *over])
    recorder.table(
        "All runs together",
        ["policy", *(f"{what} at {s}" for what in ("runs", "misses", "over the optimum") for s in SHARES)],
        total,
    )
    default = f"{REPLACEMENT[0]} + executor"
    for share, bound in zip(SHARES, (1.15, 1.4), strict=True):
        ratio = misses[share, default] / misses[share, "optimum"]
        recorder.claim(f"misses of the default over the optimum's, {share} of what is touched", ratio, "<=", bound)
    if off:
        farthest = "replays of runs with little memory: farthest from the run's own faults and evictions"
        recorder.claim(farthest, max(off), "<=", 0.02)
    else:
        recorder.note("No run with little memory dropped a hundred pages: the error of its replay is not measured.")


def _nearest(curves: list[dict[str, Any]], room: int) -> dict[str, dict[str, Any]]:
    """Each policy's row of the nearest room."""
    best: dict[str, dict[str, Any]] = {}
    for row in curves:
        known = best.get(row["policy"])
        if known is None or abs(row["frame_bytes"] - room) < abs(known["frame_bytes"] - room):
            best[row["policy"]] = row
    return best
