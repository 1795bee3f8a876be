"""NeXus: of an NXdata its signal is shown, on its axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.errors import UnknownName

h5py = pytest.importorskip("h5py")
VALUES = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
LINES = {"deep": np.arange(4) * 2.0 + 1, "y": np.arange(5) * 0.5, "x": np.arange(6) * 0.25 - 3}
"""Along the dimensions of the values."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def nexus(path: Path, lines: dict[str, Any] = LINES, **about: Any) -> Path:
    """A file whose default NXdata has a signal and axes, beside a larger array that is none."""
    with h5py.File(path, "w") as file:
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        data = entry.create_group("data")
        data.attrs["NX_class"] = "NXdata"
        data["counts"] = VALUES
        for name, values in lines.items():
            data[name] = values
            data[name].attrs["units"] = "mm"
        data.attrs.update(about)
        file["entry/raw"] = np.zeros((20, 30, 40))
    return path


@pytest.mark.parametrize("axes", [["deep", "y", "x"], "deep:y:x"])
def test_signal_and_axes(tmp_path: Path, axes: Any) -> None:
    with ff.open(nexus(tmp_path / "a.nxs", signal="counts", axes=axes)) as volume:
        assert volume.format == "NeXus" and volume.length_unit == "mm"
        assert volume.spacing == (0.25, 0.5, 2) and volume.origin == (-3, 0, 1)
        assert np.array_equal(volume[...], VALUES)
        listed = volume.info()["contents"]
        assert [c["name"] for c in listed if c["shown"]] == ["entry/data/counts"]
        assert "entry/raw" in [c["name"] for c in listed]


def test_indices_and_bins(tmp_path: Path) -> None:
    lines = {**LINES, "x": np.arange(7) * 0.5}
    about = {"deep_indices": 0, "y_indices": 1, "x_indices": 2}
    with ff.open(nexus(tmp_path / "a.nxs", lines, signal="counts", axes=["x", "y", "deep"], **about)) as volume:
        # Of edges of bins the centres.
        assert volume.origin == (0.25, 0, 1) and volume.spacing == (0.5, 0.5, 2)


def test_old_files_say_it_of_datasets(tmp_path: Path) -> None:
    path = nexus(tmp_path / "a.nxs")
    with h5py.File(path, "a") as file:
        file["entry/data/counts"].attrs["signal"] = 1
        for n, name in enumerate(LINES, 1):
            file[f"entry/data/{name}"].attrs["axis"] = n
    with ff.open(path) as volume:
        assert volume.spacing == (0.25, 0.5, 2)


def test_uneven_axis_is_a_zone(tmp_path: Path) -> None:
    lines = {**LINES, "deep": [0.0, 1, 3, 10]}
    with ff.open(nexus(tmp_path / "a.nxs", lines, signal="counts", axes=list(lines))) as flow:
        found = flow.probe((-2.5, 1, 3))
        assert found is not None and found.values["counts"] == VALUES[2, 2, 2]


def test_links_scales_and_names(tmp_path: Path) -> None:
    path = nexus(tmp_path / "a.nxs", signal="counts", axes=list(LINES))
    with h5py.File(path, "a") as file:
        file["entry/detector"] = VALUES
        del file["entry/data/counts"]
        file["entry/data/counts"] = h5py.SoftLink("/entry/detector")
        file["entry/data/counts_scaling_factor"], file["entry/data/counts_offset"] = 2.0, 10.0
    with ff.open(path) as volume:
        # NeXus: (stored + offset) * factor.
        assert volume.probe((-3, 0, 1)).values["counts"] == 20
    with ff.open(f"{path}::entry/data") as volume:
        assert volume.spacing == (0.25, 0.5, 2)
    with ff.open(f"{path}::entry/raw") as volume:
        assert volume.shape == (20, 30, 40)
    with pytest.raises(UnknownName, match="entry/raw"):
        ff.open(f"{path}::nothing")


def test_a_file_that_this_process_has_open(tmp_path: Path) -> None:
    path = nexus(tmp_path / "a.nxs", signal="counts", axes=list(LINES))
    with h5py.File(path), ff.open(path) as volume:
        assert volume.shape == VALUES.shape


def test_scales_of_axes_and_of_the_signal_alone(tmp_path: Path) -> None:
    path = nexus(tmp_path / "a.nxs", signal="counts", axes=list(LINES), x_indices="two", y_indices="1", deep_indices=0)
    with h5py.File(path, "a") as file:
        data = file["entry/data"]
        data["errors"] = VALUES
        data["scaling_factor"], data["offset"] = 2.0, 10.0
        data["x_scaling_factor"], data["x_offset"] = 4.0, 1.0
    with ff.open(path) as volume:
        # NeXus: (stored + offset) * factor, of axes too.
        assert volume.origin == (-8, 0, 1) and volume.spacing == (1, 0.5, 2)
        assert volume.probe((-8, 0, 1)).values["counts"] == 20
    with ff.open(f"{path}::entry/data/errors") as volume:
        assert volume.probe((-8, 0, 1)).values["errors"] == 0
