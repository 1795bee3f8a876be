"""From a scene to the document that the extension draws: names resolved, colours as numbers.

crates/render/src/scene defines the document: `document.rs` the whole and its camera, `objects.rs` the objects. It refuses keys that
it does not know, and tests/test_scene_wire.py finds keys that nobody sends. A colour is [r, g, b], 0 to 255; a colour map has 256.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from farfield.errors import UnknownName, UsageError
from farfield.flow.grid_surfaces import parse_surface
from farfield.pictures.colors import DIVERGING, SEQUENTIAL, diverges, find_color, how_to_color, is_map, lut, rgb
from farfield.pictures.directions import moderate, moderate_camera
from farfield.pictures.signed_fields import has_sign
from farfield.results.lines import MOST_STEPS
from farfield.runtime.settings import Settings
from farfield.scene.composition import first_scalar
from farfield.scene.models import (
    OF_PARTICLES,
    OF_STREAKLINES,
    OF_STREAMLINES,
    Camera,
    ColorMap,
    Contour,
    Cores,
    Drawn,
    Key,
    Lines,
    Outline,
    Scene,
    Slice,
    Trace,
    Vector,
    Volume,
    Walls,
)
from farfield.sources.parsing import parse
from farfield.sources.source import Source
from farfield.times.dates import moments_of

CENTERS = {"pressure_coefficient": 0.0, "entropy": 0.0}
"""Reference values of signed fields without a dataset (lines drawn from a file alone)."""

_PLAIN = {
    "lines": (232, 234, 238),
    "surface": (196, 202, 212),
    "walls": (196, 202, 212),
    "contour": (214, 190, 150),
    "slice": (196, 202, 212),
    "cores": (250, 220, 120),
    "volume": (235, 235, 235),
    "outline": (104, 114, 130),
}
MOST_VOXELS = 1 << 31
"""Largest number of voxels along an axis."""
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def to_native(
    scene: Scene,
    settings: Settings,
    info: Mapping[str, Any] | None = None,
    source: Source | None = None,
    volume: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The document for the extension's `render`. `info` is the dataset's, if known; `source` its files, if already
    open, so that no words need be looked up; `options` (plot3d, zone_order) open it.

    Raises:
        UnknownName: if a colour or a colour map does not exist.
        DataError: if the source does not exist.
    """
    fields = {f["name"]: f for f in (info or {}).get("fields", [])}
    maps: dict[str, ColorMap] = dict(scene.maps)
    if volume is None:
        for n, drawn in enumerate(scene.objects):
            _check_of_flow(drawn, n)
    objects = [_object(drawn, n, maps, fields) for n, drawn in enumerate(scene.objects)]
    used = list(dict.fromkeys(o["map"] for o in objects if o.get("map")))
    chosen = settings["cmap"]
    top, bottom = (scene.background,) * 2 if isinstance(scene.background, str) else scene.background
    return {
        "version": scene.version,
        "source": _source(scene, settings, source, options) if volume is None else {"volume": dict(volume)},
        "step": scene.step,
        "objects": objects,
        "maps": {
            # Volumes have it settled already, from their values.
            name: _map(name, maps[name], fields.get(maps[name].field), chosen, may_be_signed=volume is None)
            for name in used
        },
        "camera": moderate_camera(scene.camera.model_dump(mode="json")),
        "size": list(scene.size),
        "background": {"top": rgb(top, "background"), "bottom": rgb(bottom, "background")},
        "samples": scene.samples,
        "bars": used if scene.scalar_bar else [],
        "keys": scene.scalar_bar,
        "axes": scene.axes,
        "title": scene.title,
        "time": scene.time,
        "moments": moments_of(info or {}),
        "lighting": _lighting(scene),
        "scale_bar": scene.scale_bar,
        "budget_s": scene.budget_s,
        "path": [_key(key, scene.camera) for key in scene.path],
    }


def _key(key: Key, camera: Camera) -> dict[str, Any]:
    """A key frame. With a direction but no up, it uses the scene's up, or z. The fitted up is perpendicular to the
    fitted direction and would tilt other views."""
    up = camera.up or UP
    if key.camera.direction is not None and key.camera.up is None and _crosses(key.camera.direction, up):
        key = key.model_copy(update={"camera": key.camera.model_copy(update={"up": up})})
    found = key.model_dump(mode="json")
    return {**found, "camera": moderate_camera(found["camera"])}


def _crosses(a: Vector, b: Vector) -> bool:
    """Whether two directions are not parallel."""
    a, b = moderate(a), moderate(b)
    (ax, ay, az), (bx, by, bz) = a, b
    across = math.hypot(ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)
    return across > 1e-6 * math.hypot(*a) * math.hypot(*b)


UP: Vector = (0.0, 0.0, 1.0)
"""Upward direction of a camera without one."""


