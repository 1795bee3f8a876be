"""Structured grids and uneven rectilinear ones in VTK's XML, as zones: written by hand, and by VTK where it is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield
import farfield.sources.parsing
from farfield.cli import run
from farfield.errors import DataError, UsageError
from farfield.volume.formats.detection import is_volume
from running import Command, Json, command

Array = NDArray[Any]
NAMES = {
    "float32": "Float32", "float64": "Float64", "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint8": "UInt8",
}  # fmt: skip
DIMS = (9, 8, 7)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def bent(dims: tuple[int, int, int] = DIMS) -> Array:
    """Points [k, j, i, 3] of a bent box."""
    ni, nj, nk = dims
    k, j, i = np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in (nk, nj, ni)), indexing="ij")
    return np.stack([2 * i + 0.2 * j * k, j + 0.1 * np.sin(i), k + 0.1 * i * j], axis=-1)


def linear(x: Array) -> Array:
    """A field that trilinear cells give at every place, whatever their shape."""
    return np.asarray(1.0 + x[..., 0] - 2.0 * x[..., 1] + 0.5 * x[..., 2])


def element(name: str, data: Array, body: str, **more: str) -> str:
    components = data.shape[-1] if data.ndim == 4 else 1
    words = "".join(f' {key}="{value}"' for key, value in more.items())
    kind = NAMES[data.dtype.name]
    return f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{components}"{words}>{body}</DataArray>'


def write(
    path: Path,
    kind: str,
    places: dict[str, Array],
    points: dict[str, Array],
    cells: dict[str, Array] | None = None,
    *,
    text: bool = False,
    big: bool = False,
) -> Path:
    """A file of one piece, its numbers as text or appended raw."""
    blob = bytearray()

    def put(name: str, data: Array) -> str:
        if text:
            body = " ".join(repr(v) for v in data.ravel().tolist())
            # As VTK does where it knows a range.
            return element(
                name, data, f"{body}<InformationKey name='L2_NORM_RANGE'>1 2</InformationKey>", format="ascii"
            )
        offset = str(len(blob))
        numbers = data.astype(data.dtype.newbyteorder(">" if big else "<")).tobytes()
        blob.extend(len(numbers).to_bytes(8, "big" if big else "little") + numbers)
        return element(name, data, "", format="appended", offset=offset)

    first = next(iter({**points, **{f"{n}": a for n, a in (places or {}).items()}}.values()))
    dims = first.shape[2::-1] if kind == "StructuredGrid" else tuple(len(a) for a in places.values())
    extent = " ".join(f"0 {n - 1}" for n in dims)
    where = "Points" if kind == "StructuredGrid" else "Coordinates"
    parts = [
        f"<{tag}>{''.join(put(name, data) for name, data in arrays.items())}</{tag}>"
        for tag, arrays in ((where, places), ("PointData", points), ("CellData", cells or {}))
    ]
    order = "BigEndian" if big else "LittleEndian"
    head = f'<?xml version="1.0"?>\n<VTKFile type="{kind}" version="1.0" byte_order="{order}" header_type="UInt64">'
    whole = f'{head}<{kind} WholeExtent="{extent}"><Piece Extent="{extent}">{"".join(parts)}</Piece></{kind}>'
    path.write_bytes(whole.encode() + b'<AppendedData encoding="raw">_' + bytes(blob) + b"</AppendedData></VTKFile>")
    return path


def curved(path: Path, dtype: str = "float32", **how: bool) -> Path:
    x = bent().astype(dtype)
    fields = {"pressure": linear(x).astype(dtype), "velocity": (x * [1.0, -2.0, 3.0]).astype(dtype)}
    return write(path, "StructuredGrid", {"Points": x}, fields, **how)


@pytest.mark.parametrize(
    ("dtype", "text", "big"), [("float32", False, False), ("float64", True, False), ("float64", False, True)]
)
def test_a_curvilinear_grid_is_a_zone(dtype: str, text: bool, big: bool, tmp_path: Path) -> None:
    path = curved(tmp_path / "a.vts", dtype, text=text, big=big)
    assert not is_volume(path)
    x = bent().astype(dtype)
    with farfield.open(path) as ds:
        (zone,) = ds.zones.values()
        assert zone.dims == DIMS and ds["xyz"].dtype == dtype
        assert np.array_equal(np.moveaxis(ds["xyz"][...], 0, -1), x)
        assert np.array_equal(ds["pressure"][...], linear(x).astype(dtype))
        assert np.array_equal(np.moveaxis(ds["velocity"][...], 0, -1), (x * [1.0, -2.0, 3.0]).astype(dtype))
        info = ds.info()
        assert (
            info["source"] == str(path)
            and info["format"] == ("VTK XML, converted into the cache" if text else "VTK XML, paged in place")
            and not info["guessed"]
        )
        for place in ((0.9, 0.5, 0.5), (1.7, 0.31, 0.8)):
            probed = ds.probe(place)
            assert probed is not None and abs(probed.values["pressure"] - linear(np.array(place))) < 1e-5
        lines = ds.streamlines(seeds=[(1.0, 0.5, 0.5)], max_steps=50, scalars=["pressure"])
        assert np.abs(lines["pressure"] - linear(lines.points)).max() < 1e-4


def test_an_uneven_rectilinear_grid_is_a_zone_and_an_even_one_a_volume(tmp_path: Path) -> None:
    lines = {
        "x": np.array([0.0, 1.0, 3.0, 7.0, 8.0]),
        "y": np.array([-1.0, 0.0, 0.5, 4.0]),
        "z": np.array([0.0, 2.0, 3.0]),
    }
    k, j, i = np.meshgrid(lines["z"], lines["y"], lines["x"], indexing="ij")
    x = np.stack([i, j, k], axis=-1)
    path = write(tmp_path / "a.vtr", "RectilinearGrid", lines, {"t": linear(x).astype("f4")})
    assert not is_volume(path)
    with farfield.open(path) as ds:
        assert np.array_equal(np.moveaxis(ds["xyz"][...], 0, -1), x)
        probed = ds.probe((5.0, 2.0, 1.0))
        assert probed is not None and abs(probed.values["t"] - linear(np.array([5.0, 2.0, 1.0]))) < 1e-5
        assert ds.info(ranges=True)["zones"][0]["kind"] == "rectilinear"
    lines["x"] = np.linspace(0.0, 8.0, 5)
    lines["y"], lines["z"] = np.linspace(0, 3, 4), np.linspace(0, 2, 3)
    assert is_volume(write(tmp_path / "b.vtr", "RectilinearGrid", lines, {"t": linear(x).astype("f4")}))


def test_numbers_of_cells_go_to_points(tmp_path: Path) -> None:
    ni, nj, nk = DIMS
    k, j, i = np.meshgrid(*(np.arange(n) + 0.5 for n in (nk - 1, nj - 1, ni - 1)), indexing="ij")
    heat = i + 10 * j + 100 * k
    ids = np.arange((nk - 1) * (nj - 1) * (ni - 1), dtype="i4").reshape(nk - 1, nj - 1, ni - 1)
    path = write(
        tmp_path / "c.vts", "StructuredGrid", {"Points": bent()}, {"ids": bent()[..., 0]}, {"heat": heat, "ids": ids}
    )
    with farfield.open(path) as ds:
        found = ds["heat"][...]
        inner = np.add.outer(np.add.outer(100 * np.arange(1, nk - 1), 10 * np.arange(1, nj - 1)), np.arange(1, ni - 1))
        assert np.allclose(found[1:-1, 1:-1, 1:-1], inner)
        # At faces, edges and corners of as many cells as there are.
        padded = np.pad(heat, 1, mode="edge")
        around = [padded[c : c + nk, b : b + nj, a : a + ni] for c in (0, 1) for b in (0, 1) for a in (0, 1)]
        assert np.allclose(found, sum(around) / 8)
        assert {f["name"] for f in ds.info()["fields"]} >= {"heat", "ids", "ids_of_cells"}
        assert "mean of the cells around it" in ds.info()["guessed"][0]


def test_hidden_points_are_holes(tmp_path: Path) -> None:
    x = bent()
    ghosts = np.zeros(x.shape[:3], "u1")
    ghosts[3, 4, 5] = 2
    cells = np.zeros([n - 1 for n in x.shape[:3]], "u1")
    cells[:2, :2, :2] = 32
    path = write(
        tmp_path / "g.vts",
        "StructuredGrid",
        {"Points": x},
        {"p": linear(x), "vtkGhostType": ghosts},
        {"vtkGhostType": cells},
    )
    with farfield.open(path) as ds:
        blank = ds["iblank"][...]
        wanted = np.ones(x.shape[:3], int)
        wanted[3, 4, 5] = 0
        wanted[:2, :2, :2] = 0  # those all of whose cells are hidden
        assert np.array_equal(blank, wanted)
        assert [f["name"] for f in ds.info()["fields"] if not f["derived"]] == ["p"]


def test_a_series_of_files_is_a_series_of_steps(tmp_path: Path) -> None:
    for n in range(3):
        x = bent()
        write(tmp_path / f"s_{n}.vts", "StructuredGrid", {"Points": x}, {"p": linear(x) + n})
        write(tmp_path / f"m_{n}.vts", "StructuredGrid", {"Points": x + n}, {"p": linear(x)})
    with farfield.open(tmp_path / "s_*.vts", plot3d={"dt": 0.5}) as ds:
        assert len(ds.times) == 3 and len(ds._source.options.get("grids", ())) == 0
        assert np.array_equal(ds.isel(time=2)["p"][...], linear(bent()) + 2)
    with farfield.open(tmp_path / "m_*.vts") as ds:
        probed = ds.isel(time=1).probe((1.9, 1.5, 1.5))
        assert probed is not None and abs(probed.values["p"] - linear(np.array([0.9, 0.5, 0.5]))) < 1e-5
    write(tmp_path / "s_9.vts", "StructuredGrid", {"Points": bent()}, {"other": linear(bent())})
    with pytest.raises(DataError, match=r"s_9\.vts: its arrays are other, and those of .*s_0\.vts p"):
        farfield.open(tmp_path / "s_*.vts")


def test_commands_take_them(ff: Command, ff_json: Json, cache: Path, tmp_path: Path) -> None:
    path = curved(tmp_path / "a.vts")
    first = ff("info", path)
    assert first.stderr == "" and "9 x 8 x 7" in first.stdout
    assert not list(cache.rglob("*.raw")), "nothing of it is in the cache"
    written = ff("info", curved(tmp_path / "text.vts", text=True))
    assert len(re.findall("is converted once", written.stderr)) == 1 and "9 x 8 x 7" in written.stdout
    again = ff(
        "extract", "slice", path, "--normal", "z", "--field", "pressure", "-o", tmp_path / "cut.npy", "--size", "40x20"
    )
    assert again.stderr == "" and np.isfinite(np.load(tmp_path / "cut.npy")).sum() > 100
    done = ff_json("extract", "isosurface", path, "--field", "pressure", "--value", 1.0, "-o", tmp_path / "iso.ply")
    assert done["triangles"] > 20
    assert ff_json("render", path, "-o", tmp_path / "a.png", "--size", "160x90")["size"] == [160, 90]
    ff("convert", path, tmp_path / "a.zarr", "--page", 8)
    with farfield.open(tmp_path / "a.zarr") as ds:
        assert np.array_equal(ds["pressure"][...], linear(bent().astype("f4")).astype("f4"))
    assert ff("info", path, "-q", env={"FARFIELD_CACHE_DIR": str(tmp_path / "other")}).stderr == ""
    # What is written must not be what is read.
    clash = ff("extract", "slice", path, "--normal", "z", "--field", "pressure", "-o", path, ok=(2,))
    assert clash.returncode == 2 and path.stat().st_size > 0
    # A file that has changed is another one.
    changed = bent().astype("f4") + 5
    write(path, "StructuredGrid", {"Points": changed}, {"pressure": linear(changed)})
    with farfield.open(path) as ds:
        assert float(ds["xyz"][0, 0, 0, 0]) == 5.0


def test_the_time_that_it_takes_to_read_is_told_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = farfield.sources.parsing.parse(curved(tmp_path / "a.vts"), quiet=True)
    wall_s, cpu_s = source.options["read_s"]
    assert 0.0 < wall_s < 60.0 and 0.0 <= cpu_s < 60.0
    monkeypatch.setattr(
        "farfield.sources.parsing._read_since", lambda begun, made: made.with_options(read_s=[1000.0, 500.0])
    )
    with farfield.open(tmp_path / "a.vts") as ds:
        stats = ds.stats()
        assert 1000.0 < stats["wall_s"] < 1060.0 and 500.0 < stats["cpu_s"] < 560.0
        assert "read_s" not in ds._source.options


def test_damage_is_said(tmp_path: Path) -> None:
    path = curved(tmp_path / "a.vts")
    whole = path.read_bytes()
    path.write_bytes(whole[:-2000])
    with pytest.raises(DataError, match=r"a\.vts"):
        farfield.open(path)
    path.write_bytes(whole.replace(b"<Points>", b"<Nothing>").replace(b"</Points>", b"</Nothing>"))
    with pytest.raises(DataError, match="where it is"):
        farfield.open(path)
    path.write_bytes(whole)
    with pytest.raises(UsageError, match="contains its own fields; remove"):
        farfield.open(path, q=str(path))


def test_memory_does_not_depend_on_the_size(tmp_path: Path) -> None:
    x = bent((120, 160, 140)).astype("f4")
    cells = np.zeros((139, 159, 119), "f4")
    write(tmp_path / "large.vts", "StructuredGrid", {"Points": x}, {"v": x}, {"c": cells})
    write(
        tmp_path / "small.vts",
        "StructuredGrid",
        {"Points": x[:4, :4, :4]},
        {"v": x[:4, :4, :4]},
        {"c": cells[:3, :3, :3]},
    )
    peaks = []
    for name in ("small", "large"):
        words = command("info", tmp_path / f"{name}.vts", "--memory-limit", "16MiB")
        code = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.splitlines()[-1]) / 1024)
    assert x.nbytes > 30 << 20 and peaks[1] < peaks[0] + 24, peaks


@pytest.mark.parametrize("how", ["ascii", "zlib", "lz4", "lzma", "raw", "pieces"])
def test_as_vtk_writes_it(how: str, tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support

    x = bent()
    grid = vtk.vtkStructuredGrid()
    grid.SetDimensions(*DIMS)
    points = vtk.vtkPoints()
    points.SetData(numpy_support.numpy_to_vtk(x.reshape(-1, 3), deep=True))
    grid.SetPoints(points)
    for data, name, values in (
        (grid.GetPointData(), "p", linear(x).ravel()),
        (grid.GetPointData(), "v", x.reshape(-1, 3).astype("f4")),
        (grid.GetCellData(), "c", np.arange(8 * 7 * 6, dtype="i2")),
    ):
        array = numpy_support.numpy_to_vtk(values, deep=True)
        array.SetName(name)
        data.AddArray(array)
    writer = vtk.vtkXMLStructuredGridWriter()
    writer.SetInputData(grid)
    writer.SetFileName(str(tmp_path / "a.vts"))
    if how == "ascii":
        writer.SetDataModeToAscii()
    elif how in ("zlib", "lz4", "lzma"):
        named = {"zlib": "ZLib", "lz4": "LZ4", "lzma": "LZMA"}[how]
        getattr(writer, f"SetCompressorTypeTo{named}")()
        writer.SetBlockSize(1024)
    else:
        writer.SetCompressorTypeToNone()
        writer.SetEncodeAppendedData(False)
    if how == "pieces":
        writer.SetNumberOfPieces(3)
    writer.Write()
    reader = vtk.vtkXMLStructuredGridReader()
    reader.SetFileName(str(tmp_path / "a.vts"))
    mean = vtk.vtkCellDataToPointData()
    mean.SetInputConnection(reader.GetOutputPort())
    mean.Update()
    truth = mean.GetOutput()
    there = {n: numpy_support.vtk_to_numpy(truth.GetPointData().GetArray(n)) for n in ("p", "v", "c")}
    places = numpy_support.vtk_to_numpy(truth.GetPoints().GetData())
    with farfield.open(tmp_path / "a.vts") as ds:
        assert np.array_equal(np.moveaxis(ds["xyz"][...], 0, -1).reshape(-1, 3), places)
        assert np.array_equal(ds["p"][...].ravel(), there["p"])
        assert np.array_equal(np.moveaxis(ds["v"][...], 0, -1).reshape(-1, 3), there["v"])
        # VTK rounds means of whole numbers toward 0.
        assert np.abs(np.trunc(ds["c"][...].ravel()) - there["c"]).max() <= 1


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("planar", [False, True])
def test_cells_that_are_turned_inside_out_are_told_of(
    planar: bool, axis: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points along an axis at 0, 1, 2, 1.5, 3, 4: one layer of cells goes back."""
    if planar and axis == 2:
        return
    lines = [np.arange(4.0), np.arange(5.0), np.arange(1.0 if planar else 3.0)]
    lines[axis] = np.array([0, 1, 2, 1.5, 3, 4])
    k, j, i = np.meshgrid(*lines[::-1], indexing="ij")
    x = np.stack([i + 0.01 * j, j, k], axis=-1)
    path = write(tmp_path / "a.vts", "StructuredGrid", {"Points": x}, {"velocity": np.ones_like(x)})
    counts = [len(line) - 1 for line in lines if len(line) > 1]
    cells, layer = int(np.prod(counts)), int(np.prod(counts)) // 5
    first = ", ".join("3" if n == axis else "1" for n in range(len(counts)))
    said = f"Of the {cells} cells of zone1 {layer} are turned inside out against the others, the first at {first}: "
    for _ in range(2):  # the second time of what is in the cache
        with farfield.open(path) as ds:
            assert next(s for s in ds.info()["notes"] if "turned" in s).startswith(said)
        assert run(["probe", str(path), *map(str, [0.5, 0.5, 0.5][: len(counts)])]) == 0
        assert capsys.readouterr().err.count(said) == 1


def test_grids_that_are_not_folded_say_nothing(tmp_path: Path) -> None:
    """Left-handed ones, those that end in a line, with cells that are far thinner than long, and bent ones."""
    i, j, k = np.meshgrid(np.linspace(0, 6.28, 17), np.linspace(0, 1, 6), np.linspace(0, 1, 4), indexing="ij")
    wall = 1e-7 * 1e7**j
    for n, x in enumerate(
        (
            np.stack([j * np.cos(i), j * np.sin(i), k], axis=-1),
            np.stack([k, -j, -i], axis=-1),
            np.stack([1000 + i, wall, k], axis=-1).astype("f4"),
            bent(),
            bent()[:, ::-1],
        )
    ):
        path = write(tmp_path / f"{n}.vts", "StructuredGrid", {"Points": x}, {"p": x[..., 0]})
        with farfield.open(path) as ds:
            assert not [s for s in ds.info()["guessed"] if "turned" in s]
