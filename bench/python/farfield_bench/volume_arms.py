"""Shared parts of experiments with volumes: volumes and views for native arms, and their output about frames."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.runtime.page_cache import evict
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read
from farfield_bench import arms
from farfield_bench.result import Recorder
from farfield_bench.volumes import Transfer, View, Volume

Size = tuple[int, int]
WINDOW: Size = (768, 456)
"""Pixels of the window of the Visible Human's ray-caster (2003)."""


def spec(path: Path, **options: Any) -> dict[str, Any]:
    """Reader's description of a volume, with options of volumes.

    Raises:
        DataError: if it is damaged.
    """
    return read(str(path), Options(**options), ReaderResources(path.parent)).spec


def channel(of: dict[str, Any], number: int) -> dict[str, Any]:
    """A volume of colours with each number as a channel; `number` comes first, since the arms show the first one."""
    found = {**of, "kind": "channels", "channels": [{"name": f"channel{n}", "units": "1"} for n in range(3)]}
    order = [number, *(n for n in range(3) if n != number)]
    levels = []
    for level in of["levels"]:
        channels = [order.index(n) for n in range(3)]
        levels.append({**level, "arrays": [{**a, "channels": channels} for a in level["arrays"]]})
    return {**found, "levels": levels}


def cameras(views: Sequence[View]) -> list[dict[str, Any]]:
    """Views for native arms."""
    return [
        {
            "position": view.position,
            "target": view.target,
            "up": view.up,
            "lens": {"kind": "perspective", "fov_degrees": view.fov_degrees},
        }
        for view in views
    ]


def looks(transfer: Transfer) -> dict[str, Any]:
    """A transfer function for native arms."""
    return {"opacities": transfer.opacities, "colours": transfer.colours}


def peer_looks(transfer: Transfer, views: Sequence[View]) -> dict[str, Any]:
    """A transfer function and views for the arms of VTK."""
    shown = [
        {"name": v.name, "position": v.position, "target": v.target, "up": v.up, "fov_degrees": v.fov_degrees}
        for v in views
    ]
    return {"opacities": transfer.opacities, "colours": transfer.colours, "views": shown}


def rays(of: dict[str, Any], transfer: Transfer, views: Sequence[View], size: Size, **options: Any) -> list[str]:
    """A command that casts rays and prints the cost of each picture."""
    return arms.inside(
        arm="volume_rays", spec=of, cameras=cameras(views), size=list(size), **looks(transfer), **options
    )


def contour(of: dict[str, Any], value: float, **options: Any) -> list[str]:
    """A command that extracts an isosurface, frees its pieces, and prints the cost of each round."""
    return arms.inside(arm="volume_contour", spec=of, value=value, **options)


def picture(prefix: Path, number: int, size: Size) -> NDArray[np.uint8]:
    """A picture [row, column, rgb] that `rays` wrote with the option `pictures`."""
    data = np.fromfile(f"{prefix}{number}.rgb", np.uint8)
    return data.reshape(size[1], size[0], 3)


