"""Random pages from a store, beside the device and beside other readers."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield.errors import DataError
from farfield_bench import arms, common, data, readers
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

DEPTH = 16
BATCH = 64
ROUNDS = 6
TAKES = 1 << 30
"""Memory of an arm and the page cache that it fills: twice the pages read, and the rest."""


@dataclass(frozen=True)
class _Case:
    """Pages of one size: an array of a store."""

    kib: int
    store: Path
    array: str
    count: int

    @property
    def options(self) -> dict[str, Any]:
        return {"source": str(self.store), "array": self.array, "count": self.count, "readers": DEPTH, "batch": BATCH}


@experiment("pageread", "Page reads: random pages beside fio, pread and other readers")
def measure(recorder: Recorder) -> None:
    """Random pages of one array of an uncompressed store, shard indexes loaded, 16 reads in flight. Cold: files
    evicted, within 256 MiB, pages requested in batches of an eighth of all. Beside it `fio` with io_uring, at the same
    depth on the same files, reads as many bytes as Farfield reads for a page on average. Direct, as Farfield reads data
    above half of the memory: the blocks of the device that a page spans. Through the page cache, as it reads smaller
    data: the 4 KiB blocks, without reading ahead. Warm: files in the page cache. Beside it `pread` and crc32c on one
    thread. They fill as many buffers as the pager has frames, or one buffer that stays in the processor's cache.
    Batches have 64 pages and the memory limit is a quarter of their bytes, so that every page evicts another. Beside
    them zarr-python, zarr-python with the `zarrs` pipeline, TensorStore in the same batches without a page cache of its
    own, and h5py. h5py reads an HDF5 file of the same chunks with checksums. All read the same pages.
    """
    common.cache(recorder)
    cases = _cases(recorder)
    fio = shutil.which("fio")
    if fio is None:
        recorder.note(
            "Skipped: fio is not installed, so the cold reads stand alone (install it, for example `apt-get install fio`)."
        )
    for case in cases:
        title = f"{case.kib} KiB"
        for _ in range(1 if recorder.quick else min(recorder.runs, 3)):
            about = _cold(recorder, case, title, fio)
            _warm(recorder, case, title)
            _peers(recorder, case, title)
        for how in _COLD if fio is not None else ():
            pages = [recorder.median(f"{title}: {who}, {how}", "pages_a_s") for who in ("Farfield", "fio")]
            share = 100 * pages[0] / pages[1]
            recorder.claim(f"{title}, {how}: Farfield's pages a second as a share of fio's", share, ">=", 85, unit="%")
        ratio = recorder.median(f"{title}: Farfield, warm", "us_a_page") / recorder.median(
            f"{title}: pread + crc32c, warm, kept", "us_a_page"
        )
        recorder.claim(f"{title}, warm: Farfield over pread + crc32c into as many buffers", ratio, "<=", 1.3)
        recorder.note(
            f"{title}: {case.array}, pages of {about['page_bytes']:,} bytes, {about['spanned_bytes']:,.0f} bytes of blocks spanned."
        )
    for file in recorder.work.glob("pageread-*.h5"):
        file.unlink()


def _cases(recorder: Recorder) -> list[_Case]:
    flow = data.single(recorder.work, (192, 192, 96) if recorder.quick else (512, 512, 256))
    count = 400 if recorder.quick else 4000
    made = [(16, flow, 16, "zone1/density")]
    if not recorder.quick:
        small = data.single(recorder.work, (256, 256, 128), precision=64)
        large = data.single(recorder.work, (384, 384, 192))
        made = [
            (4, small, 8, "zone1/density"),
            *made,
            (48, flow, 16, "zone1/momentum"),
            (128, large, 32, "zone1/density"),
        ]
    return [
        _Case(kib, common.store(recorder, flow, page=page, codec="none"), array, count if kib < 128 else count // 4)
        for kib, flow, page, array in made
    ]


def _record(recorder: Recorder, arm: str, wall_s: float, cpu_s: float, pages: int) -> None:
    recorder.run(arm, us_a_page=1e6 * wall_s / pages, cpu_us_a_page=1e6 * cpu_s / pages, pages_a_s=pages / wall_s)


_COLD = {"cold, direct": True, "cold, page cache": False}


def _cold(recorder: Recorder, case: _Case, title: str, fio: str | None) -> dict[str, Any]:
    # Batches large enough that the queue stays full, as fio's does.
    options = {**case.options, "array": case.array.split("/")[-1], "memory_limit": 256 << 20}
    options["batch"] = max(case.count // 8, 1)
    files = [str(p) for p in sorted((case.store / case.array).rglob("c*")) if p.is_file()]
    found: dict[str, Any] = {}
    for how, direct in _COLD.items():
        found = arms.run(
            arms.inside(arm="page_reads", direct=direct, **options), cold=[case.store], takes_bytes=TAKES
        ).json()
        row = found["rounds"][0]
        _record(recorder, f"{title}: Farfield, {how}", row["wall_s"], row["cpu_s"], found["pages"])
        if fio is None:
            continue
        # Whole blocks: of the page cache, or of a device's sectors.
        bytes_a_page, unit = (row["bytes_read"] / found["pages"], 512) if direct else (found["spanned_bytes"], 4096)
        command = [
            fio,
            "--name=pages",
            f"--filename={':'.join(files)}",
            "--rw=randread",
            f"--bs={max(1, round(bytes_a_page / unit)) * unit}",
            "--ioengine=io_uring",
            f"--iodepth={DEPTH}",
            f"--direct={int(direct)}",
            "--invalidate=1",
            "--fadvise_hint=random",
            "--randseed=1",
            f"--number_ios={found['pages']}",
            "--output-format=json",
        ]
        said = arms.run(command, cold=[case.store], takes_bytes=TAKES)
        if said.code != 0 or "{" not in said.stdout:
            raise DataError(f"fio failed: {' '.join((said.stdout + said.stderr).split())[:300]}")
        job = json.loads(said.stdout[said.stdout.index("{") :])["jobs"][0]
        wall = job["read"]["runtime"] / 1000
        if wall > 0:
            cpu = wall * (job["usr_cpu"] + job["sys_cpu"]) / 100
            _record(recorder, f"{title}: fio, {how}", wall, cpu, job["read"]["total_ios"])
    return found


def _warm(recorder: Recorder, case: _Case, title: str) -> None:
    # A quarter of the pages, and no less than three batches.
    pool = max(case.count // 4, 3 * BATCH) * case.kib * 1024
    options = {**case.options, "array": case.array.split("/")[-1], "memory_limit": pool, "rounds": ROUNDS}
    arms.warm([case.store / case.array])
    core = common.one_core()
    for name, buffers in (("Farfield", 0), ("pread + crc32c", max(case.count // 4, 3 * BATCH)), ("pread + crc32c", 1)):
        found = arms.run(arms.inside(arm="page_reads", pread_buffers=buffers, **options), cores=core).json()
        # The first rounds fill the pool.
        best = min(found["rounds"][2:], key=lambda r: r["wall_s"])
        kept = {0: "", 1: ", one buffer"}.get(buffers, ", kept")
        _record(recorder, f"{title}: {name}, warm{kept}", best["wall_s"], best["cpu_s"], found["pages"])


def _peers(recorder: Recorder, case: _Case, title: str) -> None:
    options = {
        "store": str(case.store),
        "array": case.array,
        "count": min(case.count, 1000),
        "seed": 1,
        "rounds": 3,
        "batch": BATCH,
        "depth": DEPTH,
    }
    file = recorder.work / f"pageread-{case.store.stem}-{case.array.replace('/', '-')}.h5"
    readers.hdf5(recorder, file, options)
    for name, (peer, extra) in readers.LIBRARIES.items():
        for state, cold in (("cold", [case.store, file]), ("warm", [])):
            if not cold:
                arms.warm([case.store / case.array, file])
            command = arms.peer(peer, **options, **extra, file=str(file))
            run = arms.run(command, cold=cold, takes_bytes=TAKES, timeout_s=1200)
            if not readers.ran(recorder, name, run):
                break
            found = run.json()
            row = found["rounds"][0] if cold else min(found["rounds"][1:], key=lambda r: r["wall_s"])
            _record(
                recorder,
                f"{title}: {name} {found['version']}, {state}",
                row["wall_s"],
                row["cpu_s"],
                min(case.count, 1000),
            )
