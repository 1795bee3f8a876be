"""Chunks that were never written, as the engine reads them: beside zarr-python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield as ff


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
