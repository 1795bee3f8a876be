"""Pictures of many time steps: names, one camera and one range, what is drawn at which time, resuming, videos."""

from __future__ import annotations

import json
import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import UsageError
from farfield.scene import Camera, Lines, Outline, Scene, Surface, Trace, View, save_scene
from plot3d_files import Block, box, write
from running import Command, Json
from test_render import pixels

TIMES = (0.5, 1.0, 1.25, 2.0, 3.0)
SEEDS: Any = [(0.2, 0.8, 0.3), (0.4, 0.9, 0.6), (0.3, 0.5, 0.5)]


def accelerated(time: float) -> Block:
    """A warped box in which everything goes by (0.1 + 0.05 t, -0.1 t, 0.02), and density rises with time."""
    block = box(17, 15, 13)
    block.q[0] = np.full_like(block.q[0], 1.0 + 0.1 * time)
    block.q[1:4] = [block.q[0] * v for v in (0.1 + 0.05 * time, -0.1 * time, 0.02)]
    return block


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("series")
    for n, time in enumerate(TIMES):
        write(folder, [accelerated(time)], stem=f"s_{n}", time=time)
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


def lines(kind: str, color: str | None = None, **more: Any) -> Lines:
    tail = more.pop("tail", None)
    trace = Trace.model_validate({"seeds": SEEDS, "kind": kind, **more})
    return Lines(trace=trace, color=color, tail=tail, radius=0.01)


def texts(path: Path) -> dict[str, str]:
    """Text of a PNG, read with nothing but the standard library; each chunk's checksum holds."""
    data, at, found = path.read_bytes(), 8, {}
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        if kind == b"iTXt":
            key, rest = body.split(b"\0", 1)
            found[key.decode()] = rest[2:].split(b"\0", 2)[2].decode()
        at += size + 12
    return found


def all_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_one_camera_and_one_range_and_the_time(series: str, ff_json: Json, tmp_path: Path) -> None:
    scene = Scene(source=series, size=(200, 140), objects=[Outline(), Surface(surface="zone1:k=7", color="density")])
    save_scene(scene, tmp_path / "s.json")
    out = tmp_path / "out"
    out.mkdir()
    found = ff_json("render", tmp_path / "s.json", "-o", out / "f_%03d.png")
    assert [(f["step"], f["time"], f["was_there"]) for f in found["frames"]] == [
        (n, t, False) for n, t in enumerate(TIMES)
    ]
    assert sorted(all_of(out)) == [f"f_{n:03}.png" for n in range(5)]
    low, high = found["maps"]["density"]["range"]
    assert abs(low - 1.05) < 1e-12 and abs(high - 1.3) < 1e-12
    said = [texts(out / f"f_{n:03}.png") for n in range(5)]
    assert [s["Step"] for s in said] == list("01234")
    assert [s["Time"].split()[0] for s in said] == ["0.50", "1.00", "1.25", "2.00", "3.00"]
    # Density rises, and so does its place in the map: the middle of viridis gets lighter. Else nothing moves.
    middle = [pixels(out / f"f_{n:03}.png")[50:90, 80:120].mean() for n in range(5)]
    assert middle == sorted(middle) and middle[-1] > middle[0] + 5
    edges = [pixels(out / f"f_{n:03}.png")[100:, :40] for n in range(5)]
    assert all((e == edges[0]).all() for e in edges[1:])
    # The time is written into each picture, and can be left out.
    plain = ff_json("render", tmp_path / "s.json", "-o", tmp_path / "plain_%d.png", "--frames", "0:1", "--no-time")
    assert len(plain["frames"]) == 1
    corner = (slice(0, 20), slice(0, 60))
    assert pixels(tmp_path / "plain_0.png")[corner].max() < 150 < pixels(out / "f_000.png")[corner].max()
    assert "Time" not in texts(tmp_path / "plain_0.png")


