"""What is up in slices of volumes where nobody says it: front and head of anatomy, the first row of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield
from pngs import picture
from running import Command, Json


def noise() -> NDArray[np.uint8]:
    return np.random.default_rng(4).integers(0, 256, (4, 5, 6)).astype(np.uint8)


def nrrd(path: Path, data: NDArray[np.uint8], space: str, directions: str, origin: str) -> Path:
    """Writes [z, y, x]."""
    sizes = " ".join(str(n) for n in data.shape[::-1])
    said = f"type: uint8\ndimension: 3\nspace: {space}\nsizes: {sizes}\nspace directions: {directions}\nspace origin: {origin}"
    path.write_bytes(f"NRRD0004\n{said}\nencoding: raw\n\n".encode() + data.tobytes())
    return path


def cut(source: Path, normal: str, **more: Any) -> farfield.SliceImage:
    with farfield.open(source) as volume:
        return volume.slice_image(normal=normal, resolution=1, nearest=True, **more)


def test_slices_of_images_are_the_images(ff: Command, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    data = noise()
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="minisblack")
    place = {"origin": (2.5, 2.0, 1.0)}
    found = cut(tmp_path / "a.tif", "z", **place)
    assert np.array_equal(found.values, data[1]) and found.up == (0, -1, 0) and found.right == (1, 0, 0)
    # A store of it shows the same, and so does what is asked for.
    ff("convert", tmp_path / "a.tif", tmp_path / "a.zarr", "--levels", 1)
    assert np.array_equal(cut(tmp_path / "a.zarr", "z", **place).values, data[1])
    assert np.array_equal(cut(tmp_path / "a.tif", "z", up=(0, 1, 0), **place).values, data[1, ::-1])
    assert cut(tmp_path / "a.tif", "x").up == (0, 0, 1)


def test_slices_of_arrays_have_y_up(tmp_path: Path) -> None:
    data = noise()
    data.tofile(tmp_path / "a.raw")
    with farfield.open(tmp_path / "a.raw", volume={"shape": "6x5x4", "dtype": "uint8"}) as volume:
        assert volume.slice_image(normal="z", size=(6, 5)).up == (0, 1, 0)


def test_slices_of_anatomy_stand_upright(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    source = nrrd(tmp_path / "a.nrrd", noise(), "left-posterior-superior", "(1,0,0) (0,1,0) (0,0,1)", "(0,0,0)")
    assert cut(source, "z").up == (0, -1, 0) and cut(source, "z").right == (1, 0, 0)
    assert cut(source, "y").up == cut(source, "x").up == (0, 0, 1)
    # Across a plane that is tilted by less than 30 degrees the front is up, else the head.
    assert cut(source, "0,0.4,1").up[1] < -0.9 and cut(source, "0,1,1").up[2] > 0.7
    done = ff_json("extract", "slice", source, "--normal", "z", "-o", tmp_path / "a.png")
    assert done["anatomy"] == {"right": "R to L", "up": "P to A"}
    said = ff("extract", "slice", source, "--normal", "z", "-o", tmp_path / "a.png").stdout
    assert "along 1, 0, 0 (R to L)" in said and "along 0, -1, 0 (P to A) [mm]" in said


def test_the_left_of_anatomy_is_on_the_right(ff: Command, tmp_path: Path) -> None:
    data = noise()
    lps = nrrd(tmp_path / "l.nrrd", data, "left-posterior-superior", "(1,0,0) (0,1,0) (0,0,1)", "(0,0,0)")
    ras = nrrd(tmp_path / "r.nrrd", data, "right-anterior-superior", "(-1,0,0) (0,-1,0) (0,0,1)", "(0,0,0)")
    for normal, edges in (("z", "RLAP"), ("y", "RLSI"), ("x", "APSI")):
        one, other = cut(lps, normal), cut(ras, normal)
        assert np.array_equal(one.values, other.values, equal_nan=True)
        assert one.edges == other.edges == dict(zip(("left", "right", "top", "bottom"), edges, strict=True))
        mirrored = cut(ras, normal, convention="neurological")
        assert np.array_equal(mirrored.values, one.values[:, ::-1]) and mirrored.edges is not None
        assert mirrored.edges["left"] == edges[1]
    oblique = cut(ras, "1,1,0")
    assert oblique.edges == {"left": "RP", "right": "LA", "top": "S", "bottom": "I"}
    assert cut(lps, "1,1,0").edges == oblique.edges
    # Other formats have no anatomy, and no letters.
    data.tofile(tmp_path / "a.raw")
    with farfield.open(tmp_path / "a.raw", volume={"shape": "6x5x4", "dtype": "uint8"}) as volume:
        assert volume.slice_image(normal="z", size=(6, 5)).edges is None


def test_letters_and_bars_stand_on_pictures_alone(ff: Command, tmp_path: Path) -> None:
    source = nrrd(tmp_path / "a.nrrd", noise(), "left-posterior-superior", "(1,0,0) (0,1,0) (0,0,1)", "(0,0,0)")
    made = {}
    for name, words in (
        ("plain", ("--no-bar", "--no-letters")),
        ("all", ()),
        ("bar", ("--no-letters",)),
        ("deep", ("--grey16",)),
    ):
        ff("extract", "slice", source, "--normal", "z", "--size", "300x240", *words, "-o", tmp_path / f"{name}.png")
        made[name] = picture(tmp_path / f"{name}.png")[0]
    differs = (made["all"] != made["plain"]).any(axis=-1)
    assert 0.005 < differs.mean() < 0.3 and differs[:, :40].any() and differs[:30].any()
    # The bar stands at the right, and shows black and white.
    bar = (made["bar"] != made["plain"]).any(axis=-1)
    assert bar.any() and not bar[:, :150].any()
    ff(
        "extract",
        "slice",
        source,
        "--normal",
        "z",
        "--size",
        "300x240",
        "--grey16",
        "--no-bar",
        "-o",
        tmp_path / "d.png",
    )
    assert np.array_equal(made["deep"], picture(tmp_path / "d.png")[0])


def test_left_handed_spaces_are_not_seen_in_a_mirror(tmp_path: Path) -> None:
    data = noise()
    source = nrrd(tmp_path / "a.nrrd", data, "left-anterior-superior", "(0.5,0,0) (0,0,-2) (0,1,0)", "(1,2,3)")
    with farfield.open(source) as volume:
        assert volume.anatomy == "RAS" and volume.space.orientation() == "LIA"
        assert any("left-handed" in said for said in volume.info()["guessed"])
        found = volume.probe((-(1 + 0.5 * 3), 2 + 2.0, 3 - 2 * 1.0))
        assert found is not None and list(found.values.values()) == [data[2, 1, 3]]
