"""Paths in a scene file are relative to its folder, wherever it is drawn from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import farfield
from farfield.cli import run
from farfield.errors import DataError, UsageError
from farfield.scene import Lines, Outline, Scene, Trace, load_scene, save_scene
from plot3d_files import Block, write
from running import Command


@pytest.fixture
def case(flow_blocks: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders `data`, with a flow, lines and seeds, and `work`, from which is worked."""
    home = tmp_path / "case"
    for name in ("data", "work", "work/scenes"):
        (home / name).mkdir(parents=True)
    write(home / "data", flow_blocks)
    (home / "data" / "seeds.csv").write_text("x,y,z\n0.7,0.5,0.3\n")
    with farfield.open(home / "data/flow.xyz", q=home / "data/flow.q") as ds:
        ds.streamlines(seeds=[(0.6, 0.5, 0.3)], max_length=0.3).save(home / "data/l.vtp")
    monkeypatch.chdir(home / "work")
    return home


def names_in(path: Path | str) -> list[str | None]:
    found = json.loads(Path(path).read_text())
    files = [o.get("file") or (o.get("trace") or {}).get("seeds") for o in found["objects"] if o["kind"] == "lines"]
    return [found["source"], *files]


def scene_of(folder: str) -> Scene:
    return Scene(
        source=f"{folder}/flow.xyz+q={folder}/flow*.q",
        size=(80, 60),
        objects=[
            Outline(),
            Lines(file=f"{folder}/l.vtp"),
            Lines(trace=Trace(seeds=f"{folder}/seeds.csv", max_length=0.2)),
            Lines(trace=Trace(seeds="random:3:1", max_length=0.2)),
        ],
    )


