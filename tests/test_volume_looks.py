"""Colours, labels, channels, projections and budgets of volumes in pictures, through the command line and scenes."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield as ff
from farfield.errors import FarfieldError, UsageError
from farfield.scene import Scene
from farfield.scene.flags import Shorthand, seconds, window_of
from farfield.scene.volumes import first_scene

SIZE = (96, 72)
DIMS = (40, 36, 32)


def nrrd(path: Path, data: NDArray[Any]) -> Path:
    """Writes [z, y, x] or [z, y, x, colour] as NRRD; its axes run the other way round."""
    kinds = "RGB-color domain domain domain" if data.ndim == 4 else "domain domain domain"
    names = {"u1": "uint8", "i2": "int16", "u2": "uint16", "u8": "uint64", "f4": "float"}
    header = [
        "NRRD0004",
        f"type: {names[data.dtype.str[1:]]}",
        f"dimension: {data.ndim}",
        f"sizes: {' '.join(str(n) for n in reversed(data.shape))}",
        f"kinds: {kinds}",
        "endian: little",
        "encoding: raw",
    ]
    path.write_bytes(("\n".join(header) + "\n\n").encode() + data.tobytes())
    return path


def ball(radius: float = 12.0) -> NDArray[np.bool_]:
    k, j, i = np.indices((DIMS[2], DIMS[1], DIMS[0]), dtype=float)
    found = (i - DIMS[0] / 2) ** 2 + (j - DIMS[1] / 2) ** 2 + (k - DIMS[2] / 2) ** 2 < radius**2
    return np.asarray(found)


def pixels(path: Path) -> NDArray[np.uint8]:
    """[row, column, 3] of an 8-bit RGB picture."""
    data = path.read_bytes()
    at, packed, size = 8, b"", (0, 0)
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            assert body[8:10] == b"\x08\x02"
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    width, height = size
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    out = np.zeros((height, 3 * width), np.uint8)
    for y, row in enumerate(rows):
        above = out[y - 1].astype(int) if y else np.zeros(3 * width, int)
        raw = row[1:].astype(int)
        for x in range(3 * width):
            left = int(out[y, x - 3]) if x >= 3 else 0
            corner = int(above[x - 3]) if x >= 3 else 0
            up = int(above[x])
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda v: abs(guess - v))
            out[y, x] = (raw[x] + (0, left, up, (left + up) // 2, paeth)[row[0]]) & 255
    return out.reshape(height, width, 3)


def drawn(scene: Scene | dict[str, Any], path: Path, **how: Any) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    bare = {"axes": False, "scalar_bar": False, "background": "black", "size": SIZE}
    document = {**(scene if isinstance(scene, dict) else scene.model_dump(mode="json")), **bare}
    result = ff.render(Scene.model_validate(document), path, **how)
    return pixels(path), result


def volume_scene(source: Path, **look: Any) -> dict[str, Any]:
    return {"source": str(source), "objects": [{"kind": "volume", **look}]}


def middle(picture: NDArray[np.uint8]) -> list[int]:
    return [int(v) for v in picture[SIZE[1] // 2, SIZE[0] // 2]]


def test_colours_are_shown_as_they_are_stored_and_their_background_is_not(tmp_path: Path) -> None:
    data = np.zeros((DIMS[2], DIMS[1], DIMS[0], 3), np.uint8)
    data[:] = (10, 30, 200)
    data[ball()] = (230, 120, 40)
    source = nrrd(tmp_path / "body.nrrd", data)
    picture, result = drawn(volume_scene(source, opacity=[(0.3, 0.0), (0.31, 1.0)]), tmp_path / "body.png")
    assert result["partial"] is False
    assert np.abs(np.array(middle(picture)) - (230, 120, 40)).max() <= 2
    corner = picture[:4, :4].max()
    assert corner <= 2, "the background is clear"
    # By luminance instead the blue shows, too: it is not black.
    bright, _ = drawn(
        volume_scene(source, opacity_from="luminance", opacity=[(0.05, 0.0), (0.06, 1.0)]), tmp_path / "bright.png"
    )
    r, _, b = middle(bright)
    assert b > 150 and r < 40, "what is in front is the background now"


def test_labels_have_their_own_colours_and_nothing_between_them(tmp_path: Path) -> None:
    data = np.zeros((DIMS[2], DIMS[1], DIMS[0]), np.uint64)
    data[ball()] = (1 << 53) + 1
    source = nrrd(tmp_path / "labels.nrrd", data)
    name = str((1 << 53) + 1)
    look = {"labels": {"colors": {name: "#20c060"}, "opacity": 1.0}}
    picture, _ = drawn(volume_scene(source, **look), tmp_path / "labels.png")
    assert np.abs(np.array(middle(picture)) - (0x20, 0xC0, 0x60)).max() <= 2
    # One less is another name, which single and double precision would not tell apart.
    gone, _ = drawn(volume_scene(source, labels={"only": [1 << 53], "opacity": 1.0}), tmp_path / "gone.png")
    assert gone.max() <= 2


@pytest.mark.parametrize(
    ("name", "dtype", "options", "is_labels"),
    [
        ("frog_tissues", np.uint8, {}, True),
        ("p07-Segmentation.seg", np.uint16, {}, True),
        ("frog_tissues", np.uint8, {"kind": "scalar"}, False),
        ("labels", np.float32, {}, False),
        ("relabelled", np.uint8, {}, False),
    ],
)
def test_integers_in_a_file_of_that_name_are_labels(
    tmp_path: Path, name: str, dtype: type, options: dict[str, Any], is_labels: bool
) -> None:
    source = nrrd(tmp_path / f"{name}.nrrd", ball().astype(dtype))
    with ff.open(source, volume=options) as found:
        guessed = [text for text in found.info()["guessed"] if "its name says" in text]
        assert (found.kind == "labels") == is_labels == bool(guessed)


@pytest.mark.parametrize(("how", "wanted"), [("maximum", 200), ("mean", None), ("surface", 128)])
def test_projections_show_what_they_say(tmp_path: Path, how: str, wanted: int | None) -> None:
    data = np.full((DIMS[2], DIMS[1], DIMS[0]), 50, np.uint8)
    data[ball()] = 200
    source = nrrd(tmp_path / "a.nrrd", data)
    look: dict[str, Any] = {"projection": how, "color": "m", "opacity": [(0.0, 1.0)]}
    if how == "surface":
        look["value"] = 128
    scene = volume_scene(source, **look) | {"maps": {"m": {"field": "a", "range": [0, 255], "cmap": "gray"}}}
    picture, _ = drawn(scene, tmp_path / "a.png")
    shown = middle(picture)[0]
    if wanted is None:
        assert 60 < shown < 195, "between what is around and what is within"
    else:
        assert abs(shown - wanted) <= 3


def test_projections_of_channels_add_up(tmp_path: Path) -> None:
    """Where both are brightest neither hides the other, whichever comes first."""
    data = np.zeros((DIMS[2], DIMS[1], DIMS[0]), np.uint8)
    data[ball()] = 255
    source = nrrd(tmp_path / "a.nrrd", data)
    looks = [
        {"kind": "volume", "projection": "maximum", "opacity": [(0.0, 0.0), (255.0, 1.0)], "color": color}
        for color in ("red", "blue")
    ]
    found = [
        middle(drawn({"source": str(source), "objects": objects}, tmp_path / "a.png")[0])
        for objects in (looks, looks[::-1], looks[:1])
    ]
    assert found == [[255, 0, 255], [255, 0, 255], [255, 0, 0]]


def test_a_slice_has_the_colours_of_its_bar_however_deep_it_lies(tmp_path: Path) -> None:
    k = np.broadcast_to(np.arange(DIMS[2], dtype=np.uint8)[:, None, None], (DIMS[2], DIMS[1], DIMS[0]))
    source = nrrd(tmp_path / "a.nrrd", np.ascontiguousarray(k))
    for z in (1, 15, 30):
        cut = {"kind": "slice", "normal": [0, 0, 1], "origin": [0, 0, z], "color": "m"}
        scene = {
            "source": str(source),
            "objects": [cut, {"kind": "outline"}],
            "maps": {"m": {"field": "a", "range": [0, 40], "cmap": "gray"}},
            "camera": {"direction": [0, 0, 1], "up": [0, 1, 0]},
        }
        picture, _ = drawn(scene, tmp_path / "a.png")
        assert np.abs(np.array(middle(picture)) - round(255 * z / 40)).max() <= 2, z


def test_a_list_of_frames_chooses_pictures_of_a_path(tmp_path: Path) -> None:
    source = nrrd(tmp_path / "a.nrrd", ball().astype(np.uint8))
    scene = volume_scene(source) | {
        "path": [{"frame": 0, "camera": {"direction": [1, 0, 0]}}, {"frame": 6, "camera": {"direction": [0, 1, 0]}}]
    }
    for name, frames in (("list", [4, 6]), ("text", "4::2"), ("all", None)):
        ff.render(Scene.model_validate({**scene, "frames": frames, "size": SIZE}), tmp_path / f"{name}_%d.png")
    for name in ("list", "text"):
        assert sorted(p.name for p in tmp_path.glob(f"{name}_*")) == [f"{name}_4.png", f"{name}_6.png"]
        for n in (4, 6):
            assert np.array_equal(pixels(tmp_path / f"{name}_{n}.png"), pixels(tmp_path / f"all_{n}.png"))
    with pytest.raises(UsageError, match="frames: there is no picture 9; the path has 7 pictures"):
        ff.render(Scene.model_validate({**scene, "frames": [9]}), tmp_path / "wrong_%d.png")


def test_light_makes_a_ball_round(tmp_path: Path) -> None:
    k, j, i = np.indices((DIMS[2], DIMS[1], DIMS[0]), dtype=np.float32)
    far = np.sqrt((i - DIMS[0] / 2) ** 2 + (j - DIMS[1] / 2) ** 2 + (k - DIMS[2] / 2) ** 2)
    source = nrrd(tmp_path / "far.nrrd", (40 - far).astype("<f4"))
    scene = volume_scene(source, projection="surface", value=28.0, color="white", shading={"specular": 0.0})
    scene["lights"] = [{"direction": [0, 0, 1]}]
    scene["ambient"] = 0.0
    lit, _ = drawn(scene, tmp_path / "lit.png")
    flat, _ = drawn(scene | {"objects": [{**scene["objects"][0], "shading": None}]}, tmp_path / "flat.png")
    inside = flat[..., 0] > 250
    assert inside.sum() > 500
    # A light at the eye, on a ball that is far away: the cosine of the angle to it.
    rows, columns = np.nonzero(inside)
    away = np.hypot(rows - rows.mean(), columns - columns.mean())
    wanted = np.sqrt(np.clip(1 - (away / (away.max() + 0.5)) ** 2, 0, 1))
    part = lit[rows, columns, 0] / 255
    found = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    assert np.abs(found - wanted).mean() < 0.06


def test_several_volumes_are_shown_at_once(tmp_path: Path) -> None:
    source = nrrd(tmp_path / "a.nrrd", np.full((DIMS[2], DIMS[1], DIMS[0]), 200, np.uint8))
    look = {"kind": "volume", "opacity": [(90.0, 0.0), (110.0, 0.9)]}
    halves = [{**look, "color": "red", "slices": {"i": [1, 20]}}, {**look, "color": "lime", "slices": {"i": [21, 40]}}]
    scene = {"source": str(source), "objects": halves, "camera": {"direction": [0, 0, 1], "up": [0, 1, 0]}}
    row = drawn(scene, tmp_path / "both.png")[0][SIZE[1] // 2].astype(int)
    reds, greens = np.nonzero(row[:, 0] > 100)[0], np.nonzero(row[:, 1] > 100)[0]
    assert len(reds) > 10 and len(greens) > 10 and reds.max() <= greens.min() + 2


def test_a_budget_that_is_ample_gives_the_same_picture_and_a_short_one_says_what_is_missing(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    source = nrrd(tmp_path / "a.nrrd", rng.integers(0, 255, (DIMS[2], DIMS[1], DIMS[0]), dtype=np.uint8))
    scene = volume_scene(source)
    whole, _ = drawn(scene, tmp_path / "whole.png")
    ample, result = drawn(scene | {"budget_s": 600.0}, tmp_path / "ample.png")
    assert np.array_equal(whole, ample) and result["pixels_filled"] == 0 and not result["partial"]
    short, result = drawn(scene | {"budget_s": 1e-9}, tmp_path / "short.png")
    assert result["pixels_filled"] > 0 and result["partial"] and short.shape == whole.shape


def test_what_makes_no_sense_is_told(tmp_path: Path) -> None:
    source = nrrd(tmp_path / "a.nrrd", np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(UsageError, match="needs a 'value'"):
        ff.render({**volume_scene(source, projection="surface")}, tmp_path / "a.png")
    with pytest.raises(UsageError, match="'value' goes with"):
        ff.render({**volume_scene(source, value=3)}, tmp_path / "a.png")
    with pytest.raises(
        FarfieldError, match=r"objects\.0\.opacity_from: 'luminance' needs colours in 3 channels; .*a\.nrrd has 1: a\."
    ):
        ff.render({**volume_scene(source, opacity_from="luminance")}, tmp_path / "a.png")
    with pytest.raises(FarfieldError, match="colours and labels are composited"):
        ff.render({**volume_scene(source, labels={}, projection="maximum")}, tmp_path / "a.png")


def test_a_window_is_for_numbers(tmp_path: Path) -> None:
    source = nrrd(tmp_path / "c.nrrd", np.zeros((4, 4, 4, 3), np.uint8))
    with pytest.raises(UsageError, match="shown in its own colours"):
        Shorthand(window=10, level=5).scene(str(source))


def test_the_opacity_of_one_volume_is_not_in_the_unit_of_another(tmp_path: Path) -> None:
    source = nrrd(tmp_path / "a.nrrd", np.full((DIMS[2], DIMS[1], DIMS[0]), 200, np.uint8))
    plain = {"kind": "volume", "opacity": [(90.0, 0.0), (110.0, 0.1)], "color": "white"}
    hidden = {**plain, "opacity": [(300.0, 0.0), (301.0, 0.1)], "unit": 1000.0}
    alone, _ = drawn({"source": str(source), "objects": [plain]}, tmp_path / "alone.png")
    both, _ = drawn({"source": str(source), "objects": [plain, hidden]}, tmp_path / "both.png")
    assert middle(alone)[0] > 60 and np.abs(alone.astype(int) - both).max() <= 1


def test_times_and_windows() -> None:
    assert [seconds(t, "--budget") for t in ("50ms", "2s", "0.5", "10us")] == pytest.approx([0.05, 2.0, 0.5, 1e-5])
    for text in ("soon", "-1s", "0", "ms"):
        with pytest.raises(UsageError, match="--budget"):
            seconds(text, "--budget")
    assert window_of(400, 40) == (-160, 240)
    with pytest.raises(UsageError, match="--level"):
        window_of(400, None)
    with pytest.raises(UsageError, match="width"):
        window_of(0, 3)


def test_scenes_of_every_look_survive_being_written(tmp_path: Path) -> None:
    looks = [
        {"projection": "surface", "value": 3.0, "shading": {}},
        {"opacity_from": "distance", "background": "blue"},
        {"labels": {"colors": {"3": "red"}, "only": [3]}},
    ]
    scene = Scene.model_validate({"source": "a.nrrd", "objects": [{"kind": "volume", **look} for look in looks]})
    assert Scene.model_validate_json(json.dumps(scene.model_dump(mode="json"))) == scene


def test_huge_names_are_no_fill_values(tmp_path: Path) -> None:
    """Of segments, whose numbers have 64 bits and of which nothing says that they are labels: all of them are seen."""
    data = np.where(ball(), np.uint64(2**62 + 12345), np.uint64(2**61))
    with ff.open(nrrd(tmp_path / "a.nrrd", np.where(ball(14.0), data, 0).astype("u8"))) as volume:
        found = ff.render(first_scene(volume, str(tmp_path / "a.nrrd")), tmp_path / "a.png", size=SIZE)
    assert found["maps"]["a"]["range"][1] == pytest.approx(2**62, rel=1e-3)
