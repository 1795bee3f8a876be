"""Directions, whose length does not matter, and bounds of distances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Direction = tuple[float, float, float]

FAR = 1e100
"""Between its inverse and this bound, squares of lengths neither overflow nor underflow."""
WIDEST = 1000.0
"""Largest width of a line in pixels."""


def pointing(value: Direction, what: str) -> Direction:
    """The direction, if it is not zero.

    Raises:
        ValueError: if it is zero.
    """
    if not all(map(math.isfinite, value)):
        raise ValueError(f"{what} is made of finite numbers, not {list(value)}")
    if not any(value):
        raise ValueError(f"{what} has a length: one of its three numbers at least is not 0")
    return value


def within_reach(place: Direction) -> Direction:
    """The position, if distances to it are finite.

    Raises:
        ValueError: if they are not.
    """
    if max(map(abs, place)) > FAR:
        raise ValueError(f"{list(place)} is too far away: each of its numbers is at most {FAR:g}")
    return place


def length(value: float) -> float:
    """The length, if its square is finite and not 0.

    Raises:
        ValueError: if it is not.
    """
    if not 1 / FAR <= value <= FAR:
        raise ValueError(f"{value:g} is no length that can be drawn: it is from {1 / FAR:g} to {FAR:g}")
    return value


def line_width(pixels: float) -> float:
    """The width of a line in pixels, if it is in the valid range.

    Raises:
        ValueError: if it exceeds the valid range.
    """
    if pixels > WIDEST:
        raise ValueError(f"{pixels:g} pixels are no width of a line: it is at most {WIDEST:g}")
    return pixels


def moderate(value: Direction) -> Direction:
    """The same direction, scaled so that squares are finite. The factor is a power of two, which keeps all digits; it
    is 1 if no scaling is needed.

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
    """The model's camera in the form for the extension."""
    turned = {key: moderate(camera[key]) for key in ("direction", "up") if camera[key] is not None}
    return {**camera, **turned}
