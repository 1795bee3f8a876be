"""The scene of a finished picture, with its chosen values filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.scene.films import Film
from farfield.scene.models import Camera, ColorMap, Scene


def as_drawn(scene: Scene, film: Film, found: Mapping[str, Any]) -> Scene:
    """Fills in the time steps, ranges and cameras of finished pictures, which the extension reports in `found`. The
    scene then redraws the same pictures, and pictures of other time steps match them."""
    maps = dict(scene.maps)
    for name, settled in found["maps"].items():
        if settled["range"] is not None:
            old = maps.get(name, ColorMap(field=settled["field"]))
            maps[name] = ColorMap.model_validate({**dict(old), "range": settled["range"]})
    change: dict[str, Any] = {"maps": maps, "frames": _as_said(film.frames)}
    if scene.views:
        change["views"] = [
            view.model_copy(update={"camera": Camera.model_validate(drawn["camera"])})
            for view, drawn in zip(scene.views, found["views"], strict=True)
        ]
    else:
        change["camera"] = Camera.model_validate(found["camera"])
    return scene.model_copy(update=change)


def _as_said(frames: Mapping[str, list[int | None]] | None) -> str | list[int] | None:
    """Time steps in the form of a scene.

    >>> _as_said({"slice": [0, None, 2]}), _as_said({"slice": [1, 9, None]}), _as_said({"list": [3, 7]}), _as_said(None)
    ('0::2', '1:9', [3, 7], None)
    """
    if frames is None:
        return None
    if "list" in frames:
        return [n for n in frames["list"] if n is not None]
    ends = ["" if n is None else str(n) for n in frames["slice"]]
    return ":".join(ends if ends[2] else ends[:2])
