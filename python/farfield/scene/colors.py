"""Colours and colour maps, all from the `cmap` package.

>>> rgb("#ff8000")
(255, 128, 0)
>>> len(lut("viridis")), lut("viridis")[0]
(256, (68, 1, 84))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.errors import UnknownName

if TYPE_CHECKING:
    from cmap import Colormap

SEQUENTIAL = "viridis"
"""Perceptually even and dark at one end only, so that lit tubes stay readable on the dark background."""
DIVERGING = "matplotlib:coolwarm"
"""Made for lit surfaces (K. Moreland, Diverging color maps for scientific visualization, 2009): nowhere so dark that shading is
lost, so that tubes near the reference value stay readable on the dark background."""

LUT_SIZE = 256
_LIST = "python -c 'import cmap; print(*cmap.Catalog().short_keys())' lists all of them"
UNKNOWN = (ValueError, TypeError, KeyError)
"""What `cmap` raises for a name that it does not know: any of these, by its version and the form of the name."""


def rgb(color: str) -> tuple[int, int, int]:
    """0..255 sRGB of a colour by name or hexadecimal.

    Raises:
        UnknownName: if there is no such colour.
    """
    found = find_color(color)
    if found is None:
        raise UnknownName(f"no colour named '{color}'; write it like '#ff8000' or 'tomato'")
    return found


def find_color(color: str) -> tuple[int, int, int] | None:
    """As `rgb`, or None."""
    from cmap import Color

    try:
        found = Color(color).rgba8
    except UNKNOWN:  # many a word is none: the name of a field, too
        return None
    return int(found.r), int(found.g), int(found.b)


def lut(name: str) -> list[tuple[int, int, int]]:
    """256 colours of a map.

    Raises:
        UnknownName: with the nearest names, if there is no such map.
    """
    import numpy as np

    try:
        table = _found(name).lut(LUT_SIZE)
    except UNKNOWN:
        raise UnknownName(f"no colour map named '{name}'{_like(name)}; {_LIST}") from None
    return [(int(r), int(g), int(b)) for r, g, b in np.rint(np.asarray(table)[:, :3] * 255.0).astype(int)]


def diverges(name: str) -> bool:
    """Whether a map has a middle that its colours lead away from.

    >>> diverges("coolwarm"), diverges("viridis"), diverges("no such map")
    (True, False, False)
    """
    try:
        return bool(_found(name).category == "diverging")
    except UNKNOWN:  # `lut` is where a name that does not exist is an error
        return False


def _found(name: str) -> Colormap:
    import logging

    from cmap import Colormap

    # A short name that several collections have is no trouble: the first one is meant.
    logging.getLogger("cmap").setLevel(logging.ERROR)
    return Colormap(name)


def _like(name: str) -> str:
    import difflib

    from cmap import Catalog

    near = difflib.get_close_matches(name.split(":")[-1], list(Catalog().short_keys()), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
