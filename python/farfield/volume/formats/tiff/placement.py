"""Placement of a TIFF's pixels: orientation in the picture, and position on the ground."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from farfield.volume.formats.description import IDENTITY, Level
from farfield.volume.formats.tiff.metadata import About

_ORIENTATION = 274
UPRIGHT = 1
_TURNED: dict[int, tuple[str, str, str]] = {
    2: ("-x", "+y", "mirrored, left and right"),
    3: ("-x", "-y", "turned by 180 degrees"),
    4: ("+x", "-y", "mirrored, top and bottom"),
    5: ("+y", "+x", "mirrored along its diagonal"),
    6: ("+y", "-x", "turned by 90 degrees, clockwise"),
    7: ("-y", "-x", "mirrored along its other diagonal"),
    8: ("-y", "+x", "turned by 90 degrees, counterclockwise"),
}
"""By orientation: directions of columns and rows in the picture, with x to the right and y down, and their description
(TIFF 6.0, page 36)."""
_SCALE, _TIES, _MATRIX, _KEYS = 33550, 33922, 34264, 34735
_MODEL, _RASTER, _LINEAR, _ANGULAR = 1024, 1025, 3076, 2054
"""GeoTIFF keys: model (2: longitude and latitude), meaning of a pixel (2: a point), units."""
_GEOGRAPHIC, _POINT = 2, 2
_UNITS = {9001: "m", 9002: "foot", 9003: "US_survey_foot", 9036: "km"}


def orientation_of(page: Any) -> int:
    """The orientation of a page, from 1 to 8; 1 if absent or invalid."""
    tag = getattr(page, "tags", {}).get(_ORIENTATION)
    try:
        found = int(tag.value) if tag is not None else UPRIGHT
    except (TypeError, ValueError):  # not a number
        return UPRIGHT
    return found if found in _TURNED else UPRIGHT


@dataclass(frozen=True)
class Turn:
    """The rotation and mirroring of stored pixels in the picture."""

    direction: tuple[tuple[float, float, float], ...] = IDENTITY
    words: str | None = None
    number: int = UPRIGHT

    @classmethod
    def of(cls, orientation: int) -> Turn:
        """The turn of an orientation.

        >>> Turn.of(3).direction
        ((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0))
        >>> Turn.of(1).words is None
        True
        """
        if orientation not in _TURNED:
            return cls()
        columns, rows, words = _TURNED[orientation]
        return cls((_row(columns), _row(rows), IDENTITY[2]), words, orientation)

    def said(self) -> list[str]:
        """Notes on the turn."""
        if self.words is None:
            return []
        return [
            f"its pixels are stored {self.words} (Orientation {self.number}), and are shown upright: that changes no index"
        ]

    def place(self, levels: Sequence[Level]) -> None:
        """Moves levels so that the turned pixels keep their place."""
        if self.words is None:
            return
        first = levels[0]
        begun, dims, spacing = first.origin, first.arrays[0].dims, first.spacing
        origin = np.array(begun)
        for axis in range(3):
            row = np.array(self.direction[axis])
            # An axis that runs backward begins at the far end.
            origin -= np.minimum(row, 0.0) * spacing[axis] * (dims[axis] - 1)
        for level in levels:
            off = np.array(level.origin) - np.array(begun)
            moved = origin + sum(off[axis] * np.array(self.direction[axis]) for axis in range(3))
            x, y, z = (float(v) for v in moved)
            level.origin = (x, y, z)


def _row(way: str) -> tuple[float, float, float]:
    sign = -1.0 if way[0] == "-" else 1.0
    return (sign, 0.0, 0.0) if way[1] == "x" else (0.0, sign, 0.0)


@dataclass(frozen=True)
class Ground:
    """The place of a GeoTIFF: position of the first pixel's centre, steps along columns and rows, and their unit."""

    origin: tuple[float, float, float]
    columns: tuple[float, float]
    rows: tuple[float, float]
    unit: str

    def settle(self, about: About) -> tuple[tuple[float, float, float], ...]:
        """Fills in spacing, origin and unit; returns the directions of the axes."""
        a, b = math.hypot(*self.columns), math.hypot(*self.rows)
        about.spacing, about.origin, about.length_unit = (a, b, a), self.origin, self.unit
        about.format = f"Geo{about.format}" if about.format == "TIFF" else f"GeoTIFF ({about.format})"
        i, j = (tuple(0.0 + v / length for v in step) for step, length in ((self.columns, a), (self.rows, b)))
        return ((i[0], i[1], 0.0), (j[0], j[1], 0.0), IDENTITY[2])


