"""`farfield render` of volumes one voxel thick: pictures of their slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from farfield.cli.common import Common
from farfield.cli.common import flat as as_flat
from farfield.errors import UsageError
from farfield.runtime.settings import Settings

if TYPE_CHECKING:
    from farfield.scene.films import Film
    from farfield.scene.flags import Shorthand

_ALSO = ("color", "range", "cmap", "step", "size", "window", "level", "nearest", "labels", "bar")
"""Options that apply to slices, too. All others are for rays, surfaces and cameras."""


def shows(asked: Shorthand, info: Mapping[str, Any] | None) -> bool:
    """Whether the picture is a slice: the volume is one voxel thick, and all given options apply to slices."""
    said = [
        f.name
        for f in fields(asked)
        if (value := getattr(asked, f.name)) is not None and value is not False and value != ()
    ]
    if any(name not in _ALSO for name in said) or (asked.level is not None and asked.window is None):
        return False
    return is_thin(info)


def is_thin(info: Mapping[str, Any] | None) -> bool:
    """Whether a source with this `info` is a volume one voxel thick."""
    levels = [] if info is None else info.get("levels", [])
    return bool(levels) and 1 in levels[0]["dims"]


def draw(
    common: Common,
    asked: Shorthand,
    what: str,
    target: str,
    settings: Settings,
    film: Film | None,
    *,
    convention: str | None,
    letters: bool,
) -> int:
    """Draws the slice; returns exit code 3 if pixels failed."""
    from farfield.cli import PARTIAL, sliceimage
    from farfield.pictures.flat_volumes import flat_picture
    from farfield.pictures.slices import pair
    from farfield.results import outputs
    from farfield.scene.flags import window_of

    if asked.labels:
        common.volume = {**common.volume, "kind": "labels"}
    limits = None if asked.range is None else pair(asked.range, "range")
    if asked.window is not None:
        if limits is not None:
            raise UsageError("--window and --range both give the range; give one of them")
        limits = window_of(asked.window, asked.level)
    volume = common.open_volume(what, settings)
    if volume is None:
        raise UsageError(f"{what}: not a volume any more")
    outputs.check([target if film is None else film.written(), common.events], volume._reads())
    with volume:
        now = volume if asked.step is None else volume.isel(time=asked.step)
        result = flat_picture(
            now,
            target,
            size=asked.size,
            field=asked.color,
            cmap=asked.cmap,
            limits=limits,
            nearest=asked.nearest,
            convention=convention,
            bar=asked.bar is not False,
            letters=letters,
            film=film,
            progress=common.progress(settings),
        )
    lines = sliceimage.lines_of(result)
    if "frames" in result:
        lines[-1] = f"wrote    {target} of {len(result['frames']):,} steps"
    common.show(as_flat(result), lines)
    return PARTIAL if result["partial"] else 0
