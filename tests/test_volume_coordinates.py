"""Which way coordinates go: what grows downwards, and what is listed from its end on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

import fake_volume
import farfield as ff
from farfield.cli import run
from volume_files import Read, look

Look = Callable[..., Read]
h5py = pytest.importorskip("h5py")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Reads, with the stand-in for coordinates too."""
    fake_volume.stand_in(monkeypatch)
    return lambda path, **options: look(path, tmp_path / "cache", **options)


DEPTHS = np.array([5.0, 15.0, 25.0, 35.0])


def ocean(path: Path, kind: str, vertical: np.ndarray[Any, Any], about: dict[str, str]) -> np.ndarray[Any, Any]:
    """A file whose numbers are the height of each voxel (-depth), and 1000 times its latitude."""
    lat = np.array([60.0, 59.5, 59.0])
    values = np.asarray(vertical[:, None, None] + 1000 * lat[None, :, None] + np.zeros(5), dtype=np.float64)
    lines = {
        "depth": (vertical, about), "lat": (lat, {"units": "degrees_north"}), "lon": (np.arange(5.0), {"units": "degrees_east"})
    }  # fmt: skip
    if kind == "zarr":
        root = zarr.create_group(path, zarr_format=3)
        for name, (line, said) in lines.items():
            root.create_array(name, data=line, dimension_names=[name]).attrs.update(said)
        root.create_array("salt", data=values, chunks=(2, 2, 5), dimension_names=list(lines))
        return values
    with h5py.File(path, "w") as file:
        file["salt"] = values
        for n, (name, (line, said)) in enumerate(lines.items()):
            file[name] = line
            file[name].attrs.update(said)
            file[name].make_scale(name)
            file["salt"].dims[n].attach_scale(file[name])
    return values


def at(found: Read, position: tuple[float, float, float]) -> float:
    """The number of the voxel at a position."""
    i, j, k = np.round(np.linalg.solve(found.affine, [*position, 1.0])[:3]).astype(int)
    return float(found.numbers()[k, j, i])


@pytest.mark.parametrize("kind", ["zarr", "h5"])
@pytest.mark.parametrize(
    ("about", "word"),
    [
        ({"units": "m", "positive": "down"}, "positive: down"),
        ({"units": "m", "positive": "Down", "axis": "Z"}, "positive: down"),
        ({"units": "m", "standard_name": "depth"}, "its standard_name is depth"),
        ({"units": "hPa"}, "it is a pressure, in hPa"),
    ],
)
@pytest.mark.parametrize("step", [1, -1])
def test_what_grows_downwards(
    kind: str, about: dict[str, str], word: str, step: int, tmp_path: Path, there: Look
) -> None:
    path = tmp_path / f"a.{kind}"
    values = ocean(path, kind, DEPTHS[::step], about)
    found = there(path)
    assert found.spec["direction"] == [[1, 0, 0], [0, -1, 0], [0, 0, -step]]
    assert found.level["spacing"] == [1, 0.5, 10] and found.level["origin"] == [0, 60, -DEPTHS[::step][0]]
    assert f"the coordinate 'depth' counts downwards ({word}): z, which goes up, is its negative" in found.guessed
    for depth in DEPTHS:
        assert at(found, (2.0, 59.5, -depth)) == depth + 59500
    assert np.array_equal(found.numbers(), values)


@pytest.mark.parametrize(
    "about",
    [{"units": "m", "positive": "up", "standard_name": "depth"}, {"units": "m"}, {"units": "Pa", "positive": "up"}],
)
def test_what_grows_upwards(about: dict[str, str], tmp_path: Path, there: Look) -> None:
    ocean(tmp_path / "a.h5", "h5", DEPTHS, about)
    found = there(tmp_path / "a.h5")
    assert found.spec["direction"][2] == [0, 0, 1] and found.level["origin"][2] == 5
    assert "downwards" not in found.guessed


def test_one_depth_alone(tmp_path: Path, there: Look) -> None:
    """It has no direction, and lies where it is."""
    ocean(tmp_path / "a.h5", "h5", DEPTHS[2:3], {"units": "m", "positive": "down"})
    found = there(tmp_path / "a.h5")
    assert found.spec["direction"][2] == [0, 0, 1] and found.level["origin"][2] == -25


