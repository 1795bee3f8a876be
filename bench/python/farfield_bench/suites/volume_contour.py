"""Isosurfaces of a volume, beside VTK's Flying Edges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, rights, volume_arms, volumes
from farfield_bench.common import MIB
from farfield_bench.readers import ran
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

PAGE = 32
FEW, ALL = "few pages crossed", "all pages crossed"
ASKED = {FEW: 4.0, ALL: 2.0}
"""VTK's processor time over Farfield's, in core."""
ASKED_COLD = {FEW: 3.0, ALL: 1.0}
"""VTK's wall time slab by slab over Farfield's, from evicted files."""
TRIANGLES, AREA = 0.01, 0.001
"""Shares by which triangles and area may differ from VTK's."""
EDGES = "VTK, Flying Edges"
SLABS = "VTK, slab by slab"
LIMIT = 128 * MIB
ROOM = 24 * MIB
"""Memory of a cgroup beside limit and base: the kernel's own files and tables."""


@dataclass
class _Surface:
    """A surface and its results."""

    recorder: Recorder
    title: str
    volume: volumes.Volume
    store: Path
    value: float
    peers: bool
    base_bytes: int = 0
    """Base of Farfield's process, before it opens a dataset."""

    def _claims(self, arm: str, ours: dict[str, float], peer: str, theirs: dict[str, float]) -> None:
        for what, share in (("triangles", TRIANGLES), ("area", AREA)):
            away = abs(ours[what] - theirs[what]) / theirs[what]
            text = f"{self.title}: {what} of {arm} away from those of {peer}"
            self.recorder.claim(text, 100 * away, "<=", 100 * share, unit="%", right=True)

    def in_core(self, runs: int) -> None:
        """Runs on one core, with all voxels in memory."""
        core, rounds = common.one_core(), 1 if self.recorder.quick else 2
        options = {"memory_limit": common.PLENTY, "workers": 1, "rounds": rounds + 1}
        spec = volume_arms.spec(self.store)
        ours, theirs = f"{self.title}, in core: Farfield", f"{self.title}, in core: {EDGES}"
        found: dict[str, Any] = {}
        edges: dict[str, Any] = {}
        for turn in range(runs):
            command = volume_arms.contour(spec, self.value, **options, area=turn == 0)
            told = arms.run(command, cores=core, takes_bytes=3 * self.volume.bytes, timeout_s=1800).json()
            found = found or {**told, "triangles": told["rounds"][-1]["triangles"]}
            self.base_bytes = int(told["base_bytes"])
            # The first round brings the pages in.
            self._record(ours, told["rounds"][1:], told)
            if self.peers:
                command = arms.vtk_volumes(
                    "contour",
                    file=str(self.volume.files[0]),
                    dims=self.volume.dims,
                    level=self.value,
                    rounds=rounds,
                )
                done = arms.run(command, cores=core, takes_bytes=6 * self.volume.bytes, timeout_s=1800)
                self.peers = ran(self.recorder, EDGES, done)
                if self.peers:
                    edges = done.json()
                    self.recorder.version("VTK", edges["version"])
                    self._record(theirs, edges["rounds"], edges)
        if edges:
            self._claims("Farfield in core", found, EDGES, edges)
            times = self.recorder.median(theirs, "cpu_s") / self.recorder.median(ours, "cpu_s")
            text = f"{self.title}, in core, CPU time: {EDGES} over Farfield"
            self.recorder.claim(text, times, ">=", ASKED[self.title], unit="times")

    def _record(self, arm: str, rows: list[dict[str, Any]], told: dict[str, Any]) -> None:
        for row in rows:
            self.recorder.run(
                arm,
                wall_s=row["wall_s"],
                cpu_s=row["cpu_s"],
                triangles=float(row["triangles"] if "triangles" in row else told["triangles"]),
                peak_bytes=told["resident_peak_bytes"],
            )

    def out_of_core(self, runs: int, limit: int) -> None:
        """From evicted files to triangles that are counted and freed, on all cores, in a cgroup of limit and base."""
        spec = volume_arms.spec(self.store)
        ours, theirs = f"{self.title}, out of core: Farfield", f"{self.title}, out of core: {SLABS}"
        memory = limit + self.base_bytes + ROOM
        slab = 65 * self.volume.dims[0] * self.volume.dims[1]
        triangles: dict[str, float] = {}
        for turn in range(runs):
            command = volume_arms.contour(spec, self.value, memory_limit=limit, touched=turn == 0)
            run = arms.run(command, cold=[self.store], memory_bytes=memory, timeout_s=1800)
            told = run.json()
            row = told["rounds"][0]
            triangles["ours"] = row["triangles"]
            self.recorder.run(
                ours,
                settings={"memory": f"{memory / MIB:.0f} MiB"},
                wall_s=row["wall_s"],
                cpu_s=row["cpu_s"],
                read_bytes=row["bytes_read"],
                peak_bytes=told["resident_peak_bytes"],
            )
            if not self.peers:
                continue
            # The cgroup holds a slab, the slab's surface by Flying Edges, and the process.
            more = 4 * slab + 256 * MIB
            command = arms.vtk_volumes(
                "contour_slabs",
                file=str(self.volume.files[0]),
                dims=self.volume.dims,
                level=self.value,
                read=True,
            )
            done = arms.run(command, cold=self.volume.files, memory_bytes=more, timeout_s=1800)
            if not ran(self.recorder, SLABS, done):
                self.peers = False
                continue
            found = done.json()
            triangles["theirs"] = found["triangles"]
            self.recorder.run(
                theirs,
                settings={"memory": f"{more / MIB:.0f} MiB"},
                wall_s=found["wall_s"],
                cpu_s=found["cpu_s"],
                read_bytes=self.volume.bytes,
                peak_bytes=found["resident_peak_bytes"],
            )
        if "theirs" in triangles:
            away = abs(triangles["ours"] / triangles["theirs"] - 1)
            text = f"{self.title}: triangles of Farfield out of core away from those of {SLABS}"
            self.recorder.claim(text, 100 * away, "<=", 100 * TRIANGLES, unit="%", right=True)
            times = self.recorder.median(theirs, "wall_s") / self.recorder.median(ours, "wall_s")
            text = f"{self.title}, out of core, wall time: {SLABS} over Farfield"
            self.recorder.claim(text, times, ">=", ASKED_COLD[self.title], unit="times")


