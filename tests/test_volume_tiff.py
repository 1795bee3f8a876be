"""TIFF files written by tifffile and Pillow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError
from volume_files import Read

tifffile = pytest.importorskip("tifffile")
Look = Callable[..., Read]


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 200, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">u2", "<i4", ">f4", "f8"])
@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("tile", [None, (16, 32)])
@pytest.mark.parametrize("big", [False, True])
def test_stacks(
    dtype: str, compression: str | None, tile: tuple[int, int] | None, big: bool, tmp_path: Path, there: Look
) -> None:
    data = noise((5, 41, 50), dtype)
    tifffile.imwrite(
        tmp_path / "a.tif", data, compression=compression, tile=tile, bigtiff=big, rowsperstrip=None if tile else 16,
        byteorder=">" if dtype.startswith(">") else "<", photometric="minisblack", metadata=None, contiguous=False,
    )  # fmt: skip
    found = there(tmp_path / "a.tif")
    assert found.array["axes"] == "zyx" and np.array_equal(found.numbers(), data)
    place = next(iter(found.array["where"]))
    assert (place == "table") == (compression is not None or tile is not None)
    assert found.said == []


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_colours(dtype: str, planar: str, compression: str | None, tmp_path: Path, there: Look) -> None:
    data = noise((4, 30, 40, 3), dtype)
    stored = data if planar == "contig" else np.moveaxis(data, -1, 1)
    tifffile.imwrite(
        tmp_path / "a.tif",
        stored,
        photometric="rgb",
        planarconfig=planar,
        compression=compression,
        metadata=None,
        rowsperstrip=8,
    )
    found = there(tmp_path / "a.tif")
    assert found.spec["kind"] == "rgb"
    assert all(np.array_equal(found.numbers(c), data[..., c]) for c in range(3))


def test_ome(tmp_path: Path, there: Look) -> None:
    data = noise((3, 2, 5, 33, 47), "u2")
    tifffile.imwrite(
        tmp_path / "a.ome.tif", data, ome=True, photometric="minisblack",
        metadata={
            "axes": "TCZYX", "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "\u00b5m", "PhysicalSizeY": 0.25,
            "PhysicalSizeYUnit": "\u00b5m", "PhysicalSizeZ": 1000, "PhysicalSizeZUnit": "nm", "TimeIncrement": 2.5,
            "TimeIncrementUnit": "s", "Channel": {"Name": ["dapi", "gfp"], "Color": [65535, 16711935]},
        },
    )  # fmt: skip
    found = there(tmp_path / "a.ome.tif")
    spec = found.spec
    assert found.array["axes"] == "tczyx" and spec["format"] == "OME-TIFF" and spec["length_unit"] == "um"
    assert found.level["spacing"] == [0.25, 0.25, 1] and spec["times"] == [0, 2.5, 5] and spec["time_units"] == "s"
    assert [c["name"] for c in spec["channels"]] == ["dapi", "gfp"] and spec["channels"][0]["color"] == "#0000ff"
    assert np.array_equal(found.numbers(1, step=2), data[2, 1])


def test_pyramids(tmp_path: Path, there: Look) -> None:
    data = noise((1, 128, 128), "u1")
    with tifffile.TiffWriter(tmp_path / "a.ome.tif") as writer:
        writer.write(data, subifds=2, tile=(32, 32), compression="zlib", photometric="minisblack")
        writer.write(data[:, ::2, ::2], subfiletype=1, tile=(32, 32), compression="zlib", photometric="minisblack")
        writer.write(data[:, ::4, ::4], subfiletype=1, tile=(32, 32), compression="zlib", photometric="minisblack")
    found = there(tmp_path / "a.ome.tif")
    assert [level["dims"] for level in found.spec["levels"]] == [[128, 128, 1], [64, 64, 1], [32, 32, 1]]
    assert found.spec["levels"][2]["spacing"][:2] == [4, 4] and found.spec["levels"][2]["origin"][:2] == [1.5, 1.5]
    assert np.array_equal(found.numbers(level=1)[0], data[0, ::2, ::2])


def test_imagej(tmp_path: Path, there: Look) -> None:
    data = noise((2, 4, 3, 20, 30), "u2")  # T Z C Y X
    tifffile.imwrite(
        tmp_path / "a.tif", data, imagej=True, resolution=(4, 2),
        metadata={"axes": "TZCYX", "spacing": 3.0, "unit": "um", "finterval": 0.5, "Ranges": (0, 10, 5, 50, 1, 2)},
    )  # fmt: skip
    found = there(tmp_path / "a.tif")
    spec = found.spec
    assert spec["format"] == "ImageJ TIFF" and found.level["spacing"] == [0.25, 0.5, 3] and spec["length_unit"] == "um"
    assert spec["times"] == [0, 0.5] and spec["channels"][1]["limits"] == [5, 50]
    assert np.array_equal(found.numbers(2, step=1), data[1, :, 2])


def test_imagej_calibration(tmp_path: Path, there: Look) -> None:
    """Numbers with a sign are stored without one and a straight line; origins are in pixels, limits of what is stored."""
    data = noise((4, 20, 30), "u2")
    about = {"axes": "ZYX", "spacing": 2.0, "unit": "mm", "xorigin": 10, "min": 32668.0, "max": 33168.0}
    line = {"cf": 0, "c0": -32768.0, "c1": 1.0, "vunit": "HU"}
    tifffile.imwrite(tmp_path / "a.tif", data, imagej=True, resolution=(2, 2), metadata={**about, **line})
    found = there(tmp_path / "a.tif")
    assert found.level["origin"] == [-5, 0, 0] and found.level["spacing"] == [0.5, 0.5, 2]
    assert found.spec["channels"] == [{"name": "intensity", "units": "HU", "scale": [1, -32768], "limits": [-100, 400]}]
    tifffile.imwrite(tmp_path / "b.tif", data, imagej=True, metadata={**about, **line, "cf": 3})
    found = there(tmp_path / "b.tif")
    assert "scale" not in found.spec["channels"][0] and "its calibration is no straight line" in found.guessed


def test_of_dimensions_without_a_name_the_fastest_is_z(tmp_path: Path, there: Look) -> None:
    data = noise((2, 5, 20, 30), "u1")
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="minisblack")
    found = there(tmp_path / "a.tif")
    assert found.array["axes"] == "tzyx" and np.array_equal(found.numbers(step=1), data[1])


def test_predictors_and_large_strips(tmp_path: Path, there: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    from farfield.volume.formats.tiff import reader as tiff

    pil = pytest.importorskip("PIL.Image")
    data = noise((60, 50), "u1")
    pil.fromarray(data).save(tmp_path / "a.tif", compression="tiff_adobe_deflate", tiffinfo={317: 2, 278: 60})
    found = there(tmp_path / "a.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert int(file.pages[0].predictor) == 2
    assert found.array["codecs"][1] == {"name": "predictor", "kind": 2, "width": 50, "samples": 1}
    assert np.array_equal(found.numbers()[0], data)
    monkeypatch.setattr(tiff, "LARGEST_CHUNK", 1000)
    found = there(tmp_path / "a.tif")
    assert "has strips of" in found.said[0] and np.array_equal(found.numbers()[0], data)


def test_series_of_other_sizes(tmp_path: Path, there: Look) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(noise((4, 32, 32), "u1"), photometric="minisblack")
        writer.write(noise((16, 16), "u1"), photometric="minisblack")
    found = there(tmp_path / "a.tif")
    assert found.level["dims"] == [32, 32, 4] and "of its 2 series of pages (4 x 32 x 32, 16 x 16)" in found.guessed


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
def test_cut_off(keep: float, tmp_path: Path, there: Look) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise((8, 64, 64), "u2"), photometric="minisblack", metadata=None)
    raw = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(raw[: int(len(raw) * keep)])
    with pytest.raises(DataError, match=r"a\.tif: .*cut off"):
        there(tmp_path / "a.tif")


@pytest.mark.parametrize("tile", [None, (16, 32)])
@pytest.mark.parametrize("how", ["bits", "lzma"])
def test_what_is_not_decoded_in_place(how: str, tile: tuple[int, int] | None, tmp_path: Path, there: Look) -> None:
    data = noise((5, 41, 50), "u2")
    data = data > 100 if how == "bits" else data
    tifffile.imwrite(
        tmp_path / "a.tif", data, tile=tile, rowsperstrip=None if tile else 16, byteorder=">", photometric="minisblack",
        compression="lzma" if how == "lzma" else None,
    )  # fmt: skip
    found = there(tmp_path / "a.tif")
    assert np.array_equal(found.numbers(), data)
    assert ("1 bits a sample" if how == "bits" else "LZMA") in found.said[0]
    raw = bytearray((tmp_path / "a.tif").read_bytes())
    if how == "lzma":
        with tifffile.TiffFile(tmp_path / "a.tif") as file:
            at = file.pages[2].dataoffsets[0]
        raw[at : at + 40] = bytes(40)
        (tmp_path / "b.tif").write_bytes(raw)
        with pytest.raises(DataError, match=r"b\.tif: its numbers \(16 bits, LZMA\) could not be decoded"):
            there(tmp_path / "b.tif")


def with_palette(path: Path, data: np.ndarray[Any, Any], **more: Any) -> np.ndarray[Any, Any]:
    """Writes [z, y, x] with a palette; the colours of its pixels."""
    table = np.random.default_rng(5).integers(0, 256, (3, 1 << 8 * data.itemsize)).astype("u2")
    tifffile.imwrite(path, data, photometric="palette", colormap=table * 257, metadata=None, **more)
    return table.T[data]


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("more", [{}, {"compression": "zlib", "tile": (16, 32)}, {"rowsperstrip": 7}], ids=str)
def test_palettes(dtype: str, more: dict[str, Any], tmp_path: Path, there: Look) -> None:
    data = noise((3, 41, 50), dtype)
    wanted = with_palette(tmp_path / "a.tif", data, **more)
    found = there(tmp_path / "a.tif")
    assert found.spec["kind"] == "rgb" and "its colours are in a palette" in found.guessed
    assert "has its colours in a palette, and is converted once" in found.said[0]
    assert all(np.array_equal(found.numbers(c), wanted[..., c]) for c in range(3))
    for kind in ("scalar", "labels"):
        numbers = there(tmp_path / "a.tif", kind=kind)
        assert numbers.spec["kind"] == kind and np.array_equal(numbers.numbers(), data) and numbers.said == []


def test_palettes_of_slices_of_few_bits_and_of_grey(tmp_path: Path, there: Look) -> None:
    pil = pytest.importorskip("PIL.Image")
    data = noise((3, 20, 30), "u1")
    (tmp_path / "slices").mkdir()
    wanted = [with_palette(tmp_path / "slices" / f"s{n}.tif", data[n]) for n in range(3)]
    found = there(tmp_path / "slices")
    assert found.spec["kind"] == "rgb" and np.array_equal(found.numbers(1), np.stack(wanted)[..., 1])
    assert np.array_equal(there(tmp_path / "slices", kind="scalar").numbers(), data)
    pil.fromarray(data[0]).convert("P").save(tmp_path / "grey.tif")
    assert there(tmp_path / "grey.tif").spec["kind"] == "scalar"


def test_palettes_that_cannot_be_decoded_are_numbers(
    tmp_path: Path, there: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with LZW where imagecodecs is not installed: the extension reads the numbers."""
    from farfield.volume.formats.tiff import decoded as tiff_decoded

    monkeypatch.setattr(tiff_decoded, "knows_codec", lambda page: False)
    with_palette(tmp_path / "a.tif", noise((3, 20, 30), "u1"), compression="zlib")
    found = there(tmp_path / "a.tif")
    assert np.array_equal(found.numbers(), noise((3, 20, 30), "u1")) and found.said == []
    assert "needs imagecodecs" in found.guessed


