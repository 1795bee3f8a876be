"""Pictures of a volume without levels, of which little fits, read little more than the pages that rays come to."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from running import farfield

SHAPE = (192, 448, 512)
MOST = 3.0


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Smooth numbers in rows of 512 bytes, all of which are seen a little."""
    folder = tmp_path_factory.mktemp("rows")
    axes = [np.sin(np.arange(n) * (8 + k) / n) for k, n in enumerate(SHAPE)]
    values = 128 + 40 * (axes[0][:, None, None] + axes[1][:, None] + axes[2])
    values.astype("u1").tofile(folder / "waves.raw")
    sizes = " ".join(map(str, SHAPE[::-1]))
    (folder / "waves.nhdr").write_text(
        f"NRRD0004\ntype: uint8\ndimension: 3\nsizes: {sizes}\nencoding: raw\ndata file: waves.raw\n"
    )
    return folder / "waves.nhdr"


@pytest.mark.parametrize("projection", ["composite", "maximum"])
@pytest.mark.parametrize("direction", [[-0.4, -0.8, 0.4], [-0.3, 0.2, -0.9], [-0.9, 0.3, 0.3]])
def test_within_a_quarter_of_its_bytes(raw: Path, projection: str, direction: list[float], tmp_path: Path) -> None:
    shown = {"kind": "volume", "projection": projection, "opacity": [[0, 0.01], [255, 0.02]]}
    scene = {"source": str(raw), "camera": {"direction": direction}, "objects": [{"kind": "outline"}, shown]}
    (tmp_path / "scene.json").write_text(json.dumps(scene), encoding="utf-8")
    done = farfield(
        "render",
        tmp_path / "scene.json",
        "--size",
        "320x180",
        "--memory-limit",
        "10MB",
        "--workers",
        "2",
        "--json",
        "-o",
        tmp_path / "p.png",
    )
    found = json.loads(done.stdout)
    page = json.loads(farfield("info", raw, "--json").stdout)["levels"][0]["page"]
    touched = min(found["pages"]["touched"] * math.prod(page), math.prod(SHAPE))
    assert touched > math.prod(SHAPE) / 2
    assert found["bytes_read"] <= MOST * touched


@pytest.mark.parametrize("limit", ["6MB", "8MB", "16MB"])
def test_rows_of_many_pages_need_no_more_memory(limit: str, tmp_path: Path) -> None:
    """Twenty pages lie side by side in each row, and sixteen of them are read together where there is room."""
    shape = (24, 40, 20_000)
    values = 120 + 90 * np.sin(np.arange(shape[2]) / 900) + np.arange(shape[1])[:, None]
    np.broadcast_to(values.astype("u1"), shape).tofile(tmp_path / "long.raw")
    (tmp_path / "long.nhdr").write_text(
        "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 20000 40 24\nspacings: 1 400 400\nencoding: raw\ndata file: long.raw\n"
    )
    found = json.loads(
        farfield(
            "render", tmp_path / "long.nhdr", "--size", "160x90", "--memory-limit", limit, "--json", "-o", tmp_path / "p.png"
        ).stdout
    )  # fmt: skip
    assert found["pages"]["failed"] == 0 and found["pixels_missing"] == 0
