"""The seam for formats of flows: what a new one takes, what readers say of files, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import DataError, UsageError
from farfield.volume.formats.detection import is_volume
from flow_text import register
from flow_text import write as write_flow_text
from test_volume_coordinates import uneven
from test_vtk_zones import bent, linear, write

Numbers = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def flow_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    register(monkeypatch)
    return write_flow_text(tmp_path)


def test_a_new_format_is_a_module_and_an_entry(flow_text: Path, cache: Path, tmp_path: Path) -> None:
    assert not is_volume(flow_text)
    with farfield.open(flow_text) as ds:
        assert ds.info()["format"] == "Flow Text, paged in place" and ds.info()["source"] == str(flow_text)
        assert ds.zones["zone1"].dims == (9, 8, 7)
        assert np.array_equal(ds["xyz"][0][0, 0], 0.5 * np.arange(9))
        lines = ds.streamlines(seeds=[(0.25, 0.5, 1.0)])
        end = lines.points[-1]
        assert end[0] == pytest.approx(4.0, abs=1e-5) and end[1] == pytest.approx(0.5 + 0.25 * 3.75, abs=1e-5)
        assert ds.info(ranges=True)["zones"][0]["kind"] == "uniform"
        assert not list(cache.rglob("*.raw"))
    with pytest.raises(UsageError, match=r"contains its own fields; remove \+q= and \+function="):
        farfield.open(flow_text, q=str(flow_text))
    with pytest.raises(UsageError, match=r"a\.flow: this is not PLOT3D.*leave the options of PLOT3D away"):
        farfield.open(flow_text, plot3d={"byte_order": "big"})
    whole = (tmp_path / "uvw.raw").read_bytes()
    (tmp_path / "uvw.raw").write_bytes(whole[:-4])
    with pytest.raises(DataError, match=r"uvw\.raw.*zone1/velocity needs bytes up to 6048.*cut off"):
        farfield.open(flow_text)
    (tmp_path / "uvw.raw").unlink()
    with pytest.raises(DataError, match=r"uvw\.raw"):
        farfield.open(flow_text)


def cached(folder: Path) -> list[Path]:
    """Flat files of the cache."""
    return sorted((folder / "data").glob("*.raw"))


def test_raw_numbers_of_vtk_stay_where_they_are(cache: Path, tmp_path: Path) -> None:
    """Whatever their types: single precision beside whole numbers, components of a velocity, vectors, six numbers a point."""
    x = bent()
    fields: dict[str, Numbers] = {
        "u": linear(x).astype("f4"),
        "v": (2 * linear(x)).astype("f8"),
        "w": np.round(linear(x)).astype("i4"),
        "big": np.arange(x[..., 0].size, dtype="i8").reshape(x.shape[:3]) * (1 << 40) + 1,
        "tensor": np.stack([x[..., n % 3] + n for n in range(6)], axis=-1).astype("f4"),
        "direction": x.astype("i2"),
    }
    for big in (False, True):
        path = write(tmp_path / f"a{big}.vts", "StructuredGrid", {"Points": x.astype("f4")}, fields, big=big)
        with farfield.open(path) as ds:
            velocity = np.moveaxis(ds["velocity"][...], 0, -1)
            assert np.array_equal(velocity, np.stack([fields[n].astype("f8") for n in "uvw"], axis=-1))
            assert np.array_equal(ds["big"][...], fields["big"].astype("f8"))
            for n in range(6):
                assert np.array_equal(ds[f"tensor_{n}"][...], fields["tensor"][..., n].astype("f8"))
            assert np.array_equal(np.moveaxis(ds["direction"][...], 0, -1), fields["direction"].astype("f8"))
            assert np.array_equal(np.moveaxis(ds["xyz"][...], 0, -1), x.astype("f4"))
            store = tmp_path / f"s{big}.zarr"
            farfield.convert(path, store, fields=["velocity", "tensor_3", "big"])
            with farfield.open(store) as again:
                for name in ("xyz", "velocity", "tensor_3", "big"):
                    assert np.array_equal(again[name][...], ds[name][...])
    assert cached(cache) == []


def test_what_must_be_decoded_goes_into_one_file(cache: Path, tmp_path: Path) -> None:
    x = bent()
    cells = np.arange(8 * 7 * 6, dtype="f4").reshape(6, 7, 8)
    path = write(tmp_path / "c.vts", "StructuredGrid", {"Points": x}, {"p": linear(x)}, {"c": cells})
    with farfield.open(path) as ds:
        (made,) = cached(cache)
        assert made.stat().st_size == 8 * x[..., 0].size, "the field of cells alone"
        assert ds.info()["format"] == "VTK XML, converted into the cache"
        assert np.array_equal(ds["p"][...], linear(x))
    # A cache that is gone is made again, and the saved index is that of the same source.
    made.unlink()
    with farfield.open(path) as ds:
        assert ds.probe((0.9, 0.5, 0.5)) is not None and cached(cache) == [made]


def test_steps_that_change_are_noticed(tmp_path: Path) -> None:
    x = bent()
    for n in range(2):
        write(tmp_path / f"s_{n}.vts", "StructuredGrid", {"Points": x}, {"p": linear(x) + n})
    store = tmp_path / "s.zarr"
    pattern, times = str(tmp_path / "s_*.vts"), {"dt": 0.5}
    farfield.convert(pattern, store, append=True, plot3d=times)
    assert farfield.convert(pattern, store, append=True, plot3d=times)["appended"]["steps"] == 0
    write(tmp_path / "s_2.vts", "StructuredGrid", {"Points": x}, {"p": linear(x) + 2})
    assert farfield.convert(pattern, store, append=True, plot3d=times)["appended"]["steps"] == 1
    with farfield.open(store) as ds:
        assert np.array_equal(ds.isel(time=2)["p"][...], linear(x) + 2)
    write(tmp_path / "s_1.vts", "StructuredGrid", {"Points": x}, {"p": linear(x) + 7})
    with pytest.raises(DataError, match=r"s_1\.vts.*has changed since a step"):
        farfield.convert(pattern, store, append=True, plot3d=times)


def test_plain_variables_on_uneven_coordinates_stay_where_they_are(cache: Path, tmp_path: Path) -> None:
    with farfield.open(uneven(tmp_path / "a.nc", {"time": "s"}, "K")) as ds:
        assert ds.info()["format"] == "HDF5 or NetCDF-4 on uneven coordinates, paged in place"
        assert (ds["heat"][...] == 1).all() and ds["xyz"][2, :, 0, 0].tolist() == [0, 1, 4]
    assert cached(cache) == []
    with farfield.open(uneven(tmp_path / "b.nc", {"time": "s"}, "K", "m/s")) as ds:
        assert np.array_equal(ds.isel(time=1)["velocity"][...][:, 0, 0, 0], [1, 0, 0])
        assert ds.info()["format"] == "HDF5 or NetCDF-4 on uneven coordinates, converted into the cache"
    # What the file does not hold: a velocity of 0 along z.
    assert [made.stat().st_size for made in cached(cache)] == [3 * 3 * 4 * 8] * 2
