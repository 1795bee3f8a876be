"""Pictures as TIFF and JPEG, and the answers to commands and options that people guess."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

import farfield as ff
from farfield.cli import run
from farfield.cli.table import COMMANDS, INSTEAD
from farfield.results import outputs


@pytest.mark.parametrize("ending", ["tif", "jpg", "TIFF", "jpeg"])
def test_a_picture_is_the_same_in_every_format(tmp_path: Path, ending: str) -> None:
    for name in ("out.png", f"out.{ending}"):
        assert run(["render", "demo:box", "--size", "160x100", "-o", str(tmp_path / name), "-q"]) == 0
    png, other = (np.asarray(Image.open(tmp_path / n).convert("RGB"), float) for n in ("out.png", f"out.{ending}"))
    assert np.abs(png - other).mean() < (4 if ending[0] == "j" else 1e-9)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["out.png", f"out.{ending}"])


@pytest.mark.parametrize("kind", ["render", "slice"])
def test_what_a_killed_run_left_beside_a_picture_goes_with_the_next_one(tmp_path: Path, kind: str) -> None:
    words = {
        "render": ["render", "demo:box", "--size", "160x100"],
        "slice": ["extract", "slice", "demo:phantom", "--normal", "z", "--size", "160x100"],
    }[kind]
    # It kills itself as soon as the extension has a file for the picture's pixels.
    killed = f"""
