"""Chunks that were never written, as the engine reads them: beside zarr-python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield as ff
from farfield.errors import UsageError
from farfield.scene.volumes import first_scene


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("dtype", "fill"), [("uint64", 2**63 + 1), ("uint64", 2**64 - 1), ("int64", -(2**63) + 1)])
def test_large_fill_values_are_what_is_missing(tmp_path: Path, version: Any, dtype: str, fill: int) -> None:
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 4, 4), chunks=(4, 4, 4), dtype=dtype, fill_value=fill, zarr_format=version
    )
    array[:4] = 7
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        found = volume[:]
        assert found.dtype == dtype and np.array_equal(found, np.asarray(array[...]))


def test_what_is_missing_is_a_number_of_the_type_that_is_stored(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(8, 4, 4), chunks=(4, 4, 4), dtype="f4")
    array[...] = np.where(np.arange(128).reshape(8, 4, 4) % 3, 7, np.float32(1e20))
    with ff.open(tmp_path / "a.zarr", volume={"missing": 1e20}) as volume:
        assert volume.probe_ijk((1, 1, 1)).values["a.zarr"] != volume.probe_ijk((2, 1, 1)).values["a.zarr"] == 7
        assert np.isnan(volume.probe_ijk((1, 1, 1)).values["a.zarr"])


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_users_say_what_is_missing(dtype: str, tmp_path: Path) -> None:
    data = np.full((6, 6, 6), 20, dtype)
    data[:3], data[4, 4, 4] = -1, 30
    array = zarr.create_array(tmp_path / "a.zarr", shape=(6, 6, 6), chunks=(3, 3, 3), dtype=dtype)
    array[...] = data
    with ff.open(tmp_path / "a.zarr") as volume:
        assert volume.info(ranges=True)["channels"][0]["range"] == [-1, 30]
    ff.convert(tmp_path / "a.zarr", tmp_path / "plain.zarr", page=4)
    for source in ("a.zarr", "plain.zarr"):
        # Ranges that are known, in the cache and in the store, are of all numbers.
        with ff.open(tmp_path / source, volume={"missing": "-1"}) as volume:
            assert volume.channels[0].missing == -1
            assert np.isnan(next(iter(volume.probe_ijk((1, 1, 1)).values.values())))
            picture = ff.render(first_scene(volume, str(tmp_path / source)), tmp_path / "p.png", size=(64, 48))
            assert picture["maps"][volume.channels[0].name]["range"][0] > 19
    ff.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", volume={"missing": -1})
    with ff.open(tmp_path / "b.zarr") as volume:
        assert volume.channels[0].missing == -1
    for wrong in ("x", "nan", float("inf")):
        with pytest.raises(UsageError, match="--missing"):
            ff.open(tmp_path / "a.zarr", volume={"missing": wrong})
