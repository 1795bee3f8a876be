"""Two builds of Farfield side by side: results to the bit, processor times, and the shape of their code."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import farfield
from farfield.errors import DataError
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

TOP = Path(farfield.__file__).parents[2]
"""The checkout with the `tools` that compare builds. An installed package has none."""
MOST_TIMES = 1.02


def _commit(folder: Path) -> str:
    return subprocess.run(
        ["git", "-C", folder, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


@experiment("builds", "Two builds: the same results to the bit, and processor times")
def measure(recorder: Recorder) -> None:
    """This checkout against the folder that `FARFIELD_BEFORE` names, a checkout of another commit that `make build` has built.
    Some seventy runs of every kind are compared by digests of all that they write and print. Runs in core take turns; a ratio
    is the median over the turns. Then the shape of both codes, by tools/code_figures.py.
    """
    tools, before = TOP / "tools", os.environ.get("FARFIELD_BEFORE")
    here = before is not None and tools.is_dir()
    recorder.condition("another build to compare with", here, "" if here else "FARFIELD_BEFORE names no checkout")
    if before is None or not here:
        return
    output = recorder.work / "builds.json"
    words = (
        sys.executable,
        tools / "compare_builds",
        before,
        TOP,
        "--work",
        recorder.work / "builds",
        "--output",
        output,
    )
    command = [str(word) for word in words]
    turns = 1 if recorder.quick else max(recorder.runs, 7)
    run = subprocess.run([*command, "--turns", str(turns)], stdout=sys.stderr, check=False)
    if run.returncode not in (0, 1):
        raise DataError(f"{tools / 'compare_builds'}: ended with exit code {run.returncode}")
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    names = [_commit(Path(before)), _commit(TOP)]
    recorder.claim(
        f"runs of {found['runs']} with other results", len(found["differences"]), "==", 0, unit="runs", right=True
    )
    for name, files in found["differences"].items():
        recorder.note(f"Other results of {name}: {', '.join(files)}.")
    keys = sorted({key for of_run in found["keys"].values() for key in of_run})
    if keys:
        recorder.note(f"Keys that one build alone prints: {', '.join(keys)}.")
    rows: list[list[str | float | int]] = []
    for name, speed in found["speed"].items():
        rows.append(
            [
                name,
                *(
                    round(speed[key], 3)
                    for key in ("before_cpu_s", "after_cpu_s", "ratio", "lowest_ratio", "highest_ratio")
                ),
            ]
        )
        recorder.claim(f"{name}, processor time", speed["ratio"], "<=", MOST_TIMES, unit="times")
    columns = ["run", f"{names[0]}, CPU s", f"{names[1]}, CPU s", "ratio", "lowest", "highest"]
    recorder.table("Processor times in core", columns, rows)
    sys.path.insert(0, str(tools))
    code_figures = importlib.import_module("code_figures")
    a, b = ([*code_figures.figures(Path(folder))] for folder in (before, TOP))
    after = dict(b)
    shape: list[list[str | float | int]] = [[name, value, after.get(name, "")] for name, value in a]
    shape += [[name, "", value] for name, value in b if name not in dict(a)]
    recorder.table("The shape of the code", ["", *names], shape)
