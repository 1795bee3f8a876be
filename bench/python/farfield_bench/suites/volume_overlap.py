"""A series of volumes, loaded and cast one step after the other, or overlapped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, rights, volume_arms, volumes
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.volumes import CT_TRANSFER

ASKED = 1.1
"""Bound on the time, over that of the formula for overlapped steps."""
OURS, SERIAL, ALONE = "overlapped", "serial", "computing alone"
LINK = 125e6
"""Bytes a second of a line of 1 Gbit/s."""


@dataclass
class _Case:
    """A series and the options of its casting."""

    recorder: Recorder
    series: volumes.Volume
    store: Path
    spec: dict[str, Any]
    steps: int
    digests: set[str] = field(default_factory=set)

    def cast(self, name: str, arm: str, size: volume_arms.Size, *, cold: bool, **options: Any) -> None:
        """Casts all steps and records them, from evicted files or from files in memory. Pictures are those of the last
        round.
        """
        recorder, steps = self.recorder, self.steps
        prefix = recorder.work / f"overlap-{arm.split()[0]}-"
        command = volume_arms.rays(
            self.spec, CT_TRANSFER, [volumes.views(self.series.dims)[1]], size,
            memory_limit=common.PLENTY, steps=list(range(steps)), pictures=str(prefix), **options,
        )  # fmt: skip
        if not cold:
            arms.warm([self.store])
        found = arms.run(
            command, cold=[self.store] if cold else [], takes_bytes=3 * self.series.bytes, timeout_s=1200
        ).json()
        self.digests.add(volume_arms.digest(prefix, steps))
        for n in range(steps):
            Path(f"{prefix}{n}.rgb").unlink()
        rows: list[dict[str, Any]] = found["rounds"][-steps:]
        load = sum(row["load_s"] for row in rows)
        recorder.run(
            f"{name}: {arm}",
            settings=None,
            wall_s=load + sum(row["wall_s"] for row in rows),
            cpu_s=sum(row["cpu_s"] for row in rows),
            load_s=load,
            read_bytes=sum(row["bytes_read"] for row in rows),
        )


@experiment("volume-overlap", "A series of volumes: steps loaded and cast in turn, and overlapped")
def measure(recorder: Recorder) -> None:
    """Ten time steps of 256 x 256 x 256 bytes, a trunk with a beating heart. A plain Zarr store has them in pages of 32
    voxels. They are cast one after the other from one view, with both cores and memory for everything. Serial: all
    pages of a step are read, then it is cast. Overlapped: Farfield reads page by page along the rays, and those of the
    next step while one is cast. A step takes L to load, measured in the serial arm, and R to compute, measured alone in
    a process with every page. Serial is N (L + R). Overlapped may take N max(L, R) + min(L, R), and a tenth more. There
    are two devices. One is a line of 1 Gbit/s, which delivers one read behind the other, from files in memory. The
    other is the disk of this machine, files evicted, where reading is mostly processor time. The windows are such that
    L and R are alike. Pictures of all arms of a window are compared.
    """
    quick = recorder.quick
    dims, steps = ((64, 64, 64), 3) if quick else ((256, 256, 256), 10)
    runs = 1 if quick else recorder.runs
    series = volumes.beating(recorder.work, dims, steps)
    store = volume_arms.store(recorder, series)
    rights.eviction(recorder.work).record(recorder)
    small, large = ((48, 29), (96, 57)) if quick else ((192, 114), (1024, 608))
    cases: dict[str, tuple[volume_arms.Size, dict[str, Any]]] = {
        "1 Gbit/s": (large, {"cold": False, "link_bytes_per_s": LINK}),
        "disk": (small, {"cold": True}),
    }
    spec = volume_arms.spec(store)
    rows: list[list[str | float | int]] = []
    differ = 0
    for name, (size, options) in cases.items():
        case = _Case(recorder, series, store, spec, steps)
        for _ in range(runs):
            case.cast(name, SERIAL, size, first=True, **options)
            case.cast(name, OURS, size, ahead=True, **options)
            case.cast(name, ALONE, size, cold=False, rounds=2)
        differ += len(case.digests) - 1
        wall, serial, compute = (recorder.median(f"{name}: {arm}", "wall_s") for arm in (OURS, SERIAL, ALONE))
        load, compute = recorder.median(f"{name}: {SERIAL}", "load_s") / steps, compute / steps
        least = steps * max(load, compute) + min(load, compute)
        rows.append([name, steps, load, compute, serial, steps * (load + compute), wall, least, wall / least])
        recorder.claim(f"{name}: overlapped over N max(L, R) + min(L, R)", wall / least, "<=", ASKED, unit="times")
    columns = ["from", "N", "L, s", "R, s", "serial, s", "N (L + R), s", "overlapped, s", "N max + min, s", "over it"]
    recorder.table("Beside the formulas", columns, rows)
    recorder.claim("pictures that differ between arms", differ, "==", 0, right=True)