def test_a_saved_scene_is_drawn_from_anywhere(
    case: Path, tmp_path: Path, ff: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--lines", "../data/l.vtp", "--seeds", "../data/seeds.csv", "--size", "80x60", "-q")
    ff("render", "../data/flow.xyz+q=../data/flow*.q", *words, "-o", "a.png", "--save-scene", "scenes/sc.json")
    above = "../../data"
    assert names_in("scenes/sc.json") == [
        f"{above}/flow.xyz+q={above}/flow*.q", f"{above}/l.vtp", f"{above}/seeds.csv",
    ]  # fmt: skip
    moved = tmp_path / "moved"
    shutil.copytree(case, moved)
    shutil.rmtree(case / "data")
    monkeypatch.chdir("/")
    ff("render", moved / "work/scenes/sc.json", "-o", moved / "b.png", "-q", cwd=tmp_path)
    farfield.render(moved / "work/scenes/sc.json", moved / "c.png", progress=False)
    first = (case / "work/a.png").read_bytes()
    assert first == (moved / "b.png").read_bytes() == (moved / "c.png").read_bytes()


def test_names_are_relative_where_files_are_near(case: Path) -> None:
    save_scene(scene_of("../data"), case / "data" / "in.json")
    assert names_in(case / "data/in.json") == ["flow.xyz+q=flow*.q", "l.vtp", "seeds.csv", "random:3:1"]
    save_scene(scene_of(str(case / "data")), case / "up.json")
    assert names_in(case / "up.json")[:2] == ["data/flow.xyz+q=data/flow*.q", "data/l.vtp"]
    far = case / "work/scenes/1/2"
    far.mkdir(parents=True)
    save_scene(scene_of("../data"), far / "far.json")
    data = str(case / "data")
    assert names_in(far / "far.json") == [
        f"{data}/flow.xyz+q={data}/flow*.q", f"{data}/l.vtp", f"{data}/seeds.csv", "random:3:1",
    ]  # fmt: skip
    # `..` behind a link leads elsewhere.
    (case / "link").symlink_to("work/scenes/1")
    save_scene(scene_of("../data"), "../link/sc.json")
    assert names_in(case / "link/sc.json")[1] == f"{data}/l.vtp"
    for path in (case / "data/in.json", case / "up.json", far / "far.json", case / "link/sc.json"):
        loaded = load_scene(path)
        assert [Path(o.file).resolve() for o in loaded.objects if isinstance(o, Lines) and o.file] == [
            case / "data/l.vtp"
        ], path


def test_what_is_no_path_stays(case: Path) -> None:
    scene = Scene(source="demo:box", objects=[Outline(), Lines(trace=Trace(seeds=[(0, 0, 0)]))])
    save_scene(scene, "../data/sc.json")
    assert load_scene("../data/sc.json") == scene and names_in("../data/sc.json")[0] == "demo:box"


def test_a_name_with_parts_is_one_file(case: Path) -> None:
    odd = case / "data" / "a+q=b.xyz"
    shutil.copy(case / "data/flow.xyz", odd)
    save_scene(Scene(source="../data/a+q=b.xyz"), "scenes/sc.json")
    assert names_in("scenes/sc.json") == ["../../data/a+q=b.xyz"]
    assert Path(str(load_scene("scenes/sc.json").source)).resolve() == odd.resolve()


@pytest.mark.parametrize("gone", ["flow.xyz", "flow.q", "l.vtp", "seeds.csv"])
def test_an_error_names_the_scene_and_its_folder(gone: str, case: Path, ff: Command) -> None:
    save_scene(scene_of("../data"), "scenes/sc.json")
    (case / "data" / gone).unlink()
    said = ff("render", "scenes/sc.json", "-o", "p.png", ok=(1,)).stderr
    words = ("scenes/sc.json: ", gone if gone != "flow.q" else "flow*.q", str(case / "work" / "scenes"))
    assert all(word in said for word in words) and said.count("\n") == 1, said
    with pytest.raises(DataError, match=r"scenes/sc\.json"):
        farfield.render("scenes/sc.json", "p.png", progress=False)


def test_a_scene_is_not_its_own_source(tmp_path: Path, ff: Command) -> None:
    (tmp_path / "s.json").write_text('{"source": "s.json", "objects": [{"kind": "volume"}]}')
    said = ff("render", str(tmp_path / "s.json"), "-o", str(tmp_path / "p.png"), ok=(2,)).stderr
    assert "s.json: source: this is the scene itself; name the data" in said and said.count("\n") == 1, said


def test_a_dictionary_is_a_scene_of_the_working_folder(case: Path) -> None:
    document: dict[str, Any] = scene_of("../data").model_dump(mode="json")
    drawn = farfield.render(document, "a.png", progress=False)
    assert drawn["size"] == [80, 60] and [d["kind"] for d in drawn["drawn"]].count("lines") == 3
    with pytest.raises(UsageError, match="not a scene: bogus"):
        farfield.render({"bogus": 1}, "a.png")
    for no_scene in (3, None, [document]):
        with pytest.raises(UsageError, match="a scene, a dataset or a source"):
            farfield.render(no_scene, "a.png")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"objects": [{"kind": "volume", "wihtin": 1}]}, "objects.0.wihtin: no key 'wihtin'; did you mean 'within'? "),
        ({"objects": [{"kind": "volume", "shading": {"powr": 3}}]}, "no key 'powr'; did you mean 'power'? "),
        (
            {"objects": [{"kind": "volume", "planes": [{"normal": [0, 0, 1], "origin": [0, 0, 0], "norml": 3}]}]},
            "did you mean 'normal'? there are: normal, origin",
        ),
        (
            {"background": [255, 0, 0]},
            "s.json: not a scene: background: one colour, or two in a list: of the top and of the bottom",
        ),
        ({"frames": {"from": 1}}, 'not a scene: frames: text like "0:100:2", or time steps in a list'),
        (
            {"objects": [{"kind": "slice", "normal": "w"}]},
            "not a scene: objects.0.normal: x, y or z, or three numbers in a list",
        ),
        ({"objects": [{"kind": "slice", "normal": [1, 0]}]}, "objects.0.normal: x, y or z, or three numbers in a list"),
        (
            {"objects": [{"kind": "lines", "trace": {"seeds": [[1, 2]]}}]},
            "objects.0.trace.seeds: text as 'farfield trace'",
        ),
        ({"objects": [{"kind": "slcie"}]}, "objects.0: no kind 'slcie'; did you mean 'slice'? "),
        ({"objects": [{"kind": "cone"}]}, "surface, walls, contour, slice, cores, volume, outline"),
        ({"lights": [{"color": "red", "direction": [1, 0, 0], "intens": 1}]}, "did you mean 'intensity'? "),
        ({"path": [{"frame": 0, "camera": {"zom": 2}}]}, "path.0.camera.zom: no key 'zom'; did you mean 'zoom'? "),
    ],
)
def test_an_unknown_key_is_told_with_those_that_there_are_in_its_place(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"source": "a.nrrd", **change}))
    with pytest.raises(UsageError) as told:
        load_scene(tmp_path / "s.json")
    assert said in str(told.value) and "budget_s" not in str(told.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty; mend it"),
        (b'{"version"', "it is not JSON (EOF while parsing an object at line 1 column 10); mend it"),
        (b'{"version": 1, "title": "\xe9"}', "its byte 26 is none of text in UTF-8; save it as UTF-8"),
    ],
)
def test_what_is_no_text_of_a_scene_says_what_to_do(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert run(["render", str(path), "-o", str(tmp_path / "a.png")]) == 2
    error = capsys.readouterr().err
    assert f"{path}: not a scene: {said}" in error and "farfield scene SRC -o FILE" in error
    path.unlink()
    assert run(["render", str(path), "-o", str(tmp_path / "a.png")]) == 1
    assert f"{path}: there is no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["npz", "vtp"])
@pytest.mark.parametrize("what", ["empty", "cut", "text"])
def test_a_damaged_file_of_lines_says_what_to_do(
    ending: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"a.{ending}"
    with farfield.open("demo:box") as ds:
        ds.streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.1).save(path)
    path.write_bytes({"empty": b"", "cut": path.read_bytes()[:600], "text": b"no lines"}[what])
    for words in (["render"], ["render", "demo:box"]):
        assert run([*words, "--lines", str(path), "-o", str(tmp_path / "a.png")]) == 1
        error = capsys.readouterr().err
        assert f"{path}: " in error and "; write it again with 'farfield trace'" in error
        assert "VTK" not in error and ("the file is empty" in error) == (what == "empty")


def test_a_scene_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"title": "Größe"}).encode())
    assert load_scene(tmp_path / "s.json").title == "Größe"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"size": [64, 48], "objects": [], "size": [32, 24]}', "size"),
        (
            '{"source": "a", "objects": [{"kind": "outline"}, {"kind": "outline", "color": "red", "color": "blue"}]}',
            "objects.1.color",
        ),
        ('{"maps": {"m": {"field": "a"}, "n": {"field": "b"}, "m": {"field": "c"}}}', "maps.m"),
        ('{"camera": {"zoom": 1e99999, "zoom": 2}}', "camera.zoom"),
    ],
)
def test_a_key_that_stands_twice_is_named(text: str, place: str, tmp_path: Path) -> None:
    """Readers of JSON take the last one without a word."""
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        load_scene(tmp_path / "a.json")
    assert str(caught.value).startswith(f"{tmp_path / 'a.json'}: not a scene: {place}: the key occurs twice")
    # In two objects it may stand.
    (tmp_path / "a.json").write_text('{"maps": {"m": {"field": "a"}, "n": {"field": "a"}}}')
    assert set(load_scene(tmp_path / "a.json").maps) == {"m", "n"}
