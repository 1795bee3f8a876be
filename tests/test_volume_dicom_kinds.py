"""Kinds of DICOM images: tables, palettes, padding, windows, mosaics, tiles, series, bare data sets; written by pydicom."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UnknownName
from farfield.volume.formats.dicom.mosaic_header import CSA, mosaic_of
from test_volume_slices import BIG, EXPLICIT, IMPLICIT, header, noise, put, series
from volume_files import Read

pydicom = pytest.importorskip("pydicom")
Look = Callable[..., Read]


def item(**tags: Any) -> Any:
    made = pydicom.Dataset()
    for key, value in tags.items():
        setattr(made, key, value)
    return made


def test_a_range_of_padding_is_missing_where_it_lies(tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 8), "i2")
    data[:, 0], data[:, 1] = -2000, -1500
    series(tmp_path / "ct", data, PixelPaddingValue=-2000, PixelPaddingRangeLimit=-1500)
    found = there(tmp_path / "ct")
    assert found.spec["channels"][0]["missing"] == [[-2000, -1500]]
    assert list(found.array["where"]) == ["planes"] and np.array_equal(found.numbers(), data)


@pytest.mark.parametrize("how", ["slopes", "tables"])
def test_padding_is_said_where_numbers_become_values(how: str, tmp_path: Path, there: Look) -> None:
    """Of slopes of each slice, and of tables: what fills it up has no value, and a note says which numbers that are."""
    data = noise((3, 6, 8), "u2") % 100
    data[:, 0] = 90
    (tmp_path / "ct").mkdir()
    for n, pixels in enumerate(data):
        made = header(InstanceNumber=n + 1, ImagePositionPatient=[1, 2, 3 + 1.5 * n], PixelPaddingValue=90)
        made.PixelPaddingRangeLimit = 95
        made.RescaleSlope = 2 + n
        if how == "tables":
            del made.RescaleSlope, made.RescaleIntercept
            made.ModalityLUTSequence = [item(LUTDescriptor=[100, 0, 16], ModalityLUTType="OD")]
            made.ModalityLUTSequence[0].add_new(0x00283006, "US", [3 * v for v in range(100)])
        put(tmp_path / "ct" / f"{n}.dcm", made, pixels)
    found = there(tmp_path / "ct")
    said = "its numbers 90 to 95 only fill it up (PixelPaddingRangeLimit): they are no values"
    assert found.guessed.count(said) == 1
    assert np.array_equal(np.isnan(found.numbers()), (data >= 90) & (data <= 95))


def test_padding_that_differs_is_no_value_in_its_slice(tmp_path: Path, there: Look) -> None:
    data = noise((3, 6, 8), "u2")
    folder = tmp_path / "ct"
    folder.mkdir()
    for n, pixels in enumerate(data):
        made = header(
            InstanceNumber=n + 1, ImagePositionPatient=[1, 2, 3 + 1.5 * n], PixelPaddingValue=int(pixels[0, 0])
        )
        put(folder / f"{n}.dcm", made, pixels)
    found = there(folder)
    values = data * 2.0 - 1024
    for n in range(3):
        values[n][data[n] == data[n, 0, 0]] = np.nan
    assert np.array_equal(found.numbers(), values.astype("f4"), equal_nan=True)
    assert "scale" not in found.spec["channels"][0]


def test_tables_of_each_slice(tmp_path: Path, there: Look) -> None:
    data = noise((3, 6, 8), "u1") % 4
    folder = tmp_path / "cr"
    folder.mkdir()
    for n, pixels in enumerate(data):
        made = header(InstanceNumber=n + 1, ImagePositionPatient=[1, 2, 3 + 1.5 * n])
        del made.RescaleSlope, made.RescaleIntercept
        made.ModalityLUTSequence = [
            item(LUTDescriptor=[3, 1, 16], ModalityLUTType="OD", LUTData=np.array([7 + n, 900, 40000], "<u2").tobytes())
        ]
        put(folder / f"{n}.dcm", made, pixels)
    found = there(folder)
    # What is below the first entry is as the first, what is above the last as the last.
    truth = np.stack([np.array([7 + n, 7 + n, 900, 40000])[data[n]] for n in range(3)])
    assert np.array_equal(found.numbers(), truth) and found.array["dtype"] == "uint16"
    assert found.spec["channels"][0]["units"] == "OD"


def test_palettes_of_films(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u1") % 5
    tables = np.random.default_rng(3).integers(0, 255, (3, 5))
    made = header(NumberOfFrames=4, PhotometricInterpretation="PALETTE COLOR", Modality="US")
    for name, table in zip(("Red", "Green", "Blue"), tables, strict=True):
        setattr(made, f"{name}PaletteColorLookupTableDescriptor", [5, 0, 16])
        setattr(made, f"{name}PaletteColorLookupTableData", (table.astype("<u2") * 257).tobytes())
    put_frames(tmp_path / "us.dcm", made, data)
    found = there(tmp_path / "us.dcm")
    assert found.spec["kind"] == "rgb"
    for channel in range(3):
        assert np.array_equal(found.numbers(channel), tables[channel][data])
    numbers = there(tmp_path / "us.dcm", kind="scalar")
    assert np.array_equal(numbers.numbers(), data) and "numbers of colours" in numbers.guessed


def put_frames(path: Path, made: Any, frames: np.ndarray[Any, Any]) -> None:
    put(path, made, frames[0])
    made.PixelData = frames.tobytes()
    made["PixelData"].VR = "OW" if frames.dtype.itemsize > 1 else "OB"
    if len(frames.shape) == 4:
        made.SamplesPerPixel, made.PlanarConfiguration, made.PhotometricInterpretation = 3, 0, "RGB"
    made.save_as(path, enforce_file_format=True)


def test_the_middle_window_of_slices_and_frames_is_shown(tmp_path: Path, there: Look) -> None:
    series(tmp_path / "ct", noise((5, 6, 8), "u2"))
    for n, file in enumerate(sorted((tmp_path / "ct").iterdir(), reverse=True)):
        made = pydicom.dcmread(file)
        made.WindowCenter, made.WindowWidth = 100 * (n + 1), 50
        made.save_as(file)
    found = there(tmp_path / "ct")
    assert found.spec["channels"][0]["limits"] == [275, 324] and "5 different windows" in found.guessed
    made = header(NumberOfFrames=3, VOILUTFunction="LINEAR_EXACT")
    made.PerFrameFunctionalGroupsSequence = [
        item(FrameVOILUTSequence=[item(WindowCenter=c, WindowWidth=20, VOILUTFunction="LINEAR_EXACT")])
        for c in (10, 50, 90)
    ]
    put_frames(tmp_path / "frames.dcm", made, noise((3, 6, 8), "u2"))
    assert there(tmp_path / "frames.dcm").spec["channels"][0]["limits"] == [40, 60]


@pytest.mark.parametrize("syntax", [EXPLICIT, IMPLICIT, BIG])
@pytest.mark.parametrize("mark", [True, False])
def test_data_sets_that_do_not_say_how_they_are_written(syntax: str, mark: bool, tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "i2")
    series(tmp_path / "ct", data, syntax)
    for n, file in enumerate(sorted((tmp_path / "ct").iterdir())):
        raw = file.read_bytes()
        (length,) = struct.unpack_from("<I", raw, 140)
        bare = raw[144 + length :]
        file.unlink()
        (tmp_path / "ct" / f"IM{n}").write_bytes((bytes(128) + b"DICM" if mark else b"") + bare)
    found = there(tmp_path / "ct")
    assert np.array_equal(found.numbers(), data) and found.level["spacing"] == [0.25, 0.5, 1.5]
    assert "do not say how they are written" in found.guessed


@pytest.mark.parametrize(
    "junk", [bytes(4096), b"\x08\0\x05\0" * 1024, b"\x08\0\x16\0\x04\0\0\0abcd\x02\0\0\0" * 300, b"\x01" * 4096]
)
def test_what_is_no_data_set_is_none(junk: bytes) -> None:
    from farfield.volume.formats.dicom.without_preamble import is_dicom_start

    assert not is_dicom_start(junk)


def mosaic(**more: Any) -> Any:
    made = header(ImageType=["ORIGINAL", "PRIMARY", "M", "MOSAIC"], SpacingBetweenSlices=3, **more)
    made.ImageOrientationPatient, made.ImagePositionPatient = [1, 0, 0, 0, 1, 0], [0, 0, 0]
    return made


def csa(**values: str) -> bytes:
    """A CSA header of version 2."""
    found = b"SV10\x04\x03\x02\x01" + struct.pack("<II", len(values), 77)
    for name, value in values.items():
        parts = value.split("\\")
        found += name.encode().ljust(64, b"\0") + struct.pack("<i4siii", 1, b"IS\0\0", 6, len(parts), 77)
        for part in parts:
            text = part.encode() + b"\0"
            found += struct.pack("<4i", len(text), len(text), 77, len(text)) + text + bytes(-len(text) % 4)
    return found


def test_mosaics_are_a_volume_a_time_step(tmp_path: Path, there: Look) -> None:
    volumes = noise((2, 7, 5, 6), "u2")
    for n, volume in enumerate(volumes):
        picture = np.zeros((15, 18), "u2")
        for k, tile in enumerate(volume):
            picture[k // 3 * 5 : k // 3 * 5 + 5, k % 3 * 6 : k % 3 * 6 + 6] = tile
        made = mosaic(InstanceNumber=n + 1, AcquisitionTime=f"10000{n}")
        made.add_new(CSA, "OB", csa(NumberOfImagesInMosaic="7", SliceNormalVector="0\\0\\-1"))
        (tmp_path / "fmri").mkdir(exist_ok=True)
        put(tmp_path / "fmri" / f"{n}.dcm", made, picture)
    found = there(tmp_path / "fmri")
    for n in range(2):
        assert np.array_equal(found.numbers(step=n), volumes[n])
    # The picture's corner is a tile and a half off the tile's middle; slices go down.
    assert found.level["origin"] == [0.25 * 6, 0.5 * 5, 0] and found.level["spacing"] == [0.25, 0.5, 3]
    assert found.spec["direction"][2] == [0, 0, -1] and len(found.spec["times"]) == 2


def test_a_mosaic_that_does_not_say_how_many_goes_by_its_matrix() -> None:
    made = mosaic(AcquisitionMatrix=[0, 6, 5, 0])
    found = mosaic_of(made, (15, 18))
    assert found is not None and (found.count, found.size) == (9, (5, 6))
    assert mosaic_of(header(), (15, 18)) is None


def slide(tiles: np.ndarray[Any, Any], rows: int, columns: int, **more: Any) -> Any:
    made = header(
        NumberOfFrames=len(tiles), TotalPixelMatrixRows=rows, TotalPixelMatrixColumns=columns, Modality="SM", **more
    )
    measures = item(PixelSpacing=[0.002, 0.001], SliceThickness=0.003)
    made.SharedFunctionalGroupsSequence = [item(PixelMeasuresSequence=[measures])]
    del made.RescaleSlope, made.RescaleIntercept, made.WindowCenter, made.WindowWidth
    return made


def test_tiles_at_the_edge_are_cut_and_planes_are_slices(tmp_path: Path, there: Look) -> None:
    whole = noise((2, 13, 19, 3), "u1")
    padded = np.zeros((2, 16, 24, 3), "u1")
    padded[:, :13, :19] = whole
    tiles = padded.reshape(2, 2, 8, 3, 8, 3).transpose(0, 1, 3, 2, 4, 5).reshape(12, 8, 8, 3)
    made = slide(tiles, 13, 19, DimensionOrganizationType="TILED_FULL", TotalPixelMatrixFocalPlanes=2)
    put_frames(tmp_path / "w.dcm", made, np.ascontiguousarray(tiles))
    found = there(tmp_path / "w.dcm")
    assert found.level["dims"] == [19, 13, 2] and found.level["spacing"] == [0.001, 0.002, 0.003]
    for channel in range(3):
        assert np.array_equal(found.numbers(channel), whole[..., channel])


def test_tiles_that_say_where_they_are(tmp_path: Path, there: Look) -> None:
    tiles = noise((3, 8, 8), "u1") + 1
    made = slide(tiles, 16, 16, DimensionOrganizationType="TILED_SPARSE")
    corners = [(9, 9), (1, 1), (1, 9)]
    made.PerFrameFunctionalGroupsSequence = [
        item(
            PlanePositionSlideSequence=[
                item(RowPositionInTotalImagePixelMatrix=r, ColumnPositionInTotalImagePixelMatrix=c)
            ]
        )
        for r, c in corners
    ]
    put_frames(tmp_path / "w.dcm", made, tiles)
    found = there(tmp_path / "w.dcm")
    truth = np.zeros((16, 16), "u1")
    for (r, c), tile in zip(corners, tiles, strict=True):
        truth[r - 1 : r + 7, c - 1 : c + 7] = tile
    assert np.array_equal(found.numbers()[0], truth) and "1 of its tiles are not there" in found.guessed
    del made.PerFrameFunctionalGroupsSequence
    put_frames(tmp_path / "w.dcm", made, tiles)
    with pytest.raises(DataError, match=r"3 tiles of 8 x 8 pixels are not the 2 x 2 of a picture"):
        there(tmp_path / "w.dcm")


def test_series_are_named_by_what_tells_them_apart(tmp_path: Path, there: Look) -> None:
    folder = tmp_path / "ct"
    folder.mkdir()
    for uid, count in (("1.2.1", 4), ("1.2.2", 3)):
        series(folder / uid, noise((count, 6, 8), "u2"), SeriesInstanceUID=uid, SeriesDescription=f"of {count}")
    assert there(folder).level["dims"][2] == 4
    for name in ("4b", "1.2.2", "of 3"):
        assert there(f"{folder}::{name}").level["dims"][2] == 3
    with pytest.raises(UnknownName, match=r"2 series are '4': name one of 4a \(of 4, 4 files of 8 x 6\), 4b"):
        there(f"{folder}::4")


def test_files_with_one_uid_that_are_not_one_stay(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u2")
    series(tmp_path / "ct", data, SOPInstanceUID="1.2.3.4")
    assert np.array_equal(there(tmp_path / "ct").numbers(), data)


def test_padding_of_the_largest_picture_of_a_slide_counts(tmp_path: Path, there: Look) -> None:
    for n, side in enumerate((16, 8)):
        tiles = noise(((side // 8) ** 2, 8, 8), "u1")
        made = slide(tiles, side, side, DimensionOrganizationType="TILED_FULL", InstanceNumber=n + 1)
        if n == 0:
            made.PixelPaddingValue = 2
        put_frames(tmp_path / f"{n}.dcm", made, tiles)
    found = there(tmp_path)
    assert found.spec["channels"][0]["missing"] == 2 and len(found.spec["levels"]) == 2
    assert "its number 2 only fills it up" in found.guessed


@pytest.mark.parametrize("count", [256, 255])
@pytest.mark.parametrize("form", ["bytes in words", "words", "bytes as numbers"])
def test_tables_of_8_bits_an_entry(form: str, count: int, tmp_path: Path, there: Look) -> None:
    """Two entries in a word, or one (PS3.3 C.11.1.1.1): of values, of grey values, and of colours."""
    entries = (255 - np.arange(count)).astype("u1")
    packed = entries.tobytes() + bytes(count % 2)
    words = entries.astype("<u2").tobytes()
    data = noise((6, 8), "u1")
    data[0, :2] = 0, 255
    value = {"bytes in words": packed, "words": words, "bytes as numbers": np.frombuffer(packed, "<u2").tolist()}[form]
    table = item(LUTDescriptor=[count, 0, 8], ModalityLUTType="OD")
    table.add_new(0x00283006, "US" if form == "bytes as numbers" else "OW", value)
    made = header(ImagePositionPatient=[1, 2, 3])
    del made.RescaleSlope, made.RescaleIntercept, made.WindowCenter, made.WindowWidth
    made.ModalityLUTSequence = [table]
    put(tmp_path / "a.dcm", made, data)
    expected = entries[np.minimum(data, count - 1)]
    assert np.array_equal(there(tmp_path / "a.dcm").numbers()[0], expected)
    del made.ModalityLUTSequence
    made.VOILUTSequence = [table]
    put(tmp_path / "b.dcm", made, data)
    found = there(tmp_path / "b.dcm")
    assert found.spec["channels"][0]["limits"] == [0, count - 1] and found.spec["channels"][0]["inverted"]
    if form == "bytes as numbers":
        return
    del made.VOILUTSequence
    made.PhotometricInterpretation = "PALETTE COLOR"
    for colour, flip in (("Red", 1), ("Green", -1), ("Blue", 1)):
        setattr(made, f"{colour}PaletteColorLookupTableDescriptor", [count, 0, 8])
        own = np.frombuffer(packed if form == "bytes in words" else words, "u1" if form == "bytes in words" else "<u2")
        own = np.concatenate([own[:count][::flip], own[count:]])
        setattr(made, f"{colour}PaletteColorLookupTableData", own.tobytes())
    put(tmp_path / "c.dcm", made, data)
    found = there(tmp_path / "c.dcm")
    assert np.array_equal(found.numbers()[0], expected)
    assert np.array_equal(found.numbers(1)[0], entries[::-1][np.minimum(data, count - 1)])


def test_a_table_that_is_broken_is_named(tmp_path: Path, there: Look) -> None:
    made = header(ImagePositionPatient=[1, 2, 3])
    del made.RescaleSlope, made.RescaleIntercept
    made.ModalityLUTSequence = [item(LUTDescriptor=[256, 0, 16], ModalityLUTType="OD")]
    made.ModalityLUTSequence[0].add_new(0x00283006, "OW", bytes(100))
    put(tmp_path / "a.dcm", made, noise((6, 8), "u1"))
    with pytest.raises(DataError, match=r"its table of values .*256 entries of 16 bits do not fit into its 100 bytes"):
        there(tmp_path / "a.dcm")
