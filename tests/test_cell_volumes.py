"""Fields of flows as volumes in pictures, with the real extension: against what light does in a fog that is everywhere alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import UnknownName, UsageError
from farfield.scene import Camera, ColorMap, Light, Plane, Scene, Slice, Volume, save_scene
from farfield.scene.models import Shading
from plot3d_files import Block, box, cut, source_of, write
from running import Json
from test_render import pixels

HALF = [(0.7, 0.0), (0.8, 0.5), (0.9, 0.0)]
"""The pressure of the box is 0.8: half of the light comes through a length of 1."""


@pytest.fixture
def flow(tmp_path: Path) -> str:
    """A warped box of side 1 in two zones."""
    return source_of(*write(tmp_path, cut(box(21, 17, 13), 2)))


def scene(source: str, *objects: Any, **more: Any) -> Scene:
    camera = Camera(direction=(1, 0, 0), up=(0, 0, 1), projection="orthographic")
    plain = {"camera": camera, "size": (64, 48), "background": "black", "axes": False, "scalar_bar": False}
    return Scene(source=source, objects=list(objects), **{"scale_bar": False, **plain, **more})


def fog(**more: Any) -> Volume:
    return Volume(**{"field": "pressure", "color": "white", "opacity": HALF, "unit": 1.0, **more})


def drawn(what: Scene, out: Path, **resources: Any) -> Any:
    """Linear light of a picture."""
    farfield.render(what, out, progress=False, **resources)
    v = pixels(out).astype(np.float64) / 255
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def middle(picture: Any) -> float:
    return float(picture[20:28, 28:36].mean())


def test_fog_of_a_derived_field_is_as_thick_as_the_light_goes_far(flow: str, tmp_path: Path) -> None:
    whole = drawn(scene(flow, fog()), tmp_path / "a.png")
    assert middle(whole) == pytest.approx(0.5, abs=0.006)
    assert whole[0, 0].max() == 0.0
    # Cut by a plane and by a box: a quarter of the length is left.
    planes = [Plane(normal=(1, 0, 0), origin=(0.5, 0, 0))]
    parts = fog(planes=planes, within=((0.0, 0.0, 0.0), (0.75, 1.0, 1.0)))
    view = Camera(direction=(1, 0, 0), up=(0, 0, 1), projection="orthographic", target=(0.5, 0.5, 0.5), distance=3.0)
    cut_away = drawn(scene(flow, parts, camera=view), tmp_path / "b.png")
    assert middle(cut_away) == pytest.approx(1 - 0.5**0.25, abs=0.006)


def test_a_surface_is_hidden_by_what_is_in_front_of_it(flow: str, tmp_path: Path) -> None:
    plane = Slice(normal="x", origin=(0.5, 0.5, 0.5), color="#1c2430")
    bare = drawn(scene(flow, plane), tmp_path / "bare.png")
    hidden = drawn(scene(flow, plane, fog()), tmp_path / "hidden.png")
    inner = (slice(20, 28), slice(28, 36))
    through = 0.5**0.5
    np.testing.assert_allclose(hidden[inner], 1 - through + through * bare[inner], atol=0.01)


def test_pictures_are_the_same_whatever_the_means(flow: str, tmp_path: Path, ff_json: Json) -> None:
    source, store = flow, tmp_path / "store"
    ff_json("convert", source, store, "--page", "8")
    shown = Volume(field="velocity_magnitude", opacity=[(0.0, 0.0), (0.3, 0.4), (0.8, 0.1)], unit=0.2)
    what = {"objects": [shown], "maps": {"velocity_magnitude": ColorMap(field="velocity_magnitude", range=(0, 0.7))}}
    view = {"camera": Camera(direction=(1, -0.6, 0.4)), "size": (120, 90)}
    made = []
    for n, (of, resources) in enumerate(
        [(source, ("512MiB", 1)), (source, ("12MiB", 3)), (str(store), ("12MiB", 2)), (str(store), ("1GiB", 1))]
    ):
        file, out = tmp_path / f"{n}.json", tmp_path / f"{n}.png"
        save_scene(Scene(source=of, **what, **view), file)
        found = ff_json("render", file, "-o", out, "--memory-limit", resources[0], "--workers", resources[1])
        assert found["drawn"][0] == {"kind": "volume", "name": "velocity_magnitude", "primitives": 1}
        assert found["pixels_missing"] == 0 and not found["partial"]
        assert found["pages"]["faults"] > 0
        made.append(pixels(out))
    assert made[0].std() > 5
    assert all(np.array_equal(made[0], other) for other in made[1:])


@pytest.fixture
def rising(tmp_path: Path) -> str:
    """The same box, whose density is 1 + x."""
    whole = box(21, 17, 13)
    whole.q[0] = 1.0 + whole.xyz[0]
    return source_of(*write(tmp_path, cut(whole, 2)))


RAMP = [(1.0, 0.0), (2.0, 1.0)]
"""White light that says a density between 1 and 2."""


@pytest.mark.parametrize(("projection", "value"), [("maximum", 1.0), ("mean", 0.5)])
def test_along_x_the_largest_density_and_the_mean_are_known(
    rising: str, tmp_path: Path, projection: str, value: float
) -> None:
    shown = Volume(field="density", color="white", opacity=RAMP, projection=projection)
    assert middle(drawn(scene(rising, shown), tmp_path / "a.png")) == pytest.approx(value, abs=0.012)
    # Without nodes it is opaque, in the colour of the value.
    coloured = Volume(field="density", projection=projection)
    gray = {"maps": {"density": ColorMap(field="density", range=(1.0, 2.0), cmap="gray")}}
    picture = drawn(scene(rising, coloured, **gray, background="white"), tmp_path / "b.png")
    srgb = 12.92 * middle(picture) if middle(picture) < 0.0031308 else 1.055 * middle(picture) ** (1 / 2.4) - 0.055
    assert srgb == pytest.approx(value, abs=0.015)


def test_a_surface_stands_where_its_value_is_reached(rising: str, tmp_path: Path) -> None:
    shown = Volume(field="density", color="#ff0000", projection="surface", value=1.5)
    at = {"target": (0.5, 0.5, 0.5), "distance": 3.0}
    side = Camera(direction=(0, -1, 0), up=(0, 0, 1), projection="orthographic", **at)
    red = drawn(scene(rising, shown, camera=side), tmp_path / "a.png")[..., 0]
    columns = np.nonzero(red[24] > 0.9)[0]
    # The half of the box where x is more than a half; in the picture x goes to the right, 30 pixels a unit.
    assert columns.min() in (31, 32) and columns.max() in (45, 46, 47) and np.all(np.diff(columns) == 1)


def test_light_falls_on_gradients(rising: str, tmp_path: Path) -> None:
    fog_of_it = Volume(field="density", color="white", opacity=[(0.0, 0.5)], unit=1.0)
    lit = fog_of_it.model_copy(update={"shading": Shading(specular=0.0)})
    light = Light(direction=(1, 0, 0), intensity=0.5, fixed_to="scene")
    how = {"lights": [light], "ambient": 0.2}
    plain = drawn(scene(rising, fog_of_it, **how), tmp_path / "plain.png")
    shaded = drawn(scene(rising, lit, **how), tmp_path / "lit.png")
    assert middle(plain) == pytest.approx(0.5, abs=0.006)
    assert middle(shaded) == pytest.approx(0.5 * (0.2 + 0.5), abs=0.006)


def test_several_fields_are_seen_in_one_picture(rising: str, tmp_path: Path) -> None:
    red = Volume(field="density", color="#ff0000", opacity=[(0.0, 0.5)], unit=1.0)
    blue = Volume(field="velocity", color="#0000ff", opacity=[(0.0, 0.5)], unit=1.0)
    both = drawn(scene(rising, red, blue), tmp_path / "both.png")[20:28, 28:36].mean((0, 1))
    # Each takes half of the light alone, and both stand at the same places: each gives half of the three quarters.
    assert both == pytest.approx([0.375, 0.0, 0.375], abs=0.006)
    halves = [
        fog_half.model_copy(update={"planes": [Plane(normal=(sign, 0, 0), origin=(0.5, 0, 0))]})
        for fog_half, sign in ((red, 1), (blue, -1))
    ]
    # The eye is where x is large: the red half is in front.
    through = 0.5**0.5
    halved = drawn(scene(rising, *halves), tmp_path / "halves.png")[20:28, 28:36].mean((0, 1))
    assert halved == pytest.approx([1 - through, 0.0, through * (1 - through)], abs=0.006)


def test_a_budget_that_is_ample_gives_the_same_picture_and_a_short_one_says_what_is_missing(
    rising: str, tmp_path: Path, ff_json: Json
) -> None:
    objects = [
        Volume(field="density", opacity=[(1.0, 0.0), (2.0, 0.5)], unit=0.2),
        Slice(normal="z", origin=(0.5, 0.5, 0.3), color="#40ff80"),
    ]
    view = {"camera": Camera(direction=(1, -0.6, 0.4)), "size": (240, 180)}
    maps = {"density": ColorMap(field="density", range=(1, 2))}
    made = []
    for n, budget in enumerate([None, 600.0, 1e-9]):
        file, out = tmp_path / f"{n}.json", tmp_path / f"{n}.png"
        save_scene(Scene(source=rising, objects=objects, maps=maps, budget_s=budget, **view), file)
        found = ff_json("render", file, "-o", out, ok=(3,) if n == 2 else (0,))
        assert found.get("pixels_filled", 0) > 0 if n == 2 else found.get("pixels_filled", 0) == 0
        assert ("pixels_filled" in found) == (budget is not None) and found["partial"] == (n == 2)
        made.append(pixels(out))
    assert np.array_equal(made[0], made[1]) and made[2].shape == made[0].shape
    # The command line says it of scenes of flows, too.
    found = ff_json("render", tmp_path / "0.json", "-o", tmp_path / "c.png", "--budget", "600s")
    assert found["pixels_filled"] == 0 and np.array_equal(pixels(tmp_path / "c.png"), made[0])


def test_colours_span_the_values_where_no_range_is_said(tmp_path: Path) -> None:
    block = box(9, 9, 9)
    block.q[0] = 1.0 + block.xyz[0]
    hole = np.ones(block.q[0].shape, np.int32)
    hole[:, :, -1] = 0
    source = source_of(*write(tmp_path, [Block(block.xyz, block.q, hole)]))
    found = farfield.render(scene(source, Volume(field="density")), tmp_path / "p.png", progress=False)
    low, high = found["maps"]["density"]["range"]
    usable = block.q[0][:, :, :-1]
    assert (low, high) == (pytest.approx(usable.min()), pytest.approx(usable.max()))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (fog(level=0), "'level' is for volumes"),
        (fog(slices={"i": (1, 4)}), "'slices' is for volumes"),
        (fog(opacity=None), "nodes of its 'opacity'"),
        (fog(color="density"), "coloured by its own field"),
        (fog(interpolation="nearest"), "'interpolation'"),
        (Volume(field="velocity", shading=Shading()), "'velocity' is a vector"),
        (fog(projection="mean", opacity=None), "nodes of its 'opacity'"),
    ],
)
def test_what_makes_no_sense_for_a_flow_is_refused(flow: str, tmp_path: Path, what: Volume, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        farfield.render(scene(flow, what), tmp_path / "p.png", progress=False)
    assert not (tmp_path / "p.png").exists()


def test_fields_that_are_not_there_are_named(flow: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="pressur"):
        farfield.render(scene(flow, fog(field="pressur")), tmp_path / "p.png", progress=False)


def test_a_plane_has_no_fog(tmp_path: Path) -> None:
    source = source_of(*write(tmp_path, [box(9, 9, 1)]))
    with pytest.raises(UsageError, match="one point thick"):
        farfield.render(scene(source, fog()), tmp_path / "p.png", progress=False)
