"""Scenes that are saved and drawn again: definitions, time steps, what is kept of pictures that are there, what errors name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import DataError, UnknownName, UsageError
from farfield.scene import Outline, Scene, Surface, default_scene, load_scene, save_scene
from plot3d_files import box, source_of, write
from running import Command, Json
from test_render import pixels

TIMES = (0.5, 1.0, 1.25, 2.0, 3.0)
PLANE = ("--surface", "zone1:k=7", "--color", "density", "--size", "160x120")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a series s_0.xyz+q=s_*.q: density rises with time."""
    for n, time in enumerate(TIMES):
        block = box(17, 15, 13)
        block.q[0] = np.full_like(block.q[0], 1.0 + 0.1 * time) * (1.0 + block.xyz[0])
        write(tmp_path, [block], stem=f"s_{n}", time=time)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SERIES = "s_0.xyz+q=s_*.q"


def pictures(folder: Path, stem: str) -> dict[str, bytes]:
    return {p.name.removeprefix(stem): p.read_bytes() for p in sorted(folder.glob(f"{stem}*.png"))}


def kept(found: dict[str, Any]) -> list[int]:
    return [frame["step"] for frame in found["frames"] if frame["was_there"]]


def test_definitions_are_part_of_a_scene(work: Path, ff_json: Json) -> None:
    one = "s_0.xyz+q=s_0.q"
    words = ("--surface", "zone1:k=7", "--color", "a", "--size", "160x120", "-o")
    ff_json("render", one, *words, "a.png", "--define", "a = density*2", "--save-scene", "def.json")
    assert json.loads(Path("def.json").read_text())["define"] == {"a": "density*2"}
    found = ff_json("render", "def.json", "-o", "b.png")
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes() and "a" in found["maps"]
    # A flag wins, and is saved in its place; others are added.
    more = ("--define", "a = density * 3", "--define", "b = a + 1", "--save-scene", "more.json")
    again = ff_json("render", "def.json", "-o", "c.png", *more)
    assert again["maps"]["a"]["range"] == pytest.approx([1.5 * v for v in found["maps"]["a"]["range"]])
    assert load_scene("more.json").define == {"a": "density * 3", "b": "a + 1"}


def test_definitions_from_python(work: Path) -> None:
    source, size = "s_0.xyz+q=s_0.q", (160, 120)
    surface = Surface(surface="zone1:k=7", color="spd")
    scene = Scene(source=source, size=size, objects=[surface], define={"spd": "2 * density"})
    assert Scene.model_validate({"define": ["spd = 2 * density"]}).define == scene.define
    first = farfield.render(scene, "a.png", progress=False)
    with pytest.raises(ValueError, match="no definition"):
        Scene.model_validate({"define": ["spd"]})
    with farfield.open(source, define=["half = density / 2"]) as ds:
        ds.define("spd = 2 * density")
        assert default_scene(ds).define == {"half": "density / 2", "spd": "2 * density"}
        chosen = default_scene(ds).model_copy(update={"objects": [surface], "size": size})
        found = farfield.render(chosen, "b.png", progress=False)
        assert found["maps"]["spd"]["range"] == first["maps"]["spd"]["range"]
        farfield.render(ds, "c.png", size=size, progress=False)
    farfield.convert(source, "few.zarr", fields=["spd"], define={"spd": "density + density"}, progress=False)
    with farfield.open("few.zarr") as ds:
        assert ds["spd"][0, 0, 0] > 2


def test_pictures_are_known_wherever_the_scene_is_named_from(work: Path, ff_json: Json) -> None:
    save_scene(Scene(source=SERIES, size=(80, 60), objects=[Surface(surface="zone1:k=7", color="density")]), "sc.json")
    words = ("-o", "f_%d.png", "--frames", "0:4", "--resume")
    assert kept(ff_json("render", "sc.json", *words)) == []
    before = pictures(work, "f_")
    assert kept(ff_json("render", work / "sc.json", *words)) == [0, 1, 2, 3]
    (work / "sub").mkdir()
    assert kept(ff_json("render", "../sc.json", "-o", "../f_%d.png", *words[2:], cwd=work / "sub")) == [0, 1, 2, 3]
    scene = load_scene("sc.json").model_copy(update={"source": f"{work}/s_0.xyz+q={work}/s_*.q"})
    assert kept(farfield.render(scene, "f_%d.png", frames="0:4", resume=True, progress=False)) == [0, 1, 2, 3]
    assert pictures(work, "f_") == before


