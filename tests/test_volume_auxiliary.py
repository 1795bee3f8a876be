"""Coordinates of other names than their dimensions, of two dimensions, and times in all calendars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield as ff
from farfield.errors import MemoryLimitError, UsageError
from farfield.times.dates import date_of
from farfield.volume.formats.cf.auxiliary_coordinates import find
from farfield.volume.formats.cf.coordinates import line_of
from farfield.volume.formats.zarr.nodes import Node, open_node

h5py = pytest.importorskip("h5py")
VALUES = np.arange(60.0).reshape(3, 4, 5)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stored(path: Path, kind: str, others: dict[str, tuple[tuple[str, ...], Any, dict[str, str]]], named: str) -> Path:
    """A field `t` of the dimensions nz, ny and nx, with arrays beside it, of which its attribute `coordinates` names some."""
    arrays = {"t": (("nz", "ny", "nx"), VALUES, {"coordinates": named} if named else {}), **others}
    if kind == "zarr":
        root = zarr.create_group(path / "a.zarr", zarr_format=3)
        for name, (dims, values, about) in arrays.items():
            root.create_array(name, data=np.asarray(values, float), dimension_names=list(dims)).attrs.update(about)
        return path / "a.zarr"
    with h5py.File(path / "a.nc", "w") as file:
        sizes = {"nz": 3, "ny": 4, "nx": 5}
        for name, length in sizes.items():
            scale = file.create_dataset(name, data=np.zeros(length, ">f4"))
            scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{length:10d}")
        for name, (dims, values, about) in arrays.items():
            dataset = file.create_dataset(name, data=np.asarray(values, float))
            dataset.attrs.update(about)
            for n, dim in enumerate(dims):
                dataset.dims[n].attach_scale(file[dim])
    return path / "a.nc"


LAT = (("ny",), [10, 12, 14, 16], {"units": "degrees_north"})
LON = (("nx",), [0, 3, 6, 9, 12], {"units": "degrees_east"})


@pytest.mark.parametrize("kind", ["zarr", "hdf5"])
def test_lines_of_other_names(tmp_path: Path, kind: str) -> None:
    depth = (("nz",), [0, 5, 10], {"units": "m", "positive": "down"})
    with ff.open(stored(tmp_path, kind, {"lat": LAT, "lon": LON, "deep": depth}, "deep lat lon")) as volume:
        assert volume.spacing == (3, 2, 5) and volume.origin == (0, 10, 0)
        assert volume.direction[2] == (0, 0, -1)
        assert volume.probe((3, 12, -5)).values["t"] == VALUES[1, 1, 1]


@pytest.mark.parametrize("kind", ["zarr", "hdf5"])
def test_uneven_lines_of_other_names_are_a_zone(tmp_path: Path, kind: str) -> None:
    height = (("nz",), [0, 5, 100], {"units": "m", "positive": "up"})
    with ff.open(stored(tmp_path, kind, {"lat": LAT, "lon": LON, "up": height}, "up lat lon")) as flow:
        found = flow.probe((6, 14, 100))
        assert found is not None and found.values["t"] == VALUES[2, 2, 2]


def test_variables_of_one_name(tmp_path: Path) -> None:
    """Two groups of a file hold one name each, on lines that are alike."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for n, group in enumerate("ab"):
            for name, line in {"z": [0, 5, 100], "y": range(4), "x": range(5)}.items():
                scale = file.create_dataset(f"{group}/{name}", data=np.asarray(line, float))
                scale.make_scale(name)
            dataset = file.create_dataset(f"{group}/T", data=VALUES + 1000 * n)
            for k, name in enumerate("zyx"):
                dataset.dims[k].attach_scale(file[f"{group}/{name}"])
    for n, group in enumerate("ab"):
        with ff.open(f"{path}::/{group}/T") as flow:
            found = flow.probe((2, 1, 5))
            assert found is not None and found.values["T"] == VALUES[1, 1, 2] + 1000 * n


def test_lines_that_nothing_names(tmp_path: Path) -> None:
    with ff.open(stored(tmp_path, "hdf5", {"lat": LAT, "lon": LON}, "")) as volume:
        assert volume.spacing[:2] == (3, 2)
        said = " ".join(volume.notes)
        assert "'lat', which lies along it, is taken" in said
        assert "z counts voxels" in said


