"""Patterns of slices as sources, and folders that hold more than one kind of image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield import open as ff_open
from farfield.errors import DataError, UsageError
from farfield.volume.formats.detection import format_of
from farfield.volume.formats.patterns import files_of, is_pattern
from running import Command, Json
from volume_files import Read

pil = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")
Look = Callable[..., Read]


@pytest.fixture
def slices(tmp_path: Path) -> Path:
    """Eleven PNG images and three of TIFF."""
    folder = tmp_path / "slices"
    folder.mkdir()
    for n, plane in enumerate(noise()):
        pil.fromarray(plane).save(folder / f"s{n}.png")
    for n in range(3):
        tifffile.imwrite(folder / f"t{n}.tif", noise()[n] + 1)
    return folder


def noise() -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 200, (11, 20, 30)).astype("u1")


def numbers(path: Path) -> np.ndarray[Any, Any]:
    """As the extension reads them."""
    with ff_open(path) as volume:
        return np.asarray(volume[...])


def test_patterns_are_stacks(slices: Path, there: Look) -> None:
    found = there(slices / "s*.png")
    assert np.array_equal(numbers(slices / "s*.png"), noise()) and found.spec["channels"][0]["name"] == "s"
    assert str(slices / "s10.png") in found.description.reads and str(slices / "s*.png") not in found.description.reads
    assert np.array_equal(numbers(slices / "s[2-4].png"), noise()[2:5])
    assert np.array_equal(there(slices / "*.tif").numbers(), noise()[:3] + 1)
    assert there(slices / "*.tif").spec["channels"][0]["name"] == "slices"
    # One file is itself.
    assert np.array_equal(numbers(slices / "s1?.png"), noise()[10:])


def test_patterns_that_are_no_stack(slices: Path, there: Look) -> None:
    with pytest.raises(UsageError, match=r"s0\.png is a PNG image, and t0\.tif none.*name those of one kind"):
        there(slices / "*")
    with pytest.raises(DataError, match="no such file"):
        there(slices / "none*.png")
    assert format_of(str(slices / "none*.png")) is None
    for n in range(2):
        tifffile.imwrite(slices / f"stack{n}.tif", noise(), photometric="minisblack")
    with pytest.raises(DataError, match=r"stack0\.tif: this image has 11 pages, and a folder of slices has one a file"):
        there(slices / "stack*.tif")
    for n in range(2):
        (slices / f"a{n}.nrrd").write_bytes(b"NRRD0004\n")
    with pytest.raises(UsageError, match=r"each of these 2 files is a volume by itself \(nrrd\); name one of them"):
        there(slices / "a*.nrrd")


def test_dicom(tmp_path: Path, there: Look) -> None:
    pydicom = pytest.importorskip("pydicom")
    for n, plane in enumerate(noise()):
        about = pydicom.dataset.FileMetaDataset()
        about.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        about.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
        about.MediaStorageSOPInstanceUID = f"1.2.{n + 1}"
        made = pydicom.dataset.FileDataset("", {}, file_meta=about, preamble=bytes(128))
        made.SOPClassUID, made.SOPInstanceUID = about.MediaStorageSOPClassUID, about.MediaStorageSOPInstanceUID
        made.SeriesInstanceUID, made.InstanceNumber, made.Modality = "1.2.3", n + 1, "CT"
        made.Rows, made.Columns, made.SamplesPerPixel, made.PhotometricInterpretation = 20, 30, 1, "MONOCHROME2"
        made.BitsAllocated = made.BitsStored = 8
        made.HighBit, made.PixelRepresentation = 7, 0
        made.ImageOrientationPatient, made.ImagePositionPatient = [1, 0, 0, 0, 1, 0], [0, 0, 2 * n]
        made.PixelSpacing = [0.5, 0.5]
        made.PixelData = plane.tobytes()
        made.save_as(tmp_path / f"i{n}.dcm", enforce_file_format=True)
    found = there(tmp_path / "i[0-4].dcm")
    assert np.array_equal(found.numbers(), noise()[:5]) and found.level["spacing"] == [0.5, 0.5, 2]


def test_folders_of_two_kinds_say_which_is_shown(slices: Path, there: Look) -> None:
    found = there(slices)
    assert np.array_equal(numbers(slices), noise())
    assert (
        f"the 11 PNG images are shown, and 3 TIFF images are not; the source '{slices}/*.tif' is those" in found.guessed
    )
    (slices / "t0.tif").unlink()
    assert "2 TIFF images are not" in there(slices).guessed


def test_patterns_on_the_command_line(slices: Path, ff_json: Json, ff: Command, tmp_path: Path) -> None:
    info = ff_json("info", slices / "s*.png")
    assert info["what"] == "volume" and info["dims"] == [30, 20, 11]
    found = ff_json("probe", slices / "s*.png", "--ijk", 3, 2, 11)
    assert found["values"]["s"] == noise()[10, 1, 2]
    ff("render", slices / "s*.png", "-o", tmp_path / "a.png", "--save-scene", tmp_path / "a.json", "--size", "64x48")
    ff("render", tmp_path / "a.json", "-o", tmp_path / "b.png", "--size", "64x48")
    ff("convert", slices / "s*.png", tmp_path / "a.zarr")
    said = ff("render", slices / "s*.png", "-o", slices / "s1.png", ok=(2,)).stderr
    assert "s1.png" in said and pil.open(slices / "s1.png").size == (30, 20)


def test_names_with_wildcards_that_are_there_are_themselves(tmp_path: Path) -> None:
    (tmp_path / "a[1].png").write_bytes(b"")
    assert not is_pattern(str(tmp_path / "a[1].png")) and is_pattern(str(tmp_path / "a*.png"))
    assert files_of(str(tmp_path / "a*.png")) == [str(tmp_path / "a[1].png")]