def digest(prefix: Path, count: int, *, first: int = 0) -> str:
    """SHA-256 of so many pictures from the first on."""
    parts = (Path(f"{prefix}{first + n}.rgb").read_bytes() for n in range(count))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def store(recorder: Recorder, volume: Volume, *, page: int = 32) -> Path:
    """A plain Zarr store of a volume, uncompressed, with cubic pages in shards, made once.

    Raises:
        DataError: if it cannot be written.
    """
    import zarr

    path = recorder.work / f"{volume.header.stem}-plain-p{page}.zarr"
    if path.exists():
        return path
    part = path.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    edge = page * max(1, 256 // page)
    steps, mapped = len(volume.files), volume.mapped()
    colours = mapped.shape[3:]
    shape, one = ((steps, *mapped.shape), (1,)) if steps > 1 else (mapped.shape, ())
    names = [*("t" for _ in one), "z", "y", "x", *("c" for _ in colours)]
    try:
        array = zarr.create_array(
            part,
            shape=shape,
            dtype="uint8",
            chunks=(*one, *(page,) * 3, *colours),
            shards=(*one, *(edge,) * 3, *colours),
            compressors=None,
            filters=None,
            dimension_names=names,
        )
        for step in range(steps):
            data = volume.mapped(step)
            for k in range(0, mapped.shape[0], edge):
                for j in range(0, mapped.shape[1], edge):
                    box = (slice(k, k + edge), slice(j, j + edge))
                    array[(step, *box) if one else box] = data[box]
        part.rename(path)
    except OSError as error:
        raise DataError(f"{path}: cannot write the store: {error.strerror}") from error
    return path


def converted(recorder: Recorder, volume: Volume) -> Path:
    """A volume in Farfield's store, with its pyramid and the ranges of its pages, made once.

    Raises:
        DataError: if it cannot be made.
    """
    path = recorder.work / f"{volume.header.stem}.zarr"
    if path.exists() and arms.run(arms.farfield("info", path, "--json")).code == 0:
        return path
    shutil.rmtree(path, ignore_errors=True)
    words = ["convert", str(volume.header), str(path), "--memory-limit", "512MiB", "--json", "--no-progress", "-q"]
    arms.run(arms.farfield(*words), timeout_s=3600).json()
    return path


@dataclass(frozen=True)
class Fio:
    """Figures of a read by `fio`."""

    wall_s: float
    cpu_s: float
    bytes: float


def fio(path: Path, page_bytes: int, most_bytes: int) -> Fio | None:
    """Reads so many bytes by `fio` from the evicted files of a store, in blocks of a page at random places, 64 in
    flight. None if it is not installed.

    Raises:
        DataError: if it fails.
    """
    program = shutil.which("fio")
    if program is None:
        return None
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.stat().st_size > page_bytes]
    block = max(1, round(page_bytes / 4096)) * 4096
    blocks = max(1, most_bytes // block)
    command = [
        program,
        "--name=pages",
        f"--filename={':'.join(map(str, files))}",
        "--rw=randread",
        f"--bs={block}",
        "--ioengine=io_uring",
        "--iodepth=64",
        "--direct=1",
        "--randseed=1",
        f"--number_ios={blocks}",
        f"--io_size={blocks * block}",
        "--output-format=json",
    ]
    said = arms.run(command, cold=[path], takes_bytes=64 << 20)
    if said.code != 0 or "{" not in said.stdout:
        raise DataError(f"fio failed: {' '.join((said.stdout + said.stderr).split())[:300]}")
    job = json.loads(said.stdout[said.stdout.index("{") :])["jobs"][0]
    wall = max(float(job["read"]["runtime"]) / 1000, 1e-3)
    return Fio(wall, wall * (job["usr_cpu"] + job["sys_cpu"]) / 100, float(job["read"]["io_bytes"]))


def reading_takes(path: Path, page_bytes: int, most_bytes: int) -> float | None:
    """Processor seconds for reading a byte by `fio` on a machine with all cores busy. They are those of the system, of
    `fio`, and of a virtual machine's host (stolen time). None if `fio` is not installed, or if the result is negative:
    less time with the reading than without shows other load, not free reading.

    Raises:
        DataError: if it fails.
    """
    busy: list[subprocess.Popen[bytes]] = []
    try:
        busy.extend(subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1))
        time.sleep(0.2)
        evict(sorted(file for file in path.rglob("*") if file.is_file()))
        # Eviction takes time as well, which must not count; neither must time taken without reading.
        alone = _beside_users(), time.monotonic()
        time.sleep(1.0)
        before = _beside_users(), time.monotonic()
        found = fio(path, page_bytes, most_bytes)
        after = _beside_users(), time.monotonic()
    finally:
        for child in busy:
            child.kill()
            child.wait()
    if found is None or alone[0] is None or before[0] is None or after[0] is None:
        return None
    anyway = (before[0] - alone[0]) / (before[1] - alone[1]) * (after[1] - before[1])
    beside = after[0] - before[0] - anyway
    return (beside + found.cpu_s) / found.bytes if beside >= 0 else None


def _beside_users() -> float | None:
    """Seconds of all processors so far in interrupts and taken by the host."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return sum(int(words[n]) for n in (6, 7, 8)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
