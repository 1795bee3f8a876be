"""Zarr stores of anyone, against zarr-python."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

import fake_volume
import farfield as ff
from farfield.errors import DataError, FarfieldError, UnknownName, UsageError
from volume_files import Read, look

Look = Callable[..., Read]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Reads, with the stand-in for coordinates too."""
    fake_volume.stand_in(monkeypatch)
    return lambda path, **options: look(path, tmp_path / "cache", **options)


def blobs(shape: tuple[int, ...], dtype: str = "uint16") -> np.ndarray[Any, Any]:
    grids = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    return np.asarray(1000 * np.exp(-sum(g * g for g in grids))).astype(dtype)


V2 = [
    None, numcodecs.Zstd(), numcodecs.GZip(), numcodecs.Zlib(), numcodecs.LZ4(), numcodecs.BZ2(), numcodecs.Blosc("lz4"),
    numcodecs.Blosc("zstd", shuffle=2), numcodecs.Blosc("blosclz", shuffle=1),
]  # fmt: skip


@pytest.mark.parametrize(
    "compressor", V2, ids=lambda c: "none" if c is None else f"{c.codec_id}-{getattr(c, 'cname', '')}"
)
@pytest.mark.parametrize("dtype", ["|u1", ">i2", "<f4", ">f8", "<i8"])
def test_v2(compressor: Any, dtype: str, tmp_path: Path, there: Look) -> None:
    data = blobs((11, 13, 17), dtype)
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=data.shape, chunks=(4, 5, 8), dtype=dtype, compressors=compressor, zarr_format=2,
        filters=[numcodecs.Shuffle(np.dtype(dtype).itemsize)] if dtype == "<i8" else None, order="F" if dtype == "<f4" else "C",
    )  # fmt: skip
    made[...] = data
    assert np.array_equal(there(tmp_path / "a.zarr").numbers(), data)


@pytest.mark.parametrize("codecs", ["zstd", "gzip", "blosc", "none"])
@pytest.mark.parametrize("sharded", [False, True])
def test_v3(codecs: str, sharded: bool, tmp_path: Path, there: Look) -> None:
    data = blobs((2, 9, 12, 10), "float32")
    codec = {"zstd": zarr.codecs.ZstdCodec(), "gzip": zarr.codecs.GzipCodec(), "blosc": zarr.codecs.BloscCodec()}.get(
        codecs
    )
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=data.shape, chunks=(1, 3, 4, 5), shards=(2, 6, 8, 10) if sharded else None, dtype="float32",
        compressors=codec, dimension_names=["time", "z", "y", "x"], fill_value=np.nan,
    )  # fmt: skip
    made[...] = data
    made[:, :3, :4, :5] = np.nan
    found = there(tmp_path / "a.zarr")
    assert found.array["axes"] == "tzyx" and found.array["fill"] == "NaN" and "steps are counted" in found.guessed
    assert np.array_equal(found.numbers(step=1), made[1], equal_nan=True)


def test_transposed_chunks(tmp_path: Path, there: Look) -> None:
    data = blobs((5, 6, 7))
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=data.shape, chunks=(2, 3, 4), dtype="uint16",
        filters=[zarr.codecs.TransposeCodec(order=(2, 0, 1))],
    )  # fmt: skip
    made[...] = data
    found = there(tmp_path / "a.zarr")
    assert found.array["order"] == [2, 0, 1] and np.array_equal(found.numbers(), data)


@pytest.mark.parametrize(
    "codec", [numcodecs.Quantize(3, "<f4"), numcodecs.BitRound(8), numcodecs.Fletcher32()], ids=lambda c: c.codec_id
)
def test_codecs_that_round_or_check(codec: Any, tmp_path: Path, there: Look) -> None:
    made = zarr.create_array(
        tmp_path / "a", shape=(9, 10, 11), chunks=(4, 5, 6), dtype="<f4", zarr_format=2, filters=[codec],
        compressors=numcodecs.Zlib(),
    )  # fmt: skip
    made[...] = np.random.default_rng(3).normal(size=(9, 10, 11)).astype("f4")
    assert np.array_equal(there(tmp_path / "a").numbers(), made[...])


