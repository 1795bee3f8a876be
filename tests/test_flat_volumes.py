"""Volumes one voxel thick, along one axis, two or all: their picture is a slice, and what takes a thickness says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield
from farfield.cli import run
from farfield.pictures.flat_volumes import is_flat, plane_of
from pngs import picture
from running import Command, Json


def raw(path: Path, data: NDArray[Any], **more: str) -> tuple[str, ...]:
    """Writes [z, y, x] or [z, y, x, component]; words that say what it is."""
    data.tofile(path)
    said = {
        "shape": "x".join(str(n) for n in data.shape[2::-1]),
        "dtype": str(data.dtype),
        "byte-order": "little",
        **more,
    }
    return ("--raw", " ".join(f"{key}={value}" for key, value in said.items()))


def shrunk(seen: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """One pixel from the middle of each of a picture's blocks."""
    height, width = seen.shape[0] // rows, seen.shape[1] // columns
    return np.asarray(seen[height // 2 :: height, width // 2 :: width])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_picture_is_the_slice(axis: int, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    plane = np.random.default_rng(6).integers(0, 256, (9, 12)).astype(np.uint8)
    said = raw(tmp_path / "a.raw", np.expand_dims(plane, axis))
    plain = ("--nearest", "--range", "0:256", "--cmap", "gray", "--no-bar")
    ff("render", tmp_path / "a.raw", *said, "-o", tmp_path / "a.png", *plain)
    seen, _ = picture(tmp_path / "a.png")
    assert seen.shape == (900, 1200, 4) and (seen[..., 3] == 255).all()
    # Rows of an image run downward; k is up where it is seen.
    shown = plane if axis == 0 else plane[::-1]
    assert np.array_equal(shrunk(seen, 9, 12)[..., 0], shown)
    done = ff_json("render", tmp_path / "a.raw", *said, "-o", tmp_path / "b.png", "--size", "320x200")
    assert done["size"] == [320, 200] and done["pixels"]["outside"] > 0 and done["peak_bytes"] <= done["limit_bytes"]
    out = ff(
        "extract",
        "slice",
        tmp_path / "a.raw",
        *said,
        "--normal",
        "zyx"[axis],
        "--resolution",
        1,
        "-o",
        tmp_path / "a.npy",
    )
    assert "108 with values" in out.stdout
    assert np.array_equal(np.load(tmp_path / "a.npy"), plane[::-1].astype(np.float32))


def test_an_image_in_colours_stands_upright(ff: Command, tmp_path: Path) -> None:
    image = np.random.default_rng(8).integers(0, 256, (1, 30, 40, 3)).astype(np.uint8)
    said = raw(tmp_path / "c.raw", image, components="3", kind="rgb")
    ff("render", tmp_path / "c.raw", *said, "-o", tmp_path / "c.png", "--nearest")
    seen, _ = picture(tmp_path / "c.png")
    assert np.array_equal(shrunk(seen, 30, 40)[..., :3], image[0])
    labels = (np.arange(6 * 8).reshape(1, 6, 8) // 12).astype(np.uint8)
    ff("render", tmp_path / "l.raw", *raw(tmp_path / "l.raw", labels), "-o", tmp_path / "l.png", "--labels")
    seen, _ = picture(tmp_path / "l.png")
    few = shrunk(seen, 6, 8)
    assert (few[labels[0] == 0] == 0).all() and len(np.unique(few.reshape(-1, 4), axis=0)) == 4


def test_anatomy_stands_upright(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    # i to the left, j to the back, k up: front is up, and left is to the right as one faces it.
    affine = np.diag([-1.0, -1.0, 2.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(np.zeros((8, 9, 1), np.int16), affine), tmp_path / "axial.nii")
    nibabel.save(nibabel.Nifti1Image(np.zeros((8, 1, 9), np.int16), affine), tmp_path / "front.nii")
    for name, up in (("axial", (0, 1, 0)), ("front", (0, 0, 1))):
        with farfield.open(tmp_path / f"{name}.nii") as volume:
            assert is_flat(volume) and volume.anatomy == "RAS"
            plane = plane_of(volume, (400, 400), fits=True)
            assert np.allclose(volume.slice_image(**{k: plane[k] for k in ("normal", "up")}, size=(9, 9)).up, up)


def test_sources_of_volumes_in_python(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    image = np.random.default_rng(9).integers(0, 256, (30, 40, 3)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", image)
    done = farfield.render(tmp_path / "a.tif", tmp_path / "a.png")
    assert done["size"] == [1200, 900] and not done["partial"]
    assert picture(tmp_path / "a.png")[0].shape == (900, 1200, 4)
    assert farfield.render("demo:phantom", tmp_path / "p.png", size=(80, 60))["size"] == [80, 60]


def test_lines_and_points(ff_json: Json, tmp_path: Path) -> None:
    row = np.arange(0, 250, 10, dtype=np.uint8)
    for n, shape in enumerate([(1, 1, 25), (1, 25, 1), (25, 1, 1)]):
        said = raw(tmp_path / f"{n}.raw", row.reshape(shape))
        words = ("--nearest", "--range", "0:256", "--cmap", "gray", "--no-bar", "-o", tmp_path / f"{n}.png")
        assert ff_json("render", tmp_path / f"{n}.raw", *said, *words)["size"] == [1600, 200]
        seen, _ = picture(tmp_path / f"{n}.png")
        assert sorted(shrunk(seen, 1, 25)[0, :, 0].tolist()) == row.tolist()
        assert (seen[0] == seen[-1]).all() and (seen[..., 3] == 255).all()
    said = raw(tmp_path / "p.raw", row[7:8].reshape(1, 1, 1))
    words = ("--range", "0:256", "--cmap", "gray", "--no-bar", "-o", tmp_path / "p.png")
    assert ff_json("render", tmp_path / "p.raw", *said, *words)["pixels"]["outside"] == 0
    assert (picture(tmp_path / "p.png")[0][..., 0] == 70).all()


def test_time_steps_have_the_same_colours(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="comes with the extra 'peers'")
    data = np.stack([np.full((1, 5, 6), 10 * (t + 1), np.uint8) for t in range(4)])
    data[:, 0, 0, 0] = 100
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=2)
    group.create_array("0", data=data, chunks=(1, 1, 5, 6))
    axes = [{"name": a, "type": "time" if a == "t" else "space"} for a in "tzyx"]
    scale = {"type": "scale", "scale": [1.0] * 4}
    group.attrs["multiscales"] = [
        {"version": "0.4", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": [scale]}]}
    ]
    done = ff_json("render", tmp_path / "t.zarr", "-o", tmp_path / "f_%02d.png", "--frames", "0:4:2", "--size", "60x50")
    assert [f["step"] for f in done["frames"]] == [0, 2] and not done["partial"]
    seen = [picture(tmp_path / f"f_{step:02}.png")[0][40, 40, 0] for step in (0, 2)]
    assert seen[0] < seen[1]
    alone = ff("render", tmp_path / "t.zarr", "-o", tmp_path / "one.png", "--step", 2, "--size", "60x50")
    assert "60 x 50 pixels" in alone.stdout


def test_what_takes_a_thickness_says_so(ff: Command, tmp_path: Path) -> None:
    said = raw(tmp_path / "a.raw", np.zeros((1, 9, 12), np.uint8))
    rays = ff("render", tmp_path / "a.raw", *said, "-o", tmp_path / "a.png", "--projection", "maximum", ok=(2,))
    assert "one voxel thick along k" in rays.stderr and "extract slice" in rays.stderr
    words = ("--shape", "12x9x1", "--dtype", "uint8", "--value", 1, "-o", tmp_path / "a.ply")
    iso = ff("extract", "isosurface", tmp_path / "a.raw", *words, ok=(2,))
    assert "one voxel thick along k" in iso.stderr and "extract slice" in iso.stderr
    scene = ff("scene", tmp_path / "a.raw", *said, "-o", tmp_path / "a.json", ok=(2,))
    assert "one voxel thick" in scene.stderr and "extract slice" in scene.stderr
    assert not any((tmp_path / f"a.{ending}").exists() for ending in ("png", "ply", "json"))


def test_maps_have_north_on_top(ff_json: Json, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    latitude = np.linspace(-80.0, 80.0, 5)
    for name, rows in (("up", latitude), ("down", latitude[::-1])):
        group = zarr.open_group(tmp_path / f"{name}.zarr", mode="w", zarr_format=2)
        for axis, values, unit in (("lat", rows, "degrees_north"), ("lon", np.arange(8) * 20.0, "degrees_east")):
            group.create_array(axis, data=values).attrs.update({"_ARRAY_DIMENSIONS": [axis], "units": unit})
        data = np.repeat(rows[:, None], 8, axis=1)
        # 0 is a value, and not the fill value, which xarray takes for a missing one.
        group.create_array("t", data=data, fill_value=np.nan).attrs["_ARRAY_DIMENSIONS"] = ["lat", "lon"]
        words = ("--nearest", "--range=-80:80", "--cmap", "gray", "--no-bar", "-o", tmp_path / f"{name}.png")
        assert ff_json("render", tmp_path / f"{name}.zarr::t", *words)["up"] == [0, 1, 0]
        seen = shrunk(picture(tmp_path / f"{name}.png")[0], 5, 8)[:, 0, 0]
        assert (np.diff(seen.astype(int)) < 0).all(), name


@pytest.mark.parametrize("tilt", [0.0, 0.3])
def test_two_numbers_are_a_place_where_there_is_one_plane(
    tilt: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By positions and by voxels, also where the plane is tilted; of other volumes three are."""
    nib = pytest.importorskip("nibabel")
    affine = np.diag([2.0, 3.0, 1.0, 1.0])
    affine[:3, 3] = 10, 20, 30
    affine[2, 0] = 2 * tilt
    data = np.arange(30, dtype="i2").reshape(5, 6, 1)
    nib.save(nib.Nifti1Image(data, affine), tmp_path / "a.nii")
    with farfield.open(tmp_path / "a.nii") as volume:
        for found in (volume.probe((16, 26)), volume.probe_ijk((4, 3))):
            assert found is not None and found.values["a"] == data[3, 2, 0] == 20
            assert found.position == pytest.approx((16, 26, 30 + 6 * tilt))
            assert found.ijk == pytest.approx((4, 3, 1))
    for words in (["16", "26"], ["--ijk", "4", "3"]):
        assert run(["probe", str(tmp_path / "a.nii"), *words]) == 0
        assert "a  20" in capsys.readouterr().out
    nib.save(nib.Nifti1Image(np.zeros((5, 6, 2), "i2"), affine), tmp_path / "b.nii")
    assert run(["probe", str(tmp_path / "b.nii"), "16", "26"]) == 2
    assert "is three finite numbers" in capsys.readouterr().err
