"""The first picture of a store of a terabyte at a server, over a line of 50 ms."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import arms, network
from farfield_bench.common import MIB
from farfield_bench.network import Line, Network, Served
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LINE = Line("50 ms", 50)
LIMIT = 64 * MIB
ASKED_S, ASKED_GOAL_S = 2.0, 1.0
SIZE = (1920, 1080)
SIDE, CHUNK, SHARD = 10_000, 32, 256
BALLS, RADIUS = 24, 64
"""Balls of a volume of `SIDE` voxels along each axis, and their radius in its voxels."""


def sparse_pyramid(path: Path, side: int, balls: int, radius: int) -> list[int]:
    """An OME-Zarr image of side^3 bytes with all its levels, zeros but for a few balls, whose chunks alone are written.
    Returns the side of each level.
    """
    import zarr

    sides = [side]
    while sides[-1] > 64:
        sides.append((sides[-1] + 1) // 2)
    done = path / "whole"
    if done.exists():
        return sides
    shutil.rmtree(path, ignore_errors=True)
    centres = np.random.default_rng(1).uniform(2.0 * radius, side - 2.0 * radius, (balls, 3))
    group = zarr.open_group(path, mode="w", zarr_format=3)
    for n, own in enumerate(sides):
        array = group.create_array(
            str(n), shape=(own,) * 3, chunks=(CHUNK,) * 3, shards=(SHARD,) * 3, dtype="u1", fill_value=0
        )
        scale = 2.0**n
        for number, centre in enumerate(centres):
            lo = np.maximum(np.floor((centre - radius) / scale).astype(int), 0)
            hi = np.minimum(np.ceil((centre + radius) / scale).astype(int) + 1, own)
            at = np.ogrid[tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))]
            squares = sum(((x + 0.5) * scale - c) ** 2 for x, c in zip(at, centre, strict=True))
            inside = np.clip(1.0 - np.sqrt(squares) / radius, 0.0, 1.0)
            values = np.where(inside > 0, 80 + 8 * (number % 8) + 100 * inside, 0).astype(np.uint8)
            box = tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))
            array[box] = np.maximum(array[box], values)
    axes: list[Any] = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    datasets: list[Any] = [
        {"path": str(n), "coordinateTransformations": [{"type": "scale", "scale": [2.0**n] * 3}]}
        for n in range(len(sides))
    ]
    image: list[Any] = [{"name": "balls", "axes": axes, "datasets": datasets}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": image}
    done.touch()
    return sides


@experiment("remote-first", "The first picture of a sparse store of a terabyte at a server, over 50 ms")
def measure(recorder: Recorder) -> None:
    """An OME-Zarr image of 10,000 x 10,000 x 10,000 bytes in shards of 256 and chunks of 32 voxels, with all its levels,
    with 24 small balls written. `farfield render` of it, 1920 x 1080, within 64 MiB, without a disk cache, over
    a line of 50 ms without a bound of its rate: farfield:// over TLS, and http (one nginx worker). Times are from the
    start of the process to its end, after the PNG is written. The same of the files here shows what is not the line.
    Requests of the web arm are those of nginx's log.
    """
    quick = recorder.quick
    network.note_load(recorder)
    spaces, web = network.namespaces().record(recorder), network.web_server().record(recorder)
    store = recorder.work / ("sparse-quick.zarr" if quick else "sparse.zarr")
    sides = sparse_pyramid(store, 640 if quick else SIDE, 6 if quick else BALLS, 32 if quick else RADIUS)
    recorder.note(f"Levels of {', '.join(f'{side:,}' for side in sides)} voxels along each axis.")
    size = (96, 54) if quick else SIZE
    runs = 1 if quick else min(recorder.runs, 3)
    digests: set[str] = set()
    for _ in range(runs):
        digests.add(_picture(recorder, "local disk", str(store), size, None, None))
    if not spaces:
        return
    with ExitStack() as stack:
        far = stack.enter_context(network.over(LINE, recorder.work))
        served = {"farfield://, TLS": network.page_server(far, store.parent, tls=True)}
        if web:
            served["http"] = network.nginx(far, store.parent)
        for _ in range(runs):
            for name, place in served.items():
                before = len(network.web_requests(far)) if place.scheme == "http" else 0
                digests.add(_picture(recorder, name, f"{place.url}/{store.name}", size, far, place))
                if place.scheme == "http":
                    recorder.run("http: requests", requests=len(network.web_requests(far)) - before)
        for name in served:
            recorder.claim(
                f"{name}: start to picture over 50 ms", recorder.median(name, "wall_s"), "<=", ASKED_S, unit="s"
            )
    recorder.claim("pictures that differ between arms", len(digests) - 1, "==", 0, right=True)
    rows: list[list[str | float | int]] = [
        [name, recorder.median(name, "wall_s"), ASKED_S, ASKED_GOAL_S] for name in served
    ]
    recorder.table("Seconds from the start to the picture", ["", "here", "bar", "goal"], rows)


def _picture(
    recorder: Recorder, name: str, source: str, size: tuple[int, int], end: Network | None, served: Served | None
) -> str:
    """One picture by a process of its own, and its digest."""
    output = recorder.work / "first.png"
    words = [
        "--size",
        f"{size[0]}x{size[1]}",
        "--memory-limit",
        str(LIMIT),
        "-o",
        str(output),
        "--json",
        "--no-progress",
        "-q",
    ]
    command = arms.farfield("render", source, *words)
    environment = {"FARFIELD_NETWORK_CACHE": "0", "FARFIELD_CACHE_DIR": str(recorder.work / "remote-first-cache")}
    shutil.rmtree(environment["FARFIELD_CACHE_DIR"], ignore_errors=True)
    if end is not None and served is not None:
        command = end.at_client(command, environment | served.environment)
    else:
        command = ["env", *(f"{key}={value}" for key, value in environment.items()), *command]
    run = arms.run(command, takes_bytes=512 * MIB, timeout_s=120)
    found = run.json()
    recorder.run(
        name,
        wall_s=run.wall_s,
        cpu_s=run.cpu_s,
        wait_s=found["wait_s"],
        read_bytes=found["bytes_read"],
        pages_read=found["pages"]["faults"],
    )
    return hashlib.sha256(output.read_bytes()).hexdigest()