def test_what_steps_are_meant(series: str, tmp_path: Path, ff: Command) -> None:
    scene = Scene(source=series, size=(60, 40), objects=[Outline()])
    save_scene(scene, tmp_path / "s.json")

    def steps(frames: Any) -> list[int]:
        done = farfield.render(scene, tmp_path / "f_%d.png", frames=frames, progress=False)
        return [f["step"] for f in done["frames"]]

    assert steps(None) == [0, 1, 2, 3, 4] and steps(slice(1, None, 2)) == [1, 3] and steps([0, -1]) == [0, 4]
    assert steps("-2:") == [3, 4] and steps("1,3") == [1, 3] and steps(slice(None, 99)) == [0, 1, 2, 3, 4]
    for frames, words in (
        ([5], "no time step 5"),
        ([2, 1], "rising"),
        (slice(3, 3), "no time step is meant"),
        ("0:5:0", "1 or more"),
    ):
        with pytest.raises(UsageError, match=words):
            steps(frames)
    assert (
        "are not time steps"
        in ff("render", tmp_path / "s.json", "-o", tmp_path / "f_%d.png", "--frames", "a:b", ok=(2,)).stderr
    )
    single = ff("render", tmp_path / "s.json", "-o", tmp_path / "p.png", "--frames", "0:2", ok=(2,))
    assert "out_%04d.png" in single.stderr
    assert (
        "fps is for videos"
        in ff("render", tmp_path / "s.json", "-o", tmp_path / "f_%d.png", "--fps", 5, ok=(2,)).stderr
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    done = ff("render", tmp_path / "s.json", "-o", folder, "--frames", "1:3")
    assert sorted(all_of(folder)) == ["frame_0001.png", "frame_0002.png"] and "2 steps, 1 to 2" in done.stdout


def test_a_flight_around_one_step_is_told_as_its_pictures(series: str, tmp_path: Path, ff: Command) -> None:
    path = [{"frame": n, "step": 0, "camera": {"direction": d}} for n, d in ((0, [1, 0, 0]), (2, [0, 1, 0]))]
    scene = {"source": series, "size": [60, 40], "objects": [{"kind": "outline"}], "path": path}
    (tmp_path / "s.json").write_text(json.dumps(scene))
    done = ff("render", tmp_path / "s.json", "-o", tmp_path / "f_%d.png")
    assert "f_%d.png of step 0, 3 pictures" in done.stdout


def test_lines_are_drawn_up_to_the_time_of_the_picture(series: str, tmp_path: Path) -> None:
    """Each picture of a series is that of its step alone, with the same camera and range."""
    for kind, color, more in (
        ("pathline", "time", {}),
        ("pathline", "velocity_x", {"tail": 0.6}),
        ("streakline", "age", {"release_every": 0.2}),
        ("streakline", "velocity_magnitude", {"t0": 1.0}),
        ("streamline", "velocity_magnitude", {"max_length": 0.2}),
    ):
        scene = Scene.model_validate({
            "source": series, "size": (160, 120), "objects": [lines(kind, color, **more)],
            "camera": Camera(direction=(0.2, -1, 0.4), up=(0, 0, 1), target=(0.5, 0.5, 0.5), distance=3),
            "maps": {color: {"field": color, "range": (0, 3)}},
        })  # fmt: skip
        farfield.render(scene, tmp_path / "f_%d.png", progress=False)
        counts = []
        for step in range(5):
            alone = scene.model_copy(update={"step": step})
            done = farfield.render(alone, tmp_path / "alone.png", progress=False)
            counts.append(done["drawn"][0]["primitives"])
            assert (pixels(tmp_path / "alone.png") == pixels(tmp_path / f"f_{step}.png")).all(), (kind, color, step)
        if kind != "streamline" and "tail" not in more:
            assert counts == sorted(counts) and counts[0] < counts[-1], counts
        if kind == "streakline" and "t0" in more:
            assert counts[0] == 0


def test_particles_are_where_a_trace_has_them(series: str, tmp_path: Path) -> None:
    with farfield.open(series) as ds:
        traced = ds.streaklines(seeds=SEEDS, t1=2.0, release_every=0.1)
        paths = ds.pathlines(seeds=SEEDS, t1=2.0)
    for kind, whole, more in (("streakline", traced, {"release_every": 0.1}), ("pathline", paths, {})):
        whole.save(tmp_path / "l.vtp")
        camera = Camera(direction=(0.2, -1, 0.4), up=(0, 0, 1), target=(0.5, 0.5, 0.5), distance=3)
        plain = {"source": series, "size": (160, 120), "camera": camera, "step": 3}
        drawn = []
        for n, objects in enumerate(([Lines(file=str(tmp_path / "l.vtp"), radius=0.01)], [lines(kind, **more)])):
            done = farfield.render(
                Scene.model_validate({**plain, "objects": objects}), tmp_path / f"{n}.png", progress=False
            )
            drawn.append((done["drawn"][0]["primitives"], pixels(tmp_path / f"{n}.png").tobytes()))
        assert drawn[0] == drawn[1], kind


def test_resumed_pictures_are_those_of_one_run(series: str, tmp_path: Path) -> None:
    scene = Scene(
        source=series,
        size=(160, 120),
        objects=[
            Outline(),
            Surface(surface="zone1:k=7", color="density"),
            lines("streakline", "age"),
            lines("pathline"),
        ],
        views=[
            View(name="a"),
            View(name="b", camera=Camera(direction=(1, 0, 0), projection="orthographic"), size=(90, 70)),
        ],
    )
    whole, again = tmp_path / "whole", tmp_path / "again"
    for folder in (whole, again):
        folder.mkdir()
        farfield.render(scene, folder / "%02d.png", progress=False, memory_limit="64MiB")
    truth = all_of(whole)
    assert len(truth) == 10 and all_of(again) == truth

    def resume(limit: str = "16MiB", what: Scene = scene) -> list[int]:
        done = farfield.render(what, again / "%02d.png", resume=True, progress=False, memory_limit=limit, workers=1)
        return [f["step"] for f in done["frames"] if not f["was_there"]]

    assert resume() == []
    (again / "a_01.png").unlink()
    (again / "b_03.png").write_bytes(truth["b_03.png"][:-20])
    (again / "a_04.png").write_bytes(b"")
    assert resume() == [1, 3, 4] and all_of(again) == truth
    # All gone but one: the camera and the ranges are still those of all.
    for name in truth:
        if not name.endswith("_02.png"):
            (again / name).unlink()
    assert resume() == [0, 1, 3, 4] and all_of(again) == truth
    # Another scene is another film, and so are changed data.
    assert resume(what=scene.model_copy(update={"title": "other"})) == [0, 1, 2, 3, 4]
    assert resume() == [0, 1, 2, 3, 4] and all_of(again) == truth
    newest = Path(series.split("+q=")[0]).with_name("s_4.q")
    os.utime(newest, ns=(1, 1))
    assert resume() == [0, 1, 2, 3, 4]


def test_an_interrupted_run_leaves_whole_pictures(series: str, tmp_path: Path) -> None:
    scene = Scene(source=series, size=(160, 120), objects=[Outline(), lines("streakline", "age")])
    farfield.render(scene, tmp_path / "t_%d.png", progress=False)
    told = []

    def stop(phase: str, done: float, total: float) -> bool:
        told.append((phase, done, total))
        return not (phase == "drawing pictures" and done >= 2.5)

    with pytest.raises((farfield.Interrupted, KeyboardInterrupt)):
        farfield.render(scene, tmp_path / "f_%d.png", progress=stop)
    assert {p for p, *_ in told} <= {"gathering time steps", "drawing pictures", "indexing"} and told[-1][2] == 5
    there = sorted(tmp_path.glob("f_*.png"))
    assert 0 < len(there) < 5 and not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    done = farfield.render(scene, tmp_path / "f_%d.png", resume=True, progress=False)
    assert sum(f["was_there"] for f in done["frames"]) == len(there)
    for n in range(5):
        a, b = (texts(tmp_path / f"{name}_{n}.png") for name in "tf")
        assert a == b and (tmp_path / f"t_{n}.png").read_bytes() == (tmp_path / f"f_{n}.png").read_bytes()


def test_a_camera_of_a_views_own_stands_still(ff: Command, tmp_path: Path) -> None:
    document = {
        "source": "demo:box", "size": [60, 50], "objects": [{"kind": "outline"}], "axes": False,
        "path": [{"frame": 0, "camera": {"direction": [1, 0, 0]}}, {"frame": 2, "camera": {"direction": [1, 1, 0.5]}}],
        "views": [{"name": "along"}, {"name": "still", "camera": {"direction": [0, 0, -1]}}],
    }  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(document))
    ff("render", tmp_path / "s.json", "-o", tmp_path / "{view}_%d.png")
    along, still = ([pixels(tmp_path / f"{name}_{n}.png") for n in range(3)] for name in ("along", "still"))
    assert not (along[0] == along[1]).all() and not (along[1] == along[2]).all()
    assert (still[0] == still[1]).all() and (still[1] == still[2]).all()


