"""Distances between voxels that cannot be: nothing, behind, no number. What is said names the file and the key in it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from farfield.errors import DataError, UsageError
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read

NUMBERS = np.arange(5 * 6 * 7, dtype="<i2").reshape(5, 6, 7)


def nrrd(folder: Path, spacing: str) -> Path:
    head = (
        f"NRRD0004\ntype: short\ndimension: 3\nsizes: 7 6 5\nspacings: 1 {spacing} 1\nendian: little\nencoding: raw\n\n"
    )
    (folder / "a.nrrd").write_bytes(head.encode() + NUMBERS.tobytes())
    return folder / "a.nrrd"


def nrrd_in_space(folder: Path, spacing: str) -> Path:
    head = (
        "NRRD0004\ntype: short\ndimension: 3\nsizes: 7 6 5\nspace: LPS\n"
        f"space directions: (1,0,0) (0,{spacing},0) (0,0,1)\nspace origin: (0,0,0)\nendian: little\nencoding: raw\n\n"
    )
    (folder / "a.nrrd").write_bytes(head.encode() + NUMBERS.tobytes())
    return folder / "a.nrrd"


def metaimage(folder: Path, spacing: str) -> Path:
    head = f"ObjectType = Image\nNDims = 3\nDimSize = 7 6 5\nElementType = MET_SHORT\nElementSpacing = 1 {spacing} 2\n"
    (folder / "a.mha").write_bytes(head.encode() + b"ElementDataFile = LOCAL\n" + NUMBERS.tobytes())
    return folder / "a.mha"


def vti(folder: Path, spacing: str) -> Path:
    head = (
        '<?xml version="1.0"?>\n<VTKFile type="ImageData" version="0.1" byte_order="LittleEndian">\n'
        f'<ImageData WholeExtent="0 6 0 5 0 4" Origin="0 0 0" Spacing="1 {spacing} 1">\n<Piece Extent="0 6 0 5 0 4">'
        '<PointData Scalars="a"><DataArray type="Int16" Name="a" format="appended" offset="0"/></PointData></Piece>'
        '</ImageData>\n<AppendedData encoding="raw">\n_'
    )
    data = struct.pack("<I", NUMBERS.nbytes) + NUMBERS.tobytes()
    (folder / "a.vti").write_bytes(head.encode() + data + b"\n</AppendedData></VTKFile>")
    return folder / "a.vti"


def _nifti(folder: Path, pixdim: str, srow: str | None) -> Path:
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into("<8h", head, 40, 3, 7, 6, 5, 1, 1, 1, 1)
    struct.pack_into("<2h", head, 70, 4, 16)
    struct.pack_into("<8f", head, 76, 1, 1, float(pixdim), 1, 1, 1, 1, 1)
    struct.pack_into("<f", head, 108, 352)
    if srow is not None:
        struct.pack_into("<2h", head, 252, 0, 1)
        struct.pack_into("<12f", head, 280, 1, 0, 0, 0, 0, float(srow), 0, 0, 0, 0, 1, 0)
    head[344:348] = b"n+1\0"
    (folder / "a.nii").write_bytes(bytes(head) + NUMBERS.tobytes())
    return folder / "a.nii"


def nifti(folder: Path, spacing: str) -> Path:
    return _nifti(folder, spacing, None)


def nifti_affine(folder: Path, spacing: str) -> Path:
    return _nifti(folder, "1", spacing)


def ome(folder: Path, spacing: str) -> Path:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=3)
    group.create_array("0", shape=NUMBERS.shape, dtype="i2", chunks=NUMBERS.shape)[...] = NUMBERS
    document = folder / "a.zarr" / "zarr.json"
    found = json.loads(document.read_text())
    scale = {"type": "scale", "scale": [1.0, float(spacing), 1.0]}
    images = {
        "axes": [{"name": name, "type": "space"} for name in "zyx"],
        "datasets": [{"path": "0", "coordinateTransformations": [scale]}],
    }
    found["attributes"] = {"ome": {"version": "0.5", "multiscales": [images]}}
    document.write_text(json.dumps(found))
    return folder / "a.zarr"


@pytest.mark.parametrize(
    ("write", "spacing", "key"),
    [
        (nrrd, "0", "spacings"),
        (nrrd_in_space, "0", "space directions"),
        (nrrd_in_space, "nan", "space directions"),
        *((metaimage, wrong, "ElementSpacing") for wrong in ("0", "nan")),
        *((vti, wrong, "Spacing") for wrong in ("0", "nan", "inf")),
        *((nifti, wrong, r"pixdim\[2\]") for wrong in ("0", "nan", "inf")),
        *((nifti_affine, wrong, "srow_x, srow_y and srow_z") for wrong in ("0", "nan")),
        *((ome, wrong, "scale") for wrong in ("0", "nan")),
    ],
)
def test_what_cannot_be_is_named(write: Callable[[Path, str], Path], spacing: str, key: str, tmp_path: Path) -> None:
    path = write(tmp_path, spacing)
    with pytest.raises(DataError, match=key) as caught:
        read(str(path), Options(), ReaderResources(tmp_path / "cache"))
    assert path.name in str(caught.value)
    if "--spacing" in str(caught.value):
        found = read(str(path), Options.of({"spacing": "1,2,3"}), ReaderResources(tmp_path / "cache"))
        assert found.spec["levels"][0]["spacing"] == [1, 2, 3]
    # With another number it is read.
    assert read(str(write(tmp_path, "1.5")), Options(), ReaderResources(tmp_path / "cache")).spec["levels"]


@pytest.mark.parametrize("spacing", [(1, 0, 1), (1, -2, 1), (1, float("nan"), 1), (1, 1)])
def test_options_are_held_to_the_same(spacing: tuple[float, ...], tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(NUMBERS.tobytes())
    with pytest.raises(UsageError, match=r"--spacing.*three positive numbers"):
        Options.of({"shape": (7, 6, 5), "dtype": "int16", "spacing": spacing})


@pytest.mark.parametrize("write", [nrrd, nifti, nifti_affine])
def test_behind_is_the_other_way_round(write: Callable[[Path, str], Path], tmp_path: Path) -> None:
    """Formats in which a negative step has a meaning: the way in which indices grow, or none (NIfTI's pixdim)."""
    spec = read(str(write(tmp_path, "-2")), Options(), ReaderResources(tmp_path / "cache")).spec
    assert spec["levels"][0]["spacing"][1] == 2.0
    assert spec["direction"][1][1] == (1.0 if write is nifti else -1.0)
