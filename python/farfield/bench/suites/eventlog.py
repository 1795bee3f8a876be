"""What a log of events costs, and how long one can be."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from farfield.bench import arms, common, data, series
from farfield.bench.common import MIB
from farfield.bench.registry import experiment
from farfield.bench.result import Recorder


@experiment("eventlog", "Event log: what it costs, and a hundred million events")
def measure(recorder: Recorder) -> None:
    """Streamlines through a steady flow (256 x 256 x 128) with all of it in memory and with an eighth of what they touch, and
    pathlines through 40 steps of a moving flow (97 x 97 x 49); from stores in the page cache, one worker, with and
    without `--events` in turns. The claims are of the median of the pairs' ratios. The log of a hundred million events
    is made of the blocks of a recorded one, again and again, so that its pages and tasks are those of the short run; what is
    measured is summing it up, as `farfield report` does before it draws.
    """
    quick = recorder.quick
    common.cache(recorder)
    dims = common.SMALL if quick else (256, 256, 128)
    steady = common.store(recorder, data.single(recorder.work, dims))
    steps, moving_dims = (8, (65, 65, 33)) if quick else (40, common.SMALL)
    moving = common.series_store(recorder, series.make(recorder.work, moving_dims, steps, kind="moving"))
    cloud = common.seeds_file(recorder, "eventlog", series.cloud(moving_dims, 100 if quick else 2000))
    many = 200 if quick else 4000
    lines = ["--max-length", "2", "--max-steps", "10000"]
    cases: dict[str, tuple[Path, str, list[str], int]] = {
        "streamlines, in memory": (steady, f"random:{many}:1", lines, common.PLENTY),
        "streamlines, an eighth": (steady, f"random:{many // 4}:1", lines, 32 * MIB),
        "pathlines": (moving, cloud, ["--kind", "pathline", "--points", "steps"], common.PLENTY),
    }
    log, output = recorder.work / "eventlog.events", recorder.work / "eventlog.npz"
    for name, (store, seeds, options, limit) in cases.items():
        arms.warm([store])
        ratios = []
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
    recorder.claim("events that were not summed up", count - summed["events"], "==", 0)
    recorder.claim("summing up: resident peak", summed["peak"] / MIB, "<=", 512, unit="MiB")
    recorder.note(f"The long log has {count:,} events in {size / MIB:,.0f} MiB.")


def repeat(log: Path, target: Path, events: int) -> int:
    """Writes a log of at least so many events, made of the blocks of another, each of which is whole by itself; how many it has."""
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