def test_it_is_said_why_pictures_are_drawn_anew(work: Path, ff: Command) -> None:
    words = ("render", SERIES, *PLANE, "-o", "f_%d.png", "--resume", "--frames", "0:3")
    assert "redrawn" not in ff(*words).stdout
    assert "redrawn  3 pictures there are of another scene" in ff(*words, "--title", "T").stdout
    assert "redrawn" not in ff(*words, "--title", "T").stdout
    assert "with other ranges of colours, another camera" in ff(*words, "--title", "T", "--range", "0:9").stdout
    shutil.copy("s_1.q", "other.q")
    shutil.move("other.q", "s_1.q")
    said = ff(*words, "--title", "T", "--range", "0:9").stdout
    assert "redrawn  3 pictures there are of other data: drawn anew" in said


def test_a_saved_scene_draws_the_pictures_again(work: Path, ff_json: Json) -> None:
    first = ff_json("render", SERIES, *PLANE, "-o", "f_%d.png", "--frames", "0:5:2", "--save-scene", "sc.json")
    scene = load_scene("sc.json")
    assert scene.frames == "0:5:2" and list(scene.maps["density"].range or ()) == first["maps"]["density"]["range"]
    assert list(scene.camera.target or ()) == first["camera"]["target"] and scene.camera.distance is not None
    before = pictures(work, "f_")
    assert sorted(before) == ["0.png", "2.png", "4.png"]
    # Without a look at what is there it draws the same pixels ...
    ff_json("render", "sc.json", "-o", "g_%d.png")
    for n in (0, 2, 4):
        assert (pixels(work / f"f_{n}.png") == pixels(work / f"g_{n}.png")).all(), n
    # ... and keeps what is there, of fewer steps and of more.
    assert kept(ff_json("render", "sc.json", "-o", "f_%d.png", "--resume")) == [0, 2, 4]
    assert kept(ff_json("render", "sc.json", "-o", "f_%d.png", "--resume", "--frames", "2")) == [2]
    assert kept(ff_json("render", "sc.json", "-o", "f_%d.png", "--resume", "--frames", "0:5")) == [0, 2, 4]
    after = pictures(work, "f_")
    assert {name: after[name] for name in before} == before and len(after) == 5
    # Another range is another picture.
    document = json.loads(Path("sc.json").read_text())
    document["maps"]["density"]["range"] = [0, 9]
    Path("sc.json").write_text(json.dumps(document))
    assert kept(ff_json("render", "sc.json", "-o", "f_%d.png", "--resume")) == []


def test_views_are_saved_as_they_were_found(work: Path, ff_json: Json) -> None:
    scene = Scene.model_validate({
        "source": SERIES, "size": (80, 60), "objects": [Outline(), Surface(surface="zone1:k=7", color="density")],
        "views": [{"name": "a"}, {"name": "b", "camera": {"direction": (1, 0, 0), "projection": "orthographic"}}],
    })  # fmt: skip
    save_scene(scene, "in.json")
    ff_json("render", "in.json", "-o", "{view}_%d.png", "--frames", "1,3", "--save-scene", "out.json")
    saved = load_scene("out.json")
    assert saved.frames == [1, 3] and [v.camera is not None for v in saved.views] == [True, True]
    assert kept(ff_json("render", "out.json", "-o", "{view}_%d.png", "--resume")) == [1, 3]


