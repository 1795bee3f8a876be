"""Ranges of pages of data that are paged in place: found by one pass, kept in the cache, and what they spare; validation of
volumes; what is said of volumes in one option.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import DataError
from running import Command, Json
from test_volume_convert import ome, raw, zarr

Array = np.ndarray[Any, Any]


def blob(shape: tuple[int, int, int], dtype: str = "uint8") -> Array:
    """A ball in one corner, and nothing elsewhere."""
    z, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    away = np.sqrt((z - 25.0) ** 2 + (y - 25.0) ** 2 + (x - 25.0) ** 2)
    return np.clip(200 - 10 * away, 0, 200).astype(dtype)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A cache of its own."""
    return {"FARFIELD_CACHE_DIR": str(tmp_path / "cache")}


def sources(folder: Path, data: Array) -> dict[str, tuple[Path, list[str]]]:
    """The same numbers in several formats, and what has to be said of them."""
    nib = pytest.importorskip("nibabel")
    found: dict[str, tuple[Path, list[str]]] = {}
    options = raw(folder / "a.raw", data)
    found["raw"] = (
        folder / "a.raw",
        ["--raw", " ".join(f"{k}={'x'.join(map(str, v)) if k == 'shape' else v}" for k, v in options.items())],
    )
    nib.save(nib.Nifti1Image(data.transpose(2, 1, 0), np.eye(4)), folder / "a.nii")
    found["nifti"] = folder / "a.nii", []
    ome(folder / "a.zarr", data, "zyx", {})
    found["zarr"] = folder / "a.zarr", []
    group = zarr.open_group(folder / "b.zarr", mode="w", zarr_format=3)
    group.create_array("v", data=data, chunks=(16, 16, 16), shards=(64, 64, 64))
    found["shards"] = folder / "b.zarr", []
    return found


@pytest.mark.parametrize("kind", ["raw", "nifti", "zarr", "shards"])
def test_found_once_and_used(kind: str, ff: Command, ff_json: Json, env: dict[str, str], tmp_path: Path) -> None:
    data = blob((100, 150, 120))
    source, more = sources(tmp_path, data)[kind]
    said = ff("info", source, *more[:2], env=env).stdout
    assert "ranges   not known yet" in said

    def surface(name: str) -> dict[str, Any]:
        out = tmp_path / f"{name}.npz"
        return dict(ff_json("extract", "isosurface", source, *more, "--value", 100, "-o", out, env=env))

    def picture(name: str) -> dict[str, Any]:
        out = tmp_path / f"{name}.png"
        return dict(ff_json("render", source, *more, "--size", "64x48", "-o", out, env=env))

    before, drawn_before = surface("before"), picture("before")
    first = ff_json("info", source, "--ranges", *more, env=env)
    assert first["ranges_known"] and first["channels"][0]["range"] == [0.0, 200.0] == first["fields"][0]["range"]
    pages = first["pages"]
    assert pages["faults"] + (pages["never_written"] or 0) >= first["levels"][0]["pages"], (
        "all that were written are read"
    )
    again = ff_json("info", source, "--ranges", *more, env=env)
    assert again["channels"] == first["channels"] and again["reads"] == 0
    assert ff_json("info", source, *more, env=env)["channels"] == first["channels"]
    after, drawn_after = surface("after"), picture("after")
    # What cannot hold the value is not read any more, and the result is the same.
    # What a store never wrote is passed over before, too.
    share = 1 if kind in ("zarr", "shards") else 2
    assert after["pages"]["touched"] < before["pages"]["touched"] / share
    assert after["bytes_read"] < before["bytes_read"]
    # Ranges are read, too.
    assert drawn_after["bytes_read"] <= drawn_before["bytes_read"] + 4096
    for end in ("npz", "png"):
        assert (tmp_path / f"before.{end}").read_bytes() == (tmp_path / f"after.{end}").read_bytes()


def known(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "data").glob("*.ranges"))


