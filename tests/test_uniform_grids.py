"""Grids whose points lie at equal steps: noted when a store is made and when boxes are, shown by `info`, checked by `validate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plot3d_files import Block, source_of, write
from running import Command, Json

DIMS = (40, 23, 17)
ORIGIN = (0.1, -2.0, 5.0)
SPACING = (0.1, 0.25, -0.3)


def straight(real: int) -> Block:
    """Points at `ORIGIN` and on by `SPACING`, rounded to what the file holds."""
    lines = [o + np.arange(n) * s for o, s, n in zip(ORIGIN, SPACING, DIMS, strict=True)]
    z, y, x = np.meshgrid(lines[2], lines[1], lines[0], indexing="ij")
    one = np.ones_like(x)
    xyz = [c.astype(f"f{real}").astype("f8") for c in (x, y, z)]
    return Block(xyz, [one, 0.3 * one, 0 * one, 0 * one, 2 * one])


@pytest.mark.parametrize("real", [4, 8])
def test_noted_in_the_store_and_in_place(real: int, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    source = source_of(*write(tmp_path, [straight(real)], real=real))
    ff("convert", source, tmp_path / "s.zarr", "--page", "8")
    found = ff_json("info", tmp_path / "s.zarr")["zones"][0]["uniform"]
    assert np.allclose(found["origin"], ORIGIN, rtol=1e-7) and np.allclose(found["spacing"], SPACING, rtol=1e-7)
    stored = straight(real).xyz
    for axis, line in enumerate((stored[0][0, 0, :], stored[1][0, :, 0], stored[2][:, 0, 0])):
        computed = found["origin"][axis] + np.arange(DIMS[axis]) * found["spacing"][axis]
        assert np.array_equal(computed.astype(f"f{real}").astype("f8"), line)
    assert "uniform: from (0.1, -2, 5) by (0.1, 0.25, -0.3)" in ff("info", tmp_path / "s.zarr").stdout
    assert "holds" in ff("validate", tmp_path / "s.zarr").stdout
    # Files that stay where they are are looked through when something needs the boxes of the grid.
    assert ff_json("info", source)["zones"][0]["uniform"] is None
    ff("probe", source, 0.5, -1.0, 4.0)
    assert ff_json("info", source)["zones"][0]["uniform"] == found


def test_a_point_that_is_off_is_enough(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    block = straight(4)
    block.xyz[1][9, 20, 30] = np.nextafter(np.float32(block.xyz[1][9, 20, 30]), np.float32(10))
    ff("convert", source_of(*write(tmp_path, [block], real=4)), tmp_path / "s.zarr")
    assert ff_json("info", tmp_path / "s.zarr")["zones"][0]["uniform"] is None
    assert "uniform:" not in ff("info", tmp_path / "s.zarr").stdout
