"""Seeds from files and arrays: the same lines from all of them, in memory that does not grow with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.cli import run
from farfield.flow.seeds import resolve
from plot3d_files import box, source_of, write
from running import Command, Json

SEEDS = np.array([[0.6, 0.5, 0.3], [0.7, 0.5, 0.3], [0.8, 0.5, 0.3], [9.0, 9.0, 9.0]])


@pytest.fixture
def files(tmp_path: Path, flow: str) -> list[Path]:
    """The seeds in a file of each kind."""
    np.save(tmp_path / "s.npy", SEEDS)
    (tmp_path / "plain.csv").write_text("# seeds\n" + "".join(f"{x}, {y}, {z}\n\n" for x, y, z in SEEDS))
    (tmp_path / "named.csv").write_text("id,z,x,y\n" + "".join(f"7,{z},{x},{y}\n" for x, y, z in SEEDS))
    head = '\ufeff"mach","Points:0","Points:1","Points:2"\n'
    (tmp_path / "paraview.csv").write_text(head + "".join(f"9,{x},{y},{z}\n" for x, y, z in SEEDS))
    with ff.open(flow) as ds:
        lines = ds.streamlines(seeds=SEEDS[:3], max_steps=1, integration_direction="forward")
    lines.save(tmp_path / "lines.vtp")
    return [tmp_path / name for name in ("s.npy", "plain.csv", "named.csv", "paraview.csv", "lines.vtp")]


def test_a_file_is_as_good_as_an_array(files: list[Path], flow: str, ff_json: Json, tmp_path: Path) -> None:
    for path in files:
        with ff.open(flow) as ds:
            points = SEEDS
            if path.suffix == ".vtp":
                points = ds.streamlines(seeds=SEEDS[:3], max_steps=1, integration_direction="forward").points
            want = ds.streamlines(seeds=points, max_length=0.3)
            got = ds.streamlines(seeds=path, max_length=0.3)
        assert np.array_equal(got.points, want.points) and np.array_equal(got.offsets, want.offsets), path.name
        out = tmp_path / "o.npz"
        assert ff_json("trace", flow, "--seeds", path, "--max-length", 0.3, "-o", out)["lines"] == len(points)
        with np.load(out) as saved:
            assert np.array_equal(saved["points"], want.points), path.name


def test_a_scene_names_the_file(files: list[Path], flow: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    scene, picture = tmp_path / "s.json", tmp_path / "p.png"
    words = ("--seeds", files[1], "--size", "80x60", "-o", picture, "--save-scene", scene)
    drawn = ff_json("render", flow, *words)["drawn"]
    assert any(d["kind"] == "lines" and d["primitives"] > 0 for d in drawn)
    traces = [o["trace"] for o in json.loads(scene.read_text())["objects"] if o["kind"] == "lines"]
    assert [(tmp_path / t["seeds"]).resolve() for t in traces] == [files[1].resolve()]
    files[1].unlink()
    said = ff("render", scene, "-o", picture, ok=(1,)).stderr
    assert files[1].name in said and scene.name in said


def test_a_plane_takes_two_coordinates(tmp_path: Path, ff_json: Json) -> None:
    y, x = np.meshgrid(np.linspace(0, 1, 7), np.linspace(0, 2, 9), indexing="ij")
    head = np.array([9, 7], "<i4").tobytes()
    (tmp_path / "p.xyz").write_bytes(head + np.stack([x, y]).astype("<f8").tobytes())
    q = np.stack([np.ones_like(x), np.ones_like(x), 0 * x, 3 + 0 * x]).astype("<f8").tobytes()
    (tmp_path / "p.q").write_bytes(head + np.array([0.5, 0, 1e5, 0], "<f8").tobytes() + q)
    (tmp_path / "s.csv").write_text("x,y\n0.5,0.5\n0.5,0.75\n")
    with ff.open(tmp_path / "p.xyz", q=tmp_path / "p.q") as ds:
        lines = [ds.streamlines(seeds=s) for s in (tmp_path / "s.csv", [(0.5, 0.5), (0.5, 0.75)])]
    assert len(lines[0]) == 2 and np.array_equal(lines[0].points, lines[1].points)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.csv", None, "no such"),
        ("other.csv", b"id,u,v\n1,2,3\n", "id, u, v"),
        ("bad.csv", b"0,1,2\n3,oh,5\n", "line 2 has 'oh'"),
        ("nan.csv", b"0,1,nan\n", "finite"),
        ("plane.csv", b"x,y\n1,2\n", "z"),
        ("empty.csv", b"", "no points"),
        ("bad.npy", b"no", "not a .npy"),
        ("bad.vtp", b"no", "not a VTK"),
    ],
)
def test_what_holds_no_seeds(
    name: str, content: bytes | None, says: str, flow: str, ff: Command, tmp_path: Path
) -> None:
    path, out = tmp_path / name, tmp_path / "o.npz"
    if content is not None:
        path.write_bytes(content)
    for words in (
        ("trace", flow, "--seeds", path, "-o", out),
        ("render", flow, "--seeds", path, "-o", tmp_path / "p.png"),
    ):
        said = ff(*words, ok=(1,)).stderr
        assert said.startswith(f"farfield: error: {path}: ") and says in said, said
    assert not out.exists()


def test_what_is_neither_a_file_nor_a_shape(tmp_path: Path, flow: str) -> None:
    assert resolve("random:3:1") == ("random:3:1", None)
    assert resolve(SEEDS)[0] is None
    (tmp_path / "s.txt").write_text("1 2 3\n")
    for wrong in ("rnadom:3:1", "seeds", str(tmp_path / "s.txt")):
        with pytest.raises(ff.UsageError, match=r"\.csv"):
            resolve(wrong)
    with ff.open(flow) as ds, pytest.raises(ff.DataError, match="wide"):
        np.save(tmp_path / "wide.npy", np.zeros((2, 5)))
        ds.streamlines(seeds=tmp_path / "wide.npy")
    os.mkfifo(tmp_path / "pipe.csv")
    with ff.open(flow) as ds, pytest.raises(ff.DataError, match="regular file"):
        ds.streamlines(seeds=tmp_path / "pipe.csv")


@pytest.mark.parametrize("kind", ["csv", "npy", "vtp", "text vtp"])
def test_many_seeds_of_a_file_stay_within_the_limit(kind: str, tmp_path: Path, process_json: Json) -> None:
    """VmHWM is at most the limit and the base, however many there are; most of them lie in no zone, which costs no lines."""
    n = 400_000
    source = source_of(*write(tmp_path, [box(9, 9, 9)]))
    points = np.random.default_rng(1).uniform(50, 60, (n, 3))
    points[::40_000] = (0.7, 0.5, 0.3)
    path = tmp_path / f"seeds.{kind.split()[-1]}"
    text = "".join(f"{x:.6f},{y:.6f},{z:.6f}\n" for x, y, z in points)
    if kind == "csv":
        path.write_text("x,y,z\n" + text)
    elif kind == "npy":
        np.save(path, points)
    else:
        data = (
            ('format="ascii">' + text.replace(",", " ")).encode() + b"</DataArray>"
            if kind == "text vtp"
            else b'format="appended" offset="0"/>'
        )
        head = (
            b'<VTKFile type="PolyData" version="1.0" byte_order="LittleEndian" header_type="UInt64"><PolyData>'
            b'<Piece NumberOfPoints="%d" NumberOfVerts="0" NumberOfLines="0"><Points>'
            b'<DataArray type="Float64" NumberOfComponents="3" ' % n
        )
        raw = b'<AppendedData encoding="raw">_' + (24 * n).to_bytes(8, "little") + points.astype("<f8").tobytes()
        tail = b"</Points></Piece></PolyData>" + (raw + b"</AppendedData>" if kind == "vtp" else b"") + b"</VTKFile>"
        path.write_bytes(head + data + tail)
    out = tmp_path / "o.npz"
    words = ("--seeds", path, "--max-steps", 20, "--memory-limit", "12MiB", "-o", out)
    found = process_json("trace", source, *words)
    assert found["lines"] == n and found["outside"] == n - 10
    over = found["resident_peak_bytes"] - found["base_bytes"] - found["limit_bytes"]
    assert over <= 0, f"{over} bytes above base and limit"


def test_what_is_made_of_an_array_stays_within_the_limit(flow: str, tmp_path: Path) -> None:
    """The array is its maker's, and there before the base is measured; beside it nothing grows with the seeds."""
    code = (
        "import json, sys, numpy as np, farfield as ff\n"
        "seeds = np.full((800_000, 3), 50.0)\n"
        "with ff.open(sys.argv[1], memory_limit='12MiB', progress=False) as ds:\n"
        "    found = ds.trace(sys.argv[2], options={'max_steps': 5}, seeds=seeds, progress=False)\n"
        "print(json.dumps(found))\n"
    )
    words = [sys.executable, "-c", code, flow, str(tmp_path / "o.npz")]
    found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout)
    assert found["outside"] == found["lines"] == 800_000
    stats = found["stats"]
    over = stats["resident_peak_bytes"] - stats["base_bytes"] - stats["limit_bytes"]
    assert over <= 0, f"{over} bytes above base and limit"


