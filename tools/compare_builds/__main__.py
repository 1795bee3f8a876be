"""Compares two commits: the results of some seventy runs to the bit, and the processor time of runs in core.

    .venv/bin/python tools/compare_builds BEFORE AFTER

Each is a commit, or a folder with a checkout that `make build` has built. A commit is built once, in a folder of its own.
A difference is named with the files in which it lies. Times are those that runs tell, which begin after Python has started;
both builds run in turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))

import inputs
from runs import RESULTS, SPEED, Run

TOP = Path(__file__).resolve().parents[2]
MOST_TIMES_THE_TIME = 1.02
"""The processor time of the second build over that of the first, at most."""

VOLATILE = (
    "_s",
    "_bytes",
    "bytes_read",
    "bytes_written",
    "reads",
    "readers",
    "restarts",
    "elders",
    "dropped",
)
"""Endings of keys of printed JSON whose values differ from run to run: times, memory, counts of what paging did."""
PAGING = ("pages", "transport", "output", "version", "path", "source", "files", "store")
"""Keys whose values name folders or say how pages came."""


@dataclass
class Build:
    """A checkout with its extension."""

    name: str
    folder: Path

    def command(self) -> list[str]:
        """The command line of this build."""
        return [str(self.folder / ".venv" / "bin" / "farfield")]


def build_of(commit_or_folder: str, work: Path) -> Build:
    """The build of a folder, or of a commit, which is made if it is not there."""
    folder = Path(commit_or_folder)
    if (folder / "Makefile").exists():
        return Build(commit_or_folder, folder.resolve())
    full = subprocess.run(
        ["git", "-C", TOP, "rev-parse", "--verify", f"{commit_or_folder}^{{commit}}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if full.returncode:
        raise SystemExit(f"compare_builds: '{commit_or_folder}' is no commit, and no folder with a Makefile")
    commit = full.stdout.strip()
    folder = work / "builds" / commit[:12]
    if not folder.exists():
        subprocess.run(["git", "-C", TOP, "worktree", "add", "--quiet", "--detach", folder, commit], check=True)
    print(f"compare_builds: building {commit[:12]}", file=sys.stderr)
    subprocess.run(["make", "-C", folder, "build"], check=True, stdout=subprocess.DEVNULL)
    return Build(commit[:12], folder)


def started(build: Build, run: Run, work: Path, out: Path) -> dict[str, Any]:
    """What a run prints as JSON."""
    places = {"in": os.path.relpath(work / "inputs", out), "out": "."}
    words = [word.replace("{in}", places["in"]).replace("{out}", places["out"]) for word in run.arguments]
    environment = {**os.environ, "FARFIELD_CACHE_DIR": str(out / ".cache")}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [*build.command(), *words, "--json", "--no-progress"],
        cwd=out, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(
            f"compare_builds: {build.name}: {run.name} ended with {done.returncode}: {done.stderr.strip()}"
        )
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def without_volatile(value: Any) -> Any:
    """Printed JSON without what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: without_volatile(v)
            for key, v in value.items()
            if key not in PAGING and not any(key.endswith(ending) for ending in VOLATILE)
        }
    return [without_volatile(v) for v in value] if isinstance(value, list) else value


def common(value: Any, other: Any) -> Any:
    """A value without keys that the other has not, at any depth."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {key: common(v, other[key]) for key, v in value.items() if key in other}
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [common(v, o) for v, o in zip(value, other, strict=True)]
    return value


def key_paths(value: Any, under: str = "") -> set[str]:
    """The names of all keys of printed JSON, each after those that it lies under."""
    if isinstance(value, dict):
        return set().union(*({f"{under}.{key}", *key_paths(v, f"{under}.{key}")} for key, v in value.items()))
    return set().union(*(key_paths(v, f"{under}[]") for v in value)) if isinstance(value, list) else set()


IDENTITIES = ("crc32c", "source", "sources")
"""Keys of a store that say from which files it was made, by their inodes, or that cover those keys."""


PROVENANCE = ("format", "guessed", "settings")
"""Keys of a store's catalog that say how its source was read. What follows from them is compared in runs on the store."""


def digest_of(path: Path) -> str:
    """Of a file its bytes, of a picture its pixels, of an archive of NumPy its arrays, of a store's root all but its identities."""
    h = hashlib.sha256()
    if path.suffix == ".png":
        with Image.open(path) as picture:
            h.update(f"{picture.mode} {picture.size}".encode())
            h.update(picture.tobytes())
        return h.hexdigest()[:16]
    if path.name == "zarr.json":
        root = json.loads(path.read_text())
        own = root.get("attributes", {}).get("farfield")
        if own is not None:
            own = {key: v for key, v in own.items() if key not in IDENTITIES}
            if "catalog" in own:
                own["catalog"] = {key: v for key, v in own["catalog"].items() if key not in PROVENANCE}
            root["attributes"]["farfield"] = own
        return hashlib.sha256(json.dumps(root).encode()).hexdigest()[:16]
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            for name in sorted(arrays.files):
                array = arrays[name]
                if array.dtype.hasobject:
                    raise SystemExit(f"compare_builds: {path}: '{name}' is no array of numbers or text")
                h.update(f"{name} {array.dtype} {array.shape}".encode())
                h.update(array.tobytes())
    else:
        with path.open("rb") as f:
            while part := f.read(1 << 20):
                h.update(part)
    return h.hexdigest()[:16]


