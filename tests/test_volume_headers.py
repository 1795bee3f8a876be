"""NIfTI, NRRD, MetaImage and raw numbers, against nibabel and by hand."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UsageError
from running import Command
from volume_files import Read

nibabel = pytest.importorskip("nibabel")
Look = Callable[..., Read]


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 120, shape).astype(dtype)


TILTED = np.array([[0.0, -0.5, 0.1, 10], [2.0, 0, 0, -20], [0, 0.05, 3, 30], [0, 0, 0, 1]])


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize("dtype", ["u1", "<i2", ">f4", "<f8", ">u4"])
def test_nifti(kind: str, suffix: str, dtype: str, tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 7), dtype)
    image = getattr(nibabel, kind)(data, TILTED, dtype=np.dtype(dtype).newbyteorder("="))
    if dtype.startswith(">"):
        image = getattr(nibabel, kind)(data, TILTED, image.header.as_byteswapped(">"))
    image.header.set_xyzt_units("mm", "sec")
    nibabel.save(image, tmp_path / f"a{suffix}")
    found = there(tmp_path / f"a{suffix}")
    again = nibabel.load(tmp_path / f"a{suffix}")
    assert np.array_equal(found.numbers().T, np.asarray(again.dataobj.get_unscaled()))
    assert np.allclose(found.affine, again.affine, rtol=1e-14, atol=1e-14)
    assert found.spec["anatomy"] == "RAS" and found.spec["length_unit"] == "mm" and not found.guessed
    assert len(found.said) == (suffix == ".nii.gz")


def test_nifti_by_qform(tmp_path: Path, there: Look) -> None:
    image = nibabel.Nifti1Image(noise((4, 5, 6), "i2"), None)
    c, s = np.cos(0.3), np.sin(0.3)
    turned = np.array([[c * 2, -s * 3, 0, 1], [s * 2, c * 3, 0, 2], [0, 0, -4, 3], [0, 0, 0, 1]])
    image.header.set_qform(turned, code=1)
    image.header.set_sform(None, code=0)
    nibabel.save(image, tmp_path / "a.nii")
    found = there(tmp_path / "a.nii")
    assert np.allclose(found.affine, nibabel.load(tmp_path / "a.nii").affine, atol=1e-6)
    assert found.level["spacing"] == [2, 3, 4]


def test_nifti_scale_time_and_labels(tmp_path: Path, there: Look) -> None:
    image = nibabel.Nifti1Image(noise((4, 5, 6, 3), "i2"), np.diag([2, 2, 2, 1]))
    image.header.set_slope_inter(0.5, -100)
    image.header.set_xyzt_units("micron", "msec")
    image.header["pixdim"][4] = 250
    image.header["toffset"] = 1000
    image.header["cal_min"], image.header["cal_max"] = -50, 80
    nibabel.save(image, tmp_path / "a.nii")
    found = there(tmp_path / "a.nii")
    assert (
        found.spec["times"] == [1000, 1250, 1500]
        and found.spec["time_units"] == "ms"
        and found.spec["length_unit"] == "um"
    )
    assert found.spec["channels"][0]["scale"] == [0.5, -100] and found.spec["channels"][0]["limits"] == [-50, 80]
    stored = np.asarray(nibabel.load(tmp_path / "a.nii").dataobj.get_unscaled())
    assert np.array_equal(found.numbers(step=2), stored[..., 2].T)
    # Of what is in single precision the decimal that rounds to it.
    image.header["pixdim"][4], image.header["toffset"] = 0.1, 0
    nibabel.save(image, tmp_path / "a.nii")
    assert there(tmp_path / "a.nii").spec["times"] == [0, 0.1, 0.2]
    labels = nibabel.Nifti1Image(noise((4, 5, 6), "i4"), np.eye(4))
    labels.header.set_intent("label")
    nibabel.save(labels, tmp_path / "l.nii")
    assert there(tmp_path / "l.nii").spec["kind"] == "labels"


def test_nifti_colours(tmp_path: Path, there: Look) -> None:
    rgb = np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])
    data = noise((4, 5, 6, 3), "u1")
    nibabel.save(nibabel.Nifti1Image(data.view(rgb)[..., 0], np.eye(4)), tmp_path / "a.nii")
    found = there(tmp_path / "a.nii")
    assert found.spec["kind"] == "rgb" and found.array["axes"] == "zyxc"
    assert all(np.array_equal(found.numbers(c), data[..., c].T) for c in range(3))


def test_pairs(tmp_path: Path, there: Look) -> None:
    data = noise((4, 5, 6), "i2")
    nibabel.save(nibabel.Nifti1Pair(data, np.eye(4)), tmp_path / "a.img")
    for name in ("a.img", "a.hdr"):
        assert np.array_equal(there(tmp_path / name).numbers().T, data)
    (tmp_path / "a.img").unlink()
    with pytest.raises(DataError, match=r"a\.img, are not there"):
        there(tmp_path / "a.hdr")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dim", [9, 4, 5, 6, 1, 1, 1, 1], r"dim\[0\] says 9"),
        ("dim", [3, 4, -5, 6, 1, 1, 1, 1], r"dim\[2\] is -5"),
        ("dim", [3, 400, 500, 600, 1, 1, 1, 1], "it was cut off, or its header is wrong"),
        ("datatype", 32, "needs 960 bytes"),
        ("datatype", 77, "datatype 77"),
        ("vox_offset", np.nan, "vox_offset is nan"),
        ("srow_x", [np.nan, 0, 0, 0], "not three directions"),
        ("srow_x", [0, 0, 0, 0], "lie in one plane|not three directions"),
    ],
)
def test_damaged_nifti(field: str, value: Any, message: str, tmp_path: Path, there: Look) -> None:
    image = nibabel.Nifti1Image(noise((4, 5, 6), "i2"), np.diag([2, 3, 4, 1]))
    nibabel.save(image, tmp_path / "a.nii")
    raw = bytearray((tmp_path / "a.nii").read_bytes())
    header = np.frombuffer(raw[:348], nibabel.nifti1.header_dtype).copy()
    header[field] = value
    raw[:348] = header.tobytes()
    (tmp_path / "a.nii").write_bytes(raw)
    with pytest.raises(DataError, match=message) as caught:
        there(tmp_path / "a.nii")
    assert "a.nii" in str(caught.value)


def test_cut_off_gzip(tmp_path: Path, there: Look) -> None:
    nibabel.save(
        nibabel.Nifti1Image(np.random.default_rng(1).integers(0, 1 << 14, (64, 64, 64)).astype("i2"), np.eye(4)),
        tmp_path / "a.nii.gz",
    )
    raw = (tmp_path / "a.nii.gz").read_bytes()
    (tmp_path / "a.nii.gz").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match="cut off"):
        there(tmp_path / "a.nii.gz")
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_a_conversion_is_made_once_and_again_when_the_file_changes(tmp_path: Path, there: Look) -> None:
    data = noise((4, 5, 6), "i2")
    nibabel.save(nibabel.Nifti1Image(data, np.eye(4)), tmp_path / "a.nii.gz")
    first = there(tmp_path / "a.nii.gz")
    assert "is compressed with gzip" in first.said[0] and "240 bytes go to" in first.said[0]
    assert there(tmp_path / "a.nii.gz").said == []
    nibabel.save(nibabel.Nifti1Image(data + np.int16(1), np.eye(4)), tmp_path / "a.nii.gz")
    again = there(tmp_path / "a.nii.gz")
    assert len(again.said) == 1 and np.array_equal(again.numbers().T, data + 1)


def nrrd(path: Path, fields: str, data: bytes) -> None:
    path.write_bytes(b"NRRD0005\n# made by a test\n" + fields.encode() + b"\n\n" + data)


@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2"])
def test_nrrd(encoding: str, tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), ">i2")
    packed = {"raw": bytes, "gzip": gzip.compress, "bzip2": bz2.compress}[encoding](data.tobytes())
    fields = (
        "type: short\ndimension: 3\nsizes: 4 5 6\nendian: big\nspace: left-posterior-superior\n"
        'space directions: (0,2,0) (-0.5,0,0) (0,0,3)\nspace origin: (1,2,3)\nspace units: "mm" "mm" "mm"\n'
        "kinds: domain domain domain\n"
        f"encoding: {encoding}"
    )
    nrrd(tmp_path / "a.nrrd", fields, packed)
    found = there(tmp_path / "a.nrrd")
    assert (
        np.array_equal(found.numbers(), data) and found.spec["anatomy"] == "LPS" and found.spec["length_unit"] == "mm"
    )
    assert found.level["spacing"] == [2, 0.5, 3] and found.spec["direction"] == [[0, 1, 0], [-1, 0, 0], [0, 0, 1]]
    assert found.level["origin"] == [1, 2, 3] and not found.guessed


@pytest.mark.parametrize(("word", "dtype"), [("short", ">i2"), ("double", "<f8"), ("unsigned long long int", "<u8")])
def test_nrrd_in_text(word: str, dtype: str, tmp_path: Path, there: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise((5, 6, 7), dtype) if dtype != "<f8" else np.random.default_rng(1).normal(size=(5, 6, 7))
    if dtype == "<u8":
        data[0, 0, 0] = 2**64 - 1
    endian = "big" if dtype.startswith(">") else "little"
    fields = f"type: {word}\ndimension: 3\nsizes: 7 6 5\nendian: {endian}\nspacings: 1 1 1\nencoding: "
    from farfield.volume.formats.raster import nrrd_text

    monkeypatch.setattr(nrrd_text, "PIECE", 100)
    digits = data.astype(dtype).tobytes().hex()
    nrrd(
        tmp_path / "hex.nrrd", fields + "hex", "\n".join(digits[n : n + 71] for n in range(0, len(digits), 71)).encode()
    )
    nrrd(tmp_path / "ascii.nrrd", fields + "ascii", "\n".join(repr(v) for v in data.ravel().tolist()).encode())
    with open(tmp_path / "fixed.nrrd", "wb") as file:
        file.write(f"NRRD0004\n{fields}ascii\n\n".encode())
        np.savetxt(file, data.clip(max=100).reshape(-1, 7), "%.18e")
    assert np.array_equal(there(tmp_path / "fixed.nrrd").numbers(), data.clip(max=100))
    for name in ("hex", "ascii"):
        found = there(tmp_path / f"{name}.nrrd")
        assert np.array_equal(found.numbers(), data) and f"is written as {name}" in found.said[0]
        raw = (tmp_path / f"{name}.nrrd").read_bytes()
        (tmp_path / "short.nrrd").write_bytes(raw[:-50])
        with pytest.raises(DataError, match=r"short\.nrrd: it ends after .* of the"):
            there(tmp_path / "short.nrrd")
        (tmp_path / "bad.nrrd").write_bytes(raw[:-50] + b" or so ")
        with pytest.raises(DataError, match=r"bad\.nrrd: its numbers are not"):
            there(tmp_path / "bad.nrrd")


def test_detached_nrrd_and_slices(tmp_path: Path, there: Look) -> None:
    data = noise((3, 5, 4), "<u2")
    (tmp_path / "a.raw").write_bytes(b"head" + data.tobytes())
    fields = "type: uint16\ndimension: 3\nsizes: 4 5 3\nendian: little\nspacings: 1 2 nan\nencoding: raw\n"
    (tmp_path / "a.nhdr").write_text(f"NRRD0004\n{fields}byte skip: -1\ndata file: a.raw\n")
    found = there(tmp_path / "a.nhdr")
    assert np.array_equal(found.numbers(), data) and found.level["spacing"] == [1, 2, 1] and "all axes" in found.guessed
    for n in range(3):
        (tmp_path / f"s{n + 1:02}.raw").write_bytes(data[n].tobytes())
    for said in ("data file: s%02d.raw 1 3 1\n", "data file: LIST\ns01.raw\ns02.raw\ns03.raw\n"):
        (tmp_path / "b.nhdr").write_text(f"NRRD0004\n{fields}{said}")
        assert np.array_equal(there(tmp_path / "b.nhdr").numbers(), data)
    (tmp_path / "s02.raw").unlink()
    with pytest.raises(DataError, match=r"s02\.raw, which is not there"):
        there(tmp_path / "b.nhdr")


def test_nrrd_colours_and_time(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4, 3), "u1")
    nrrd(
        tmp_path / "a.nrrd",
        "type: uchar\ndimension: 4\nsizes: 3 4 5 6\nkinds: RGB-color space space space\nencoding: raw",
        data.tobytes(),
    )
    found = there(tmp_path / "a.nrrd")
    assert found.spec["kind"] == "rgb" and np.array_equal(found.numbers(2), data[..., 2])
    moving = noise((7, 6, 5, 4), "u1")
    fields = "type: uchar\ndimension: 4\nsizes: 4 5 6 7\nkinds: domain domain domain time\nspacings: 1 1 1 0.5\nencoding: raw"
    nrrd(tmp_path / "b.nrrd", fields, moving.tobytes())
    found = there(tmp_path / "b.nrrd")
    assert found.spec["times"] == [0.5 * n for n in range(7)] and np.array_equal(found.numbers(step=3), moving[3])


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("sizes: 4 5", "'sizes' has 2 entries for 3 axes"),
        ("sizes: 4 5 0", "'sizes' are 4 x 5 x 0"),
        ("sizes: 4 5 6000", "it was cut off, or its header is wrong"),
        ("type: block", "type 'block'"),
        ("encoding: wavelet", "written as wavelet"),
        ("encoding: ascii", r"a\.nrrd: its numbers are not all of int16"),
        ("space directions: (1,0,0) (0,1,0) (0,nan,0)", "no finite numbers"),
        ("space directions: (1,0,0) (0,1,0) (0,1,0)", "lie in one plane"),
        ("spacings: 1 0 1", "not three directions"),
    ],
)
def test_damaged_nrrd(field: str, message: str, tmp_path: Path, there: Look) -> None:
    fields = {"type": "short", "dimension": "3", "sizes": "4 5 6", "endian": "little", "encoding": "raw"}
    key, _, value = field.partition(": ")
    text = "\n".join(f"{k}: {v}" for k, v in {**fields, key: value}.items())
    nrrd(tmp_path / "a.nrrd", text, bytes(240))
    with pytest.raises(DataError, match=message):
        there(tmp_path / "a.nrrd")


def test_metaimage(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), ">i2")
    text = (
        "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = True\nCompressedData = {}\n"
        "TransformMatrix = 0 1 0 1 0 0 0 0 1\nOffset = 1 2 3\nAnatomicalOrientation = RAI\nElementSpacing = 0.5 0.5 2\n"
        "DimSize = 4 5 6\nElementType = MET_SHORT\nElementDataFile = {}\n"
    )
    (tmp_path / "a.raw").write_bytes(data.tobytes())
    (tmp_path / "a.mhd").write_text(text.format("False", "a.raw"))
    (tmp_path / "b.mha").write_bytes(text.format("True", "LOCAL").encode() + zlib.compress(data.tobytes()))
    for name in ("a.mhd", "b.mha"):
        found = there(tmp_path / name)
        assert np.array_equal(found.numbers(), data) and found.spec["anatomy"] == "LPS"
        assert found.level["spacing"] == [0.5, 0.5, 2] and found.spec["direction"][0] == [0, 1, 0]


def test_raw(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), ">u2")
    path = tmp_path / "a.raw"
    path.write_bytes(b"0123456789" + data.tobytes())
    with pytest.raises(UsageError, match=r"a\.raw: raw numbers do not say what they are.*--raw .shape=.*has 250 bytes"):
        there(path)
    with pytest.raises(DataError, match=r"are 240 bytes, and the file has 250: .* --header-bytes 10"):
        there(path, shape="4x5x6", dtype="uint16")
    with pytest.raises(DataError, match="needs 480 bytes from byte 0 on, and the file ends at 250"):
        there(path, shape="4x5x6", dtype="float32")
    found = there(
        path, shape=(4, 5, 6), dtype="uint16", byte_order="big", header_bytes=10, spacing="0.5,0.5,2", origin=(1, 2, 3)
    )
    assert np.array_equal(found.numbers(), data) and not found.guessed
    assert found.level["spacing"] == [0.5, 0.5, 2] and found.level["origin"] == [1, 2, 3]
    assert np.array_equal(there(path, shape="4x5x6", dtype="u16", byte_order="big", header_bytes=-1).numbers(), data)


def test_raw_by_its_name(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), "u1")
    path = tmp_path / "engine_4x5x6_uint8.raw"
    path.write_bytes(data.tobytes())
    found = there(path)
    assert np.array_equal(found.numbers(), data) and "from the file's name" in found.guessed
    assert there(path, kind="labels").spec["kind"] == "labels"


def test_real_ct(there: Look) -> None:
    path = Path(os.environ.get("FARFIELD_DATA", "")) / "volumes" / "CT_pitch.nii.gz"
    if not path.is_file():
        pytest.skip("FARFIELD_DATA does not name a folder that has it")
    found, image = there(path), nibabel.load(path)
    assert np.array_equal(found.numbers().T, np.asarray(image.dataobj.get_unscaled()))
    assert np.allclose(found.affine, image.affine, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.nii", bytes(200), "named like a NIfTI file, and does not begin like one .*00 00 00 00.* copy it again"),
        ("a.nii.gz", b"hello, how are you", "named like a NIfTI file.*'hello, how a'"),
        ("a.h5", b"x" * 1000, "named like a HDF5 file"),
        ("a.dcm", b"x" * 1000, "named like a DICOM file.*preamble"),
        ("a.mgz", b"\x1f\x8b" + bytes(90), r"a FreeSurfer volume.*mri_convert a\.mgz"),
        ("a.zip", b"PK\x03\x04" + bytes(90), r"a zip archive.*unzip a\.zip"),
        ("a.tar", bytes(257) + b"ustar" + bytes(400), r"a tar archive.*tar -xf a\.tar"),
        ("a.xyz.gz", b"\x1f\x8b" + bytes(90), "packed with gzip.*unpack it first"),
        ("a.vtk", b"# vtk DataFile Version 3.0\n" + bytes(90), "a legacy VTK file.*saved as .vti"),
        ("zarr.json", b'{"zarr_format": 3}', "a document of a Zarr store; name the folder that is the store"),
    ],
)
def test_what_is_no_volume_is_named(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    import farfield as ff

    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        ff.open(tmp_path / name)


def test_plotfiles_of_nested_grids_are_named(tmp_path: Path) -> None:
    import farfield as ff

    (tmp_path / "plt00010").mkdir()
    (tmp_path / "plt00010" / "Header").write_text("HyperCLaw-V1.1\n1\ndensity\n")
    with pytest.raises(DataError, match=r"plt00010: this is a plotfile of AMReX .*resample it to a regular grid"):
        ff.open(tmp_path / "plt00010")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.dx", b"object 1 class array type float rank 0 items 8", "this is an OpenDX file"),
        (
            "a.vtu",
            b'<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="1.0">',
            "an unstructured grid",
        ),
        ("a.pvtu", b'<VTKFile type="PUnstructuredGrid">', "an unstructured grid"),
        ("a.vtp", b'<VTKFile type="PolyData" version="0.1">', "surfaces or lines"),
        ("a.stl", b"solid cube", r"a surface \(STL\)"),
        ("a.OBJ", b"v 0 0 0", r"a surface \(OBJ\)"),
        ("a.ply", b"ply\n", "a surface or a cloud"),
    ],
)
def test_grids_of_cells_and_surfaces_are_no_sources(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    import farfield as ff
    from farfield.sources import parsing as sources

    (tmp_path / name).write_bytes(content)
    for take in (ff.open, sources.parse):
        with pytest.raises(
            DataError, match=f"{said}.*(a source is a volume or a structured grid: PLOT3D|saved? (that )?as .vti)"
        ):
            take(tmp_path / name)


def test_collections_of_lines_are_no_source(tmp_path: Path) -> None:
    import farfield as ff

    (tmp_path / "l.vtp").write_text('<VTKFile type="PolyData"/>')
    (tmp_path / "l.pvd").write_text(
        '<VTKFile type="Collection"><Collection><DataSet file="l.vtp"/></Collection></VTKFile>'
    )
    with pytest.raises(DataError, match=r"a collection of lines or surfaces.*a source is"):
        ff.open(tmp_path / "l.pvd")


def test_what_to_say_of_raw_numbers(tmp_path: Path, ff: Command) -> None:
    """The option that is named does it, for commands whose --shape is none of these and for those that have it."""
    for name in ("a.raw", "b.bin"):
        (tmp_path / name).write_bytes(bytes(1000))
        for words in (
            ["render", tmp_path / name, "-o", tmp_path / "a.png", "--size", "64x48"],
            ["info", tmp_path / name],
        ):
            said = ff(*words, ok=(1, 2)).stderr
            assert "--raw 'shape=512x512x300 dtype=uint16'" in said
            ff(*words, "--raw", "shape=10x10x10 dtype=uint8")


@pytest.mark.parametrize("dtype", ["<i2", ">f8", "u1"])
def test_what_to_say_of_numpy_arrays(dtype: str, tmp_path: Path, ff: Command) -> None:
    """The options that the error names open it where it lies."""
    data = np.arange(60).reshape(3, 4, 5).astype(dtype)
    np.save(tmp_path / "a.npy", data)
    said = re.search("--raw '(.*)'", ff("info", tmp_path / "a.npy", ok=(1,)).stderr)
    assert said is not None
    found = ff("probe", tmp_path / "a.npy", "--raw", said[1], "--ijk", 5, 3, 2).stdout
    assert re.search(rf"^a  {data[1, 2, 4]:g} \[1\]", found, re.MULTILINE)
    np.save(tmp_path / "b.npy", np.asfortranarray(data))
    assert "write it as Zarr" in ff("info", tmp_path / "b.npy", ok=(1,)).stderr
