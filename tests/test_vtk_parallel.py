"""VTK XML in pieces and in time steps: files written by VTK's parallel writers and collections, against what VTK reads of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.errors import DataError
from farfield.volume.formats.detection import format_of
from volume_files import Read

vtk = pytest.importorskip("vtk")
numpy_support = pytest.importorskip("vtk.util.numpy_support")

Look = Callable[..., Read]
SHAPE = (9, 10, 12)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


def noise(shape: tuple[int, ...] = SHAPE, dtype: str = "int16", seed: int = 7) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def with_array(grid: Any, data: np.ndarray[Any, Any], name: str = "density", *, cells: bool = False) -> Any:
    array = numpy_support.numpy_to_vtk(np.ascontiguousarray(data.reshape(-1)), deep=True)
    array.SetName(name)
    (grid.GetCellData() if cells else grid.GetPointData()).SetScalars(array)
    return grid


def image(data: np.ndarray[Any, Any], *, cells: bool = False, time: float | None = None) -> Any:
    made = vtk.vtkImageData()
    made.SetDimensions(*(n + cells for n in data.shape[::-1]))
    made.SetSpacing(0.5, 0.5, 2)
    made.SetOrigin(1, 2, 3)
    if time is not None:
        value = vtk.vtkDoubleArray()
        value.SetName("TimeValue")
        value.InsertNextValue(time)
        made.GetFieldData().AddArray(value)
    return with_array(made, data, cells=cells)


def rectilinear(data: np.ndarray[Any, Any], *, even: bool) -> Any:
    made = vtk.vtkRectilinearGrid()
    made.SetDimensions(*data.shape[::-1])
    for put, n in zip(
        (made.SetXCoordinates, made.SetYCoordinates, made.SetZCoordinates), data.shape[::-1], strict=True
    ):
        line = np.arange(n) * 0.25 if even else np.arange(n) ** 1.5
        put(numpy_support.numpy_to_vtk(line, deep=True))
    return with_array(made, data)


def curved(data: np.ndarray[Any, Any]) -> Any:
    made = vtk.vtkStructuredGrid()
    made.SetDimensions(*data.shape[::-1])
    k, j, i = np.indices(data.shape).reshape(3, -1)
    points = np.stack([i + 0.1 * j, j + 0.02 * k * i, k], axis=1).astype("f4")
    made.SetPoints(vtk.vtkPoints())
    made.GetPoints().SetData(numpy_support.numpy_to_vtk(points, deep=True))
    return with_array(made, data)


def cut(grid: Any) -> Any:
    """A source that gives the parts of a grid that it is asked for."""
    from vtkmodules.util.vtkAlgorithm import VTKPythonAlgorithmBase

    class Cut(VTKPythonAlgorithmBase):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(nInputPorts=0, nOutputPorts=1, outputType=grid.GetClassName())

        def RequestInformation(self, request: Any, inputs: Any, outputs: Any) -> int:  # noqa: N802 - VTK's name
            about = outputs.GetInformationObject(0)
            about.Set(vtk.vtkStreamingDemandDrivenPipeline.WHOLE_EXTENT(), grid.GetExtent(), 6)
            about.Set(vtk.vtkAlgorithm.CAN_PRODUCE_SUB_EXTENT(), 1)
            if grid.IsA("vtkImageData"):
                about.Set(vtk.vtkDataObject.SPACING(), grid.GetSpacing(), 3)
                about.Set(vtk.vtkDataObject.ORIGIN(), grid.GetOrigin(), 3)
            return 1

        def RequestData(self, request: Any, inputs: Any, outputs: Any) -> int:  # noqa: N802 - VTK's name
            about = outputs.GetInformationObject(0)
            extent = [0] * 6
            about.Get(vtk.vtkStreamingDemandDrivenPipeline.UPDATE_EXTENT(), extent)
            made = about.Get(vtk.vtkDataObject.DATA_OBJECT())
            made.DeepCopy(grid)
            made.Crop(extent)
            return 1

    return Cut()


def write(grid: Any, path: Path, pieces: int = 4, *, ghosts: int = 0) -> Path:
    kind = {".pvti": "PImageData", ".pvtr": "PRectilinearGrid", ".pvts": "PStructuredGrid"}[path.suffix]
    writer = getattr(vtk, f"vtkXML{kind}Writer")()
    source = cut(grid)
    writer.SetInputConnection(source.GetOutputPort())
    writer.SetFileName(str(path))
    writer.SetNumberOfPieces(pieces)
    writer.SetStartPiece(0)
    writer.SetEndPiece(pieces - 1)
    writer.SetGhostLevel(ghosts)
    assert writer.Write()
    extents = re.findall(r'<Piece Extent="([^"]*)"', path.read_text())
    assert len(set(extents)) == pieces
    return path


def as_vtk_reads(path: Path, *, cells: bool = False) -> np.ndarray[Any, Any]:
    kind = {".pvti": "PImageData", ".pvtr": "PRectilinearGrid", ".pvts": "PStructuredGrid"}[path.suffix]
    reader = getattr(vtk, f"vtkXML{kind}Reader")()
    reader.SetFileName(str(path))
    reader.Update()
    made = reader.GetOutput()
    extent = made.GetExtent()
    dims = [extent[2 * n + 1] - extent[2 * n] + 1 - cells for n in range(3)]
    data = made.GetCellData() if cells else made.GetPointData()
    return np.array(numpy_support.vtk_to_numpy(data.GetScalars())).reshape(dims[::-1])


@pytest.mark.parametrize("pieces", [1, 2, 5, 8])
@pytest.mark.parametrize("cells", [False, True])
def test_images(pieces: int, cells: bool, tmp_path: Path, there: Look) -> None:
    data = noise()
    path = write(image(data, cells=cells), tmp_path / "a.pvti", pieces)
    found = there(path)
    assert np.array_equal(found.numbers(), data) and np.array_equal(as_vtk_reads(path, cells=cells), data)
    half = 0.5 if cells else 0
    assert found.level["spacing"] == [0.5, 0.5, 2] and found.level["origin"] == [
        1 + half / 2,
        2 + half / 2,
        3 + 2 * half,
    ]
    assert found.spec["format"] == "VTK XML PImageData" and found.spec["channels"][0]["name"] == "density"
    assert "in several pieces, and is converted once" in found.said[0] and there(path).said == []
    assert {Path(name).name for name in found.description.reads} >= {"a.pvti", *(f"a_{n}.vti" for n in range(pieces))}


def test_ghosts(tmp_path: Path, there: Look) -> None:
    path = write(image(noise()), tmp_path / "a.pvti", 4, ghosts=1)
    assert np.array_equal(there(path).numbers(), noise())


def slabs(folder: Path, data: np.ndarray[Any, Any], cuts: list[int], big: bool = False) -> Path:
    """Pieces of whole planes, as they are in memory."""
    ny, nx = data.shape[1:]
    listed = ""
    for n, (low, high) in enumerate(itertools.pairwise(cuts)):
        part = image(data[low : high + 1])
        part.SetExtent(0, nx - 1, 0, ny - 1, low, high)
        writer = vtk.vtkXMLImageDataWriter()
        writer.SetInputData(part)
        writer.SetFileName(str(folder / f"s{n}.vti"))
        writer.SetDataModeToAppended()
        writer.EncodeAppendedDataOff()
        writer.SetCompressorTypeToNone()
        if big:
            writer.SetByteOrderToBigEndian()
        writer.Write()
        listed += f'<Piece Extent="0 {nx - 1} 0 {ny - 1} {low} {high}" Source="s{n}.vti"/>'
    return by_hand(folder / "s.pvti", data.shape, listed)


def by_hand(path: Path, shape: tuple[int, ...], listed: str, spacing: str = "0.5 0.5 2") -> Path:
    nz, ny, nx = shape
    path.write_text(
        f'<VTKFile type="PImageData"><PImageData WholeExtent="0 {nx - 1} 0 {ny - 1} 0 {nz - 1}" Origin="1 2 3" Spacing="{spacing}">'
        '<PPointData Scalars="density"><PDataArray type="Int16" Name="density"/></PPointData>'
        f"{listed}</PImageData></VTKFile>"
    )
    return path


@pytest.mark.parametrize("big", [False, True])
def test_whole_planes_stay_where_they_are(big: bool, tmp_path: Path, there: Look) -> None:
    path = slabs(tmp_path, noise(), [0, 3, 4, 8], big)
    found = there(path)
    assert found.said == [] and "planes" in found.array["where"] and np.array_equal(found.numbers(), noise())
    assert np.array_equal(as_vtk_reads(path), noise())
    with ff.open(path) as volume:
        assert np.array_equal(volume[...], noise())


def test_pieces_in_both_byte_orders(tmp_path: Path, there: Look) -> None:
    slabs(tmp_path, noise(), [0, 3, 8], big=True)
    (tmp_path / "s1.vti").rename(tmp_path / "big.vti")
    path = slabs(tmp_path, noise(), [0, 3, 8])
    path.write_text(path.read_text().replace("s1.vti", "big.vti"))
    found = there(path)
    assert np.array_equal(found.numbers(), noise()) and "converted once" in found.said[0]


def test_pieces_that_do_not_go_together(tmp_path: Path, there: Look) -> None:
    path = slabs(tmp_path, noise(), [0, 3, 8])
    listed = path.read_text()
    shape = SHAPE
    path.write_text(listed.replace("s1.vti", "gone.vti"))
    with pytest.raises(DataError, match=r"s\.pvti: its piece .*gone\.vti is not there; copy it here"):
        there(path)
    path.write_text(listed.replace('0 11 0 9 3 8"', '0 11 0 9 4 8"'))
    with pytest.raises(
        DataError, match=r"s1\.vti: this piece has the extent 0 11 0 9 3 8, and .*s\.pvti says 0 11 0 9 4 8"
    ):
        there(path)
    only = re.sub(r'<Piece [^>]*Source="s1.vti"/>', "", listed)
    path.write_text(only)
    with pytest.raises(DataError, match=r"s\.pvti: its pieces do not fill its WholeExtent 12 x 10 x 9"):
        there(path)
    path.write_text(listed.replace("0.5 0.5 2", "0.5 0.5 3"))
    with pytest.raises(DataError, match=r"s0\.vti: this piece has the Spacing 0.5 0.5 2, and .*s\.pvti says 0.5 0.5 3"):
        there(path)
    path.write_text(listed.replace('Origin="1 2 3"', 'Origin="1 2 3.00000001"'))
    assert np.array_equal(there(path).numbers(), noise())
    path.write_text(listed.replace('Origin="1 2 3"', 'Origin="1 2 3.5"'))
    with pytest.raises(DataError, match=r"s0\.vti: this piece has the Origin 1 2 3, and"):
        there(path)
    path.write_text(listed)
    piece = tmp_path / "s1.vti"
    whole = piece.read_bytes()
    piece.write_bytes(whole.replace(b'Name="density"', b'Name="pressur"'))
    with pytest.raises(DataError, match=r"s1\.vti has no array 'density' \(there are: 'pressur'\)"):
        there(path)
    piece.write_bytes(whole.replace(b'type="Int16"', b'type="UInt16"'))
    with pytest.raises(DataError, match=r"s1\.vti has 'density' as 1 x uint16, and the first piece as 1 x int16"):
        there(path)
    piece.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"s1\.vti: '?.*cut off"):
        there(path)
    piece.write_bytes(whole.replace(b"ImageData", b"PolyDataX"))
    with pytest.raises(DataError, match=r"s1\.vti: this piece of .*s\.pvti is VTK XML of the kind 'PolyDataX'"):
        there(path)
    by_hand(path, shape, "")
    with pytest.raises(DataError, match=r"s\.pvti: it lists no <Piece>"):
        there(path)
    by_hand(path, shape, '<Piece Extent="0 11 0 9 0 8"/>')
    with pytest.raises(DataError, match="names no file"):
        there(path)


def test_empty_pieces_are_passed_over(tmp_path: Path, there: Look) -> None:
    path = slabs(tmp_path, noise(), [0, 3, 8])
    path.write_text(path.read_text().replace("<Piece", '<Piece Extent="0 -1 0 -1 0 -1" Source="none.vti"/><Piece', 1))
    assert np.array_equal(there(path).numbers(), noise())


def test_rectilinear_of_even_spacing(tmp_path: Path, there: Look) -> None:
    path = write(rectilinear(noise(), even=True), tmp_path / "a.pvtr")
    found = there(path)
    assert np.array_equal(found.numbers(), noise()) and found.level["spacing"] == [0.25] * 3
    assert np.array_equal(as_vtk_reads(path), noise())


@pytest.mark.parametrize("kind", ["pvtr", "pvts"])
def test_zones(kind: str, tmp_path: Path) -> None:
    data = noise(dtype="float32")
    grid = rectilinear(data, even=False) if kind == "pvtr" else curved(data)
    path = write(grid, tmp_path / f"a.{kind}")
    assert format_of(str(path)) is None
    with ff.open(path) as ds:
        zone = ds.zones["zone1"]
        assert np.array_equal(zone["density"][...], data) and np.array_equal(as_vtk_reads(path), data)
        points = np.array([grid.GetPoint(n) for n in range(data.size)], dtype="f4").reshape(*data.shape, 3)
        assert np.allclose(np.moveaxis(np.asarray(zone["xyz"][...]), 0, -1), points, rtol=1e-6)
        assert str(tmp_path / f"a_1.{kind[1:]}") in ds._source.made_of
    (tmp_path / f"a_1.{kind[1:]}").unlink()
    with pytest.raises(DataError, match=r"its piece .*a_1\.\w+ is not there"):
        ff.open(path)


def test_time_of_one_file(tmp_path: Path, there: Look, capsys: pytest.CaptureFixture[str]) -> None:
    writer = vtk.vtkXMLImageDataWriter()
    writer.SetInputData(image(noise(), time=0.375))
    for mode in (0, 1, 2):
        path = tmp_path / f"t{mode}.vti"
        writer.SetDataMode(mode)
        writer.SetFileName(str(path))
        writer.Write()
        found = there(path)
        assert found.spec["times"] == [0.375] and np.array_equal(found.numbers(), noise())
    assert there(write(image(noise(), time=0.25), tmp_path / "p.pvti")).spec["times"] == [0.25]
    two = vtk.vtkDoubleArray()
    two.SetName("TimeValue")
    two.InsertNextValue(1)
    two.InsertNextValue(2)
    grid = image(noise())
    grid.GetFieldData().AddArray(two)
    writer.SetInputData(grid)
    for mode in (0, 2):
        writer.SetDataMode(mode)
        writer.SetFileName(str(tmp_path / "two.vti"))
        writer.Write()
        found = there(tmp_path / "two.vti")
        assert found.spec["times"] == [] and "TimeValue is not one number" in found.guessed
    from farfield import cli

    assert cli.run(["info", str(tmp_path / "t0.vti")]) == 0
    assert "times    1: 0.375" in capsys.readouterr().out


def collection(path: Path, entries: list[tuple[float | None, str]]) -> Path:
    listed = "".join(
        f'<DataSet {"" if time is None else f"timestep={chr(34)}{time}{chr(34)} "}part="0" file="{name}"/>'
        for time, name in entries
    )
    path.write_text(
        f'<?xml version="1.0"?><VTKFile type="Collection" version="0.1"><Collection>{listed}</Collection></VTKFile>'
    )
    return path


@pytest.mark.parametrize("how", ["raw", "compressed", "pieces", "slabs"])
def test_collections_of_volumes(how: str, tmp_path: Path, there: Look) -> None:
    data = [noise(seed=n) for n in range(3)]
    names = []
    for n, numbers in enumerate(data):
        (folder := tmp_path / f"d{n}").mkdir()
        if how == "pieces":
            write(image(numbers), folder / "v.pvti")
        elif how == "slabs":
            slabs(folder, numbers, [0, 3, 8]).rename(folder / "v.pvti")
        else:
            writer = vtk.vtkXMLImageDataWriter()
            writer.SetInputData(image(numbers))
            writer.SetFileName(str(folder / "v.vti"))
            writer.SetDataModeToAppended()
            writer.EncodeAppendedDataOff()
            if how == "raw":
                writer.SetCompressorTypeToNone()
            else:
                writer.SetBlockSize(12 * 10 * 2)
            writer.Write()
        names.append(
            next(str(f.relative_to(tmp_path)) for f in folder.iterdir() if f.name.startswith("v") and "_" not in f.name)
        )
    # In order of time, not of the file.
    path = collection(tmp_path / "run.pvd", [(0.5, names[1]), (0.0, names[0]), (2.0, names[2])])
    found = there(path)
    assert found.spec["times"] == [0, 0.5, 2]
    assert all(np.array_equal(found.numbers(step=n), data[n]) for n in range(3))
    assert len(found.said) == (2 if how == "pieces" else 0)
    with ff.open(path) as volume:
        assert volume.shape == (3, *SHAPE) and np.array_equal(volume[...], np.stack(data))
        assert np.array_equal(volume.sel(time=0.5)[4], data[1][4])


def test_collections_that_do_not_go_together(tmp_path: Path, there: Look) -> None:
    for n, numbers in enumerate((noise(), noise((9, 10, 11)), noise(dtype="float32"))):
        writer = vtk.vtkXMLImageDataWriter()
        writer.SetInputData(image(numbers))
        writer.SetFileName(str(tmp_path / f"v{n}.vti"))
        writer.Write()
    path = tmp_path / "run.pvd"
    with pytest.raises(
        DataError, match=r"v1\.vti: its numbers are zyx 9 x 10 x 11 of int16, and in .*v0\.vti zyx 9 x 10 x 12"
    ):
        there(collection(path, [(0, "v0.vti"), (1, "v1.vti")]))
    with pytest.raises(DataError, match=r"v2\.vti: its numbers are .*float32"):
        there(collection(path, [(0, "v0.vti"), (1, "v2.vti")]))
    with pytest.raises(DataError, match=r"run\.pvd: its file .*gone\.vti is not there"):
        there(collection(path, [(0, "v0.vti"), (1, "gone.vti")]))
    # A run that was started again writes the same times once more.
    again = there(collection(path, [(0, "v0.vti"), (1, "v1.vti"), (1, "v0.vti"), (0, "v0.vti")]))
    assert again.spec["times"] == [0, 1] and "passed over: v1.vti at 1" in again.guessed
    with pytest.raises(DataError, match="this collection names no files"):
        there(collection(path, []))


def test_patterns_of_volumes_are_time_steps(tmp_path: Path, there: Look) -> None:
    for n in (8, 9, 10):
        writer = vtk.vtkXMLImageDataWriter()
        writer.SetInputData(image(noise(seed=n), time=n / 4))
        writer.SetFileName(str(tmp_path / f"step_{n}.vti"))
        writer.Write()
    found = there(tmp_path / "step_*.vti")
    assert found.spec["times"] == [2, 2.25, 2.5] and np.array_equal(found.numbers(step=2), noise(seed=10))
    assert str(tmp_path / "step_9.vti") in found.description.reads


def test_collections_of_zones(tmp_path: Path) -> None:
    for n in range(3):
        writer = vtk.vtkXMLStructuredGridWriter()
        writer.SetInputData(curved(noise(dtype="float32", seed=n)))
        writer.SetFileName(str(tmp_path / f"z{n}.vts"))
        writer.Write()
    path = collection(tmp_path / "z.pvd", [(n / 2, f"z{n}.vts") for n in range(3)])
    with ff.open(path) as ds:
        assert list(ds.time_values) == [0, 0.5, 1]
        assert np.array_equal(ds.isel(time=2).zones["zone1"]["density"][...], noise(dtype="float32", seed=2))
    with ff.open(collection(path, [(2 + n**2, f"z{n}.vts") for n in (2, 0, 1)])) as ds:
        assert list(ds.time_values) == [2, 3, 6] and ds.info()["times_why"] is None
        assert np.array_equal(ds.isel(time=2).zones["zone1"]["density"][...], noise(dtype="float32", seed=2))


@pytest.mark.parametrize("kind", ["pvti", "pvtr", "pvts"])
def test_damage_ends_in_a_sentence(kind: str, tmp_path: Path) -> None:
    """Bytes that are changed, at places from a seed, in the file that lists pieces and in one of them."""
    data = noise((3, 4, 5), "float32")
    grid = {"pvti": image, "pvtr": lambda d: rectilinear(d, even=False), "pvts": curved}[kind](data)
    path = write(grid, tmp_path / f"a.{kind}", 2)
    rng = np.random.default_rng(11)
    for file in (path, tmp_path / f"a_1.{kind[1:]}"):
        whole = file.read_bytes()
        for _ in range(60):
            broken = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.3 else whole)
            for at in rng.integers(0, len(broken), 3):
                broken[at] = rng.integers(0, 256)
            file.write_bytes(broken)
            try:
                with ff.open(path) as opened:
                    assert opened is not None
            except ff.FarfieldError as error:
                assert str(error)
        file.write_bytes(whole)