def test_palettes_of_what_was_measured(tmp_path: Path, there: Look) -> None:
    data = noise((3, 20, 30), "u1")
    table = np.zeros((3, 256), "u2")
    table[0] = np.arange(256) * 257
    tifffile.imwrite(
        tmp_path / "a.tif", data, imagej=True, photometric="palette", colormap=table, metadata={"axes": "ZYX"}
    )
    found = there(tmp_path / "a.tif")
    assert found.spec["kind"] == "scalar" and np.array_equal(found.numbers(), data) and "--kind rgb" in found.guessed
    assert np.array_equal(there(tmp_path / "a.tif", kind="rgb").numbers(0), data)


def test_colours_that_are_converted(tmp_path: Path, there: Look) -> None:
    data = noise((3, 41, 50, 3), "u2")
    for planar, given in (("contig", data), ("separate", data.transpose(0, 3, 1, 2))):
        tifffile.imwrite(
            tmp_path / "a.tif", given, photometric="rgb", planarconfig=planar, compression="lzma", tile=(16, 16)
        )
        found = there(tmp_path / "a.tif")
        assert found.spec["kind"] == "rgb" and np.array_equal(found.numbers(2), data[..., 2])


def test_several_files_that_are_converted(tmp_path: Path, there: Look) -> None:
    data = noise((2, 3, 41, 50), "u2")
    named = [f"urn:uuid:{n}1111111-1111-1111-1111-111111111111" for n in range(2)]
    parts = "".join(
        f'<TiffData IFD="{z}" FirstC="{c}" FirstZ="{z}" PlaneCount="1"><UUID FileName="f{c}.ome.tif">{named[c]}</UUID></TiffData>'
        for c in range(2)
        for z in range(3)
    )
    for n in range(2):
        about = (
            f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{named[n]}">'
            '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="50" SizeY="41" '
            f'SizeZ="3" SizeC="2" SizeT="1">{parts}</Pixels></Image></OME>'
        )
        tifffile.imwrite(
            tmp_path / f"f{n}.ome.tif", data[n], description=about, metadata=None, photometric="minisblack",
            compression="lzma", tile=(16, 16),
        )  # fmt: skip
    found = there(tmp_path / "f0.ome.tif")
    assert np.array_equal(np.stack([found.numbers(c) for c in range(2)]), data)
