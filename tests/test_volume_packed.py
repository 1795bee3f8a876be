"""Files that are compressed as a whole, under any name; NIfTI's complex numbers, labels in floating point, forms that differ."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UsageError
from volume_files import Read

nibabel = pytest.importorskip("nibabel")
Look = Callable[..., Read]
DATA = np.random.default_rng(5).integers(-300, 300, (3, 4, 5)).astype("<i2")
NRRD = b"NRRD0004\ntype: short\ndimension: 3\nsizes: 5 4 3\nencoding: raw\nendian: little\n\n" + DATA.tobytes()
MHA = (
    b"ObjectType = Image\nNDims = 3\nDimSize = 5 4 3\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    + DATA.tobytes()
)


@pytest.mark.parametrize("name", ["a.nrrd", "a.nrrd.gz", "a"])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_content_tells_what_is_compressed(name: str, pack: Any, tmp_path: Path, there: Look) -> None:
    (tmp_path / name).write_bytes(pack(NRRD))
    found = there(tmp_path / name)
    assert np.array_equal(found.numbers(), DATA) and found.spec["channels"][0]["name"] == "a"
    assert found.spec["path"] == str(tmp_path / name) and len(found.said) == 1
    assert there(tmp_path / name).said == [], "it is unpacked once"


def test_what_the_name_says_counts_where_content_does_not(tmp_path: Path, there: Look) -> None:
    (tmp_path / "m.mha.bz2").write_bytes(bz2.compress(MHA))
    assert np.array_equal(there(tmp_path / "m.mha.bz2").numbers(), DATA)
    (tmp_path / "r.raw.gz").write_bytes(gzip.compress(DATA.tobytes()))
    assert np.array_equal(there(tmp_path / "r.raw.gz", shape="5x4x3", dtype="int16").numbers(), DATA)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_is_cut_off_is_said_of_the_file_that_was_named(pack: Any, tmp_path: Path, there: Look) -> None:
    noise = np.random.default_rng(1).integers(0, 255, 60_000).astype("u1").tobytes()
    (tmp_path / "a.nrrd.gz").write_bytes(pack(NRRD.replace(b"5 4 3", b"100 100 3") + noise)[:-20_000])
    with pytest.raises(DataError, match=r"a\.nrrd\.gz: its (gzip|bz2|xz) data are (cut off|damaged)"):
        there(tmp_path / "a.nrrd.gz")


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.nii.bz2"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts_of_complex_numbers(name: str, dtype: str, tmp_path: Path, there: Look) -> None:
    values = (DATA + 1j * DATA[::-1]).astype(dtype).T
    nibabel.save(nibabel.Nifti1Image(values, np.diag([2, 3, 4, 1])), tmp_path / name)
    truth = np.asarray(nibabel.load(tmp_path / name).dataobj).T
    parts = {None: np.abs, "magnitude": np.abs, "real": np.real, "imag": np.imag, "phase": np.angle}
    for component, of in parts.items():
        found = there(tmp_path / name, component=component)
        assert np.allclose(found.numbers(), of(truth), rtol=1e-6)
    nibabel.save(nibabel.Nifti1Image(DATA.T, np.eye(4)), tmp_path / "plain.nii")
    with pytest.raises(UsageError, match="--component is for complex numbers, and these are int16"):
        there(tmp_path / "plain.nii", component="real")


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_labels_in_floating_point(name: str, dtype: str, tmp_path: Path, there: Look) -> None:
    made = nibabel.Nifti1Image(np.abs(DATA).astype(dtype).T, np.eye(4))
    made.header.set_intent("label")
    nibabel.save(made, tmp_path / name)
    found = there(tmp_path / name)
    assert found.spec["kind"] == "labels" and found.array["dtype"] == "int32"
    assert np.array_equal(found.numbers(), np.abs(DATA))
    assert there(tmp_path / name, kind="scalar").array["dtype"] == f"float{8 * int(dtype[1])}"
    made = nibabel.Nifti1Image((np.abs(DATA) + 0.5).astype(dtype).T, np.eye(4))
    made.header.set_intent("label")
    nibabel.save(made, tmp_path / name)
    found = there(tmp_path / name)
    assert found.spec["kind"] == "scalar" and "some are no whole numbers" in found.guessed


def test_the_qform_is_taken_where_the_sform_is_singular(tmp_path: Path, there: Look) -> None:
    affine = np.array([[0, -2.0, 0, 5], [3, 0, 0, 6], [0, 0, 4, 7], [0, 0, 0, 1]])
    nibabel.save(nibabel.Nifti1Image(DATA.T, affine), tmp_path / "a.nii")
    raw = bytearray((tmp_path / "a.nii").read_bytes())
    # qform_code and sform_code are 1, and srow_y is srow_x.
    raw[252:256], raw[296:312] = b"\1\0\1\0", raw[280:296]
    (tmp_path / "a.nii").write_bytes(raw)
    found = there(tmp_path / "a.nii")
    assert np.allclose(found.affine, affine, atol=1e-5) and "its qform is taken" in found.guessed


def test_forms_that_agree_are_not_told(tmp_path: Path, there: Look) -> None:
    made = nibabel.Nifti1Image(DATA.T, np.diag([2.0, 3, 4, 1]))
    made.set_qform(made.affine, 1)
    made.set_sform(made.affine, 1)
    nibabel.save(made, tmp_path / "a.nii")
    assert "differ" not in there(tmp_path / "a.nii").guessed
    made.set_qform(np.diag([2.0, 3, 4, 1]) + np.eye(4, k=3) * 9, 1)
    made.set_sform(made.affine, 1)
    nibabel.save(made, tmp_path / "a.nii")
    assert "its sform and its qform differ by up to 9 mm: the sform is taken" in there(tmp_path / "a.nii").guessed
