"""A series of volumes, loaded and cast one step after the other, or overlapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farfield.bench import arms, common, rights, volume_arms, volumes
from farfield.bench.registry import experiment
from farfield.bench.result import Recorder
from farfield.bench.volumes import CT_TRANSFER

ASKED = 1.1
"""Times what the formula for overlapped steps says."""
OURS, SERIAL, ALONE = "overlapped", "serial", "computing alone"


@experiment("volume-overlap", "A series of volumes: steps loaded and cast in turn, and overlapped")
def measure(recorder: Recorder) -> None:
    """Ten time steps of 256 x 256 x 256 bytes, a trunk whose heart beats, in a plain Zarr store with pages of 32 voxels, cast one
    after the other from one view, both cores, memory for everything, files evicted. Serial: all pages of a step are read, then
    it is cast. Overlapped: Farfield as it is, which reads page by page where rays go. A step takes L to load, measured in the
    serial arm, and R to compute, measured alone in a process that has every page. Serial is N (L + R); overlapped may take
    N max(L, R) + min(L, R), and a tenth more. The window is as small as makes L and R alike. Pictures of all arms are compared.
    """
    quick = recorder.quick
    dims, steps = ((64, 64, 64), 3) if quick else ((256, 256, 256), 10)
    size = (48, 29) if quick else (192, 114)
    runs = 1 if quick else recorder.runs
    series = volumes.beating(recorder.work, dims, steps)
    store = volume_arms.store(recorder, series)
    rights.eviction(recorder.work).record(recorder)
    view = volumes.views(dims)[1]
    spec = volume_arms.spec(store)
    digests: set[str] = set()

    def cast(arm: str, **options: Any) -> list[dict[str, Any]]:
        prefix = recorder.work / f"overlap-{arm.split()[0]}-"
        command = volume_arms.rays(
            spec, CT_TRANSFER, [view], size, memory_limit=common.PLENTY, steps=list(range(steps)),
            pictures=str(prefix), **options,
        )  # fmt: skip
        found = arms.run(command, cold=[store], takes_bytes=3 * series.bytes, timeout_s=1200).json()
        digests.add(volume_arms.digest(prefix, steps))
        for n in range(steps):
            Path(f"{prefix}{n}.rgb").unlink()
        rows: list[dict[str, Any]] = found["rounds"][-steps:]
        load = sum(row["load_s"] for row in rows)
        recorder.run(
            arm,
            settings=None,
            wall_s=load + sum(row["wall_s"] for row in rows),
            cpu_s=sum(row["cpu_s"] for row in rows),
            load_s=load,
            read_bytes=sum(row["bytes_read"] for row in rows),
        )
        return rows

    for _ in range(runs):
        cast(SERIAL, first=True)
        cast(OURS, ahead=True)
        cast(ALONE, rounds=2)
    wall, serial, compute = (recorder.median(arm, "wall_s") for arm in (OURS, SERIAL, ALONE))
    load, compute = recorder.median(SERIAL, "load_s") / steps, compute / steps
    least = steps * max(load, compute) + min(load, compute)
    row: list[str | float | int] = [steps, load, compute, serial, steps * (load + compute), wall, least, wall / least]
    columns = ["N", "L, s", "R, s", "serial, s", "N (L + R), s", "overlapped, s", "N max + min, s", "over it"]
    recorder.table("Beside the formulas", columns, [row])
    recorder.claim("overlapped over N max(L, R) + min(L, R)", wall / least, "<=", ASKED, unit="times")
    recorder.claim("pictures that differ between arms", len(digests) - 1, "==", 0, right=True)
