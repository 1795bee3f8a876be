from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fake_native import INFO
from farfield.errors import DataError, UnknownName, UsageError
from farfield.pictures.colors import DIVERGING, SEQUENTIAL, lut
from farfield.runtime.settings import Settings
from farfield.scene import ColorMap, Lines, Outline, Scene, Surface, Trace, Walls, load_scene, save_scene
from farfield.scene.defaults import compose
from farfield.scene.flags import Shorthand
from farfield.scene.native import to_native


@pytest.fixture
def plain() -> Settings:
    return Settings({}, environ={}, files=[])


@pytest.fixture
def grid(tmp_path: Path) -> str:
    path = tmp_path / "g.xyz"
    path.touch()
    return str(path)


@pytest.mark.parametrize(
    "broken",
    [
        {"objects": [{"kind": "lines"}]},
        {"objects": [{"kind": "lines", "file": "a", "trace": {"seeds": "random:1:1"}}]},
        {"objects": [{"kind": "walls"}]},  # no source
        {"source": "a", "objects": [{"kind": "surface", "surface": "zone1:l=1"}]},
        {"source": "a", "objects": [{"kind": "surface", "surface": "zone1:k=0"}]},
        {"source": "a", "objects": [{"kind": "lines", "trace": {"seeds": "random:1:1", "scalars": ["mach", "mach"]}}]},
        {"size": [0, 3]},
        {"maps": {"m": {"field": "mach", "range": [1, 1]}}},
        {"maps": {"m": {"field": "mach", "range": [0, float("inf")]}}},
        {"camera": {"direction": [0, 0, 0]}},
        {"colour": "red"},
        {"version": 2},
    ],
)
def test_scenes_that_make_no_sense(broken: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Scene.model_validate(broken)


def test_a_scene_survives_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scene = Scene(
        source="g.xyz+q=g.q",
        objects=[Lines(trace=Trace(seeds=[(0, 0, 0)])), Surface(surface="zone1:k=3", color="mach"), Walls(), Outline()],
        maps={"mach": ColorMap(field="mach", range=(0, 1.5))},
    )
    path = Path("s.json")
    save_scene(scene, path)
    assert load_scene(path) == scene
    path.write_text('{"size": [1]}')
    with pytest.raises(UsageError, match=r"s\.json: not a scene: size"):
        load_scene(path)
    with pytest.raises(DataError, match=r"none\.json"):
        load_scene(tmp_path / "none.json")


def test_native_form(plain: Settings, grid: str) -> None:
    scene = Scene(
        source=grid,
        objects=[
            Lines(file="l.vtp", color="density"),
            Walls(color="tomato", mesh=True),
            Surface(surface="zone1:k=2", color="cp"),
            Outline(),
        ],
        maps={"cp": ColorMap(field="pressure_coefficient", range=(-1, 1))},
    )
    native = to_native(scene, plain, INFO)
    json.dumps(native, allow_nan=False)
    lines, walls, surface, outline = native["objects"]
    assert lines["map"] == "density" and lines["file"] == "l.vtp" and "trace" not in lines
    assert walls["walls"] and walls["map"] is None and walls["rgb"] == (255, 99, 71) and walls["mesh"]
    assert (surface["zone"], surface["axis"], surface["index"], surface["map"]) == ("zone1", "k", 2, "cp")
    assert outline["zone"] is None
    assert native["bars"] == ["density", "cp"]
    assert native["maps"]["density"]["lut"] == lut(SEQUENTIAL) and native["maps"]["density"]["center"] is None
    assert native["maps"]["cp"]["lut"] == lut(DIVERGING) and native["maps"]["cp"]["center"] == 0.0
    assert len(native["maps"]["cp"]["lut"]) == 256
    assert native["source"]["path"] == grid


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ({}, "density / rho_inf"),
        ({"units": "kg/m^3"}, "density"),
        ({"units": "1", "label": "rho / rho_inf"}, "rho / rho_inf"),
    ],
)
def test_a_bar_has_one_unit(said: dict[str, str], label: str, plain: Settings, grid: str) -> None:
    info = {**INFO, "fields": [{"name": "density", "long_name": "density / rho_inf", "units": "1"}]}
    scene = Scene(
        source=grid, objects=[Walls(color="m")], maps={"m": ColorMap.model_validate({"field": "density"} | said)}
    )
    native = to_native(scene, plain, info)["maps"]["m"]
    assert (native["label"], native["units"]) == (label, said.get("units", "1"))


