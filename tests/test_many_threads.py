"""Many threads within little memory: there are as many as it has room for, and what they take is within it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farfield_bench import series
from running import Command, Json

MIB = 1 << 20


@pytest.fixture(scope="module")
def flow(ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    ff("convert", series.make(folder, (65, 65, 65), 1).source, folder / "s.zarr")
    return folder / "s.zarr"


@pytest.fixture(scope="module")
def ball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """128^3 bytes: haze that is densest in the middle."""
    folder = tmp_path_factory.mktemp("ball")
    at = np.linspace(-1, 1, 128)
    k, j, i = np.meshgrid(at, at, at, indexing="ij")
    values = (255 * np.clip(1.2 - np.sqrt(k * k + j * j + i * i), 0, 1)).astype(np.uint8)
    values.tofile(folder / "ball.raw")
    (folder / "ball.nhdr").write_text(
        "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 128 128 128\nencoding: raw\ndata file: ball.raw\n"
    )
    return folder / "ball.nhdr"


def _within(found: dict[str, int], limit: int) -> bool:
    return found["resident_peak_bytes"] <= found["base_bytes"] + limit * MIB


@pytest.mark.parametrize("limit", [8, 16])
def test_cores_by_many_threads_stay_within_a_limit(flow: Path, limit: int, tmp_path: Path, process_json: Json) -> None:
    """Of a flow of six zones 32 threads took 3 to 4 MiB more than limit and base, for stacks and the allocator."""
    outs = {}
    for workers in (2, 32):
        outs[workers] = tmp_path / f"{workers}.vtp"
        words = ("extract", "vortex-cores", flow, "--workers", workers, "--memory-limit", f"{limit}MiB")
        found = process_json(*words, "-o", outs[workers])
        assert _within(found, limit)
        assert found["workers"] == min(workers, limit // 2)
    assert outs[2].read_bytes() == outs[32].read_bytes()


def test_a_volume_by_many_threads_stays_within_a_limit(ball: Path, tmp_path: Path, process_json: Json) -> None:
    """Where each of eight threads had room for no brick, every sample was looked up in the pages by itself."""
    outs, hits = {}, {}
    for workers in (1, 32):
        outs[workers] = tmp_path / f"{workers}.png"
        words = ("render", ball, "--size", "400x300", "--workers", workers, "--memory-limit", "10MiB")
        found = process_json(*words, "-o", outs[workers])
        assert _within(found, 10)
        hits[workers] = found["pages"]["hits"]
    assert outs[1].read_bytes() == outs[32].read_bytes()
    assert hits[32] < 2 * hits[1]