ODD = {
    "fixedscaleoffset": ("<f4", [numcodecs.FixedScaleOffset(0, 10, "<f4", "<i2")], None),
    "packbits": ("|b1", [numcodecs.PackBits()], numcodecs.Zlib()),
    "lzma": (">i4", None, numcodecs.LZMA()),
}


@pytest.mark.parametrize("name", ODD)
def test_codecs_that_only_zarr_python_has(name: str, tmp_path: Path, there: Look) -> None:
    dtype, filters, compressor = ODD[name]
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(9, 10, 11), chunks=(4, 5, 6), dtype=dtype, zarr_format=2, order="F",
        filters=filters, compressors=compressor, fill_value=0,
    )  # fmt: skip
    made[:5] = np.random.default_rng(3).integers(0, 2, (5, 10, 11))
    found = there(tmp_path / "a.zarr")
    assert np.array_equal(found.numbers(), made[...]) and f"not decoded in place ({name})" in found.said[0]
    made[8] = 1
    found = there(tmp_path / "a.zarr")
    assert np.array_equal(found.numbers(), made[...]) and found.said  # not what the cache had
    (tmp_path / "a.zarr" / "0.0.0").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"a\.zarr: a chunk of it cannot be decoded by zarr-python"):
        there(tmp_path / "a.zarr")


def test_shards_in_shards(tmp_path: Path, there: Look) -> None:
    inner = zarr.codecs.ShardingCodec(chunk_shape=(2, 2, 2))
    made = zarr.create(
        store=str(tmp_path / "a"), shape=(8, 8, 8), chunks=(4, 4, 4), dtype="u2", zarr_format=3, codecs=[inner]
    )
    made[...] = np.arange(512).reshape(8, 8, 8)
    document = json.loads((tmp_path / "a" / "zarr.json").read_text())
    document["codecs"].insert(0, {"name": "transpose", "configuration": {"order": [0, 1, 2]}})
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(document))
    found = there(tmp_path / "a")
    assert np.array_equal(found.numbers(), made[...]) and "sharding_indexed" in found.said[0]


def test_codecs_that_are_not_there_are_named(tmp_path: Path, there: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 8, 8), chunks=(4, 4, 4), dtype="float32", zarr_format=2,
        filters=[numcodecs.FixedScaleOffset(0, 10, "<f4", "<i2")],
    )  # fmt: skip
    said = r"\.zarray: the codec 'fixedscaleoffset'.* is not one that Farfield decodes.*copy"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "zarr", None)
        with pytest.raises(DataError, match=said + ".*pip install zarr"):
            there(tmp_path / "a.zarr")
    document = tmp_path / "a.zarr" / ".zarray"
    document.write_text(document.read_text().replace("fixedscaleoffset", "of_nobody"))
    with pytest.raises(DataError, match=r"of_nobody.*zarr-python does not read it, either"):
        there(tmp_path / "a.zarr")


def test_fixture_of_zarr_python(tmp_path: Path, there: Look) -> None:
    """Every array of a real collection reads as zarr-python reads it, or says why not."""
    archive = Path(os.environ.get("FARFIELD_DATA", "")) / "zarr" / "zarr-python-2.18.3_fixture.tar.xz"
    if not archive.is_file():
        pytest.skip("FARFIELD_DATA does not name a folder that has it")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    folders = sorted(p.parent for p in tmp_path.rglob(".zarray"))
    refused = []
    for folder in folders:
        try:
            found = there(folder)
        except DataError as error:
            text = json.loads((folder / ".zarray").read_text())["dtype"]
            assert str(folder) in str(error) and np.dtype(text).kind in "SU"
            refused.append(folder)
            continue
        want = zarr.open(folder, mode="r")[...]
        # One that is not a volume is read all the same: along the dimensions that it has.
        got = np.stack([found.numbers(step=n) for n in range(want.shape[0])]) if want.ndim == 4 else found.numbers()
        assert np.array_equal(got.reshape(want.shape), want, equal_nan=want.dtype.kind == "f"), folder
    assert len(folders) == 173 and len(refused) == 14


