"""What first pictures choose: where lines begin, which walls are cut away, which colours values have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import farfield as ff
from cases_pictures import lines_seen
from farfield.cli import run
from farfield.scene.defaults import default_scene
from farfield.scene.flags import Shorthand


def write_flow(folder: Path, name: str, points: np.ndarray, velocity: np.ndarray) -> str:
    """A zone [k, j, i, 3] with density 1 as PLOT3D."""
    nk, nj, ni, _ = points.shape
    dims = np.array([ni, nj, nk], "<i4").tobytes()
    head = np.array([0.5, 0.0, 1e6, 0.0], "<f4").tobytes()
    columns = np.concatenate([np.ones((1, nk, nj, ni)), np.moveaxis(velocity, -1, 0), np.full((1, nk, nj, ni), 2.5)])
    (folder / f"{name}.xyz").write_bytes(dims + np.moveaxis(points, -1, 0).astype("<f4").tobytes())
    (folder / f"{name}.q").write_bytes(dims + head + columns.astype("<f4").tobytes())
    return f"{folder}/{name}.xyz+q={folder}/{name}.q"


def duct(folder: Path, *, left_handed: bool = False) -> str:
    """A square duct along x, at rest at its four walls, open at its ends."""
    x, y, z = np.linspace(0, 4, 25), np.linspace(-1, 1, 13), np.linspace(-1, 1, 13)
    y = y[::-1] if left_handed else y
    points = np.stack(np.meshgrid(x, y, z, indexing="ij"), axis=-1).transpose(2, 1, 0, 3)
    inside = (1 - points[..., 1] ** 2) * (1 - points[..., 2] ** 2)
    velocity = np.stack([inside, 0 * inside, 0.2 * inside * np.sin(points[..., 0])], axis=-1)
    return write_flow(folder, "duct-left" if left_handed else "duct", points, velocity)


def shell(folder: Path, *, half: bool = False) -> str:
    """The flow around a sphere of radius 1, on a grid around it; `half`: behind the plane of symmetry y = 0 alone."""
    r = np.geomspace(1, 12, 21)
    theta, phi = np.linspace(0.02, np.pi - 0.02, 25), np.linspace(0, np.pi if half else 2 * np.pi, 25 if half else 49)
    rr, tt, pp = np.meshgrid(r, theta, phi, indexing="ij")
    points = np.stack([rr * np.cos(tt), rr * np.sin(tt) * np.cos(pp), rr * np.sin(tt) * np.sin(pp)], axis=-1)
    if half:
        points = points[..., [0, 2, 1]]
    points = points.transpose(2, 1, 0, 3)
    slow = 1 - 1 / np.linalg.norm(points, axis=-1).clip(1) ** 3
    slow = np.where(np.isclose(np.linalg.norm(points, axis=-1), 1, atol=1e-6), 0, slow)
    return write_flow(folder, "half" if half else "shell", points, np.stack([slow, 0 * slow, 0 * slow], axis=-1))


@pytest.mark.parametrize("left_handed", [False, True])
@pytest.mark.parametrize("view", ["iso", "0.4,0.8,-0.4", "y", "-z"])
def test_walls_between_the_eye_and_a_duct_are_cut_away(tmp_path: Path, left_handed: bool, view: str) -> None:
    source = duct(tmp_path, left_handed=left_handed)
    picture = str(tmp_path / "duct.png")
    assert run(["render", source, "-o", picture, "--size", "320x200", f"--view={view}", "-q"]) == 0
    cut = lines_seen(picture)
    scene = Shorthand(view=view, size=(320, 200)).scene(source)[0].model_dump(mode="json")
    for drawn in scene["objects"]:
        if drawn["kind"] == "walls":
            assert drawn.pop("cut") is True
    ff.render(scene, picture)
    assert cut > 0.03 and cut > 3 * lines_seen(picture)


@pytest.mark.parametrize("half", [False, True])
def test_bodies_stay_whole(tmp_path: Path, half: bool) -> None:
    source = shell(tmp_path, half=half)
    scene = default_scene(source)
    assert [o.cut for o in scene.objects if o.kind == "walls"] == [False]
    whole, cut = str(tmp_path / "whole.png"), str(tmp_path / "cut.png")
    document = scene.model_copy(update={"size": (320, 200)}).model_dump(mode="json")
    document["objects"] = [o for o in document["objects"] if o["kind"] == "walls"]
    ff.render(document, whole)
    document["objects"][0]["cut"] = True
    ff.render(document, cut)
    if not half:
        # The back of a body is hidden anyway, but for quads at its very edge.
        differ = (np.asarray(Image.open(whole)) != np.asarray(Image.open(cut))).any(axis=-1)
        assert differ.mean() < 0.01


def test_seeds_of_interest_lie_where_the_flow_changes(tmp_path: Path) -> None:
    """A jet of width 0.2 in a domain of width 8, on an even grid: few cells are in its shear layers."""
    axis = np.linspace(-4, 4, 41)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).transpose(2, 1, 0, 3)
    away = np.hypot(points[..., 1], points[..., 2])
    speed = 0.1 + np.exp(-((away / 0.6) ** 2))
    source = write_flow(tmp_path, "jet", points, np.stack([speed, 0 * speed, 0 * speed], axis=-1))

    def near(rule: str, **resources: Any) -> tuple[float, np.ndarray]:
        with ff.open(source, **resources) as flow:
            starts = flow.streamlines(seeds=rule, max_steps=1, integration_direction="forward")
            first = np.asarray(starts.points)[np.asarray(starts.offsets)[:-1]]
        return float((np.hypot(first[:, 1], first[:, 2]) < 1.5).mean()), first

    plain, _ = near("random:200:1")
    share, first = near("interest:200:1")
    assert len(first) == 200 and plain < 0.25 and share > 3 * plain
    # The same whatever the means.
    assert np.array_equal(near("interest:200:1", memory_limit="4MiB", workers=1)[1], first)
    assert not np.array_equal(near("interest:200:2")[1], first)


def test_an_even_flow_has_seeds_too(tmp_path: Path) -> None:
    points = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 3, indexing="ij"), axis=-1).transpose(2, 1, 0, 3)
    even = np.zeros_like(points)
    even[..., 0] = 1
    with ff.open(write_flow(tmp_path, "even", points, even)) as flow:
        assert len(flow.streamlines(seeds="interest:30:1").offsets) == 31


def test_scenes_say_seeds_as_a_rule(tmp_path: Path) -> None:
    for source in ("demo:taper", "demo:box", shell(tmp_path)):
        for drawn in default_scene(source).objects:
            if drawn.kind == "lines":
                assert isinstance(drawn.trace.seeds, str) and drawn.trace.seeds.startswith(("scatter:", "interest:"))


def test_flags_draw_contours_slices_and_cores() -> None:
    flags = Shorthand(contours=("mach=0.2,0.3", "density=1"), slices=("z=0.1", "x"), cores=True, color="mach")
    scene, _ = flags.scene("demo:taper")
    kinds = [o.kind for o in scene.objects if o.kind not in ("outline", "walls")]
    assert kinds == ["contour", "contour", "slice", "slice", "cores"]
    assert {o.color for o in scene.objects if o.kind in ("contour", "slice", "cores")} == {"mach"}
    assert [
        o.kind for o in Shorthand(walls=False, slices=("z",)).scene("demo:taper")[0].objects if o.kind == "walls"
    ] == []


@pytest.mark.parametrize(
    ("flag", "what"),
    [
        ("--contour=mach", "mach=1"),
        ("--slice=w=1", "--slice z=0.1"),
        ("--slice=0,0,0=1,2,3", "no plane"),
        ("--contour=mach=x", "no field"),
    ],
)
def test_what_is_written_wrong_is_told(
    flag: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["render", "demo:box", flag, "-o", str(tmp_path / "out.png")]) == 2
    assert what in capsys.readouterr().err


def test_a_signed_field_has_zero_in_the_middle(tmp_path: Path) -> None:
    source = duct(tmp_path)
    picture = str(tmp_path / "w.png")
    for field, is_signed in (("velocity_z", True), ("velocity_x", False), ("pressure", False)):
        flags = Shorthand(slices=("y=0.03",), color=field, size=(200, 120))
        found = ff.render(flags.scene(source)[0], picture)
        low, high = found["maps"][field]["range"]
        assert (low == -high) == is_signed, (field, low, high)


def volume_of(folder: Path, name: str, values: np.ndarray) -> str:
    path = folder / f"{name}.nrrd"
    kind = {"float32": "float", "int16": "int16"}[values.dtype.name]
    sizes = " ".join(map(str, values.shape[::-1]))
    path.write_bytes(
        f"NRRD0004\ntype: {kind}\ndimension: 3\nsizes: {sizes}\nendian: little\nencoding: raw\n\n".encode()
        + values.tobytes()
    )
    return str(path)


def ball(radius: float) -> np.ndarray:
    grid = np.mgrid[-1:1:32j, -1:1:32j, -1:1:32j]
    return (grid**2).sum(axis=0) < radius**2


def test_a_map_of_effects_is_signed_and_a_ct_is_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    tmap = (rng.normal(size=(32, 32, 32)) * ball(0.9)).astype(np.float32)
    tmap[10:14, 10:14, 10:14], tmap[20:24, 20:24, 20:24] = 6, -5
    scene, _ = Shorthand().scene(volume_of(tmp_path, "tmap", tmap))
    look = scene.maps["tmap"] if "tmap" in scene.maps else next(iter(scene.maps.values()))
    assert look.range is not None and look.range[0] == -look.range[1] and "coolwarm" in str(look.cmap)
    nodes = next(o.opacity for o in scene.objects if o.kind == "volume")
    values, opacities = zip(*nodes, strict=True)
    assert np.interp(0, values, opacities) == 0 and np.interp(-5, values, opacities) > 0.3 < np.interp(
        6, values, opacities
    )

    ct = np.where(ball(0.9), 40, -1000).astype(np.int16)
    ct[ball(0.9) & ~ball(0.8)] = 1100
    ct[ball(0.3)] = -850
    source = volume_of(tmp_path, "head", ct)
    assert "coolwarm" not in str(next(iter(Shorthand().scene(source)[0].maps.values())).cmap)
    window, _ = Shorthand(window=1500, level=-600).scene(source)
    nodes = next(o.opacity for o in window.objects if o.kind == "volume")
    values, opacities = zip(*nodes, strict=True)
    assert np.interp(-1000, values, opacities) == 0 < np.interp(-850, values, opacities)


def test_temperatures_in_celsius_are_not_signed() -> None:
    from farfield.pictures.signed_fields import has_sign

    assert not has_sign("thetao", "degrees_C") and not has_sign("sea_surface_temperature", None)
    assert has_sign("anomaly", "K") and has_sign("vorticity_x", "1/s")


def test_maxima_are_grey_over_their_own_range(tmp_path: Path) -> None:
    values = np.zeros((32, 32, 32), np.float32)
    values[ball(0.9)] = 50
    values[16, 16, 16] = 1000
    source = volume_of(tmp_path, "mip", values)
    out = tmp_path / "mip.png"
    assert (
        run(
            [
                "render",
                source,
                "--projection",
                "maximum",
                "--size",
                "200x150",
                "-o",
                str(out),
                "--save-scene",
                str(tmp_path / "m.json"),
                "-q",
            ]
        )
        == 0
    )
    from farfield.pictures.opened_volumes import to_look_at
    from farfield.runtime.resources import Resources
    from farfield.scene.volumes import settled

    scene = Shorthand(projection="maximum").scene(source)[0]
    with to_look_at(source, Resources(progress=False)) as opened:
        look = next(iter(settled(scene, opened).maps.values()))
    assert look.cmap == "gray" and look.range is not None and look.range[1] == 1000
    pixels = np.asarray(Image.open(out).convert("HSV"))
    assert json.loads((tmp_path / "m.json").read_text())["objects"][-1]["projection"] == "maximum"
    assert pixels[20:130, 20:130, 1].mean() < 80


@pytest.mark.parametrize(("downwards", "surface"), [(True, "zone1:k=1"), (False, "zone1:k=end")])
def test_a_needle_is_seen_from_its_upper_end(downwards: bool, surface: str, tmp_path: Path) -> None:
    """An ocean of 12 x 9 degrees and 4000 m: planes along its depth are lines."""
    z = np.linspace(0, -4000, 7) if downwards else np.linspace(-4000, 0, 7)
    points = np.stack(np.meshgrid(np.linspace(0, 12, 13), np.linspace(30, 39, 10), z, indexing="ij"), axis=-1)
    points = points.transpose(2, 1, 0, 3).astype("<f4")
    dims = np.array([13, 10, 7], "<i4")
    (tmp_path / "o.xyz").write_bytes(dims.tobytes() + np.moveaxis(points, -1, 0).tobytes())
    (tmp_path / "o.f").write_bytes(dims.tobytes() + np.array([1], "<i4").tobytes() + points[..., 0].tobytes())
    scene = default_scene(f"{tmp_path}/o.xyz+f={tmp_path}/o.f")
    assert [getattr(drawn, "surface", None) for drawn in scene.objects] == [surface]
    assert scene.camera.direction == (0, 0, 1) and scene.camera.up == (0, 1, 0)
