"""Streamlines and rays of data at a server, beside the local disk and beside a run that waits for each page."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data, network, rights, volume_arms, volumes
from farfield_bench.common import MIB
from farfield_bench.network import Line, Network, Served
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder
from farfield_bench.volumes import CT_TRANSFER

LINE = Line("5 ms", 5)
OVER_LOCAL, OVER_LOCAL_GOAL = 1.3, 1.1
"""Most time over that of the local disk; 2001: 0.97 to 1.05."""
OF_SERIAL, OF_SERIAL_GOAL = 0.3, 0.1
"""Most time as a share of that of a run that waits for each page."""
LOCAL, NEAR = "local disk, cold", "server on loopback, cold"
FAR, FAR_WEB, SERIAL = "server at 5 ms", "http at 5 ms", "server at 5 ms, one line at a time"
LINES, RAYS = "streamlines", "rays"


@dataclass
class _Case:
    """The work, and what it printed."""

    recorder: Recorder
    store: Path
    volume: Path
    trace: dict[str, Any]
    size: volume_arms.Size
    view: volumes.View
    digests: dict[str, set[str]] = field(default_factory=dict)

    def lines(self, arm: str, end: Network | None, served: Served | None, *, cold: bool, one: bool = False) -> None:
        """The streamlines, with the dataset open and no page in memory."""
        command = arms.inside(
            arm="paged",
            source=_at(self.store, served),
            traces=[self.trace],
            memory_limit=common.PLENTY,
            readers=1 if one else 32,
            active=1 if one else 0,
        )
        found = self._run(command, end, served, [self.store] if cold else [])
        row = found["runs"][0]
        self._record(LINES, arm, row, row["digest"])

    def rays(self, arm: str, end: Network | None, served: Served | None, *, cold: bool) -> None:
        """One picture of the volume, with no page in memory."""
        prefix = self.recorder.work / "remote-rays-"
        spec = json.dumps(volume_arms.spec(self.volume.resolve()))
        spec = spec.replace(str(self.volume.resolve()), _at(self.volume, served))
        command = volume_arms.rays(
            json.loads(spec),
            CT_TRANSFER,
            [self.view],
            self.size,
            memory_limit=common.PLENTY,
            pictures=str(prefix.resolve()),
        )
        row = self._run(command, end, served, [self.volume] if cold else [])["rounds"][0]
        digest = hashlib.sha256(Path(f"{prefix}0.rgb").read_bytes()).hexdigest()
        self._record(RAYS, arm, row, digest)

    def _run(self, command: list[str], end: Network | None, served: Served | None, cold: list[Path]) -> dict[str, Any]:
        if end is not None and served is not None:
            command = end.at_client(command, served.environment)
        if not cold:
            arms.warm([self.store, self.volume])
        return arms.run(command, cold=cold, takes_bytes=1024 * MIB, timeout_s=300).json()

    def _record(self, work: str, arm: str, row: dict[str, Any], digest: str) -> None:
        self.digests.setdefault(work, set()).add(digest)
        known = {key: float(row[of]) for key, of in (("reads", "reads"), ("read_bytes", "bytes_read")) if of in row}
        self.recorder.run(f"{work}: {arm}", settings=None, wall_s=row["wall_s"], cpu_s=row["cpu_s"], **known)


@experiment(
    "remote-runs", "Streamlines and rays of data at a server: beside the local disk, and beside waiting for each page"
)
def measure(recorder: Recorder) -> None:
    """The paper of 2001 again, with a real page server. Streamlines: 1,500 random seeds in the flow of 256 x 256 x 128
    points (0.3 GB), lines of at most a quarter unit. Rays: one picture of a trunk of 512 x 512 x 512 bytes in a sharded
    Zarr store with pages of 32 voxels. Times are of the work, with the dataset open and no page in memory; no disk
    cache. Cold: the files are evicted, at the server, too. Client and server share the cores of one machine: on a
    loopback device (farfield:// without TLS), or over a line of 5 ms (farfield:// over TLS, the files in the server's
    memory). Serial at 5 ms: one line at a time, which waits for each page that it needs; pages that are prefetched for
    it still come at the same time. Rays have no such arm: the table has what as many reads take one after the other.
    Results of all arms are compared.
    """
    quick = recorder.quick
    network.note_load(recorder)
    common.cache(recorder)
    rights.eviction(recorder.work).record(recorder)
    spaces, web = network.namespaces().record(recorder), network.web_server().record(recorder)
    flow = data.single(recorder.work, common.SMALL if quick else (256, 256, 128))
    store = common.store(recorder, flow).resolve()
    dims = (128,) * 3 if quick else (512,) * 3
    volume = volumes.ct(recorder.work, (dims[0], dims[1], dims[2]))
    zarr = volume_arms.store(recorder, volume).resolve()
    spec = {"seeds": f"random:{60 if quick else 1500}:1", "max_length": 0.25, "max_steps": 10_000}
    size = (96, 57) if quick else volume_arms.WINDOW
    case = _Case(recorder, store, zarr, spec, size, volumes.views(volume.dims)[1])
    runs = 1 if quick else min(recorder.runs, 3)
    with network.loopback(recorder.work, apart=spaces) as near:
        served = network.page_server(near, store.parent)
        for _ in range(runs):
            for work in (case.lines, case.rays):
                work(LOCAL, None, None, cold=True)
                work(NEAR, near, served, cold=True)
    if spaces:
        with ExitStack() as stack:
            far = stack.enter_context(network.over(LINE, recorder.work))
            served = network.page_server(far, store.parent, tls=True)
            pages = network.nginx(far, store.parent) if web else None
            for turn in range(runs):
                for work in (case.lines, case.rays):
                    work(FAR, far, served, cold=False)
                    if pages is not None:
                        work(FAR_WEB, far, pages, cold=False)
                if turn == 0:
                    # Once, since thousands of waits average out.
                    case.lines(SERIAL, far, served, cold=False, one=True)
            _one(case, far, served)
    _judge(recorder)
    for what, digests in case.digests.items():
        recorder.claim(f"{what}: results that differ between arms", len(digests) - 1, "==", 0, right=True)


def _at(path: Path, served: Served | None) -> str:
    """A path, or its address at a server."""
    return str(path) if served is None else f"{served.url}/{path.name}"


def _one(case: _Case, far: Network, served: Served) -> None:
    """The wait for one page of 32 KiB."""
    shard = next(p for p in sorted(case.volume.rglob("*")) if p.is_file() and p.name != "zarr.json")
    source = f"{served.url}/{shard.relative_to(case.volume.parent)}"
    command = arms.inside(arm="remote_reads", source=source, depth=1, seconds=1.5, warm_up_s=0.3)
    found = arms.run(far.at_client(command, served.environment)).json()
    case.recorder.run("one page at 5 ms", p50_ms=1e3 * found["demand"]["p50_s"])


def _judge(recorder: Recorder) -> None:
    """The bounds, and ratios beside the goals."""
    rows: list[list[str | float | int]] = []
    for work in (LINES, RAYS):
        local, near = (recorder.median(f"{work}: {arm}", "wall_s") for arm in (LOCAL, NEAR))
        recorder.claim(
            f"{work}: server on loopback over the local disk, cold", near / local, "<=", OVER_LOCAL, unit="times"
        )
        rows.append([f"{work}: server on loopback over the local disk", near / local, OVER_LOCAL, OVER_LOCAL_GOAL])
        for arm in (FAR, FAR_WEB):
            name = f"{work}: {arm}"
            if recorder.measured(name, "wall_s"):
                rows.append([f"{name} over the local disk", recorder.median(name, "wall_s") / local, "", ""])
    if recorder.measured(f"{LINES}: {SERIAL}", "wall_s"):
        share = recorder.median(f"{LINES}: {FAR}", "wall_s") / recorder.median(f"{LINES}: {SERIAL}", "wall_s")
        text = f"{LINES} at 5 ms: tasks and pages in flight, share of the serial time"
        recorder.claim(text, share, "<=", OF_SERIAL)
        rows.append([text, share, OF_SERIAL, OF_SERIAL_GOAL])
    if recorder.measured("one page at 5 ms", "p50_ms") and recorder.measured(f"{RAYS}: {FAR}", "reads"):
        wait = recorder.median("one page at 5 ms", "p50_ms") / 1e3
        serial = wait * recorder.median(f"{RAYS}: {FAR}", "reads")
        share = recorder.median(f"{RAYS}: {FAR}", "wall_s") / serial
        rows.append([f"{RAYS} at 5 ms: share of the time of as many reads one after the other", share, "", ""])
    recorder.table("Ratios of wall time", ["", "here", "bar", "goal"], rows)