def test_views_show_what_they_say(series: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    document = {
        "source": series.replace("/s_0", "/s_0"), "size": [120, 90], "title": "T",
        "objects": [{"kind": "outline"}, {"kind": "surface", "surface": "zone1:k=7", "color": "density"},
                    {"kind": "surface", "surface": "zone1:i=9", "color": "velocity_x"}],
        "views": [{"name": "both"}, {"name": "one", "objects": [0, 1], "size": [60, 50], "camera": {"direction": [0, 0, 1]}}],
    }  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(document))
    found = ff_json("render", tmp_path / "s.json", "-o", tmp_path / "p.png")
    assert [Path(v["output"]).name for v in found["views"]] == ["p_both.png", "p_one.png"]
    assert pixels(tmp_path / "p_both.png").shape == (90, 120, 3) and pixels(tmp_path / "p_one.png").shape == (50, 60, 3)
    # Alone, each is the same picture.
    alone = {
        **document,
        "views": [],
        "size": [60, 50],
        "camera": {"direction": [0, 0, 1]},
        "objects": document["objects"][:2],
    }
    (tmp_path / "alone.json").write_text(json.dumps(alone))
    ff("render", tmp_path / "alone.json", "-o", tmp_path / "alone.png")
    assert (pixels(tmp_path / "alone.png") == pixels(tmp_path / "p_one.png")).all()
    ff("render", tmp_path / "s.json", "-o", tmp_path / "{view}_%d.png", "--frames", "0:1")
    assert (tmp_path / "one_0.png").exists() and (tmp_path / "both_0.png").exists()
    for change, words in (
        ({"views": [{"name": "a"}, {"name": "a"}]}, "two views"),
        ({"views": [{"name": "a/b"}]}, "views.0.name"),
        ({"views": [{"name": "a", "objects": [3]}]}, "no object 3"),
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**document, **change}))
        assert words in ff("render", tmp_path / "bad.json", "-o", tmp_path / "p.png", ok=(2,)).stderr
    assert "no views" in ff("render", tmp_path / "alone.json", "-o", tmp_path / "{view}.png", ok=(2,)).stderr


