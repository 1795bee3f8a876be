"""What a scene asks of a volume and does not get: the picture is made, and it is said, in words and as JSON."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.pictures import sampled_values as sampling
from farfield.pictures.sampled_values import BOXES, LAYERS, SEARCHED, is_met, looked_at, mean_range, sample, spread
from farfield.scene.invisible import of_volume
from farfield.scene.models import Volume
from farfield.scene.volumes import extent, first_scene, settled
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
    ({"within": [[0, 0, 5], [9, 9, 5]]}, "objects.0.within: the box has no thickness along z"),
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
    side = 512
    every = spread((side,) * 3, side**3)
    near, far = (set(spread((side,) * 3, BOXES * more)) for more in (1, SEARCHED))
    lo, hi = next(box for box in every if box not in near and (box in far) == met)
    made = zarr.create_array(tmp_path / "a.zarr", shape=(side,) * 3, chunks=(32, 32, 32), dtype="u1", fill_value=0)
    made[tuple(slice(a + 2, b) for a, b in zip(reversed(lo), reversed(hi), strict=True))] = 200
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


def test_what_is_looked_at_of_values_takes_little_and_has_their_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody charges for these arrays: of 32 MiB of voxels all that were looked at, and a copy of them, were kept."""
    data = np.random.default_rng(5).random((160, 160, 160))
    shape = (160, 160, 160)
    (i, j, k), end = spread(shape, BOXES)[20]
    data[k, j, i], data[end[2] - 1, end[1] - 1, end[0] - 1] = -3.0, 7.0
    data.tofile(tmp_path / "a_160x160x160.raw")
    boxes: list[np.ndarray[Any, Any]] = []
    box_of = sampling._box
    with ff.open(str(tmp_path / "a_160x160x160.raw"), volume={"dtype": "float64"}) as volume:
        volume.info()
        tracemalloc.start()
        found = sample(volume, volume.channels[0].name, [0])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # All that was looked at.
        monkeypatch.setattr(sampling, "_box", lambda *asked: boxes.append(box_of(*asked)) or boxes[-1])
        sample(volume, volume.channels[0].name, [0])
    every = np.concatenate([box.ravel() for box in boxes])
    assert every.size > 4 * found.size and peak < 3 << 20
    assert (found.min(), found.max()) == (every.min(), every.max()) == (-3.0, 7.0)
    assert abs(np.percentile(found, (1, 50, 99)) - np.percentile(every, (1, 50, 99))).max() < 0.01


LAYOUTS = ((4, 4, 4), (8, 8, 8), (16, 16, 16), (32, 32, 32), (1, 75, 81), (2, 9, 81))


def looks(source: object, **volume: Any) -> dict[str, Any]:
    """All that a first picture chooses of values, and the range of means."""
    with ff.open(str(source), volume=volume or None) as opened:
        name = opened.channels[0].name
        scene = first_scene(opened, "a")
        (drawn,) = (o for o in scene.objects if isinstance(o, Volume))
        wide = extent(opened, name, sample(opened, name, [0]), wide=True)
        return {"range": scene.maps[name].range, "opacity": drawn.opacity, "wide": wide,
                "mean": mean_range(opened, name, [0]), "labels": is_met(opened, name, [0], [1000])}  # fmt: skip


@pytest.mark.parametrize(("dtype", "depth"), [("i2", 70), ("f4", 70), ("i2", 500), ("f4", 500), ("f8", 20)])
def test_what_is_chosen_of_values_does_not_depend_on_how_they_are_stored(
    dtype: str, depth: int, tmp_path: Path
) -> None:
    """Below and above what is looked at as a whole: pages of any size and shape, and the file itself."""
    rng = np.random.default_rng(8)
    shape = (depth, 75, 81)
    k, j, i = np.indices(shape)
    data = (900 * np.exp(-((i - 30) ** 2 + (j - 40) ** 2 + (k - 20) ** 2) / 900) + rng.normal(0, 9, shape)).astype(
        dtype
    )
    if data.dtype.kind == "f":
        data[rng.random(shape) < 0.1] = np.nan
    kinds = {"i2": "int16", "f4": "float32", "f8": "float64"}
    (tmp_path / "a").mkdir()
    data.tofile(tmp_path / "a/a.raw")
    told = looks(tmp_path / "a/a.raw", shape=shape[::-1], dtype=kinds[dtype])
    # Of a large one small chunks are very many files.
    layouts = LAYOUTS if depth < 100 else LAYOUTS[2:]
    for n, chunks in enumerate(layouts):
        made = zarr.create_array(tmp_path / f"{n}/a.raw", shape=shape, chunks=chunks, dtype=dtype, compressors=None)
        made[...] = data
        assert looks(tmp_path / f"{n}/a.raw") == told, chunks
    for page, layout in ((8, "cubed"), (32, "flat")):
        ff.convert(tmp_path / "0/a.raw", tmp_path / f"{page}.zarr", page=page, layout=layout, levels=1)
        found = looks(tmp_path / f"{page}.zarr")
        assert found == told, page


