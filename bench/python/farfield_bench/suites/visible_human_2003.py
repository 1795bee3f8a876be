"""A ray-caster of a volume in colours as its memory shrinks."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, common, rights, volume_arms, volumes
from farfield_bench.common import MIB
from farfield_bench.papers import Paper
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.volumes import Transfer, View

SHARES = (100, 90, 76, 49, 35, 21, 14, 7)
"""Memory, percent of the data."""
SPACING = (1 / 3, 1 / 3, 1.0)
"""Millimetres from voxel to voxel."""
SKIN = Transfer(
    opacities=((0.0, 0.0), (44.0, 0.0), (60.0, 0.04), (100.0, 0.3), (255.0, 0.6)),
    colours=((0.0, (0.0, 0.0, 0.0)), (96.0, (0.6, 0.2, 0.15)), (176.0, (0.8, 0.5, 0.4)), (255.0, (1.0, 1.0, 1.0))),
)
"""Transfer function of red: the medium around the frozen body is invisible, the body little more than its surface."""
TOUCHED = (25, 40)
"""Smallest and largest share of the pages that a view touches, percent."""
ASKED = 1.3
"""Bound on the time, over the longer of computing in core and of reading the same bytes."""
TIMES = 10
"""A rival is stopped at this multiple of its time with all of the memory."""
ROOM = 40 * MIB
"""Memory of a cgroup beside limit and base: the picture, and the kernel's own data."""
NEAR = 2
"""Largest difference of pixels of the rivals' loop, in 255ths."""
OURS, MAPPED, LOADED, FIO = "Farfield", "mmap", "load everything, swap", "fio, as many bytes"
MOST_RUNS = 3
"""Most runs of arms other than rivals: all of them once take some ten seconds, and there are eight shares."""


def views(dims: volumes.Dims) -> list[View]:
    """Views around the front of the slab, from about level to obliquely above, so near that its ends are out of sight."""
    size = np.array(dims) * SPACING
    middle = (size - SPACING) / 2

    def view(azimuth: float, elevation: float, away: float) -> View:
        a, e = np.radians(azimuth), np.radians(elevation)
        to = np.array([np.cos(e) * np.sin(a), -np.cos(e) * np.cos(a), np.sin(e)])
        x, y, z = (middle + to * np.linalg.norm(size) * away).tolist()
        target = (float(middle[0]), float(middle[1]), float(middle[2]))
        return View(f"{azimuth:g}", (x, y, z), target, (0.0, 0.0, 1.0))

    return [view(0, 10, 0.64), view(15, 15, 0.62), view(30, 20, 0.56), view(45, 25, 0.54), view(-30, 40, 0.62)]


