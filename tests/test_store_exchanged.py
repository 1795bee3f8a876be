"""Shard files of a store that changed places: what reads one says so, and so does a validation."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest

import farfield
from plot3d_files import box, source_of, write
from running import Command

CODECS = ("none", "zstd", "lz4")


def exchange(one: Path, other: Path) -> None:
    """Gives each of two files the other's name."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("codec", CODECS)
def test_arrays_of_a_flow(codec: str, tmp_path: Path, ff: Command) -> None:
    store = tmp_path / "flow.zarr"
    ff("convert", source_of(*write(tmp_path, [box(9, 8, 7)], real=4)), store, "--codec", codec)
    ff("probe", store, 0.5, 0.5, 0.5)
    coordinates, momentum = (next(store.glob(f"*/{name}/c.*")) for name in ("xyz", "momentum"))
    exchange(coordinates, momentum)
    done = ff("probe", store, 0.5, 0.5, 0.5, ok=(1, 3))
    assert "xyz" in done.stderr and "changed places" in done.stderr, done.stderr
    assert "changed places" in ff("validate", store, ok=(1, 3)).stderr
    exchange(coordinates, momentum)
    ff("validate", store)


def test_steps_of_a_volume(tmp_path: Path, ff: Command) -> None:
    voxels = np.random.default_rng(1).integers(0, 255, (20, 20, 20, 2), np.uint8)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), tmp_path / "v.nii")
    store = tmp_path / "v.zarr"
    ff("convert", tmp_path / "v.nii", store, "--codec", "none")
    first, second = sorted(store.glob("0/c.*"))
    exchange(first, second)
    assert "changed places" in ff("validate", store, ok=(1, 3)).stderr
    with farfield.open(store) as volume, pytest.raises(farfield.FarfieldError, match="changed places"):
        np.asarray(volume[0])
    exchange(first, second)
    with farfield.open(store) as volume:
        assert np.array_equal(np.asarray(volume[1]), voxels[..., 1].T)