def test_what_is_infinite_has_no_colour_and_no_part_in_a_range(work: Path, ff: Command, ff_json: Json) -> None:
    one = "s_0.xyz+q=s_0.q"
    words = ("render", one, "--surface", "zone1:k=7", "--color", "a", "--size", "160x120", "--no-axes", "-o", "a.png")
    found = ff_json(*words, "--define", "a = 1 / (density - density)")
    assert found["maps"]["a"]["range"] is None
    assert "no finite value" in ff(*words, "--define", "a = 1 / (density - density)").stdout
    middle = pixels(work / "a.png")[55:65, 75:85].astype(int)
    assert np.ptp(middle.reshape(-1, 3), axis=1).max() < 40, "it is not grey"
    # Half of it infinite: the range is that of the rest.
    half = ff_json(*words, "--define", "a = where(x < 0.5, density / (x - x) * (1 'L'), density)")["maps"]["a"]["range"]
    whole = ff_json(*words, "--define", "a = density")["maps"]["a"]["range"]
    assert whole[0] < half[0] < half[1] == pytest.approx(whole[1])
    for place in ((0.43, 0.51, 0.36), (0.5, 0.5, 0.5)):
        with farfield.open(one, define={"up": "1 / (x - x)", "down": "-up", "none": "(x - x) / (x - x)"}) as ds:
            probed = ds.probe(place, fields=["up", "down", "none"])
        assert probed is not None and probed.values["up"] == np.inf and probed.values["down"] == -np.inf
        assert np.isnan(probed.values["none"])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"color": "densty"}, "objects.1.color: no field named 'densty'; did you mean 'density'?"),
        ({"surface": "zoneX:k=1"}, "objects.1.surface: no zone named 'zoneX'"),
        ({"surface": "zone1:k=99"}, "objects.1.surface: zone1: k = 99"),
        ({"kind": "outline", "color": "nosuch"}, "objects.1.color: no colour named 'nosuch'"),
        ({"kind": "outline", "zone": "zoneX"}, "objects.1.zone: no zone named 'zoneX'"),
        ({"kind": "lines", "trace": {"seeds": "random:3:1", "stop": "mach >"}}, "objects.1.trace.stop: "),
        ({"kind": "lines", "trace": {"seeds": "random:3:1", "field": "mach"}}, "objects.1.trace"),
        ({"colour": "red"}, "objects.1.colour: no key 'colour'; did you mean 'color'? there are: kind, surface, "),
        ({"kind": "surfaces"}, "objects.1: no kind 'surfaces'; did you mean 'surface'?"),
    ],
)
def test_errors_name_the_scene_and_the_key(change: dict[str, Any], place: str, work: Path, ff: Command) -> None:
    drawn = {"kind": "surface", "surface": "zone1:k=7", **change}
    if drawn["kind"] in ("outline", "lines"):
        del drawn["surface"]
    document = {"source": "s_0.xyz+q=s_0.q", "size": [80, 60], "objects": [{"kind": "outline"}, drawn]}
    Path("sc.json").write_text(json.dumps(document))
    said = ff("render", "sc.json", "-o", "p.png", ok=(2,)).stderr
    assert "sc.json: " in said and place in said and "Extra inputs" not in said, said


def test_other_places_of_errors(work: Path, ff: Command) -> None:
    drawn = {"kind": "surface", "surface": "zone1:k=7", "color": "m"}
    base: dict[str, Any] = {"source": "s_0.xyz+q=s_0.q", "objects": [drawn]}
    for more, place in (
        ({"maps": {"m": {"field": "nosuch"}}}, "maps.m.field: no field named 'nosuch'"),
        ({"maps": {"m": {"field": "density", "cmap": "viridiss"}}}, "maps.m.cmap: no colour map named 'viridiss'"),
        ({"maps": {"m": {"field": "density"}}, "step": 4}, "step: there is no time step 4"),
        ({"define": {"m": "density +"}}, "define.m: 'm = density +'"),
        ({"define": {"m": "densitty"}}, "did you mean 'density'?"),
        ({"camera": {"zom": 2}}, "camera.zom: no key 'zom'; did you mean 'zoom'?"),
    ):
        Path("sc.json").write_text(json.dumps({**base, **more}))
        said = ff("render", "sc.json", "-o", "p.png", ok=(2,)).stderr
        assert "sc.json: " in said and place in said, said
    # What flags say is nobody's place in a scene.
    said = ff("render", "s_0.xyz+q=s_0.q", *PLANE[:2], "--color", "presure", "-o", "p.png", ok=(2,)).stderr
    assert "no field named 'presure'; did you mean 'pressure'? there are: " in said and "objects" not in said
    said = ff(
        "probe", "s_0.xyz+q=s_0.q", 0.5, 0.5, 0.5, "--define", "mine = 2 * mach", "--fields", "mina", ok=(2,)
    ).stderr
    assert "did you mean 'mine'? there are: density, " in said
    said = ff("probe", "s_0.xyz+q=s_0.q", 0.5, 0.5, 0.5, "--define", "mine = mins", ok=(2,)).stderr
    assert "mine," not in said.split("there are")[1]
    with pytest.raises(UnknownName, match=r"objects\.0\.color: no field named 'no'"):
        farfield.render(Scene(source="s_0.xyz+q=s_0.q", objects=[Surface(surface="zone1:k=7", color="no")]), "p.png")


