"""TIFF, OME-TIFF, Zarr and OME-Zarr that people have, with their right answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

from case_table import Cases, Try


def _labels(folder: Path) -> None:
    found = np.load(folder / "cut.npy")
    # What the same numbers are in NIfTI: whole ones, with all of their digits.
    assert found.dtype == np.uint64 and set(np.unique(found)) <= {0, (1 << 60) + 1} and (found != 0).any()


def _turned(folder: Path) -> None:
    stored = tifffile.imread(folder / "a.tif")
    found = np.load(folder / "cut.npy")
    # Orientation 3: the first row is at the bottom, the first column on the right (TIFF 6.0, page 36).
    assert np.array_equal(found, stored[::-1, ::-1])


def _white_is_zero(folder: Path) -> None:
    stored = tifffile.imread(folder / "a.tif").astype(float)
    with Image.open(folder / "a.png") as picture:
        grey = np.asarray(picture.convert("L")).astype(float)
    # The lowest number is white, the highest is black.
    assert grey[stored == stored.min()].min() == 255 and grey[stored == stored.max()].max() == 0


def _ball(folder: Path) -> None:
    with Image.open(folder / "a.png") as picture:
        seen = np.asarray(picture)[..., :3].astype(int)
    height, width = seen.shape[:2]
    # Bright in the middle, and nothing at its corners, which an opaque block would fill.
    middle = seen[int(0.35 * height) : int(0.45 * height), int(0.35 * width) : int(0.45 * width)]
    assert middle.max(axis=2).mean() > 150
    assert (seen.max(axis=2) > 120).mean() < 0.25


CASES: Cases = {
    "volumes/ometif_two_images": [
        Try("info a.ome.tif", json={"dims": [5, 4, 2], "contents.0.name": "label", "contents.1.shown": True}),
        Try("info a.ome.tif", says=("0  label", r"1  scan .*\(shown\)")),
        Try("probe a.ome.tif::label --ijk 1 1 1", json={"values": {"channel 0": 1.0}}),
        Try("probe a.ome.tif::0 --ijk 1 1 1", json={"values": {"channel 0": 1.0}}),
        Try("probe a.ome.tif::scan --ijk 1 1 2", json={"values": {"channel 0": 3.0}}),
        Try("info a.ome.tif::foo", exit=2, says=("no image named 'foo'", "label", "scan")),
        Try("info a.ome.tif::2", exit=2, says=("label", "scan")),
    ],
    "volumes/val_u64": [
        Try("render a.zarr -o a.png --size 320x240", check=_ball, never=("no value",)),
        Try("info a.zarr --ranges", json={"channels.0.range": [0, 2.0**64], "channels.0.missing": None}),
    ],
    "volumes/tif_miniswhite": [
        Try("info a.tif", says=("shown inverted", "WhiteIsZero"), json={}),
        Try("info a.tif", json={"channels.0.inverted": True}),
        Try("probe a.tif --ijk 1 1 1", says=("WhiteIsZero",)),
        Try(
            "extract slice a.tif --normal z --size 20x16 --nearest -o a.png",
            says=("WhiteIsZero",),
            check=_white_is_zero,
        ),
        Try("render a.tif -o b.png --size 80x64", says=("WhiteIsZero",)),
        Try("info a.tif --raw invert=no", never=("WhiteIsZero", "shown inverted")),
    ],
    "volumes/ome04_omero": [
        Try("info i.zarr", says=("DAPI .*shown inverted", "omero, of DAPI")),
        Try("probe i.zarr --ijk 1 1 1", says=("omero, of DAPI",)),
        Try("info i.zarr", json={"channels.0.inverted": True, "channels.1.inverted": False}),
    ],
    "volumes/tif_orient3": [
        Try("info a.tif", says=("i to -x, j to -y", "turned by 180 degrees")),
        Try(
            "extract slice a.tif --normal z --size 20x16 --nearest -o cut.npy",
            says=("turned by 180 degrees",),
            check=_turned,
        ),
        Try("probe a.tif --ijk 1 1 1", says=("turned by 180 degrees",), json={"position": [19.0, 15.0, 0.0]}),
    ],
    "volumes/tif_cog_mask": [
        Try(
            "info a.tif",
            json={
                "format": "GeoTIFF",
                "spacing": [10, 10, 10],
                # The tie point is the corner of the first pixel, whose centre is half a pixel further on.
                "origin": [500_005, 3_999_995, 0],
                "length_unit": "m",
                "channels.0.missing": 0,
                "levels.1.spacing": [20, 20, 10],
                "levels.1.origin": [500_010, 3_999_990, 0],
            },
        ),
        Try("info a.tif", says=(r"tie point \(500000, 4000000\)", "mask"), never=("how large a voxel is",)),
        Try("probe a.tif 500005 3999995 0", json={"ijk": [1, 1, 1]}),
        Try("info a.tif::mask", json={"dims": [80, 64, 1], "channels.0.dtype": "uint8"}),
    ],
    "volumes/ome_rfc4_orientation": [
        Try("info i.zarr", says=("i to L, j to P, k to S",)),
        Try("info i.zarr", json={"orientation": "LPS", "spacing": [1, 1, 3]}),
    ],
    "volumes/tif_folder_two_prefixes": [
        Try("info .", exit=2, says=("2 series of images", "a_000.tif", "b_000.tif", "::a")),
        Try("info .::a", json={"dims": [5, 4, 3], "contents.1.name": "b"}),
        Try("info .::1", json={"dims": [5, 4, 3], "contents.1.shown": True}),
        Try("info .::c", exit=2, says=("no series of images named 'c'", "a_000.tif", "b_000.tif")),
    ],
    "volumes/ome_scale_negative": [
        Try(
            "info i.zarr",
            json={"origin": [0, 100, 0], "spacing": [1, 1, 2], "direction.1": [0, -1, 0], "box.0": [0, 92, 0]},
        ),
        Try("info i.zarr", says=("j to -y",)),
        Try("probe i.zarr 0 100 0", json={"ijk": [1, 1, 1]}),
    ],
    "volumes/ometif_multi_nofilename": [
        Try("info z0.ome.tif", json={"dims": [5, 4, 3], "format": "OME-TIFF"}),
        Try("info .", json={"dims": [5, 4, 3], "format": "OME-TIFF"}),
        Try("probe z1.ome.tif --ijk 1 1 3", json={"values": {"channel 0": 12.0}}),
    ],
    "volumes/ome06": [
        Try(
            "info i.zarr",
            never=("not known here",),
            json={"spacing": [1, 1, 2], "length_unit": "um", "format": "OME-Zarr 0.6"},
        ),
    ],
    "volumes/zarr3_too_many_files": [
        Try("probe a.zarr --ijk 1 1 1", json={"values": {"a.zarr": 0}}),
        Try("probe a.zarr --ijk 1 1 1", says=("1 chunk was never written",)),
        Try("probe a.zarr --ijk 102400 102400 102400", json={"values": {"a.zarr": 0}}),
    ],
    "volumes/label_uint64_slice": [
        Try("info seg_labels.zarr", json={"kind": "labels"}),
        Try("extract slice seg_labels.zarr --normal z --nearest --size 8x7 -o cut.npy", check=_labels),
    ],
    "volumes/info_under_limit": [
        Try("info a.zarr --memory-limit 200MiB", json={"dims": [512, 512, 384]}),
        Try("probe a.zarr --memory-limit 200MiB --ijk 1 1 1", exit=4, says=("one page of the volume",)),
    ],
}
