"""Pictures from the command line and from Python, with the real extension."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from fake_native import Calls
from farfield import cli
from farfield.errors import DataError, Interrupted, MemoryLimitError, UnknownName, UsageError
from farfield.pictures.colors import lut
from farfield.scene import (
    Camera,
    ColorMap,
    Lines,
    Outline,
    Scene,
    Surface,
    Trace,
    Walls,
    default_scene,
    save_scene,
)
from plot3d_files import Block, source_of, write
from running import Command, Json

FLOW = "demo:taper"
FEW = Trace(seeds=[(-1.5, 0.2 * n - 0.5, 4.0) for n in range(6)], max_length=6.0)


def pixels(path: Path) -> Any:
    """An RGB picture as (height, width, 3), read with nothing but the standard library."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height = 8, b"", 0, 0
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
            assert (depth, color) == (8, 2)
        elif kind == b"IDAT":
            packed += body
        at += size + 12
    raw = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(height, 1 + 3 * width)
    out = np.zeros((height, width, 3), dtype=np.uint8)
    above = np.zeros(3 * width, dtype=np.int64)
    for n, row in enumerate(raw):
        line = row[1:].astype(np.int64)
        match row[0]:
            case 0:
                pass
            case 1:
                line = np.cumsum(line.reshape(width, 3), axis=0).reshape(-1)
            case 2:
                line = line + above
            case method:
                line = _filtered(int(method), line, above)
        above = line % 256
        out[n] = above.reshape(width, 3)
    return out


def _filtered(method: int, line: Any, above: Any) -> Any:
    for i in range(line.size):
        left = int(line[i - 3]) if i >= 3 else 0
        up, corner = int(above[i]), int(above[i - 3]) if i >= 3 else 0
        if method == 3:
            guess = (left + up) // 2
        else:
            p = left + up - corner
            guess = min((left, up, corner), key=lambda v: abs(p - v))
        line[i] = (int(line[i]) + guess) % 256
    return line