def test_every_page_has_the_range_of_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all cells whose low corner lies in it, so with the first layer of the pages that follow; then of 8 x 8 x 8 pages."""
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    data = np.random.default_rng(2).standard_normal((2, 37, 41, 150)).astype("float32")
    data[:, :20, :20, :20] = np.nan
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("v", data=data, chunks=(1, 8, 16, 10)).attrs["_ARRAY_DIMENSIONS"] = ["time", "z", "y", "x"]
    with farfield.open(tmp_path / "a.zarr") as ds:
        about = ds.info(ranges=True, progress=False)
    assert about["levels"][0]["page"] == [10, 16, 8]
    (root,) = known(tmp_path)
    # As zarr-python reads them: [t, limit, k, j, i].
    found = np.asarray(zarr.open_array(root / "_farfield" / "ranges_0_0_0", mode="r")[...])
    assert found.shape == (2, 2, 5, 3, 15) and found.dtype == np.float32
    for at in np.ndindex(2, 5, 3, 15):
        t, low = at[0], [n * p for n, p in zip(at[1:], (8, 16, 10), strict=True)]
        cells = data[t][tuple(slice(o, o + p + 1) for o, p in zip(low, (8, 16, 10), strict=True))]
        numbers = cells[~np.isnan(cells)]
        wanted = [numbers.min(), numbers.max()] if numbers.size else [np.inf, -np.inf]
        assert found[t, :, *at[1:]].tolist() == wanted, at
    coarse = np.asarray(zarr.open_array(root / "_farfield" / "ranges_0_0_1", mode="r")[...])
    assert coarse.shape == (2, 2, 1, 1, 2)
    for t, i in np.ndindex(2, 2):
        part = found[t, :, :, :, 8 * i : 8 * i + 8]
        assert coarse[t, :, 0, 0, i].tolist() == [part[0].min(), part[1].max()]


def test_every_level_of_a_store_has_ranges_of_its_own(tmp_path: Path) -> None:
    """Of what that level holds: means have other ends than what they are of."""
    rng = np.random.default_rng(3)
    data = np.cumsum(rng.standard_normal((75, 81, 150)), axis=2).astype("float32")
    data[rng.random(data.shape) < 0.001] = np.nan
    path = tmp_path / "a.zarr"
    farfield.convert(tmp_path / "a.raw", path, volume=raw(tmp_path / "a.raw", data), page=8)
    store = zarr.open_group(path, mode="r")
    levels = [int(name) for name, _ in store.members() if name.isdigit()]
    assert len(levels) >= 3
    depths = 0
    for level in levels:
        array = store[str(level)]
        assert isinstance(array, zarr.Array)
        voxels, page = np.asarray(array[0, 0]), array.chunks[-3:]
        count = tuple(-(-n // p) for n, p in zip(voxels.shape, page, strict=True))
        wanted = np.empty((2, *count))
        for at in np.ndindex(*count):
            cells = voxels[tuple(slice(n * p, (n + 1) * p + 1) for n, p in zip(at, page, strict=True))]
            wanted[:, *at] = np.nanmin(cells), np.nanmax(cells)
        for depth in itertools.count():
            name = f"_farfield/ranges_{level}_0_{depth}"
            if name not in store:
                break
            depths += 1
            found = store[name]
            assert isinstance(found, zarr.Array)
            assert np.array_equal(np.asarray(found[0]), wanted), name
            boxes = [tuple(slice(8 * n, 8 * n + 8) for n in at) for at in np.ndindex(*(-(-n // 8) for n in count))]
            count = tuple(-(-n // 8) for n in count)
            ends = [(wanted[0][box].min(), wanted[1][box].max()) for box in boxes]
            wanted = np.array(ends).T.reshape(2, *count)
        assert wanted.shape == (2, 1, 1, 1), "to one entry of all"
    assert depths > len(levels)


def test_changed_files_are_looked_through_again(ff_json: Json, env: dict[str, str], tmp_path: Path) -> None:
    data = blob((60, 60, 60))
    ome(tmp_path / "a.zarr", data, "zyx", {})
    first = ff_json("info", tmp_path / "a.zarr", "--ranges", env=env)
    assert first["channels"][0]["range"] == [0.0, 200.0] and len(known(tmp_path)) == 1
    zarr.open_group(tmp_path / "a.zarr", mode="r+")["0"][50, 50, 50] = 255
    assert not ff_json("info", tmp_path / "a.zarr", env=env)["ranges_known"], "a chunk has changed"
    out = tmp_path / "a.npz"
    found = ff_json("extract", "isosurface", tmp_path / "a.zarr", "--value", 250, "-o", out, env=env)
    assert found["triangles"] > 0
    second = ff_json("info", tmp_path / "a.zarr", "--ranges", env=env)
    assert second["channels"][0]["range"] == [0.0, 255.0] and len(known(tmp_path)) == 1


def test_values_channels_and_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each channel over all steps, in its values; NaN has no part in it."""
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    noise = np.random.default_rng(3)
    data = noise.standard_normal((3, 2, 20, 30, 40)).astype("float32")
    data[:, 0] = np.nan
    data[2, 1, 3, 4, 5] = 1e30
    ome(tmp_path / "a.zarr", data, "tczyx", {})
    with farfield.open(tmp_path / "a.zarr") as ds:
        found = ds.info(ranges=True)
    low, high = found["channels"][1]["range"]
    assert found["channels"][0]["range"] is None and found["ranges_known"]
    assert (
        low <= float(np.nanmin(data))
        and low == pytest.approx(float(np.nanmin(data)))
        and high >= float(np.float32(1e30))
    )
    nib = pytest.importorskip("nibabel")
    image = nib.Nifti1Image(noise.integers(-50, 50, (20, 20, 20)).astype("int16"), np.eye(4))
    image.header.set_slope_inter(-2.0, 3.0)
    nib.save(image, tmp_path / "a.nii")
    with farfield.open(tmp_path / "a.nii") as ds:
        stored = ds[...]
        assert ds.info(ranges=True)["channels"][0]["range"] == [3.0 - 2.0 * stored.max(), 3.0 - 2.0 * stored.min()]


