"""What is wrong in a scene is told in its own words: the file, the key, and what to write there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import UnknownName, UsageError
from farfield.pictures.colors import find_color
from farfield.runtime.settings import Settings
from farfield.scene import Scene, Volume, Walls, load_scene
from farfield.scene.models import Labels
from farfield.scene.native import to_native
from plot3d_files import box, write
from running import Command
from test_volume_looks import drawn, nrrd, volume_scene

SIZE = [64, 48]


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    """Values 0 to 15 along x, in 16 voxels along each axis."""
    return nrrd(tmp_path / "ramp.nrrd", np.broadcast_to(np.arange(16, dtype=np.uint8), (16, 16, 16)).copy())


@pytest.fixture
def flow(tmp_path: Path) -> str:
    """A box of one zone: density is 1 + x."""
    block = box(9, 8, 7)
    block.q[0] = 1.0 + block.xyz[0]
    write(tmp_path, [block])
    return "flow.xyz+q=flow.q"


def says(ff: Command, folder: Path, source: str, *objects: dict[str, Any], ok: int = 2, **more: Any) -> str:
    """What is said of a scene that is not drawn."""
    path = folder / "scene.json"
    path.write_text(json.dumps({"source": source, "size": SIZE, "objects": objects, **more}))
    said = ff("render", path, "-o", folder / "a.png", ok=(ok,)).stderr
    assert said.startswith(f"farfield: error: {path}: ") and said.count("\n") == 1, said
    assert not (folder / "a.png").exists()
    return said.removeprefix(f"farfield: error: {path}: ")


def test_a_point_beside_a_volume_is_told_as_the_point(ramp: Path, ff: Command) -> None:
    local = {"kind": "contour", "values": [7.5], "near": [99, 3, 4]}
    said = says(ff, ramp.parent, "ramp.nrrd", {"kind": "outline"}, local)
    assert said.startswith("objects.1.near: the point (99, 3, 4) lies outside") and "choose a point" in said
    # On the surface nothing is said.
    farfield.render(
        {"source": str(ramp), "size": SIZE, "objects": [{**local, "near": [7.5, 3, 4]}]}, ramp.parent / "b.png"
    )


def test_a_point_beside_a_flow_is_told_as_the_point(flow: str, tmp_path: Path, ff: Command) -> None:
    local = {"kind": "contour", "field": "density", "values": [1.5], "near": [99, 3, 4]}
    said = says(ff, tmp_path, flow, local)
    assert said.startswith("objects.0.near: the point (99, 3, 4) lies in no zone") and "choose a point" in said
    # What is wrong with the field stays with the field.
    assert says(ff, tmp_path, flow, {**local, "field": "densty"}).startswith("objects.0.field: no field named 'densty'")


def test_a_point_far_from_the_surface_is_told_with_its_numbers(ramp: Path, ff: Command) -> None:
    local = {"kind": "contour", "values": [99.0], "near": [2, 3, 4.5]}
    assert says(ff, ramp.parent, "ramp.nrrd", local).startswith("objects.0.near: ") is True
    assert "the point (2, 3, 4.5)" in says(ff, ramp.parent, "ramp.nrrd", local)


@pytest.mark.parametrize(
    ("colors", "said"),
    [
        ({"3": "rde"}, "objects.0.labels.colors.3: no colour named 'rde'"),
        ({"3": "#ff000080"}, "objects.0.labels.colors.3: '#ff000080' is clear or partly clear"),
        ({"three": "red"}, "not a scene: objects.0.labels.colors: 'three' is no label"),
        ({"-3": "red"}, "not a scene: objects.0.labels.colors: '-3' is no label"),
        ({str(1 << 64): "red"}, "not a scene: objects.0.labels.colors: '18446744073709551616' is no label"),
        ({"3": 7}, "not a scene: objects.0.labels.colors.3: "),
    ],
)
def test_colors_of_labels_are_told_with_file_and_key(
    colors: dict[str, Any], said: str, ramp: Path, ff: Command
) -> None:
    assert says(ff, ramp.parent, "ramp.nrrd", {"kind": "volume", "labels": {"colors": colors}}).startswith(said)


def test_labels_may_be_numbers_in_python() -> None:
    colors: Any = {3: "red", "4": "blue"}
    assert Labels(colors=colors).colors == {"3": "red", "4": "blue"}
    assert Labels(colors={str((1 << 64) - 1): "red"}).colors


def test_one_letter_is_no_colour(ramp: Path, flow: str, tmp_path: Path, ff: Command) -> None:
    assert find_color("magenta") == (255, 0, 255) and find_color("m") is None and find_color(" k ") is None
    said = says(ff, ramp.parent, "ramp.nrrd", {"kind": "volume", "color": "m"})
    assert said.startswith("objects.0.color: no channel, map or colour named 'm' in ")
    assert "the channels are: ramp; a colour is written like '#ff8000' or 'tomato'" in said and "'maps'" in said
    said = says(ff, tmp_path, flow, {"kind": "surface", "surface": "zone1:k=1", "color": "m"})
    assert said.startswith("objects.0.color: no field named 'm'")


def test_a_colour_map_in_place_of_a_field_is_told(ramp: Path, flow: str, tmp_path: Path, ff: Command) -> None:
    said = says(ff, ramp.parent, "ramp.nrrd", {"kind": "volume", "color": "viridis"})
    assert '"maps": {"ramp": {"field": "ramp", "cmap": "viridis"}}' in said and "'viridis' is a colour map" in said
    said = says(ff, tmp_path, flow, {"kind": "surface", "surface": "zone1:k=1", "color": "viridis"})
    assert said.startswith("objects.0.color: no field named 'viridis'; 'viridis' is a colour map") and '"cmap"' in said
    # What it says works.
    maps = {"ramp": {"field": "ramp", "cmap": "viridis"}}
    scene = {"source": str(ramp), "size": SIZE, "objects": [{"kind": "volume", "color": "ramp"}], "maps": maps}
    assert farfield.render(scene, tmp_path / "b.png")["maps"]["ramp"]["field"] == "ramp"


@pytest.mark.parametrize("color", ["transparent", "none", "rgba(255, 0, 0, 0.5)"])
def test_a_clear_colour_is_not_black(color: str, ramp: Path, ff: Command) -> None:
    for objects, more, key in (
        ([{"kind": "volume", "color": color}], {}, "objects.0.color"),
        ([{"kind": "outline", "color": color}], {}, "objects.0.color"),
        ([{"kind": "volume"}], {"background": color}, "background"),
        ([{"kind": "volume"}], {"lights": [{"direction": [0, 0, 1], "color": color}]}, "lights.0.color"),
    ):
        said = says(ff, ramp.parent, "ramp.nrrd", *objects, **more)
        assert said.startswith(f"{key}: '{color}' is clear or partly clear, and colours are opaque"), said


@pytest.mark.parametrize("length", [1e300, 1e-300, 1.7e308, 5e-324])
def test_of_a_direction_the_length_does_not_matter(length: float, ramp: Path, tmp_path: Path) -> None:
    def picture(length: float, name: str) -> Any:
        ways: Any = [[length, 0, 0], [0, length, 0], [length, length, -length], [-length, 0, length]]
        scene = volume_scene(ramp, shading={}, planes=[{"normal": ways[2], "origin": [7, 7, 7]}])
        scene["objects"].append({"kind": "slice", "normal": ways[2], "origin": [7, 7, 7]})
        scene["lights"] = [{"direction": ways[3], "fixed_to": "scene"}]
        scene["camera"] = {"direction": ways[2], "up": ways[1]}
        scene["path"] = [{"frame": 0, "camera": {"direction": ways[2]}}]
        return drawn(scene, tmp_path / name)[0]

    assert np.array_equal(picture(1.0, "a.png"), picture(length, "b.png"))


def test_a_direction_of_no_numbers_is_told(ramp: Path) -> None:
    for key, value, said in (
        ("direction", [0, 0, 0], "camera.direction: a direction has a length"),
        ("up", [0, float("nan"), 0], "camera.up: a direction is made of finite numbers"),
    ):
        path = ramp.parent / "scene.json"
        path.write_text(json.dumps({"source": "ramp.nrrd", "camera": {key: value}}))
        with pytest.raises(UsageError, match=re.escape(f"{path}: not a scene: {said}")):
            load_scene(path)


def test_nothing_is_defined_in_a_volume(ramp: Path, ff: Command) -> None:
    said = says(ff, ramp.parent, "ramp.nrrd", {"kind": "volume"}, define={"twice": "2 * ramp"})
    assert said.startswith("define.twice: ") and "ramp.nrrd is a volume" in said and "name a channel: ramp" in said
    with pytest.raises(UsageError, match=r"^define\.twice: "):
        farfield.render(
            Scene(source=str(ramp), objects=[Volume()], define={"twice": "2 * ramp"}), ramp.parent / "a.png"
        )


def test_a_colour_of_flows_is_placed_without_a_dataset() -> None:
    scene = Scene(source="demo:box", objects=[Walls(color="m")])
    fields = {"fields": [{"name": "mach", "components": 1}]}
    # What the extension has words for is left to it.
    assert to_native(scene, Settings(), fields)["objects"][0]["map"] == "m"
    with pytest.raises(UnknownName, match=r"^objects\.0\.color: no field named 'magma'"):
        to_native(scene.model_copy(update={"objects": [Walls(color="magma")]}), Settings(), fields)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"camera": {"target": [1e300, 0, 0]}}, "not a scene: camera.target: [1e+300, 0.0, 0.0] is too far away"),
        ({"camera": {"distance": 1e300}}, "not a scene: camera.distance: 1e+300 is no length"),
        ({"camera": {"distance": 1e-300}}, "not a scene: camera.distance: 1e-300 is no length"),
        ({"camera": {"target": [1e9, 1e9, 1e9], "distance": 1e-9}}, "camera: the camera's position and target are the same"),
        ({"camera": {"projection": "orthographic", "zoom": 1e-300}}, "not a scene: camera: zoom 1e-300 is not a picture"),
        ({"camera": {"projection": "orthographic", "zoom": 1e300}}, "not a scene: camera: zoom 1e+300 is not a picture"),
        ({"maps": {"m": {"field": "ramp", "range": [-1e308, 1e308]}}}, "not a scene: maps.m.range: -1e+308 to 1e+308 is too wide"),
        ({"size": [100000, 1]}, "size: a picture of 100000 x 1 pixels cannot be drawn"),
        ({"objects": [{"kind": "volume"}] * 40}, "objects: a picture takes 16 volumes and channels at most, not 40"),
        ({"objects": [{"kind": "outline", "zone": "zone1"}]}, "objects.0.zone: "),
        ({"objects": [{"kind": "outline", "width": 3000}]}, "not a scene: objects.0.width: 3000 pixels are no width"),
        ({"objects": [{"kind": "volume", "unit": 1e300}]}, "not a scene: objects.0.unit: 1e+300 is no length"),
        ({"objects": [{"kind": "volume", "background": "nocolour"}]}, "objects.0.background: no colour named 'nocolour'"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told_with_file_and_key(
    more: dict[str, Any], said: str, ramp: Path, ff: Command
) -> None:
    objects = more.pop("objects", [{"kind": "volume", "color": "m" if "maps" in more else None}])
    assert says(ff, ramp.parent, "ramp.nrrd", *objects, **more).startswith(said)


@pytest.mark.parametrize(
    ("objects", "more", "said"),
    [
        ({"field": "density", "color": "mach"}, {}, "objects.0.color: a volume is coloured by its own field, 'density', not 'ma"),
        ({"field": "density", "color": "k"}, {}, "objects.0.color: no map, field or colour named 'k'; a volume is coloured by"),
        ({"color": "m"}, {"define": {"m": "density"}}, "objects.0.color: a volume is coloured by its own field, 'density', not"),
        ({"color": "m"}, {"maps": {"m": {"field": "mach"}}}, "maps.m.field: a volume is coloured by its own field, 'density', and"),
        ({"labels": {}}, {}, "objects.0.labels: the source is a flow, and 'labels' is for volumes"),
        ({"opacity_from": "alpha"}, {}, "objects.0.opacity_from: the source is a flow"),
        ({"level": 0}, {}, "objects.0.level: the source is a flow"),
        ({"slices": {"i": [1, 2]}}, {}, "objects.0.slices: the source is a flow"),
        ({"interpolation": "nearest"}, {}, "objects.0.interpolation: the source is a flow"),
        ({}, {"define": {"k k": "density"}}, "define.k k: 'k k' cannot be the name of a definition"),
    ],
)  # fmt: skip
def test_what_a_field_of_a_flow_has_not_is_told_with_its_key(
    objects: dict[str, Any], more: dict[str, Any], said: str, flow: str, tmp_path: Path, ff: Command
) -> None:
    assert says(ff, tmp_path, flow, {"kind": "volume", **objects}, **more).startswith(said)


def test_what_names_no_field_shows_the_first(flow: str, tmp_path: Path) -> None:
    source = "+q=".join(str(tmp_path / part) for part in flow.split("+q="))

    def picture(*objects: dict[str, Any]) -> Any:
        return drawn({"source": source, "objects": objects}, tmp_path / "a.png")[0]

    for null, said in (
        ({"kind": "volume"}, {"kind": "volume", "field": "density"}),
        ({"kind": "contour", "values": [1.5]}, {"kind": "contour", "values": [1.5], "field": "density"}),
        ({"kind": "slice"}, {"kind": "slice", "color": "pressure"}),
    ):
        assert np.array_equal(picture(null), picture(said)), null
        assert not np.array_equal(picture(null), picture({"kind": "outline"}))


def test_a_channel_is_coloured_by_itself(tmp_path: Path, ff: Command) -> None:
    data = np.zeros((8, 8, 8, 3), np.uint8)
    data[2:5] = 200
    nrrd(tmp_path / "rgb.nrrd", data)
    with farfield.open(tmp_path / "rgb.nrrd") as volume:
        first, second, _ = (c.name for c in volume.channels)
    said = says(ff, tmp_path, "rgb.nrrd", {"kind": "volume", "field": first, "color": second})
    assert said.startswith(
        f"objects.0.color: a volume is coloured by its own field, '{first}', not '{second}'; remove the color"
    )


def test_lines_of_which_there_are_none_are_told(flow: str, tmp_path: Path) -> None:
    def warnings(seeds: Any) -> list[str]:
        lines = {"kind": "lines", "trace": {"seeds": seeds, "max_length": 0.2}}
        source = "+q=".join(str(tmp_path / part) for part in flow.split("+q="))
        found = farfield.render({"source": source, "size": SIZE, "objects": [lines]}, tmp_path / "a.png")
        return list(found["stats"]["warnings"])

    assert warnings([[99, 0, 0]]) == [
        "streamlines: nothing is drawn of it: no line comes of its seeds, or its file holds none"
    ]
    assert warnings([[0.6, 0.5, 0.3]]) == []


def test_voxels_may_be_cut_far_behind_the_last(ramp: Path, tmp_path: Path) -> None:
    wide = drawn(volume_scene(ramp, slices={"i": [3, 10**30]}), tmp_path / "a.png")[0]
    assert np.array_equal(wide, drawn(volume_scene(ramp, slices={"i": [3, 16]}), tmp_path / "b.png")[0])
