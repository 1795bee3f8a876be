"""VTK datasets of several files: blocks that are zones, collections and series that are time steps, and their times."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.cli import run
from farfield.errors import DataError, UsageError
from farfield.sources.parsing import parse
from farfield.volume.formats.detection import is_volume
from test_vtk_flows import LINES, bent_flow, image
from test_vtk_zones import Array, element, write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


def box(
    path: Path, low: float, speed: float = 1.0, *, time: float | None = None, single: bool = False, **more: Array
) -> Path:
    """A unit cube from x = low on, with a flow along x."""
    k, j, i = np.meshgrid(*[np.linspace(0, 1, 4)] * 3, indexing="ij")
    x = np.stack([low + i, j, k], axis=-1)
    flow = np.zeros_like(x)
    flow[..., 0] = speed
    write(path, "StructuredGrid", {"Points": x}, {"velocity": flow, **more}, text=True)
    timed(path, time, single=single)
    return path


def timed(path: Path, time: float | None, *, single: bool = False) -> None:
    """Gives a file a time."""
    if time is None:
        return
    said = element(
        "TimeValue", np.array([time], "f4" if single else "f8"), repr(time), format="ascii", NumberOfTuples="1"
    )
    path.write_text(path.read_text().replace("<Piece ", f"<FieldData>{said}</FieldData><Piece ", 1))


def listed(path: Path, body: str, kind: str = "vtkMultiBlockDataSet") -> Path:
    path.write_text(f'<?xml version="1.0"?><VTKFile type="{kind}" version="1.0"><{kind}>{body}</{kind}></VTKFile>')
    return path


def block(name: str, *files: str) -> str:
    inside = "".join(f'<DataSet index="{n}" file="{file}"/>' for n, file in enumerate(files))
    return f'<Block index="0" name="{name}">{inside}</Block>'


def pvd(path: Path, entries: list[tuple[float, int, str]]) -> Path:
    rows = "".join(f'<DataSet timestep="{time}" part="{part}" file="{file}"/>' for time, part, file in entries)
    path.write_text(f'<?xml version="1.0"?><VTKFile type="Collection"><Collection>{rows}</Collection></VTKFile>')
    return path


def test_blocks_are_zones_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for n in range(3):
        box(tmp_path / f"parts/b{n}.vts", float(n))
    inner = block("wing", "parts/b1.vts") + '<DataSet index="1" name="tail" file="parts/b2.vts"/>'
    path = listed(
        tmp_path / "m.vtm",
        '<DataSet index="0" name="fuse lage" file="parts/b0.vts"/><DataSet index="1"/>'
        f'<Block index="2" name="outer">{inner}</Block><DataSet index="3" file="parts/b0.vts"/>',
    )
    assert not is_volume(path)
    with ff.open(path) as ds:
        assert list(ds.zones) == ["fuse_lage", "outer.wing", "outer.tail"]
        assert [float(zone["xyz"][0, 0, 0, 0]) for zone in ds.zones.values()] == [0, 1, 2]
        lines = ds.streamlines(seeds=[(0.1, 0.5, 0.5)])
        assert np.allclose(lines.points[-1], (3, 0.5, 0.5), atol=1e-4)
        assert ds.info()["format"] == "VTK XML (3 blocks), converted into the cache"
        assert str(tmp_path / "parts/b2.vts") in ds._source.made_of
    # A block may be a file of blocks, and an image or a rectilinear grid.
    flow, _ = bent_flow("float64")
    image(tmp_path / "i.vti", {"velocity": flow}, 'Origin="5 0 0" Spacing="0.2 0.2 0.2"')
    write(tmp_path / "r.vtr", "RectilinearGrid", {**LINES, "x": LINES["x"] + 9}, {"velocity": flow})
    whole = listed(tmp_path / "w.vtm", block("all", "m.vtm", "i.vti") + block("more", "r.vtr"))
    with ff.open(whole) as ds:
        assert list(ds.zones) == ["all.fuse_lage", "all.outer.wing", "all.outer.tail", "all", "more"]
        for x in (1.5, 5.5, 9.5):
            assert ds.probe((x, 0.5, 0.5)) is not None


def test_arrays_that_some_blocks_lack_are_no_numbers_there(tmp_path: Path) -> None:
    box(tmp_path / "b0.vts", 0.0, heat=np.full((4, 4, 4), 7.0))
    box(tmp_path / "b1.vts", 1.0)
    path = listed(tmp_path / "m.vtm", block("", "b1.vts", "b0.vts"))
    with ff.open(path) as ds:
        assert np.isnan(ds.zones["zone1"]["heat"][...]).all() and (ds.zones["zone2"]["heat"][...] == 7).all()
        assert "Of the 2 zones 1 lacks heat" in " ".join(ds.info()["guessed"])


def test_blocks_that_are_not_read_are_named(tmp_path: Path) -> None:
    box(tmp_path / "b0.vts", 0.0)
    kinds = {"a.vtu": "UnstructuredGrid", "b.vtp": "PolyData", "c.pvtu": "PUnstructuredGrid"}
    for name, kind in kinds.items():
        (tmp_path / name).write_text(f'<VTKFile type="{kind}" version="1.0"><{kind}/></VTKFile>')
    (tmp_path / "d.txt").write_text("no grid")
    for name, says in {
        "a.vtu": r"a\.vtu: this block of .*m\.vtm is an unstructured grid, .* Resample To Image",
        "b.vtp": r"b\.vtp: this block of .* is lines or surfaces.*take it out",
        "c.pvtu": r"c\.pvtu: .* an unstructured grid",
        "d.txt": r"d\.txt: this block of .* is no VTK file of a grid",
        "gone.vts": r"its block .*gone\.vts is not there",
        "m.vtm": "nested too deeply",
    }.items():
        beside = ["b0.vts"] if name in ("d.txt", "gone.vts", "m.vtm") else []
        with pytest.raises(DataError, match=says):
            ff.open(listed(tmp_path / "m.vtm", block("x", *beside, name)))
    with pytest.raises(DataError, match="lists no block with a file"):
        ff.open(listed(tmp_path / "m.vtm", '<DataSet index="0"/>'))
    with pytest.raises(DataError, match="vtkOverlappingAMR, grids of several levels"):
        ff.open(listed(tmp_path / "a.vth", "", "vtkOverlappingAMR"))


def test_surfaces_and_cells_beside_grids_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in (0, 1):
        box(tmp_path / f"b{n}.vts", float(n))
    for name, kind in (("skin.vtp", "PolyData"), ("tail.vtu", "UnstructuredGrid")):
        (tmp_path / name).write_text(f'<VTKFile type="{kind}" version="1.0"><{kind}/></VTKFile>')
    inside = block("wing", "b0.vts", "skin.vtp", "b1.vts") + block("tail", "tail.vtu")
    path = listed(tmp_path / "m.vtm", inside)
    said = "Of the blocks of m.vtm 2 are no grids .* passed over: skin.vtp (lines or surfaces), tail.vtu (an unstructured grid)"
    with ff.open(path) as ds:
        assert list(ds.zones) == ["wing", "wing_2"]
        # The flow goes along x, from one into the other.
        assert np.allclose(ds.streamlines(seeds=[(0.1, 0.5, 0.5)]).points[-1], (2, 0.5, 0.5), atol=1e-4)
        (note,) = ds.info()["notes"]
        assert re.fullmatch(said.replace("(", r"\(").replace(")", r"\)") + r"\.", note)
    assert run(["probe", str(path), "1.5", "0.5", "0.5"]) == 0
    assert capsys.readouterr().err.count("passed over") == 1
    # As parts of one time likewise, and beside an image without a flow.
    image(tmp_path / "i.vti", {"heat": np.full((3, 3, 3), 5.0)})
    for name in ("b0.vts", "i.vti"):
        with ff.open(pvd(tmp_path / "a.pvd", [(1.0, 0, name), (1.0, 1, "skin.vtp")])) as ds:
            assert len(ds.zones) == 1 and "passed over: skin.vtp" in " ".join(ds.info()["notes"])
    with ff.open(listed(tmp_path / "i.vtm", block("x", "i.vti"))) as ds:
        assert ds.probe((0.2, 0.2, 0.2)).values["heat"] == pytest.approx(5)


def test_parts_of_a_time_are_zones_and_times_are_exact(tmp_path: Path) -> None:
    times = [2.0, 2.5, 4.0]
    for n, time in enumerate(times):
        for part in (0, 1):
            box(tmp_path / f"t{n}p{part}.vts", float(part), time)
    entries = [(time, part, f"t{n}p{part}.vts") for n, time in enumerate(times) for part in (0, 1)]
    with ff.open(pvd(tmp_path / "a.pvd", entries[::-1] + entries[2:3])) as ds:
        assert list(ds.times) == times and ds.info()["times_why"] is None and len(ds.zones) == 2
        assert ds.sel(time=2.5).probe((0.5, 0.5, 0.5)).values["velocity"] == pytest.approx((2.5, 0, 0))
        # dx/dt = t from one part into the other.
        paths = ds.pathlines(seeds=[(0.5, 0.5, 0.5)], t0=2.0, t1=2.4)
        assert paths.points[-1][0] == pytest.approx(0.5 + (2.4**2 - 4) / 2, abs=1e-6)
        assert ds.info()["format"].startswith("VTK XML (3 time steps of 2 blocks)")
    with pytest.raises(DataError, match=r"its time step has 1 blocks, and that of .*t0p\d\.vts 2"):
        ff.open(pvd(tmp_path / "b.pvd", entries[:3]))


def test_files_of_one_part_that_lie_apart_are_zones(tmp_path: Path) -> None:
    """As some writers have it, which give all of their files the part 0."""
    for n, time in enumerate([2.0, 2.5, 4.0]):
        for side in (0, 1):
            box(tmp_path / f"t{n}s{side}.vts", float(side), time)
    entries = [(time, 0, f"t{n}s{side}.vts") for n, time in enumerate([2.0, 2.5, 4.0]) for side in (0, 1)]
    path = pvd(tmp_path / "a.pvd", entries)
    with ff.open(path) as ds:
        assert list(ds.times) == [2, 2.5, 4] and len(ds.zones) == 2 and not ds.info()["notes"]
        # dx/dt = t from one into the other.
        paths = ds.pathlines(seeds=[(0.5, 0.5, 0.5)], t0=2.0, t1=2.4)
        assert paths.points[-1][0] == pytest.approx(0.5 + (2.4**2 - 4) / 2, abs=1e-6)
    # A run that was started again writes each of its parts anew.
    box(tmp_path / "again.vts", 1.0, 7.0)
    with ff.open(pvd(path, [*entries, (4.0, 0, "again.vts")])) as ds:
        assert len(ds.zones) == 2 and "passed over: t2s1.vts at 4." in " ".join(ds.info()["guessed"])
        assert ds.isel(time=2).probe((1.5, 0.5, 0.5)).values["velocity"] == pytest.approx((7, 0, 0))
        assert ds.isel(time=2).probe((0.5, 0.5, 0.5)).values["velocity"] == pytest.approx((4, 0, 0))
    # Without times all are of one time.
    rows = "".join(f'<DataSet file="t0s{side}.vts"/>' for side in (0, 1))
    path.write_text(f'<VTKFile type="Collection"><Collection>{rows}</Collection></VTKFile>')
    with ff.open(path) as ds:
        assert len(ds.zones) == 2 and len(ds.times) < 2


@pytest.mark.parametrize("kind", ["rings", "images", "lines", "blocks"])
def test_what_lies_beside_or_around_is_no_restart(kind: str, tmp_path: Path) -> None:
    """Boxes of rings are nearly those of the rings around them."""
    names = []
    for n, (low, high) in enumerate([(0.5, 1.0), (1.0, 1.3)]):
        path = tmp_path / f"a{n}.vts"
        if kind == "rings":
            z, r, angle = np.meshgrid([0.0, 1.0], np.linspace(low, high, 5), np.linspace(0, 6.28, 33), indexing="ij")
            x = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=-1)
            write(path, "StructuredGrid", {"Points": x}, {"velocity": x})
        elif kind == "images":
            path = image(path.with_suffix(".vti"), {"velocity": np.ones((3, 4, 5, 3))}, f'Origin="{4 * n} 0 0"')
        elif kind == "lines":
            lines = {**LINES, "x": LINES["x"] + 2 * n}
            path = write(path.with_suffix(".vtr"), "RectilinearGrid", lines, {"velocity": bent_flow()[0]})
        else:
            box(path, float(n))
            path = listed(path.with_suffix(".vtm"), block("one", path.name))
        names.append(path.name)
    with ff.open(pvd(tmp_path / "a.pvd", [(1.0, 0, name) for name in names])) as ds:
        assert len(ds.zones) == 2
    copy = tmp_path / f"copy-{names[0]}"
    copy.write_bytes((tmp_path / names[0]).read_bytes())
    with ff.open(pvd(tmp_path / "b.pvd", [(1.0, 0, names[0]), (1.0, 0, copy.name)])) as ds:
        assert len(ds.zones) == 1 and f"passed over: {names[0]} at 1" in " ".join(ds.info()["guessed"])


def test_times_in_files(tmp_path: Path) -> None:
    for n, time in enumerate([4.0, 2.0, 2.5]):
        box(tmp_path / f"s_{n}.vts", 0.0, time, time=time)
    with ff.open(tmp_path / "s_*.vts") as ds:
        info = ds.info()
        assert info["times"] == [2, 2.5, 4] and info["times_why"] is None
        assert "sorted by the times in the files" in info["notes"][0] and "s_0.vts (4) comes" not in info["notes"][0]
        assert ds.isel(time=-1).probe((0.5, 0.5, 0.5)).values["velocity"] == pytest.approx((4, 0, 0))
    with ff.open(tmp_path / "s_1.vts") as ds:
        assert list(ds.times) == [2]
    with ff.open(tmp_path / "s_*.vts", plot3d={"dt": 0.5}) as ds:
        assert list(ds.times) == [0, 0.5, 1]


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([3.0, None, 6.0], r"s_1\.vts gives none"),
        ([3.0, 4.0, 4.0], r"s_1\.vts and .*s_2\.vts both give 4"),
        ([0.0, float("nan"), 2.0], r"s_1\.vts gives no number"),
        ([float("nan")] * 3, r"s_0\.vts gives no number"),
    ],
)
@pytest.mark.parametrize("kind", ["zones", "blocks", "volumes"])
def test_why_times_in_files_are_not_used(
    kind: str, times: list[float | None], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n, time in enumerate(times):
        path = tmp_path / f"s_{n}.vts"
        if kind == "volumes":
            path = image(tmp_path / f"s_{n}.vti", {"heat": np.zeros((3, 3, 3))})
            timed(path, time)
        else:
            box(path, 0.0, time=time)
        if kind == "blocks":
            listed(tmp_path / f"s_{n}.vtm", block("one", f"s_{n}.vts"))
    ending = {"zones": "vts", "blocks": "vtm", "volumes": "vti"}[kind]
    source = str(tmp_path / f"s_*.{ending}")
    why = why.replace("vts", ending)
    if kind == "volumes":
        with ff.open(source) as volume:
            assert list(volume.times) == [0, 1, 2]
            (said,) = [s for s in volume.info()["guessed"] if "steps are counted" in s]
            assert re.search(f"{why}: steps are counted", said)
        return
    with ff.open(source) as ds:
        info = ds.info()
        assert list(ds.times) == [0, 1, 2] and info["times_why"] in info["guessed"]
        assert re.search(f"are not used, as .*{why}: the 3 steps are numbered", info["times_why"])
        assert "No file gives" not in " ".join(info["guessed"])
        with pytest.raises(UsageError, match=why):
            ds.pathlines(seeds=[(0.1, 0.5, 0.5)])
    words = ["trace", source, "--kind", "pathline", "--seeds", "point:0.1,0.5,0.5", "-o", str(tmp_path / "o.npz")]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert re.search(f"error: .*{why}: the 3 steps are numbered .*--dt", said) and "No file gives" not in said
    # Who says how far they are apart is asked nothing.
    assert run([*words, "--dt", "0.25"]) == 0


def test_a_series_without_any_time_says_so(tmp_path: Path) -> None:
    for n in range(2):
        box(tmp_path / f"s_{n}.vts", 0.0)
    with ff.open(tmp_path / "s_*.vts") as ds:
        assert ds.info()["times_why"].startswith("No file gives the times of the 2 steps")


def test_times_in_single_precision_are_found_as_they_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n, time in enumerate([0.1, 0.2, 0.4]):
        box(tmp_path / f"s_{n}.vts", 0.0, time=time, single=True)
    source, out = str(tmp_path / "s_*.vts"), tmp_path / "o.npz"
    with ff.open(source) as ds:
        assert list(ds.times) == [0.1, 0.2, 0.4]
    words = ["trace", source, "--kind", "pathline", "--seeds", "point:0.1,0.5,0.5", "-o", str(out)]
    assert run([*words, "--t0", "0.1", "--t1", "0.4"]) == 0, capsys.readouterr().err
    # dx/dt = 1 for 0.3.
    with np.load(out) as lines:
        assert np.allclose(lines["points"][-1], (0.4, 0.5, 0.5), atol=1e-6)


def test_a_time_that_is_none_is_said(tmp_path: Path) -> None:
    path = box(tmp_path / "a.vts", 0.0, time=1.5)
    path.write_text(path.read_text().replace(">1.5<", ">1.5 2.5<"))
    with ff.open(path) as ds:
        assert list(ds.times) == [0] and "TimeValue of a.vts is not one number" in ds.info()["guessed"][0]


def test_file_series_of_paraview(tmp_path: Path) -> None:
    for n in range(3):
        box(tmp_path / f"s_{n}.vts", 0.0, n)
    files = [{"name": f"s_{n}.vts", "time": time} for n, time in ((2, 7.5), (0, 1.0), (1, 2.0))]
    path = tmp_path / "s.vts.series"
    path.write_text(json.dumps({"file-series-version": "1.0", "files": files}, indent=2))
    assert not is_volume(path)
    with ff.open(path) as ds:
        assert list(ds.times) == [1, 2, 7.5]
        assert ds.isel(time=2).probe((0.5, 0.5, 0.5)).values["velocity"] == pytest.approx((2, 0, 0))
    path.write_text(json.dumps({"file-series-version": "1.0", "files": [{"time": 1}]}))
    with pytest.raises(DataError, match="one of its files has no name"):
        parse(path)


def test_a_store_keeps_names_and_times(tmp_path: Path) -> None:
    for n in range(2):
        for part in (0, 1):
            box(tmp_path / f"t{n}p{part}.vts", float(part), n + 1.0)
    for n in range(2):
        listed(tmp_path / f"t{n}.vtm", block("left", f"t{n}p0.vts") + block("right", f"t{n}p1.vts"))
    path = pvd(tmp_path / "a.pvd", [(0.1, 0, "t0.vtm"), (0.7, 0, "t1.vtm")])
    ff.convert(path, tmp_path / "a.zarr")
    with ff.open(tmp_path / "a.zarr") as ds:
        assert list(ds.times) == [0.1, 0.7] and list(ds.zones) == ["left", "right"]
