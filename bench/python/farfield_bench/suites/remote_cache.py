"""A second process with a warm disk cache, beside the local disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data, network, rights
from farfield_bench.common import MIB
from farfield_bench.network import Line, Network, Served
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LINE = Line("10 ms, 100 Mbit", 10, 100)
"""Slower than the disk, so that the cache is used."""
BAR, GOAL = 1.3, 1.1
REQUESTS = 1
"""Most requests for a file by the second process."""
LOCAL, FIRST, SECOND, OFFLINE = "local disk, cold", "first process", "second process, cache on a cold disk", "offline"


@experiment("remote-cache", "The disk cache: a second process beside the local disk")
def measure(recorder: Recorder) -> None:
    """Streamlines of the flow of 256 x 256 x 128 points (0.3 GB) from a store at nginx, over a line of 10 ms and 100
    Mbit, by `farfield trace` with its disk cache. The first process fills the cache. The second one traces the same
    lines; the cache's files are evicted from the page cache. Beside it the same trace of the local store, its files
    evicted; and the second process with `--offline`. 600 random seeds, lines of at most a quarter unit. Times are of
    the whole process, from its start to the written file. Requests are those that nginx has logged. Files of lines are
    compared byte for byte.
    """
    quick = recorder.quick
    network.note_load(recorder)
    common.cache(recorder)
    rights.eviction(recorder.work).record(recorder)
    if not (network.namespaces().record(recorder) and network.web_server().record(recorder)):
        return
    disk = shutil.disk_usage(recorder.work)
    free = f"{100 * disk.free / disk.total:.0f} % are free, and the cache leaves 5 % of the disk"
    if not recorder.condition("room on the disk for the cache", disk.free > 0.05 * disk.total + (1 << 30), free):
        return
    flow = data.single(recorder.work, common.SMALL if quick else (256, 256, 128))
    store = common.store(recorder, flow).resolve()
    runs = 1 if quick else min(recorder.runs, 3)
    seeds = f"random:{60 if quick else 600}:1"
    with network.over(LINE, recorder.work) as far:
        served = network.nginx(far, store.parent)
        outputs = {
            arm: path for turn in range(runs) for arm, path in _turn(recorder, turn, store, seeds, far, served).items()
        }
    local, second = (recorder.median(arm, "wall_s") for arm in (LOCAL, SECOND))
    recorder.claim("second process over the local disk, cold", second / local, "<=", BAR, unit="times")
    worst = recorder.median(SECOND, "requests_a_file")
    recorder.claim("second process: most requests for a file", worst, "<=", REQUESTS)
    recorder.claim(
        "second process: bytes of bodies from the server", recorder.median(SECOND, "body_bytes"), "<=", 64 << 10
    )
    recorder.claim("offline: runs that missed a page", int(recorder.stopped(OFFLINE)), "==", 0)
    if recorder.measured(OFFLINE, "requests"):
        recorder.claim("offline: requests", recorder.median(OFFLINE, "requests"), "==", 0, right=True)
    recorder.note(f"The goal of the second process over the local disk is {GOAL:g} times.")
    common.same_bytes(recorder, "lines", outputs)


def _turn(recorder: Recorder, turn: int, store: Path, seeds: str, far: Network, served: Served) -> dict[str, Path]:
    """Each arm once, with an empty cache at first. Returns the files of lines."""
    folder = (recorder.work / "remote-cache").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = {"FARFIELD_CACHE_DIR": str(folder)}
    outputs: dict[str, Path] = {}

    def one(arm: str, source: str, *, cold: list[Path], options: list[str]) -> None:
        output = (recorder.work / f"remote-cache-{len(outputs)}.npz").resolve()
        before = len(network.web_requests(far))
        command = _trace(source, seeds, output, options)
        local = source == str(store)
        run = arms.run(command if local else far.at_client(command, environment), cold=cold, takes_bytes=1024 * MIB)
        if run.code == 5 and "--offline" in options:
            recorder.stop(arm, "refused", "a page was not kept", after_s=run.wall_s)
            return
        run.json()
        asked = network.web_requests(far)[before:]
        files: dict[str, int] = {}
        for _, _, path in asked:
            files[path] = files.get(path, 0) + 1
        recorder.run(
            arm,
            wall_s=run.wall_s,
            cpu_s=run.cpu_s,
            requests=len(asked),
            files=len(files),
            requests_a_file=max(files.values(), default=0),
            body_bytes=sum(size for _, size, _ in asked),
            cache_bytes=sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()),
        )
        outputs[arm] = output

    url = f"{served.url}/{store.name}"
    arms.warm([store])
    one(FIRST, url, cold=[], options=[])
    one(SECOND, url, cold=[folder], options=[])
    one(OFFLINE, url, cold=[folder], options=["--offline"])
    one(LOCAL, str(store), cold=[store], options=[])
    return outputs


def _trace(source: str, seeds: str, output: Path, options: list[str]) -> list[Any]:
    words = ["trace", source, "--seeds", seeds, "-o", str(output), "--memory-limit", str(1024 * MIB)]
    words += ["--direction", "forward", "--max-length", "0.25", "--max-steps", "10000"]
    return arms.farfield(*words, "--json", "--no-progress", "-q", *options)