def digests(run: Run, printed: Any, other: Any, out: Path) -> dict[str, str]:
    """Digests of what a run made, by file; of one that only prints, of the values whose keys the other build prints, too."""
    if run.output is None:
        said = json.dumps(common(without_volatile(printed), without_volatile(other)), sort_keys=True)
        return {"--json": hashlib.sha256(said.encode()).hexdigest()[:16]}
    stem, percent, rest = run.output.partition("%04d")
    paths = sorted(out.glob(f"{stem}*{rest}")) if percent else [out / run.output]
    if run.output.endswith(".pvd"):
        paths += sorted(p for p in out.iterdir() if p.name.startswith(run.output[:-4]) and p.suffix == ".vtp")
    files = [f for p in paths for f in (sorted(p.rglob("*")) if p.is_dir() else [p]) if f.is_file()]
    if not files:
        raise SystemExit(f"compare_builds: {run.name} made no {run.output} in {out}")
    return {str(f.relative_to(out)): digest_of(f) for f in files}


def compare_results(builds: list[Build], work: Path, only: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Makes all runs with each build. By the name of the run, the results that differ, and the keys that only one build prints."""
    folders = [work / "out" / f"{n}-{build.name.strip('/').replace('/', '-')}" for n, build in enumerate(builds)]
    for folder in folders:
        subprocess.run(["rm", "-rf", folder], check=True)
        folder.mkdir(parents=True)
    differences: dict[str, list[str]] = {}
    keys: dict[str, list[str]] = {}
    # What makes stores is always run: others read them.
    chosen = [run for run in RESULTS if only in run.name or run.arguments[0] == "convert"]
    for run in chosen:
        a, b = (started(build, run, work, folder) for build, folder in zip(builds, folders, strict=True))
        first, second = digests(run, a, b, folders[0]), digests(run, b, a, folders[1])
        if one_sided := sorted(key_paths(a) ^ key_paths(b)):
            keys[run.name] = one_sided
        differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        print(f"{'differs' if differ else 'equal':8} {run.name}" + "".join(f"\n           {name}" for name in differ))
        if differ:
            differences[run.name] = differ
    print(f"{len(chosen)} runs, {len(differences)} differ")
    for name in sorted(set().union(*keys.values())):
        print(f"printed by one build alone: {name}, in {sum(name in found for found in keys.values())} runs")
    return differences, keys


def compare_speed(builds: list[Build], work: Path, only: str, turns: int) -> dict[str, dict[str, Any]]:
    """Medians of the processor time of both builds, their ratio and its spread, by the name of the run."""
    out = work / "speed"
    out.mkdir(parents=True, exist_ok=True)
    found = {}
    for run in (run for run in SPEED if only in run.name):
        # Once each so that files are in the page cache.
        for build in builds:
            started(build, run, work, out)
        taken: list[list[float]] = [[], []]
        for turn in range(turns):
            for n in (0, 1) if turn % 2 == 0 else (1, 0):
                taken[n].append(started(builds[n], run, work, out)["cpu_s"])
        ratios = sorted(b / a for a, b in zip(*taken, strict=True))
        found[run.name] = {
            "before_cpu_s": statistics.median(taken[0]),
            "after_cpu_s": statistics.median(taken[1]),
            "ratio": statistics.median(ratios),
            "lowest_ratio": ratios[0],
            "highest_ratio": ratios[-1],
        }
        print(f"{run.name}: " + ", ".join(f"{key} {value:.3f}" for key, value in found[run.name].items()))
    return found


def main() -> int:
    """The exit code: 0 where all is equal and no slower."""
    words = argparse.ArgumentParser(prog="compare_builds", description=(__doc__ or "").partition("\n")[0])
    words.add_argument("builds", nargs=2, metavar="BUILD", help="a commit, or a folder with a built checkout")
    words.add_argument("--work", type=Path, default=TOP / "compare-data", help="inputs, builds and outputs")
    words.add_argument("--only", default="", metavar="TEXT", help="runs whose names contain it")
    words.add_argument("--turns", type=int, default=7, help="measurements of each build; 0: digests alone")
    words.add_argument("--no-results", action="store_true", help="processor times alone")
    words.add_argument("--output", type=Path, help="a JSON file for what was found")
    given = words.parse_args()
    work = given.work.resolve()
    inputs.write_all(work / "inputs")
    builds = [build_of(name, work) for name in given.builds]
    differences, keys = ({}, {}) if given.no_results else compare_results(builds, work, given.only)
    speed = compare_speed(builds, work, given.only, given.turns) if given.turns else {}
    slower = {name: s["ratio"] for name, s in speed.items() if s["ratio"] > MOST_TIMES_THE_TIME}
    if given.output:
        found = {
            "builds": [b.name for b in builds],
            "runs": len(RESULTS),
            "differences": differences,
            "keys": keys,
            "speed": speed,
        }
        given.output.write_text(json.dumps(found, indent=1) + "\n")
    for name, ratio in slower.items():
        print(f"slower: {name}, {ratio:.3f} times the processor time")
    return 1 if differences or slower else 0


if __name__ == "__main__":
    sys.exit(main())
