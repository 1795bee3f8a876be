"""Fields whose zero is the middle of the colours, if values lie on both sides of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset

_SCALES = frozenset((
    "hu", "hounsfield", "hounsfield units", "[hnsf'u]", "degc", "degree_celsius", "degrees_celsius", "deg_c", "degree_c",
    "degrees_c", "celsius", "°c", "c", "degf", "fahrenheit", "°f", "degree_fahrenheit", "db", "ph",
))  # fmt: skip
"""Units whose zero has no special meaning."""
_WORDS = re.compile(r"(temperature|temp|hounsfield|ct|time|zone|birth|age|sst)", re.IGNORECASE)
OVERSHOOT = 0.05
"""Share of the larger side up to which the smaller side is an overshoot or noise."""
AIR, NEARLY_AIR = -1000.0, -950.0
"""Hounsfield units of air, and slightly above it."""
_PADDING = -3100.0
"""Smallest fill value of scanners outside of their view."""


def has_sign(name: str, units: str | None) -> bool:
    """Whether zero can be the middle of a field, by its name and unit.

    >>> has_sign("velocity_x", "m/s"), has_sign("temperature", "degC"), has_sign("x", "m"), has_sign("tmap", None)
    (True, False, False, True)
    """
    if (units or "").strip().lower() in _SCALES or name in ("x", "y", "z"):
        return False
    return not any(_WORDS.fullmatch(word) for word in re.split(r"[^A-Za-z]+", name))


def is_signed(low: float, high: float) -> bool:
    """Whether a range has significant parts on both sides of zero.

    >>> is_signed(-2, 5), is_signed(-0.1, 5), is_signed(0, 5)
    (True, False, False)
    """
    return low < 0 < high and min(-low, high) >= OVERSHOOT * max(-low, high)


def is_hounsfield(values: NDArray[np.float64]) -> bool:
    """Whether values are those of a CT, recognised by its air.

    >>> is_hounsfield(np.repeat([-1000.0, 20.0, 700.0], [60, 30, 10])), is_hounsfield(np.array([-3.0, 0.0, 4.0]))
    (True, False)
    """
    if not values.size or values.min() < _PADDING or values.max() < 100.0:
        return False
    air = np.mean((values > AIR - 100.0) & (values < NEARLY_AIR + 50.0))
    soft = np.mean((values > -300.0) & (values < 300.0))
    return bool(air > 0.02 and soft > 0.01)


def reach_of_signed(volume: VolumeDataset, name: str, values: NDArray[np.float64]) -> float | None:
    """Largest distance of values from zero, if they lie on both sides and zero has a meaning; else None."""
    channel = next(c for c in volume.channels if c.name == name)
    limits = channel.limits is not None and channel.limits[0] < channel.limits[1]
    if limits or not values.size or not has_sign(name, channel.units) or is_hounsfield(values):
        return None
    low, high = (float(v) for v in np.percentile(values, (0.5, 99.5)))
    if not is_signed(low, high):
        # In a map of effects, nearly all values may be zero.
        low, high = float(values.min()), float(values.max())
        middle = float(np.median(values))
        if not is_signed(low, high) or abs(middle) > OVERSHOOT * max(-low, high) or (values != middle).mean() > 0.5:
            return None
        seen = values[values != middle]
        low, high = (float(v) for v in np.percentile(seen, (0.5, 99.5)))
        if not is_signed(low, high):
            return None
    return max(-low, high)
