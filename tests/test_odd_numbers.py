"""What is said of data whose numbers are none, or infinite, or blanked out, or mean nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import farfield as ff
from plot3d_files import Block, box, source_of, write
from running import Json


def test_probe_says_what_is_no_number(tmp_path: Path, ff_json: Json, ff: Any) -> None:
    block = box(9, 8, 7)
    for c in block.xyz:
        c[2, 3, 4] = np.nan
    block.xyz[1][2, 3, 5] = -np.inf
    block.q[0][2, 3, 4] = np.inf
    block.q[0][2, 3, 5] = np.nan
    source = source_of(*write(tmp_path, [block]))
    place = ("probe", source, "--fields", "density,momentum", "--ijk", "zone1")

    said = ff(*place, 5, 4, 3).stdout
    assert "position  nan nan nan [" in said and "\ndensity   inf [" in said, said
    # JSON has no such numbers: null where there is none, a word for what is infinite.
    found = ff_json(*place, 5, 4, 3)
    assert found["position"] == [None] * 3 and found["values"]["density"] == "inf"
    found = ff_json(*place, 6, 4, 3)
    assert found["position"][1] == "-inf" and found["values"]["density"] is None
    assert found["position"][0] == block.xyz[0][2, 3, 5] and len(found["values"]["momentum"]) == 3


def test_probed_numbers_are_numbers(tmp_path: Path) -> None:
    block = box(9, 8, 7)
    block.xyz[2][2, 3, 4] = np.nan
    block.q[0][2, 3, 4] = np.inf
    block.q[2][2, 3, 4] = np.nan
    grid, solution = write(tmp_path, [block])
    with ff.open(grid, q=solution) as ds:
        p = ds.probe_ijk("zone1", (5, 4, 3), fields=["density", "momentum"])
    assert p is not None and math.isnan(p.position[2]) and p.position[0] == block.xyz[0][2, 3, 4]
    assert p.values["density"] == math.inf
    assert [math.isnan(v) for v in p.values["momentum"]] == [False, True, False]


def test_ranges_say_whether_blanked_points_count(tmp_path: Path, ff_json: Json, ff: Any) -> None:
    block = box(9, 8, 7)
    block.iblank = np.ones((7, 8, 9), "i4")
    block.iblank[2:4, 3:5, 3:6] = 0
    block.q[0][2:4, 3:5, 3:6] = 1e6
    source, store = source_of(*write(tmp_path, [block])), tmp_path / "s.zarr"
    ff("convert", source, store)

    def density(*words: object) -> tuple[list[float], bool]:
        info = ff_json("info", *words)
        return next(f["range"] for f in info["fields"] if f["name"] == "density"), info["ranges_with_blanked"]

    assert density(source) == (None, None)
    assert density(source, "--ranges") == density(store, "--ranges") == ([1.2, 1.2], False)
    assert density(store) == ([1.2, 1e6], True)
    assert "blanked ones included" in ff("info", store).stdout
    assert "blanked" not in ff("info", store, "--ranges").stdout


def test_ranges_are_of_all_steps(tmp_path: Path, ff_json: Json, ff: Any) -> None:
    block = box(9, 8, 7)
    rest = [0 * q if 1 <= n <= 3 else q for n, q in enumerate(block.q)]
    for step, factor in enumerate((1.0, 5.0, 3.0)):
        # At rest at first: that makes no wall of a face that moves later, but of the one at k = 1.
        q = [c * factor for c in (block.q if step else rest)]
        for c in q[1:4]:
            c[0] = 0
        write(tmp_path, [Block(block.xyz, q)], stem=f"s{step}")
    source, store = source_of(tmp_path / "s0.xyz", tmp_path / "s*.q"), tmp_path / "s.zarr"
    ff("convert", source, store)
    for words in ((source, "--ranges"), (store, "--ranges"), (store,)):
        info = ff_json("info", *words)
        ranges = {f["name"]: f["range"] for f in info["fields"]}
        assert np.allclose(ranges["density"], [1.2, 6.0]), (words, ranges)
        assert info["ranges_steps"] == 3 and info["ranges_with_blanked"] is False
        if "--ranges" in words:
            assert np.allclose(ranges["velocity_z"], [0, 0.1])
            assert info["walls"] == [{"zone": "zone1", "axis": "k", "index": 1}]
        assert "\nranges " not in ff("info", *words).stdout


def test_a_grid_that_moves_is_surveyed_at_all_steps(tmp_path: Path, ff_json: Json) -> None:
    k, j, i = np.meshgrid(np.arange(5.0), np.arange(6.0), np.arange(7.0), indexing="ij")
    for step, xyz in enumerate(([i, j, k], [i + 10, j + 0.1 * k, k])):
        blank = np.full((5, 6, 7), 1 + step, "i4")
        write(tmp_path, [Block(xyz, box(7, 6, 5).q, blank)], stem=f"s{step}")
    listed = tmp_path / "m.p3d"
    steps = ",".join(f'{{"time": {n}, "xyz": "s{n}.xyz"}}' for n in (0, 1))
    listed.write_text(f'{{"filenames": [{steps}]}}')
    zone = ff_json("info", listed, "--ranges")["zones"][0]
    assert zone["box"] == [[0, 0, 0], [16, 5.4, 4]] and zone["kind"] == "curvilinear"
    assert zone["iblank_values"] == {"1": 210, "2": 210}


def test_unknown_iblank_values_are_listed(tmp_path: Path, ff_json: Json, ff: Any) -> None:
    block = box(17, 13, 9)
    block.iblank = np.ones((9, 13, 17), "i4")
    block.iblank.ravel()[:200] = -np.arange(1, 201)
    block.iblank.ravel()[300:1000] = 77
    grid, _ = write(tmp_path, [block])
    zone = ff_json("info", grid, "--ranges")["zones"][0]
    values = zone["iblank_values"]
    assert values["77"] == 700 and values["-1"] == 1 and values["1"] == block.iblank.size - 900
    assert "77" in zone["iblank_unknown"] and "-2" in zone["iblank_unknown"] and "-1" not in zone["iblank_unknown"]
    assert len(zone["iblank_unknown"]) == 64 and zone["iblank_others"] == {"known": 0, "unknown": 199 - 63}
    assert sum(values.values()) + 199 - 63 == block.iblank.size
    said = ff("info", grid, "--ranges").stdout
    assert "iblank also -1: 1\n" in said and "77: 700, and 136 points of others" in said, said