def test_within_the_limit_and_without_what_cannot_be_read(
    ff: Command, ff_json: Json, process_json: Json, env: dict[str, str], tmp_path: Path
) -> None:
    data = np.random.default_rng(4).integers(0, 100, (200, 200, 300)).astype("uint8")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("v", data=data, chunks=(32, 32, 32))
    found = process_json("info", tmp_path / "a.zarr", "--ranges", "--memory-limit", "8MiB", env=env)
    assert found["resident_peak_bytes"] <= found["limit_bytes"] + found["base_bytes"]
    # A chunk that cannot be decoded may hold anything: whoever needs it still meets it.
    chunk = tmp_path / "a.zarr" / "v" / "1.1.1"
    chunk.write_bytes(chunk.read_bytes()[:100])
    again = ff_json("info", tmp_path / "a.zarr", "--ranges", env=env, ok=(3,))
    assert again["channels"][0]["range"] is None and again["ranges_failed"] == 1
    out = tmp_path / "a.npz"
    got = ff("extract", "isosurface", tmp_path / "a.zarr", "--value", 1000, "-o", out, env=env, ok=(3,))
    assert "cannot be read" in got.stdout


def test_own_stores_know_their_ranges(ff_json: Json, tmp_path: Path) -> None:
    data = blob((100, 110, 120))
    farfield.convert(tmp_path / "a.raw", tmp_path / "a.zarr", volume=raw(tmp_path / "a.raw", data), page=16)
    about = ff_json("info", tmp_path / "a.zarr")
    assert about["ranges_known"] and about["channels"][0]["range"] == [0.0, 200.0]
    assert about["format"] == "Farfield volume (OME-Zarr 0.5)" and about["checked"]
    found = ff_json("extract", "isosurface", tmp_path / "a.zarr", "--value", 100, "-o", tmp_path / "s.npz")
    assert found["pages"]["touched"] < about["levels"][0]["pages"] / 4


