"""Results over time as others read them: tables by pyarrow and pandas, series of files by VTK and PyVista: the same numbers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import MemoryLimitError, UsageError
from plot3d_files import Block, box, write
from running import Command, Json
from test_pathlines import TIMES, accelerated, moved

SEEDS = ("--seeds", "random:60:3", "--scalars", "velocity,pressure")


def swirling(time: float) -> Block:
    """A flow that turns about the middle of the box, faster with time, and rises."""
    block = box(17, 15, 13)
    x, y, _ = block.xyz
    density = block.q[0]
    velocity = [(0.5 - y) * (1.0 + 0.3 * time), (x - 0.5) * (1.0 - 0.2 * time), 0.05 + 0.1 * x]
    block.q[1:4] = [density * v for v in velocity]
    return block


def written(folder: Path, steps: range, of: Any = swirling) -> str:
    for n in steps:
        write(folder, [of(TIMES[n])], stem=f"s_{n}", time=TIMES[n])
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("series"), range(len(TIMES)))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """NaN and the sign of zero count."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def rows_of(found: Any, name: str) -> np.ndarray:
    """What a line has, at each of its points."""
    return np.repeat(found[name], np.diff(found["offsets"]))


KINDS = {
    "pathline": (),
    "streakline": ("--release-every", 0.1),
    "streaklines at times": ("--release-every", 0.1, "--output-times", "steps"),
    "streamline": ("--steps", "1:4"),
    "both": (),
}