def test_of_a_pyramid_the_same_level_is_looked_at_whatever_its_pages(tmp_path: Path) -> None:
    data = np.random.default_rng(9).integers(0, 900, (130, 150, 140)).astype("u2")
    made = zarr.create_array(tmp_path / "a.zarr", shape=data.shape, chunks=(32, 32, 32), dtype="u2")
    made[...] = data
    found = []
    for page, layout in ((8, "cubed"), (32, "cubed"), (16, "flat")):
        folder = tmp_path / f"{page}"
        folder.mkdir()
        ff.convert(tmp_path / "a.zarr", folder / "a.zarr", page=page, layout=layout)
        found.append(looks(folder / "a.zarr"))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dims", [(4096, 4096, 3000), (2048, 2048, 2000), (600, 500, 400), (40, 50, 100000), (9, 1, 4)])
def test_few_pages_and_few_slices_are_looked_at(dims: tuple[int, int, int]) -> None:
    boxes = looked_at(dims)
    voxels = sum(math.prod(b - a for a, b in zip(*box, strict=True)) for box in boxes)
    slices = {k for lo, hi in boxes for k in range(lo[2], hi[2])}
    assert len(boxes) == len(set(boxes)) <= 64 and voxels <= 64 << 13
    assert all(0 <= a < b <= n for lo, hi in boxes for a, b, n in zip(lo, hi, dims, strict=True))
    assert len(slices) * dims[0] * dims[1] <= max(LAYERS, 8 * dims[0] * dims[1])
    # All over it, where there is room for more than a few.
    long = np.array(dims) > 60
    middles = np.array([[(a + b) / 2 / n for a, b, n in zip(*box, dims, strict=True)] for box in boxes])[:, long]
    assert (abs(middles.mean(axis=0) - 0.5) < 0.06).all() and (np.ptp(middles, axis=0) > 0.7).all()


def test_a_page_that_fails_takes_only_its_own_values_with_it(tmp_path: Path) -> None:
    from zarr.codecs import BytesCodec, Crc32cCodec

    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(24, 24, 24), chunks=(8, 8, 8), dtype="f4",
        compressors=[Crc32cCodec()], serializer=BytesCodec(),
    )  # fmt: skip
    made[...] = np.arange(24**3, dtype="f4").reshape(24, 24, 24)
    damaged = bytearray((tmp_path / "a.zarr/c/0/0/0").read_bytes())
    damaged[9] ^= 255
    (tmp_path / "a.zarr/c/0/0/0").write_bytes(damaged)
    with ff.open(tmp_path / "a.zarr") as volume:
        assert sample(volume, "a.zarr", [0]).size == 24**3 - 8**3
        assert mean_range(volume, "a.zarr", [0])[1] > 10000


LARGE = 2**63 + 5
"""A label of 64 bits that has neighbours which are the same in floating point."""


def test_labels_are_looked_for_without_keeping_any(tmp_path: Path) -> None:
    made = zarr.create_array(tmp_path / "a.zarr", shape=(128, 128, 128), chunks=(32, 32, 32), dtype="u8", fill_value=0)
    made[100:, 100:, 100:] = LARGE
    with ff.open(tmp_path / "a.zarr", volume={"kind": "labels"}) as volume:
        volume.info()
        tracemalloc.start()
        met = [is_met(volume, "a.zarr", [0], wanted) for wanted in ([LARGE], [LARGE + 1], [3, LARGE], [-1, 7])]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert met == [True, False, True, False] and peak < 2 << 20


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
