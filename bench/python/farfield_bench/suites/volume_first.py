"""From the start of the command to the first picture of a large volume."""

from __future__ import annotations

import json
from pathlib import Path

from farfield_bench import arms, rights, volume_arms, volumes
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

ASKED_S = 2.0
SIZE = (1920, 1080)
START = (32, 18)
"""Pixels of a picture of negligible cost. The rest is the command's start, opening, ranges and writing."""


@experiment("volume-first", "The first picture of eight gigabytes, cold, from the command's start")
def measure(recorder: Recorder) -> None:
    """A volume of 2048 x 2048 x 2048 bytes in Farfield's store with its pyramid, evicted from the page cache. `farfield
    render` of it, with no option but the size of the picture, 1920 x 1080. Times are from the start of the process to
    its end, after the PNG is written. The same in 32 x 18 pixels shows the command's time beside the picture: imports,
    opening, some values for ranges and opacities. Levels in a scene show the cost of the level. By default it is the
    coarsest whose voxels are about as large as pixels, here level 2 (1.3 pixels in the middle of the volume).
    """
    quick = recorder.quick
    volume = volumes.large(recorder.work, 128 if quick else 2048)
    size = (96, 54) if quick else SIZE
    store = volume_arms.converted(recorder, volume)
    rights.eviction(recorder.work).record(recorder)
    levels = len(volume_arms.spec(store)["levels"])
    words = {
        f"{size[0]} x {size[1]}": [str(store), "--size", f"{size[0]}x{size[1]}"],
        f"{START[0]} x {START[1]}": [str(store), "--size", f"{START[0]}x{START[1]}"],
    }
    for level in range(1, levels - 1):
        name = f"{size[0]} x {size[1]}, level {level}"
        words[name] = [str(_scene(recorder.work, store, level)), "--size", f"{size[0]}x{size[1]}"]
    output = recorder.work / "first.png"
    for _ in range(min(recorder.runs, 3)):
        for name, what in words.items():
            command = arms.farfield("render", *what, "-o", output, "--json", "--no-progress", "-q")
            run = arms.run(command, cold=[store], takes_bytes=4 << 30)
            found = run.json()
            recorder.run(
                name,
                wall_s=run.wall_s,
                cpu_s=run.cpu_s,
                wait_s=found["wait_s"],
                read_bytes=found["bytes_read"],
                pages_read=found["pages"]["faults"],
                base_bytes=found["base_bytes"],
            )
    for name in list(words)[:2]:
        recorder.claim(f"{name}: start to picture", recorder.median(name, "wall_s"), "<=", ASKED_S, unit="s")


def _scene(work: Path, store: Path, level: int) -> Path:
    """A scene with a level and no other option."""
    path = work / f"first-level{level}.json"
    scene = {"source": str(store.resolve()), "objects": [{"kind": "outline"}, {"kind": "volume", "level": level}]}
    path.write_text(json.dumps(scene), encoding="utf-8")
    return path
