"""Legacy VTK files (`.vtk`): as text and binary, against what VTK reads, and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.errors import DataError
from farfield.volume.formats.detection import format_of, is_volume
from test_vtk_zones import bent, linear


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


class Numbers:
    """Numbers of a file, as text or as they are in memory with the highest byte first."""

    def __init__(self, text: bool) -> None:
        self.text = text

    def __call__(self, data: Any, dtype: str) -> bytes:
        values = np.asarray(data, dtype).ravel()
        if self.text:
            return ("\n".join(" ".join(map(repr, row.tolist())) for row in np.array_split(values, 7)) + "\n").encode()
        return values.astype(values.dtype.newbyteorder(">")).tobytes() + b"\n"

    @property
    def head(self) -> bytes:
        return f"# vtk DataFile Version 3.0\nmade by hand\n{'ASCII' if self.text else 'BINARY'}\n".encode()


def points(path: Path, data: Any, *, text: bool, kind: str = "short", dtype: str = "i2", more: bytes = b"") -> Path:
    """Structured points with a scalar."""
    put = Numbers(text)
    nz, ny, nx = data.shape
    path.write_bytes(
        put.head
        + f"DATASET STRUCTURED_POINTS\nDIMENSIONS {nx} {ny} {nz}\nORIGIN 1 2 3\nASPECT_RATIO 0.5 0.25 2\n\n".encode()
        + f"POINT_DATA {data.size}\nSCALARS den%20sity {kind}\nLOOKUP_TABLE default\n".encode()
        + put(data, dtype)
        + more
    )
    return path


@pytest.mark.parametrize("text", [True, False])
def test_structured_points_are_a_volume_where_they_lie(text: bool, tmp_path: Path) -> None:
    data = np.random.default_rng(3).integers(-3000, 3000, (5, 6, 7)).astype("i2")
    path = points(tmp_path / "a.vtk", data, text=text)
    assert is_volume(path) and format_of(str(path)) == "vtk"
    with ff.open(path) as volume:
        assert volume.format == "legacy VTK ImageData" and np.array_equal(volume[...], data)
        assert volume.spacing == (0.5, 0.25, 2) and volume.origin == (1, 2, 3)
        assert [c.name for c in volume.channels] == ["den sity"]
    # Binary numbers are paged in place.
    assert text or not (tmp_path / "cache").exists() or not list((tmp_path / "cache").rglob("*.raw"))


@pytest.mark.parametrize("text", [True, False])
def test_structured_points_with_vectors_are_a_flow(text: bool, tmp_path: Path) -> None:
    k, j, i = np.meshgrid(np.arange(4), np.arange(5), np.arange(6), indexing="ij")
    flow = np.stack([1 + 0 * i, 0 * j, 0 * k], axis=-1)
    put = Numbers(text)
    more = (
        b"VECTORS velocity float\n" + put(flow, "f4") + b"FIELD FieldData 1\nheat 1 120 double\n" + put(i + 0.1, "f8")
    )
    path = points(tmp_path / "a.vtk", i, text=text, more=more)
    assert not is_volume(path)
    with ff.open(path) as ds:
        assert np.allclose(ds["heat"][...], i + 0.1) and np.array_equal(ds["den_sity"][...], i)
        assert ds.info()["format"].startswith("legacy VTK")
        lines = ds.streamlines(seeds=[(1.25, 2.5, 5)])
        assert np.allclose(lines.points[-1], (3.5, 2.5, 5))


@pytest.mark.parametrize("text", [True, False])
def test_structured_and_rectilinear_grids_are_zones(text: bool, tmp_path: Path) -> None:
    put, x = Numbers(text), bent()
    nz, ny, nx = x.shape[:3]
    cells = (nx - 1) * (ny - 1) * (nz - 1)
    body = f"POINT_DATA {nx * ny * nz}\nSCALARS p double 1\nLOOKUP_TABLE default\n".encode() + put(linear(x), "f8")
    body += b"NORMALS n float\n" + put(x, "f4") + b"METADATA\nINFORMATION 0\n\n"
    body += f"CELL_DATA {cells}\nSCALARS c int\n".encode() + put(np.ones(cells), "i4")
    size = f"DIMENSIONS {nx} {ny} {nz}\n".encode()
    curved = tmp_path / "c.vtk"
    places = f"POINTS {nx * ny * nz} double\n".encode() + put(x, "f8")
    curved.write_bytes(put.head + b"DATASET STRUCTURED_GRID\n" + size + places + body)
    with ff.open(curved) as ds:
        assert np.array_equal(np.moveaxis(ds["xyz"][...], 0, -1), x) and np.array_equal(ds["p"][...], linear(x))
        assert (ds["c"][...] == 1).all() and np.allclose(np.moveaxis(ds["n"][...], 0, -1), x)
    lines = [np.cumsum(1.0 + np.arange(n)) for n in (nx, ny, nz)]
    axes = b"".join(
        f"{axis}_COORDINATES {len(line)} float\n".encode() + put(line, "f4")
        for axis, line in zip("XYZ", lines, strict=True)
    )
    # Of a time in single precision the decimal that rounds to it.
    field = b"FIELD FieldData 1\nTIME 1 1 float\n" + put([0.1], "f4")
    curved.write_bytes(put.head + b"DATASET STRUCTURED_GRID\n" + field + size + places + body)
    with ff.open(curved) as ds:
        assert list(ds.times) == [0.1]
    straight = tmp_path / "r.vtk"
    straight.write_bytes(put.head + b"DATASET RECTILINEAR_GRID\n" + size + axes + body)
    with ff.open(straight) as ds:
        assert [float(ds["xyz"][n, -1, -1, -1]) for n in range(3)] == [line[-1] for line in lines]
        assert np.array_equal(ds["p"][...], linear(x))


def test_a_series_in_time_of_legacy_files(tmp_path: Path) -> None:
    for n in range(3):
        data = np.full((3, 4, 5), n)
        points(
            tmp_path / f"s{n}.vtk",
            data,
            text=False,
            more=b"VECTORS v float\n" + Numbers(False)(np.ones((60, 3)) * n, "f4"),
        )
    (tmp_path / "s.vtk.series").write_text(
        '{"file-series-version": "1.0", "files": ['
        + ", ".join(f'{{"name": "s{n}.vtk", "time": {n * n}}}' for n in range(3))
        + "]}"
    )
    with ff.open(tmp_path / "s.vtk.series") as ds:
        assert list(ds.times) == [0, 1, 4] and (ds.isel(time=2)["v"][...] == 2).all()


@pytest.mark.parametrize("mode", ["ascii", "binary"])
@pytest.mark.parametrize("version", [42, 51])
def test_as_vtk_writes_them(mode: str, version: int, tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support

    grid = vtk.vtkImageData()
    grid.SetDimensions(5, 4, 3)
    grid.SetSpacing(0.5, 0.5, 2)
    grid.SetOrigin(1, 2, 3)
    rng = np.random.default_rng(5)
    held = {"a b": rng.random(60), "velocity": rng.random((60, 3)).astype("f4"), "id": np.arange(60)}
    for name, data in held.items():
        array = numpy_support.numpy_to_vtk(data, deep=True)
        array.SetName(name)
        grid.GetPointData().AddArray(array)
    array.SetComponentName(0, "number")  # makes a METADATA block
    time = numpy_support.numpy_to_vtk(np.array([0.25]), deep=True)
    time.SetName("TIME")
    grid.GetFieldData().AddArray(time)
    names = vtk.vtkStringArray()
    names.SetName("words")
    for word in ("one", "two three", ""):
        names.InsertNextValue(word)
    grid.GetFieldData().AddArray(names)
    grid.GetPointData().SetActiveScalars("a b")
    writer = vtk.vtkStructuredPointsWriter()
    writer.SetInputData(grid)
    writer.SetFileName(str(tmp_path / "a.vtk"))
    writer.SetFileVersion(version)
    (writer.SetFileTypeToASCII if mode == "ascii" else writer.SetFileTypeToBinary)()
    writer.Write()
    with ff.open(tmp_path / "a.vtk") as ds:
        assert np.allclose(ds["a_b"][...].ravel(), held["a b"], rtol=1e-5)
        assert np.allclose(np.moveaxis(ds["velocity"][...], 0, -1).reshape(60, 3), held["velocity"], rtol=1e-5)
        assert np.array_equal(ds["id"][...].ravel(), held["id"]) and list(ds.times) == [0.25]


def test_others_and_damage_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.vtk"
    for kind, says in (("UNSTRUCTURED_GRID", "unstructured grid"), ("POLYDATA", "polydata")):
        path.write_text(f"# vtk DataFile Version 2.0\nx\nASCII\nDATASET {kind}\n")
        with pytest.raises(DataError, match=f"a legacy VTK file of the kind '{says}', which is not read"):
            ff.open(path)
    data = np.zeros((3, 4, 5), "i2")
    for text in (True, False):
        whole = points(path, data, text=text).read_bytes()
        for broken, says in (
            (whole[:-40], "too early: it was cut off|ends at"),
            (whole.replace(b"POINT_DATA 60", b"POINT_DATA 61"), "POINT_DATA 61, and its dimensions ask for 60"),
            (whole.replace(b"DIMENSIONS 5 4 3", b"DIMENSIONS 5 4"), "DIMENSIONS are '5 4'"),
            (whole.replace(b"short", b"quark"), "of the type 'quark'"),
            (whole.replace(b"SCALARS den%20sity short", b"NUMBERS den%20sity short"), "makes no sense where it stands"),
        ):
            path.write_bytes(broken)
            with pytest.raises(DataError, match=says):
                ff.open(path)
        rng = np.random.default_rng(11)
        for _ in range(150):
            changed = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.3 else whole)
            for at in rng.integers(0, len(changed), 3):
                changed[at] = rng.integers(0, 256)
            path.write_bytes(changed)
            try:
                with ff.open(path) as opened:
                    assert opened is not None
            except ff.FarfieldError as error:
                assert str(error)