def test_kilometres_downwards_are_brought_to_metres(tmp_path: Path, there: Look) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.zeros((3, 4, 5))
        for n, (name, units) in enumerate((("depth", "km"), ("y", "m"), ("x", "m"))):
            file[name] = 2.0 + np.arange(file["v"].shape[n])
            file[name].attrs["units"] = units
            file[name].make_scale(name)
            file["v"].dims[n].attach_scale(file[name])
        file["depth"].attrs["positive"] = "down"
    found = there(tmp_path / "a.h5")
    assert found.spec["length_unit"] == "m" and found.level["origin"] == [2, 2, -2000]
    assert found.level["spacing"] == [1, 1, 1000] and found.spec["direction"][2] == [0, 0, -1]


def uneven(path: Path, units: dict[str, str], about: str, flows: str = "") -> Path:
    """`heat`, of uneven levels and two steps, and with `flows` a velocity of 1 along x in these units."""
    lines = {"time": [0, 2], "z": [0, 1, 4], "y": range(3), "x": range(4)}
    with h5py.File(path, "w") as file:
        values = {"heat": (np.ones((2, 3, 3, 4)), about)}
        if flows:
            values |= {name: (np.full((2, 3, 3, 4), n), flows) for n, name in ((1.0, "u"), (0.0, "v"))}
        for name, line in lines.items():
            file[name] = np.asarray(line, float)
            file[name].attrs["units"] = units.get(name, "m")
            file[name].make_scale(name)
        for name, (data, said) in values.items():
            file[name] = data
            file[name].attrs["units"] = said
            for n, dimension in enumerate(lines):
                file[name].dims[n].attach_scale(file[dimension])
    return path


@pytest.mark.parametrize(
    ("units", "position", "time", "times"),
    [
        ({"time": "hours since 2001-01-01"}, "m", "s", [0, 7200]),
        ({"time": "months since 2001-01-01", "z": "km"}, "grid unit", "months", [0, 2]),
        ({"time": "1", "x": "degrees_east", "y": "degrees_north", "z": "degrees"}, "degree", "1", [0, 2]),
        ({"time": "s", "x": "1", "y": "1", "z": "1"}, "grid unit", "s", [0, 2]),
    ],
)
def test_zones_on_uneven_levels_have_the_units_of_the_file(
    units: dict[str, str], position: str, time: str, times: list[float], tmp_path: Path
) -> None:
    with ff.open(uneven(tmp_path / "a.nc", units, "K")) as found:
        info = found.info()
        assert {f["name"]: f["units"] for f in info["fields"]}["heat"] == "K" == found["heat"].units
        assert (info["length_unit"], info["time_units"], info["times"]) == (position, time, times)
        assert found.probe((1, 1, 2)).units == {"position": position, "heat": "K"}
        assert found.probe_ijk("zone1", (1, 1, 1)).units["position"] == position


def test_units_of_a_velocity(tmp_path: Path) -> None:
    with ff.open(uneven(tmp_path / "a.nc", {"time": "s"}, "1", "cm/s")) as found:
        probed = found.probe((1, 1, 2))
        assert probed.values["velocity"] == pytest.approx((0.01, 0, 0)) and probed.units["velocity"] == "m s-1"
        assert probed.units["heat"] == "1"