@dataclass
class _Case:
    """A volume with its views, and the results of its runs."""

    recorder: Recorder
    volume: volumes.Volume
    store: Path
    views: list[View]
    base: int = 0
    digests: set[str] = field(default_factory=set)

    @property
    def size(self) -> volume_arms.Size:
        return (96, 57) if self.recorder.quick else volume_arms.WINDOW

    def _lengths(self) -> list[float]:
        return [SPACING[0], SPACING[0]]

    def ours(
        self, arm: str, limit: int, *, memory: int | None, timeout_s: float, **more: bool
    ) -> dict[str, Any] | None:
        """Casts the views from evicted files within a limit. Returns the arm's output."""
        prefix = self.recorder.work / "body-ours-"
        command = volume_arms.rays(
            self._told(), SKIN, self.views, self.size, memory_limit=limit, lengths=self._lengths(), rounds=1,
            pictures=str(prefix), **more,
        )  # fmt: skip
        takes = None if memory else 2 * self.volume.bytes
        run = arms.run(command, memory_bytes=memory, takes_bytes=takes, cold=[self.store], timeout_s=timeout_s)
        if self._over(arm, run, limit, timeout_s):
            return None
        found = run.json()
        self.digests.add(volume_arms.digest(prefix, len(self.views)))
        return found

    def in_core(self) -> bool:
        """Casts each view once, as with little memory, but with all pages resident. Returns whether it finished."""
        found = self.ours("in core", common.PLENTY, memory=None, first=True, timeout_s=1800)
        if found is None:
            return False
        self.base = int(found["base_bytes"])
        self.tell("in core", [{key: row[key] for key in ("wall_s", "cpu_s")} for row in found["rounds"]], common.PLENTY)
        return True

    def touched(self, view: View) -> int:
        """Pages that a view reads if cast alone."""
        command = volume_arms.rays(
            self._told(),
            SKIN,
            [view],
            self.size,
            memory_limit=common.PLENTY,
            lengths=self._lengths(),
            rounds=1,
            touched=True,
        )
        found = arms.run(command, takes_bytes=2 * self.volume.bytes, timeout_s=1800).json()
        return int(found["rounds"][0]["touched"]["total"]["pages"])

    def _told(self) -> dict[str, Any]:
        told = volume_arms.channel(volume_arms.spec(self.store, kind="rgb"), 0)
        for level in told["levels"]:
            level["spacing"] = list(SPACING)
        return told

    def _over(self, arm: str, run: arms.Run, memory: int, timeout_s: float) -> bool:
        """Whether a run did not finish. Records the reason."""
        settings = {"memory": f"{memory / MIB:.0f} MiB"}
        if run.killed:
            late = run.wall_s >= timeout_s
            text = f"over {TIMES}x" if late else "killed by its memory limit"
            self.recorder.stop(
                arm, "over" if late else "killed", text, after_s=run.wall_s if late else None, settings=settings
            )
            return True
        if run.code != 0 and "too small" in run.stderr:
            self.recorder.stop(arm, "refused", "the limit is too small for it", settings=settings)
            return True
        return False

    def tell(self, arm: str, rows: list[dict[str, Any]], memory: int, **more: float) -> float:
        """Records an arm: sums over the views."""
        wall = sum((float(row["wall_s"]) for row in rows), more.pop("load_s", 0.0))
        reads = {key: sum(row[key] for row in rows) for key in ("bytes_read", "faults") if key in rows[0]}
        self.recorder.run(
            arm,
            settings={"memory": f"{memory / MIB:.0f} MiB"},
            wall_s=wall,
            cpu_s=sum(row["cpu_s"] for row in rows),
            **{"read_bytes" if key == "bytes_read" else key: float(v) for key, v in reads.items()},
            **more,
        )
        return wall

    def whole(self, arm: str, kind: str, memory: int, timeout_s: float) -> bool:
        """Runs a rival: a plain loop over the mapped file, or over the whole file in memory. Returns whether it
        finished.
        """
        prefix = self.recorder.work / "body-whole-"
        command = arms.inside(
            arm=kind, file=str(self.volume.files[0]), dims=self.volume.dims, components=3, spacing=SPACING,
            cameras=volume_arms.cameras(self.views), size=self.size, lengths=self._lengths(), pictures=str(prefix),
            **volume_arms.looks(SKIN),
        )  # fmt: skip
        run = arms.run(
            command, memory_bytes=memory, cold=self.volume.files, timeout_s=timeout_s, swap=kind == "volume_read"
        )
        if self._over(arm, run, memory, timeout_s):
            return False
        found = run.json()
        self.tell(arm, found["rounds"], memory, load_s=found["load_s"])
        return True

    def alike(self) -> None:
        """Claims that both loops draw the same."""
        most = 0
        for n in range(len(self.views)):
            a, b = (
                volume_arms.picture(self.recorder.work / f"body-{who}-", n, self.size).astype(int)
                for who in ("ours", "whole")
            )
            most = max(most, int(np.abs(a - b).max()))
        self.recorder.claim(
            "largest difference of the rivals' pictures from Farfield's", most, "<=", NEAR, unit="255ths", right=True
        )


