"""Slices as pictures and arrays: against a reference of their own, from the command line, in little memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield as ff_
from farfield.cli import run
from farfield.pictures.colors import lut
from farfield.pictures.slices import box, pair, pixels, vector, write_slice
from plot3d_files import Block, cut, source_of, write
from pngs import picture
from running import Command, Json

LENGTHS = np.array([2.0, 1.0, 0.5])


def straight(ni: int, nj: int, nk: int) -> Block:
    """A box along the axes whose density is linear in space."""
    k, j, i = np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in (nk, nj, ni)), indexing="ij")
    x, y, z = (length * of for length, of in zip(LENGTHS, (i, j, k), strict=True))
    rho = 1.0 + x + 0.5 * y - 0.25 * z
    return Block([x, y, z], [rho, rho * y, rho * 0.2, rho * 0.1, np.full_like(rho, 9.0)])


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> str:
    return source_of(*write(tmp_path_factory.mktemp("linear"), cut(straight(33, 17, 9), 2)))


def density(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1.0 + positions[..., 0] + 0.5 * positions[..., 1] - 0.25 * positions[..., 2]


def test_a_slice_is_what_lies_there(linear: str) -> None:
    with ff_.open(linear) as ds:
        for normal in ("x", "y", "z", (1.0, 2.0, -0.5)):
            cut_ = ds.slice_image(normal=normal, size=(120, 90), field="density")
            at = cut_.positions()
            inside = ((at >= 0.0) & (at <= LENGTHS)).all(axis=-1)
            assert inside.sum() > 1000 and cut_.failed == 0 and cut_.failure is None
            assert ((cut_.pixels == 1) == inside).mean() > 0.999  # edges apart
            assert np.isnan(cut_.values[cut_.pixels == 2]).all()
            assert np.abs(cut_.values - density(at))[inside & (cut_.pixels == 1)].max() < 2e-6
        several = ds.slice_image(normal="z", size="40x20", field=["density", "velocity"])
        assert several.values.shape == (20, 40, 4) and list(several.fields) == ["density", "velocity"]
        probed = ds.probe(tuple(several.positions()[7, 11]), fields=["velocity"])
        assert probed is not None
        assert np.allclose(several.values[7, 11, 1:], probed.values["velocity"], rtol=1e-6)
        part = ds.slice_image(
            normal="z", origin=(1, 0.5, 0.25), extent=(0, 0.5, -0.25, 0), size=(10, 5), field="density"
        )
        assert part.extent == (0, 0.5, -0.25, 0) and np.allclose(part.positions()[0, 0], (1.025, 0.475, 0.25))


def test_files_of_slices(linear: str, ff_json: Json, ff: Command, tmp_path: Path) -> None:
    words = ("extract", "slice", linear, "--normal", "z", "--size", "64x48", "--field", "density")
    done = ff_json(*words, "-o", tmp_path / "a.png", "--range", "1:3.5", "--cmap", "gray")
    assert done["size"] == [64, 48] and done["pixels"]["failed"] == 0 and done["ranges"] == [[1.0, 3.5]]
    assert done["peak_bytes"] <= done["limit_bytes"] and done["partial"] is False
    seen, texts = picture(tmp_path / "a.png")
    about = json.loads(texts["Description"])
    assert about["extent"] == done["extent"] and texts["Source"].endswith(".xyz")
    with ff_.open(linear) as ds:
        cut_ = ds.slice_image(normal="z", size=(64, 48), field="density")
    here = cut_.pixels == 1
    assert (seen[~here] == 0).all() and (seen[here][:, 3] == 255).all() and 1000 < here.sum() < 64 * 48
    entry = ((cut_.values[here] - 1.0) / 2.5 * 256).clip(0, 255)
    sure = np.abs(entry - entry.round()) > 1e-4  # rounding may go to the next
    assert sure.mean() > 0.5
    assert (seen[here][sure, :3] == np.array(lut("gray"))[entry[sure].astype(int)]).all()

    ff(*words, "-o", tmp_path / "g.png", "--grey16", "--range", "0:4")
    grey, _ = picture(tmp_path / "g.png")
    wide = grey[..., 0].astype(int) * 256 + grey[..., 1]
    assert np.abs(wide[here] / 65535 * 4.0 - cut_.values[here]).max() < 1e-4 and (wide[~here] == 0).all()

    ff(*words, "-o", tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), cut_.values, equal_nan=True)
    both = [w.replace("density", "density,velocity") for w in words]
    ff(*both, "-o", tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as of:
        assert of["density"].dtype == np.float32 and of["velocity"].shape == (48, 64, 3)
        assert np.array_equal(of["density"], cut_.values, equal_nan=True) and (of["pixels"] == cut_.pixels).all()
        first = of["origin"] + 5 * of["across"] + 7 * of["down"]
        assert np.allclose(first, cut_.positions()[7, 5]) and np.allclose(of["extent"], cut_.extent)
        meta = json.loads(str(of["meta"]))
        assert meta["kind"] == "slice" and meta["normal"] == [0.0, 0.0, 1.0] and not of["partial"]
    text = ff(*words, "-o", tmp_path / "b.png").stdout
    assert "64 x 48 pixels" in text and "colours  density from" in text


def test_little_memory_makes_the_same_picture(store: Path, ff_json: Json, tmp_path: Path) -> None:
    made = []
    for limit, workers in (("256MiB", 1), ("7MiB", 2), ("6MiB", 3)):
        out = tmp_path / f"{limit}.png"
        words = ("extract", "slice", store, "--normal", "1,0.5,2", "--size", "500x400", "--field", "pressure")
        done = ff_json(*words, "-o", out, "--memory-limit", limit, "--workers", workers)
        assert done["peak_bytes"] <= done["limit_bytes"]
        made.append(out.read_bytes())
    assert made[0] == made[1] == made[2]


def test_what_makes_no_slice_is_said(linear: str, ff: Command, tmp_path: Path) -> None:
    def says(*words: object, ok: int = 2, out: str = "a.png") -> str:
        done = ff("extract", "slice", linear, *words, "-o", tmp_path / out, ok=(ok,))
        assert not list(tmp_path.iterdir())
        return done.stderr

    good = ("--normal", "z", "--field", "density")
    assert "did you mean" in says("--normal", "z", "--field", "densty") or "density" in says(
        "--normal", "z", "--field", "densty"
    )
    assert "normal" in says("--normal", "w", "--field", "density")
    assert "direction" in says("--normal", "0,0,0", "--field", "density")
    assert "does not meet the data" in says(*good, "--origin", "0,0,7")
    assert "1024x768" in says(*good, "--size", "12")
    assert "velocity_x" in says("--normal", "z", "--field", "velocity")
    assert ".npz" in says(*good, out="a.gif")
    assert "numbers themselves" in says(*good, "--cmap", "viridis", out="a.npy")
    assert "one of them" in says(*good, "--cmap", "viridis", "--grey16")
    assert "lower first" in says(*good, "--range", "3:1")
    assert "colour map" in says(*good, "--cmap", "viridsi")
    needs = says(*good, "--size", "60000x60000", "--memory-limit", "8MiB", ok=4)
    assert "MiB" in needs


def test_a_slice_that_shows_nothing_says_so(linear: str, ff: Command, tmp_path: Path) -> None:
    words = ("extract", "slice", linear, "--normal", "z", "--field", "density", "--size", "8x6")
    for out, where in (
        ("a.png", ("--extent", "50,60,50,60")),
        ("a.npy", ("--origin", "70,0,0.2", "--extent", "0,1,0,1")),
    ):
        done = ff(*words, *where, "-o", tmp_path / out, "--json")
        told = json.loads(done.stdout)
        assert told["pixels"] == {"values": 0, "missing": 0, "outside": 48, "failed": 0}
        (warning,) = told["warnings"]
        assert warning.startswith(f"{tmp_path / out}: the slice shows nothing: none of its 8 x 6 pixels has a value")
        assert done.stderr == f"farfield: warning: {warning}\n"
        assert ff(*words, *where, "-o", tmp_path / out, "-q").stderr == ""
    # One pixel of the data is something.
    done = ff(*words, "--extent", "0,8,0,1", "-o", tmp_path / "b.png", "--json")
    assert json.loads(done.stdout)["warnings"] == [] and json.loads(done.stdout)["pixels"]["values"] > 0


def test_a_slice_on_both_sides_of_zero_has_it_in_the_middle(tmp_path: Path) -> None:
    """As pictures in space have it: of volumes by their values, of flows by what the field is."""
    effects = np.random.default_rng(3).normal(0.0, 1.0, (10, 20, 30)).astype("<f4")
    effects[4:7, 8:12, 10:20] += 5.0
    head = "NRRD0004\ntype: float\ndimension: 3\nsizes: 30 20 10\nendian: little\nencoding: raw\n\n"
    (tmp_path / "effects.nrrd").write_bytes(head.encode() + effects.tobytes())
    (tmp_path / "amounts.nrrd").write_bytes(head.encode() + np.abs(effects).tobytes())
    warm, cold = lut("matplotlib:coolwarm")[-1], lut("matplotlib:coolwarm")[0]
    out = tmp_path / "a.png"

    def made(source: str | Path, **how: Any) -> tuple[list[float], NDArray[Any]]:
        with ff_.open(source) as data:
            found = write_slice(data, out, normal="z", bar=False, letters=False, **how)
            numbers = data.slice_image(normal="z", **{k: v for k, v in how.items() if k in ("field", "nearest")})
            assert found["size"] == list(numbers.values.shape[::-1])
        peak = np.unravel_index(np.nanargmax(np.abs(numbers.values)), numbers.values.shape)
        reach = float(np.nanmax(np.abs(numbers.values)))
        assert found["ranges"][0][1] == pytest.approx(reach, rel=1e-6)
        return found["ranges"][0], picture(out)[0][peak][:3]

    (low, high), colour = made(tmp_path / "effects.nrrd", nearest=True)
    assert low == -high and colour.tolist() == list(warm)
    (low, _), colour = made(tmp_path / "amounts.nrrd", nearest=True)
    assert low >= 0 and colour.tolist() == [255, 255, 255]
    (low, high), colour = made(tmp_path / "effects.nrrd", nearest=True, cmap="gray")
    assert low != -high and colour.tolist() == [255, 255, 255]

    block = straight(17, 9, 5)
    x, rho = block.xyz[0], block.q[0]
    block.q[2] = rho * (0.25 - 0.5 * x)  # v from 0.25 down to -0.75
    flow = source_of(*write(tmp_path, [block]))
    with ff_.open(flow) as ds:
        found = write_slice(ds, out, normal="z", field="velocity_y", bar=False)
    low, high = found["ranges"][0]
    assert low == -high == pytest.approx(-0.75, abs=0.01)
    drawn = picture(out)[0]
    row = drawn[drawn.shape[0] // 2]
    assert row[-1][:3].tolist() == pytest.approx(list(cold), abs=4)


def test_of_the_normal_of_a_slice_the_length_does_not_matter(linear: str) -> None:
    with ff_.open(linear) as ds:
        plain = ds.slice_image(normal=(1, 2, -0.5), up=(0, 0, 1), size=(40, 30), field="density").values
        for length in (1e300, 1e-300, 8e307):
            normal, up = (length, 2 * length, -0.5 * length), (0, 0, length)
            found = ds.slice_image(normal=normal, up=up, size=(40, 30), field="density").values
            assert np.array_equal(found, plain, equal_nan=True)


def test_places_as_people_write_them() -> None:
    assert vector("-x", "normal") == (-1.0, 0.0, 0.0) and vector([1, 2, 3], "normal") == (1.0, 2.0, 3.0)
    assert pixels((3, 4)) == (3, 4) and pair("-1:2", "range") == (-1.0, 2.0) and box("0,1,2,3") == (0, 1, 2, 3)
    for wrong in (lambda: vector("1,2", "normal"), lambda: pixels("3x0"), lambda: pair("1", "range"), lambda: box("1")):
        with pytest.raises(ff_.UsageError):
            wrong()


def test_a_title_says_where_a_slice_lies(linear: str, tmp_path: Path) -> None:
    """In the upper left corner of pictures with a bar; of an array there is none."""
    words = ["extract", "slice", linear, "--normal", "z", "--size", "400x300", "--field", "density", "-q", "-o"]
    seen = {}
    for name, more in {
        "default": [],
        "none": ["--title", ""],
        "own": ["--no-bar", "--title", "Cut"],
        "bare": ["--no-bar"],
    }.items():
        assert run([*words, str(tmp_path / f"{name}.png"), "--no-letters", *more]) == 0
        seen[name] = picture(tmp_path / f"{name}.png")[0].astype(int)
    corner = {name: pixels[:30, :160] for name, pixels in seen.items()}
    assert (corner["default"] != corner["none"]).any() and (corner["own"] != corner["bare"]).any()
    assert (corner["bare"] == corner["none"]).all()
    # Nothing else of the picture is another.
    differ = (seen["own"] != seen["bare"]).any(axis=-1)
    differ[:30, :160] = False
    assert not differ.any()
    assert run([*words, str(tmp_path / "a.npy"), "--title", "Cut"]) == 2