def words_of(kind: str) -> tuple[object, ...]:
    return (
        "--kind",
        {"streaklines at times": "streakline", "both": "streamline"}.get(kind, kind),
        *SEEDS,
        *KINDS[kind],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_numbers_of_the_archive(kind: str, series: str, ff: Command, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="comes with the extra 'peers'")
    for name in ("t.npz", "t.parquet"):
        ff("trace", series, *words_of(kind), "-o", tmp_path / name)
    found = np.load(tmp_path / "t.npz")
    table = parquet.read_table(tmp_path / "t.parquet")
    column = {name: table[name].to_numpy() for name in table.column_names}
    for n, axis in enumerate("xyz"):
        assert same_bits(column[axis], np.ascontiguousarray(found["points"][:, n]))
        assert same_bits(column[f"velocity_{axis}"], np.ascontiguousarray(found["velocity"][:, n]))
    for name in {"time", "zone", "pressure", "birth", "age"} & set(found):
        assert same_bits(column[name], found[name]), name
    for name in {"seed", "reason", "reason_backward", "line_time", "line_step"} & set(found):
        assert (column[name] == rows_of(found, name)).all(), name
    said = json.loads(table.schema.metadata[b"farfield"])
    units = json.loads(str(found["meta"]))["units"]
    assert said["units"]["pressure"] == units["pressure"] and said["units"]["z"] == units["points"]
    assert int(said["seeds"]) == 60 and not said["partial"]


def test_pandas_reads_it_with_its_units(series: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="comes with the extra 'peers'")
    with farfield.open(series) as ds:
        lines = ds.pathlines(seeds="random:20:1", scalars=["pressure"])
        lines.save(tmp_path / "t.parquet")
        table = pandas.read_parquet(tmp_path / "t.parquet")
        assert table.attrs["units"]["pressure"] == lines.units["pressure"]
        ends = table.groupby("seed")["time"].max()
        for seed, end in ends.items():
            assert end == lines.time[lines.offsets[seed + 1] - 1]
        assert table["reason"].groupby(table["seed"]).first().tolist() == lines.reason[ends.index].tolist()


def test_a_table_far_over_the_limit(series: str, ff_json: Json, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="comes with the extra 'peers'")
    words = ("--kind", "pathline", "--seeds", "random:2500:5", "--integrator", "euler", "--time-step", 0.003)
    words += ("--max-steps", 10_000, "--memory-limit", "8MiB")
    said = ff_json("trace", series, *words, "-o", tmp_path / "t.parquet")
    file = parquet.ParquetFile(tmp_path / "t.parquet")
    assert file.metadata.num_rows == said["points"] > 1 << 20 and file.num_row_groups > 1
    assert said["spilled_bytes"] > 4 * said["limit_bytes"] >= 4 * said["peak_bytes"]
    ff_json("trace", series, *words, "-o", tmp_path / "t.npz")
    found, table = np.load(tmp_path / "t.npz"), file.read()
    assert same_bits(table["time"].to_numpy(), found["time"]) and same_bits(
        table["z"].to_numpy(), found["points"][:, 2].copy()
    )
    assert (table["seed"].to_numpy() == rows_of(found, "seed")).all()


def vtk_read(path: Path) -> Any:
    vtk_io = pytest.importorskip("vtkmodules.vtkIOXML", reason="comes with the extra 'peers'")
    reader = vtk_io.vtkXMLPolyDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    assert reader.GetErrorCode() == 0
    return reader.GetOutput()


def vtk_array(data: Any, name: str) -> np.ndarray:
    from vtkmodules.util.numpy_support import vtk_to_numpy

    array = data.GetArray(name)
    assert array is not None, name
    return np.asarray(vtk_to_numpy(array))


def listed(path: Path) -> list[tuple[float, Path]]:
    """Times and files, by the text."""
    root = ET.parse(path).getroot()
    assert root.tag == "VTKFile" and root.get("type") == "Collection"
    return [(float(d.get("timestep", "")), path.parent / d.get("file", "")) for d in root.iter("DataSet")]


@pytest.mark.parametrize(
    "more", [(), ("--output-every", 0.4), ("--output-times", "0.6,2,2.9"), ("--direction", "backward")]
)
def test_pathlines_as_a_series_of_points(more: tuple[object, ...], series: str, ff: Command, tmp_path: Path) -> None:
    pytest.importorskip("vtkmodules", reason="comes with the extra 'peers'")
    from vtkmodules.util.numpy_support import vtk_to_numpy

    for name in ("t.npz", "t.pvd"):
        ff("trace", series, "--kind", "pathline", *SEEDS, *more, "-o", tmp_path / name)
    found, frames = np.load(tmp_path / "t.npz"), listed(tmp_path / "t.pvd")
    times = {
        "--output-every": np.array([0.5, 0.9, 1.3, 1.7, 2.1, 2.5, 2.9]),
        "--output-times": np.array([0.6, 2.0, 2.9]),
    }
    assert [t for t, _ in frames] == times.get(str(more[0]) if more else "", np.array(TIMES)).tolist()
    assert sorted(p for _, p in frames) == sorted((tmp_path / "t").iterdir())
    seed, starts = rows_of(found, "seed"), found["time"][found["offsets"][:-1].clip(0, len(found["time"]) - 1)]
    seen = 0
    for time, path in frames:
        data = vtk_read(path)
        at = found["time"] == time
        points = data.GetPoints()
        assert data.GetNumberOfVerts() == data.GetNumberOfPoints() == at.sum()
        assert vtk_array(data.GetFieldData(), "TimeValue").tolist() == [time]
        if at.any():
            of = data.GetPointData()
            assert same_bits(np.asarray(vtk_to_numpy(points.GetData())), found["points"][at])
            assert (vtk_array(of, "seed") == seed[at]).all() and (
                vtk_array(of, "age") == abs(time - starts[seed[at]])
            ).all()
            assert (
                same_bits(vtk_array(of, "velocity"), found["velocity"][at])
                and (vtk_array(of, "zone") == found["zone"][at]).all()
            )
        seen += int(at.sum())
    assert seen > 100


def test_particles_trail_their_lines_behind_them(series: str, tmp_path: Path) -> None:
    with farfield.open(series) as ds:
        paths = ds.pathlines(seeds="random:20:1", trail=0.6)
        paths.save(tmp_path / "t.pvd")
        with pytest.raises(UsageError, match="0 or more"):
            ds.pathlines(seeds="random:20:1", trail=-1.0)
    for time, path in listed(tmp_path / "t.pvd"):
        data, n, ends = vtk_read(path), 0, []
        for line, points in enumerate(paths):
            at = paths.time[paths.offsets[line] : paths.offsets[line + 1]]
            if time in at:
                own = points[(at <= time) & (at >= time - 0.6)]
                cell = data.GetCell(data.GetNumberOfVerts() + len(ends))
                assert cell.GetNumberOfPoints() == len(own)
                assert [data.GetPoint(n + k) for k in range(len(own))] == [tuple(p) for p in own.tolist()]
                n += len(own)
                ends.append(n - 1)
        assert [
            data.GetCell(k).GetPointId(0) for k in range(data.GetNumberOfVerts())
        ] == ends and n == data.GetNumberOfPoints()


def test_a_series_is_what_pyvista_opens(series: str, tmp_path: Path) -> None:
    pyvista = pytest.importorskip("pyvista", reason="comes with the extra 'peers'")
    with farfield.open(series) as ds:
        smoke = ds.streaklines(seeds="random:9:1", release_every=0.1, output_times="steps")
        smoke.save(tmp_path / "smoke.pvd")
        assert (
            set(smoke.line_time.tolist()) == set(TIMES)
            and smoke.seed.tolist() == np.repeat(np.arange(9), len(TIMES)).tolist()
        )
        for each in (ds.pathlines(seeds="random:9:1"), ds.streamlines(seeds="random:9:1", steps="all")):
            each.save(tmp_path / "each.pvd")
            assert pyvista.get_reader(tmp_path / "each.pvd").time_values == list(TIMES)
        with pytest.raises(UsageError, match="of several times"):
            ds.streamlines(seeds="random:9:1").save(tmp_path / "one.pvd")
    reader = pyvista.get_reader(tmp_path / "smoke.pvd")
    for n, time in enumerate(reader.time_values):
        reader.set_active_time_value(time)
        mesh = reader.read()[0]
        own = [
            smoke.points[smoke.offsets[k] : smoke.offsets[k + 1]] for k in np.flatnonzero(smoke.line_time == TIMES[n])
        ]
        assert (mesh.points == np.concatenate(own)).all() and (mesh.cell_data["line_time"] == time).all()


def test_streamlines_at_every_step_are_those_of_each(series: str, tmp_path: Path) -> None:
    with farfield.open(series) as ds:
        seeds = [(0.3, 0.6, 0.2), (0.6, 0.6, 0.5), (9.0, 9.0, 9.0)]
        for steps, chosen in (("all", [0, 1, 2, 3, 4]), (slice(None, None, 2), [0, 2, 4]), ([3, 1], [3, 1])):
            lines = ds.streamlines(seeds=seeds, steps=steps, max_length=0.4, scalars=["pressure"])
            assert lines.line_step.tolist() == chosen * 3 and lines.line_time.tolist() == [TIMES[n] for n in chosen] * 3
            for k, step in enumerate(chosen):
                one = ds.isel(time=step).streamlines(seeds=seeds, max_length=0.4, scalars=["pressure"])
                for seed in range(3):
                    n = seed * len(chosen) + k
                    ours, theirs = (slice(f.offsets[m], f.offsets[m + 1]) for f, m in ((lines, n), (one, seed)))
                    assert same_bits(lines.points[ours].copy(), one.points[theirs].copy())
                    assert same_bits(lines["pressure"][ours].copy(), one["pressure"][theirs].copy())
                    assert lines.reason[n] == one.reason[seed]
        for wrong in ("1:x", [7], [], "5:5"):
            with pytest.raises(UsageError):
                ds.streamlines(seeds=seeds, steps=wrong)
        with pytest.raises(UsageError, match="twice"):
            ds.streamlines(seeds=seeds, steps=[1, 1])


def test_timelines_are_known(tmp_path: Path) -> None:
    source = written(tmp_path, range(len(TIMES)), accelerated)
    with farfield.open(source) as ds:
        curve = farfield.rake((0.2, 0.6, 0.3), (0.2, 0.9, 0.6), n_points=4)
        line = ds.timelines(seeds=curve, scalars=["velocity_x"], refine_length=0.05, output_times=[1.5, 3.0])
        assert line.line_time.tolist() == [1.5, 3.0] and line.reason.tolist() == ["time", "time"]
        start = curve[0] + np.outer(line["s"] / 3, curve[3] - curve[0])
        assert (
            np.abs(line.points - np.stack([moved(x, 0.5, t) for x, t in zip(start, line.time, strict=True)])).max()
            < 1e-12
        )
        assert (np.linalg.norm(np.diff(line.points[: line.offsets[1]], axis=0), axis=1) <= 0.05).all()
        assert (line["age"] == line.time - 0.5).all() and np.abs(
            line["velocity_x"] - 0.1 - 0.05 * line.time
        ).max() < 1e-12
        two = ds.timelines(seeds=curve, curves=2, refine=None)
        assert len(two) == 2 and two["s"].tolist() == [0, 1, 0, 1]
        assert len(ds.timelines(seeds=curve, curves=[0, 1, 4])) == 2
        for wrong in (
            {"curves": 3},
            {"curves": [0, 9]},
            {"refine": 0.5},
            {"seeds": "random:3:1"},
            {"output_times": [9.0]},
        ):
            with pytest.raises(UsageError):
                ds.timelines(**{"seeds": curve, **wrong})
        few = ds.timelines(seeds=curve, refine_length=0.01, max_points=20)
        assert few.reason.tolist() == ["points"] and len(few.points) == 20


def test_lists_of_times_are_held_on_the_ledger(series: str) -> None:
    with farfield.open(series, memory_limit="8MiB") as ds:
        for more in ({"release_every": 2.5e-6}, {"output_every": 2.6e-6}):
            with pytest.raises(MemoryLimitError, match="the times of"):
                ds.streaklines(seeds=[(0.3, 0.6, 0.2)], **more)


NONSENSE = {
    ("--kind", "pathline", "-o", "t.txt"): "end the name in one of these",
    ("--kind", "pathline", "--steps", "all", "-o", "t.npz"): "--steps is not for lines of kind pathline",
    ("--step", "1", "--steps", "all", "-o", "t.npz"): "both select time steps; give one of them",
    ("-o", "t.pvd"): "choose time steps (--steps)",
    ("--output-every", "0.1", "-o", "t.npz"): "--output-every is not for lines of kind streamline",
    ("--kind", "pathline", "--output-every", "-1", "-o", "t.pvd"): "positive time",
    ("--kind", "pathline", "--output-every", "1", "--output-times", "1", "-o", "t.pvd"): "in one way",
    ("--kind", "pathline", "--output-times", "0.1", "-o", "t.pvd"): "does not lie between",
    ("--kind", "pathline", "--output-times", "x", "-o", "t.pvd"): "is no list of numbers",
    ("--kind", "pathline", "--refine", "2x", "-o", "t.pvd"): "goes with --kind timeline",
    ("--kind", "timeline", "--refine", "two", "-o", "t.pvd"): "neither 2x",
    ("--kind", "timeline", "--curves", "a", "-o", "t.pvd"): "--curves",
    ("--kind", "timeline", "--save-state", "s", "-o", "t.npz"): "--save-state is not for lines of kind timeline",
    ("--kind", "pathline", "--trail", "0.1", "-o", "t.npz"): "--trail needs a .pvd",
    ("--kind", "pathline", "--trail", "0.1", "-o", "t.vtp"): "--trail needs a .pvd",
    ("--kind", "timeline", "--refine", "0", "-o", "t.npz"): "error: --refine must be a positive number",
    ("--kind", "pathline", "--time-step", "0", "-o", "t.npz"): "error: --time-step must be a positive number",
}


@pytest.mark.parametrize("words", NONSENSE)
def test_what_makes_no_sense(words: tuple[str, ...], series: str, ff: Command, tmp_path: Path) -> None:
    said = ff("trace", series, "--seeds", "point:0.2,0.8,0.3", *words, ok=(2,), cwd=tmp_path).stderr
    assert NONSENSE[words] in said, said
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_ours_is_left_alone(series: str, ff: Command, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine.txt").write_text("mine")
    said = ff("trace", series, "--kind", "pathline", *SEEDS, "-o", tmp_path / "t.pvd", ok=(2,)).stderr
    assert "mine.txt" in said and sorted(p.name for p in tmp_path.rglob("*")) == ["mine.txt", "t"]


def test_a_folder_that_holds_an_input_is_left_alone(series: str, ff: Command, tmp_path: Path) -> None:
    words = ("--kind", "pathline", "-o", tmp_path / "t.pvd")
    ff("trace", series, *words, *SEEDS)
    seeds = tmp_path / "t" / "t_0000.vtp"
    before = seeds.read_bytes()
    said = ff("trace", series, *words, "--seeds", seeds, ok=(2,)).stderr
    assert "an input of this run" in said and seeds.read_bytes() == before


def test_tables_are_not_drawn(series: str, ff: Command, tmp_path: Path) -> None:
    ff("trace", series, "--seeds", "random:3:1", "-o", tmp_path / "l.parquet")
    said = ff("render", "--lines", tmp_path / "l.parquet", "-o", tmp_path / "p.png", ok=(1,)).stderr
    assert "l.parquet" in said and "write the lines to a .vtp or .npz file" in said
