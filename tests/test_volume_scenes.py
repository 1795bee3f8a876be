"""Scenes with volumes, from files to pictures: what is written first, what is wrong with them, what is missing in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from running import Command, Json

zarr = pytest.importorskip("zarr")
Image = pytest.importorskip("PIL.Image")

SHAPE = (40, 48, 56)
SIZE = ("--size", "240x160")


def distances(shape: tuple[int, int, int]) -> np.ndarray:
    """[z, y, x]: from 100 in the middle down."""
    at = np.indices(shape, dtype=np.float32)
    middle = np.array(shape, dtype=np.float32)[:, None, None, None] / 2
    return (100 - np.sqrt(((at - middle) ** 2).sum(axis=0))).astype("f4")


def stored(path: Path, values: np.ndarray, chunk: int = 16, **more: Any) -> Path:
    """A Zarr array without compression: what is changed in a chunk is changed in its numbers."""
    made = zarr.create_array(
        path, shape=values.shape, chunks=(chunk,) * 3, dtype=values.dtype, zarr_format=3, compressors=None, **more
    )
    made[...] = values
    return path


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def hatched(path: Path) -> int:
    """Pixels of the colour that nothing else has."""
    return int((pixels(path) == (255, 0, 255)).all(axis=2).sum())


@pytest.fixture
def ball(tmp_path: Path) -> Path:
    return stored(tmp_path / "ball.zarr", distances(SHAPE), fill_value=-1.0)


def scene_of(ball: Path, *objects: dict[str, Any], **more: Any) -> Path:
    path = ball.parent / "scene.json"
    path.write_text(json.dumps({"version": 1, "source": ball.name, "size": [240, 160], "objects": objects, **more}))
    return path


def test_a_first_scene_is_drawn_as_the_volume_is(ball: Path, ff: Command) -> None:
    ff("scene", ball, "-o", ball.parent / "first.json")
    ff("render", ball.parent / "first.json", "-o", ball.parent / "a.png", *SIZE)
    ff("render", ball, "-o", ball.parent / "b.png", *SIZE)
    a = pixels(ball.parent / "a.png")
    assert np.array_equal(a, pixels(ball.parent / "b.png")) and len(np.unique(a.reshape(-1, 3), axis=0)) > 500


@pytest.mark.parametrize(
    ("objects", "more", "exit_code", "said"),
    [
        ([{"kind": "volume", "opcity": [[0, 1]]}], {}, 2, "objects.0.*opcity"),
        ([{"kind": "volumes"}], {}, 2, "objects.0.*volumes"),
        ([{"kind": "volume", "field": "density"}], {}, 2, "objects.0.field: no channel named 'density'"),
        ([{"kind": "volume", "level": 3}], {}, 2, "objects.0.level: there is no level 3"),
        ([{"kind": "volume", "opacity": [[5, 0.5], [2, 0.1]]}], {}, 2, "objects.0.*opacity"),
        ([{"kind": "volume", "color": "densty"}], {}, 2, "objects.0.color: no channel, map or colour named 'densty'"),
        ([{"kind": "slice", "normal": [0, 0, 1], "color": "no"}], {}, 2, "objects.0.color: no channel"),
        (
            [{"kind": "volume", "color": "m"}],
            {"maps": {"m": {"field": "no"}}},
            2,
            "maps.m.field: no channel named 'no'",
        ),
        ([{"kind": "outline"}, {"kind": "walls"}], {}, 2, "objects.1: 'walls' is drawn of flows, and .*ball.zarr is a"),
        ([{"kind": "lines", "trace": {"seeds": "random:3:1"}}], {}, 2, "objects.0: 'lines' is drawn of flows"),
        ([{"kind": "volume", "labels": {}, "shading": {}}], {}, 2, "objects.0.shading: labels have one colour"),
        ([{"kind": "volume"}], {"source": "gone.zarr"}, 1, "gone.zarr"),
        ([{"kind": "volume"}], {"surce": "ball.zarr"}, 2, "surce"),
        ([{"kind": "volume"}], {"camera": {"target": [float("nan"), 0, 0]}}, 2, "camera.target.0: .*finite"),
        ([{"kind": "slice", "origin": [0, float("nan"), 0]}], {}, 2, "objects.0.origin.1: .*finite"),
        ([{"kind": "volume", "within": [[0, 0, 0], [9, 9, float("inf")]]}], {}, 2, "objects.0.within.1.2: .*finite"),
        ([{"kind": "volume"}], {"frames": "0:1:0"}, 2, "frames: .*a stride of 0 steps is invalid"),
        (
            [{"kind": "volume", "opacity_from": "alpha"}],
            {},
            2,
            "objects.0.opacity_from: 'alpha' needs colours in 4 channels",
        ),
        ([{"kind": "volume"}], {"camera": {"zoom": 1e300}}, 2, r"camera: zoom 1e\+300 .*zoom is from 0.0234 to 307"),
        ([{"kind": "volume"}], {"camera": {"fov_deg": 1e-4}}, 2, "camera: .*fov_deg 0.0001 .*0.1 to 170 degrees"),
        ([{"kind": "volume"}], {"define": []}, 2, "define: "),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    objects: list[dict[str, Any]], more: dict[str, Any], exit_code: int, said: str, ball: Path, ff: Command
) -> None:
    path = scene_of(ball, *objects, **more)
    done = ff("render", path, "-o", ball.parent / "a.png", ok=(exit_code,))
    assert re.search(said, done.stderr) and "scene.json" in done.stderr, done.stderr
    assert not (ball.parent / "a.png").exists()


def test_volume_surface_and_plane_are_the_same_whatever_the_limit(tmp_path: Path, ff_json: Json) -> None:
    large = stored(tmp_path / "large.zarr", distances((144, 160, 176)), chunk=32)
    objects = [
        {"kind": "volume", "opacity": [[40, 0], [90, 0.4]]},
        {"kind": "contour", "field": "large.zarr", "values": [70.0], "color": "lightblue"},
        {"kind": "slice", "normal": "z", "origin": [88, 80, 60]},
    ]
    scene = scene_of(large, *objects)
    pictures = []
    for limit, workers in (("1GiB", 1), ("24MiB", 1), ("20MiB", 3)):
        target = tmp_path / f"{limit}.png"
        found = ff_json("render", scene, "-o", target, "--memory-limit", limit, "--workers", workers)
        assert found["peak_bytes"] <= found["limit_bytes"] and not found["partial"]
        pictures.append(target.read_bytes())
    # The last of them read pages again, since they do not fit.
    assert found["pages"]["evictions"] > 0
    assert pictures[0] == pictures[1] == pictures[2]


def test_what_is_no_number_is_not_drawn(tmp_path: Path, ff: Command) -> None:
    nothing = stored(tmp_path / "ball.zarr", np.full(SHAPE, np.nan, dtype="f4"))
    outline = {"kind": "outline"}
    more: dict[str, Any] = {"scalar_bar": False, "camera": {"direction": [1, -1, 0.5]}}
    for name, objects in (("a", [outline, {"kind": "volume"}]), ("b", [outline])):
        ff("render", scene_of(nothing, *objects, **more), "-o", tmp_path / f"{name}.png")
    assert np.array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))
    # A layer of them is a gap between what is drawn.
    values = distances(SHAPE)
    values[18:22] = np.nan
    with_gap = stored(tmp_path / "gap.zarr", values)
    look = {"kind": "volume", "color": "white", "opacity": [[70, 0], [95, 1]]}
    more["camera"] = {"direction": [0, -1, 0], "up": [0, 0, 1]}
    shown = []
    for source in (stored(tmp_path / "whole.zarr", distances(SHAPE)), with_gap):
        ff("render", scene_of(source, look, **more), "-o", tmp_path / "c.png")
        shown.append(pixels(tmp_path / "c.png").astype(int).sum(axis=2))
    middle, above = shown[1].shape[0] // 2, shown[1].shape[0] // 2 - 20
    assert (shown[0][middle] - shown[1][middle]).max() > 100
    assert abs(shown[0][above] - shown[1][above]).max() <= 6


def test_pages_that_cannot_be_read_are_hatched(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    from zarr.codecs import BytesCodec, Crc32cCodec

    values = distances(SHAPE)
    made = zarr.create_array(
        tmp_path / "sealed.zarr", shape=SHAPE, chunks=(20, 24, 28), dtype="f4", zarr_format=3,
        compressors=[Crc32cCodec()], serializer=BytesCodec(),
    )  # fmt: skip
    made[...] = values
    target = tmp_path / "a.png"
    whole = ff_json("render", tmp_path / "sealed.zarr", "-o", target, *SIZE)
    assert (whole["partial"], whole["pixels_missing"], hatched(target)) == (False, 0, 0)
    chunk = next((tmp_path / "sealed.zarr/c/1/1/1").parent.glob("1"))
    damaged = bytearray(chunk.read_bytes())
    damaged[100] ^= 255
    chunk.write_bytes(damaged)
    done = ff("render", tmp_path / "sealed.zarr", "-o", target, *SIZE, "--json", ok=(3,))
    found = json.loads(done.stdout)
    assert found["partial"] and found["pixels_missing"] > 100 and found["pages"]["failed"] == 1
    # Half of the stripes, within what the edges of pixels and the lines of the outline leave of them.
    assert 0.3 < hatched(target) / found["pixels_missing"] < 0.6
    done = ff("render", tmp_path / "sealed.zarr", "-o", target, *SIZE, ok=(3,))
    assert f"in {found['pixels_missing']:,} pixels something of a volume is missing" in done.stdout
    assert "hatched in magenta and black" in done.stdout
    said = f"'farfield validate {tmp_path / 'sealed.zarr'}' names them"
    assert said in done.stdout
    done = ff("extract", "isosurface", tmp_path / "sealed.zarr", "--value", 100, "-o", tmp_path / "b.ply", ok=(3,))
    assert said in done.stdout


def test_chunks_that_are_not_there_are_told(ball: Path, ff: Command, ff_json: Json) -> None:
    target = ball.parent / "a.png"
    assert ff_json("render", ball, "-o", target, *SIZE)["pages"]["fills"] == 0
    (ball / "c/0/0/0").unlink()
    found = ff_json("render", ball, "-o", target, *SIZE)
    assert found["pages"]["fills"] == 1 and not found["partial"] and hatched(target) == 0
    said = ff("render", ball, "-o", target, *SIZE).stdout
    assert "fill     1 chunk was never written, or lost: the format's fill value stands there" in said
    # A folder that cannot be looked into is another matter.
    (ball / "c/0/0/0").mkdir()
    assert ff_json("render", ball, "-o", target, *SIZE, ok=(3,))["pixels_missing"] > 0


def test_labels_of_64_bits_keep_all_of_their_digits(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    labels = np.zeros((4, 5, 6), dtype="u8")
    labels[1, 2, 3] = 2**63 + 6
    source = stored(tmp_path / "labels.zarr", labels, chunk=4)
    place = ("probe", source, 3.2, 2.1, 0.9, "--kind", "labels")
    assert str(2**63 + 6) in ff(*place).stdout
    assert ff_json(*place)["values"]["labels.zarr"] == 2**63 + 6


@pytest.mark.parametrize("camera", [{}, {"direction": [-0.5, -0.7, 0.4], "up": [0, 0, 1]}])
def test_a_key_with_a_direction_alone_stands_upright(camera: dict[str, Any], ball: Path, ff: Command) -> None:
    folder = ball.parent
    for name, up in (("plain", {}), ("said", {"up": [0, 0, 1]})):
        path = [{"frame": 0, "camera": {"direction": [1.0, -1.0, 0.5], **up}}]
        scene = scene_of(ball, {"kind": "outline"}, camera=camera, path=path)
        ff("render", scene, "-o", folder / f"{name}_%d.png")
    assert (pixels(folder / "plain_0.png") == pixels(folder / "said_0.png")).all(), "no roll"
    # From above z is no up: what the scene's own camera has is one.
    scene_of(ball, {"kind": "outline"}, path=[{"frame": 0, "camera": {"direction": [0, 0, 1]}}])
    ff("render", folder / "scene.json", "-o", folder / "above_%d.png")


def test_lines_keep_the_range_of_their_own_numbers(ball: Path, ff_json: Json) -> None:
    points = np.linspace((5.0, 5.0, 5.0), (30.0, 30.0, 30.0), 9)
    lines = {"points": points, "offsets": np.array([0, 9]), "age": np.linspace(0.0, 12000.0, 9)}
    np.savez(ball.parent / "l.npz", **lines)  # type: ignore[arg-type]
    scene = scene_of(ball, {"kind": "volume"}, {"kind": "lines", "file": "l.npz", "color": "age"})
    found = ff_json("render", scene, "-o", ball.parent / "a.png")
    assert found["maps"]["age"]["range"] == [0.0, 12000.0]


def test_a_first_scene_of_a_series_goes_with_all_of_its_steps(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    """By its first step alone the later ones, which have more, would be drawn in one colour."""
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(5, *SHAPE), chunks=(1, 16, 16, 16), dtype="f4", dimension_names=["t", "z", "y", "x"]
    )
    for step in range(5):
        made[step] = distances(SHAPE) * (1 + 10 * step)
    scene = json.loads(ff("scene", tmp_path / "a.zarr").stdout)
    (shown,) = scene["maps"].values()
    assert scene["step"] == 0 and 3000 < shown["range"][1] < 4100
    film = ff_json("render", tmp_path / "a.zarr", "-o", tmp_path / "a_%d.png", "--size", "64x48")
    assert next(iter(film["maps"].values()))["range"] == pytest.approx(shown["range"])


def test_pages_that_permissions_do_not_allow_are_left_out_of_first_looks(ball: Path) -> None:
    """As those that are damaged: whoever draws them says so."""
    import farfield
    from farfield.scene.volumes import first_scene

    class Refusing:
        def __init__(self, native: Any) -> None:
            self._native = native

        def __getattr__(self, name: str) -> Any:
            return getattr(self._native, name)

        def read_box(self, level: int, channel: int, lo: Any, hi: Any, step: int) -> Any:
            if lo[2] == 0:
                raise farfield.errors.AccessError("c/0/0/0: permission denied")
            return self._native.read_box(level, channel, lo, hi, step)

    with farfield.open(ball) as volume:
        volume._native = Refusing(volume._native)
        scene = first_scene(volume, str(ball))
    assert scene.maps["ball.zarr"].range is not None


@pytest.mark.parametrize("radius", ["nan", "0", "-1", "inf"])
def test_a_radius_is_a_length(radius: str, tmp_path: Path, ff: Command) -> None:
    done = ff("render", "demo:box", "--seeds", "random:3:1", f"--radius={radius}", "-o", tmp_path / "a.png", ok=(2,))
    assert f"--radius: {radius} is not a length above 0" in done.stderr


def test_a_map_with_a_range_needs_no_look_at_values(ball: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import farfield
    from farfield.scene import Scene, volumes

    maps = {"m": {"field": "ball.zarr", "range": [0, 90]}}
    look = {"kind": "volume", "color": "m", "opacity": [[40, 0], [90, 0.4]]}
    with farfield.open(ball) as volume:
        monkeypatch.setattr(volumes, "sample", None)
        monkeypatch.setattr(volumes, "read_box", None)
        scene = Scene.model_validate({"source": str(ball), "objects": [look], "maps": maps})
        assert volumes.settled(scene, volume).maps["m"].range == (0, 90)


def limited(path: Path, limit: str, ff: Command, ok: tuple[int, ...] = (0, 4)) -> str:
    words = ("render", path, "-o", path.parent / "a.png", "--size", "64x48", "--memory-limit", limit)
    return ff(*words, ok=ok).stderr


def test_what_is_said_to_be_enough_memory_is(tmp_path: Path, ff: Command) -> None:
    """Pages of a third of what is enough: half of it, which they have while values are looked at, is not."""
    made = zarr.create_array(tmp_path / "ball.zarr", shape=(128, 128, 128), chunks=(128, 128, 128), dtype="u2")
    made[...] = np.random.default_rng(3).integers(0, 900, (128, 128, 128))
    path = scene_of(tmp_path / "ball.zarr", {"kind": "volume"})
    said = limited(path, "4MiB", ff, ok=(4,))
    found = re.search(r"the memory limit of 4.0 MiB is too small: .* needs about ([\d.]+) MiB", said)
    assert found is not None, said
    assert limited(path, f"{found[1]}MiB", ff, ok=(0,)) == ""


@pytest.mark.parametrize("most", [1, 0])
def test_where_pages_have_too_little_while_values_are_looked_at(
    most: int, ball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get all of the limit, then they come one after the other; and what is said at last is said of all of it."""
    import farfield
    from farfield.errors import MemoryLimitError
    from farfield.pictures.opened_volumes import to_look_at
    from farfield.runtime.resources import Resources
    from farfield.scene.volumes import first_scene

    class Narrow:
        def __init__(self, native: Any) -> None:
            self._native = native

        def __getattr__(self, name: str) -> Any:
            return getattr(self._native, name)

        def read_box(self, level: int, channel: int, lo: Any, hi: Any, step: int) -> Any:
            pages = np.prod([(b - 1) // 16 - a // 16 + 1 for a, b in zip(lo, hi, strict=True)])
            if pages > most:
                limit = json.loads(self._native.stats())["limit_bytes"]
                raise MemoryLimitError(f"the memory limit of {limit >> 20} MiB is too small")
            return self._native.read_box(level, channel, lo, hi, step)

    with farfield.open(ball) as volume:
        whole = first_scene(volume, str(ball))
    opening = farfield.pictures.opened_volumes.open_volume

    def narrow(*words: Any, **how: Any) -> Any:
        opened = opening(*words, **how)
        opened._native = Narrow(opened._native)
        return opened

    monkeypatch.setattr(farfield.pictures.opened_volumes, "open_volume", narrow)
    with to_look_at(str(ball), Resources.of(memory_limit="24MiB")) as volume:
        assert volume.memory_limit == 12 << 20
        if most:
            assert first_scene(volume, str(ball)) == whole
        else:
            with pytest.raises(MemoryLimitError, match="of 24 MiB"):
                first_scene(volume, str(ball))
        assert volume.memory_limit == 24 << 20


@pytest.mark.parametrize(("spacing", "is_fine"), [("1e-9 1 1", False), ("1 1e-4 1", False), ("1e-2 1 1", True)])
def test_voxels_that_are_too_flat_for_rays_are_told(spacing: str, is_fine: bool, tmp_path: Path, ff: Command) -> None:
    source = tmp_path / "a.nrrd"
    head = f"NRRD0005\ntype: uint8\ndimension: 3\nsizes: 20 20 20\nencoding: raw\nspacings: {spacing}\n\n"
    source.write_bytes(head.encode() + bytes(range(200)) * 40)
    words = ("render", source, "-o", tmp_path / "a.png", "--size", "24x16")
    said = ff(*words, ok=(0,) if is_fine else (1,)).stderr
    if is_fine:
        assert said == ""
        return
    shown = " x ".join(f"{float(s):.6g}" for s in spacing.split())
    assert f"{source}: its voxels are {shown} apart" in said and "--raw 'spacing=1,1,1'" in said
    assert ff(*words, "--raw", "spacing=1,1,1").stderr == ""
    path = scene_of(source, {"kind": "outline"}, {"kind": "slice", "normal": "z"})
    ff("render", path, "-o", tmp_path / "a.png")