def test_the_default_picture_has_the_size_asked_for_and_something_in_it(ff_json: Json, tmp_path: Path) -> None:
    out = tmp_path / "p.png"
    found = ff_json("render", FLOW, "--size", "320x180", "-o", out)
    assert found["size"] == [320, 180] and found["bytes_written"] == out.stat().st_size
    assert [d["kind"] for d in found["drawn"]] == ["surface", "outline", "lines"]
    assert all(d["primitives"] > 0 for d in found["drawn"])
    picture = pixels(out)
    assert picture.shape == (180, 320, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 1000


def test_the_range_is_printed_and_can_be_fixed(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    out, path = tmp_path / "p.png", tmp_path / "s.json"
    save_scene(Scene(source=FLOW, objects=[Walls(), Lines(trace=FEW, color="velocity_magnitude")]), path)
    first = ff("render", path, "--size", "160x90", "-o", out)
    line = next(row for row in first.stdout.splitlines() if row.startswith("range"))
    low, high = (float(v) for v in line.split("--range ")[1].split(" ")[0].split(":"))
    assert 0 <= low < high < 1
    fixed = ff_json("render", path, "--size", "160x90", "--range", "0:0.5", "-o", out)
    assert next(iter(fixed["maps"].values()))["range"] == [0, 0.5]


def test_signed_fields_are_even_about_their_centre(tmp_path: Path) -> None:
    scene = Scene(
        source=FLOW,
        size=(160, 90),
        objects=[Surface(surface="zone5:k=20", color="velocity_y"), Surface(surface="zone5:k=20", color="speed")],
        maps={"speed": ColorMap(field="velocity", cmap="magma")},
    )
    found = farfield.render(scene, tmp_path / "p.png", progress=False)
    low, high = found["maps"]["velocity_y"]["range"]
    assert low == -high and high > 0.05
    assert found["maps"]["speed"]["range"][0] >= 0


def test_colours_are_those_of_the_map(tmp_path: Path) -> None:
    # A plane of one value, face-on: its colour is the middle of the map within what light does to it.
    scene = Scene(
        source="demo:box",
        size=(120, 120),
        objects=[Surface(surface="zone1:k=17", color="density")],
        maps={"density": ColorMap(field="density", cmap="viridis", range=(1.0, 1.4))},
        camera=Camera(direction=(0, 0, 1), up=(0, 1, 0), projection="orthographic"),
        scalar_bar=False,
        axes=False,
    )
    farfield.render(scene, tmp_path / "p.png", progress=False)
    middle = pixels(tmp_path / "p.png")[60, 60].astype(int)
    wanted = np.array(lut("viridis")[127])
    assert np.abs(middle - wanted).max() < 40, (middle, wanted)


def test_the_picture_does_not_depend_on_the_memory_limit_or_the_workers(tmp_path: Path) -> None:
    scene = Scene(
        source=FLOW, size=(200, 120), objects=[Walls(mesh=True), Outline(), Lines(trace=FEW, color="pressure")]
    )
    pictures = []
    for limit, workers in (("1GiB", 1), ("16MiB", 2)):
        out = tmp_path / f"{workers}.png"
        found = farfield.render(scene, out, memory_limit=limit, workers=workers, progress=False)
        assert found["stats"]["peak_bytes"] <= found["stats"]["limit_bytes"]
        pictures.append(out.read_bytes())
    assert pictures[0] == pictures[1]


def test_a_large_picture_fits_a_small_limit(tmp_path: Path) -> None:
    scene = Scene(source="demo:box", size=(3840, 2160), objects=[Outline(), Surface(surface="zone1:k=9", color="mach")])
    found = farfield.render(scene, tmp_path / "p.png", memory_limit="32MiB", progress=False)
    assert found["stats"]["peak_bytes"] <= 32 << 20
    with pytest.raises(MemoryLimitError, match="picture"):
        farfield.render(scene, tmp_path / "q.png", memory_limit="4MiB", progress=False)
    assert not (tmp_path / "q.png").exists()


def test_an_open_dataset_is_drawn_as_its_source_is(flow_blocks: list[Block], tmp_path: Path) -> None:
    """All that it was opened with counts: files, how they are read, the order of zones, the limit."""
    home = tmp_path / "a+q=b"
    home.mkdir()
    grid, solution = write(home, flow_blocks, stem="odd+q=name")
    how: dict[str, Any] = {"plot3d": {"order": "whole"}, "zone_order": ["zone3", "zone1"]}
    size = (120, 80)
    with farfield.open(grid, q=solution, memory_limit="48MiB", workers=1, readers=5, replacement="lru", **how) as ds:
        drawn = farfield.render(ds, tmp_path / "open.png", size=size, progress=False)
        assert [d["kind"] for d in drawn["drawn"]] == ["outline", "lines"]
        stats = drawn["stats"]
        assert (stats["limit_bytes"], stats["workers"], stats["readers"]) == (48 << 20, 1, 5)
        ds.set_memory_limit("32MiB")
        for more, limit in (({}, 32), ({"memory_limit": "40MiB"}, 40)):
            drawn = farfield.render(ds, tmp_path / "again.png", size=size, progress=False, **more)  # type: ignore[arg-type]
            assert drawn["stats"]["limit_bytes"] == limit << 20
    plain, solution = write(tmp_path, flow_blocks)
    with farfield.open(plain, q=solution) as ds:
        scene = default_scene(ds)
    assert scene.source == source_of(plain, solution)
    for what, name in ((source_of(plain, solution), "source"), (scene, "scene")):
        farfield.render(what, tmp_path / f"{name}.png", size=size, progress=False, **how)
    pictures = {p.read_bytes() for p in tmp_path.glob("*.png")}
    assert len(list(tmp_path.glob("*.png"))) == 4 and len(pictures) == 1


def test_what_is_asked_for_an_open_dataset(fake: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("g.xyz", "g.q", "g.f"):
        Path(name).touch()
    ds = farfield.open("g.xyz", q="g.q", function="g.f", plot3d={"precision": "64"}, zone_order=["zone1"])
    farfield.render(ds.isel(time=2), "p.png", plot3d={"order": "planes"})
    asked = fake.last("render")
    source = asked["scene"]["source"]
    assert (source["path"], source["q"], source["function"]) == ("g.xyz", ["g.q"], ["g.f"])
    assert source["options"]["plot3d"] == {"precision": "64", "order": "planes"}
    assert source["options"]["zone_order"] == ["zone1"] and asked["scene"]["step"] == 2
    # The stand-in's own.
    assert (asked["memory_limit"], asked["workers"], asked["readers"], asked["replacement"]) == (3, 3, 7, "lru")
    assert [made for made, _ in fake.made].count("open") == 1


def test_a_source_is_opened_no_more_often_than_needed(
    fake: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a default picture and what is to be known of its fields, once; for colours of a scene; else not at all."""
    monkeypatch.chdir(tmp_path)
    Path("g.xyz").touch()
    plain, colored = (Scene(source="g.xyz", objects=[Outline(color="red"), Walls(color=c)]) for c in (None, "mach"))
    save_scene(plain, "plain.json")
    save_scene(colored, "colored.json")
    # The stand-in's drawing opens nothing.
    for what, opened in (("g.xyz", 1), ("plain.json", 0), ("colored.json", 1)):
        for run in (
            lambda what=what: farfield.render(what, "p.png", progress=False),
            lambda what=what: cli.run(["render", what, "-o", "p.png", "-q"]),
        ):
            fake.made.clear()
            run()
            made = [name for name, _ in fake.made]
            assert made.count("open") == made.count("close") == opened and made[-1] == "render", (what, made)
    fake.made.clear()
    assert cli.run(["render", "g.xyz", "-o", "p.gif", "-q"]) == 2 and not fake.made


def test_no_bound_on_steps_in_a_scene(fake: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.xyz").touch()
    for given, asked in ((None, 2**32 - 1), (7, 7)):
        scene = Scene(source="g.xyz", objects=[Lines(trace=Trace(seeds="random:1:1", max_steps=given))])
        farfield.render(scene, "p.png")
        assert fake.last("render")["scene"]["objects"][0]["trace"]["max_steps"] == asked


def test_lines_of_files_alone(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    lines = str(tmp_path / "l.vtp")
    with farfield.open(FLOW) as ds:
        ds.streamlines(seeds=np.array(FEW.seeds), scalars=["pressure"], max_length=5.0).save(lines)
    found = ff_json("render", "--lines", lines, "--color", "pressure", "--size", "160x90", "-o", tmp_path / "p.png")
    assert found["drawn"][0]["name"] == "l.vtp"
    assert "density" in ff("render", "--lines", lines, "--color", "density", "-o", tmp_path / "q.png", ok=(2,)).stderr


@pytest.mark.parametrize(
    ("scene", "error", "words"),
    [
        (Scene(source=FLOW, objects=[Surface(surface="zone9:k=1")]), UnknownName, "zone9"),
        (Scene(source=FLOW, objects=[Surface(surface="zone1:k=999")]), UsageError, "999"),
        (Scene(source=FLOW, objects=[Surface(surface="zone1:k=1", color="vorticite")]), UnknownName, "vorticite"),
        (Scene(source=FLOW, objects=[Outline(zone="zone0")]), UnknownName, "zone0"),
        (Scene(objects=[Lines(file="/no/such/file.vtp")]), DataError, "file.vtp"),
        (Scene(size=(90_000, 10)), UsageError, "65536"),
    ],
)
def test_what_cannot_be_drawn(scene: Scene, error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        farfield.render(scene, tmp_path / "p.png", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    scene = Scene(source="demo:box", size=(60, 40), objects=[Outline()])
    with pytest.raises(UsageError, match="folder"):
        farfield.render(scene, tmp_path / "none" / "p.png", progress=False)
    (tmp_path / "d.png").mkdir()
    with pytest.raises(UsageError, match="directory"):
        farfield.render(scene, tmp_path / "d.png", progress=False)


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    scene = Scene(source=FLOW, size=(400, 300), objects=[Outline(), Lines(trace=FEW)])
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        farfield.render(scene, tmp_path / "p.png", progress=lambda phase, done, total: phase != "drawing")
    assert list(tmp_path.iterdir()) == []


def test_a_surface_is_no_file_of_lines(store: Path, ff: Command, tmp_path: Path) -> None:
    surface, picture = tmp_path / "s.vtp", tmp_path / "p.png"
    ff("extract", "grid-surface", store, "--surface", "zone1:k=1", "-o", surface)
    done = ff("render", store, "--lines", surface, "-o", picture, ok=(1,))
    assert "s.vtp" in done.stderr and "no lines" in done.stderr and not picture.exists()
    done = ff("render", store, "--lines", tmp_path / "none.vtp", "-o", picture, ok=(1,))
    assert "none.vtp" in done.stderr and "farfield trace" in done.stderr