def ome(folder: Path, version: str, data: np.ndarray[Any, Any], **more: Any) -> None:
    """An image of two levels with scale and translation at both places."""
    root = zarr.create_group(folder, zarr_format=3 if version == "0.5" else 2)
    for n, level in enumerate((data, data[..., ::2, ::2, ::2])):
        made = root.create_array(str(n), shape=level.shape, chunks=(1, 4, 8, 8), dtype=level.dtype)
        made[...] = level
    scale = [
        {"type": "scale", "scale": [1, 4.0, 0.5, 0.25]},
        {"type": "translation", "translation": [0, 1.0, 2.0, 3.0]},
    ]
    half = [
        {"type": "scale", "scale": [1, 8.0, 1.0, 0.5]},
        {"type": "translation", "translation": [0, 3.0, 2.25, 3.125]},
    ]
    image = {
        "axes": [{"name": "c", "type": "channel"}]
        + [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"],
        "datasets": [
            {"path": "0", "coordinateTransformations": scale},
            {"path": "1", "coordinateTransformations": half},
        ],
        "coordinateTransformations": [{"type": "scale", "scale": [1, 2.0, 2.0, 2.0]}],
    }
    about = {"multiscales": [image], **more}
    root.attrs.update({"ome": {"version": "0.5", **about}} if version == "0.5" else about)


OMERO = {
    "channels": [
        {"label": "nuclei", "color": "0000FF", "window": {"start": 10, "end": 900, "min": 0, "max": 65535}},
        {"label": "actin", "color": "FF8000", "window": {"min": 0, "max": 65535}},
    ]
}


@pytest.mark.parametrize("components", [3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_components_that_stand_together_are_colours(components: int, dtype: str, tmp_path: Path, there: Look) -> None:
    data = blobs((6, 8, 10, components), dtype)
    root = zarr.create_group(tmp_path / "a.zarr")
    made = root.create_array("0", shape=data.shape, chunks=(4, 4, 8, components), dtype=dtype)
    made[...] = data
    axes = [{"name": n, "type": "space"} for n in "zyx"] + [{"name": "c", "type": "channel"}]
    scale = [{"type": "scale", "scale": [2.0, 1.0, 1.0, 1.0]}]
    image = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    colours = {3: "rgb", 4: "rgba"}[components] if dtype == "uint8" else "channels"
    for more in ({}, {"omero": {"channels": []}}):
        root.attrs["ome"] = {"version": "0.5", "multiscales": [image], **more}
        found = there(tmp_path / "a.zarr")
        assert found.spec["kind"] == colours and ("taken as a colour" in found.guessed) == (dtype == "uint8")
        assert all(np.array_equal(found.numbers(c), data[..., c]) for c in range(components))
        assert there(tmp_path / "a.zarr", kind="channels").spec["kind"] == "channels"
    named = {"channels": [{"label": f"probe {n}"} for n in range(components)]}
    root.attrs["ome"] = {"version": "0.5", "multiscales": [image], "omero": named}
    found = there(tmp_path / "a.zarr")
    assert found.spec["kind"] == "channels" and found.spec["channels"][1]["name"] == "probe 1"
    # An array by itself, with names of its dimensions and without.
    for names in (["z", "y", "x", "channel"], None):
        plain = zarr.create_array(
            tmp_path / f"{names}.zarr", shape=data.shape, chunks=data.shape, dtype=dtype, dimension_names=names
        )
        plain[...] = data
        assert there(tmp_path / f"{names}.zarr").spec["kind"] == {3: "rgb", 4: "rgba"}[components]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr(version: str, tmp_path: Path, there: Look) -> None:
    data = blobs((2, 6, 16, 20))
    ome(tmp_path / "a.zarr", version, data, omero=OMERO)
    found = there(tmp_path / "a.zarr")
    spec = found.spec
    assert spec["kind"] == "channels" and spec["length_unit"] == "um" and spec["format"] == f"OME-Zarr {version}"
    assert spec["channels"][0] == {"name": "nuclei", "units": "1", "color": "#0000ff", "limits": [10, 900]}
    assert spec["channels"][1]["color"] == "#ff8000" and spec["channels"][1]["limits"] == [0, 65535]
    first, second = spec["levels"]
    assert first["spacing"] == [0.5, 1, 8] and first["origin"] == [6, 4, 2]
    assert second["spacing"] == [1, 2, 16] and second["origin"] == [6.25, 4.5, 6] and second["dims"] == [10, 8, 3]
    assert np.array_equal(found.numbers(1), data[1]) and np.array_equal(
        found.numbers(1, level=1), data[1, ::2, ::2, ::2]
    )


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("said", ["the first one's", "none"])
def test_levels_that_all_say_the_same_scale(said: str, version: str, tmp_path: Path, there: Look) -> None:
    """As some writers leave it: each level covers the first one's extent all the same."""
    data = blobs((2, 6, 16, 20))
    ome(tmp_path / "a.zarr", version, data)
    root = zarr.open_group(tmp_path / "a.zarr", mode="r+")
    about = dict(root.attrs["ome"] if version == "0.5" else root.attrs)
    image = about["multiscales"][0]
    for dataset in image["datasets"]:
        dataset["coordinateTransformations"] = (
            [] if said == "none" else [{"type": "scale", "scale": [1, 4.0, 0.5, 0.25]}]
        )
    image.pop("coordinateTransformations")
    root.attrs.update({"ome": about} if version == "0.5" else about)
    found = there(tmp_path / "a.zarr")
    z, y, x = (1, 1, 1) if said == "none" else (4, 0.5, 0.25)
    first, second = found.spec["levels"]
    assert first["spacing"] == [x, y, z] and first["origin"] == [0, 0, 0]
    assert second["spacing"] == [2 * x, 2 * y, 2 * z] and second["origin"] == [x / 2, y / 2, z / 2]
    assert ("nothing says how large" if said == "none" else "its level '1' says") in found.guessed


def test_levels_of_other_lengths_are_refused(tmp_path: Path, there: Look) -> None:
    ome(tmp_path / "a.zarr", "0.5", blobs((2, 6, 16, 20)))
    root = zarr.open_group(tmp_path / "a.zarr", mode="r+")
    about = dict(root.attrs["ome"])
    about["multiscales"][0]["datasets"][1]["coordinateTransformations"][0]["scale"] = [1, 8.0, 1.0, 2.0]
    root.attrs["ome"] = about
    with pytest.raises(
        DataError, match=r"coordinateTransformations the level '1' is 40 long along x, and the first 10"
    ):
        there(tmp_path / "a.zarr")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_levels_that_are_listed_in_another_order(version: str, tmp_path: Path, there: Look) -> None:
    data = blobs((2, 6, 16, 20))
    ome(tmp_path / "a.zarr", version, data)
    document = tmp_path / "a.zarr" / ("zarr.json" if version == "0.5" else ".zattrs")
    about = json.loads(document.read_text())
    inner = about["attributes"]["ome"] if version == "0.5" else about
    inner["multiscales"][0]["datasets"].reverse()
    document.write_text(json.dumps(about))
    found = there(tmp_path / "a.zarr")
    assert found.level["spacing"] == [0.5, 1, 8] and np.array_equal(found.numbers(1), data[1])
    assert "levels are not listed from the finest" in found.guessed and len(found.spec["levels"]) == 2


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_group_of_images(version: str, tmp_path: Path, there: Look) -> None:
    form: Any = 3 if version == "0.5" else 2
    about: dict[str, Any] = {"labels": ["cells"]}
    made = zarr.create_group(tmp_path / "labels", zarr_format=form)
    made.attrs.update({"ome": {"version": "0.5", **about}} if version == "0.5" else about)
    ome(tmp_path / "labels" / "cells", version, blobs((1, 4, 8, 8), "int64"), **{"image-label": {}})
    found, meant = there(tmp_path / "labels"), there(tmp_path / "labels" / "cells")
    assert found.spec["levels"] == meant.spec["levels"] and found.spec["kind"] == meant.spec["kind"]
    assert found.level["spacing"] != [1, 1, 1]
    ome(tmp_path / "labels" / "nuclei", version, blobs((1, 4, 8, 8), "int64"))
    with pytest.raises(UsageError, match=r"labels: this group holds 2 images; name one of them: .*cells, .*nuclei$"):
        there(tmp_path / "labels")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_level_by_itself_lies_where_its_image_has_it(version: str, tmp_path: Path, there: Look) -> None:
    data = blobs((2, 6, 16, 20))
    ome(tmp_path / "a.zarr", version, data, omero=OMERO)
    whole = there(tmp_path / "a.zarr")
    for n in range(2):
        for source in (tmp_path / "a.zarr" / str(n), f"{tmp_path}/a.zarr::{n}"):
            found = there(source)
            assert len(found.spec["levels"]) == 1 and found.level["spacing"] == whole.spec["levels"][n]["spacing"]
            assert found.level["origin"] == whole.spec["levels"][n]["origin"]
            assert found.spec["channels"] == whole.spec["channels"] and found.spec["length_unit"] == "um"
            step = 2**n
            assert np.array_equal(found.numbers(1), data[1, ::step, ::step, ::step])
            assert f"it is the level '{n}' of an image, which {tmp_path / 'a.zarr'} shows with all" in found.guessed
    # What nobody can make sense of is no reason to refuse the numbers.
    document = tmp_path / "a.zarr" / ("zarr.json" if version == "0.5" else ".zattrs")
    document.write_text(document.read_text().replace('"scale"', '"affine"'))
    found = there(tmp_path / "a.zarr" / "0")
    assert found.array["axes"] == "tzyx" and "is of no use" in found.guessed and "its affine" in found.guessed


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_row_of_a_plate(version: str, tmp_path: Path, there: Look) -> None:
    """It says nothing itself, and its images do."""
    form: Any = 3 if version == "0.5" else 2
    data = blobs((2, 6, 16, 20))
    zarr.create_group(tmp_path / "p.zarr" / "A", zarr_format=form).create_group("1")
    ome(tmp_path / "p.zarr" / "A" / "1" / "0", version, data)
    found = there(tmp_path / "p.zarr" / "A")
    assert found.spec["levels"] == there(tmp_path / "p.zarr" / "A" / "1" / "0").spec["levels"]
    assert np.array_equal(found.numbers(1), data[1])
    ome(tmp_path / "p.zarr" / "A" / "1" / "1", version, data)
    with pytest.raises(UsageError, match=r"A: this group holds 2 images; name one of them: .*A/1/0, .*A/1/1"):
        there(tmp_path / "p.zarr" / "A")


def test_labels_of_an_image(tmp_path: Path, there: Look) -> None:
    ome(tmp_path / "a.zarr", "0.4", blobs((1, 4, 8, 8), "int64"), **{"image-label": {"version": "0.4"}})
    assert there(tmp_path / "a.zarr").spec["kind"] == "labels"


def test_missing_level_is_named(tmp_path: Path, there: Look) -> None:
    import shutil

    ome(tmp_path / "a.zarr", "0.5", blobs((2, 6, 16, 20)))
    shutil.rmtree(tmp_path / "a.zarr" / "1")
    with pytest.raises(DataError, match=r"a\.zarr/1: this level of .* is not there"):
        there(tmp_path / "a.zarr")


def test_several_images(tmp_path: Path, there: Look) -> None:
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    root.attrs["bioformats2raw.layout"] = 3
    ome(tmp_path / "a.zarr" / "0", "0.4", blobs((1, 4, 8, 8)))
    assert there(tmp_path / "a.zarr").level["dims"] == [8, 8, 4]
    ome(tmp_path / "a.zarr" / "1", "0.4", blobs((1, 4, 8, 8)))
    with pytest.raises(UsageError, match=r"holds 2 images; name one of them: .*a\.zarr/0, .*a\.zarr/1"):
        there(tmp_path / "a.zarr")


def test_plates_name_their_images(tmp_path: Path, there: Look) -> None:
    root = zarr.create_group(tmp_path / "p.zarr", zarr_format=2)
    root.attrs["plate"] = {"wells": [{"path": "A/1"}, {"path": "A/2"}]}
    with pytest.raises(UsageError, match=r"a plate of 2 wells, not one image.*p\.zarr/A/1/0"):
        there(tmp_path / "p.zarr")


@pytest.mark.parametrize("about", [{"plate": []}, {"plate": {"wells": 5}}, {"well": "A/1"}, {"well": {"images": [1]}}])
def test_plates_and_wells_that_make_no_sense(about: dict[str, Any], tmp_path: Path, there: Look) -> None:
    zarr.create_group(tmp_path / "p.zarr", zarr_format=2, attributes=about)
    with pytest.raises(UsageError, match=r"p\.zarr: this is a (plate of 0 wells|well of \d images), not one image"):
        there(tmp_path / "p.zarr")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
def test_stores_of_xarray(version: int, consolidated: bool, tmp_path: Path, there: Look) -> None:
    xarray = pytest.importorskip("xarray")
    data = blobs((3, 5, 6, 8), "float64") / 7
    data[1, 2, 3, 4] = np.nan
    made = xarray.Dataset(
        {"temperature": (("time", "depth", "lat", "lon"), data, {"units": "degC", "long_name": "sea temperature"})},
        coords={
            "time": ("time", [0.0, 6.0, 12.0], {"units": "hours since 2000-01-01"}),
            "depth": ("depth", np.arange(5) * 10.0, {"units": "m", "positive": "down"}),
            "lat": ("lat", 60 - 0.25 * np.arange(6, dtype="f4"), {"units": "degrees_north"}),
            "lon": ("lon", 10 + 0.5 * np.arange(8), {"units": "degrees_east"}),
        },
    )
    packing = {"temperature": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 5.0, "_FillValue": -32768}}
    made.to_zarr(tmp_path / "a.zarr", zarr_format=version, consolidated=consolidated, encoding=packing)
    found = there(tmp_path / "a.zarr")
    spec = found.spec
    assert spec["times"] == [0, 6, 12] and spec["time_units"] == "hours since 2000-01-01"
    assert (
        found.array["axes"] == "tzyx"
        and found.level["spacing"] == [0.5, 0.25, 10]
        and found.level["origin"] == [10, 60, 0]
    )
    assert spec["direction"][1] == [0, -1, 0] and spec["length_unit"] == "1" and "z is in m" in found.guessed
    channel = spec["channels"][0]
    assert channel["name"] == "sea temperature" and channel["units"] == "degC" and channel["scale"] == [0.01, 5.0]
    assert channel["missing"] == -32768
    stored = found.numbers(step=1)
    assert stored[2, 3, 4] == -32768 and abs(stored[0, 0, 0] * 0.01 + 5 - data[1, 0, 0, 0]) <= 0.0051
    assert np.array_equal(there(f"{tmp_path}/a.zarr::temperature").numbers(), found.numbers())
    with pytest.raises(UnknownName, match=r"no array named 'salinity'; there are: .*temperature"):
        there(f"{tmp_path}/a.zarr::salinity")


def test_uneven_coordinates_are_a_zone(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    values = blobs((4, 5, 6), "float32")
    made = xarray.Dataset({"u": (("level", "y", "x"), values)}, coords={"level": ("level", [1.0, 2.0, 5.0, 10.0])})
    made.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    with ff.open(tmp_path / "a.zarr") as found:
        # Halfway between the levels 5 and 10, where voxels evenly apart would be elsewhere.
        between = found.probe((3, 2, 7.5))
        assert between.values["u"] == pytest.approx((values[2, 2, 3] + values[3, 2, 3]) / 2)
        assert any("x and y count cells" in sentence for sentence in found.info()["guessed"])


def test_the_largest_array_is_shown(tmp_path: Path, there: Look) -> None:
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("small", shape=(2, 3, 4), dtype="uint8")
    root.create_array("deep/large", shape=(8, 8, 8), dtype="uint8")
    found = there(tmp_path / "a.zarr")
    assert found.array["name"] == "large" and "2 arrays (small, deep/large)" in found.guessed
    assert there(f"{tmp_path}/a.zarr::small").array["name"] == "small"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("shape", [8, -1, 8], "'shape' is .* should be whole numbers"),
        ("shape", [8, 1 << 40, 8], "more than any file holds"),
        (
            "chunks",
            [2048, 2048, 2048],
            r"chunks of 2048 x 2048 x 2048 numbers, .* GiB each.*write it again in chunks of about",
        ),
        ("chunks", [0, 4, 4], "'chunks' is"),
        ("chunks", [4, 4], "'chunks' has 2 numbers for 3 dimensions"),
        ("dtype", "<c8", "complex64"),
        ("dtype", [["a", "<i4"]], "records"),
        ("compressor", {"level": 3}, "no 'id'"),
        ("fill_value", "many", "'fill_value' is 'many'"),
        ("dimension_separator", "-", "'dimension_separator'"),
        ("zarr_format", 7, "'zarr_format'"),
    ],
)
def test_damaged_metadata(key: str, value: object, message: str, tmp_path: Path, there: Look) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(8, 8, 8), chunks=(4, 4, 4), dtype="int32", zarr_format=2)
    document = tmp_path / "a.zarr" / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_text()), key: value}))
    with pytest.raises(FarfieldError, match=message) as caught:
        there(tmp_path / "a.zarr")
    assert "a.zarr" in str(caught.value)


