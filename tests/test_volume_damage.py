"""Damaged files of every format: an error of ours or a volume that makes sense, never a crash, a hang or a large allocation."""

from __future__ import annotations

import gzip
import json
import shutil
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, FarfieldError
from farfield.volume.formats.detection import format_of
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read

SEED = 20
ROUNDS = 60
MOST_BYTES = 96 << 20
MOST_S = 10.0
SHAPE = (5, 6, 7)


def noise(dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 100, SHAPE).astype(dtype)


def nifti(folder: Path) -> Path:
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(nibabel.Nifti1Image(noise("i2"), np.eye(4)), folder / "a.nii")
    return folder / "a.nii"


def nifti_gz(folder: Path) -> Path:
    path = nifti(folder)
    (folder / "a.nii.gz").write_bytes(gzip.compress(path.read_bytes()))
    return folder / "a.nii.gz"


def nrrd(folder: Path) -> Path:
    fields = (
        b"type: short\ndimension: 3\nsizes: 7 6 5\nspace: LPS\n"
        b"space directions: (1,0,0) (0,1,0) (0,0,2)\nspace origin: (0,0,0)\n"
    )
    (folder / "a.nrrd").write_bytes(
        b"NRRD0005\n" + fields + b"endian: little\nencoding: raw\n\n" + noise("i2").tobytes()
    )
    return folder / "a.nrrd"


def metaimage(folder: Path) -> Path:
    fields = b"NDims = 3\nDimSize = 7 6 5\nElementType = MET_SHORT\nElementSpacing = 1 1 2\nElementDataFile = LOCAL\n"
    (folder / "a.mha").write_bytes(b"ObjectType = Image\n" + fields + noise("i2").tobytes())
    return folder / "a.mha"


def vti(compressor: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        vtk = pytest.importorskip("vtk")
        from vtk.util import numpy_support

        made = vtk.vtkImageData()
        made.SetDimensions(7, 6, 5)
        array = numpy_support.numpy_to_vtk(noise("i2").reshape(-1), deep=True)
        array.SetName("a")
        made.GetPointData().SetScalars(array)
        writer = vtk.vtkXMLImageDataWriter()
        writer.SetInputData(made)
        writer.SetFileName(str(folder / "a.vti"))
        getattr(writer, f"SetCompressorTypeTo{compressor}")()
        writer.SetEncodeAppendedData(compressor == "LZ4")
        writer.Write()
        return folder / "a.vti"

    return write


def tiff(compression: str | None) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        tifffile = pytest.importorskip("tifffile")
        tifffile.imwrite(folder / "a.ome.tif", noise("u2"), ome=True, compression=compression, photometric="minisblack")
        return folder / "a.ome.tif"

    return write


def hdf5(folder: Path) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("a", data=noise("i2"), chunks=(2, 3, 4), compression="gzip")
    return folder / "a.h5"


def netcdf3(folder: Path) -> Path:
    from test_volume_hdf5 import classic

    (folder / "a.nc").write_bytes(classic(b"CDF\x01", 5, np.zeros((5, 2, 2, 3), ">i2").tobytes(), unlimited=True))
    return folder / "a.nc"


def dicom(folder: Path) -> Path:
    pytest.importorskip("pydicom")
    from test_volume_slices import series

    series(folder / "ct", noise("u2"))
    return folder / "ct" / "im97.dcm"


def png(folder: Path) -> Path:
    pil = pytest.importorskip("PIL.Image")
    (folder / "png").mkdir()
    for n, pixels in enumerate(noise("u1")):
        pil.fromarray(pixels).save(folder / "png" / f"s{n}.png")
    return folder / "png" / "s2.png"


def jpeg(folder: Path) -> Path:
    pil = pytest.importorskip("PIL.Image")
    (folder / "jpg").mkdir()
    for n, pixels in enumerate(noise("u1")):
        pil.fromarray(pixels).save(folder / "jpg" / f"s{n}.jpg")
    return folder / "jpg" / "s2.jpg"


def zarr(version: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        module = pytest.importorskip("zarr")
        made = module.create_array(
            folder / "a.zarr",
            shape=SHAPE,
            chunks=(2, 3, 4),
            shards=(4, 6, 8) if version == 3 else None,
            dtype="i2",
            zarr_format=version,
        )
        made[...] = noise("i2")
        return folder / "a.zarr" / ("zarr.json" if version == 3 else ".zarray")

    return write


FORMATS = {
    "nifti": nifti, "nifti.gz": nifti_gz, "nrrd": nrrd, "metaimage": metaimage, "vti": vti("None"), "vti-zlib": vti("ZLib"),
    "vti-lz4": vti("LZ4"), "tiff": tiff(None), "tiff-zlib": tiff("zlib"), "hdf5": hdf5, "netcdf3": netcdf3, "dicom": dicom,
    "png": png, "jpeg": jpeg, "zarr2": zarr(2), "zarr3": zarr(3),
}  # fmt: skip


def broken(raw: bytes, rng: np.random.Generator, header: int) -> bytes:
    """The bytes cut off, or with some of the header's changed: flipped, or set to what makes numbers large."""
    if rng.random() < 0.25:
        return raw[: rng.integers(0, len(raw))]
    made = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(0, min(header, len(raw))))
        made[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, made[at] ^ (1 << int(rng.integers(0, 8)))]))
    return bytes(made)


@pytest.mark.parametrize("kind", FORMATS)
def test_damage(kind: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    path = FORMATS[kind](tmp_path / "whole")
    source = path.parent if kind in ("dicom", "png", "jpeg", "zarr2", "zarr3") else path
    raw = path.read_bytes()
    rng = np.random.default_rng(SEED)
    resources = ReaderResources(tmp_path / "cache")
    read(str(source), Options(), resources)
    outcomes = {"read": 0, "refused": 0}
    for n in range(ROUNDS):
        path.write_bytes(broken(raw, rng, 2048))
        tracemalloc.start()
        begun = time.monotonic()
        try:
            found = read(str(source), Options(), resources)
            json.dumps(found.spec, allow_nan=False)
            for array in (a for level in found.spec["levels"] for a in level["arrays"]):
                assert min(array["shape"]) >= 1
            outcomes["read"] += 1
        except FarfieldError as error:
            assert str(tmp_path) in str(error), f"round {n}: {error}"
            outcomes["refused"] += 1
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MOST_BYTES and time.monotonic() - begun < MOST_S, f"round {n}: {peak} bytes"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert outcomes["refused"] > 0, outcomes


def test_sniffing_never_fails(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    for n in range(200):
        path = tmp_path / f"a{n % 7}.{['nii', 'nrrd', 'tif', 'h5', 'nc', 'vti', 'xyz'][n % 7]}"
        path.write_bytes(rng.integers(0, 256, int(rng.integers(0, 900)), dtype=np.uint8).tobytes())
        try:
            assert format_of(str(path)) in (None, "nifti")
        except DataError as error:  # the name says what it should be
            assert str(path) in str(error) and "does not begin like one" in str(error)
