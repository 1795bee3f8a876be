"""What a scene asks of a volume and does not get: the picture is made, and it is said, in words and as JSON."""

from __future__ import annotations

import json
import tracemalloc
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.scene.models import Volume
from farfield.scene.unseen import of_volume
from farfield.scene.volumes import SAMPLES, SEARCHED, first_scene, sample, settled, spread
from running import Command

zarr = pytest.importorskip("zarr")


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    """Values 0 to 15 along x, in a volume of 16 voxels along each axis."""
    made = zarr.create_array(tmp_path / "ramp.zarr", shape=(16, 16, 16), chunks=(8, 8, 8), dtype="u2")
    made[...] = np.broadcast_to(np.arange(16, dtype="u2"), (16, 16, 16))
    return tmp_path / "ramp.zarr"


UNSEEN: list[tuple[dict[str, Any], str]] = [
    ({"within": [[20, 0, 0], [30, 9, 9]]}, "objects.0.within: the box lies outside of the volume"),
    ({"planes": [{"normal": [1, 0, 0], "origin": [15.5, 0, 0]}]}, "objects.0.planes.0: the plane cuts all of"),
    ({"slices": {"k": [17, 20]}}, "objects.0.slices.k: there are 16 voxels along k"),
    ({"slices": {"j": [3, 3]}}, "objects.0.slices.j: one layer of voxels has no thickness"),
    ({"slices": {"k": [16, 20]}}, "objects.0.slices.k: one layer of voxels has no thickness"),
    ({"projection": "surface", "value": 15.5}, "objects.0.value: the values that were looked at of 'ramp.zarr' are from 0"),
    ({"opacity": [[16, 0], [20, 1]]}, "objects.0.opacity: the values that were looked at of 'ramp.zarr'"),
    ({"opacity": [[0, 0.0]]}, "objects.0.opacity: "),
    ({"labels": {"only": [16, 99]}}, "objects.0.labels.only: none of the values of 'ramp.zarr' that were looked at is 16, 99"),
]  # fmt: skip
SEEN: list[dict[str, Any]] = [
    {"within": [[15, 0, 0], [30, 9, 9]]},
    {"planes": [{"normal": [1, 0, 0], "origin": [15, 0, 0]}]},
    {"slices": {"k": [15, 20]}},
    {"projection": "surface", "value": 15},
    {"projection": "surface", "value": -3},
    {"opacity": [[14, 0], [20, 1]]},
    {"opacity": [[-9, 0], [4, 0], [5, 0.1], [6, 0]]},
    {"field": "ramp.zarr"},
    {"labels": {"only": [99, 3]}},
    {"labels": {}},
]


@pytest.mark.parametrize(("look", "said"), UNSEEN)
def test_a_picture_without_what_was_asked_for_says_so(ramp: Path, look: dict[str, Any], said: str, ff: Command) -> None:
    scene = ramp.parent / "scene.json"
    scene.write_text(json.dumps({"source": "ramp.zarr", "objects": [{"kind": "volume", **look}]}))
    done = ff("render", scene, "-o", ramp.parent / "a.png", "--size", "64x48", "--json")
    warnings = json.loads(done.stdout)["warnings"]
    assert len(warnings) == 1 and warnings[0].startswith(f"{scene}: {said}"), warnings
    assert f"farfield: warning: {scene}: {said}" in done.stderr


@pytest.mark.parametrize("look", SEEN)
def test_nothing_is_said_of_what_is_seen(ramp: Path, look: dict[str, Any]) -> None:
    drawn = {"source": str(ramp), "objects": [{"kind": "volume", **look}], "size": (64, 48)}
    assert ff.render(drawn, ramp.parent / "a.png")["stats"]["warnings"] == []


def test_a_volume_without_a_number(tmp_path: Path) -> None:
    made = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8, 8), chunks=(4, 4, 4), dtype="f4")
    made[...] = np.nan
    found = ff.render(tmp_path / "a.zarr", tmp_path / "a.png", size=(64, 48))
    assert found["stats"]["warnings"] == [
        "of the values of 'a.zarr' that were looked at none is a number: there may be nothing to see"
    ]


def test_a_box_beside_a_tilted_volume(tmp_path: Path) -> None:
    """Beside it along an axis of its own, though not along one of space."""
    nrrd = b"NRRD0005\ntype: uint8\ndimension: 3\nsizes: 21 21 2\nencoding: raw\nspace: 3D-right-handed\n"
    nrrd += b"space directions: (1,1,0) (-1,1,0) (0,0,1)\nspace origin: (0,0,0)\n\n"
    (tmp_path / "a.nrrd").write_bytes(nrrd + bytes(21 * 21 * 2))
    with ff.open(tmp_path / "a.nrrd") as volume:
        for box, is_said in (
            (((15, 0, 0), (20, 5, 1)), True),
            (((5, 5, 0), (8, 8, 1)), False),
            (((9, 0, 0), (20, 9, 1)), False),
        ):
            scene = ff.Scene.model_validate({"source": "a", "objects": [{"kind": "volume", "within": box}]})
            assert bool(of_volume(scene, volume)) == is_said, box


