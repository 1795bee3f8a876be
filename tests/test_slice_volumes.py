"""Slices of volumes as pictures and arrays: against NumPy, for every kind of voxel, the same for all pages and limits."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield
from farfield.errors import UnknownName, UsageError
from farfield.pictures.colors import lut
from pngs import picture
from running import Command, Json

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")
SPACING, ORIGIN = (0.5, 1.0, 2.0), (-1.0, 4.0, 8.0)
"""Powers of two: what follows here is exact in floating point."""


def rough(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Numbers that jump from voxel to voxel, over much of the type's range."""
    noise = np.random.default_rng(5)
    if np.dtype(dtype).kind == "f":
        return noise.normal(0, 1e3, shape).astype(dtype)
    known = np.iinfo(dtype)
    return noise.integers(max(known.min, -(2**45)), min(known.max, 2**45), shape, dtype=dtype, endpoint=True)


def raw(path: Path, data: NDArray[Any], **more: Any) -> str:
    """Writes [z, y, x] or [z, y, x, component]; what is said of it in one option."""
    data.tofile(path)
    said: dict[str, Any] = {
        "shape": "x".join(str(n) for n in data.shape[2::-1]),
        "dtype": str(data.dtype),
        "byte-order": "little",
        "spacing": ",".join(map(str, SPACING)),
        "origin": ",".join(map(str, ORIGIN)),
        "length-unit": "mm",
    }
    return " ".join(f"{key}={value}" for key, value in {**said, **more}.items())


def opened(path: Path, data: NDArray[Any], **more: Any) -> farfield.VolumeDataset:
    said = dict(word.split("=", 1) for word in raw(path, data, **more).split())
    return farfield.open(path, volume={key.replace("-", "_"): value for key, value in said.items()})


def trilinear(data: NDArray[Any], at: NDArray[np.float64], place: tuple[float, ...] = ORIGIN) -> NDArray[np.float64]:
    """What trilinear means, by its own words: eight corners by their weights, i fastest; NaN beyond the outermost voxels."""
    index = (at - np.array(place)) / np.array(SPACING)
    last = np.array(data.shape[::-1]) - 1.0
    inside = ((index >= -0.5) & (index <= last + 0.5)).all(axis=-1)
    index = index.clip(0.0, last)
    low = np.floor(index)
    part = index - low
    found = np.zeros(at.shape[:-1])
    for corner in itertools.product((0, 1), repeat=3):  # the last of the three runs fastest: along i
        high = np.array(corner[::-1])
        weight = np.where(high == 1, part, 1.0 - part)
        w = weight[..., 0] * weight[..., 1] * weight[..., 2]
        i, j, k = np.moveaxis(np.minimum(low + high, last).astype(int), -1, 0)
        found = found + np.where(w > 0, w * data[k, j, i].astype(np.float64), 0.0)
    return np.where(inside, found, np.nan)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_what_numpy_has(dtype: str, tmp_path: Path) -> None:
    data = rough((12, 10, 16), dtype)
    exact = np.float32 if dtype in ("uint8", "int8", "uint16", "int16", "float32") else np.float64
    with opened(tmp_path / "a.raw", data) as volume:
        # Pixels as large as voxels, on their centres.
        flat = {"extent": (-0.25, 7.75, -0.5, 9.5), "resolution": 0.5}
        cut = volume.slice_image(normal="z", origin=(-1.0, 4.0, 14.0), nearest=True, **flat)
        assert cut.values.dtype == exact and cut.values.shape == (20, 16)
        assert np.array_equal(cut.values[1::2], data[3, ::-1].astype(exact)) and (cut.pixels == 1).all()
        for normal, origin in (("z", (1.0, 6.0, 15.5)), ("x", (1.125, 6.0, 15.0)), ("y", (1.0, 9.25, 15.0))):
            mixed = volume.slice_image(normal=normal, origin=origin, extent=(-4, 4, -4, 4), resolution=0.125)
            wanted = trilinear(data, mixed.positions())
            assert (np.isnan(wanted) == (mixed.pixels == 2)).all() and (mixed.pixels == 1).sum() > 1000
            assert np.array_equal(mixed.values, wanted.astype(exact), equal_nan=True)