def test_a_colour_map_of_the_settings_is_for_fields_without_sign(grid: str) -> None:
    settings = Settings({"cmap": "magma"}, environ={}, files=[])
    scene = Scene(
        source=grid, objects=[Walls(color="density"), Surface(surface="zone1:k=1", color="pressure_coefficient")]
    )
    native = to_native(scene, settings, INFO)
    assert native["maps"]["density"]["lut"] == lut("magma")
    assert native["maps"]["pressure_coefficient"]["lut"] == lut(DIVERGING)


def test_unknown_colour_map_names_near_ones(plain: Settings, grid: str) -> None:
    scene = Scene(source=grid, objects=[Walls(color="m")], maps={"m": ColorMap(field="density", cmap="virids")})
    with pytest.raises(UnknownName, match="viridis"):
        to_native(scene, plain)
    with pytest.raises(UnknownName, match="nocolour"):
        to_native(Scene(background="nocolour"), plain)


def test_default_of_a_flow_with_a_body() -> None:
    scene = compose(INFO, "g")
    assert [o.kind for o in scene.objects] == ["walls", "outline", "lines"]
    trace = next(o.trace for o in scene.objects if isinstance(o, Lines))
    assert trace is not None and isinstance(trace.seeds, str)
    rule, low, high, count = trace.seeds.split(":")
    assert rule == "scatter" and int(count) > 0
    for at in (low, high):
        assert all(0 <= float(v) <= most for v, most in zip(at.split(","), (4, 3, 2), strict=True))
    assert compose(INFO, "g") == scene


def test_default_of_a_plane_and_of_a_bare_grid() -> None:
    plane = {**INFO, "dimension": 2, "zones": [{**INFO["zones"][0], "dims": [9, 5, 1]}]}  # type: ignore[index]
    scene = compose(plane, "g")
    assert scene.objects[0] == Surface(surface="zone1:k=1", color="density")
    assert scene.camera.projection == "orthographic"
    # The body is a line in it.
    assert isinstance(scene.objects[1], Walls) and isinstance(scene.objects[2], Lines)
    assert not any(isinstance(o, Walls) for o in compose({**plane, "walls": []}, "g").objects)
    bare = compose({**INFO, "fields": [], "walls": []}, "g")
    assert [o.surface for o in bare.objects if isinstance(o, Surface) and o.mesh] == [
        "zone1:i=1",
        "zone1:j=1",
        "zone1:k=1",
    ]
    scalar = compose({**INFO, "fields": INFO["fields"][:1], "walls": []}, "g")  # type: ignore[index]
    assert [o.surface for o in scalar.objects if isinstance(o, Surface)] == ["zone1:i=3", "zone1:j=2", "zone1:k=2"]


def test_shorthand_without_a_dataset() -> None:
    scene = Shorthand(
        lines=("a.vtp", "b.npz"), color="mach", cmap="magma", radius=0.5, view="-y", up="0,1,0", bar=False
    ).scene(None)[0]
    assert [o.file for o in scene.objects if isinstance(o, Lines)] == ["a.vtp", "b.npz"]
    assert scene.maps["mach"].cmap == "magma" and not scene.scalar_bar
    assert scene.camera.direction == (0, -1, 0) and scene.camera.up == (0, 1, 0)


@pytest.mark.parametrize(
    "flags",
    [
        {"range": "1"},
        {"range": "a:b"},
        {"view": "up"},
        {"up": "1,2"},
        {"background": "a,b,c"},
        {"cmap": "magma"},
        {"lines": ()},
    ],
)
def test_shorthand_that_makes_no_sense(flags: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Shorthand(**{"lines": ("a.vtp",), **flags}).scene(None)


def test_shorthand_changes_a_scene_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    save_scene(Scene(source="g.xyz", objects=[Walls()], title="old"), path)
    scene = Shorthand(surface_color="mach", range="0:1", title="new", size=(10, 20)).scene(str(path))[0]
    assert scene.objects == [Walls(color="mach")] and scene.maps["mach"].range == (0, 1)
    assert (scene.title, scene.size) == ("new", (10, 20))
