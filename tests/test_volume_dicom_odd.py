"""DICOM files that are damaged, or say things in another way than most; written by pydicom."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError
from test_volume_slices import BIG, EXPLICIT, IMPLICIT, header, noise, put, series
from volume_files import Read

pydicom = pytest.importorskip("pydicom")
Look = Callable[..., Read]
DEFLATED, RLE = pydicom.uid.DeflatedExplicitVRLittleEndian, pydicom.uid.RLELossless


def changed(folder: Path, change: Callable[[int, Any], None]) -> None:
    """Changes the headers of a series, by the number of the slice."""
    for file in folder.iterdir():
        made = pydicom.dcmread(file)
        change(made.InstanceNumber - 1, made)
        made.save_as(file)


def without(folder: Path, *tags: str, only: int | None = None) -> None:
    def take(n: int, made: Any) -> None:
        for tag in tags if only in (None, n) else ():
            delattr(made, tag)

    changed(folder, take)


@pytest.mark.parametrize("syntax", [EXPLICIT, IMPLICIT])
@pytest.mark.parametrize("name", ["im95.dcm", "im97.dcm", "im99.dcm"])
def test_a_slice_that_was_cut_off_anywhere_is_named(syntax: str, name: str, tmp_path: Path, there: Look) -> None:
    folder = tmp_path / "ct"
    series(folder, noise((5, 6, 8), "u2"), syntax)
    whole = (folder / name).read_bytes()
    for count in range(0, len(whole), 5 if name == "im97.dcm" else 41):
        (folder / name).write_bytes(whole[:count])
        with pytest.raises(DataError) as error:
            there(folder)
        assert str(error.value).startswith(f"{folder / name}: ") and "copy it again" in str(error.value), count
    (folder / name).write_bytes(whole)
    assert there(folder).level["dims"] == [8, 6, 5]
    (folder / name).write_bytes(whole[:200])
    with pytest.raises(DataError, match=rf"{name}: its DICOM header ends before .*: it was cut off; copy it again"):
        there(folder / name)


@pytest.mark.parametrize("count", [0, 100, 200])
@pytest.mark.parametrize("name", ["IM2", "IM4"])
def test_a_cut_slice_without_a_suffix(name: str, count: int, tmp_path: Path, there: Look) -> None:
    folder = tmp_path / "ct"
    series(folder, noise((5, 6, 8), "u2"))
    for n, file in enumerate(sorted(folder.iterdir())):
        file.rename(folder / f"IM{n}")
    whole = (folder / name).read_bytes()
    for other in ("README.txt", "VERSION", "IM2.txt"):
        (folder / other).write_text("of no matter")
    (folder / "Thumbs.db").write_bytes(b"")
    (folder / "DICOMDIR").write_bytes(bytes(128) + b"DICM")
    assert there(folder).level["dims"] == [8, 6, 5]
    (folder / name).write_bytes(whole[:count])
    with pytest.raises(DataError, match=rf"/{name}: .*it was cut off"):
        there(folder)
    with pytest.raises(DataError, match=rf"/{name}: .*it was cut off"):
        there(f"{folder}/IM*")


@pytest.mark.parametrize("kind", ["EncapsulatedPDFStorage", "RTStructureSetStorage", "RTDoseStorage", "1.2.3.4.5"])
def test_files_beside_that_hold_no_image(kind: str, tmp_path: Path, there: Look) -> None:
    folder = tmp_path / "ct"
    series(folder, noise((5, 6, 8), "u2"))
    made = header()
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = getattr(pydicom.uid, kind, kind)
    made.add_new(0x00420011, "OB", bytes(300))
    made.save_as(folder / "im90.dcm", enforce_file_format=True)
    assert there(folder).level["dims"] == [8, 6, 5]
    if kind in ("RTDoseStorage", "1.2.3.4.5"):  # either may be an image
        (folder / "im90.dcm").write_bytes((folder / "im90.dcm").read_bytes()[:-20])
        with pytest.raises(DataError, match=r"im90\.dcm: its DICOM header ends before"):
            there(folder)


def test_no_pixels(tmp_path: Path, there: Look) -> None:
    made = header()
    put(tmp_path / "a.dcm", made, noise((6, 8), "u2"))
    made.compress(RLE)
    del made.PixelData
    made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(DataError, match=r"a\.dcm: it holds no pixels"):
        there(tmp_path / "a.dcm")


@pytest.mark.parametrize("syntax", [EXPLICIT, IMPLICIT, BIG, DEFLATED, RLE])
@pytest.mark.parametrize(("dtype", "high"), [("u2", 15), ("u2", 13), ("i2", 15), ("i2", 13)])
def test_numbers_with_bits_below_them(syntax: str, dtype: str, high: int, tmp_path: Path, there: Look) -> None:
    data = np.random.default_rng(3).integers(-2048 if dtype == "i2" else 0, 2048 if dtype == "i2" else 4096, (5, 6, 8))
    # Whatever is beside the numbers is none of them.
    words = (data & 0xFFF) << (high - 11) | 1 | (0x4000 if high == 13 else 0)
    series(tmp_path / "ct", words.astype("u2").view(dtype), EXPLICIT if syntax == RLE else syntax)

    def stored(_: int, made: Any) -> None:
        made.BitsStored, made.HighBit = 12, high
        if syntax == RLE:
            made.compress(RLE)

    changed(tmp_path / "ct", stored)
    found = there(tmp_path / "ct")
    assert np.array_equal(found.numbers(), data) and found.array["dtype"] == np.dtype(dtype).name
    assert "is converted once" in found.said[0]


def test_frames_with_bits_below_their_numbers(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u2")
    made = header(NumberOfFrames=4)
    put(tmp_path / "a.dcm", made, data[0])
    made.PixelData, made.BitsStored, made.HighBit = (data << 4).tobytes(), 12, 15
    made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    found = there(tmp_path / "a.dcm")
    assert np.array_equal(found.numbers(), data) and "numbers with other bits below them" in found.said[0]


def test_high_bits_that_make_no_sense(tmp_path: Path, there: Look) -> None:
    made = header()
    put(tmp_path / "a.dcm", made, noise((6, 8), "u2"))
    for high in (3, 16):
        made.BitsStored, made.HighBit = 12, high
        made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
        with pytest.raises(
            DataError, match=rf"a\.dcm: its HighBit is {high}, out of the range 11 to 15 .*; correct it"
        ):
            there(tmp_path / "a.dcm")
    made.HighBit = 15
    made.file_meta.TransferSyntaxUID = pydicom.uid.JPEGLSLossless
    made.PixelData = pydicom.encaps.encapsulate([b"no such image"])
    made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(DataError, match=r"its HighBit is 15 where BitsStored is 12, which .*JPEG-LS.* cannot"):
        there(tmp_path / "a.dcm")


def dose(path: Path, data: np.ndarray[Any, Any], **more: Any) -> None:
    made = header(NumberOfFrames=len(data), Modality="RTDOSE", ImagePositionPatient=[1, 2, 3])
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = pydicom.uid.RTDoseStorage
    made.GridFrameOffsetVector, made.FrameIncrementPointer = [2.5 * n for n in range(len(data))], 0x3004000C
    for tag in ("RescaleSlope", "RescaleIntercept", "WindowCenter", "WindowWidth"):
        delattr(made, tag)
    for key, value in more.items():
        setattr(made, key, value)
    put(path, made, data[0])
    made.PixelData = data.tobytes()
    made.save_as(path, enforce_file_format=True)


def test_doses(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u4")
    dose(tmp_path / "gray.dcm", data, DoseGridScaling="0.001", DoseUnits="GY")
    found = there(tmp_path / "gray.dcm")
    assert np.array_equal(found.numbers(), data) and found.spec["guessed"] == []
    assert found.spec["channels"] == [{"name": "chest", "units": "Gy", "scale": [0.001, 0]}]
    assert found.level["spacing"] == [0.25, 0.5, 2.5] and found.level["origin"] == [1, 2, 3]
    dose(tmp_path / "relative.dcm", data, DoseGridScaling="0.01", DoseUnits="RELATIVE")
    assert there(tmp_path / "relative.dcm").spec["channels"] == [{"name": "chest", "units": "1", "scale": [0.01, 0]}]
    dose(tmp_path / "plain.dcm", data, DoseUnits="GY")
    found = there(tmp_path / "plain.dcm")
    assert found.spec["channels"] == [{"name": "chest", "units": "1"}] and "DoseGridScaling is missing" in found.guessed
    for offsets in (0, [0, 1, 2]):
        dose(tmp_path / "few.dcm", data, DoseGridScaling="0.01", GridFrameOffsetVector=offsets)
        said = f"({np.size(offsets)} offsets in GridFrameOffsetVector for 4)"
        assert said in there(tmp_path / "few.dcm").guessed


@pytest.mark.parametrize(
    ("tag", "said"),
    [("ImagePositionPatient", "has no ImagePositionPatient"), ("ImageOrientationPatient", "has no ImageOrientationP")],
)
@pytest.mark.parametrize("slice_", [0, 2, 4])
def test_one_slice_that_does_not_say_where_it_lies(
    slice_: int, tag: str, said: str, tmp_path: Path, there: Look
) -> None:
    """It stands where its number is, if the others follow theirs; where numbers do not say, a spacing must."""
    folder, name = tmp_path / "ct", f"im{99 - slice_}.dcm"
    data = noise((5, 6, 8), "u2")
    series(folder, data)
    before = there(folder)
    without(folder, tag, only=slice_)
    found = there(folder)
    assert np.array_equal(found.numbers(), data) and np.allclose(found.affine, before.affine)
    assert found.spec["anatomy"] == "LPS" and re.search(rf"{name} {said}\S*, and stands where its Inst", found.guessed)
    # A number that is missing among them may be anywhere.
    changed(folder, lambda n, made: setattr(made, "InstanceNumber", n + 1 + (n > 1)))
    with pytest.raises(
        DataError, match=rf"{name}: this slice {said}.*give --spacing X,Y,Z to take all in the order of"
    ):
        there(folder)
    found = there(folder, spacing="1,2,3")
    assert np.array_equal(found.numbers(), data) and found.level["spacing"] == [1, 2, 3]
    assert found.spec["direction"] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]] and found.spec["anatomy"] is None
    assert re.search(rf"{name} {said}\S*: all slices are taken by their InstanceNumbers alone", found.guessed)
    changed(folder, lambda _, made: setattr(made, "InstanceNumber", 1))
    with pytest.raises(
        DataError, match=rf"{name}: this slice {said}\S*, and others of the series have one; copy it ag"
    ):
        there(folder, spacing="1,2,3")


def test_slices_that_are_placed_by_their_numbers_must_fit(tmp_path: Path, there: Look) -> None:
    folder = tmp_path / "ct"
    data = noise((6, 6, 8), "u2")
    series(folder, data)
    without(folder, "ImagePositionPatient", only=1)
    without(folder, "ImagePositionPatient", only=4)
    found = there(folder)
    assert np.array_equal(found.numbers(), data) and found.level["spacing"] == [0.25, 0.5, 1.5]
    assert (
        "im95.dcm, im98.dcm do not say where they lie (im95.dcm has no ImagePositionPatient), and stand"
        in found.guessed
    )

    def uneven(n: int, made: Any) -> None:
        if n == 5:
            made.ImagePositionPatient = [1, 2, 30]

    changed(folder, uneven)
    with pytest.raises(DataError, match=r"im95\.dcm: this slice has no ImagePositionPatient, and others"):
        there(folder)

    def steps(n: int, made: Any) -> None:
        if n not in (1, 4):
            made.ImagePositionPatient = [1, 2, 3 + 1.5 * (n // 2)]

    changed(folder, steps)
    for spacing in (None, "1,2,3"):  # several at each place are no stack
        with pytest.raises(
            DataError, match=r"im95\.dcm: this slice has no ImagePositionPatient, and others.*; copy it"
        ):
            there(folder, spacing=spacing)


def test_a_position_that_is_no_number(tmp_path: Path, there: Look) -> None:
    series(tmp_path / "ct", noise((5, 6, 8), "u2"))
    file = tmp_path / "ct" / "im97.dcm"
    raw = file.read_bytes()
    assert raw.count(rb"\6.0") == 1
    file.write_bytes(raw.replace(rb"\6.0", rb"\x.0"))
    said = r"im97\.dcm has '1(\.0)?\\2(\.0)?\\x\.0' as ImagePositionPatient, which should be 3 numbers, and stands where its"
    found = there(tmp_path / "ct")
    assert re.search(said, found.guessed) and found.level["spacing"] == [0.25, 0.5, 1.5]


@pytest.mark.parametrize(
    ("axis", "name", "direction"),
    [
        (0, "sagittal", [[0, 1, 0], [0, 0, -1], [-1, 0, 0]]),
        (1, "coronal", [[1, 0, 0], [0, 0, -1], [0, 1, 0]]),
        (2, "axial", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ],
)
def test_slices_without_an_orientation(
    axis: int, name: str, direction: list[list[int]], tmp_path: Path, there: Look
) -> None:
    data = noise((5, 6, 8), "u2")
    series(tmp_path / "ct", data, SliceThickness=2)
    without(tmp_path / "ct", "ImageOrientationPatient")

    def place(n: int, made: Any) -> None:
        made.ImagePositionPatient = [3 * n if a == axis else 1 for a in range(3)]

    changed(tmp_path / "ct", place)
    found = there(tmp_path / "ct")
    # Slices follow each other along the normal of their plane, which points to the right of sagittal ones.
    assert np.array_equal(found.numbers(), data[::-1] if axis == 0 else data)
    assert found.level["spacing"] == [0.25, 0.5, 3] and found.spec["direction"] == direction
    assert f"has no ImageOrientationPatient): they are taken as {name}" in found.guessed


def test_slices_that_say_nothing_of_where_they_lie(tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 8), "u2")
    series(tmp_path / "ct", data, SliceThickness=2)
    without(tmp_path / "ct", "ImagePositionPatient")
    found = there(tmp_path / "ct")
    assert np.array_equal(found.numbers(), data) and found.level["spacing"] == [0.25, 0.5, 2]
    assert "do not say where they lie (each has no ImagePositionPatient)" in found.guessed
    assert found.spec.get("anatomy") is None


def test_frames_and_groups(tmp_path: Path, there: Look) -> None:
    data = noise((6, 6, 8), "u2")

    def frames(positions: int, groups: int = 6, orientation: bool = True) -> Path:
        made = header(NumberOfFrames=6)
        if not orientation:
            del made.ImageOrientationPatient
        put(tmp_path / "a.dcm", made, data[0])
        made.PixelData = data.tobytes()
        made.PerFrameFunctionalGroupsSequence = [pydicom.Dataset() for _ in range(groups)]
        for n, group in enumerate(made.PerFrameFunctionalGroupsSequence[:positions]):
            group.PlanePositionSequence = [pydicom.Dataset()]
            group.PlanePositionSequence[0].ImagePositionPatient = [0, 0, 2 * n]
        made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
        return tmp_path / "a.dcm"

    assert there(frames(6)).level["spacing"] == [0.25, 0.5, 2]
    with pytest.raises(DataError, match=r"a\.dcm: its PerFrameFunctionalGroupsSequence has 5 groups for 6 frames"):
        there(frames(5, 5))
    assert "(an ImagePositionPatient for 4 of 6)" in there(frames(4)).guessed
    assert "(no ImagePositionPatient of their own)" in there(frames(0)).guessed
    assert "(no ImageOrientationPatient)" in there(frames(6, orientation=False)).guessed
