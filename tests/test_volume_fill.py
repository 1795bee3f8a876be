"""Chunks that were never written, and numbers that stand for no value, as they are read and counted: beside zarr-python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield as ff
from farfield.errors import DataError, UsageError
from farfield.scene.volumes import first_scene
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read
from running import Command


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("dtype", "fill"), [("uint64", 2**63 + 1), ("uint64", 2**64 - 1), ("int64", -(2**63) + 1)])
def test_large_fill_values_are_what_is_missing(tmp_path: Path, version: Any, dtype: str, fill: int) -> None:
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 4, 4), chunks=(4, 4, 4), dtype=dtype, fill_value=fill, zarr_format=version
    )
    array[:4] = 7
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        found = volume[:]
        assert found.dtype == dtype and np.array_equal(found, np.asarray(array[...]))


def test_what_is_missing_is_a_number_of_the_type_that_is_stored(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(8, 4, 4), chunks=(4, 4, 4), dtype="f4")
    array[...] = np.where(np.arange(128).reshape(8, 4, 4) % 3, 7, np.float32(1e20))
    with ff.open(tmp_path / "a.zarr", volume={"missing": 1e20}) as volume:
        assert volume.probe_ijk((1, 1, 1)).values["a.zarr"] != volume.probe_ijk((2, 1, 1)).values["a.zarr"] == 7
        assert np.isnan(volume.probe_ijk((1, 1, 1)).values["a.zarr"])


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_users_say_what_is_missing(dtype: str, tmp_path: Path) -> None:
    data = np.full((6, 6, 6), 20, dtype)
    data[:3], data[4, 4, 4] = -1, 30
    array = zarr.create_array(tmp_path / "a.zarr", shape=(6, 6, 6), chunks=(3, 3, 3), dtype=dtype)
    array[...] = data
    with ff.open(tmp_path / "a.zarr") as volume:
        assert volume.info(ranges=True)["channels"][0]["range"] == [-1, 30]
    ff.convert(tmp_path / "a.zarr", tmp_path / "plain.zarr", page=4)
    for source in ("a.zarr", "plain.zarr"):
        # Ranges that are known, in the cache and in the store, are of all numbers.
        with ff.open(tmp_path / source, volume={"missing": "-1"}) as volume:
            assert volume.channels[0].missing == -1
            assert np.isnan(next(iter(volume.probe_ijk((1, 1, 1)).values.values())))
            picture = ff.render(first_scene(volume, str(tmp_path / source)), tmp_path / "p.png", size=(64, 48))
            assert picture["maps"][volume.channels[0].name]["range"][0] > 19
    ff.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", volume={"missing": -1})
    with ff.open(tmp_path / "b.zarr") as volume:
        assert volume.channels[0].missing == -1
    for wrong in ("x", "nan", float("inf")):
        with pytest.raises(UsageError, match="--missing"):
            ff.open(tmp_path / "a.zarr", volume={"missing": wrong})


def lacking(path: Path, kind: str) -> np.ndarray[Any, Any]:
    """A volume of 8 chunks of which 2 were never written; where it has no form that is paged, it is converted first."""
    data = np.arange(512, dtype="u2").reshape(8, 8, 8)
    if kind.startswith("zarr"):
        numcodecs = pytest.importorskip("numcodecs")
        codec = numcodecs.LZMA() if kind == "zarr, converted" else numcodecs.Zlib()
        made: Any = zarr.create_array(
            path, shape=data.shape, chunks=(4, 4, 4), dtype="u2", fill_value=9, zarr_format=2, compressors=codec
        )
        made[:, :, 4:], made[:4, :, :4] = data[:, :, 4:], data[:4, :, :4]
        data[4:, :, :4] = 9
        return data
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        codec = "lzf" if kind == "hdf5, converted" else "gzip"
        made = file.create_dataset("a", data.shape, "u2", chunks=(4, 4, 4), fillvalue=9, compression=codec)
        made[:, :, 4:], made[:4, :, :4] = data[:, :, 4:], data[:4, :, :4]
    data[4:, :, :4] = 9
    return data


@pytest.mark.parametrize("kind", ["zarr", "zarr, converted", "hdf5", "hdf5, converted"])
def test_what_was_never_written_is_counted_wherever_it_lies(kind: str, tmp_path: Path, ff: Command) -> None:
    path = tmp_path / ("a.zarr" if kind.startswith("zarr") else "a.h5")
    data = lacking(path, kind)
    env = {"FARFIELD_CACHE_DIR": str(tmp_path / "cache")}
    done = ff("validate", path, "--json", env=env)
    assert json.loads(done.stdout)["never_written"] == 2 and ("converted once" in done.stderr) == ("conv" in kind)
    # What is converted is counted each time, from the cache too.
    iso = ("extract", "isosurface", path, "--value", "100", "-o", tmp_path / "a.ply")
    words = (
        ("render", path, "-o", tmp_path / "a.png", "--size", "64x48"),
        iso,
        ("extract", "slice", path, "--normal", "x", "--origin", "1,3,3", "-o", tmp_path / "b.png"),
        ("convert", path, tmp_path / "b.zarr"),
        ("probe", path, "--ijk", 2, 4, 6),
    )
    for command in words:
        assert re.search(r"^fill +. chunks? w.*format's fill value", ff(*command, env=env).stdout, re.MULTILINE), (
            command
        )
    assert json.loads(ff(*iso, "--json", env=env).stdout)["pages"]["never_written"] == 2
    assert np.array_equal(np.asarray(zarr.open_array(tmp_path / "b.zarr" / "0")[...]).reshape(8, 8, 8), data)


@pytest.mark.parametrize("ome", [False, True])
def test_chunks_that_no_fill_value_is_said_of_are_zero_and_counted(ome: bool, tmp_path: Path, ff: Command) -> None:
    """As zarr-python reads them; GDAL leaves them out."""
    store = tmp_path / "a.zarr"
    made = zarr.create_array(
        store / "0" if ome else store, shape=(8, 8, 8), chunks=(4, 4, 4), dtype="u2", fill_value=None, zarr_format=2
    )
    made[:4] = 300
    made[4:, :4, :4] = 7
    if ome:
        axes = [{"name": a, "type": "space"} for a in "zyx"]
        scale = [{"type": "scale", "scale": [1, 1, 1]}]
        datasets = [{"path": "0", "coordinateTransformations": scale}]
        zarr.create_group(store, zarr_format=2, attributes={"multiscales": [{"axes": axes, "datasets": datasets}]})
    said = re.compile(r"no fill value is said of '.*' \(null in \.zarray\).*read as 0, as zarr-python reads them")
    assert said.search("\n".join(json.loads(ff("info", store, "--json").stdout)["guessed"]))
    assert json.loads(ff("validate", store, "--json").stdout)["never_written"] == 3
    ff("convert", store, tmp_path / "b.zarr")
    expected = zarr.open_array(store / "0" if ome else store, mode="r")[...]
    assert np.count_nonzero(expected == 0) == 3 * 64
    assert np.array_equal(np.asarray(zarr.open_array(tmp_path / "b.zarr" / "0")[...]).reshape(8, 8, 8), expected)


@pytest.mark.parametrize("converted", [False, True])
def test_xarray_stores_without_a_fill_value_miss_nothing(converted: bool, tmp_path: Path) -> None:
    """Zeros of theirs are numbers."""
    from numcodecs import PackBits

    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(4, 4, 4), chunks=(2, 4, 4), dtype="?" if converted else "f4", fill_value=None, zarr_format=2,
        attributes={"_ARRAY_DIMENSIONS": ["z", "y", "x"]}, filters=[PackBits()] if converted else None,
    )  # fmt: skip
    array[0] = 1
    found = read(str(tmp_path / "a.zarr"), Options(), ReaderResources(tmp_path / "cache", None, None))
    assert found.spec["channels"][0].get("missing") is None


def test_shards_that_are_missing_are_counted_where_they_are_converted(tmp_path: Path, ff: Command) -> None:
    from zarr.codecs import BytesCodec, ShardingCodec

    inner = ShardingCodec(chunk_shape=(2, 2, 2), codecs=[BytesCodec()])
    made: Any = zarr.create(
        store=tmp_path / "a.zarr",
        shape=(8, 8, 6),
        chunks=(4, 4, 4),
        dtype="u2",
        fill_value=9,
        zarr_format=3,
        codecs=[ShardingCodec(chunk_shape=(4, 4, 4), codecs=[inner])],
    )
    made[:4] = 1
    env = {"FARFIELD_CACHE_DIR": str(tmp_path / "cache")}
    done = ff("validate", tmp_path / "a.zarr", "--json", env=env)
    assert "converted once" in done.stderr and json.loads(done.stdout)["never_written"] == 4


def test_slices_of_tiff_that_lack_a_strip_are_refused(tmp_path: Path) -> None:
    """As they are where they are paged: tifffile gives zeros for it."""
    tifffile = pytest.importorskip("tifffile")
    for n in range(2):
        name = tmp_path / f"s{n}.tif"
        values = np.full((8, 8), 7, dtype="u1")
        tifffile.imwrite(name, values, rowsperstrip=4, compression="zlib" if n else None)
    with tifffile.TiffFile(tmp_path / "s1.tif", mode="r+b") as opened:
        counts = opened.pages[0].tags["StripByteCounts"]
        counts.overwrite([0, int(counts.value[1])])
    with pytest.raises(DataError, match=r"s1\.tif: it has a strip or tile without a place or a length"):
        ff.open(str(tmp_path))


def sparse(path: Path, how: str, none: str | None = None) -> np.ndarray[Any, Any]:
    """A stack of three pages, two strips or tiles of which lie nowhere and have no length, as GDAL writes sparse files."""
    tifffile = pytest.importorskip("tifffile")
    data = (np.arange(3 * 32 * 48) % 251 + 3).astype("i2").reshape(3, 32, 48)
    tags = [(42113, "s", 0, none, True)] if none is not None else []
    pieces: dict[str, Any] = {"rowsperstrip": 8} if "strips" in how else {"tile": (16, 16)}
    with tifffile.TiffWriter(path) as made:
        for n, page in enumerate(data):
            packed = "zlib" if "packed" in how and (n or "mixed" not in how) else None
            made.write(page, photometric="minisblack", extratags=tags, compression=packed, metadata=None, **pieces)
    # What the type does not have stands nowhere.
    fill = int(none) if none == "-9999" else 0
    with tifffile.TiffFile(path, mode="r+b") as opened:
        for n, of in ((0, 1), (2, 0)):
            for name in ("Offsets", "ByteCounts"):
                tag = opened.pages[n].tags[("Strip" if "strips" in how else "Tile") + name]
                tag.overwrite([0 if at == of else int(v) for at, v in enumerate(tag.value)])
    if "strips" in how:
        data[0, 8:16], data[2, :8] = fill, fill
    else:
        data[0, :16, 16:32], data[2, :16, :16] = fill, fill
    return data


@pytest.mark.parametrize("none", [None, "-9999", "1e20", "nan"])
@pytest.mark.parametrize(
    "how", ["tiles", "packed tiles", "strips", "packed strips", "mixed packed tiles", "mixed packed strips"]
)
def test_strips_and_tiles_of_sparse_tiffs_are_fill(
    how: str, none: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile = pytest.importorskip("tifffile")
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    data = sparse(tmp_path / "a.tif", how, none)
    # The oracle: tifffile gives the same for what is not there.
    with tifffile.TiffFile(tmp_path / "a.tif") as opened:
        assert np.array_equal([page.asarray() for page in opened.pages], data)
    for _ in range(2):
        with ff.open(tmp_path / "a.tif") as volume:
            assert np.array_equal(volume[:], data)
            if none in (None, "-9999"):
                assert volume.channels[0].missing == (int(none) if none else None)
            found = volume.probe_ijk((18, 11, 1))
            assert found is not None
            (value,) = found.values.values()
            assert np.isnan(value) if none == "-9999" else value == data[0, 10, 17] == 0
        assert ff.validate(tmp_path / "a.tif")["never_written"] == 2


@pytest.mark.parametrize(("place", "none"), [("zarr", -9999.0), ("store", -9999.0), ("zarr", -9999.9), ("store", 1e20)])
def test_ranges_are_those_of_values(place: str, none: float, tmp_path: Path) -> None:
    """Where what is missing is no number of single precision, too, of which ranges of pages are made."""
    data = np.linspace(3, 8, 512).reshape(8, 8, 8)
    data[0] = none
    data[1, 1, 1] = np.nan
    array: Any = zarr.create_array(
        tmp_path / "a.zarr",
        shape=data.shape,
        chunks=(4, 4, 4),
        dtype="f8",
        attributes={"_FillValue": none, "scale_factor": 2.0},
    )
    array[...] = data
    source = tmp_path / "a.zarr"
    if place == "store":
        ff.convert(source, tmp_path / "b.zarr")
        source = tmp_path / "b.zarr"
    values = 2 * data[data != none].astype(np.float64)
    expected = pytest.approx([np.nanmin(values), np.nanmax(values)])
    with ff.open(source) as volume:
        # Of a store the ranges of all numbers are known: what is the lowest value is not.
        assert volume.info()["channels"][0]["range"] is None and not volume.info()["ranges_known"]
        assert volume.info(ranges=True)["channels"][0]["range"] == expected and volume.info()["ranges_known"]
    with ff.open(source) as volume:
        assert volume.info()["channels"][0]["range"] == expected
    with ff.open(source, volume={"missing": 8}) as volume:
        # The file's own is missing as well, and what was found without the user's is of no use.
        assert volume.info()["channels"][0]["range"] is None
        rest = values[values != 16]
        assert volume.info(ranges=True)["channels"][0]["range"] == pytest.approx([np.nanmin(rest), np.nanmax(rest)])
    array[7, 7, 7] = 100
    if place == "zarr":
        with ff.open(source) as volume:
            assert volume.info(ranges=True)["channels"][0]["range"] == pytest.approx([np.nanmin(values), 200])


def test_ranges_of_a_volume_with_a_page_that_fails_are_not_known(tmp_path: Path, ff: Command) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(8, 4, 4), chunks=(4, 4, 4), dtype="f4", compressors=None)
    array[...] = np.arange(128).reshape(8, 4, 4)
    with (tmp_path / "a.zarr" / "c" / "1" / "0" / "0").open("r+b") as chunk:
        chunk.truncate(10)
    env = {"FARFIELD_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        done = ff("info", tmp_path / "a.zarr", "--ranges", env=env, ok=(3,))
        assert (
            "ranges   not known: 1 page cannot be read; 'farfield validate" in done.stdout and "inf" not in done.stdout
        )
    found = json.loads(ff("info", tmp_path / "a.zarr", "--json", env=env).stdout)
    assert found["channels"][0]["range"] is None and (found["ranges_failed"], found["ranges_known"]) == (1, False)


def chunked(folder: Path) -> Path:
    """A store of eight chunks of a smooth volume, each with a checksum."""
    at = np.arange(16.0)
    array = zarr.create_array(
        folder / "a.zarr", shape=(16, 16, 16), chunks=(8, 8, 8), dtype="f4", compressors=[zarr.codecs.Crc32cCodec()]
    )
    array[...] = at[:, None, None] + at[:, None] + at
    return folder / "a.zarr"


def test_a_link_to_what_is_not_there_is_no_chunk_that_was_never_written(tmp_path: Path, ff: Command) -> None:
    path = chunked(tmp_path)
    words = ("render", path, "-o", tmp_path / "p.png", "--size", "64x48", "--json")
    chunk = path / "c" / "1" / "1" / "1"
    chunk.unlink()
    told = json.loads(ff(*words).stdout)
    assert told["pages"]["never_written"] == 1 and "failure" not in told
    chunk.symlink_to(tmp_path / "annex" / "objects" / "1")
    told = json.loads(ff(*words, ok=(3,)).stdout)
    assert told["pages"]["never_written"] == 0 and told["partial"]
    assert "c/1/1/1" in told["failure"], told


def test_what_is_partial_says_which_file_failed(tmp_path: Path, ff: Command) -> None:
    path = chunked(tmp_path)
    chunk = path / "c" / "0" / "1" / "1"
    raw = bytearray(chunk.read_bytes())
    raw[9] ^= 255
    chunk.write_bytes(raw)
    for words in (
        ("render", path, "--size", "64x48", "-o", tmp_path / "p.png"),
        ("extract", "isosurface", path, "--value", "22.5", "-o", tmp_path / "s.vtp"),
        ("extract", "slice", path, "--normal", "z", "--origin", "3,3,3", "-o", tmp_path / "s.png"),
    ):
        told = json.loads(ff(*words, "--json", ok=(3,)).stdout)
        assert "c/0/1/1" in told["failure"], told
        lines = [line for line in ff(*words, ok=(3,)).stdout.splitlines() if "c/0/1/1" in line]
        assert len(lines) == 1, lines