def test_pages_that_show_nothing_are_not_read_for_their_neighbours(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """Cells at the end of a page have corners in the next one: where all of these show nothing that one is not read."""
    dark = np.zeros((96, 96, 96), np.uint8)
    dark[8:24, 8:24, 8:24] = 200
    across = dark.copy()
    across[16, 16, 31] = 200
    read = []
    for name, data in (("dark", dark), ("across", across)):
        data.tofile(tmp_path / f"{name}.raw")
        store, scene = tmp_path / f"{name}.zarr", tmp_path / f"{name}.json"
        said = "shape=96x96x96 dtype=uint8"
        ff("convert", tmp_path / f"{name}.raw", store, "--raw", said, "--page", 32, "--levels", 1)
        volume = {"kind": "volume", "opacity": [[0, 0], [60, 0], [100, 0.5], [255, 0.5]], "field": name}
        scene.write_text(json.dumps({"source": str(store), "objects": [volume]}))
        pages = ff_json("render", scene, "--size", "64x48", "-o", tmp_path / f"{name}.png")["pages"]
        read.append(pages["touched"] - (pages["total"] - 27))
    # Of ranges and indexes all pages are read.
    assert read == [1, 2]


def test_a_store_is_validated(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    data = np.random.default_rng(5).integers(0, 100, (60, 70, 80)).astype("uint8")
    store = tmp_path / "a.zarr"
    ff("convert", tmp_path / "a.raw", store, "--page", 16, *said_of(raw(tmp_path / "a.raw", data)))
    whole = ff_json("validate", store)
    assert whole["ok"] and whole["pages_checked"] > 5 * 5 * 4 and whole["never_written"] == 0
    shard = store / "0" / "c.0.0.0.0.0"
    before = shard.read_bytes()
    shard.write_bytes(before[:5000] + bytes([before[5000] ^ 1]) + before[5001:])
    bad = ff("validate", store, ok=(1,))
    assert "failed" in bad.stdout and "0/c.0.0.0.0.0" in bad.stderr
    shard.unlink()
    gone = ff("validate", store, ok=(1,))
    assert "c.0.0.0.0.0" in gone.stderr
    # Never fill: whoever reads it gets no numbers.
    with farfield.open(store) as ds, pytest.raises(DataError, match=r"c\.0\.0\.0\.0\.0"):
        ds[0, 0, 0]
    shard.write_bytes(before)
    document = store / "1" / "zarr.json"
    document.write_text(document.read_text().replace("uint8", "uint9"))
    assert str(document) in ff("info", store, ok=(1,)).stderr


def said_of(options: dict[str, Any]) -> list[str]:
    """As single options."""
    found = []
    for key, value in options.items():
        found += [f"--{key.replace('_', '-')}", "x".join(map(str, value)) if key == "shape" else str(value)]
    return found


def test_foreign_data_are_validated(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    data = np.random.default_rng(6).integers(1, 100, (40, 40, 40)).astype("uint8")
    data[:16, :16, :16] = 0
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("v", data=data, chunks=(16, 16, 16), config={"write_empty_chunks": False}, fill_value=0)
    found = ff_json("validate", tmp_path / "a.zarr")
    assert found["ok"] and found["never_written"] == 1 and found["pages_unchecked"] == 27
    assert "1 chunk never written" in ff("validate", tmp_path / "a.zarr").stdout
    chunk = tmp_path / "a.zarr" / "v" / "1.2.0"
    chunk.write_bytes(chunk.read_bytes()[:-7])
    bad = ff_json("validate", tmp_path / "a.zarr", ok=(1,))
    assert bad["failed"] == 1 and "1.2.0" in bad["failures"][0]["what"] + bad["failures"][0]["error"]
    assert "1.2.0" in ff("validate", tmp_path / "a.zarr", ok=(1,)).stderr


def test_what_is_said_in_one_option(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    data = blob((30, 40, 50))
    data.tofile(tmp_path / "a.bin")
    said = "shape=50x40x30 dtype=uint8; spacing=1,1,2 origin=5,0,0"
    one = ff_json("info", tmp_path / "a.bin", "--raw", said)
    several = ff_json(
        "info", tmp_path / "a.bin", "--shape", "50x40x30", "--dtype", "uint8", "--spacing", "1,1,2", "--origin", "5,0,0"
    )
    assert one == several and one["origin"] == [5, 0, 0]
    # Where a slice or a picture has options of the same names.
    cut = ("--normal", "z", "--origin", "30,20,20", "--field", several["channels"][0]["name"])
    found = ff_json("extract", "slice", tmp_path / "a.bin", *cut, "--raw", said, "-o", tmp_path / "s.vtp")
    assert found["bounds"][0][0] == 5 and found["bounds"][0][2] == 20
    drawn = ff_json("render", tmp_path / "a.bin", "--raw", said, "--size", "60x40", "-o", tmp_path / "p.png")
    assert drawn["size"] == [60, 40]
    for words, wrong in [
        (("--raw", "shape"), "not NAME=VALUE"),
        (("--raw", "form=1"), "no option 'form'"),
        (("--raw", "dtype=uint8 dtype=uint8"), "twice"),
        (("--raw", "shape=50x40x30", "--shape", "50x40x30"), "give one of them"),
    ]:
        assert wrong in ff("info", tmp_path / "a.bin", *words, ok=(2,)).stderr
    for words in (("render", "demo:box", "-o", tmp_path / "p.png"), ("validate", "demo:box")):
        assert "not a volume; remove the options of volumes" in ff(*words, "--raw", "kind=labels", ok=(2,)).stderr


def test_no_level_and_no_end(ff: Command, tmp_path: Path) -> None:
    """What is not whole is said with its file, and never read as something else."""
    data = blob((40, 40, 40))
    ome(tmp_path / "a.zarr", data, "zyx", {})
    about = json.loads((tmp_path / "a.zarr" / ".zattrs").read_text())
    about["multiscales"][0]["datasets"].append({**about["multiscales"][0]["datasets"][0], "path": "1"})
    (tmp_path / "a.zarr" / ".zattrs").write_text(json.dumps(about))
    for words in (("info",), ("validate",), ("convert",)):
        more = [tmp_path / "out.zarr"] if words == ("convert",) else []
        said = ff(*words, tmp_path / "a.zarr", *more, ok=(1,)).stderr
        assert str(tmp_path / "a.zarr" / "1") in said or "'1'" in said
    # A store whose writer was killed is no store yet.
    ff("convert", tmp_path / "a.raw", tmp_path / "b.zarr", *said_of(raw(tmp_path / "a.raw", data)))
    os.rename(tmp_path / "b.zarr" / "zarr.json", tmp_path / "kept.json")
    said = ff("info", tmp_path / "b.zarr", ok=(1, 2)).stderr
    assert str(tmp_path / "b.zarr") in said
    text = (tmp_path / "kept.json").read_text()
    (tmp_path / "b.zarr" / "zarr.json").write_text(text[: len(text) // 2])
    said = ff("info", tmp_path / "b.zarr", ok=(1,)).stderr
    assert str(tmp_path / "b.zarr" / "zarr.json") in said


def test_more_voxels_than_a_signed_number_counts(ff_json: Json, tmp_path: Path) -> None:
    """A sparse file of more than 2^31 voxels: the last of them is where it should be."""
    shape = (1300, 1300, 1300)
    assert np.prod(shape, dtype=np.int64) > 2**31
    with open(tmp_path / "a.raw", "wb") as file:
        file.truncate(int(np.prod(shape, dtype=np.int64)))
        file.seek(-1, os.SEEK_END)
        file.write(b"\x07")
    options = {"shape": shape, "dtype": "uint8"}
    with farfield.open(tmp_path / "a.raw", volume=options) as ds:
        assert ds[-1, -1, -2:].tolist() == [0, 7]
    would = ff_json("convert", tmp_path / "a.raw", tmp_path / "a.zarr", "--dry-run", *said_of(options))
    assert would["bytes_in"] == 1300**3 and would["levels"][0]["dims"] == list(shape)


def test_labels_of_64_bits_stay_what_they_are(ff: Command, tmp_path: Path) -> None:
    data = np.random.default_rng(8).integers(0, 3, (30, 30, 70)).astype("uint64") + np.uint64(2**64 - 4)
    options = {**raw(tmp_path / "a.raw", data), "kind": "labels"}
    ff("convert", tmp_path / "a.raw", tmp_path / "a.zarr", *said_of(options))
    with farfield.open(tmp_path / "a.zarr") as ds:
        np.testing.assert_array_equal(ds[...], data)
        assert set(np.unique(ds.level(1)[...])) <= set(np.unique(data))


def test_cut_off_images(ff: Command, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    pil = pytest.importorskip("PIL.Image")
    data = np.random.default_rng(9).integers(0, 255, (8, 64, 64)).astype("uint8")
    tifffile.imwrite(tmp_path / "a.tif", data, compression="zlib", metadata={"axes": "ZYX"})
    whole = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(whole[: len(whole) // 2])
    for words in (("convert", tmp_path / "a.tif", tmp_path / "a.zarr"), ("validate", tmp_path / "a.tif")):
        assert str(tmp_path / "a.tif") in ff(*words, ok=(1,)).stderr
    assert not (tmp_path / "a.zarr").exists()
    (tmp_path / "s").mkdir()
    for n in range(4):
        pil.fromarray(data[n] if n != 2 else data[n, :50]).save(tmp_path / "s" / f"{n}.png")
    for words in (("convert", tmp_path / "s", tmp_path / "a.zarr"), ("validate", tmp_path / "s")):
        said = ff(*words, ok=(1,)).stderr
        assert str(tmp_path / "s" / "2.png") in said and "50" in said