@experiment("volume-contour", "Isosurfaces of a volume, in core and out of core, beside VTK")
def measure(recorder: Recorder) -> None:
    """Volumes of 1024 x 1024 x 1024 bytes, without normals. The spine of a trunk crosses few of the pages of 32 voxels;
    the bubbles of a foam cross each page. In core, on one core: Farfield has every page from a round before,
    vtkFlyingEdges3D the array in memory. Both count their triangles and free them. Out of core: all cores, data evicted
    from the page cache, times of the work in an open process. Farfield reads its store within 128 MiB, in a cgroup of
    that and its base. VTK, with threads, reads 65 planes of the raw file at a time in a loop and passes them to
    vtkFlyingEdges3D. Its cgroup holds a slab, the slab's surface and VTK itself. Areas are sums over all triangles, on
    either side.
    """
    quick = recorder.quick
    dims = (96, 96, 96) if quick else (1024, 1024, 1024)
    limit = 16 * MIB if quick else LIMIT
    peers = recorder.condition("VTK", arms.has_vtk())
    bounded = rights.memory_cgroup().record(recorder)
    rights.eviction(recorder.work).record(recorder)
    runs = min(recorder.runs, 3)
    rows: list[list[str | float | int]] = []
    for title, volume, value in (
        (FEW, volumes.ct(recorder.work, dims), volumes.CT_SPINE),
        (ALL, volumes.foam(recorder.work, dims), volumes.FOAM_LEVEL),
    ):
        store = volume_arms.converted(recorder, volume)
        surface = _Surface(recorder, title, volume, store, value, peers)
        surface.in_core(1 if quick else min(runs, 2))
        if bounded:
            surface.out_of_core(runs, limit)
        crossed, pages = volumes.pages_crossed(volume, value, PAGE)
        rows.append([title, pages, crossed, 100 * crossed / pages])
    recorder.table("Pages", ["surface", "pages", "crossed", "%"], rows)
    if not bounded:
        recorder.note("Without the arms out of core: they need a memory cgroup.")
