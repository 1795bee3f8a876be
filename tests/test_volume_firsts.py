"""What volumes look like when little is said: first pictures, and projections by a flag alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield as ff
from farfield.scene import Scene
from farfield.scene.shorthand import SURFACE_COLOR
from farfield.scene.volumes import first_scene, mean_range, threshold
from running import Command, Json
from test_volume_looks import ball, nrrd, pixels


def scene_of(path: Path, data: NDArray[Any]) -> dict[str, Any]:
    with ff.open(nrrd(path, data)) as opened:
        return first_scene(opened, str(path)).model_dump(mode="json")


def test_a_mask_hides_what_is_not_in_it(tmp_path: Path) -> None:
    nodes = scene_of(tmp_path / "mask.nrrd", ball().astype(np.uint8))["objects"][1]["opacity"]
    assert nodes[0][0] > 0.1 and nodes[0][1] == 0, nodes
    assert nodes[-2][0] <= 1.0, "what is in it is opaque"


def test_what_is_low_in_a_high_background_is_seen_as_what_is_high_in_a_low_one(tmp_path: Path) -> None:
    high = np.where(ball(), 180, 20).astype(np.uint8)
    for data, sign in ((high, 1.0), (255 - high, -1.0)):
        scene = scene_of(tmp_path / f"{sign}.nrrd", data)
        nodes = [(sign * v, a) for v, a in scene["objects"][1]["opacity"]]
        inside, outside = (180, 20) if sign > 0 else (-75, -235)
        opacity = sorted(nodes)
        assert (
            np.interp(inside, *zip(*opacity, strict=True)) > 0.3
            and np.interp(outside, *zip(*opacity, strict=True)) == 0
        )
        assert next(iter(scene["maps"].values()))["cmap"] == ("inferno" if sign > 0 else "inferno_r")
    # Of what is everywhere there is no background.
    noise = np.random.default_rng(3).integers(0, 255, (20, 20, 20)).astype(np.uint8)
    assert next(iter(scene_of(tmp_path / "noise.nrrd", noise)["maps"].values()))["cmap"] == "inferno"


def test_the_place_between_two_parts_is_in_the_middle_of_nothing() -> None:
    assert threshold(np.repeat([0.0, 10.0], [900, 100])) == pytest.approx(5.0, abs=0.1)
    assert threshold(np.full(9, 4.0)) == 4.0


@pytest.mark.parametrize("value", [0.0, 7.0, -3e20, 2e-9])
def test_the_only_value_is_in_the_middle_of_its_colours(value: float, tmp_path: Path) -> None:
    scene = scene_of(tmp_path / "c.nrrd", np.full((9, 8, 7), value, np.float32))
    low, high = next(iter(scene["maps"].values()))["range"]
    assert low < high and 0.5 * (low + high) == pytest.approx(value, rel=1e-6)


def test_small_volumes_have_more_samples_and_thin_ones_a_shorter_unit(tmp_path: Path) -> None:
    small = scene_of(tmp_path / "s.nrrd", np.zeros((40, 40, 40), np.uint8))["objects"][1]
    assert small["samples_per_voxel"] == 4 and small["unit"] is None
    thin = scene_of(tmp_path / "t.nrrd", np.zeros((3, 300, 300), np.uint8))["objects"][1]
    assert thin["samples_per_voxel"] == 1 and thin["unit"] == pytest.approx(2 / 8)


@pytest.mark.parametrize("page", [(32, 64, 8), (4, 6, 5)])
def test_means_have_a_range_of_their_own(tmp_path: Path, page: tuple[int, int, int]) -> None:
    data = ball().astype(np.float32) * 200
    data[0, 0, 0] = np.nan
    import zarr

    array = zarr.create_array(tmp_path / "m.zarr", shape=data.shape, chunks=page, dtype="f4")
    array[...] = data
    with ff.open(tmp_path / "m.zarr") as opened:
        low, high = mean_range(opened, opened.channels[0].name, 0)
    rays = [np.nanmean(data, axis=axis).max() for axis in range(3)]
    assert low == 0 and 0.8 * min(rays) < high <= max(rays)


def test_a_mean_and_a_surface_can_be_seen_with_a_flag_alone(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    source = nrrd(tmp_path / "b.nrrd", (ball(14) * 200).astype(np.uint8))
    bare = ("--no-outline", "--no-axes", "--no-bar", "--background", "black", "--size", "96x72")
    for how in ("mean", "surface:100"):
        words = ("render", source, "--projection", how, "-o", tmp_path / "p.png", "--save-scene", tmp_path / "s.json")
        done = ff_json(*words, *bare)
        middle = pixels(tmp_path / "p.png")[36, 48]
        assert middle.max() > 120, how
        drawn = json.loads((tmp_path / "s.json").read_text())["objects"][0]
        if how == "mean":
            assert next(iter(done["maps"].values()))["range"][1] < 190
        else:
            assert drawn["color"] == SURFACE_COLOR and drawn["shading"] is not None and not done["maps"]
    # What is said stays: a map, and no light.
    ff(
        "render",
        source,
        "--projection",
        "surface:100",
        "--no-shade",
        "--color",
        "#ff0000",
        *bare,
        "-o",
        tmp_path / "p.png",
    )
    assert pixels(tmp_path / "p.png")[36, 48].tolist() == [255, 0, 0]


def test_a_surface_is_opaque_whatever_the_opacity_is_at_its_value(tmp_path: Path) -> None:
    source = nrrd(tmp_path / "b.nrrd", (ball(14) * 200).astype(np.uint8))
    look = {"projection": "surface", "value": 100.0, "color": "#ff0000", "opacity": [(150, 0.0), (200, 1.0)]}
    scene = {"source": str(source), "objects": [{"kind": "volume", **look}], "background": "black", "axes": False}
    ff.render(Scene.model_validate({**scene, "size": (96, 72)}), tmp_path / "p.png")
    assert pixels(tmp_path / "p.png")[36, 48].tolist() == [255, 0, 0]