def ground_of(page: Any, guessed: list[str]) -> Ground | None:
    """The place of a GeoTIFF's pixels (OGC 19-008r4); None for other TIFFs."""
    matrix, scale, ties = (_numbers(page, tag) for tag in (_MATRIX, _SCALE, _TIES))
    keys = _geo_keys(page)
    shift = 0.0 if keys.get(_RASTER) == _POINT else 0.5
    if len(matrix) == 16:
        columns, rows = (matrix[0], matrix[4]), (matrix[1], matrix[5])
        x, y = (matrix[n + 3] + (matrix[n] + matrix[n + 1]) * shift for n in (0, 4))
        said = "by its transformation"
    elif len(scale) >= 2 and len(ties) >= 6:
        columns, rows = (scale[0], 0.0), (0.0, -scale[1])
        x, y = ties[3] + (shift - ties[0]) * scale[0], ties[4] - (shift - ties[1]) * scale[1]
        said = f"by its tie point ({ties[3]:.10g}, {ties[4]:.10g}) and scale"
        if len(ties) > 6:
            guessed.append(f"of its {len(ties) // 6} tie points the first is used")
    else:
        if len(ties) > 6:
            guessed.append(f"its {len(ties) // 6} tie points, without a scale, are not used; warp it (gdalwarp)")
        return None
    if not all(map(math.isfinite, (*columns, *rows, x, y))) or not math.hypot(*columns) or not math.hypot(*rows):
        guessed.append("where it lies on the ground makes no sense (a scale of 0, or no number), and is not used")
        return None
    unit, why = _unit(keys, x, y, columns)
    what = "a point" if shift == 0.0 else "an area"
    guessed[:] = [g for g in guessed if "how large a voxel is" not in g]
    guessed.append(f"{said} it lies on the ground, in {unit}{why}; a pixel is {what}, positions are of its centre")
    return Ground((x, y, 0.0), columns, rows, unit)


def _unit(keys: dict[int, int], x: float, y: float, columns: tuple[float, float]) -> tuple[str, str]:
    if keys.get(_MODEL) == _GEOGRAPHIC:
        return "degree", ""
    known = _UNITS.get(keys.get(_LINEAR, 0))
    if known is not None:
        return known, ""
    if keys.get(_MODEL) is None and abs(x) <= 360 and abs(y) <= 90 and math.hypot(*columns) < 1:
        return "degree", " (it does not say so: such are longitude and latitude)"
    if keys.get(_MODEL) is not None:
        return "m", " (that of its projection, as a rule)"
    return "m", " (it does not say so: such are projections)"


def _geo_keys(page: Any) -> dict[int, int]:
    """Keys of a GeoTIFF with integer values."""
    found = [int(v) for v in _numbers(page, _KEYS)]
    return {found[n]: found[n + 3] for n in range(4, len(found) - 3, 4) if found[n + 1] == 0}


def _numbers(page: Any, tag: int) -> list[float]:
    found = getattr(page, "tags", {}).get(tag)
    value = found.value if found is not None else ()
    try:
        return [float(v) for v in (value if isinstance(value, tuple | list) else (value,))]
    except (TypeError, ValueError):  # text, or absent
        return []
