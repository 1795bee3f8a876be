"""What volumes look like when little is said: first pictures, and projections by a flag alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield as ff
from farfield.errors import FarfieldError, UsageError
from farfield.pictures.fill_values import fills
from farfield.pictures.sampled_values import mean_range
from farfield.scene import Scene
from farfield.scene.flags import SURFACE_COLOR
from farfield.scene.volumes import first_scene, threshold
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
    assert small["samples_per_voxel"] == 6.4 and small["unit"] is None
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
        low, high = mean_range(opened, opened.channels[0].name, [0])
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


FILLS = (-9999.0, -999.0, 1e20, 9.969209968386869e36, float(np.finfo(np.float32).max))


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("most", [False, True])
def test_fill_values_nobody_speaks_of_are_clear_and_have_no_part_in_the_range(
    fill: float, most: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    data = (280 + 20 * ball() + rng.normal(0, 0.2, ball().shape)).astype(np.float32)
    data[~grown(ball()) if most else np.s_[:4]] = fill
    scene = scene_of(tmp_path / "f.nrrd", data)
    low, high = next(iter(scene["maps"].values()))["range"]
    assert 279 < low < high < 302
    values, alphas = zip(*scene["objects"][1]["opacity"], strict=True)
    assert list(values) == sorted(values)
    assert np.interp([280, 300, float(np.float32(fill))], values, alphas) == pytest.approx([0, 0.6, 0], abs=0.3)


def grown(there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What is there, and a voxel around it."""
    return np.logical_or.reduce([np.roll(there, by, axis) for axis in range(3) for by in (-1, 0, 1)])


@pytest.mark.parametrize("padding", [-2000, -3024, -32768])
def test_what_scanners_write_around_their_circle_is_no_air(padding: int, tmp_path: Path) -> None:
    data = np.where(ball(6), 900, np.where(ball(), 40, -1000)).astype(np.int16)
    data[:, :2] = data[:, -2:] = padding
    scene = scene_of(tmp_path / "ct.nrrd", data)
    assert next(iter(scene["maps"].values()))["range"][0] > -1001
    opacity = scene["objects"][1]["opacity"]
    assert np.interp([padding, -1000, 900], *zip(*opacity, strict=True)) == pytest.approx([0, 0, 0.6], abs=0.3)


