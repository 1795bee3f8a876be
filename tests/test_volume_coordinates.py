"""Which way coordinates go: what grows downwards, and what is listed from its end on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import fake_volume
from volume_files import Read, look

Look = Callable[..., Read]
h5py = pytest.importorskip("h5py")


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