def test_any_plane_of_any_place(tmp_path: Path) -> None:
    data = rough((24, 30, 28), "int16")
    with opened(tmp_path / "a.raw", data) as volume:
        for normal in ((1.0, 2.0, -0.5), (0.3, 0.1, 1.0)):
            cut = volume.slice_image(normal=normal, size=(200, 160))
            at = cut.positions()
            assert np.abs((at - np.array(cut.origin)) @ np.array(cut.normal)).max() < 1e-9
            wanted = trilinear(data, at)
            both = (cut.pixels == 1) & ~np.isnan(wanted)
            assert both.sum() > 5000 and ((cut.pixels == 1) != ~np.isnan(wanted)).mean() < 1e-3
            assert np.abs(cut.values - wanted)[both].max() < 0.01
        # A voxel of 0.5 x 1 x 2 mm: pixels are square in space.
        side = volume.slice_image(normal="y")
        assert side.values.shape[::-1] == (299, 1024) and side.length_unit == "mm"
        probed = volume.probe(tuple(side.positions()[500, 100]))
        assert probed is not None and abs(probed.values["a"] - side.values[500, 100]) < 0.01


def test_pages_limits_and_workers_make_no_difference(ff_json: Json, ff: Command, tmp_path: Path) -> None:
    data = rough((70, 64, 90), "uint16")
    said = raw(tmp_path / "a.raw", data)
    sources: list[tuple[object, ...]] = [(tmp_path / "a.raw", "--raw", said)]
    for page, codec in ((16, "none"), (32, "zstd"), (64, "lz4")):
        store = tmp_path / f"{page}.zarr"
        ff("convert", tmp_path / "a.raw", store, "--page", page, "--codec", codec, "--levels", 1, *_words(said))
        sources.append((store,))
    made: dict[str, set[bytes]] = {".png": set(), ".npy": set()}
    runs = [(s, m) for s in sources for m in (("256MiB", 1), ("8MiB", 2))]
    for n, (source, (limit, workers)) in enumerate(runs):
        for ending, kept in made.items():
            out = tmp_path / f"{n}{ending}"
            words = ("--normal", "1,0.5,2", "--size", "500x400", "--memory-limit", limit, "--workers", workers)
            done = ff_json("extract", "slice", *source, *words, "-o", out)
            assert done["peak_bytes"] <= done["limit_bytes"] and done["pages"]["touched"] <= done["pages"]["total"]
            if ending == ".npy":
                kept.add(out.read_bytes())
            else:
                kept.add(picture(out)[0].tobytes())  # texts name the source
    assert {ending: len(kept) for ending, kept in made.items()} == {".png": 1, ".npy": 1}


def _words(said: str) -> list[str]:
    return [f"--{key}={value}" for key, value in (word.split("=", 1) for word in said.split())]