def test_known_ranges_say_it_for_sure(ramp: Path) -> None:
    with ff.open(ramp) as volume:
        volume.info(ranges=True)
        scene = ff.Scene.model_validate(
            {"source": "a", "objects": [{"kind": "volume", "projection": "surface", "value": 16}]}
        )
        said = "objects.0.value: the values of 'ramp.zarr' are from 0 to 15, and 16 is not reached: there is nothing to see"
        assert of_volume(scene, volume) == [said]


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        ({"kind": "contour", "values": [99]}, "contour: nothing is drawn of it: the field has no such value"),
        (
            {"kind": "slice", "normal": "x", "origin": [40, 0, 0]},
            "slice: nothing is drawn of it: the plane does not meet",
        ),
    ],
)
def test_surfaces_of_which_nothing_came(ramp: Path, drawn: dict[str, Any], said: str) -> None:
    scene = {"source": str(ramp), "objects": [{"kind": "outline"}, drawn], "size": (64, 48)}
    warnings = ff.render(scene, ramp.parent / "a.png")["stats"]["warnings"]
    assert len(warnings) == 1 and said in warnings[0], warnings


def test_flags_have_no_place_in_a_scene(ramp: Path, ff: Command) -> None:
    words = ("render", ramp, "-o", ramp.parent / "a.png", "--size", "64x48", "--projection", "surface:99")
    said = ff(*words).stderr
    assert "farfield: warning: the values that were looked at" in said and "objects." not in said


@pytest.mark.parametrize("met", [True, False])
def test_little_in_much_of_nothing(met: bool, tmp_path: Path) -> None:
    counts, first = (16, 16, 16), SAMPLES // 32**3
    near, far = spread(counts, first), spread(counts, first * SEARCHED)
    i, j, k = next(p for p in product(range(16), repeat=3) if p not in near and (p in far) == met)
    made = zarr.create_array(tmp_path / "a.zarr", shape=(512, 512, 512), chunks=(32, 32, 32), dtype="u1", fill_value=0)
    made[32 * k : 32 * k + 32, 32 * j : 32 * j + 32, 32 * i + 4 : 32 * i + 28] = 200
    with ff.open(tmp_path / "a.zarr") as volume:
        scene = settled(first_scene(volume, "a.zarr"), volume)
        said = of_volume(scene, volume)
    drawn = scene.objects[-1]
    assert isinstance(drawn, Volume) and drawn.opacity is not None
    if met:
        assert said == [] and drawn.opacity[0][0] > 0 and scene.maps["a.zarr"].range[1] > 100  # type: ignore[index]
    else:
        assert (
            len(said) == 1 and "all values of 'a.zarr' that were looked at are 0" in said[0] and "--ranges" in said[0]
        )


def test_what_is_looked_at_of_values_takes_little_and_has_their_ends(tmp_path: Path) -> None:
    """Nobody charges for these arrays: of 32 MiB of voxels all that were looked at, and a copy of them, were kept."""
    data = np.random.default_rng(5).random((160, 160, 160))
    data[80, 70, 60], data[90, 10, 10] = -3.0, 7.0
    data.tofile(tmp_path / "a_160x160x160.raw")
    with ff.open(str(tmp_path / "a_160x160x160.raw"), volume={"dtype": "float64"}) as volume:
        volume.info()
        tracemalloc.start()
        found = sample(volume, volume.channels[0].name, [0])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        every = sample(volume, volume.channels[0].name, [0], every=True)
    assert every.size > 20 * found.size and peak < 4 << 20
    assert (found.min(), found.max()) == (every.min(), every.max())
    assert abs(np.percentile(found, (1, 50, 99)) - np.percentile(every, (1, 50, 99))).max() < 0.01


def test_a_path_of_the_camera_in_one_picture_is_told(ramp: Path, ff: Command) -> None:
    scene = ramp.parent / "scene.json"
    path = [{"frame": 0}, {"frame": 2, "camera": {"direction": [1, 1, 0.5]}}]
    scene.write_text(json.dumps({"source": "ramp.zarr", "objects": [{"kind": "volume"}], "path": path}))
    done = ff("render", scene, "-o", ramp.parent / "a.png", "--size", "64x48", "--json")
    (warning,) = json.loads(done.stdout)["warnings"]
    assert warning.startswith(f"{scene}: path: this is its first picture alone") and "a_%04d.png" in warning
    done = ff("render", scene, "-o", ramp.parent / "b_%04d.png", "--size", "64x48", "--json")
    assert json.loads(done.stdout)["warnings"] == [] and len(list(ramp.parent.glob("b_*.png"))) == 3


@pytest.mark.parametrize("projection", ["maximum", "mean"])
def test_one_value_of_a_ray_is_as_grey_as_its_window_has_it(projection: str, ramp: Path, ff: Command) -> None:
    from PIL import Image

    # From black at 4 to white at 12; along y and z the ramp has one value.
    flags = (
        "--window",
        8,
        "--level",
        8,
        "--projection",
        projection,
        "--view",
        "z",
        "--no-bar",
        "--no-axes",
        "--no-outline",
    )
    ff("render", ramp, "-o", ramp.parent / "a.png", *flags, "--size", "160x160")
    with Image.open(ramp.parent / "a.png") as picture:
        row = np.asarray(picture.convert("L"))[80]
    assert (row == 255).sum() >= 12 and (row == 0).sum() >= 12, "what is beyond the window is white, or black"
    assert {128, 127} & set(row.tolist()) or ((row > 90) & (row < 200)).any()