@pytest.mark.parametrize("kind", ["zarr", "hdf5"])
def test_two_dimensions_place_nothing(tmp_path: Path, kind: str) -> None:
    lat, lon = np.meshgrid([10.0, 12, 14, 16], [0.0, 3, 6, 9, 12], indexing="ij")
    two = {"lat": (("ny", "nx"), lat + 0.1 * lon, LAT[2]), "lon": (("ny", "nx"), lon, LON[2])}
    one = {"time": ((), 3.0, {"units": "days since 2000-01-01"})} if kind == "hdf5" else {}
    for named in ("lat lon time", ""):
        folder = tmp_path / (named or "nothing")
        folder.mkdir()
        with ff.open(stored(folder, kind, {**two, **one}, named)) as volume:
            said = " ".join(volume.notes)
            assert volume.length_unit == "voxel"
            assert "its coordinates lat, lon are not one line for each axis and are not used: x, y and z count" in said


@pytest.mark.parametrize(
    ("time", "units", "date"),
    [
        # What cftime 1.6 answers.
        (14, "months since 2000-01-15 (360_day)", "2001-03-15T00:00:00"),
        (2.5, "months since 2000-01-15 (360_day)", "2000-03-30T00:00:00"),
        (30, "common_years since 2000-01-01 (noleap)", "2030-01-01T00:00:00"),
        (14, "days since 1582-10-01", "1582-10-25T00:00:00"),
        (30, "days since 1582-10-01 (proleptic_gregorian)", "1582-10-31T00:00:00"),
        (1_000_000, "hours since 1-1-1 00:00:0.0", "0115-01-29T16:00:00"),
        (30, "days since -4712-01-01 (julian)", "-4712-01-31T00:00:00"),
        (60, "days since 2001-01-01 (all_leap)", "2001-03-01T00:00:00"),
        # What a calendar on the wall says.
        (13, "months since 2000-01-31", "2001-02-28T00:00:00"),
        (1, "years since 1999-07-04", "2000-07-04T00:00:00"),
        (1, "fortnights since 2000-01-01", None),
        (1, "days since 1582-10-10", None),
    ],
)
def test_dates(time: float, units: str, date: str | None) -> None:
    assert date_of(time, units) == date


@pytest.mark.parametrize("kind", ["zarr", "hdf5"])
def test_several_along_one_dimension_are_named(tmp_path: Path, kind: str) -> None:
    """Stations, each with a latitude and a longitude."""
    others = {"lat": LAT, "lon": (("ny",), [5, 1, 2, 8], {"units": "degrees_east"})}
    with ff.open(stored(tmp_path, kind, others, "lat lon")) as volume:
        said = " ".join(volume.notes)
        assert "lat" in said and "lon" in said and "not used" in said


def test_others_are_not_looked_at_where_every_dimension_has_its_own() -> None:
    def none() -> Any:
        raise AssertionError
        yield

    assert find(["y", "x"], [2, 3], {"coordinates": "lat"}, ["y", "x"], none()).lines == {}


@pytest.mark.parametrize("last", [10.0, 100.0])
def test_lines_through_positions_without_units(tmp_path: Path, last: float) -> None:
    """A volume, and a zone, whose coordinates say no unit: a line goes as far as the numbers of its velocity say."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, line in {"z": [0, 5, last], "y": range(4), "x": range(5)}.items():
            file.create_dataset(name, data=np.asarray(line, float)).make_scale(name)
        for n, name in enumerate("uvw"):
            dataset = file.create_dataset(name, data=np.full((3, 4, 5), [0.5, 0.25, 1.0][n]))
            dataset.attrs["units"] = "m s-1"
            for k, axis in enumerate("zyx"):
                dataset.dims[k].attach_scale(file[axis])
    with ff.open(path) as opened:
        flow = opened.flow() if isinstance(opened, ff.VolumeDataset) else opened
        points = np.asarray(flow.streamlines(seeds=[[1.0, 1.0, 1.0]], integration_direction="forward").points)
        way = points[-1] - points[0]
        assert np.allclose(way / way[2], [0.5, 0.25, 1.0]) and way[2] > 3


def test_chunks_of_a_coordinate_are_held_to_the_memory_limit(tmp_path: Path) -> None:
    array = zarr.create_array(
        tmp_path / "x", shape=(10,), chunks=(1 << 23,), dtype="f8", compressors=[zarr.codecs.ZstdCodec()]
    )
    array[:] = np.arange(10.0)
    node = open_node(str(tmp_path / "x"))
    assert isinstance(node, Node)
    assert np.array_equal(line_of(node.path, node.array), np.arange(10.0))
    with pytest.raises(MemoryLimitError):
        line_of(node.path, node.array, memory_limit=64 << 20)


def test_no_line_through_positions_of_several_units(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("z", data=np.arange(3.0)).make_scale("z")
        file["z"].attrs["units"] = "m"
        for name in "uvw":
            file.create_dataset(name, data=np.ones((3, 4, 5))).attrs["units"] = "m s-1"
            file[name].dims[0].attach_scale(file["z"])
    with (
        ff.open(path) as opened,
        pytest.raises(UsageError, match="positions are in no one unit, and its vectors in m s-1"),
    ):
        opened.flow()
