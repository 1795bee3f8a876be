"""Complex numbers of Zarr, HDF5 and TIFF, and what a zip file packs once more: as NumPy and zarr-python have them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

import farfield as ff
from farfield.errors import UsageError

h5py = pytest.importorskip("h5py")
_REAL = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
VALUES = (_REAL - 2j * _REAL[::-1]).astype(np.complex64)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(path: Path, kind: str) -> Path:
    if kind == "tiff":
        tifffile.imwrite(path / "a.tif", VALUES, photometric="minisblack")
        return path / "a.tif"
    if kind == "tiffs":
        (path / "a").mkdir()
        for n, plane in enumerate(VALUES):
            tifffile.imwrite(path / "a" / f"{n}.tif", plane)
        return path / "a"
    if kind == "hdf5":
        with h5py.File(path / "a.h5", "w") as file:
            file.create_dataset("a", data=VALUES, chunks=(2, 2, 2), compression="gzip")
        return path / "a.h5"
    array = zarr.create_array(
        path / "a.zarr", shape=VALUES.shape, chunks=(2, 2, 5), dtype="c8", zarr_format=2 if kind == "zarr2" else 3
    )
    array[:] = VALUES
    return path / "a.zarr"


KINDS = ["tiff", "tiffs", "hdf5", "zarr2", "zarr3"]


@pytest.mark.parametrize("kind", KINDS)
def test_parts(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    parts: dict[str | None, Any] = {
        None: np.abs(VALUES), "real": VALUES.real, "imag": VALUES.imag, "phase": np.angle(VALUES)
    }  # fmt: skip
    for part, right in parts.items():
        with ff.open(path, volume={} if part is None else {"component": part}) as volume:
            assert np.allclose(volume[...], right, rtol=1e-6)
            assert ("magnitudes are shown" in " ".join(volume.notes)) == (part is None)


def test_real_numbers_have_no_parts(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", _REAL, photometric="minisblack")
    with pytest.raises(UsageError, match="--component is for complex numbers"):
        ff.open(tmp_path / "a.tif", volume={"component": "real"})


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("shards", [None, (64, 64, 64)])
def test_packed_once_more(tmp_path: Path, method: int, shards: tuple[int, ...] | None) -> None:
    values = np.random.default_rng(3).integers(0, 1 << 20, (64, 80, 100), dtype=np.uint32)
    array = zarr.create_array(tmp_path / "a.zarr", shape=values.shape, chunks=(16, 32, 32), shards=shards, dtype="u4")
    array[:] = values
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as packed:
        for file in sorted((tmp_path / "a.zarr").rglob("*")):
            if file.is_file():
                packed.write(file, file.relative_to(tmp_path))
    with ff.open(tmp_path / "a.zip") as volume:
        assert np.array_equal(volume[...], values)


def test_real_numbers_are_shown_before_complex_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["image"], file["raw"] = _REAL, VALUES
    with ff.open(path) as volume:
        assert np.array_equal(volume[...], _REAL) and "the largest of real numbers, /image" in " ".join(volume.notes)
    with ff.open(f"{path}::raw") as volume:
        assert np.allclose(volume[...], np.abs(VALUES))
