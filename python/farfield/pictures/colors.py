"""Colours and colour maps, all from the `cmap` package.

>>> rgb("#ff8000")
(255, 128, 0)
>>> len(lut("viridis")), lut("viridis")[0]
(256, (68, 1, 84))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from cmap import Colormap
    from cmap._color import RGBA8

SEQUENTIAL = "viridis"
"""Perceptually uniform and dark at one end only, so that lit tubes stay visible on the dark background."""
DIVERGING = "matplotlib:coolwarm"
"""Made for lit surfaces (K. Moreland, Diverging color maps for scientific visualization, 2009). It is nowhere so dark
that shading is lost, and tubes near the reference value stay visible on the dark background."""

LUT_SIZE = 256
_LIST = "python -c 'import cmap; print(*cmap.Catalog().short_keys())' lists all of them"
UNKNOWN = (ValueError, TypeError, KeyError)
"""Errors of `cmap` for an unknown name; which one depends on its version and on the form of the name."""


def rgb(color: str, place: str = "") -> tuple[int, int, int]:
    """The sRGB values, 0..255, of a colour by name or hexadecimal. Errors begin with its `place` in the scene.

    Raises:
        UnknownName: if the colour does not exist.
        UsageError: if it is partly transparent.
    """
    found = find_color(color, place)
    if found is None:
        raise UnknownName(f"{_begin(place)}no colour named '{color}'; write it like '#ff8000' or 'tomato'")
    return found


def find_color(color: str, place: str = "") -> tuple[int, int, int] | None:
    """As `rgb`, or None. A single letter is no colour, though matplotlib has eight. Fields and maps have names like `k`
    and `m`; a misspelt one would give a picture in black or magenta.

    >>> find_color("magenta"), find_color("m"), find_color("density")
    ((255, 0, 255), None, None)

    Raises:
        UsageError: if the colour is partly transparent, since nothing is drawn in such a colour.
    """
    found = _color(color)
    if found is None:
        return None
    if found.a < 1:
        raise UsageError(
            f"{_begin(place)}'{color}' is clear or partly clear, and colours are opaque; write one like '#ff8000' or 'tomato'"
        )
    return int(found.r), int(found.g), int(found.b)


def is_color(name: str) -> bool:
    """Whether a name is that of a colour, even a transparent one.

    >>> is_color("tomato"), is_color("transparent"), is_color("density")
    (True, True, False)
    """
    return _color(name) is not None


def _color(name: str) -> RGBA8 | None:
    from cmap import Color

    if len(name.strip()) == 1:
        return None
    try:
        return Color(name).rgba8
    except UNKNOWN:  # most words are no colour, such as the name of a field
        return None


def _begin(place: str) -> str:
    return f"{place}: " if place else ""


def is_map(name: str) -> bool:
    """Whether the colour map exists.

    >>> is_map("viridis"), is_map("density")
    (True, False)
    """
    try:
        _found(name)
    except UNKNOWN:
        return False
    return True


def how_to_color(name: str, field: str) -> str:
    """Advice for a name that is no colour, map or field; `field` is an existing one."""
    if is_map(name):
        example = f'"maps": {{"{field}": {{"field": "{field}", "cmap": "{name}"}}}}'
        return f"'{name}' is a colour map: name a field as the colour, as '{field}', and the map as --cmap or in a scene: {example}"
    return "a colour is written like '#ff8000' or 'tomato', a colour map stands as 'cmap' in the scene's 'maps'"


def lut(name: str) -> list[tuple[int, int, int]]:
    """The 256 colours of a map.

    Raises:
        UnknownName: if the map does not exist, with similar names.
    """
    import numpy as np

    try:
        table = _found(name).lut(LUT_SIZE)
    except UNKNOWN:
        raise UnknownName(f"no colour map named '{name}'{_like(name)}; {_LIST}") from None
    return [(int(r), int(g), int(b)) for r, g, b in np.rint(np.asarray(table)[:, :3] * 255.0).astype(int)]


def diverges(name: str) -> bool:
    """Whether a map has a middle colour from which the others diverge.

    >>> diverges("coolwarm"), diverges("viridis"), diverges("no such map")
    (True, False, False)
    """
    try:
        return bool(_found(name).category == "diverging")
    except UNKNOWN:  # an unknown name is an error of `lut`
        return False


def _found(name: str) -> Colormap:
    import logging

    from cmap import Colormap

    # `cmap` warns of a short name in several collections and uses the first; that is intended.
    logging.getLogger("cmap").setLevel(logging.ERROR)
    return Colormap(name)


def _like(name: str) -> str:
    import difflib

    from cmap import Catalog

    near = difflib.get_close_matches(name.split(":")[-1], list(Catalog().short_keys()), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
