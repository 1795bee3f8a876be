"""Vortex cores from outside: a vortex about a slanted axis, whose core and strength are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.errors import UsageError
from plot3d_files import Block, box, source_of, write
from running import Command, Json

MIDDLE = np.array([0.5, 0.45, 0.5])
AXIS = np.array([0.3, 0.2, 1.0]) / np.linalg.norm([0.3, 0.2, 1.0])
TURN = 1.7
"""Angular velocity at the axis."""
WIDTH = 0.25
STRENGTH = {"sujudi-haimes": TURN, "levy": 2 * TURN, "lambda2": TURN**2}
"""At the axis: imaginary part of the eigenvalues, magnitude of vorticity, -lambda2."""


def vortex(n: int = 25) -> Block:
    """Flow of even speed along the axis, which turns about it the slower the farther from it."""
    block = box(n, n, n)
    at = np.stack(block.xyz, axis=-1) - MIDDLE
    off = at - (at @ AXIS)[..., None] * AXIS
    turn = TURN * np.exp(-(off**2).sum(-1) / (2 * WIDTH**2))
    u, v, w = np.moveaxis(0.6 * AXIS + turn[..., None] * np.cross(AXIS, at), -1, 0)
    rho = np.full_like(u, 1.2)
    block.q = [rho, rho * u, rho * v, rho * w, 2.0 + 0.5 * rho * (u * u + v * v + w * w)]
    return block


def from_axis(points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How far points lie from the axis."""
    at = np.asarray(points, np.float64) - MIDDLE
    off: np.ndarray[Any, Any] = np.linalg.norm(at - (at @ AXIS)[:, None] * AXIS, axis=1)
    return off


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return source_of(*write(tmp_path_factory.mktemp("vortex"), [vortex()]))


@pytest.mark.parametrize("method", list(STRENGTH))
def test_the_core_is_the_axis_and_as_strong_as_the_vortex(method: str, source: str) -> None:
    with ff.open(source) as ds:
        lines = ds.vortex_cores(method=method, min_strength=0.8 * STRENGTH[method], min_length=0.5)
    assert len(lines.offsets) == 2, "one line"
    points = np.asarray(lines.points)
    assert np.ptp(points @ AXIS) > 0.8, "from one end to the other"
    assert from_axis(points).max() < 0.02, "less than half a cell"
    # Velocity is differentiated from point to point: second order in a twenty-fourth.
    inner = np.abs((points - MIDDLE) @ AXIS) < 0.35
    assert np.asarray(lines["strength"])[inner] == pytest.approx(STRENGTH[method], rel=0.05)
    if method != "lambda2":
        assert np.asarray(lines["angle"])[inner].max() < 5


def test_files_of_all_kinds_hold_the_same(source: str, tmp_path: Path, ff_json: Json) -> None:
    names = ("a.npz", "a.vtp", "a.csv", "a.parquet")
    more = ("--min-strength", 1.2, "--min-length", 0.5, "--scalars", "density")
    found = [ff_json("extract", "vortex-cores", source, *more, "-o", tmp_path / name) for name in names]
    assert len({(f["lines"], f["points"]) for f in found}) == 1 and found[0]["lines"] == 1
    held = np.load(tmp_path / "a.npz")
    rows = np.genfromtxt(tmp_path / "a.csv", delimiter=",", names=True)
    places = [n for n in rows.dtype.names if n.split("_")[0] in ("x", "y", "z")]
    assert len(places) == 3, rows.dtype.names
    for axis, name in enumerate(places):
        assert np.allclose(rows[name], held["points"][:, axis], rtol=1e-6)
    assert np.allclose(held["density"], 1.2) and from_axis(held["points"]).max() < 0.02


@pytest.mark.parametrize("method", list(STRENGTH))
def test_cores_do_not_depend_on_the_limit(method: str, source: str, tmp_path: Path, ff_json: Json) -> None:
    for name, resources in (("a.npz", ("--workers", 2)), ("b.npz", ("--memory-limit", "16MiB", "--workers", 1))):
        ff_json("extract", "vortex-cores", source, "--method", method, *resources, "-o", tmp_path / name)
    one, other = np.load(tmp_path / "a.npz"), np.load(tmp_path / "b.npz")
    for name in ("points", "offsets", "strength", "angle"):
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize(("method", "unit"), [("sujudi-haimes", "s-1"), ("levy", "s-1"), ("lambda2", "s-2")])
def test_strength_has_a_unit_in_pictures(method: str, unit: str, tmp_path: Path, ff_json: Json) -> None:
    grid, solution = write(tmp_path, [vortex(13)])
    reference = {"reference": {"length": 2.0, "density": 1.2, "sound_speed": 340.0}}
    grid.with_name(f"{grid.stem}.p3d.json").write_text(json.dumps(reference))
    scene = {
        "source": source_of(grid, solution),
        "maps": {"how strong": {"field": "strength", "cmap": "magma"}},
        "objects": [{"kind": "cores", "method": method, "color": "how strong"}, {"kind": "outline"}],
    }
    file = tmp_path / "scene.json"
    file.write_text(json.dumps(scene))
    found = ff_json("render", file, "-o", tmp_path / "a.png", "--size", "240x180")
    assert found["maps"]["how strong"]["units"] == unit
    (drawn,) = [d for d in found["drawn"] if d["kind"] == "cores"]
    assert drawn["primitives"] > 0


def test_what_is_wrong_is_said(source: str, tmp_path: Path, ff: Command) -> None:
    out = ("-o", tmp_path / "a.vtp")
    for words, said in (
        (("--method", "guess"), "sujudi-haimes"),
        (("--min-strength", "-1"), "least strength"),
        (("--scalars", "densty"), "density"),
    ):
        assert said in ff("extract", "vortex-cores", source, *words, *out, ok=(2,)).stderr
    assert ".vtp, .npz, .csv or .parquet" in ff("extract", "vortex-cores", source, "-o", "a.ply", ok=(2,)).stderr
    assert not (tmp_path / "a.vtp").exists()
    flat = vortex(9)
    flat.xyz, flat.q = ([c[:1].copy() for c in a] for a in (flat.xyz, flat.q))
    plane = source_of(*write(tmp_path, [flat], stem="flat"))
    with ff_open(plane) as ds, pytest.raises(UsageError, match="no zone of the data has a volume"):
        ds.vortex_cores()


def ff_open(source: str) -> ff.Dataset:
    """Open: `ff` is the command in tests that take it."""
    return ff.open(source)
