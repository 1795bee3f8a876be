"""Voxels without a value, by what files name as missing or by an option: pictures and surfaces are those of NaN in their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

import farfield as ff
from farfield.cli import run
from farfield.scene.volumes import first_scene
from running import Command
from test_volume_looks import pixels

DIMS = (40, 44, 48)
MIDDLE = (23.4, 20.7, 18.2)
RADIUS = 14.0
STORED = [
    ("f4", 1e20),
    ("f4", -9999.0),
    ("f8", 9.96920996838687e36),
    ("u1", 255),
    ("i2", -32768),
    ("u2", 65535),
    ("i4", -1),
]


def index() -> tuple[NDArray[Any], ...]:
    k, j, i = np.indices(DIMS)
    return i, j, k


def hole() -> NDArray[np.bool_]:
    """A block out of the ball, and all below it."""
    i, j, k = index()
    return np.asarray(((i > 20) & (j < 22) & (k > 12)) | (k < 6))


def distance() -> NDArray[np.float64]:
    away = [(n - m) ** 2 for n, m in zip(index(), MIDDLE, strict=True)]
    return np.asarray(np.sqrt(sum(away)))


def write(folder: Path, data: NDArray[Any], missing: float | None = None, **about: Any) -> Path:
    """A Zarr array `t` in `folder`, which names `missing` as CF does."""
    folder.mkdir(exist_ok=True)
    array = zarr.create_array(folder / "t", shape=DIMS, chunks=(16, 16, 16), dtype=data.dtype)
    array[...] = data
    array.attrs.update({**about, **({} if missing is None else {"_FillValue": missing})})
    return folder / "t"


def whole() -> NDArray[np.float64]:
    """Whole numbers, high in the middle, which every type has."""
    return np.asarray(np.round(200 - 4 * distance()).clip(0, 250))


def holed(dtype: str, missing: float) -> NDArray[Any]:
    return np.where(hole(), np.dtype(dtype).type(missing), whole().astype(dtype))


def without(folder: Path) -> Path:
    return write(folder, np.where(hole(), np.nan, whole()).astype("f4"))


SCENES: list[dict[str, Any]] = [
    {"opacity": [(0.0, 0.02), (150.0, 0.4)]},
    {"opacity": [(0.0, 0.02), (150.0, 0.4)], "shading": {}, "interpolation": "nearest"},
    {"projection": "maximum"},
    {"projection": "mean"},
    {"projection": "surface", "value": 150.0, "shading": {}},
]


@pytest.mark.parametrize(("dtype", "missing"), STORED)
def test_pictures_are_those_of_nan(dtype: str, missing: float, tmp_path: Path) -> None:
    """The first one, and every manner, to the last bit."""
    sources = without(tmp_path / "nan"), write(tmp_path / "own", holed(dtype, missing), missing)
    drawn = []
    for source in sources:
        with ff.open(source) as volume:
            assert volume.channels[0].missing is None or volume.channels[0].missing == np.dtype(dtype).type(missing)
            first = first_scene(volume, str(source))
        looks = [first, *({"source": str(source), "objects": [{"kind": "volume", **how}]} for how in SCENES)]
        found = []
        for n, scene in enumerate(looks):
            target = tmp_path / f"{source.parent.name}{n}.png"
            ff.render(scene, target, size=(96, 72))
            found.append(pixels(target))
        drawn.append(found)
    for n, (nan, own) in enumerate(zip(*drawn, strict=True)):
        assert np.array_equal(nan, own), n
        assert len(np.unique(own.reshape(-1, 3), axis=0)) > 50, "there is something to be seen"


def test_what_is_opaque_where_no_value_is_is_not_seen(tmp_path: Path, ff: Command) -> None:
    """A volume all of which is missing, by the file or by an option, is empty, whatever its opacity."""
    data = np.full(DIMS, -9999, "i2")
    look = {"kind": "volume", "opacity": [[-20000, 1.0], [20000, 1.0]], "color": "red"}
    shown = []
    named, plain = write(tmp_path / "named", data, -9999), write(tmp_path / "plain", data)
    for source, options in ((named, []), (plain, ["--raw", "missing=-9999"]), (plain, [])):
        (tmp_path / "s.json").write_text(json.dumps({"source": str(source), "objects": [look]}))
        ff("render", tmp_path / "s.json", "-o", tmp_path / "p.png", "--size", "64x48", *options)
        shown.append(pixels(tmp_path / "p.png"))
    assert np.array_equal(shown[0], shown[1])
    red = [(p[..., 0].astype(int) - p[..., 1] > 100).sum() for p in shown]
    assert red[0] == 0 and red[2] > 200


def crossed(data: NDArray[Any], value: float) -> set[tuple[int, ...]]:
    """Cells (k, j, i) all of whose corners have values, some of them below `value` and some not."""
    corners = [data[k : k + DIMS[0] - 1, j : j + DIMS[1] - 1, i : i + DIMS[2] - 1] for k, j, i in np.ndindex(2, 2, 2)]
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    return set(zip(*np.nonzero((low < value) & (high >= value)), strict=True))


@pytest.mark.parametrize(("dtype", "missing"), STORED)
def test_surfaces_end_where_values_do(dtype: str, missing: float, tmp_path: Path) -> None:
    value = 200 - 4 * RADIUS + 0.3
    with ff.open(without(tmp_path / "nan")) as volume:
        nan = volume.contour([value], fields=["t"])
    source = write(tmp_path / "own", holed(dtype, missing), missing)
    for path in (source, ff.convert(source, tmp_path / "own.zarr", page=8) and tmp_path / "own.zarr"):
        with ff.open(path) as volume:
            own = volume.contour([value], fields=["t"])
        assert np.array_equal(own.points, nan.points) and np.array_equal(own.triangles, nan.triangles)
        assert np.array_equal(own["t"], nan["t"]) and own.normals is not None and nan.normals is not None
        assert np.array_equal(own.normals, nan.normals)
    # All of its triangles lie in cells that have values at all corners and are crossed, and each of these has some.
    middles = nan.points[nan.triangles].mean(axis=1)
    cells = {tuple(c) for c in np.floor(middles[:, ::-1]).astype(int).tolist()}
    assert cells == crossed(np.where(hole(), np.nan, whole()), value)
    away = np.linalg.norm(nan.points - MIDDLE, axis=1)
    assert abs(away - RADIUS).max() < 0.5
    # Taken for a number it has walls, and they are much of the surface.
    with ff.open(write(tmp_path / "plain", holed(dtype, missing))) as volume:
        walled = volume.contour([value])
    assert len(walled.triangles) > 1.2 * len(nan.triangles)


def test_a_scale_is_one_of_values_and_what_is_missing_is_stored(tmp_path: Path) -> None:
    """NetCDF's packed numbers: -32768 is missing, not 0.1 times that and 50 more; nor is what has the value -32768."""
    source = write(tmp_path / "own", holed("i2", -32768), -32768, scale_factor=0.1, add_offset=50.0)
    value = 50 + 0.1 * (200 - 4 * RADIUS + 0.3)
    with ff.open(without(tmp_path / "nan")) as volume:
        nan = volume.contour([200 - 4 * RADIUS + 0.3])
    with ff.open(source) as volume:
        own = volume.contour([value], fields=["t"])
    assert own.triangles.shape == nan.triangles.shape and abs(own.points - nan.points).max() < 1e-4
    assert abs(own["t"] - value).max() < 1e-4


