"""Prediction, by the model of a recorded run, of the time that a change of its resources saves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield.report.replays import replay
from farfield_bench import arms, common, series
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder


@dataclass(frozen=True)
class Case:
    """A run, and a change of its resources."""

    name: str
    flow: str
    """Key of the trace."""
    was: dict[str, Any]
    """Its resources."""
    then: dict[str, Any]
    """Changes of its resources."""


def _cases(small: int) -> list[Case]:
    slow = {"latency_s": 0.005, "workers": 1}
    return [
        Case("streamlines, 5 ms: 1 reader to 4", "lines", {**slow, "readers": 1}, {"readers": 4}),
        Case("streamlines, 5 ms: 4 readers to 16", "lines", {**slow, "readers": 4}, {"readers": 16}),
        Case(
            "streamlines, 1 ms: 2 readers to 16", "lines", {**slow, "latency_s": 0.001, "readers": 2}, {"readers": 16}
        ),
        Case("streamlines: 5 ms a read to 1 ms", "lines", {**slow, "readers": 4}, {"latency_s": 0.001}),
        Case(
            "streamlines, 2 ms: eight times the memory",
            "lines",
            {"latency_s": 0.002, "workers": 1, "readers": 4, "memory_limit": small},
            {"memory_limit": 8 * small},
        ),
        Case("streamlines, disk: 1 worker to 2", "many lines", {"workers": 1, "readers": 128}, {"workers": 2}),
        Case("pathlines, 5 ms: 2 readers to 8", "particles", {**slow, "readers": 2}, {"readers": 8}),
        Case("pathlines, 5 ms: 4 readers to 32", "particles", {**slow, "readers": 4}, {"readers": 32}),
        Case(
            "pathlines: 10 ms a read to 2 ms",
            "particles",
            {**slow, "latency_s": 0.01, "readers": 8},
            {"latency_s": 0.002},
        ),
        Case("pathlines, disk: 1 worker to 2", "many particles", {"workers": 1, "readers": 128}, {"workers": 2}),
        Case(
            "pathlines, 2 ms: eight times the memory",
            "particles",
            {"latency_s": 0.002, "workers": 1, "readers": 8, "memory_limit": small // 2},
            {"memory_limit": 4 * small},
        ),
    ]


@experiment("model", "Model: what a change of the resources saves, said beforehand and measured")
def measure(recorder: Recorder) -> None:
    """Streamlines through a steady flow (256 x 256 x 128) and pathlines through 20 steps of a moving one (97 x 97 x
    49). Stores are on the local disk with files evicted, or behind a device with a fixed time for each read. Each case
    runs with its resources and a log of events; from the log, the model predicts the time with other resources. Then it
    runs without a log, with both resources in turns. The claim is on cases that save more than a tenth of the wall
    time: the predicted saving is within a quarter of the measured one. Wall times are those of the trace, without
    opening.
    """
    quick = recorder.quick
    flows = common.Flows.make(recorder, steps=20)
    lines = {"max_length": 2.0, "max_steps": 10_000, "direction": "forward"}
    paths = {"kind": "pathline", "direction": "forward", "max_steps": 1_000_000, "points": "steps"}
    counts = {"few": 30, "many": 200} if quick else {"few": 150, "many": 5000}
    seeds = {
        key: common.seeds_file(recorder, f"model-{key}", series.cloud(flows.moving_dims, n))
        for key, n in counts.items()
    }
    traces: dict[str, tuple[Path, dict[str, Any]]] = {
        "lines": (flows.steady, {**lines, "seeds": f"random:{counts['few']}:1"}),
        "many lines": (flows.steady, {**lines, "seeds": f"random:{counts['many']}:1"}),
        "particles": (flows.moving, {**paths, "seeds": seeds["few"]}),
        "many particles": (flows.moving, {**paths, "seeds": seeds["many"]}),
    }
    cores = sorted(os.sched_getaffinity(0))
    held, told = 0, 0
    rows: list[list[str | float | int]] = []
    cases = _cases((4 if quick else 12) * MIB)
    # One of each kind of change, and both kinds of lines.
    for case in [cases[n] for n in (0, 4, 5, 8)] if quick else cases:
        if max(case.was["workers"], case.then.get("workers", 1)) > len(cores):
            recorder.note(f"{case.name}: left out, this machine has one core.")
            continue
        store, spec = traces[case.flow]
        log = recorder.work / "model.events"
        then = {**case.was, **case.then}
        # The log of the run with the median time, since times of a disk vary.
        logs = [
            (_run(recorder, store, spec, case.was, log.with_suffix(f".{n}.events"))["wall_s"], n)
            for n in range(recorder.runs)
        ]
        logged_s, chosen = sorted(logs)[len(logs) // 2]
        log.with_suffix(f".{chosen}.events").replace(log)
        options: dict[str, Any] = {}
        for key, value in case.then.items():
            option = {"latency_s": "latencies_s", "memory_limit": "limits", "readers": "readers", "workers": "workers"}[
                key
            ]
            options[option] = [value]
        found = replay(log, policies=["clock"], progress=False, **options)
        if not found["times"]:
            recorder.note(f"{case.name}: left out, since a larger limit would save no eviction.")
            continue
        before, after = f"{case.name}: before", f"{case.name}: after"
        for _ in range(recorder.runs):
            for arm, resources in ((before, case.was), (after, then)):
                done = _run(recorder, store, spec, resources)
                recorder.run(arm, wall_s=done["wall_s"], cpu_s=done["cpu_s"], reads=done["reads"])
        # The log's time includes opening; the predicted change does not.
        said = found["model"]["measured_s"] - found["times"][0]["predicted_s"]
        wall = recorder.median(before, "wall_s")
        saved = wall - recorder.median(after, "wall_s")
        matters = saved > 0.1 * wall
        told += matters
        held += matters and abs(said / saved - 1) <= 0.25
        over = said / saved if saved else 0.0
        rows.append([case.name, wall, logged_s, saved, said, over, "yes" if matters else "no"])
    columns = ["", "wall, s", "with a log, s", "saved, s", "said, s", "said over saved", "above a tenth"]
    recorder.table("Savings", columns, rows)
    if not quick:
        recorder.claim("cases whose saving is above a tenth of the wall time", told, ">=", 8)
        recorder.claim("of these, cases in which what is said is within a quarter", held, "==", told)


def _run(
    recorder: Recorder, store: Path, spec: dict[str, Any], resources: dict[str, Any], events: Path | None = None
) -> dict[str, Any]:
    """One run in a new process. Its files are in the page cache behind a simulated device, else evicted."""
    resources = {"memory_limit": common.PLENTY, **resources}
    if events is not None:
        resources["events"] = str(events)
    on_device = resources.get("latency_s") is not None
    if on_device:
        arms.warm([store])
    command = arms.inside(
        arm="windows",
        way="ours",
        source=str(store),
        traces=[spec],
        list=str(recorder.work / "model.windows"),
        output=str(recorder.work / "model.npz"),
        **resources,
    )
    cores = sorted(os.sched_getaffinity(0))[: resources["workers"]]
    return arms.run(command, cores=cores, cold=[] if on_device else [store]).json()