def _lighting(scene: Scene) -> dict[str, Any] | None:
    if scene.lights is None:
        return None

    def linear(color: str, place: str) -> list[float]:
        return [
            (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in (v / 255 for v in rgb(color, place))
        ]

    lights = [
        {
            "direction": moderate(light.direction),
            "colour": [light.intensity * c for c in linear(light.color, f"lights.{n}.color")],
            "with_camera": light.fixed_to == "camera",
        }
        for n, light in enumerate(scene.lights)
    ]
    return {"ambient": [scene.ambient] * 3, "lights": lights}


def is_colored(scene: Scene) -> bool:
    """Whether `to_native` needs the dataset's `info`: to tell fields from colours, and to choose default fields."""
    return any(
        (drawn.color is not None and not isinstance(drawn, Outline))
        or (isinstance(drawn, Volume | Contour) and drawn.field is None)
        or (isinstance(drawn, Slice) and drawn.color is None)
        for drawn in scene.objects
    )


def _source(
    scene: Scene, settings: Settings, known: Source | None, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    if scene.source is None:
        return None
    found = known or parse(scene.source)
    # An open dataset has its own cache folder.
    kept = found.options.get("cache_dir") or str(settings["cache_dir"])
    settled = found.options.get("settled") or settings.definitions()
    found = found.with_options(cache_dir=kept, settled=settled, **options)
    return {
        "path": found.path,
        "q": list(found.q) or None,
        "function": list(found.function) or None,
        "options": dict(found.options),
    }


def _object(drawn: Drawn, number: int, maps: dict[str, ColorMap], fields: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(drawn, Outline):
        color = rgb(drawn.color, f"objects.{number}.color") if drawn.color else _PLAIN["outline"]
        return {"kind": "outline", "zone": drawn.zone, "rgb": color, "width": drawn.width}
    place = f"objects.{number}.color"
    if drawn.color is not None and drawn.color not in maps and not isinstance(drawn, Lines | Cores):
        _no_map_as_field(drawn.color, fields, place)
    paint = _paint(drawn.color, _PLAIN[drawn.kind], maps, fields, place)
    if isinstance(drawn, Lines):
        origin = {"file": drawn.file} if drawn.trace is None else {"trace": _trace(drawn.trace)}
        return {"kind": "lines", **origin, **paint, "radius": drawn.radius, "tail": drawn.tail}
    if isinstance(drawn, Walls):
        cut = {"cut": True} if drawn.cut else {}
        return {"kind": "surface", "walls": True, **paint, "mesh": drawn.mesh, **cut}
    if isinstance(drawn, Contour):
        field = drawn.field or _first(fields, f"objects.{number}.field")
        what = {"field": field, "values": drawn.values, "near": drawn.near}
        return {"kind": "contour", **what, **paint, "opacity": drawn.opacity}
    if isinstance(drawn, Slice):
        normal = _AXES[drawn.normal] if isinstance(drawn.normal, str) else moderate(drawn.normal)
        if drawn.color is None and fields:
            paint = _paint(first_scalar({"fields": list(fields.values())}), _PLAIN["slice"], maps, fields, place)
        return {"kind": "slice", "origin": drawn.origin, "normal": normal, **paint, "opacity": drawn.opacity}
    if isinstance(drawn, Cores):
        chosen = ("method", "min_strength", "min_length", "max_angle")
        options = {name: value for name in chosen if (value := getattr(drawn, name)) is not None}
        return {"kind": "cores", "options": options, **paint, "radius": drawn.radius}
    if isinstance(drawn, Volume):
        return _volume(drawn, number, maps, fields)
    return {"kind": "surface", **parse_surface(drawn.surface).native(), **paint, "mesh": drawn.mesh}


def _first(fields: Mapping[str, Any], place: str) -> str:
    """The first scalar of a dataset.

    Raises:
        UsageError: if there is none.
    """
    found = next((name for name, f in fields.items() if f["components"] == 1), None)
    if found is None:
        raise UsageError(f"{place}: the dataset has no scalar to choose; name a field")
    return found


def _volume(drawn: Volume, number: int, maps: dict[str, ColorMap], fields: Mapping[str, Any]) -> dict[str, Any]:
    place = f"objects.{number}"
    # Indices beyond the end of a volume may exceed the extension's integers.
    voxels = {axis: [min(n, MOST_VOXELS) - 1 for n in ends] for axis, ends in drawn.slices.items()}
    around = None if drawn.background is None else rgb(drawn.background, f"{place}.background")
    found: dict[str, Any] = {
        "kind": "volume",
        "opacities": drawn.opacity,
        "unit": drawn.unit,
        "samples": drawn.samples_per_voxel,
        "level": drawn.level,
        "within": drawn.within,
        "planes": [{"normal": moderate(plane.normal), "origin": plane.origin} for plane in drawn.planes],
        "voxels": voxels,
        "projection": drawn.projection,
        "value": drawn.value,
        "nearest": drawn.interpolation == "nearest",
        "shading": None if drawn.shading is None else drawn.shading.model_dump(),
    }
    if drawn.opacity_from is not None:
        background = (around or rgb("black")) if drawn.opacity_from == "distance" else None
        return found | {"colors": {"opacity_from": drawn.opacity_from, "background": background}}
    field = drawn.field or _first(fields, f"{place}.field")
    if drawn.labels is not None:
        colors = [[int(name), rgb(c, f"{place}.labels.colors.{name}")] for name, c in drawn.labels.colors.items()]
        found["opacities"] = [[0.0, drawn.labels.opacity]]
        return found | {"field": field, "labels": {"colors": colors, "only": drawn.labels.only}}
    _check_color(drawn.color, field, place, maps, fields)
    return found | {"field": field, **_paint(drawn.color or field, _PLAIN["volume"], maps, fields, f"{place}.color")}


def _check_color(
    color: str | None, field: str, place: str, maps: Mapping[str, ColorMap], fields: Mapping[str, Any]
) -> None:
    """Refuses a colour for a volume that is not derived from its own field."""
    if color is None or color == field or (color not in maps and color not in fields and find_color(color) is not None):
        return
    own = f"a volume is coloured by its own field, '{field}'"
    named = maps[color].field if color in maps else color
    if named == field:
        return
    if named != color:
        raise UsageError(f"maps.{color}.field: {own}, and this is '{named}': name '{field}', or one colour")
    if named in fields:
        raise UsageError(f"{place}.color: {own}, not '{color}'; remove the color, or name a map of '{field}'")
    raise UnknownName(f"{place}.color: no map, field or colour named '{color}'; {own}; {how_to_color(color, field)}")


OF_VOLUMES = ("labels", "opacity_from", "level", "slices", "interpolation")
"""Keys for volumes only, not for fields of flows."""


def _check_of_flow(drawn: Drawn, number: int) -> None:
    if not isinstance(drawn, Volume):
        return
    of_none = Volume()
    wrong = next((key for key in OF_VOLUMES if getattr(drawn, key) != getattr(of_none, key)), None)
    if wrong is not None:
        raise UsageError(
            f"objects.{number}.{wrong}: the source is a flow, and '{wrong}' is for volumes; remove it. A flow is cut with "
            "'within' and 'planes', and shown by a map and an opacity"
        )


def _trace(trace: Trace) -> dict[str, Any]:
    """Null means no bound in a scene, but 2000 steps in the extension."""
    steps = MOST_STEPS if trace.max_steps is None else trace.max_steps
    options = {**trace.model_dump(mode="json"), "max_steps": steps}
    if trace.kind != "streamline":
        # The extension refuses options that do not apply to a kind, whatever their values.
        options = {name: value for name, value in options.items() if name not in OF_STREAMLINES}
        options["direction"] = "forward"
    without = {"streamline": (*OF_PARTICLES, *OF_STREAKLINES), "pathline": OF_STREAKLINES, "streakline": ()}[trace.kind]
    return {name: value for name, value in options.items() if name not in without}


def _paint(
    color: str | None,
    plain: tuple[int, int, int],
    maps: dict[str, ColorMap],
    fields: Mapping[str, Any],
    place: str,
) -> dict[str, Any]:
    """Resolves a colour: a map of the scene, then a field of the dataset, then a colour. Any other name is an array
    of a lines file or is left to the extension."""
    if color is None:
        return {"map": None, "rgb": plain}
    if color not in maps and color not in fields:
        fixed = find_color(color, place)
        if fixed is not None:
            return {"map": None, "rgb": fixed}
    maps.setdefault(color, ColorMap(field=color))
    return {"map": color, "rgb": plain}


def _no_map_as_field(name: str, fields: Mapping[str, Any], place: str) -> None:
    """Raises:
    UnknownName: if the name of a colour map replaces that of a field."""
    if fields and name not in fields and find_color(name, place) is None and is_map(name):
        raise UnknownName(f"{place}: no field named '{name}'; {how_to_color(name, next(iter(fields)))}")


def _map(
    key: str, chosen: ColorMap, field: Mapping[str, Any] | None, preferred: str | None, *, may_be_signed: bool
) -> dict[str, Any]:
    known = CENTERS.get(chosen.field) if field is None else field.get("center")
    if chosen.cmap is not None and not diverges(chosen.cmap):
        known = None  # it has no middle colour
    center = chosen.center if chosen.center is not None else known
    name = chosen.cmap or (DIVERGING if center is not None else preferred or SEQUENTIAL)
    try:
        colors = lut(name)
    except UnknownName as error:
        raise UnknownName(f"maps.{key}.cmap: {error}") from error
    label = chosen.label or (field or {}).get("long_name")
    if label and chosen.units and not chosen.label and (field or {}).get("units") == "1":
        # An explicit unit replaces the reference quantity by which the field is divided.
        label = label.split(" / ")[0]
    units = chosen.units or (field or {}).get("units") or None
    may_be_signed &= center is None and chosen.cmap is None and preferred is None
    signed = {"signed": lut(DIVERGING)} if may_be_signed and has_sign(chosen.field, units) else {}
    return {
        "field": chosen.field,
        **signed,
        "range": None if chosen.range is None else list(chosen.range),
        "center": center,
        "lut": colors,
        # The extension describes components and expressions, which `info` does not list.
        "label": label,
        "units": units,
    }