FFMPEG = """#!/usr/bin/env python3
import sys
assert sys.argv[sys.argv.index("-f") + 1] == "rawvideo", sys.argv
w, h = map(int, sys.argv[sys.argv.index("-s") + 1].split("x"))
data = sys.stdin.buffer.read({limit})
{fail}
assert len(data) % (3 * w * h) == 0
rate = sys.argv[sys.argv.index("-r") + 1]
open(sys.argv[-1], "wb").write(b"%d pictures at %s;" % (len(data) // (3 * w * h), rate.encode()) + data)
"""


def with_ffmpeg(folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str = "", fail: str = "") -> None:
    folder.mkdir(exist_ok=True)
    tool = folder / "ffmpeg"
    tool.write_text(FFMPEG.replace("{limit}", limit).replace("{fail}", fail))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_video_is_the_pictures_through_a_pipe(series: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for ffmpeg that keeps what it gets."""
    scene = Scene(source=series, size=(64, 48), objects=[Outline(), lines("streakline", "age")])
    farfield.render(scene, tmp_path / "f_%d.png", progress=False)
    with_ffmpeg(tmp_path / "bin", monkeypatch)
    done = farfield.render(scene, tmp_path / "v.mp4", fps=12.5, progress=False)
    head, _, data = (tmp_path / "v.mp4").read_bytes().partition(b";")
    assert head == b"5 pictures at 12.5" and done["bytes_written"] == len(head) + 1 + len(data)
    assert data == b"".join(pixels(tmp_path / f"f_{n}.png").tobytes() for n in range(5))
    with pytest.raises(UsageError, match="cannot be resumed"):
        farfield.render(scene, tmp_path / "v.mp4", resume=True)
    with_ffmpeg(tmp_path / "bin", monkeypatch, limit="100", fail='sys.exit("no such codec")')
    with pytest.raises(farfield.DataError, match="no such codec"):
        farfield.render(scene, tmp_path / "w.mp4", progress=False)
    assert not [p.name for p in tmp_path.iterdir() if "w.mp4" in p.name]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"no ffmpeg.*_%04d\.png"):
        farfield.render(scene, tmp_path / "w.mp4", progress=False)


def test_a_set_of_pictures_reads_the_series_once(tmp_path: Path, ff_json: Json) -> None:
    """Several traces, surfaces and colourings in one pass read what any of them touches, at a limit that holds one step of that
    and no more; each alone, they read what they share again and again."""
    for n in range(8):
        block = box(49, 41, 33)
        block.q[1:4] = [block.q[0] * v for v in (0.1 + 0.02 * n, 0.05 * (block.xyz[0] - 0.5), 0.02 * (1 - n))]
        write(tmp_path, [block], stem=f"s_{n}", time=0.3 * n)
    source = f"{tmp_path}/s_0.xyz+q={tmp_path}/s_*.q"
    farfield.convert(source, tmp_path / "s.zarr", page=8)
    seeds = [(0.1 + 0.02 * n, 0.5, 0.3 + 0.01 * n) for n in range(20)]
    objects: list[Any] = [
        Surface(surface="zone1:k=9", color="density"),
        Surface(surface="zone1:k=10", color="velocity_x"),
        Surface(surface="zone1:i=20", color="pressure"),
        Lines(trace=Trace(seeds=seeds, max_length=0.3), color="velocity_magnitude"),
        Lines(trace=Trace(seeds=seeds, kind="streakline"), color="age"),
        Lines(trace=Trace(seeds=seeds, kind="pathline"), color="density"),
    ]

    def run(limit: str, chosen: list[Any]) -> dict[str, Any]:
        scene = Scene(source=str(tmp_path / "s.zarr"), size=(64, 48), objects=chosen)
        save_scene(scene, tmp_path / "s.json")
        return ff_json(
            "render", tmp_path / "s.json", "-o", tmp_path / "f_%d.png", "--memory-limit", limit, "--workers", 1
        )

    ample = run("512MiB", objects)
    assert ample["pages"]["faults"] == ample["pages"]["touched"]
    tight = run("12MiB", objects)
    assert tight["peak_bytes"] <= 12 << 20 and tight["pages"]["evictions"] > 0, "the limit is not tight"
    assert tight["bytes_read"] <= 1.05 * ample["bytes_read"], (tight["bytes_read"], ample["bytes_read"])
    alone = sum(run("12MiB", [one])["bytes_read"] for one in objects)
    assert alone > 1.5 * tight["bytes_read"], (alone, tight["bytes_read"])


def test_what_makes_no_sense(series: str, tmp_path: Path) -> None:
    for bad in (
        {"kind": "pathline", "max_time": 1.0},
        {"kind": "streamline", "t0": 0.0},
        {"kind": "pathline", "release_every": 0.5},
        {"kind": "pathline", "direction": "backward"},
    ):
        with pytest.raises(ValueError, match=r"not for lines|forward in time"):
            Trace.model_validate({"seeds": "random:1:1", **bad})
    with pytest.raises(ValueError, match="tail"):
        Lines(trace=Trace(seeds="random:1:1"), tail=1.0)
    late = Scene(source=series, size=(60, 40), objects=[lines("pathline", t0=9.0)])
    with pytest.raises(UsageError, match="outside of the dataset's times"):
        farfield.render(late, tmp_path / "p.png", progress=False)
    steady = Scene(source="demo:box", size=(60, 40), objects=[lines("streakline")])
    with pytest.raises(UsageError, match="one time step"):
        farfield.render(steady, tmp_path / "p.png", progress=False)
    with pytest.raises(UsageError, match="folder"):
        farfield.render(late, tmp_path / "none" / "p_%d.png", progress=False)
    assert not list(tmp_path.iterdir())