def test_a_new_folder_is_made(work: Path, ff: Command) -> None:
    ff("render", SERIES, *PLANE, "-o", "new/", "--frames", "0:2")
    assert sorted(p.name for p in (work / "new").iterdir()) == ["frame_0000.png", "frame_0001.png"]
    assert "there is no folder" in ff("render", SERIES, *PLANE, "-o", "no/new/", ok=(2,)).stderr
    # Where nothing is drawn there is none.
    ff("render", SERIES, *PLANE[:2], "--color", "presure", "-o", "other/", ok=(2,))
    assert not (work / "other").exists()


def test_a_flow_map_is_told_from_a_dataset(work: Path, ff: Command, ff_json: Json) -> None:
    words = ("--seeds-grid", "0.3:0.6:3,0.3:0.6:2,0.5", "--t0", 0.5, "--t1", 1.0, "--quantity", "residence,ftle")
    ff("flowmap", SERIES, *words, "-o", "map.zarr")
    said = ff("info", "map.zarr").stdout
    assert "flow map" in said and 'xarray.open_zarr("map.zarr")' in said and "residence_time" in said, said
    found = ff_json("info", "map.zarr")
    arrays = {a["name"]: a for a in found["arrays"]}
    assert arrays["ftle"]["shape"] == [1, 2, 3] and arrays["ftle"]["release_time"] == 0.5
    done = ff("render", "map.zarr", "-o", "p.png", ok=(1,))
    assert "flow map" in done.stderr and "not drawn" in done.stderr and done.stderr.count("\n") == 1
    with pytest.raises(DataError, match="flow map"):
        farfield.open("map.zarr")


def test_labels_of_what_is_made(tmp_path: Path, ff_json: Json) -> None:
    flow = source_of(*write(tmp_path, [box(9, 8, 7)]))
    define = {"vz": "vorticity_z", "a": "1 / density", "b": "velocity_magnitude ^ 2 / x"}
    with farfield.open(flow, define=define) as ds:
        labels = {f["name"]: f["long_name"] for f in ds.info()["fields"]}
    assert (labels["vz"], labels["a"], labels["b"]) == ("vz / (a_inf / L)", "a / (1 / rho_inf)", "b / (a_inf^2 / L)")
    # Of a store that holds the velocity without dimension, too.
    farfield.convert(flow, tmp_path / "v.zarr", fields=["velocity"], progress=False)
    with farfield.open(tmp_path / "v.zarr", define={"vz": "vorticity_z"}) as ds:
        labels = {f["name"]: f["long_name"] for f in ds.info()["fields"]}
        assert (
            labels["vz"] == "vz / (a_inf / L)" and labels["vorticity_magnitude"] == "vorticity magnitude / (a_inf / L)"
        )


def test_bad_definitions_are_said_as_the_command_line_says_them(work: Path) -> None:
    with pytest.raises(UsageError, match="is no definition; write NAME = EXPRESSION"):
        farfield.open("s_0.xyz+q=s_0.q", define=["density"])
    with farfield.open("s_0.xyz+q=s_0.q") as ds, pytest.raises(UsageError, match="is no definition"):
        ds.define("density")
