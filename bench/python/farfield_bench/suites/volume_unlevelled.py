"""Volumes without coarser levels, nearly empty stores, and series of very many files."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from farfield_bench import arms, common, rights, volumes
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

MOST = 3.0
"""Bytes read over bytes touched."""
SPARSE_S = 1.0
MOST_OPENS = 1.1
"""Most times that each file of a series is opened, on average: opening as a volume reads a few of them first."""
LIMITS = (64 << 20, 256 << 20, 2 << 30)
SIDE = 2048
QUICK_SIDE = 192
SIZE = (800, 450)


@experiment("volumes-without-levels", "Large volumes without levels, sparse stores, series of many files")
def measure(recorder: Recorder) -> None:
    """A raw volume of 2048 x 2048 x 2048 bytes, paged in place, evicted from the page cache. Its first picture, 800 x
    450, and a maximum projection, within 64 MiB, 256 MiB and 2 GiB. Bytes read are compared with the bytes of the pages
    that rays touch. Beside it Zarr stores of 2560 x 2560 x 2560 bytes without a written shard, and of 10000 x 10000 x
    10000 bytes with five: the time of `farfield info --ranges`. And 10,000 TIFF files that are one volume: the time of
    `farfield info`, and the number of times that files are opened.
    """
    quick = recorder.quick
    common.cache(recorder)
    rights.eviction(recorder.work).record(recorder)
    _pictures(recorder, QUICK_SIDE if quick else SIDE)
    _sparse(recorder, 640 if quick else 2560, 0)
    _sparse(recorder, 2000 if quick else 10_000, 5)
    _series(recorder, 64 if quick else 10_000)


def _pictures(recorder: Recorder, side: int) -> None:
    volume = volumes.foam(recorder.work, (side, side, side))
    size = (96, 54) if recorder.quick else SIZE
    page = json.loads(arms.run(arms.farfield("info", volume.header, "--json")).stdout)["levels"][0]["page"]
    for limit in LIMITS:
        # A smaller volume has a limit smaller in proportion, down to 16 MiB.
        scaled = limit if side == SIDE else max(16 << 20, limit * side**3 // SIDE**3)
        for name in ("picture", "maximum"):
            run = arms.run(
                arms.farfield(
                    "render", _scene(recorder.work, volume.header, name), "--size", f"{size[0]}x{size[1]}",
                    "--memory-limit", str(scaled), "-o", recorder.work / "unlevelled.png", "--json", "--no-progress", "-q",
                ),
                cold=volume.files,
                takes_bytes=limit,
            )  # fmt: skip
            found = run.json()
            touched = min(found["pages"]["touched"] * math.prod(page), volume.bytes)
            arm = f"{name}, {limit >> 20} MiB"
            recorder.run(
                arm,
                wall_s=run.wall_s,
                cpu_s=run.cpu_s,
                read_bytes=found["bytes_read"],
                touched_bytes=touched,
                read_over_touched=found["bytes_read"] / touched,
            )
            recorder.claim(
                f"{arm}: bytes read over bytes touched", recorder.median(arm, "read_over_touched"), "<=", MOST
            )


def _scene(work: Path, source: Path, name: str) -> Path:
    path = work / f"unlevelled-{name}.json"
    shown = {"kind": "volume", **({"projection": "maximum"} if name == "maximum" else {})}
    path.write_text(
        json.dumps({"source": str(source.resolve()), "objects": [{"kind": "outline"}, shown]}), encoding="utf-8"
    )
    return path


def sparse_store(path: Path, side: int, shards: int) -> None:
    """A Zarr v3 array of side^3 bytes in shards of 640^3 and chunks of 64^3; so many shards along the diagonal hold a chunk."""
    import zarr

    shutil.rmtree(path, ignore_errors=True)
    array = zarr.create_array(
        path, shape=(side,) * 3, shards=(640,) * 3, chunks=(64,) * 3, dtype="u1", fill_value=0, zarr_format=3
    )
    for n in range(shards):
        at = n * 640 % (side - 64)
        array[at : at + 64, at : at + 64, at : at + 64] = np.full((64,) * 3, 50 + n, np.uint8)


def _sparse(recorder: Recorder, side: int, shards: int) -> None:
    path = recorder.work / f"sparse-{side}-{shards}.zarr"
    sparse_store(path, side, shards)
    arm = f"{side}^3 bytes, {shards or 'no'} shards written"
    for _ in range(min(recorder.runs, 3)):
        shutil.rmtree(common.cache(recorder), ignore_errors=True)
        run = arms.run(arms.farfield("info", path, "--ranges", "--json", "--no-progress", "-q"))
        found = run.json()
        pages = found["pages"]
        recorder.run(
            arm,
            wall_s=run.wall_s,
            cpu_s=run.cpu_s,
            run_s=found["wall_s"],
            pages_read=pages["faults"],
            fills=pages["fills"],
        )
    recorder.claim(f"{arm}: info --ranges", recorder.median(arm, "run_s"), "<=", SPARSE_S, unit="s")


def _series(recorder: Recorder, files: int) -> None:
    import tifffile

    folder = recorder.work / f"series-{files}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for n in range(files):
            tifffile.imwrite(part / f"slice_{n:05}.tif", np.full((16, 16), n % 251, np.uint8))
        part.rename(folder)
    arm = f"{files} TIFF files"
    opens = _opens(folder)
    for _ in range(min(recorder.runs, 3)):
        run = arms.run(arms.farfield("info", folder, "--json", "--no-progress", "-q"))
        assert run.json()["dims"][2] == files
        recorder.run(arm, wall_s=run.wall_s, cpu_s=run.cpu_s, opens=opens, opens_each=opens / files)
    recorder.claim(f"{arm}: times that each is opened", recorder.median(arm, "opens_each"), "<=", MOST_OPENS)


def _opens(folder: Path) -> int:
    """Number of times that files of a folder are opened while it is opened as a volume, from Python's audit hook."""
    script = (
        "import sys, farfield as ff; count = [0]\n"
        "def hook(event, args):\n"
        "    count[0] += event == 'open' and str(args[0]).startswith(sys.argv[1])\n"
        "sys.addaudithook(hook)\n"
        "ff.open(sys.argv[1]).close(); print(count[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])
