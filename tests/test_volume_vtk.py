"""VTK XML images written by VTK, where it is installed, and by hand."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UnknownName, UsageError
from farfield.volume.formats.detection import format_of
from farfield.volume.formats.lz4 import unpack_block
from volume_files import Read

Look = Callable[..., Read]


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 20, shape).astype(dtype)


def image(data: np.ndarray[Any, Any], **more: Any) -> Any:
    """A vtkImageData of [z, y, x] or [z, y, x, c]."""
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support

    made = vtk.vtkImageData()
    made.SetDimensions(*data.shape[2::-1])
    made.SetSpacing(*more.get("spacing", (1, 1, 1)))
    made.SetOrigin(*more.get("origin", (0, 0, 0)))
    flat = data.reshape(-1, data.shape[3]) if data.ndim == 4 else data.reshape(-1)
    array = numpy_support.numpy_to_vtk(np.ascontiguousarray(flat), deep=True)
    array.SetName("density")
    made.GetPointData().SetScalars(array)
    return made


@pytest.mark.parametrize("compressor", ["none", "zlib", "lz4", "lzma"])
@pytest.mark.parametrize("mode", ["ascii", "binary", "raw", "base64"])
@pytest.mark.parametrize("block", [32768, 1000])
def test_written_by_vtk(compressor: str, mode: str, block: int, tmp_path: Path, there: Look) -> None:
    vtk = pytest.importorskip("vtk")
    data = noise((9, 10, 50), "int16")
    writer = vtk.vtkXMLImageDataWriter()
    writer.SetInputData(image(data, spacing=(0.5, 0.5, 2), origin=(1, 2, 3)))
    writer.SetFileName(str(tmp_path / "a.vti"))
    {"none": writer.SetCompressorTypeToNone, "zlib": writer.SetCompressorTypeToZLib, "lz4": writer.SetCompressorTypeToLZ4,
     "lzma": writer.SetCompressorTypeToLZMA}[compressor]()  # fmt: skip
    writer.SetBlockSize(block)
    writer.SetDataMode({"ascii": 0, "binary": 1, "raw": 2, "base64": 2}[mode])
    writer.SetEncodeAppendedData(mode == "base64")
    writer.Write()
    found = there(tmp_path / "a.vti")
    assert np.array_equal(found.numbers(), data)
    assert found.level["spacing"] == [0.5, 0.5, 2] and found.level["origin"] == [1, 2, 3]
    in_place = mode == "raw" and (compressor == "none" or (compressor == "zlib" and block == 1000))
    assert found.said == [] if in_place else "is converted once" in found.said[0]
    assert found.spec["channels"][0]["name"] == "density" and found.spec["kind"] == "scalar"


def test_colours_and_several_arrays(tmp_path: Path, there: Look) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support

    colours = noise((3, 4, 5, 3), "uint8")
    made = image(colours)
    other = numpy_support.numpy_to_vtk(np.arange(60, dtype="f4"), deep=True)
    other.SetName("pressure")
    made.GetPointData().AddArray(other)
    writer = vtk.vtkXMLImageDataWriter()
    writer.SetInputData(made)
    writer.SetFileName(str(tmp_path / "a.vti"))
    writer.Write()
    found = there(tmp_path / "a.vti")
    assert found.spec["kind"] == "rgb" and "a.vti::NAME shows another: pressure" in found.guessed
    assert all(np.array_equal(found.numbers(c), colours[..., c]) for c in range(3))
    assert np.array_equal(there(f"{tmp_path}/a.vti::pressure").numbers().reshape(-1), np.arange(60))
    with pytest.raises(
        UnknownName, match="no array named 'heat'; there are: 0 \\(density, points, uint8\\), 1 \\(pressure"
    ):
        there(f"{tmp_path}/a.vti::heat")


def test_direction_and_extent(tmp_path: Path, there: Look) -> None:
    vtk = pytest.importorskip("vtk")
    made = image(noise((3, 4, 5), "uint8"), spacing=(1, 2, 3), origin=(10, 20, 30))
    made.SetExtent(2, 6, 1, 4, 0, 2)
    made.SetDirectionMatrix(0, -1, 0, 1, 0, 0, 0, 0, 1)
    writer = vtk.vtkXMLImageDataWriter()
    writer.SetInputData(made)
    writer.SetFileName(str(tmp_path / "a.vti"))
    writer.Write()
    found = there(tmp_path / "a.vti")
    want = [0.0, 0, 0]
    made.TransformIndexToPhysicalPoint([3, 2, 1], want)
    assert np.allclose(found.affine @ [1, 1, 1, 1], [*want, 1])


def by_hand(path: Path, body: str, about: str = "", kind: str = "ImageData", grid: str = "") -> None:
    path.write_text(
        f'<?xml version="1.0"?>\n<VTKFile type="{kind}" version="1.0" byte_order="LittleEndian" {about}>\n'
        f'<{kind} WholeExtent="0 3 0 2 0 1" {grid}>{body}</{kind}></VTKFile>\n'
    )


def test_pieces(tmp_path: Path, there: Look) -> None:
    data = np.arange(24, dtype="i4").reshape(2, 3, 4)

    def piece(x0: int, x1: int) -> str:
        text = " ".join(map(str, data[:, :, x0 : x1 + 1].reshape(-1)))
        return (
            f'<Piece Extent="{x0} {x1} 0 2 0 1"><PointData><DataArray type="Int32" Name="a" format="ascii">{text}'
            "</DataArray></PointData></Piece>"
        )

    by_hand(tmp_path / "a.vti", piece(0, 2) + piece(2, 3))
    found = there(tmp_path / "a.vti")
    assert np.array_equal(found.numbers(), data) and "in several pieces" in found.said[0]
    by_hand(tmp_path / "b.vti", piece(0, 1) + piece(3, 3))
    with pytest.raises(DataError, match="its pieces do not fill its WholeExtent 4 x 3 x 2"):
        there(tmp_path / "b.vti")


def test_cells(tmp_path: Path, there: Look) -> None:
    text = " ".join(map(str, range(6)))
    cells = f'<CellData><DataArray type="Float32" Name="a" format="ascii">{text}</DataArray></CellData>'
    by_hand(tmp_path / "a.vti", f'<Piece Extent="0 3 0 2 0 1">{cells}</Piece>', grid='Origin="0 0 0" Spacing="2 2 2"')
    found = there(tmp_path / "a.vti")
    assert found.level["dims"] == [3, 2, 1] and found.level["origin"] == [1, 1, 1] and "of cells" in found.guessed
    assert np.array_equal(found.numbers().reshape(-1), np.arange(6))


def rectilinear(x: str) -> str:
    lines = "".join(
        f'<DataArray type="Float64" Name="{n}" format="ascii">{text}</DataArray>'
        for n, text in (("x", x), ("y", "1 1.5 2"), ("z", "0 1"))
    )
    text = " ".join(map(str, range(24)))
    points = f'<PointData><DataArray type="Int16" Name="a" format="ascii">{text}</DataArray></PointData>'
    return f'<Piece Extent="0 3 0 2 0 1">{points}<Coordinates>{lines}</Coordinates></Piece>'


def test_rectilinear_and_structured(tmp_path: Path, there: Look) -> None:
    by_hand(tmp_path / "a.vtr", rectilinear("5 7 9 11"), kind="RectilinearGrid")
    found = there(tmp_path / "a.vtr")
    assert found.level["spacing"] == [2, 0.5, 1] and found.level["origin"] == [5, 1, 0]
    assert np.array_equal(found.numbers().reshape(-1), np.arange(24))
    by_hand(tmp_path / "b.vtr", rectilinear("5 7 9 19"), kind="RectilinearGrid")
    by_hand(tmp_path / "c.vts", "", kind="StructuredGrid")
    for zone in ("b.vtr", "c.vts"):  # `test_vtk_zones.py` has them
        assert format_of(str(tmp_path / zone)) is None
        with pytest.raises(UsageError, match="no volume"):
            there(tmp_path / zone)


def binary(data: bytes) -> str:
    return base64.b64encode(struct.pack("<I", len(data)) + data).decode()


GOOD = '<Piece Extent="0 3 0 2 0 1"><PointData><DataArray type="{}" Name="a" format="binary">{}</DataArray></PointData></Piece>'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (GOOD.format("Int16", binary(bytes(46))), "'a' is 46 bytes long, and its extent asks for 48"),
        (GOOD.format("Int16", "!!!"), "cut off|damaged"),
        (GOOD.format("String", ""), "no array of numbers"),
        ('<Piece Extent="0 3 0 2">', "Extent is '0 3 0 2'"),
        (
            '<Piece Extent="0 3 0 2 0 1"><PointData><DataArray type="Int8" Name="a" format="ascii">1 2 300',
            "cannot be read",
        ),
        (GOOD.replace("binary", "ascii").format("Int8", "300 " * 24), "holds '300', which is no number of int8"),
        (
            GOOD.replace("binary", "ascii").format("Float32", "1 2 3.5 x1 " * 6),
            "holds 'x1', which is no number of float32",
        ),
        (GOOD.replace("binary", "ascii").format("Int8", "3 " * 23), "ends after 23 of the 24 bytes"),
        (GOOD.replace("binary", "appended").format("Int8", ""), "offset of 'a'"),
    ],
)
def test_damaged(body: str, message: str, tmp_path: Path, there: Look) -> None:
    by_hand(tmp_path / "a.vti", body)
    with pytest.raises(DataError, match=message) as caught:
        there(tmp_path / "a.vti")
    assert "a.vti" in str(caught.value)


def test_entities_are_refused(tmp_path: Path, there: Look) -> None:
    (tmp_path / "a.vti").write_text(
        '<?xml version="1.0"?><!DOCTYPE v [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><VTKFile type="ImageData">&b;</VTKFile>'
    )
    with pytest.raises(DataError, match="its XML defines entities"):
        there(tmp_path / "a.vti")


def test_lz4_blocks_that_are_damaged_end() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    data = noise((5000,), "uint8").tobytes()
    packed = bytes(numcodecs.LZ4().encode(data))[4:]
    assert unpack_block(packed, len(data)) == data
    rng = np.random.default_rng(3)
    for _ in range(300):
        broken = bytearray(packed[: rng.integers(0, len(packed))] if rng.random() < 0.3 else packed)
        if broken:
            broken[rng.integers(0, len(broken))] ^= 1 << int(rng.integers(0, 8))
        try:
            assert len(unpack_block(bytes(broken), len(data))) == len(data)
        except ValueError:
            continue


@pytest.mark.parametrize("name", ["engine", "aneurism", "bonsai", "frog_tissues"])
def test_real_ones(name: str, there: Look) -> None:
    path = Path(os.environ.get("FARFIELD_DATA", "")) / "volumes" / f"{name}.vti"
    if not path.is_file():
        pytest.skip("FARFIELD_DATA does not name a folder that has it")
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support

    reader = vtk.vtkXMLImageDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    made = reader.GetOutput()
    want = numpy_support.vtk_to_numpy(made.GetPointData().GetScalars()).reshape(made.GetDimensions()[::-1])
    found = there(path)
    assert np.array_equal(found.numbers(), want) and found.level["spacing"] == list(made.GetSpacing())
    assert (found.said == []) == (name != "frog_tissues")
    assert zlib.crc32(found.numbers().tobytes()) == zlib.crc32(np.ascontiguousarray(want).tobytes())