@pytest.mark.parametrize("levels", [[0, 1, 4], [0, 1, 2]])
def test_coordinates_that_are_not_used_are_told_of_once(levels: list[float], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["z"] = np.asarray(levels, float)
        file["z"].attrs.update({"units": "m", "positive": "up"})
        for name, length in (("y", 3), ("x", 4)):
            file[name] = np.zeros(length, ">f4")
            file[name].make_scale(f"This is a netCDF dimension but not a netCDF variable.{length:10d}")
        file["z"].make_scale("z")
        for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
            file[name] = np.arange(12.0).reshape(3, 4) ** 2
            file[name].attrs["units"] = units
        file["heat"] = np.ones((3, 3, 4))
        file["heat"].attrs["coordinates"] = "lat lon"
        for n, dimension in enumerate(("z", "y", "x")):
            file["heat"].dims[n].attach_scale(file[dimension])
        for name in ("lat", "lon"):
            for n, dimension in enumerate(("y", "x")):
                file[name].dims[n].attach_scale(file[dimension])
    with ff.open(tmp_path / "a.nc") as found:
        said = [s for s in found.info()["guessed"] if "x and y count" in s or "lat" in s]
        assert len(said) == 1 and "as its coordinates lat, lon are not one line for each axis" in said[0]


@pytest.mark.parametrize("kind", ["zarr", "h5"])
@pytest.mark.parametrize("thick", [4, 1])
def test_axes_in_unlike_units_have_one_each(
    kind: str, thick: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Degrees along x and y and metres along z: no unit is that of all, wherever one is told."""
    ocean(tmp_path / "a", kind, DEPTHS[:thick], {"units": "m", "positive": "up"})
    with ff.open(tmp_path / "a") as volume:
        assert volume.length_unit == "1" and "1 degree x 0.5 degree x" in repr(volume)
        assert volume.info()["axis_units"] == ["degree", "degree", "m"] and volume.info()["length_unit"] == "1"
        found = volume.probe((1.0, 59.5, 5.0))
        assert found is not None and found.units["position"] == "1"
        units = [volume.to_xarray()[axis].attrs["units"] for axis in "xyz"]
        assert units == ["degree", "degree", "m"]
        for normal in "xyz":
            assert volume.slice_image(normal=normal, size=(20, 16)).length_unit == "1"
    assert run(["info", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    step = 10 if thick > 1 else 1
    assert f"spacing  1 degree x 0.5 degree x {step} m;" in said and "[degree, degree, m]" in said
    assert run(["probe", str(tmp_path / "a"), "1", "59.5", "5"]) == 0
    assert "position  1 59.5 5 [degree, degree, m]" in capsys.readouterr().out
    assert run(["convert", str(tmp_path / "a"), str(tmp_path / "b.zarr"), "-q"]) == 0
    with ff.open(tmp_path / "b.zarr") as volume:
        assert volume.length_unit == "1"
    # Who says a unit is taken at his word.
    with ff.open(tmp_path / "a", volume={"length_unit": "km"}) as volume:
        assert volume.length_unit == "km" and volume.info()["axis_units"] is None


def test_units_of_axes_of_other_formats_are_brought_to_one_or_none(tmp_path: Path) -> None:
    body = b"\n" + np.zeros((4, 5, 6), "u1").tobytes()
    head = "NRRD0005\ntype: uint8\ndimension: 3\nsizes: 6 5 4\nencoding: raw\n"
    spaced = "space dimension: 3\nspace directions: (2,0,0) (0,2,0) (0,0,3)\nspace origin: (1,1,1)\n"
    for n, (lines, unit, spacing, origin) in enumerate(
        (
            (spaced + 'space units: "mm" "mm" "cm"\n', "mm", (2, 2, 30), (1, 1, 10)),
            (spaced + 'space units: "mm" "mm" "degree"\n', "1", (2, 2, 3), (1, 1, 1)),
            ('spacings: 2 2 3\nunits: "um" "um" "mm"\n', "um", (2, 2, 3000), None),
            ('spacings: 2 2 3\nunits: "um" "um" "Pa"\n', "1", (2, 2, 3), None),
        )
    ):
        (tmp_path / f"{n}.nrrd").write_bytes((head + lines).encode() + body)
        with ff.open(tmp_path / f"{n}.nrrd") as volume:
            assert (volume.length_unit, volume.spacing) == (unit, spacing), lines
            assert origin is None or volume.origin == origin
    about = {"axes": "ZYX", "PhysicalSizeX": 2.0, "PhysicalSizeY": 2.0, "PhysicalSizeZ": 3.0, "PhysicalSizeXUnit": "µm"}
    for own, unit, apart in (("nm", "µm", 0.003), ("s", "1", 3.0)):
        units = {"PhysicalSizeYUnit": "µm", "PhysicalSizeZUnit": own}
        tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((4, 5, 6), "u1"), metadata={**about, **units})
        with ff.open(tmp_path / "a.ome.tif") as volume:
            assert volume.length_unit == unit.replace("µ", "u") and volume.spacing == (2, 2, apart)
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("0", shape=(4, 5, 6), chunks=(4, 5, 6), dtype="u1")
    axes = [{"name": a, "type": "space", "unit": u} for a, u in zip("zyx", ("hPa", "meter", "meter"), strict=True)]
    scale = [{"type": "scale", "scale": [3, 2, 2]}]
    datasets = [{"path": "0", "coordinateTransformations": scale}]
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    with ff.open(tmp_path / "a.zarr") as volume:
        assert volume.length_unit == "1" and "2 m x 2 m x 3 hPa" in repr(volume)
