"""What files and folders hold, how pictures are turned, and what every run says: TIFF, images of folders, Zarr, zip files."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import farfield as ff
from farfield.errors import DataError, UnknownName, UsageError
from farfield.runtime import run_context
from farfield.volume.formats import concurrent_headers
from farfield.volume.formats.tiff import slices as tiff_slices
from test_volume_slices import header, put
from volume_files import Read

tifffile = pytest.importorskip("tifffile")
Look = Callable[..., Read]
_ORIENTATION = 0x0112


def noise(shape: tuple[int, ...], dtype: str = "u1") -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 200, shape).astype(dtype)


def upright(data: np.ndarray[Any, Any], orientation: int) -> np.ndarray[Any, Any]:
    """As Pillow shows what has that orientation."""
    image = Image.fromarray(data)
    image.getexif()[_ORIENTATION] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["tif", "folder", "png", "jpg"])
def test_pictures_are_upright(form: str, orientation: int, tmp_path: Path) -> None:
    data = noise((5, 7))
    tag = [(274, "H", 1, orientation, True)]
    exif = Image.Exif()
    exif[_ORIENTATION] = orientation
    source = tmp_path / f"a.{form}"
    if form == "tif":
        tifffile.imwrite(source, data, extratags=tag, metadata=None, photometric="minisblack")
    elif form == "folder":
        source.mkdir()
        for n in range(2):
            tifffile.imwrite(source / f"{n}.tif", data, extratags=tag, metadata=None, photometric="minisblack")
    elif form == "png":
        Image.fromarray(data).save(source, exif=exif)
    else:
        data = np.full((8, 16), 40, "u1")
        data[:, 8:] = 200
        Image.fromarray(data).save(source, exif=exif, quality=95)
    wanted = upright(data, orientation)
    with ff.open(source) as volume:
        size = (wanted.shape[1], wanted.shape[0])
        cut = volume.slice_image(normal="z", size=size, nearest=True)
        assert np.abs(cut.values.astype(int) - wanted).max() <= (3 if form == "jpg" else 0)
        # No index changes.
        assert np.abs(volume[0].astype(int) - data).max() <= (3 if form == "jpg" else 0)
        assert any(f"Orientation {orientation}" in note for note in volume.notes) == (orientation > 1)


def test_slices_that_are_turned_otherwise_are_named(tmp_path: Path, there: Look) -> None:
    for n, orientation in enumerate((1, 1, 6)):
        tag = [(274, "H", 1, orientation, True)]
        tifffile.imwrite(tmp_path / f"s{n}.tif", noise((4, 5)), extratags=tag, metadata=None)
    with pytest.raises(DataError, match=r"s2\.tif.* orientation 6"):
        there(tmp_path)


GEO = {"scale": (33550, "d", 3, (2.0, 3.0, 0.0), True), "tie": (33922, "d", 6, (0.0, 0.0, 0.0, 100.0, 50.0, 0.0), True)}


def keys(*pairs: tuple[int, int]) -> tuple[Any, ...]:
    rows = [v for key, value in pairs for v in (key, 0, 1, value)]
    return (34735, "H", 4 + len(rows), (1, 1, 0, len(pairs), *rows), True)


@pytest.mark.parametrize(
    ("tags", "origin", "unit"),
    [
        ([GEO["scale"], GEO["tie"], keys((1024, 1), (3076, 9001))], [101.0, 48.5, 0], "m"),
        ([GEO["scale"], GEO["tie"], keys((1024, 1), (1025, 2), (3076, 9002))], [100.0, 50.0, 0], "foot"),
        ([GEO["scale"], GEO["tie"], keys((1024, 2))], [101.0, 48.5, 0], "degree"),
    ],
)
def test_geotiffs_lie_on_the_ground(tags: Any, origin: list[float], unit: str, tmp_path: Path, there: Look) -> None:
    # Edges and centres as GDAL has them: pixels are areas, unless GTRasterType says points (OGC 19-008r4, 7.1.2).
    tifffile.imwrite(tmp_path / "a.tif", noise((4, 5)), extratags=tags, metadata=None)
    found = there(tmp_path / "a.tif")
    assert found.spec["format"] == "GeoTIFF" and found.spec["length_unit"] == unit
    assert found.level["origin"] == origin and found.level["spacing"] == [2, 3, 2]
    assert found.spec["direction"] == [[1, 0, 0], [0, -1, 0], [0, 0, 1]]
    assert "how large a voxel is" not in found.guessed


def test_geotiffs_may_be_turned(tmp_path: Path, there: Look) -> None:
    matrix = (0.0, -2.0, 0, 10.0, 3.0, 0.0, 0, 20.0, 0, 0, 0, 0, 0, 0, 0, 1)
    tags = [(34264, "d", 16, matrix, True), keys((1024, 1), (1025, 2))]
    tifffile.imwrite(tmp_path / "a.tif", noise((4, 5)), extratags=tags, metadata=None)
    found = there(tmp_path / "a.tif")
    assert np.allclose(found.affine @ [1, 2, 0, 1], [10 - 4, 20 + 3, 0, 1])


def test_pages_of_a_tiff_by_name_and_number(tmp_path: Path, there: Look) -> None:
    first, second = noise((4, 5)), noise((3, 6, 7), "u2")
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(first, metadata=None)
        file.write(second, metadata=None, photometric="minisblack")
    source = tmp_path / "a.tif"
    assert np.array_equal(there(source).numbers(), second)
    assert np.array_equal(there(f"{source}::0").numbers()[0], first)
    assert np.array_equal(there(f"{source}::1").numbers(), second)
    with pytest.raises(UnknownName, match=r"no image named '2'; there are: 0 \(4 x 5 YX uint8\), 1 \(3 x 6 x 7"):
        there(f"{source}::2")
    with ff.open(source) as volume:
        held = volume.info()["contents"]
    assert [(c["number"], c["shown"]) for c in held] == [(0, False), (1, True)]


def test_what_is_one_volume_holds_no_other(tmp_path: Path, there: Look) -> None:
    (tmp_path / "a_4x3x2.raw").write_bytes(bytes(24))
    with pytest.raises(UnknownName, match=r"one volume \(raw.*and holds none named 'b'"):
        there(f"{tmp_path}/a_4x3x2.raw::b", dtype="uint8")


def test_series_in_one_folder(tmp_path: Path, there: Look) -> None:
    for name, value in (("cells", 1), ("nuclei", 2)):
        for n in range(3):
            tifffile.imwrite(tmp_path / f"{name}_{n:02}.tif", np.full((4, 5), value, "u1"), metadata=None)
    with pytest.raises(UsageError, match=r"2 series of images.*cells.*nuclei.*::cells"):
        there(tmp_path)
    for name, value in (("nuclei", 2), ("0", 1), ("cells", 1)):
        found = there(f"{tmp_path}::{name}")
        assert found.level["dims"] == [5, 4, 3] and (found.numbers() == value).all()
    assert (there(tmp_path / "cells_*.tif").numbers() == 1).all()
    with pytest.raises(UnknownName, match="no series of images named 'dapi'"):
        there(f"{tmp_path}::dapi")


def test_several_numbers_in_names_are_said(tmp_path: Path, there: Look) -> None:
    for z in range(2):
        for c in range(2):
            Image.fromarray(noise((4, 5))).save(tmp_path / f"z{z}c{c}.png")
    assert "not numbered in one place" in there(tmp_path).description.notes[0]


def test_notes_stand_in_every_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from farfield.cli import run

    for n in (1, 2, 4):
        tifffile.imwrite(tmp_path / f"s{n}.tif", noise((20, 30)))
    said = "a slice is missing between s2.tif and s4.tif, by the numbers"
    out = tmp_path.parent / "out"
    out.mkdir()
    for words in (
        ["info", tmp_path],
        ["probe", tmp_path, "--ijk", 1, 1, 3],
        ["extract", "slice", tmp_path, "--normal", "x", "-o", out / "a.png"],
        ["extract", "isosurface", tmp_path, "--value", 100, "-o", out / "a.ply"],
        ["render", tmp_path, "-o", out / "b.png", "--size", "80x60"],
        ["convert", tmp_path, out / "a.zarr"],
        ["validate", tmp_path],
    ):
        assert run([*map(str, words), "--json"]) == 0
        text, err = capsys.readouterr()
        assert sum(note.startswith(said) for note in json.loads(text)["notes"]) == 1, words
        assert err.count(said) == (words[0] != "info"), words
        assert run([*map(str, words[:1]), *map(str, words[1:]), "-q", *["--overwrite"] * (words[0] == "convert")]) == 0
        assert said not in capsys.readouterr().err
    with ff.open(tmp_path) as volume:
        assert volume.notes[-1].startswith(said) and volume.stats()["notes"] == volume.notes


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_all_numbers_that_are_missing_are_said(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from farfield.cli import run

    for n in (10, 20, 30, 50, 60, 90):
        name = tmp_path / f"s{n}.{ending}"
        tifffile.imwrite(name, noise((9, 8))) if ending == "tif" else Image.new("L", (8, 9)).save(name)
    said = f"3 slices are missing, 1 between s30.{ending} and s50.{ending}, 2 between s60.{ending} and s90.{ending}"
    for words in (["info", tmp_path], ["extract", "slice", tmp_path, "--normal", "z", "-o", tmp_path.parent / "a.npy"]):
        assert run([*map(str, words)]) == 0
        assert "".join(capsys.readouterr()).count(said) == 1, words
    with ff.open(tmp_path) as volume:
        assert sum(note.startswith(said) for note in volume.notes) == 1 and volume.shape[0] == 6
    (tmp_path / f"s90.{ending}").rename(tmp_path / f"s95.{ending}")
    with ff.open(str(tmp_path) + f"/s*.{ending}") as volume:
        assert any("they are not evenly numbered" in note for note in volume.notes)


def test_numbers_that_are_taken_for_none_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = np.random.default_rng(0).random((12, 12, 12)).astype("f4")
    data[:5] = -9999
    tifffile.imwrite(tmp_path / "a.tif", data)
    found = ff.render(tmp_path / "a.tif", tmp_path / "a.png", size=(80, 60))
    assert "-9999 is taken for no value" in found["notes"][-1]
    assert "-9999 is taken for no value" in capsys.readouterr().err


def test_headers_are_read_once_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * concurrent_headers.AT_ONCE
    data = noise((count, 6, 7), "u2")
    for n, plane in enumerate(data):
        tifffile.imwrite(tmp_path / f"s{n:03}.tif", plane, metadata=None, compression="zlib" if n % 2 else None)
    looked: list[str] = []
    heads = tiff_slices.head_of
    monkeypatch.setattr(tiff_slices, "head_of", lambda file: looked.append(file) or heads(file))
    found = ff.render(tmp_path, tmp_path.parent / "a.png", size=(80, 60))
    assert sorted(looked) == sorted(str(f) for f in tmp_path.iterdir())
    # The time that they took is told.
    assert found["stats"]["wall_s"] > 0
    with ff.open(tmp_path) as volume:
        assert np.array_equal(volume[...], data)
    assert len(looked) == 2 * count


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("odd", [None, "size", "type", "pages", "cut"])
def test_directories_that_are_alike(odd: str | None, big: bool, byteorder: Any, tmp_path: Path, there: Look) -> None:
    data = noise((4, 9, 8), "u2")
    for n, plane in enumerate(data):
        how: dict[str, Any] = {
            "byteorder": byteorder,
            "bigtiff": big,
            "metadata": None,
            "rowsperstrip": 4,
            "description": "x" * n,
        }
        if n == 2 and odd is not None:
            plane = {"size": plane[:, :7], "type": plane.astype("i2"), "pages": data[:2]}.get(odd, plane)
        tifffile.imwrite(tmp_path / f"s{n}.tif", plane, photometric="minisblack", **how)
    if odd == "cut":
        file = tmp_path / "s2.tif"
        file.write_bytes(file.read_bytes()[:-40])
    if odd is None:
        assert np.array_equal(there(tmp_path).numbers(), data)
        return
    with pytest.raises(DataError, match=r"s2\.tif"):
        there(tmp_path)


def test_a_run_finds_things_once() -> None:
    asked: list[int] = []

    def find() -> int:
        asked.append(1)
        return len(asked)

    assert (run_context.once("a", find), run_context.once("a", find)) == (1, 2)
    with run_context.run(), run_context.run():
        assert (run_context.once("a", find), run_context.once("a", find)) == (3, 3)
    assert run_context.once("a", find) == 4


@pytest.mark.parametrize("sides", [(1, 600, 4000), (3, 700, 3000)])
def test_a_slice_of_one_strip_reads_it_once(sides: tuple[int, int, int], tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise(sides), rowsperstrip=sides[1], metadata=None, photometric="minisblack")
    with ff.open(tmp_path / "a.tif") as volume:
        assert volume.slice_image(normal="z", nearest=True, size=(sides[2], sides[1])).values.shape == sides[1:]
        assert volume.stats()["bytes_read"] <= 1.1 * sides[1] * sides[2]


def arrays(folder: Path, version: int) -> dict[str, np.ndarray[Any, Any]]:
    zarr = pytest.importorskip("zarr")
    made = {"u": noise((40, 60, 250), "u2"), "v": noise((40, 60, 250), "u2")}
    group = zarr.open_group(folder, mode="w", zarr_format=version)
    for name, data in made.items():
        array = group.create_array(name, shape=data.shape, dtype=data.dtype, chunks=(16, 32, 64))
        array[...] = data
    return made


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("top", ["", "a.zarr/"])
def test_stores_in_zip_files(version: int, method: int, top: str, tmp_path: Path) -> None:
    made = arrays(tmp_path / "a.zarr", version)
    with zipfile.ZipFile(tmp_path / "b.zarr.zip", "w", method) as file:
        for inside in sorted((tmp_path / "a.zarr").rglob("*")):
            if inside.is_file():
                file.write(inside, f"{top}{inside.relative_to(tmp_path / 'a.zarr')}")
    for name, data in made.items():
        with ff.open(f"{tmp_path}/b.zarr.zip::{name}", volume={}) as volume:
            assert np.array_equal(volume[5:30, 3:50:2], data[5:30, 3:50:2])
            # Chunks are read in the zip file.
            assert volume._description.reads == (f"{tmp_path}/b.zarr.zip",)
    with pytest.raises(
        UnknownName, match=r"b\.zarr\.zip: no array named 'w'; there are: 0 \(u, 40 x 60 x 250 uint16\), 1 \(v"
    ):
        ff.open(f"{tmp_path}/b.zarr.zip::w")


def test_shards_in_zip_files(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    data = noise((60, 220, 250), "u2")
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=data.shape, dtype=data.dtype, chunks=(16, 16, 16), shards=(32, 32, 64), fill_value=0
    )
    array[:, :, 64:] = data[:, :, 64:]
    data[:, :, :64] = 0
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for inside in (tmp_path / "a.zarr").rglob("*"):
            if inside.is_file():
                file.write(inside, str(inside.relative_to(tmp_path / "a.zarr")))
    with ff.open(tmp_path / "a.zip") as volume:
        assert np.array_equal(volume[...], data)
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    at = raw.rindex(b"PK\x03\x04") - 30  # in the index at the end of a shard
    raw[at] ^= 1
    (tmp_path / "b.zip").write_bytes(raw)
    with pytest.raises(DataError, match=r"b\.zip: the index of the shard .* is damaged"):
        ff.open(tmp_path / "b.zip")


def test_groups_list_their_arrays(tmp_path: Path, there: Look) -> None:
    made = arrays(tmp_path / "a.zarr", 3)
    for name, data in (("u", made["u"]), ("1", made["v"])):
        assert np.array_equal(there(f"{tmp_path}/a.zarr::{name}").numbers(), data)
    with ff.open(tmp_path / "a.zarr") as volume:
        assert [c["name"] for c in volume.info()["contents"]] == ["u", "v"]


def ome(folder: Path, image: dict[str, Any] | list[dict[str, Any]], version: str = "0.6") -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(folder, mode="w", zarr_format=3)
    data = noise((4, 5, 6))
    for name, part in (("0", data), ("b", data + 1)):
        group.create_array(name, shape=part.shape, dtype=part.dtype)[...] = part
    images = image if isinstance(image, list) else [image]
    group.attrs["ome"] = {"version": version, "multiscales": images}


AXES = [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"]
SYSTEM = [{"name": "scanner", "axes": AXES}]


def image_06(*steps: dict[str, Any]) -> dict[str, Any]:
    chain = {"type": "sequence", "transformations": list(steps), "input": "0", "output": "scanner"}
    return {"coordinateSystems": SYSTEM, "datasets": [{"path": "0", "coordinateTransformations": [chain]}]}


TURN = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("steps", "index", "position"),
    [
        (
            [{"type": "scale", "scale": [3, 2, 1]}, {"type": "translation", "translation": [5, 6, 7]}],
            (1, 1, 1),
            (8, 8, 8),
        ),
        ([{"type": "rotation", "rotation": TURN}], (0, 2, 1), (2, 0, 1)),
        ([{"type": "affine", "affine": [[3, 0, 0, 1], [0, 0, 2, 2], [0, 1, 0, 3]]}], (1, 0, 0), (3, 4, 1)),
        ([{"type": "mapAxis", "mapAxis": [0, 2, 1]}], (4, 2, 1), (2, 4, 1)),
        ([{"type": "mapAxis", "mapAxis": {"z": "z", "y": "x", "x": "y"}}], (4, 2, 1), (2, 4, 1)),
        (
            [
                {
                    "type": "byDimension",
                    "transformations": [
                        {"type": "scale", "scale": [4.0], "input": ["z"], "output": ["z"]},
                        {"type": "translation", "translation": [1.0, 2.0], "input": ["y", "x"], "output": ["y", "x"]},
                    ],
                }
            ],
            (0, 0, 1),
            (2, 1, 4),
        ),
        ([{"type": "inverseOf", "transformation": {"type": "scale", "scale": [2, 4, 0.5]}}], (4, 8, 2), (8, 2, 1)),
        (
            [
                {
                    "type": "bijection",
                    "forward": {"type": "scale", "scale": [2, 4, 0.5]},
                    "inverse": {"type": "scale", "scale": [0.5, 0.25, 2]},
                }
            ],
            (4, 2, 1),
            (2, 8, 2),
        ),
    ],
)
def test_systems_of_coordinates(
    steps: list[dict[str, Any]],
    index: tuple[int, int, int],
    position: tuple[int, int, int],
    tmp_path: Path,
    there: Look,
) -> None:
    ome(tmp_path / "a.zarr", image_06(*steps))
    found = there(tmp_path / "a.zarr")
    assert np.allclose(found.affine @ [*index, 1], [*position, 1]) and found.spec["length_unit"] == "um"


@pytest.mark.parametrize(
    "step", [{"type": "displacements"}, {"type": "scale", "scale": [0, 1, 1]}, {"type": "rotation"}]
)
def test_transformations_that_are_none(step: dict[str, Any], tmp_path: Path, there: Look) -> None:
    ome(tmp_path / "a.zarr", image_06(step))
    with pytest.raises(DataError, match=r"its (transformation|scale|rotation)"):
        there(tmp_path / "a.zarr")


def test_axes_of_other_types_are_counted(tmp_path: Path, there: Look) -> None:
    axes = [{"name": "turn", "type": "angle"}, *AXES[1:]]
    at = [{"type": "scale", "scale": [1, 1, 1]}]
    ome(tmp_path / "a.zarr", [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": at}]}], "0.5")
    found = there(tmp_path / "a.zarr")
    assert found.level["dims"] == [6, 5, 1] and "its axis 'turn' (angle) is taken as t" in found.guessed
    assert np.array_equal(found.numbers(step=3)[0], noise((4, 5, 6))[3])


def test_images_in_one_place_have_names(tmp_path: Path, there: Look) -> None:
    at = [{"type": "scale", "scale": [1, 1, 1]}]
    scales = [
        {"name": name, "axes": AXES, "datasets": [{"path": path, "coordinateTransformations": at}]}
        for name, path in (("raw", "0"), ("mask", "b"))
    ]
    ome(tmp_path / "a.zarr", scales, "0.5")
    assert np.array_equal(there(f"{tmp_path}/a.zarr::mask").numbers(), noise((4, 5, 6)) + 1)
    assert np.array_equal(there(f"{tmp_path}/a.zarr::raw").numbers(), noise((4, 5, 6)))
    assert np.array_equal(there(f"{tmp_path}/a.zarr::1").numbers(), noise((4, 5, 6)) + 1)
    with pytest.raises(UnknownName, match=r"no image named 'other'; there are: 0 \(raw.*1 \(mask"):
        there(f"{tmp_path}/a.zarr::other")


@pytest.mark.parametrize(
    ("ways", "anatomy"),
    [
        (("inferior-to-superior", "anterior-to-posterior", "right-to-left"), "LPS"),
        (("superior-to-inferior", "posterior-to-anterior", "left-to-right"), "RAI"),
        (("left-to-right", "anterior-to-posterior", "inferior-to-superior"), "SPR"),
        (("left-to-right", None, "inferior-to-superior"), None),
        (("dorsal-to-ventral", "anterior-to-posterior", "left-to-right"), None),
        (("left-to-right", "right-to-left", "inferior-to-superior"), None),
    ],
)
def test_orientation_of_axes(ways: tuple[str | None, ...], anatomy: str | None, tmp_path: Path, there: Look) -> None:
    axes = [
        {**axis, **({"orientation": {"type": "anatomical", "value": way}} if way else {})}
        for axis, way in zip(AXES, ways, strict=True)
    ]
    ome(tmp_path / "a.zarr", {"axes": axes, "datasets": [{"path": "0"}]}, "0.5")
    found = there(tmp_path / "a.zarr")
    assert found.spec["anatomy"] == anatomy and ("orientation of its axes" in found.guessed) == (anatomy is None)


def test_words_of_arrays_say_labels(tmp_path: Path, there: Look) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["scan"] = noise((4, 5, 6))
        file["tissue_labels"] = noise((4, 5, 6))
    assert there(f"{tmp_path}/a.h5::scan").spec["kind"] == "scalar"
    assert there(f"{tmp_path}/a.h5::tissue_labels").spec["kind"] == "labels"


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        ("a.sgy", b"\xc3\x40\xf1\x40" * 800, "SEG-Y .*mdio"),
        ("a.grib2", b"GRIB\0\0\0\2", "GRIB .*cdo"),
        ("bulletin", b"\x01\r\r\n012\r\r\nTTAA00 EDZW 000000\r\r\nGRIB\0\0\x10\1", "GRIB .*cdo"),
        ("b.grb", b"padding".ljust(600), "GRIB .* by its name.*cdo"),
        ("a.fits", b"SIMPLE  =                    T".ljust(2880), "FITS, .*astropy"),
        ("pre/info", b'{"data_type": "uint8", "scales": []}', "precomputed volume of Neuroglancer.*tensorstore"),
    ],
)
def test_formats_of_others_are_named(name: str, start: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(start + bytes(4000))
    for source in {file, file.parent if name == "pre/info" else file}:
        with pytest.raises(DataError, match=said):
            ff.open(source)


def test_numbers_in_fits_are_read_as_raw(tmp_path: Path) -> None:
    data = noise((4, 5, 6), ">f4")
    cards = ["SIMPLE  = T", "BITPIX  = -32", "NAXIS   = 3", "NAXIS1  = 6", "NAXIS2  = 5 / rows", "NAXIS3  = 4", "END"]
    header = "".join(card.ljust(80) for card in cards).ljust(2880).encode()
    (tmp_path / "a.fits").write_bytes(header + data.tobytes())
    with pytest.raises(DataError) as error:
        ff.open(tmp_path / "a.fits")
    words = str(error.value).split("--raw '")[1].split("'")[0]
    given = dict(word.split("=") for word in words.split())
    with ff.open(tmp_path / "a.fits", volume={k.replace("-", "_"): v for k, v in given.items()}) as volume:
        assert np.array_equal(volume[...], data)


@pytest.mark.parametrize("kind", ["dcm", "png"])
def test_slices_that_are_compressed_one_by_one_are_named(kind: str, tmp_path: Path) -> None:
    """In a folder and by a pattern; one of them is a volume."""
    for n in range(3):
        if kind == "png":
            Image.new("L", (8, 9), n).save(tmp_path / "a.png")
        else:
            put(
                tmp_path / "a.dcm",
                header(InstanceNumber=n + 1, ImagePositionPatient=[1, 2, 3 + n]),
                noise((6, 8), "u2"),
            )
        packed = gzip.compress((tmp_path / f"a.{kind}").read_bytes())
        (tmp_path / f"a.{kind}").unlink()
        (tmp_path / f"{n}.{kind}.gz").write_bytes(packed)
    for source in (tmp_path, f"{tmp_path}/*.gz"):
        with pytest.raises(
            DataError, match=rf"compressed one by one \(0\.{kind}\.gz with gzip\).*gunzip -k .*0\.{kind}\.gz"
        ):
            ff.open(source)
    with ff.open(tmp_path / f"0.{kind}.gz") as volume:
        assert volume.shape[0] == 1
