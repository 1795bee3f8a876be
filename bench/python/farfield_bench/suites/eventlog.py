"""Cost of a log of events, and of a very long one."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

from farfield import _core
from farfield_bench import arms, common, series
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

Rows = list[list[str | float | int]]
ALWAYS = ("want", "reserve", "publish")
"""Kinds of events that every run with reads has. A log without them is misread."""
PERHAPS = ("input", "wait")
"""Kinds that a run may lack: inputs of other pages, and waits of idle threads."""


@experiment("eventlog", "Event log: what it costs, and a hundred million events; and what counting costs")
def measure(recorder: Recorder) -> None:
    """Streamlines through a steady flow (256 x 256 x 128), with all of it in memory and with an eighth of what they
    touch. Pathlines through 40 steps of a moving flow (97 x 97 x 49). Both read stores in the page cache with one
    worker, in turns with and without `--events`. The claims are on the median of the pairs' ratios. The log of a
    hundred million events repeats the blocks of a recorded one. Its pages and tasks are those of the short run. The
    measurement is its summary, as `farfield report` computes it before it draws. The cost of counting without a log is
    not the difference of two runs, since counters are always on. It is price times number. The price is that of
    counting once, in a loop with the run's operations, all in the nearest cache and on one thread. The number is how
    often the run without a log counted. Numbers that its own counters lack are those of the log of its pair: waits of
    threads, requested pages, reservations, and checks whether an event is wanted. The claim is on the sum over the same
    run's processor time, the median of the pairs; the table is of that pair. The sum is over the counters in the table.
    It leaves out the comparison of a page's group at each look-up and the steps that a worker counts to tell groups
    apart. It also leaves out the charges of growing states, and contention of threads that count the same thing.
    """
    quick = recorder.quick
    flows = common.Flows.make(recorder)
    cloud = common.seeds_file(recorder, "eventlog", series.cloud(flows.moving_dims, 100 if quick else 2000))
    many = 200 if quick else 4000
    lines = ["--max-length", "2", "--max-steps", "10000"]
    cases: dict[str, tuple[Path, str, list[str], int]] = {
        "streamlines, in memory": (flows.steady, f"random:{many}:1", lines, common.PLENTY),
        "streamlines, an eighth": (flows.steady, f"random:{many // 4}:1", lines, 32 * MIB),
        "pathlines": (flows.moving, cloud, ["--kind", "pathline", "--points", "steps"], common.PLENTY),
    }
    log, output = recorder.work / "eventlog.events", recorder.work / "eventlog.npz"
    prices = arms.run(arms.inside(arm="counters"), cores=common.one_core()).json()
    rows: Rows = []
    for name, (store, seeds, options, limit) in cases.items():
        arms.warm([store])
        ratios = []
        counted: list[tuple[float, Rows]] = []
        for n in range(2 * recorder.runs + 1):
            found = {}
            for kept in (False, True) if n % 2 else (True, False):
                words = [
                    "trace",
                    str(store),
                    "--seeds",
                    seeds,
                    "-o",
                    str(output),
                    "--memory-limit",
                    str(limit),
                    "--workers",
                    "1",
                ]
                more = ["--events", str(log)] if kept else []
                command = arms.farfield(*words, *options, *more, "--json", "--no-progress", "-q")
                found[kept] = arms.run(command, cores=common.one_core()).json()
            ratios.append(
                (found[True]["cpu_s"] / found[False]["cpu_s"], found[True]["wall_s"] / found[False]["wall_s"])
            )
            told = json.loads(_core.summarise(str(log)))["kinds"]
            counted.append(_counting(name, found[False], told, prices))
            for kept, arm in ((False, f"{name}: no log"), (True, f"{name}: a log")):
                recorder.run(
                    arm,
                    wall_s=found[kept]["wall_s"],
                    cpu_s=found[kept]["cpu_s"],
                    log_bytes=log.stat().st_size if kept else 0,
                )
        for of, what in enumerate(("processor time", "wall")):
            middle = sorted(r[of] for r in ratios)[len(ratios) // 2]
            recorder.claim(f"{name}: {what} with a log over without", middle, "<=", 1.05)
        share, of_pair = sorted(counted, key=lambda pair: pair[0])[len(counted) // 2]
        rows += of_pair
        recorder.claim(f"{name}: counting, of the processor time", share, "<=", 1, unit="%")
    recorder.table("Counting", ["run", "what", "times", "ns each", "share of the processor time, %"], rows)
    events = 1_000_000 if quick else 100_000_000
    long = recorder.work / "long.events"
    count = repeat(log, long, events)
    code = (
        "import json, resource, sys; from farfield import _native; s = json.loads(_native.summarise(sys.argv[1])); "
        "print(json.dumps({'events': s['events'], 'peak': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}))"
    )
    size = long.stat().st_size
    run = arms.run([sys.executable, "-c", code, long], timeout_s=3600)
    summed = run.json()
    long.unlink()
    recorder.run("summing up", wall_s=run.wall_s, cpu_s=run.cpu_s, peak_bytes=summed["peak"], log_bytes=size)
    recorder.claim("events that were not summed up", count - summed["events"], "==", 0, right=True)
    recorder.claim("summing up: resident peak", summed["peak"] / MIB, "<=", 512, unit="MiB")
    recorder.note(f"The long log has {count:,} events in {size / MIB:,.0f} MiB.")


def _counting(name: str, run: dict[str, Any], told: dict[str, int], prices: dict[str, float]) -> tuple[float, Rows]:
    """Share of a run's processor time taken by counting, in per cent, and a row for each kind of counter."""
    pages = run["pages"]
    of = {kind: told[kind] for kind in ALWAYS} | {kind: told.get(kind, 0) for kind in PERHAPS}
    events = sum(told.values())
    kinds = {
        "look-ups of pages, by the thread that computes": ("lookup", pages["hits"] + of["want"]),
        # A round of four lanes counts twice, each of its steps once.
        "steps and rounds, by the thread": ("step", 3 * run["steps"]),
        # A page counts its fault or prefetch, decoding, publishing and eviction; a read counts its own number, its
        # bytes and its segments.
        "pages and reads, under the pager's lock": ("tally", 4 * of["publish"] + 3 * run["reads"]),
        "pages noted as touched": ("touch", of["want"] + of["input"]),
        # A page's memory is charged, changes its kind and is released; a line's is charged at its beginning and at its end.
        "memory by kind, and its peak": ("charge", 2 * of["reserve"] + 2 * run["lines"]),
        "restarts and waits, by all threads": ("shared", run["restarts"] + of["wait"]),
        "the clock, where a thread waits or makes a page": ("clock", 2 * (of["wait"] + pages["derived"])),
        "whether anybody wants an event": ("ask", events),
    }
    total = 0.0
    rows: Rows = []
    for words, (price, times) in kinds.items():
        share = 100 * times * prices[price] * 1e-9 / run["cpu_s"]
        rows.append([name, words, times, prices[price], share])
        total += share
    return total, rows


def repeat(log: Path, target: Path, events: int) -> int:
    """Writes a log of at least `events` events that repeats the blocks of another; each block is complete. Returns its
    number of events.
    """
    content = log.read_bytes()
    head = 20 + struct.unpack_from("<I", content, 12)[0]
    at, count = head, 0
    while content[at : at + 4] == b"FFBK":
        size, n = struct.unpack_from("<II", content, at + 4)
        at, count = at + 24 + size, count + n
    times = -(-events // count)
    with target.open("wb") as file:
        file.write(content[:head])
        for _ in range(times):
            file.write(content[head:at])
        file.write(b"FFEN")
    return count * times