import os, signal, sys
from farfield import otherpictures
from farfield.cli import run
def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)
otherpictures._save = otherpictures._publish = stop
run({[*words, "-q", "-o", "a.tif"]!r})
"""
    child = subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, capture_output=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left and all(name.startswith(".a.tif.part-") for name in left)
    with outputs.workplace(str(tmp_path / "a.tif")) as held:  # a run that is still under way keeps its own
        assert [p.name for p in tmp_path.iterdir()] == [Path(held).name]
        assert run([*words, "-q", "-o", str(tmp_path / "a.tif")]) == 0
        assert Path(held).is_dir()
    assert [p.name for p in tmp_path.iterdir()] == ["a.tif"]


def test_a_slice_of_a_volume_is_grey_of_16_bits(tmp_path: Path) -> None:
    values = np.arange(8 * 6 * 5, dtype="<i2").reshape(8, 6, 5) * 100
    source = tmp_path / "v.nrrd"
    source.write_bytes(
        b"NRRD0004\ntype: int16\ndimension: 3\nsizes: 5 6 8\nendian: little\nencoding: raw\n\n" + values.tobytes()
    )
    words = ["extract", "slice", str(source), "--normal", "z", "--resolution", "1", "--nearest", "-q", "-o"]
    assert run([*words, str(tmp_path / "a.tif")]) == 0
    assert run([*words, str(tmp_path / "a.npy")]) == 0
    grey, numbers = tifffile.imread(tmp_path / "a.tif"), np.load(tmp_path / "a.npy")
    assert grey.dtype == np.uint16 and grey.shape == numbers.shape
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    assert np.array_equal(grey, np.rint((numbers - low) / (high - low) * 65535))
    assert run([*words, str(tmp_path / "b.tif"), "--cmap", "viridis"]) == 0
    assert tifffile.imread(tmp_path / "b.tif").dtype == np.uint8
    assert run([*words, str(tmp_path / "c.jpg")]) == 0
    assert Image.open(tmp_path / "c.jpg").mode == "RGB"


def test_what_cannot_be_held_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["render", "demo:box", "--outline", "--no-walls", "--slice", "z", "--samples", "1"]
    big = ["--size", "4000x3000", "--memory-limit", "48MiB", "-q", "-o"]
    assert run([*words, *big, str(tmp_path / "a.jpg")]) == 4
    assert "write a .png" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run([*words, "-o", str(tmp_path / "a_%04d.jpg")]) == 2
    assert "a_%04d.png" in capsys.readouterr().err
    assert run([*words, "-o", str(tmp_path / "a.gif")]) == 2


@pytest.mark.parametrize("word", sorted(INSTEAD))
def test_guessed_commands_are_answered_with_the_right_one(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert word not in COMMANDS
    assert run([word, "scan.nii"]) == 2
    said = capsys.readouterr().err
    assert f"no command '{word}'; it is: farfield" in said
    assert said.split("it is: farfield ")[1].split()[0] in [*COMMANDS, "--help,", "--version"]


def test_guessed_options_are_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    for words, right in (
        (["render", "a.nii", "--missing", "3"], "--raw missing=N"),
        (["render", "a.nii", "--mip"], "--projection maximum"),
        (["render", "a.nii", "--colour", "red"], "--color"),
        (["extract", "slice", "a.nii", "--color", "mach"], "--field FIELD"),
    ):
        assert run(words) == 2
        assert right in capsys.readouterr().err


@pytest.mark.parametrize("name", ["h.h5", "z.zarr", "n.npy"])
def test_words_for_labels_are_looked_for_in_every_format(tmp_path: Path, name: str) -> None:
    values = np.arange(5 * 6 * 7, dtype=np.uint8).reshape(5, 6, 7)
    if name == "h.h5":
        import h5py

        with h5py.File(tmp_path / name, "w") as file:
            file["brain/segmentation"], file["brain/scan"] = values, values
        sources = {"h.h5::/brain/segmentation": "labels", "h.h5::/brain/scan": "scalar"}
    elif name == "z.zarr":
        import zarr

        for stem in ("labels", "scan"):
            zarr.save_array(str(tmp_path / f"{stem}.zarr"), values)
        sources = {"labels.zarr": "labels", "scan.zarr": "scalar"}
    else:
        for stem in ("atlas", "scan"):
            tifffile.imwrite(tmp_path / f"{stem}.tif", values, photometric="minisblack")
        sources = {"atlas.tif": "labels", "scan.tif": "scalar"}
    for source, kind in sources.items():
        with ff.open(str(tmp_path / source)) as volume:
            assert volume.kind == kind, source


@pytest.mark.parametrize(("photometric", "words"), [("miniswhite", []), ("minisblack", ["--invert"])])
def test_the_lowest_value_is_white_in_every_picture(tmp_path: Path, photometric: str, words: list[str]) -> None:
    """By the file, or by its user, who may also say that it is black."""
    tifffile.imwrite(tmp_path / "w.tif", np.tile(np.arange(64, dtype="u2") * 100, (48, 1)), photometric=photometric)
    slices = ["extract", "slice", str(tmp_path / "w.tif"), "--normal", "z", "--size", "64x48", "-q"]
    slices += ["--no-bar", "--no-letters"]
    for name, more in (("o.tif", []), ("o.jpg", []), ("g.png", ["--grey16"]), ("o.png", [])):
        for way, falls in ((words, True), (["--no-invert"], False)):
            target = tmp_path / f"{len(way)}{name}"
            assert run([*slices, *more, *way, "-o", str(target)]) == 0
            grey = np.asarray(tifffile.imread(target) if name == "o.tif" else Image.open(target).convert("F"), float)
            row = grey.reshape(48, 64, -1)[20, :, 0]
            assert (row[0] > row[32] > row[-1]) == falls and (row[0] < row[32] < row[-1]) != falls, (name, way)
    numbers = [tifffile.imread(tmp_path / f"{n}o.tif").astype(int) for n in (len(words), 1)]
    if not words:
        assert numbers[0].dtype == numbers[1].dtype and np.abs(numbers[0] + numbers[1] - 65535).max() <= 1
    drawn = ["render", str(tmp_path / "w.tif"), "--size", "64x48", "--no-bar", "-q", "-o", str(tmp_path / "r.tif")]
    assert run([*drawn, *(["--raw", "invert=yes"] if words else [])]) == 0
    assert np.abs(tifffile.imread(tmp_path / "r.tif")[20].astype(float) - np.linspace(65535, 0, 64)).max() < 3000


def test_an_array_has_the_numbers_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tifffile.imwrite(tmp_path / "w.tif", np.zeros((4, 5), "u2"), photometric="miniswhite")
    words = ["extract", "slice", str(tmp_path / "w.tif"), "--normal", "z", "-o", str(tmp_path / "o.npy"), "--invert"]
    assert run(words) == 2 and "an array has the numbers themselves" in capsys.readouterr().err