@pytest.mark.parametrize("many", [False, True])
def test_seeds_that_all_lie_outside_are_warned_of_with_where_the_zones_are(
    many: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = box(5, 5, 5, (2, 0, -1), (3, 2, 1))
    for axis, (low, high) in enumerate(((2.0, 5.0), (0.0, 2.0), (-1.0, 0.0))):
        shape = [1, 1, 1]
        shape[2 - axis] = 5
        block.xyz[axis] = np.broadcast_to(np.linspace(low, high, 5).reshape(shape), (5, 5, 5)).copy()
    flow = source_of(*write(tmp_path, [block]))
    seeds = "line:9,9,9:8,8,8:3" if many else "point:9,9,9"
    assert run(["trace", flow, "--seeds", seeds, "-o", str(tmp_path / "l.npz")]) == 0
    said = capsys.readouterr()
    assert "no seed lies in a zone" in said.err and "within x 2..5 y 0..2 z -1..0" in said.err
    one = "1 seed lies in no zone; its line is empty"
    assert ("3 seeds lie in no zone; their lines are empty" if many else one) in said.out
    assert run(["trace", flow, "--seeds", "line:3,1,-0.5:9,9,9:2", "-o", str(tmp_path / "l.npz")]) == 0
    said = capsys.readouterr()
    assert one in said.out and "warning" not in said.err