def test_large_fill_values_are_not_rounded(tmp_path: Path, there: Look) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 4, 4), dtype="uint64", fill_value=2**63 + 1, zarr_format=3)
    assert there(tmp_path / "a.zarr").array["fill"] == 2**63 + 1


def test_an_array_holds_no_others(tmp_path: Path, there: Look) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(2, 3, 4), chunks=(2, 3, 4), dtype="i2")
    with pytest.raises(UnknownName, match="this is an array, and holds none named 'b'; leave ::b away"):
        there(f"{tmp_path}/a.zarr::b")
    assert there(f"{tmp_path}/a.zarr::/").level["dims"] == [4, 3, 2]


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_that_were_not_copied_along(version: Any, tmp_path: Path, there: Look) -> None:
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=version)
    for name in ("u", "deep/v"):
        root.create_array(name, shape=(5, 6, 7), chunks=(5, 6, 7), dtype="f4")
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    assert "not there" not in there(tmp_path / "a.zarr").guessed
    shutil.rmtree(tmp_path / "a.zarr" / "u")
    assert "its metadata name arrays that are not there: u" in there(tmp_path / "a.zarr").guessed
    shutil.rmtree(tmp_path / "a.zarr" / "deep")
    with pytest.raises(
        DataError, match=r"a\.zarr: its metadata name arrays that are not there: .*v; copy it again, whole"
    ):
        there(tmp_path / "a.zarr")


def test_many_tiny_pages_are_read_within_a_small_limit(tmp_path: Path) -> None:
    # In memory a page of 64 bytes takes a whole page of the system.
    data = np.random.default_rng(3).integers(0, 255, (64, 64, 64), dtype="u1")
    stored = zarr.create_array(
        str(tmp_path / "tiny.zarr"), shape=data.shape, chunks=(4, 4, 4), dtype="u1", compressors=None
    )
    stored[:] = data
    volume = ff.open(tmp_path / "tiny.zarr", memory_limit="4MiB")
    assert np.array_equal(volume._native.read_box(0, 0, (0, 0, 0), (64, 64, 64), 0), data)