def test_planes_and_slices_have_nan_where_values_are_missing(tmp_path: Path) -> None:
    source = write(tmp_path / "own", holed("u1", 255), 255)
    with ff.open(source) as volume:
        cut = volume.slice("z", (0, 0, 15.0))
    i, j, k = cut.points.round(3).T
    assert abs(k - 15).max() == 0
    on_nodes = (i % 1 == 0) & (j % 1 == 0)
    there = hole()[15, j[on_nodes].astype(int), i[on_nodes].astype(int)]
    assert there.any() and np.array_equal(np.isnan(cut["t"][on_nodes]), there)


def test_the_command_line_says_it_once_for_all(tmp_path: Path, ff: Command) -> None:
    source = write(tmp_path / "plain", holed("f4", -9999))
    without(tmp_path / "nan")
    for path, options in ((source, ["--missing", -9999]), (tmp_path / "nan" / "t", [])):
        ff("extract", "isosurface", path, "--value", 144.3, *options, "-o", tmp_path / f"{path.parent.name}.ply")
    bodies = [(tmp_path / f"{name}.ply").read_bytes().split(b"end_header")[1] for name in ("plain", "nan")]
    assert bodies[0] == bodies[1] and len(bodies[0]) > 10_000


def test_what_is_said_of_missing_numbers_adds_to_what_the_file_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its fill value and what is beyond its valid range stay missing, and what is told of them stays true."""
    data = np.arange(np.prod(DIMS), dtype="f4").reshape(DIMS)
    data[0, 0, :2] = -1e30, 200_000
    source = write(tmp_path / "own", data, -1e30, valid_max=150_000.0)
    for missing in ("3", "3,7..8", [3, (7, 8)]):
        with ff.open(source, volume={"missing": missing}) as volume:
            found = [volume.probe_ijk((i, 1, 1)).values["t"] for i in (1, 2, 3, 4, 5)]  # type: ignore[union-attr]
        assert np.isnan(found[0]) and np.isnan(found[1]) and np.isnan(found[3])
        assert found[2] == 2 and found[4] == 4
    assert run(["info", str(source), "--missing", "3"]) == 0
    said = capsys.readouterr().out
    assert "missing: -1e+30, above 150000, 3" in said and "up to 150000: numbers beyond it are missing" in said
    for command in (["render", "-o", "p.png"], ["extract", "slice", "--normal", "z", "-o", "s.npy"]):
        words = [*command[:-1], str(tmp_path / command[-1]), str(source), "--raw", "missing=3", "-q"]
        assert run([*words, "--size", "48x44"]) == 0
    assert np.nanmin(np.load(tmp_path / "s.npy")) >= 0


@pytest.mark.parametrize(
    ("dtype", "ends"), [("f4", (0, 100)), ("f8", (-0.5, 100.25)), ("i2", (-3, 100)), ("u2", (5, 9))]
)
def test_bounds_of_valid_ranges_are_told_as_they_are(
    dtype: str, ends: tuple[float, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "own", np.zeros(DIMS, dtype), valid_range=list(ends))
    assert run(["info", str(source)]) == 0
    assert f"missing: below {ends[0]:g}, above {ends[1]:g}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("said", "dtype", "ends"), [("true", "i1", (0, -57)), ("false", "u1", (156, 100))])
def test_valid_ranges_are_told_in_the_numbers_that_the_file_means(
    said: str, dtype: str, ends: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low, high = (0, 199) if said == "true" else (-100, 100)
    source = write(tmp_path / "own", np.full(DIMS, ends[1], dtype), valid_range=list(ends), _Unsigned=said)
    assert run(["info", str(source)]) == 0
    told = capsys.readouterr().out
    assert f"its valid range is {low} to {high}:" in told and f"missing: below {low}, above {high}" in told
    with ff.open(source) as volume:
        assert volume.probe_ijk((1, 1, 1)).values["t"] == high  # type: ignore[union-attr]


@pytest.mark.parametrize(("dtype", "first"), [("u8", 720575940600000001), ("i8", -(2**60) - 1), ("u8", 2**64 - 3)])
@pytest.mark.parametrize("of_file", [True, False])
def test_neighbours_of_a_missing_number_of_64_bits_have_values(
    dtype: str, first: int, of_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In double precision they are one number."""
    numbers = np.array([first, first + 1, first + 2, 0], dtype=dtype)
    with h5py.File(tmp_path / "ids.h5", "w") as file:
        file["ids"] = np.broadcast_to(numbers, (3, 2, 4))
        if of_file:
            file["ids"].attrs["_FillValue"] = numbers[0]
    words = [] if of_file else ["--missing", str(first)]
    said = []
    for n in range(1, 5):
        assert run(["probe", str(tmp_path / "ids.h5"), "--ijk", str(n), "1", "1", *words]) == 0
        said.append("has no value" in capsys.readouterr().out)
    assert said == [True, False, False, False]
    assert run(["info", str(tmp_path / "ids.h5"), *words]) == 0
    assert f"missing: {first}\n" in capsys.readouterr().out
    told = [] if of_file else ["--raw", f"missing={first}"]
    image = ["extract", "slice", str(tmp_path / "ids.h5"), "--normal", "z", "--nearest", "--size", "4x2", *told]
    assert run([*image, "-o", str(tmp_path / "ids.npy")]) == 0
    assert np.isnan(np.load(tmp_path / "ids.npy")).all(axis=0).tolist() == [True, False, False, False]