def test_a_slice_larger_than_memory(ff_json: Json, tmp_path: Path) -> None:
    data = (np.arange(64 * 64 * 64, dtype=np.uint32) % 251).astype(np.uint8).reshape(64, 64, 64)
    said = raw(tmp_path / "a.raw", data, spacing="1,1,1", origin="0,0,0")
    words = (
        "--normal",
        "z",
        "--size",
        "30000x2000",
        "--extent=-32,32,-2,2",
        "--memory-limit",
        "24MiB",
        "--range",
        "0:255",
    )
    done = ff_json("extract", "slice", tmp_path / "a.raw", "--raw", said, *words, "-o", tmp_path / "a.png", "--nearest")
    assert done["size"] == [30000, 2000] and done["peak_bytes"] <= 24 << 20 < 30000 * 2000
    head = (tmp_path / "a.png").read_bytes()[16:24]
    assert [int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")] == [30000, 2000]


def test_looks_of_numbers(ff_json: Json, ff: Command, tmp_path: Path) -> None:
    data = np.broadcast_to(np.arange(16, dtype=np.int16) * 100 - 500, (8, 8, 16)).copy()
    said = raw(tmp_path / "a.raw", data, spacing="1,1,1", origin="0,0,0")
    words = ("extract", "slice", tmp_path / "a.raw", "--raw", said, "--normal", "z", "--resolution", 1)
    # By itself it would have zero in the middle.
    done = ff_json(*words, "-o", tmp_path / "a.png", "--cmap", "gray")
    assert done["size"] == [16, 8] and done["ranges"] == [[-500.0, 1000.0]]
    seen, texts = picture(tmp_path / "a.png")
    grey = [int((v + 500) / 1500 * 256) for v in range(-500, 1000, 100)] + [255]
    assert seen[3, :, 0].tolist() == grey and (seen[..., :3] == seen[..., :1]).all() and (seen[..., 3] == 255).all()
    assert texts["Source"].endswith("a.raw") and json.loads(texts["Description"])["length_unit"] == "mm"
    done = ff_json(*words, "-o", tmp_path / "w.png", "--window", 400, "--level", 40, "--cmap", "viridis")
    assert done["ranges"] == [[-160.0, 240.0]]
    table = np.array(lut("viridis"))
    shown = table[((data[0, 0] + 160) / 400 * 256).clip(0, 255).astype(int)]
    assert np.array_equal(picture(tmp_path / "w.png")[0][3, :, :3], shown)
    ff(*words, "-o", tmp_path / "g.png", "--grey16", "--range=-500:1000")
    wide, _ = picture(tmp_path / "g.png")
    assert wide[0, -1].tolist() == [255, 255, 255, 255] and wide[0, 0, :2].tolist() == [0, 0]
    text = ff(*words, "-o", tmp_path / "a.npz").stdout
    assert "16 x 8 pixels: 128 with values" in text and "[mm]" in text
    with np.load(tmp_path / "a.npz") as of:
        assert np.array_equal(of["a"], data[4].astype(np.float32)) and not of["partial"]


def test_colours_labels_and_channels(ff: Command, tmp_path: Path) -> None:
    rgb = np.random.default_rng(3).integers(0, 256, (6, 7, 8, 3), dtype=np.uint8)
    flat = ("--normal", "z", "--resolution", 1, "--nearest")
    place: dict[str, Any] = {"spacing": "1,1,1", "origin": "0,0,0"}
    said = raw(tmp_path / "c.raw", rgb, components=3, kind="rgb", **place)
    words = ("extract", "slice", tmp_path / "c.raw", "--raw", said, *flat)
    ff(*words, "-o", tmp_path / "c.png")
    seen, _ = picture(tmp_path / "c.png")
    assert np.array_equal(seen[..., :3], rgb[3, ::-1]) and (seen[..., 3] == 255).all()
    done = ff(*words, "-o", tmp_path / "no.png", "--cmap", "viridis", ok=(2,))
    assert "choose one channel" in done.stderr and not (tmp_path / "no.png").exists()
    with farfield.open(tmp_path / "c.raw", volume={k.replace("-", "_"): v for k, v in _pairs(said)}) as volume:
        assert volume.slice_image(normal="z", resolution=1, nearest=True).values.shape == (7, 8, 3)
        one = volume.channel(1).slice_image(normal="z", resolution=1, nearest=True)
        assert np.array_equal(one.values, rgb[3, ::-1, :, 1])

    labels = np.random.default_rng(4).integers(0, 9, (6, 7, 8), dtype=np.uint16)
    said = raw(tmp_path / "l.raw", labels, kind="labels", **place)
    ff("extract", "slice", tmp_path / "l.raw", "--raw", said, *flat[:4], "-o", tmp_path / "l.png")
    seen, _ = picture(tmp_path / "l.png")
    shown = labels[3, ::-1]
    colours = {label: np.unique(seen[shown == label], axis=0) for label in range(9)}
    assert all(len(c) == 1 for c in colours.values()) and colours[0].tolist() == [[0, 0, 0, 0]]
    assert len({tuple(c[0]) for c in colours.values()}) == 9

    channels = np.zeros((6, 7, 8, 2), np.uint8)
    channels[..., :4, 0], channels[..., 4:, 1] = 200, 100
    said = raw(tmp_path / "m.raw", channels, components=2, kind="channels", **place)
    ff("extract", "slice", tmp_path / "m.raw", "--raw", said, *flat, "-o", tmp_path / "m.png")
    seen, _ = picture(tmp_path / "m.png")
    assert (seen[:, :4] == [255, 0, 255, 255]).all() and (seen[:, 4:] == [0, 255, 0, 255]).all()


def _pairs(said: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in (word.split("=", 1) for word in said.split())]


def test_coarse_levels_where_pixels_are_coarse(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    data = rough((96, 96, 96), "uint8")
    said = raw(tmp_path / "a.raw", data, spacing="1,1,1", origin="0,0,0")
    store = tmp_path / "a.zarr"
    ff("convert", tmp_path / "a.raw", store, "--page", 16, "--levels", 3, *_words(said))
    words = ("extract", "slice", store, "--normal", "z")
    fine = ff_json(*words, "--resolution", 1, "-o", tmp_path / "a.npy")
    coarse = ff_json(*words, "--resolution", 4, "-o", tmp_path / "b.npy")
    asked = ff_json(*words, "--resolution", 4, "--level", 0, "-o", tmp_path / "c.npy")
    assert (fine["level"], coarse["level"], asked["level"]) == (0, 2, 0)
    assert coarse["bytes_read"] * 4 < fine["bytes_read"]
    with farfield.open(store) as volume:
        assert volume.slice_image(normal="z", resolution=1).values.shape == (96, 96)
        whole = volume.level(2)[...].astype(np.float64)
        halfway = (whole[11] + whole[12]) / 2
        assert np.abs(volume.slice_image(normal="z", resolution=4).values - halfway[::-1]).max() < 1e-3
        with pytest.raises(UsageError, match="no level 7"):
            volume.slice_image(normal="z", level=7)
        with pytest.raises(UnknownName, match="channel"):
            volume.slice_image(normal="z", field="bone")


def test_failed_pages_are_marked_and_counted(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    data = rough((32, 32, 32), "uint8")
    said = raw(tmp_path / "a.raw", data, spacing="1,1,1", origin="0,0,0")
    store = tmp_path / "a.zarr"
    ff("convert", tmp_path / "a.raw", store, "--page", 16, "--codec", "none", "--levels", 1, *_words(said))
    shard = max(
        (p for p in (store / "0").rglob("*") if p.is_file() and p.name != "zarr.json"), key=lambda p: p.stat().st_size
    )
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) - 100] ^= 255
    shard.write_bytes(damaged)
    with farfield.open(store) as volume:
        cuts = [volume.slice_image(normal="z", origin=(15.5, 15.5, z), resolution=1, nearest=True) for z in (8.0, 24.0)]
    assert sorted(cut.failed for cut in cuts) == [0, 256]
    bad = max(cuts, key=lambda cut: cut.failed)
    where = bad.pixels == 3
    assert np.isnan(bad.values[where]).all() and "checksum mismatch" in str(bad.failure)
    k = int(bad.origin[2])
    assert np.array_equal(bad.values[~where], data[k, ::-1][~where])
    words = ("extract", "slice", store, "--normal", "z", "--origin", f"15.5,15.5,{k}", "--resolution", 1, "--nearest")
    done = ff(*words, "-o", tmp_path / "a.png", ok=(3,))
    assert "256 that cannot be read" in done.stdout
    seen, _ = picture(tmp_path / "a.png")
    marked = {tuple(colour) for colour in seen[where].tolist()}
    assert marked == {(255, 0, 255, 255), (0, 0, 0, 255)}  # hatched, as rays mark what they lack


def test_what_makes_no_slice_is_said(ff: Command, tmp_path: Path) -> None:
    said = raw(tmp_path / "a.raw", rough((6, 7, 8), "uint8"))

    def says(*words: object, ok: int = 2, out: str = "a.png") -> str:
        done = ff("extract", "slice", tmp_path / "a.raw", "--raw", said, *words, "-o", tmp_path / out, ok=(ok,))
        assert not (tmp_path / out).exists()
        return done.stderr

    assert "does not meet the data" in says("--normal", "z", "--origin", "0,0,99")
    assert "no channel named 'bone'" in says("--normal", "z", "--field", "bone")
    assert "no level 3" in says("--normal", "z", "--level", "3")
    assert "give one of them" in says("--normal", "z", "--window", "4", "--level", "3", "--range", "0:1")
    assert "needs its middle" in says("--normal", "z", "--window", "4")
    assert "whole number" in says("--normal", "z", "--level", "0.5")
    assert "triangles" in says("--normal", "z", "--nearest", out="a.vtp")
    assert "MiB" in says("--normal", "z", "--size", "60000x60000", "--memory-limit", "6MiB", ok=4)
    flow = ff("extract", "slice", "demo:box", "--normal", "z", "-o", tmp_path / "b.png", ok=(2,))
    assert "needs a field" in flow.stderr
    flow = ff(
        "extract",
        "slice",
        "demo:box",
        "--normal",
        "z",
        "--field",
        "density",
        "--nearest",
        "-o",
        tmp_path / "b.png",
        ok=(2,),
    )
    assert "are of volumes" in flow.stderr


def test_pages_and_bytes_are_counted(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="comes with the extra 'peers'")
    data = rough((40, 40, 40), "uint8")
    zarr.open_group(tmp_path / "v2.zarr", mode="w", zarr_format=2).create_array("a", data=data, chunks=(20, 20, 20))
    group = zarr.open_group(tmp_path / "v3.zarr", mode="w", zarr_format=3)
    group.create_array("a", data=data, chunks=(20, 20, 20), shards=(40, 40, 20))
    for name in ("v2.zarr", "v3.zarr"):
        here = tmp_path / name / "a"
        chunks = [p for p in here.rglob("*") if p.is_file() and p.name not in (".zarray", ".zattrs", "zarr.json")]
        documents = [here / "zarr.json"] if name == "v3.zarr" else list(here.glob(".z*"))
        info = ff_json("info", here)
        of_chunks, of_all = (sum(p.stat().st_size for p in files) for files in (chunks, [*chunks, *documents]))
        assert of_chunks <= info["bytes_disk"] <= of_all and "KiB on disk" in ff("info", here).stdout
        done = ff_json("extract", "slice", here, "--normal", "1,1,1", "-o", tmp_path / "a.npy")
        # All eight pages of voxels, and what says where they lie: of the total, no more than there are.
        assert 8 < done["pages"]["touched"] <= done["pages"]["total"]


def test_a_slice_of_all_has_no_empty_row(ff_json: Json, tmp_path: Path) -> None:
    """Sides whose ratio is no whole number of pixels: rounded up, the last row lay outside of the data."""
    np.zeros((5, 77, 100), np.uint8).tofile(tmp_path / "a.raw")
    said = ["--raw", "shape=100x77x5 dtype=uint8"]
    found = ff_json("extract", "slice", tmp_path / "a.raw", *said, "--normal", "z", "-o", tmp_path / "a.png")
    assert found["pixels"]["outside"] == 0 and found["size"] == [1024, 788]
    # What info says does is taken.
    least = ff_json("info", tmp_path / "a.raw", *said)["limit_least_bytes"]
    ff_json("info", tmp_path / "a.raw", *said, "--memory-limit", least)
