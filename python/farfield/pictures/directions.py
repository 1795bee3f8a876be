"""Directions, three numbers of which only where they point counts, however large or small; and how far away things may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Direction = tuple[float, float, float]

FAR = 1e100
"""Up to it, and down to one by it, squares of lengths neither overflow nor vanish."""
WIDEST = 1000.0
"""Pixels of a line."""


def pointing(value: Direction, what: str) -> Direction:
    """The same, if it points anywhere.

    Raises:
        ValueError: if it does not.
    """
    if not all(map(math.isfinite, value)):
        raise ValueError(f"{what} is made of finite numbers, not {list(value)}")
    if not any(value):
        raise ValueError(f"{what} has a length: one of its three numbers at least is not 0")
    return value


def within_reach(place: Direction) -> Direction:
    """The same, if distances to it are numbers.

    Raises:
        ValueError: if they are not.
    """
    if max(map(abs, place)) > FAR:
        raise ValueError(f"{list(place)} is too far away: each of its numbers is at most {FAR:g}")
    return place


def length(value: float) -> float:
    """The same, if its square is a number, and not 0.

    Raises:
        ValueError: if it is not.
    """
    if not 1 / FAR <= value <= FAR:
        raise ValueError(f"{value:g} is no length that can be drawn: it is from {1 / FAR:g} to {FAR:g}")
    return value


def line_width(pixels: float) -> float:
    """The same, if a line of it is one.

    Raises:
        ValueError: if its inside would be all that is seen, or not even that.
    """
    if pixels > WIDEST:
        raise ValueError(f"{pixels:g} pixels are no width of a line: it is at most {WIDEST:g}")
    return pixels


def moderate(value: Direction) -> Direction:
    """The same direction in numbers whose squares are numbers, too. Times a power of two, which changes no digit; as it is where
    that will do.

    >>> moderate((0.0, -3.0, 4.0)), moderate((0.0, 1.5 * 2.0**1000, -(2.0**1000)))
    ((0.0, -3.0, 4.0), (0.0, 0.75, -0.5))
    """
    largest = max(map(abs, value))
    if largest == 0 or 1 / FAR < largest < FAR:
        return value
    _, power = math.frexp(largest)
    x, y, z = (math.ldexp(v, -power) for v in value)
    return x, y, z


def moderate_camera(camera: Mapping[str, Any]) -> dict[str, Any]:
    """A camera as the extension takes it, of the model's."""
    turned = {key: moderate(camera[key]) for key in ("direction", "up") if camera[key] is not None}
    return {**camera, **turned}
