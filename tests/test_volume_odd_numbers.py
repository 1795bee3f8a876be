"""Numbers as files of others have them and few expect: infinite, huge, of 64 bits, nearly equal, of another sign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from PIL import Image

import farfield as ff
from farfield.errors import DataError
from running import farfield


def pixels(path: Path) -> np.ndarray[Any, Any]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGBA"))


def cut(source: object, out: Path, *words: object) -> None:
    farfield("extract", "slice", source, *words, "--size", "16x16", "-o", out, "-q")


def stored(path: Path, data: np.ndarray[Any, Any], **more: Any) -> str:
    made = zarr.create_array(str(path), shape=data.shape, chunks=(8, 8, 8), dtype=data.dtype, **more)
    made[...] = data
    return str(path)


def cube(dtype: str = "f8") -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).random((16, 16, 16)).astype(dtype)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39, -1.7976931348623157e308])
def test_a_store_of_infinite_and_huge_numbers_is_opened_again(value: float, tmp_path: Path) -> None:
    data = cube()
    data[:4] = value
    ff.convert(stored(tmp_path / "a.zarr", data), tmp_path / "b.zarr")
    found = ff.open(str(tmp_path / "b.zarr"))
    assert np.array_equal(found[...], data)
    for source in ("a.zarr", "b.zarr"):
        about = ff.open(str(tmp_path / source)).info(ranges=True)
        assert about["fields"][0]["range"] == [data.min(), data.max()], source


@pytest.mark.parametrize("largest", [1.7e308, 1e300, 3e37])
def test_of_a_volume_of_huge_numbers_it_is_said_that_rays_see_none(largest: float, tmp_path: Path) -> None:
    k, j, i = np.indices((16, 16, 16)) - 7.5
    source = stored(tmp_path / "a.zarr", np.where(i**2 + j**2 + k**2 < 25, largest, -largest))
    farfield("scene", source, "-o", tmp_path / "a.json")
    bare = ("--size", "160x120", "--no-bar", "--no-axes", "--no-outline")
    for what, out in ((source, "a.png"), (tmp_path / "a.json", "b.png")):
        said = farfield("render", what, "-o", tmp_path / out, *bare).stderr
        beyond = "the values of 'a.zarr' that were looked at are beyond 3.4e+38" in said
        assert beyond == (largest > 3.4e38) and ("warning" in said) == beyond, said
    seen = pixels(tmp_path / "a.png").astype(int)
    assert (np.abs(seen[60, 80] - seen[5, 5]).max() > 60) == (largest < 3.4e38), "the ball in front of the background"
    assert np.array_equal(seen, pixels(tmp_path / "b.png"))


@pytest.mark.parametrize("spacing", ["1e160", "1e-200"])
def test_voxels_of_impossible_sizes_are_told_with_the_file(spacing: str, tmp_path: Path) -> None:
    source = tmp_path / "a_8x8x8.raw"
    source.write_bytes(bytes(range(256)) * 2)
    words = ("render", source, "--raw", f"dtype=uint8 spacing={spacing},{spacing},{spacing}", "-o", tmp_path / "a.png")
    said = farfield(*words, ok=(1,)).stderr
    assert said.startswith(f"farfield: error: {source}: its voxels are ") and "--raw 'spacing=1,1,1'" in said
    words = ("render", source, "--raw", "dtype=uint8 spacing=1,1,1", "-o", tmp_path / "a.png", "--size", "64x48")
    assert "warning" not in farfield(*words).stderr


@pytest.mark.parametrize(
    ("value", "place"), [(1e39, 0.1), (-1.7976931348623157e308, 0.1), (-1.7976931348623157e308, 0.9)]
)
def test_pictures_of_slices_of_numbers_beyond_single_precision(value: float, place: float, tmp_path: Path) -> None:
    data = cube()
    data[:8] = value
    source = stored(tmp_path / "a.zarr", data)
    cut(source, tmp_path / "a.png", "--normal", "x")
    cut(source, tmp_path / "z.png", "--normal", "z", "--origin", f"8,8,{15 * place}")
    light = pixels(tmp_path / "a.png")[..., :3].astype(float).sum(axis=-1)
    halves = light[:6].mean(), light[-6:].mean()
    assert max(halves) > 2 * min(halves) + 50, "the huge numbers and the others look alike"


@pytest.mark.parametrize("data", [273.15 + 1e-14 * cube(), 1.0 + np.round(2 * cube()) * 2.3e-16])
def test_numbers_a_few_ulps_apart_are_drawn(data: np.ndarray[Any, Any], tmp_path: Path) -> None:
    source = stored(tmp_path / "a.zarr", data)
    ff.render(source, tmp_path / "a.png")
    assert pixels(tmp_path / "a.png").std() > 0


@pytest.mark.parametrize(("base", "dtype"), [(2**53, "u8"), (2**63, "u8"), (-(2**62), "i8"), (5, "u4")])
def test_slices_tell_labels_of_64_bits_apart(base: int, dtype: str, tmp_path: Path) -> None:
    index = np.indices((16, 16, 16))[2]
    data = (index // 4).astype(dtype) + np.array(base, dtype=dtype)
    data[:, :2] = 0
    source = stored(tmp_path / "a.zarr", data)
    found = ff.open(source, volume={"kind": "labels"})
    wide = dtype != "u4"
    plane = found.slice_image(normal="z", size=(16, 16), extent=(-12, 8, -8, 8))
    assert np.array_equal(np.unique(plane.values[plane.pixels == 1]), np.unique(data))
    outside = plane.values[plane.pixels == 2]
    assert outside.size and (not outside.any() if wide else np.isnan(outside).all())
    assert plane.values.dtype == np.dtype(dtype if wide else "f8")
    cut(source, tmp_path / "a.npy", "--normal", "z", "--raw", "kind=labels")
    numbers = np.load(tmp_path / "a.npy")
    assert np.array_equal(np.unique(numbers), np.unique(data)) and numbers.dtype == np.dtype(dtype if wide else "f8")
    cut(source, tmp_path / "a.npz", "--normal", "z", "--raw", "kind=labels")
    with np.load(tmp_path / "a.npz") as archive:
        assert any(np.array_equal(archive[name], numbers) for name in archive.files)
    cut(source, tmp_path / "a.png", "--normal", "z", "--raw", "kind=labels")
    assert len(np.unique(pixels(tmp_path / "a.png").reshape(-1, 4), axis=0)) == 5, "four labels, and nothing"
    # A map of colours is of numbers.
    cut(source, tmp_path / "b.png", "--normal", "z", "--raw", "kind=labels", "--cmap", "gray")


def test_whole_numbers_without_sign_as_netcdf_says_it(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    data = (np.arange(4 * 5 * 6).reshape(4, 5, 6) * 500).astype("u2")
    data[0, 0, 0] = 65535
    about = {"_Unsigned": "true", "scale_factor": np.float32(0.5), "_FillValue": np.int16(-1)}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("v", data=data.view("i2"), chunks=(2, 3, 3), fillvalue=-1)
        made.attrs.update(about)
    attributes = {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": -1}
    written = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=data.shape, chunks=(2, 3, 3), dtype="i2", attributes=attributes, fill_value=-1
    )
    written[...] = data.view("i2")
    for source in (tmp_path / "a.h5", tmp_path / "a.zarr"):
        found = ff.open(str(source))
        assert np.array_equal(found[...], data), source
        (value,) = found.probe_ijk((6, 5, 4)).values.values()
        assert value == 0.5 * data[3, 4, 5]
        (missing,) = found.probe_ijk((1, 1, 1)).values.values()
        assert np.isnan(missing), "-1 stands for 65535"


def test_several_missing_values_and_what_is_beyond_a_valid_range_are_missing(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("v", data=cube("f4"))
        made.attrs.update({"missing_value": np.array([7, 8], "f4"), "valid_range": np.array([0, 0.5], "f4")})
    found = ff.open(str(tmp_path / "a.h5"))
    assert "valid range is 0 to 0.5: numbers beyond it are missing" in " ".join(found._spec["guessed"])
    missing = found.channels[0].missing
    assert isinstance(missing, tuple) and missing[:2] == (7, 8) and len(missing) == 4


def test_dimensions_of_netcdf_without_coordinates_are_none(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    # As the netCDF library writes it: a scale without numbers, of this name.
    with h5py.File(tmp_path / "a.nc", "w") as file:
        made = file.create_dataset("v", data=cube("f4")[:4, :5, :6])
        for axis, (name, length) in enumerate(zip("zyx", (4, 5, 6), strict=True)):
            scale = file.create_dataset(name, (length,), ">f4")
            scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{length:10d}")
            made.dims[axis].attach_scale(scale)
    found = ff.open(str(tmp_path / "a.nc"))
    assert found.spacing == (1, 1, 1) and not any("one way" in s or "datasets" in s for s in found._spec["guessed"])


def test_keys_of_zarr_that_must_be_understood(tmp_path: Path) -> None:
    source = stored(tmp_path / "a.zarr", cube())
    document = tmp_path / "a.zarr" / "zarr.json"
    about = json.loads(document.read_text())
    document.write_text(json.dumps({**about, "foo": {"must_understand": False}}))
    assert ff.open(source).dims
    document.write_text(json.dumps({**about, "foo": {"must_understand": True}}))
    with pytest.raises(DataError, match=r"zarr.json: it has the key 'foo'"):
        ff.open(source)


def test_levels_of_ome_zarr_without_a_path_are_named(tmp_path: Path) -> None:
    root = zarr.create_group(str(tmp_path / "a.zarr"))
    for n, edge in enumerate((16, 8)):
        root.create_array(str(n), shape=(edge, edge, edge), chunks=(8, 8, 8), dtype="f4")
    scale = [{"type": "scale", "scale": [1, 1, 1]}]
    axes = [{"name": a, "type": "space"} for a in "zyx"]
    datasets = [{"path": 0, "coordinateTransformations": scale}, {"path": "1", "coordinateTransformations": scale}]
    root.attrs["ome"] = {"version": "9.9", "multiscales": [{"axes": axes, "datasets": datasets}]}
    with pytest.raises(DataError, match=r"datasets\[0\].path"):
        ff.open(str(tmp_path / "a.zarr"))
    datasets[0]["path"] = "0"
    root.attrs["ome"] = {"version": "9.9", "multiscales": [{"axes": axes, "datasets": datasets}]}
    assert any("version 9.9" in s for s in ff.open(str(tmp_path / "a.zarr"))._spec["guessed"])


def test_a_dataset_of_hdf5_that_nobody_wrote_into_is_filled_and_counted(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", shape=(70, 30, 40), dtype="i2", fillvalue=7)
    found = ff.open(str(tmp_path / "a.h5"))
    assert (found[...] == 7).all() and found.stats()["pages"]["fills"] == 2
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("v", shape=(0, 4, 5), dtype="i2")
    with pytest.raises(DataError, match="empty: its size is 0 x 4 x 5"):
        ff.open(str(tmp_path / "b.h5"))
