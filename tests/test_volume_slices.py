"""DICOM series and folders of images, written by pydicom, Pillow and tifffile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UnknownName
from farfield.volume.formats.detection import format_of
from volume_files import Read

pydicom = pytest.importorskip("pydicom")
pil = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")
Look = Callable[..., Read]


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 200, shape).astype(dtype)


EXPLICIT, IMPLICIT, BIG = (
    pydicom.uid.ExplicitVRLittleEndian,
    pydicom.uid.ImplicitVRLittleEndian,
    pydicom.uid.ExplicitVRBigEndian,
)


def header(syntax: str = EXPLICIT, **more: Any) -> Any:
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    made = pydicom.Dataset()
    made.file_meta = meta
    made.SOPClassUID, made.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    made.Modality, made.SeriesInstanceUID, made.SeriesNumber, made.SeriesDescription = "CT", "1.2.3", 4, "chest"
    made.PhotometricInterpretation, made.SamplesPerPixel = "MONOCHROME2", 1
    made.PixelSpacing, made.ImageOrientationPatient = [0.5, 0.25], [0, 1, 0, -1, 0, 0]
    made.RescaleSlope, made.RescaleIntercept, made.WindowCenter, made.WindowWidth = 2, -1024, [40, 50], [400, 100]
    for key, value in more.items():
        setattr(made, key, value)
    return made


def put(path: Path, made: Any, pixels: np.ndarray[Any, Any]) -> None:
    made.Rows, made.Columns = pixels.shape[:2]
    made.BitsAllocated = made.BitsStored = pixels.dtype.itemsize * 8
    made.HighBit = made.BitsStored - 1
    made.PixelRepresentation = int(pixels.dtype.kind == "i")
    big = made.file_meta.TransferSyntaxUID == BIG
    made.PixelData = pixels.astype(pixels.dtype.newbyteorder(">" if big else "<")).tobytes()
    made["PixelData"].VR = "OW" if pixels.dtype.itemsize > 1 else "OB"
    made.save_as(path, enforce_file_format=True)


def series(folder: Path, data: np.ndarray[Any, Any], syntax: str = EXPLICIT, **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    for n, pixels in enumerate(data):
        made = header(syntax, InstanceNumber=n + 1, ImagePositionPatient=[1, 2, 3 + 1.5 * n], **more)
        put(folder / f"im{99 - n}.dcm", made, pixels)


@pytest.mark.parametrize("syntax", [EXPLICIT, IMPLICIT, BIG])
@pytest.mark.parametrize("dtype", ["u2", "i2", "u1"])
def test_series(syntax: str, dtype: str, tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 8), dtype)
    series(tmp_path / "ct", data, syntax)
    found = there(tmp_path / "ct")
    spec = found.spec
    assert np.array_equal(found.numbers(), data) and found.said == [] and list(found.array["where"]) == ["planes"]
    assert spec["anatomy"] == "LPS" and spec["length_unit"] == "mm" and found.level["spacing"] == [0.25, 0.5, 1.5]
    assert spec["direction"] == [[0, 1, 0], [-1, 0, 0], [0, 0, 1]] and found.level["origin"] == [1, 2, 3]
    assert spec["channels"] == [{"name": "chest", "units": "HU", "scale": [2, -1024], "limits": [-160, 239]}]


def test_numbers_that_only_fill_a_series_up_are_said(tmp_path: Path, there: Look) -> None:
    series(tmp_path / "ct", noise((5, 6, 8), "i2"), PixelPaddingValue=-2000)
    assert "its number -2000 only fills it up (PixelPaddingValue): it is no value" in there(tmp_path / "ct").guessed
    series(tmp_path / "mr", noise((5, 6, 8), "u2"), PixelPaddingValue=0, PixelPaddingRangeLimit=3)
    assert "its numbers 0 to 3 only fill it up" in there(tmp_path / "mr").guessed


def test_gaps_and_odd_slices(tmp_path: Path, there: Look) -> None:
    data = noise((6, 6, 8), "u2")
    series(tmp_path / "ct", data)
    (tmp_path / "ct" / "im97.dcm").unlink()
    found = there(tmp_path / "ct")
    assert found.level["dims"] == [8, 6, 6] and "a slice is missing between im98.dcm and im96.dcm" in found.guessed
    assert np.isnan(found.numbers()[2]).all() and np.array_equal(found.numbers()[3:], data[3:])
    assert found.spec["channels"][0]["scale"] == [2, -1024] and found.level["spacing"][2] == 1.5
    put(tmp_path / "ct" / "im97.dcm", header(ImagePositionPatient=[1, 2, 6.4]), data[2])
    with pytest.raises(DataError, match=r"im97\.dcm: this slice lies 1\.9 mm from im98\.dcm, and others 1\.5 mm apart"):
        there(tmp_path / "ct")
    (tmp_path / "ct" / "im97.dcm").unlink()
    found = there(tmp_path / "ct", spacing="0.25,0.5,1.5")
    assert found.level["dims"] == [8, 6, 5] and "were not compared" in found.guessed
    series(tmp_path / "ct", data)
    put(tmp_path / "ct" / "im98.dcm", header(ImagePositionPatient=[1, 2, 4.5]), noise((4, 4), "u2"))
    with pytest.raises(DataError, match=r"im98\.dcm: the size of this slice is 4 x 4, and that of im\d+\.dcm is 6 x 8"):
        there(tmp_path / "ct")
    series(tmp_path / "ct", data)
    raw = (tmp_path / "ct" / "im98.dcm").read_bytes()
    (tmp_path / "ct" / "im98.dcm").write_bytes(raw[:-20])
    with pytest.raises(DataError, match=r"im98\.dcm: .*cut off"):
        there(tmp_path / "ct")


def test_slices_whose_pixels_are_of_another_size(tmp_path: Path, there: Look) -> None:
    data = noise((6, 6, 8), "u2")
    series(tmp_path / "ct", data)
    put(tmp_path / "ct" / "im97.dcm", header(ImagePositionPatient=[1, 2, 6], PixelSpacing=[0.5, 0.3]), data[2])
    said = r"im97\.dcm: the PixelSpacing of this slice is 0\.5 x 0\.3, and that of im\d+\.dcm is 0\.5 x 0\.25"
    with pytest.raises(DataError, match=said):
        there(tmp_path / "ct")
    assert there(tmp_path / "ct", spacing="1,2,3").level["spacing"] == [1, 2, 3]
    series(tmp_path / "us", data, PixelSpacing=[0, 0.5])
    with pytest.raises(
        DataError, match=r"its PixelSpacing is 0, 0\.5, and should be positive; correct it, or give --spacing"
    ):
        there(tmp_path / "us")
    assert there(tmp_path / "us", spacing="1,2,3").level["spacing"] == [1, 2, 3]


def test_a_file_that_is_only_named_like_a_slice(tmp_path: Path, there: Look) -> None:
    series(tmp_path / "ct", noise((6, 6, 8), "u2"))
    (tmp_path / "ct" / "notes").write_text("of no matter")
    (tmp_path / "ct" / "im97.dcm").write_bytes(b"")
    with pytest.raises(DataError, match=r"im97\.dcm: this is no DICOM file, though its name says so"):
        there(tmp_path / "ct")


def test_several_series(tmp_path: Path, there: Look) -> None:
    series(tmp_path / "ct", noise((5, 6, 8), "u2"))
    scout = noise((3, 3), "u2")
    put(
        tmp_path / "ct" / "scout.dcm",
        header(SeriesInstanceUID="1.2.9", SeriesNumber=1, ImagePositionPatient=[0, 0, 0]),
        scout,
    )
    found = there(tmp_path / "ct")
    listed = "of its series 1 (chest, 1 file of 3 x 3), 4 (chest, 5 files of 8 x 6)"
    assert found.level["dims"] == [8, 6, 5] and listed in found.guessed
    assert np.array_equal(there(f"{tmp_path}/ct::1").numbers()[0], scout)
    with pytest.raises(UnknownName, match="no series '7'"):
        there(f"{tmp_path}/ct::7")


def test_time_steps(tmp_path: Path, there: Look) -> None:
    data = noise((2, 4, 5, 6), "u2")
    (tmp_path / "mr").mkdir()
    for t in range(2):
        for n in range(4):
            made = header(InstanceNumber=4 * t + n, ImagePositionPatient=[1, 2, 3 - 2 * n], TriggerTime=500 * t)
            put(tmp_path / "mr" / f"{t}-{n}.dcm", made, data[t, n])
    found = there(tmp_path / "mr")
    assert found.spec["times"] == [0, 0.5] and np.array_equal(found.numbers(step=1), data[1, ::-1])
    assert found.level["origin"] == [1, 2, -3]


def test_slopes_of_slices(tmp_path: Path, there: Look) -> None:
    data = noise((3, 4, 5), "u2")
    (tmp_path / "pt").mkdir()
    for n in range(3):
        put(
            tmp_path / "pt" / f"{n}.dcm",
            header(ImagePositionPatient=[0, 0, n], RescaleSlope=n + 1, RescaleIntercept=0),
            data[n],
        )
    found = there(tmp_path / "pt")
    assert (
        np.array_equal(found.numbers(), data * np.arange(1, 4)[:, None, None])
        and "scale" not in found.spec["channels"][0]
    )


@pytest.mark.parametrize("name", ["RLELossless", "JPEG2000Lossless", "JPEGLSLossless"])
def test_compressed(name: str, tmp_path: Path, there: Look) -> None:
    data = noise((3, 32, 40), "u2")
    series(tmp_path / "ct", data)
    for file in (tmp_path / "ct").iterdir():
        made = pydicom.dcmread(file)
        if name == "RLELossless":
            made.compress(pydicom.uid.RLELossless)
        else:
            made.file_meta.TransferSyntaxUID = getattr(pydicom.uid, name)
            made.PixelData = pydicom.encaps.encapsulate([b"no such image"])
        made.save_as(file)
    if name == "RLELossless":
        found = there(tmp_path / "ct")
        assert np.array_equal(found.numbers(), data) and "is compressed (RLE Lossless)" in found.said[0]
    else:
        with pytest.raises(DataError, match=r"its pixels are written as JPEG.*does not decode here.*dcmdjpeg"):
            there(tmp_path / "ct")


def test_deflated(tmp_path: Path, there: Look) -> None:
    data = noise((3, 32, 40), "i2")
    series(tmp_path / "ct", data, str(pydicom.uid.DeflatedExplicitVRLittleEndian))
    found = there(tmp_path / "ct")
    assert np.array_equal(found.numbers(), data) and "is compressed (Deflated Explicit VR" in found.said[0]


def test_colours_in_dicom(tmp_path: Path, there: Look) -> None:
    data = noise((3, 4, 5, 3), "u1")
    series(tmp_path / "us", data, PhotometricInterpretation="RGB", SamplesPerPixel=3, PlanarConfiguration=0)
    found = there(tmp_path / "us")
    assert found.spec["kind"] == "rgb" and np.array_equal(found.numbers(1), data[..., 1])


@pytest.mark.parametrize("slopes", [[], [2] * 6, [1, 2, 3, 4, 5, 6]])
def test_many_frames(slopes: list[int], tmp_path: Path, there: Look) -> None:
    data = noise((6, 4, 5), "u2")
    made = header(NumberOfFrames=6)
    del made.ImageOrientationPatient
    del made.PixelSpacing
    shared, frames = pydicom.Dataset(), []
    shared.PlaneOrientationSequence = [pydicom.Dataset()]
    shared.PlaneOrientationSequence[0].ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    shared.PixelMeasuresSequence = [pydicom.Dataset()]
    shared.PixelMeasuresSequence[0].PixelSpacing = [2, 3]
    made.SharedFunctionalGroupsSequence = [shared]
    for n in range(6):
        frame = pydicom.Dataset()
        frame.PlanePositionSequence = [pydicom.Dataset()]
        frame.PlanePositionSequence[0].ImagePositionPatient = [0, 0, 10 - 2 * n]
        if slopes:
            frame.PixelValueTransformationSequence = [pydicom.Dataset()]
            frame.PixelValueTransformationSequence[0].RescaleSlope = slopes[n]
            frame.PixelValueTransformationSequence[0].RescaleIntercept = -10
        frames.append(frame)
    made.PerFrameFunctionalGroupsSequence = frames
    made.Rows, made.Columns, made.BitsAllocated, made.BitsStored, made.HighBit, made.PixelRepresentation = (
        4,
        5,
        16,
        16,
        15,
        0,
    )
    made.PixelData = data.tobytes()
    made["PixelData"].VR = "OW"
    made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    found = there(tmp_path / "a.dcm")
    expected = data[::-1]
    if len(set(slopes)) > 1:
        expected = (data.astype("f4") * np.array(slopes, "f4")[:, None, None] - 10)[::-1]
        assert "different rescale slopes" in found.guessed
    scale = found.spec["channels"][0].get("scale")
    assert scale == (None if len(set(slopes)) > 1 else [2, -10] if slopes else [2, -1024])
    assert (
        np.array_equal(found.numbers(), expected)
        and found.level["spacing"] == [3, 2, 2]
        and found.level["origin"] == [0, 0, 0]
    )


@pytest.mark.parametrize(
    ("mode", "samples", "dtype"), [("L", 1, "u1"), ("I;16", 1, "u2"), ("RGB", 3, "u1"), ("RGBA", 4, "u1")]
)
def test_png(mode: str, samples: int, dtype: str, tmp_path: Path, there: Look) -> None:
    data = noise((12, 6, 8, samples), dtype)
    (tmp_path / "png").mkdir()
    for n, pixels in enumerate(data):
        pil.fromarray(pixels if samples > 1 else pixels[..., 0]).save(tmp_path / "png" / f"s{n}.png")
    found = there(tmp_path / "png")
    assert found.array["codecs"] == [{"name": "png"}] and found.array["dtype"] == np.dtype(dtype).name
    assert found.spec["kind"] == {1: "scalar", 3: "rgb", 4: "rgba"}[samples] and found.level["dims"] == [8, 6, 12]
    files = [Path(f).name for f in found.array["where"]["table"]["files"]]
    assert files == [f"s{n}.png" for n in range(12)]


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "without"])
def test_one_image(name: str, tmp_path: Path, there: Look) -> None:
    data = noise((20, 30), "u1")
    pil.fromarray(data).save(tmp_path / name, "JPEG" if name == "a.jpg" else "PNG")
    found = there(tmp_path / name)
    assert found.level["arrays"][0]["shape"] == [1, 20, 30]
    assert found.description.spec["format"] == ("JPEG images" if name == "a.jpg" else "PNG images")


def test_odd_images_are_named(tmp_path: Path, there: Look) -> None:
    (tmp_path / "png").mkdir()
    for n in (1, 2, 3, 5):
        pil.fromarray(noise((6, 8), "u1")).save(tmp_path / "png" / f"s{n}.png")
    found = there(tmp_path / "png")
    assert "a slice is missing between s3.png and s5.png" in found.guessed
    assert len(found.description.notes) == 1 and "between s3.png and s5.png" in found.description.notes[0]
    pil.fromarray(noise((6, 9), "u1")).save(tmp_path / "png" / "s3.png")
    with pytest.raises(
        DataError,
        match=r"s3\.png: this image has 9 x 6 pixels of 1 x 8 bits, and s1\.png has 8 x 6 pixels of 1 x 8 bits",
    ):
        there(tmp_path / "png")
    (tmp_path / "png" / "s3.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"s3\.png: this is no PNG image"):
        there(tmp_path / "png")


def test_jpeg(tmp_path: Path, there: Look) -> None:
    (tmp_path / "jpg").mkdir()
    for n in range(3):
        pil.fromarray(noise((16, 24, 3), "u1")).save(
            tmp_path / "jpg" / f"s{n}.jpg", progressive=n % 2 == 0, icc_profile=bytes(70000)
        )
    found = there(tmp_path / "jpg")
    assert found.spec["kind"] == "rgb" and found.array["codecs"] == [{"name": "jpeg"}] and found.said == []
    for n in range(3):
        pil.fromarray(noise((16, 24, 4), "u1"), "CMYK").save(tmp_path / "jpg" / f"s{n}.jpg")
    found = there(tmp_path / "jpg")
    assert found.spec["kind"] == "rgb" and "of a kind that is not read in place" in found.said[0]


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_tiff_slices(compression: str | None, tmp_path: Path, there: Look) -> None:
    data = noise((4, 33, 20), ">u2")
    (tmp_path / "tif").mkdir()
    for n, pixels in enumerate(data):
        tifffile.imwrite(
            tmp_path / "tif" / f"s{n:03}.tif", pixels, compression=compression, rowsperstrip=8, byteorder=">"
        )
    found = there(tmp_path / "tif")
    assert np.array_equal(found.numbers(), data) and found.said == []
    assert list(found.array["where"]) == (["planes"] if compression is None else ["table"])
    tifffile.imwrite(tmp_path / "tif" / "s002.tif", data[0, :30], byteorder=">")
    with pytest.raises(DataError, match=r"s002\.tif: this image is 20 x 30 pixels.* and s000\.tif 20 x 33"):
        there(tmp_path / "tif")


@pytest.mark.parametrize("how", ["bits", "mixed"])
def test_tiff_slices_that_are_converted(how: str, tmp_path: Path, there: Look) -> None:
    data = noise((4, 33, 20), "u2")
    data = data > 100 if how == "bits" else data
    (tmp_path / "tif").mkdir()
    for n, pixels in enumerate(data):
        tifffile.imwrite(
            tmp_path / "tif" / f"s{n:03}.tif", pixels, compression="zlib" if how == "mixed" and n % 2 else None,
            byteorder="<>"[n % 2],
        )  # fmt: skip
    found = there(tmp_path / "tif")
    assert np.array_equal(found.numbers(), data)
    assert ("1 bits a sample" if how == "bits" else "stored in several ways") in found.said[0]


def test_formats_that_converters_read(tmp_path: Path) -> None:
    (tmp_path / "a.czi").write_bytes(b"ZISRAWFILE" + bytes(600))
    with pytest.raises(DataError, match=r"Zeiss CZI files are not read; convert it to OME-Zarr.*bioformats2raw"):
        format_of(str(tmp_path / "a.czi"))
    (tmp_path / "bmp").mkdir()
    (tmp_path / "bmp" / "a.bmp").write_bytes(b"BM")
    with pytest.raises(DataError, match=r"its images \(a\.bmp\) are none that are read"):
        format_of(str(tmp_path / "bmp"))
    assert format_of(str(tmp_path)) is None
