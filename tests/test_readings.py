"""What files are read as where their bytes allow several readings, and what is said of things that do not go together."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from plot3d_files import Block, box, source_of, write
from running import Json


@pytest.mark.parametrize("point", [(0.0, 0.0, 0.0), (1.0, 2.0, 3.0)])
def test_one_point_is_ambiguous(point: tuple[float, ...], tmp_path: Path, ff: Any) -> None:
    grid = tmp_path / "one.xyz"
    grid.write_bytes(struct.pack("<iii", 1, 1, 1) + struct.pack("<3f", *point))
    said = ff("info", grid, ok=(2,)).stderr
    assert "readings fit this file" in said
    chosen = []
    for line in said.splitlines():
        if "--plot3d-" not in line:
            continue
        options = line[line.index("--plot3d-") :].split()
        chosen.append(ff("info", grid, *options).stdout)
    # Each of the lines leads to a reading of its own.
    assert len(chosen) >= 2 and len(set(chosen)) == len(chosen)


@pytest.mark.parametrize("order", ["whole", "planes"])
def test_the_values_tell_whole_from_planes(order: str, tmp_path: Path, ff_json: Json) -> None:
    block = box(9, 8, 7)
    grid, solution = tmp_path / "flow.xyz", tmp_path / "flow.q"
    numbers = np.stack(block.xyz), np.stack(block.q)
    for path, values in zip((grid, solution), numbers, strict=True):
        head = struct.pack("<iii", *block.dims) + (struct.pack("<4f", 0.5, 2, 1e5, 1) if path == solution else b"")
        # [variable, k, j, i] or [k, variable, j, i].
        body = values if order == "whole" else values.transpose(1, 0, 2, 3)
        path.write_bytes(head + np.ascontiguousarray(body).astype("<f4").tobytes())
    info = ff_json("info", source_of(grid, solution))
    assert any(order.upper() in g and "smoothly" in g for g in info["guessed"]), info["guessed"]
    with ff.open(grid, q=solution) as ds:
        assert np.allclose(ds.zones["zone1"]["xyz"][...], block.xyz, atol=1e-6)
        assert np.allclose(ds.zones["zone1"]["momentum"][...], block.q[1:4], atol=1e-6)


def test_boxes_are_kept_for_each_way_of_reading(tmp_path: Path, ff_json: Json, ff: Any) -> None:
    """A file that was first read in the wrong order, and then in the right one, with one cache."""
    block = box(9, 8, 7)
    grid = tmp_path / "flow.xyz"
    planes = np.stack(block.xyz).transpose(1, 0, 2, 3)
    grid.write_bytes(struct.pack("<iii", *block.dims) + np.ascontiguousarray(planes).astype("<f4").tobytes())
    place = [str(float(c[3, 4, 5])) for c in block.xyz]
    ff("probe", grid, *place, "--plot3d-order", "whole", ok=(0, 1))
    found = ff_json("probe", grid, *place, "--plot3d-order", "planes")
    assert np.allclose(found["ijk"], (6, 5, 4), atol=1e-4)


def test_function_files_must_hold_the_same(tmp_path: Path, ff: Any) -> None:
    block = box(5, 4, 3)
    grid, _ = write(tmp_path, [block], form="binary", count=False)
    for step, count in enumerate((2, 3)):
        data = np.arange(60.0 * count).astype("<f8").tobytes()
        (tmp_path / f"s{step}.f").write_bytes(struct.pack("<4i", 5, 4, 3, count) + data)
    said = ff("info", f"{grid}+function={tmp_path}/s*.f", ok=(1, 2)).stderr
    for word in ("s1.f", "s0.f", "3 functions", "2 functions"):
        assert word in said, said


def _plane(folder: Path, rest: bool) -> str:
    """A 2-D zone; with `rest` its edge j = 1 is a wall."""
    ni, nj = 9, 7
    angle, radius = np.meshgrid(np.linspace(0, 3, ni), np.linspace(1, 2, nj))
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    speed = (radius - 1.0) if rest else np.ones_like(radius)
    q = [np.ones_like(x), speed, 0 * x, 2.0 + 0 * x]
    grid, solution = folder / "plane.xyz", folder / "plane.q"
    grid.write_bytes(struct.pack("<ii", ni, nj) + np.stack([x, y]).astype("<f8").tobytes())
    head = struct.pack("<ii", ni, nj) + np.array([0.5, 0, 1e5, 0], "<f8").tobytes()
    solution.write_bytes(head + np.stack(q).astype("<f8").tobytes())
    return source_of(grid, solution)


def test_surfaces_of_a_plane(tmp_path: Path, ff: Any, ff_json: Json) -> None:
    source = _plane(tmp_path, rest=True)
    out = tmp_path / "s.vtp"
    whole = ff_json("extract", "grid-surface", source, "--surface", "zone1:k=1", "-o", out)
    assert whole["cells"] == 8 * 6
    said = ff("extract", "grid-surface", source, "--surface", "zone1:j=1", "-o", out, ok=(2,)).stderr
    assert "is a line" in said and "zone1:k=1" in said
    # The body is a line: nothing to extract, but something to draw.
    assert "is a line" in ff("extract", "grid-surface", source, "-o", out, ok=(2,)).stderr
    picture = tmp_path / "p.png"
    made = ff_json("render", source, "-o", picture, "--size", "160x120")
    drawn = made["drawn"]
    # The surface is gathered before lines are located: the pages are the same ones then.
    assert made["pages"]["touched"] <= made["pages"]["total"]
    assert {"walls": 8}.items() <= {d["name"]: d["primitives"] for d in drawn}.items()
    assert ff_json("info", source, "--ranges")["walls"] == [{"zone": "zone1", "axis": "j", "index": 1}]
    open_flow = tmp_path / "open"
    open_flow.mkdir()
    assert ff_json("info", _plane(open_flow, rest=False), "--ranges")["walls"] == []


def test_a_thin_zone_is_a_surface(tmp_path: Path, ff: Any, ff_json: Json) -> None:
    whole = box(6, 5, 4)
    thin = Block([c[:, 2:3, :] for c in whole.xyz], [c[:, 2:3, :] for c in whole.q])
    source, out = source_of(*write(tmp_path, [thin])), tmp_path / "s.vtp"
    assert ff_json("extract", "grid-surface", source, "--surface", "zone1:j=1", "-o", out)["cells"] == 5 * 3
    said = ff("extract", "grid-surface", source, "--surface", "zone1:k=2", "-o", out, ok=(2,)).stderr
    assert "use zone1:j=1, which is all of it" in said


def test_pages_in_all_are_the_same_for_every_command(flow: str, store: Path, tmp_path: Path, ff_json: Json) -> None:
    for source in (flow, store):
        out = tmp_path / "lines.vtp"
        trace = ("trace", source, "--seeds", "point:0.7,0.5,0.3", "-o", out)
        surface = ("extract", "grid-surface", source, "--surface", "zone1:k=1", "-o", tmp_path / "s.vtp")
        picture = ("render", source, "-o", tmp_path / "p.png", "--size", "80x60", "--surface", "zone1:k=1")
        runs = [("info", source), ("info", source, "--ranges"), ("probe", source, 0.5, 0.5, 0.5), ("validate", source)]
        counts = [ff_json(*words)["pages"] for words in (*runs, trace, surface, picture)]
        assert len({c["total"] for c in counts}) == 1, counts
        assert all(c.get("touched", 0) <= c["total"] for c in counts), counts
        # Those of the arrays, and some boxes and indexes.
        info = ff_json("info", source)
        arrays = (1 + sum(1 for f in info["fields"] if not f["derived"])) * sum(z["pages"] for z in info["zones"])
        assert arrays < counts[0]["total"]


def test_a_limit_is_said_exactly(flow: str, ff: Any, tmp_path: Path) -> None:
    said = ff("probe", flow, 0.5, 0.5, 0.5, "--memory-limit", "1", ok=(4,)).stderr
    assert "memory limit of 1 byte is" in said, said
    said = ff("probe", flow, 0.5, 0.5, 0.5, "--memory-limit", "1000", ok=(4,)).stderr
    assert "memory limit of 1000 bytes is" in said, said


def test_both_ends_of_a_line_have_reasons(flow: str, ff: Any, tmp_path: Path) -> None:
    import farfield

    with farfield.open(flow) as ds:
        lines = ds.streamlines("velocity", seeds=[(0.7, 0.5, 0.3)], integration_direction="both", max_length=0.25)
    out = tmp_path / "l.npz"
    lines.save(out)
    saved = np.load(out)
    assert lines.reason_backward is not None
    assert saved["reason_backward"].tolist() == lines.reason_backward.tolist() == ["length"]
    assert json.loads(str(saved["meta"]))["kind"] == "lines"


def test_a_small_zone_is_not_bloated(tmp_path: Path, ff_json: Json) -> None:
    """Documents, indexes and ranges of a lone 17^3 zone stay within the bound that larger sets meet easily."""
    grid, solution = write(tmp_path, [box(17, 17, 17)], real=4)
    target = tmp_path / "lone.zarr"
    ff_json("convert", source_of(grid, solution), target, "--codec", "none")
    stored = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
    # Times for other readers, and what tells the source's files of each step, are of one size whatever that of the data.
    assert stored - 1024 <= 1.05 * (grid.stat().st_size + solution.stat().st_size)


def test_the_kind_of_a_grid(tmp_path: Path, ff: Any, ff_json: Json) -> None:
    k, j, i = np.meshgrid(np.arange(5.0), np.arange(6.0), np.arange(7.0), indexing="ij")
    grids = {"uniform": [i, 0.1 * j, k], "rectilinear": [i * i, j, k], "curvilinear": [i + 0.1 * j, j, k]}
    for kind, xyz in grids.items():
        grid, _ = write(tmp_path, [Block(xyz, box(7, 6, 5).q)], stem=kind, real=4)
        assert ff_json("info", grid, "--ranges")["zones"][0]["kind"] == kind
        assert f"7 x 6 x 5  {kind}" in ff("info", grid, "--ranges").stdout
        # It takes a pass to know.
        assert ff_json("info", grid)["zones"][0]["kind"] is None