def test_saturated_pixels_are_seen_and_no_measure_of_the_others(tmp_path: Path) -> None:
    data = (110 + 600 * ball()).astype(np.uint16)
    data.flat[:: data.size // 90] = 65535
    scene = scene_of(tmp_path / "hot.nrrd", data)
    assert next(iter(scene["maps"].values()))["range"][1] < 800
    assert scene["objects"][1]["opacity"][-1][1] > 0.8


def test_ordinary_numbers_are_no_fill_values() -> None:
    rng = np.random.default_rng(6)
    wide = np.append(rng.uniform(-9999, 20000, 1000), -9999.0)
    huge = np.append(np.zeros(900), np.exp(rng.uniform(0, 46, 1000)))
    for values in (np.repeat([0.0, 255.0], [900, 100]), wide, huge, np.full(5, -9999.0), np.zeros(0)):
        assert fills(values) == []
    assert fills(np.array([1.0, 2.0, -9999.0, -999.0, 1e30])) == [1e30, -9999.0, -999.0]


def test_a_few_voxels_in_nothing_are_seen(tmp_path: Path) -> None:
    data = np.zeros((30, 30, 30), np.uint16)
    data[15, 15, 15] = 1000
    opacity = scene_of(tmp_path / "s.nrrd", data)["objects"][1]["opacity"]
    assert np.interp([0, 1000], *zip(*opacity, strict=True))[0] == 0
    assert opacity[-1][1] > 0.5


def test_values_of_any_size_are_parted() -> None:
    assert threshold(np.repeat([0.0, 1e300], [900, 100])) == pytest.approx(5e299, rel=0.02)


def test_ranges_and_opacities_of_a_film_follow_from_its_time_steps(tmp_path: Path, ff_json: Json) -> None:
    import zarr

    array = zarr.create_array(tmp_path / "t.zarr", shape=(4, 32, 36, 40), chunks=(1, 32, 36, 40), dtype="f4")
    array[...] = np.stack([n * ball() for n in range(1, 5)]).astype(np.float32)
    bare = ("--size", "64x48", "-o", tmp_path / "f_%02d.png", "--save-scene", tmp_path / "s.json")
    for frames, most in (((), 4), (("--frames", "1:3"), 3)):
        done = ff_json("render", tmp_path / "t.zarr", *bare, *frames)
        assert next(iter(done["maps"].values()))["range"][1] == most
        kept = json.loads((tmp_path / "s.json").read_text())
        assert next(iter(kept["maps"].values()))["range"][1] == most
        assert kept["objects"][1]["opacity"][-1][0] > most
    # A scene, and one from Python.
    scene = {"source": str(tmp_path / "t.zarr"), "objects": [{"kind": "volume"}], "size": (64, 48)}
    for what in (scene, tmp_path / "t.zarr"):
        found = ff.render(what, tmp_path / "p_%02d.png", frames=[0, 3])
        assert next(iter(found["maps"].values()))["range"][1] == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"objects": [{"kind": "volume", "slices": {"i": [0, 20]}}]}, "objects.0.slices"),
        ({"objects": [{"kind": "volume", "slices": {"k": [9, 8]}}]}, "objects.0.slices"),
        ({"objects": [{"kind": "volume", "within": [[5, 0, 0], [4, 9, 9]]}]}, "objects.0.within"),
        ({"objects": [{"kind": "volume", "planes": [{"normal": [0, 0, 0], "origin": [1, 1, 1]}]}]}, "planes.0.normal"),
        ({"objects": [{"kind": "contour", "value": 3}]}, "objects.0.value: no key 'value'; did you mean 'values'?"),
        ({"objects": [{"kind": "volume"}, {"kind": "lines", "file": "no.vtp"}]}, "objects.1.file: "),
        ({"step": 9}, "step: "),
        ({"path": [{"frame": 0, "step": 0}, {"frame": 2, "step": 3}]}, "path: there is no time step 3"),
    ],
)
def test_what_a_scene_of_a_volume_says_wrong_is_named_with_its_file(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    source = nrrd(tmp_path / "b.nrrd", ball().astype(np.uint8))
    scene = {"source": str(source), "size": [64, 48], "objects": [{"kind": "volume"}], **change}
    (tmp_path / "s.json").write_text(json.dumps(scene))
    with pytest.raises(FarfieldError) as caught:
        ff.render(tmp_path / "s.json", tmp_path / "p_%02d.png")
    assert "s.json: " in str(caught.value) and said in str(caught.value)


@pytest.mark.parametrize("missing", [9.969209968386869e36, 5000.0, -3.0])
def test_what_a_format_names_as_missing_is_clear(missing: float, tmp_path: Path) -> None:
    data = np.where(ball(), 300, 280).astype(np.float32)
    data[:5] = missing
    with ff.open(nrrd(tmp_path / "m.nrrd", data), volume={"missing": missing}) as opened:
        scene = first_scene(opened, str(tmp_path / "m.nrrd")).model_dump(mode="json")
    nodes = scene["objects"][1]["opacity"]
    seen = np.interp([float(np.float32(missing)), 280, 300], *zip(*nodes, strict=True))
    assert seen == pytest.approx([0, 0, 0.6], abs=0.3)
    assert next(iter(scene["maps"].values()))["range"][1] < 301


def test_pictures_of_an_open_volume_show_what_was_chosen_of_it(tmp_path: Path, ff_json: Json) -> None:
    """Raw numbers of two channels and two steps, as options of the command show them."""
    rng = np.random.default_rng(5)
    data = rng.integers(0, 255, (2, 9, 10, 11, 2)).astype(np.uint8)
    source = tmp_path / "a.raw"
    source.write_bytes(data.tobytes())
    told = {"shape": (11, 10, 9, 2), "dtype": "uint8", "components": 2, "kind": "channels"}
    whole = {"size": (64, 48), "memory_limit": "64MiB"}
    ff.render(source, tmp_path / "told.png", volume=told, **whole)
    with ff.open(source, volume=told) as volume:
        ff.render(volume, tmp_path / "open.png", **whole)
        name = volume.channels[1].name
        ff.render(volume.isel(time=1).channel(name), tmp_path / "chosen.png", **whole)
        with pytest.raises(UsageError, match="zone_order"):
            ff.render(volume, tmp_path / "wrong.png", zone_order=["a"])
    np.testing.assert_array_equal(pixels(tmp_path / "open.png"), pixels(tmp_path / "told.png"))
    raw = "shape=11x10x9x2 dtype=uint8 components=2 kind=channels"
    words = ("--raw", raw, "--size", "64x48", "--color", name, "--step", 1)
    ff_json("render", source, *words, "-o", tmp_path / "flags.png")
    np.testing.assert_array_equal(pixels(tmp_path / "chosen.png"), pixels(tmp_path / "flags.png"))
    ff.render({"source": str(source), "objects": [{"kind": "outline"}]}, tmp_path / "scene.png", volume=told)
    with pytest.raises(UsageError, match="not a volume; remove the options of volumes"):
        ff.render("demo:box", tmp_path / "wrong.png", volume=told)
