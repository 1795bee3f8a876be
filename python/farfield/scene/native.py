"""From a scene to the object that the extension draws: every name resolved, every colour a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield import sources
from farfield.errors import UnknownName
from farfield.lines import MOST_STEPS
from farfield.scene.colors import DIVERGING, SEQUENTIAL, diverges, find_color, lut, rgb
from farfield.scene.models import (
    OF_PARTICLES,
    OF_STREAKLINES,
    OF_STREAMLINES,
    ColorMap,
    Lines,
    Outline,
    Scene,
    Surface,
    Trace,
    Walls,
)
from farfield.settings import Settings
from farfield.surfaces import parse_surface

CENTERS = {"pressure_coefficient": 0.0, "entropy": 0.0}
"""Reference values of signed fields where no dataset says them (lines drawn from a file alone)."""

_PLAIN = {"lines": (232, 234, 238), "surface": (196, 202, 212), "walls": (196, 202, 212), "outline": (104, 114, 130)}


def to_native(
    scene: Scene,
    settings: Settings,
    info: Mapping[str, Any] | None = None,
    source: sources.Source | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The object that the extension's `render` takes. `info` is the dataset's, if it is at hand; `source` its files, where it is
    open already and the scene's words need not be looked up; `options` (plot3d, zone_order) are how to open it.

    Raises:
        UnknownName: if a colour or a colour map does not exist.
        DataError: if the source is not there.
    """
    fields = {f["name"]: f for f in (info or {}).get("fields", [])}
    maps: dict[str, ColorMap] = dict(scene.maps)
    objects = [_object(drawn, n, maps, fields) for n, drawn in enumerate(scene.objects)]
    used = list(dict.fromkeys(o["map"] for o in objects if o.get("map")))
    chosen = settings["cmap"]
    top, bottom = (scene.background,) * 2 if isinstance(scene.background, str) else scene.background
    return {
        "version": scene.version,
        "source": _source(scene, settings, source, options),
        "step": scene.step,
        "objects": objects,
        "maps": {name: _map(name, maps[name], fields.get(maps[name].field), chosen) for name in used},
        "camera": scene.camera.model_dump(mode="json"),
        "size": list(scene.size),
        "background": {"top": _rgb(top, "background"), "bottom": _rgb(bottom, "background")},
        "samples": scene.samples,
        "bars": used if scene.scalar_bar else [],
        "axes": scene.axes,
        "title": scene.title,
        "time": scene.time,
    }


def is_colored(scene: Scene) -> bool:
    """Whether `to_native` has a use for the dataset's `info`: only it tells fields from colours, and what they are."""
    return any(drawn.color is not None for drawn in scene.objects if not isinstance(drawn, Outline))


def _source(
    scene: Scene, settings: Settings, known: sources.Source | None, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    if scene.source is None:
        return None
    found = known or sources.parse(scene.source)
    # An open dataset knows where its own cache is.
    kept = found.options.get("cache_dir") or str(settings["cache_dir"])
    settled = found.options.get("settled") or settings.definitions()
    found = found.with_options(cache_dir=kept, settled=settled, **options)
    return {
        "path": found.path,
        "q": list(found.q) or None,
        "function": list(found.function) or None,
        "options": dict(found.options),
    }


def _rgb(color: str, place: str) -> tuple[int, int, int]:
    """As `rgb`, with the place in the scene where the colour stands."""
    try:
        return rgb(color)
    except UnknownName as error:
        raise UnknownName(f"{place}: {error}") from error


def _object(
    drawn: Lines | Surface | Walls | Outline, number: int, maps: dict[str, ColorMap], fields: Mapping[str, Any]
) -> dict[str, Any]:
    if isinstance(drawn, Outline):
        color = _rgb(drawn.color, f"objects.{number}.color") if drawn.color else _PLAIN["outline"]
        return {"kind": "outline", "zone": drawn.zone, "rgb": color, "width": drawn.width}
    paint = _paint(drawn.color, _PLAIN[drawn.kind], maps, fields)
    if isinstance(drawn, Lines):
        origin = {"file": drawn.file} if drawn.trace is None else {"trace": _trace(drawn.trace)}
        return {"kind": "lines", **origin, **paint, "radius": drawn.radius, "tail": drawn.tail}
    if isinstance(drawn, Walls):
        return {"kind": "surface", "walls": True, **paint, "mesh": drawn.mesh}
    return {"kind": "surface", **parse_surface(drawn.surface).native(), **paint, "mesh": drawn.mesh}


def _trace(trace: Trace) -> dict[str, Any]:
    """Null is no bound in a scene, and 2000 to the extension."""
    steps = MOST_STEPS if trace.max_steps is None else trace.max_steps
    options = {**trace.model_dump(mode="json"), "max_steps": steps}
    if trace.kind != "streamline":
        # What has no meaning for a kind is refused by the extension, whatever it says.
        options = {name: value for name, value in options.items() if name not in OF_STREAMLINES}
        options["direction"] = "forward"
    without = {"streamline": (*OF_PARTICLES, *OF_STREAKLINES), "pathline": OF_STREAKLINES, "streakline": ()}[trace.kind]
    return {name: value for name, value in options.items() if name not in without}


def _paint(
    color: str | None, plain: tuple[int, int, int], maps: dict[str, ColorMap], fields: Mapping[str, Any]
) -> dict[str, Any]:
    """A map of the scene, then a field of the dataset, then a colour; anything else is an array of a lines file."""
    if color is None:
        return {"map": None, "rgb": plain}
    if color not in maps and color not in fields:
        fixed = find_color(color)
        if fixed is not None:
            return {"map": None, "rgb": fixed}
    maps.setdefault(color, ColorMap(field=color))
    return {"map": color, "rgb": plain}


def _map(key: str, chosen: ColorMap, field: Mapping[str, Any] | None, preferred: str | None) -> dict[str, Any]:
    known = CENTERS.get(chosen.field) if field is None else field.get("center")
    if chosen.cmap is not None and not diverges(chosen.cmap):
        known = None  # no colour of it stands for a middle
    center = chosen.center if chosen.center is not None else known
    name = chosen.cmap or (DIVERGING if center is not None else preferred or SEQUENTIAL)
    try:
        colors = lut(name)
    except UnknownName as error:
        raise UnknownName(f"maps.{key}.cmap: {error}") from error
    return {
        "field": chosen.field,
        "range": None if chosen.range is None else list(chosen.range),
        "center": center,
        "lut": colors,
        # What `info` does not list, components and expressions, the extension has words for.
        "label": chosen.label or (field or {}).get("long_name"),
        "units": chosen.units or (field or {}).get("units") or None,
    }
