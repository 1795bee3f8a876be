"""Which page goes: recorded runs replayed with each policy, beside Belady's optimum."""

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
"""Shares of the bytes touched, and how often they are halved."""

LEAST = 6 * MIB
"""The least limit that all of the runs can do with."""


@experiment("policies", "Replacement: recorded runs with each policy, beside the optimum")
def measure(recorder: Recorder) -> None:
    """Streamlines from random seeds and along a line, and streamlines with vorticity, through a steady flow (256 x 256 x 128);
    pathlines and streaklines through 40 steps of a moving one (97 x 97 x 49); from stores with pages of 16 points, two
    workers. Each run is recorded with memory for all that it touches, and replayed in a quarter and in a sixteenth of the bytes
    touched; and once within each of these, and replayed in as much room as its pages had: a run within little memory has
    fewer tasks under way and goes another way. Such a string of uses has the run's own restarts in it: a step that lacked a
    page was begun again, and uses its pages again whatever the policy of the replay. Runs that touch so little that nothing
    runs in a sixteenth of it are not recorded within that: the sums at a sixteenth may be over fewer runs than those at a
    quarter, and the table says over how many. Uses of pages are replayed in the order in which they were, with each policy
    alone; with the default and what the executor tells the pager (pages of steps that are over, pages that nobody is at
    any more); with that and what parked tasks have asked for and not come to yet ("waiting"); and with Belady's optimum,
    which knows the future. Misses are pages loaded, the first time or again. The last claim is of the runs within little
    memory: what a replay with the run's own policy and limit comes to, against what the run did.
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
                    f"{name}: {within} of {touched / MIB:.0f} MiB is less than any run can do with, so none was recorded."
                )
                continue
            log, output = recorder.work / "policies.events", recorder.work / "policies.npz"
            words = ["trace", str(store), "--seeds", seeds, "-o", str(output), "--memory-limit", str(limit)]
            words += ["--events", str(log), *options]
            run = arms.run(arms.farfield(*words, "--workers", "2", "--json", "--no-progress", "-q"))
            pages: dict[str, Any] = run.json()["pages"]
            found = replay(log, policies=policies, limits=[limit] if touched else [], progress=False)
            if touched:
                # The one room of the run's own limit.
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
        recorder.note("No run with little memory dropped a hundred pages: how near its replay comes is not measured.")


def _nearest(curves: list[dict[str, Any]], room: int) -> dict[str, dict[str, Any]]:
    """Each policy's row of the room that is nearest."""
    best: dict[str, dict[str, Any]] = {}
    for row in curves:
        known = best.get(row["policy"])
        if known is None or abs(row["frame_bytes"] - room) < abs(known["frame_bytes"] - room):
            best[row["policy"]] = row
    return best