@experiment("visible-human-2003", "A body in colours, ray-cast as memory shrinks (2003)")
def measure(recorder: Recorder) -> None:
    """The Visible Human on network memory (2003): a volume in colours of 2048 x 1216 x 130 voxels (971 MB), a window of
    768 x 456 pixels. Here are five views one after the other, near each other; each touches 25 to 40 % of the pages.
    Red is shown through a transfer function. All three colours are read, since a page holds them all. Memory is from
    all of the data down to a fourteenth of it. The cgroup has this and a process's own memory, with files evicted.
    Farfield has a plain Zarr store with pages of 32 voxels and a memory limit. Rivals use a plain loop of rays that
    skips nothing. One maps the raw file into memory; one reads it into memory whole, which may go to swap space. They
    are stopped at ten times their time with all of the memory. In core, all pages are read before the first view, which
    does not count. The bound: Farfield takes at most 1.3 times the longer of two times. One is its time in core. The
    other is that in which fio reads as many bytes, in pages of this size at random places of the same files. Both are
    measured beside each share of memory.
    """
    quick = recorder.quick
    dims = (128, 96, 33) if quick else (2048, 1216, 130)
    shares = (100, 49) if quick else SHARES
    volume = volumes.body(recorder.work, dims)
    case = _Case(recorder, volume, volume_arms.store(recorder, volume), views(dims))
    bounded = rights.memory_cgroup().record(recorder)
    rights.eviction(recorder.work).record(recorder)
    if not case.in_core():
        return
    found = case.ours("touched", common.PLENTY, memory=None, touched=True, timeout_s=1800)
    if found is None:
        return
    pages = int(found["pages"])
    rows: list[list[str | float | int]] = []
    frames = []
    for view, row in zip(case.views, found["rounds"], strict=False):
        own = case.touched(view)
        frames.append(100 * own / pages)
        rows.append([view.name, own, frames[-1], row["touched"]["total"]["pages"]])
    titles = ["azimuth", "pages that it touches", "% of all", "pages that it read after those before it"]
    recorder.table("Pages of each view", titles, rows)
    if not quick:
        recorder.claim("least share of the pages that a frame touches", min(frames), ">=", TOUCHED[0], unit="%")
        recorder.claim("largest share of the pages that a frame touches", max(frames), "<=", TOUCHED[1], unit="%")
    brick = int(np.prod(found["page"][0])) * 3
    has_fio = volume_arms.fio(case.store, brick, brick) is not None
    recorder.condition("fio", has_fio, "" if has_fio else "it says how fast pages can be read")
    takes = volume_arms.reading_takes(case.store, brick, volume.bytes // 3)
    if not bounded:
        recorder.note("Nothing else was measured: the other arms need a memory cgroup.")
        recorder.claim("results that differ between memory limits", len(case.digests) - 1, "==", 0, right=True)
        return
    with ExitStack() as stack:
        swaps = stack.enter_context(rights.swap(recorder.work, 2 * volume.bytes)).record(recorder)
        rivals = {MAPPED: "volume_mapped", **({LOADED: "volume_read"} if swaps else {})}
        _shares(case, shares, rivals, brick, takes)
    case.alike()
    recorder.claim("results that differ between memory limits", len(case.digests) - 1, "==", 0, right=True)
    if not quick:
        _beside(recorder)


def _shares(case: _Case, shares: tuple[int, ...], rivals: dict[str, str], brick: int, takes: float | None) -> None:
    recorder = case.recorder
    most = dict.fromkeys(rivals, 1800.0)
    for share in shares:
        limit = case.volume.bytes * share // 100
        if recorder.quick:
            limit += 8 * MIB
        memory = limit + case.base + ROOM
        arm = f"{share} %: {OURS}"
        for _ in range(1 if recorder.quick else min(recorder.runs, MOST_RUNS)):
            # Both are measured beside each other, since the speed of a shared machine changes from minute to minute.
            case.in_core()
            found = case.ours(arm, limit, memory=memory, timeout_s=1800)
            if found is None:
                break
            case.tell(arm, found["rounds"], limit, resident_peak_bytes=float(found["resident_peak_bytes"]))
            read = volume_arms.fio(case.store, brick, sum(row["bytes_read"] for row in found["rounds"]))
            if read is not None:
                recorder.run(f"{share} %: {FIO}", wall_s=read.wall_s, cpu_s=read.cpu_s, read_bytes=read.bytes)
        for name, kind in rivals.items():
            whole = f"{share} %: {name}"
            if case.whole(whole, kind, memory, most[name]) and share == shares[0]:
                most[name] = max(TIMES * recorder.median(whole, "wall_s"), 5.0)
    _against(recorder, shares, takes)


def _against(recorder: Recorder, shares: tuple[int, ...], takes: float | None) -> None:
    """Times against the bound, and against the limits of this machine."""
    core_s, core_cpu_s = (recorder.median("in core", of) for of in ("wall_s", "cpu_s"))
    rows: list[list[str | float | int]] = []
    for share in shares:
        ours, fio = f"{share} %: {OURS}", f"{share} %: {FIO}"
        if not (recorder.measured(ours, "wall_s") and recorder.measured(fio, "wall_s")):
            continue
        wall, read_s, read = (recorder.median(*of) for of in ((ours, "wall_s"), (fio, "wall_s"), (ours, "read_bytes")))
        recorder.claim(
            f"{share} %: Farfield over the longer of in core and of reading", wall / max(core_s, read_s), "<=", ASKED,
            unit="times",
        )  # fmt: skip
        if takes is None:
            continue
        both = (core_cpu_s + read * takes) / (os.cpu_count() or 1)
        least = max(core_s, read_s, both)
        rows.append([share, core_s, read_s, both, wall, wall / max(core_s, read_s), wall / least])
    if takes is None:
        recorder.note("The processor time of reading is unknown.")
        return
    titles = [
        "memory, %", "in core, s", "fio, s", "processors of both, s", "Farfield, s", "over the longer of the first two",
        "over the longest of the three",
    ]  # fmt: skip
    recorder.table("What the machine allows", titles, rows)
    recorder.note(
        f"While all cores are busy, reading 1 GB as fio does takes {takes * 1e9:.2g} s of processor time here, with that "
        "of the machine's host (stolen time). With the processor time in core, over all cores, this gives the time of both."
    )


def _beside(recorder: Recorder) -> None:
    """The paper's ratios: 27.2 s in core, 1388 s with 896 MB of memory and the disk."""
    core = recorder.median("in core", "wall_s")
    paper = Paper("the paper's Visible Human")
    for share, theirs in ((90, 1388 / 27.2),):
        for name in (OURS, MAPPED, LOADED):
            arm = f"{share} %: {name}"
            if recorder.measured(arm, "wall_s"):
                paper.ratio(f"{arm} over in core", recorder.median(arm, "wall_s") / core, theirs)
    paper.record(recorder)
