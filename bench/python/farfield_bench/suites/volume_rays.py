"""Rays through a volume in core, beside VTK's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, common, volume_arms, volume_reference, volumes
from farfield_bench.readers import ran
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.volume_arms import Size
from farfield_bench.volumes import CT_TRANSFER

ASKED, AIM = 6.0, 15.0
"""Ratio of processor time of VTK's ray-caster to Farfield's: the bound, and the aim."""
NEAR = 2
"""Largest difference of a pixel from the exact picture, in 255ths."""
TURNED = 10.0
"""Degrees between the first pictures, which do not count, and the others."""
OURS = {"Farfield, pages of 32": 32, "Farfield, pages of 64": 64}
IN_PLACE, ALONE = "Farfield, raw file in place", "Farfield, pages of 32, nothing kept"
FIXED, GPU = "VTK, fixed point", "VTK, OpenGL by llvmpipe"
MAPPERS = {FIXED: "fixed", GPU: "gpu"}


@dataclass
class _Pictures:
    """One size of pictures and its results."""

    recorder: Recorder
    volume: volumes.Volume
    size: Size
    views: list[volumes.View]
    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """CPU seconds by arm and view."""
    digests: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        return f"{self.size[0]} x {self.size[1]}"

    def ours(self, arm: str, source: Path) -> Path:
        """Casts all views with every page resident, after the same views slightly turned. Returns the prefix of the
        pictures' paths.
        """
        prefix = self.recorder.work / f"rays-{arm.split()[-1]}-"
        command = volume_arms.rays(
            volume_arms.spec(source),
            CT_TRANSFER,
            [*volumes.views(self.volume.dims, turned=TURNED), *self.views],
            self.size,
            memory_limit=common.PLENTY,
            rounds=1,
            first=True,
            alone=arm == ALONE,
            pictures=str(prefix),
        )
        found = arms.run(command, takes_bytes=4 * self.volume.bytes, timeout_s=1800).json()
        count = len(self.views)
        self._record(arm, found["rounds"][count:], ("samples",))
        self.digests.add(volume_arms.digest(prefix, count, first=count))
        return prefix

    def peer(self, arm: str) -> bool:
        """The same by VTK, without its first frame. Returns whether it ran."""
        command = arms.vtk_volumes(
            "rays",
            file=str(self.volume.files[0]),
            dims=self.volume.dims,
            mapper=MAPPERS[arm],
            dt=1.0,
            size=self.size,
            **volume_arms.peer_looks(CT_TRANSFER, self.views),
        )
        done = arms.run(command, takes_bytes=4 * self.volume.bytes, timeout_s=1800)
        if not ran(self.recorder, arm, done):
            return False
        found = done.json()
        self.recorder.version("VTK", found["version"])
        if arm == GPU:
            self.recorder.version("OpenGL", found["driver"])
        self._record(arm, found["frames"])
        return True

    def _record(self, arm: str, rows: list[dict[str, Any]], more: tuple[str, ...] = ()) -> None:
        of = self.rows.setdefault(arm, {view.name: [] for view in self.views})
        for view, row in zip(self.views, rows, strict=True):
            of[view.name].append(row["cpu_s"])
        cpu, wall, *rest = (sum(row[key] for row in rows) / len(rows) for key in ("cpu_s", "wall_s", *more))
        said = dict(zip(more, rest, strict=True))
        self.recorder.run(f"{self.title}: {arm}", settings=None, frame_cpu_s=cpu, frame_wall_s=wall, **said)

    def judge(self, prefix: Path) -> None:
        """Claims on the difference from exact pictures and on processor time, and a table by view."""
        step = 8 if self.size[0] * self.size[1] < 500_000 else 16
        pixels = volume_reference.every(self.size, step)
        shown, mapped = volume_reference.Shown(CT_TRANSFER), self.volume.mapped()
        far = 0
        for n, view in enumerate(self.views):
            light = volume_reference.picture(mapped, shown, view, self.size, pixels)
            picture = volume_arms.picture(prefix, len(self.views) + n, self.size)
            far = max(far, volume_reference.largest_difference(picture, light, pixels))
        claim = self.recorder.claim
        claim(
            f"{self.title}: largest difference from exact pictures, every {step}th pixel each way",
            far,
            "<=",
            NEAR,
            unit="255ths",
            right=True,
        )
        claim(f"{self.title}: pictures that differ between pages", len(self.digests) - 1, "==", 0, right=True)
        for peer in MAPPERS:
            for arm in OURS if peer in self.rows else ():
                theirs, ours = (self.recorder.median(f"{self.title}: {a}", "frame_cpu_s") for a in (peer, arm))
                claim(f"{self.title}, CPU time a frame: {peer} over {arm}", theirs / ours, ">=", ASKED, unit="times")
        columns = (*OURS, ALONE, *MAPPERS)
        table: list[list[str | float | int]] = []
        for view in self.views:
            row: list[str | float | int] = [view.name]
            for arm in columns:
                row.append(float(np.median(self.rows[arm][view.name])) if arm in self.rows else "")
            table.append(row)
        self.recorder.table(f"CPU seconds a frame, {self.title}", ["view", *columns], table)


@experiment("volume-rays", "Rays through a volume in core: CPU time a frame beside VTK")
def measure(recorder: Recorder) -> None:
    """A volume of 1024 x 1024 x 1024 bytes, a trunk as of a CT scanner with noise. It has one transfer function without
    shading, a sample every voxel's length, and five views. All is in memory. Farfield has every page, and has drawn the
    same five turned by ten degrees, as when a user turns a volume. So the data that pictures share are present; the arm
    without them, "nothing kept", has no claim. VTK's first frame, which builds its tables, does not count. All use all
    cores. The figure is the processor time of a frame, the mean over the views, by arms in turns. VTK's ray-caster is
    vtkFixedPointVolumeRayCastMapper; its OpenGL one is drawn by Mesa's software driver. Exact pictures are computed
    slowly in double precision (farfield_bench.volume_reference), for a raster of the pixels. Farfield's pages are cubes
    of 32 or 64 voxels of a plain Zarr store, or the boxes of a raw file paged in place.
    """
    quick = recorder.quick
    dims = (96, 96, 96) if quick else (1024, 1024, 1024)
    sizes: dict[Size, int] = (
        {(96, 57): 1} if quick else {volume_arms.WINDOW: recorder.runs, (1024, 1024): min(recorder.runs, 3)}
    )
    volume = volumes.ct(recorder.work, dims)
    views = volumes.views(dims)
    stores = {arm: volume_arms.store(recorder, volume, page=page) for arm, page in OURS.items()}
    peers = [FIXED, GPU] if recorder.condition("VTK", arms.has_vtk()) else []
    for size, runs in sizes.items():
        of = _Pictures(recorder, volume, size, views)
        prefix = Path()
        for turn in range(runs):
            for arm, path in stores.items():
                prefix = of.ours(arm, path)
            of.ours(ALONE, stores[next(iter(OURS))])
            # Once only, since Mesa's driver is slow.
            peers = [arm for arm in peers if (arm == GPU and turn > 0) or of.peer(arm)]
            if turn == 0 and size == next(iter(sizes)):
                of.ours(IN_PLACE, volume.header)
        of.judge(prefix)
    recorder.note(f"The bound is {ASKED:g} times, the aim {AIM:g}.")
