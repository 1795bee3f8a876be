"""Masks of a TIFF, and what GDAL's metadata say of its bands: values are those that GDAL has (read with rasterio 1.4)."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import farfield as ff
from farfield.volume.formats.tiff import decoded as tiff_decoded
from farfield.volume.formats.tiff import reader as tiff

_RNG = np.random.default_rng(1)
IMAGE = _RNG.integers(1, 250, (20, 24)).astype(np.uint8)
HOLDS = _RNG.random((20, 24)) > 0.2


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def masked(
    path: Path, image: np.ndarray[Any, Any], *, no_data: str | None = None, beside: bool = False, **how: Any
) -> Path:
    """An image with a mask, as GDAL writes it: a page of one bit, or a file beside it."""
    tags = [] if no_data is None else [(42113, 2, 0, no_data, True)]
    with tifffile.TiffWriter(path) as file:
        file.write(image, metadata=None, extratags=tags, **how)
        if not beside:
            file.write(HOLDS, photometric="mask", subfiletype=4, metadata=None)
    if beside:
        tifffile.imwrite(f"{path}.msk", np.where(HOLDS, 255, 0).astype(np.uint8), metadata=None)
    return path


def values(path: Path) -> np.ndarray[Any, Any]:
    with ff.open(path) as volume:
        return np.squeeze(volume.channels[0].values(np.asarray(volume[...])))


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "f4", "f8", "u8"])
def test_what_is_masked_has_no_value(tmp_path: Path, dtype: str, *, beside: bool) -> None:
    image = IMAGE.astype(dtype)
    found = values(masked(tmp_path / "a.tif", image, beside=beside))
    assert np.array_equal(found, np.where(HOLDS, image, np.nan), equal_nan=True)
    with ff.open(tmp_path / "a.tif") as volume:
        assert "says which pixels hold something: others have no value" in " ".join(volume.notes)


def test_the_number_that_is_named(tmp_path: Path) -> None:
    assert not (IMAGE == 255).any()
    path = masked(tmp_path / "a.tif", IMAGE, no_data="255")
    with ff.open(path) as volume:
        assert volume.dtype == np.uint8 and volume.channels[0].missing == 255
    assert np.array_equal(values(path), np.where(HOLDS, IMAGE, np.nan), equal_nan=True)
    # A pixel that holds something has that number: GDAL goes by the mask alone.
    taken = int(IMAGE[HOLDS][0])
    path = masked(tmp_path / "b.tif", IMAGE, no_data=str(taken))
    assert np.array_equal(values(path), np.where(HOLDS, IMAGE, np.nan), equal_nan=True)


@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_colours_become_transparent(tmp_path: Path, planar: str) -> None:
    image = np.stack([IMAGE, IMAGE + 1, IMAGE + 2], axis=-1)
    stored = image if planar == "contig" else np.moveaxis(image, -1, 0)
    path = masked(tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planar)
    with ff.open(path) as volume:
        assert volume.kind == "rgba"
        found = volume[0]
        assert np.array_equal(found[..., :3], image) and np.array_equal(found[..., 3], np.where(HOLDS, 255, 0))


def test_bands(tmp_path: Path) -> None:
    items = (
        '<Item name="SCALE" sample="0" role="scale">0.1</Item><Item name="OFFSET" sample="0" role="offset">5</Item>'
        '<Item name="UNITTYPE" sample="0" role="unittype">K</Item>'
        '<Item name="DESCRIPTION" sample="0" role="description">warm</Item>'
        '<Item name="DESCRIPTION" sample="1" role="description">cold</Item>'
    )
    tag = (42112, 2, 0, f"<GDALMetadata>{items}</GDALMetadata>", True)
    bands = np.stack([IMAGE, IMAGE + 1], axis=-1)
    tifffile.imwrite(tmp_path / "a.tif", bands, photometric="minisblack", planarconfig="contig", extratags=[tag])
    with ff.open(tmp_path / "a.tif") as volume:
        assert [(c.name, c.units, c.scale) for c in volume.channels] == [("warm", "K", (0.1, 5)), ("cold", "1", None)]
        assert volume.probe((0, 0, 0)).values["warm"] == pytest.approx(IMAGE[0, 0] * 0.1 + 5)


@pytest.mark.parametrize("bits", [2, 4, 7, 10, 12, 15])
def test_samples_of_odd_bits(tmp_path: Path, bits: int) -> None:
    """Packed here bit by bit, each row from a byte on (TIFF 6.0, page 18)."""
    right = _RNG.integers(0, 1 << bits, (9, 11))
    rows = ["".join(f"{v:0{bits}b}" for v in row) for row in right]
    packed = b"".join(int(r.ljust(-(-len(r) // 8) * 8, "0"), 2).to_bytes(-(-len(r) // 8), "big") for r in rows)
    entries = [(256, 11), (257, 9), (258, bits), (259, 1), (262, 1), (273, 200), (277, 1), (278, 9), (279, len(packed))]
    raw = b"II*\0\x08\0\0\0" + len(entries).to_bytes(2, "little")
    for tag, value in entries:
        raw += tag.to_bytes(2, "little") + b"\4\0\1\0\0\0" + value.to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes((raw + bytes(4)).ljust(200, b"\0") + packed)
    with ff.open(tmp_path / "a.tif") as volume:
        assert np.array_equal(volume[0], right)


@pytest.mark.parametrize("shape", [(1, 3, 70_001, 3), (2, 300, 301, 1), (1, 5, 7, 2)])
@pytest.mark.parametrize("bits", [3, 12])
def test_odd_bits_are_unpacked_in_parts(bits: int, shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(bits).integers(0, 1 << bits, shape)
    rows = numbers.reshape(shape[0] * shape[1], -1, 1)
    raw = np.packbits((rows >> np.arange(bits - 1, -1, -1) & 1).astype(np.uint8).reshape(len(rows), -1), axis=1)
    assert np.array_equal(tiff_decoded.unpacked(raw.tobytes(), bits, shape), numbers)


def test_deflate_is_held_to_what_there_can_be() -> None:
    raw = bytes(range(100))
    packed = zlib.compress(raw)
    assert tiff_decoded._inflated(packed, 100) == raw
    assert len(tiff_decoded._inflated(zlib.compress(bytes(10 << 20)), 100)) == 101
    with pytest.raises(ValueError, match="cut off"):
        tiff_decoded._inflated(packed[:-2], 100)
    with pytest.raises(zlib.error):
        tiff_decoded._inflated(packed[:-1] + b"?", 100)


def test_colours_of_several_channels(tmp_path: Path) -> None:
    colours = _RNG.integers(0, 255, (3, 20, 24, 3)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", colours, imagej=True)
    with ff.open(tmp_path / "a.tif") as volume:
        assert volume.kind == "rgb" and np.array_equal(volume[...], colours)
        assert "its dimension 'C' of 3 is taken as z" in " ".join(volume.notes)


def test_images_of_one_file_have_their_own_masks(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    kinds = [np.uint8, np.float32, np.uint16]
    with tifffile.TiffWriter(path) as file:
        for n, kind in enumerate(kinds):
            file.write((IMAGE + n).astype(kind), metadata=None)
            if n < 2:
                file.write(HOLDS if n == 0 else ~HOLDS, photometric="mask", subfiletype=4, metadata=None)
    # Masks of one size are one stack of pages, which is the second.
    expected = {0: np.where(HOLDS, IMAGE, np.nan), 2: np.where(~HOLDS, IMAGE + 1.0, np.nan), 3: IMAGE + 2.0}
    for n, image in expected.items():
        assert np.array_equal(values(Path(f"{path}::{n}")), image, equal_nan=True)


def test_images_of_one_type_and_size(tmp_path: Path) -> None:
    path = tmp_path / "a.ome.tif"
    rng = np.random.default_rng(5)
    images = [rng.random((6, 7)) + 1j * rng.random((6, 7)) for _ in range(2)]
    with tifffile.TiffWriter(path, ome=True) as file:
        for image in images:
            file.write(image)
    for n, image in enumerate(images):
        assert np.allclose(values(Path(f"{path}::{n}")), np.abs(image))


def test_a_stack_keeps_its_numbers_and_says_that_it_has_a_mask(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        for _ in range(3):
            file.write(IMAGE, metadata=None)
        file.write(HOLDS, photometric="mask", subfiletype=4, metadata=None)
    with ff.open(path) as volume:
        assert volume.shape[0] == 3
        assert "a mask in it says which pixels hold something, and is not applied" in " ".join(volume.notes)
    # A file beside it with a mask says so, too.
    tifffile.imwrite(tmp_path / "b.tif", np.stack([IMAGE] * 3), photometric="minisblack")
    tifffile.imwrite(tmp_path / "b.tif.msk", np.where(HOLDS, 255, 0).astype(np.uint8), metadata=None)
    with ff.open(tmp_path / "b.tif") as volume:
        assert "a mask beside it (b.tif.msk) says which pixels hold something, and is not applied" in " ".join(
            volume.notes
        )


def test_a_stack_of_images_and_masks_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        for n in range(2):
            file.write(IMAGE + n, metadata=None)
            file.write(HOLDS, photometric="mask", subfiletype=4, metadata=None)
        file.write(IMAGE[:10].astype(np.float32), metadata=None)
    with ff.open(path) as volume:
        assert np.array_equal(volume[...], [IMAGE, IMAGE + 1])
        assert "a mask in it says which pixels hold something, and is not applied" in " ".join(volume.notes)


def test_long_strips_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "LARGEST_CHUNK", 100)
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        for n in range(2):
            file.write(IMAGE + n, compression="zlib", rowsperstrip=20)
    for n in range(2):
        assert np.array_equal(values(Path(f"{tmp_path / 'a.ome.tif'}::{n}")), IMAGE + n)
