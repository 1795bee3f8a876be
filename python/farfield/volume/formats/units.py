"""Units in the spellings of formats, converted to UDUNITS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NAMES = {
    "m": ("m", "meter", "metre", "meters", "metres"),
    "cm": ("cm", "centimeter", "centimetre", "centimeters", "centimetres"),
    "mm": ("mm", "millimeter", "millimetre", "millimeters", "millimetres"),
    "um": (
        "um",
        "\u00b5m",
        "\u03bcm",
        "micron",
        "microns",
        "micrometer",
        "micrometre",
        "micrometers",
        "micrometres",
        "\\u00b5m",
    ),
    "nm": ("nm", "nanometer", "nanometre", "nanometers", "nanometres"),
    "pm": ("pm", "picometer", "picometre"),
    "angstrom": ("angstrom", "angstroms", "\u00e5", "\u212b", "\u00c5"),
    "km": ("km", "kilometer", "kilometre", "kilometers", "kilometres"),
    "inch": ("in", "inch", "inches", "\\u0022"),
    "foot": ("ft", "foot", "feet"),
    "s": ("s", "sec", "second", "seconds"),
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "us": ("us", "usec", "\u00b5s", "\u03bcs", "microsecond", "microseconds"),
    "ns": ("ns", "nanosecond", "nanoseconds"),
    "min": ("min", "minute", "minutes"),
    "h": ("h", "hr", "hour", "hours"),
    "day": ("d", "day", "days"),
}
_KNOWN = {name.lower(): unit for unit, names in _NAMES.items() for name in names}
_NONE = (
    "",
    "pixel",
    "pixels",
    "voxel",
    "voxels",
    "none",
    "null",
    "dimensionless",
    "unknown",
    "a.u.",
    "reference frame",
)


def unit(name: object) -> str | None:
    """A unit in Farfield's spelling; None if the text means no unit.

    >>> unit("micrometer"), unit("\u00b5m"), unit("pixel"), unit(None), unit("degrees_north")
    ('um', 'um', None, None, 'degrees_north')
    """
    if name is None:
        return None
    text = str(name).strip()
    if text.lower() in _NONE:
        return None
    return _KNOWN.get(text.lower(), text)


_LENGTHS = {
    "pm": 1e-12, "angstrom": 1e-10, "nm": 1e-9, "um": 1e-6, "mm": 1e-3, "cm": 1e-2, "inch": 0.0254, "foot": 0.3048, "m": 1.0,
    "km": 1e3,
}  # fmt: skip


def factor(from_unit: str, to_unit: str) -> float | None:
    """The factor between two units of length; None if unknown.

    >>> factor("mm", "um"), factor("um", "um"), factor("parsec", "m")
    (1000.0, 1.0, None)
    """
    if from_unit == to_unit:
        return 1.0
    if from_unit not in _LENGTHS or to_unit not in _LENGTHS:
        return None
    ratio = _LENGTHS[from_unit] / _LENGTHS[to_unit]
    # Powers of ten are exact.
    return float(f"{ratio:.12g}")


def in_common(units: Sequence[str]) -> tuple[str, list[float], tuple[str, str, str] | None]:
    """The common unit of lengths along x, y and z, which is that of x, and the factors to it. Without a common unit,
    the result is 1 with the units of the axes as the last item.

    >>> in_common(["mm", "mm", "cm"]), in_common(["um", "um", "s"])
    (('mm', [1.0, 1.0, 10.0], None), ('1', [1.0, 1.0, 1.0], ('um', 'um', 's')))
    """
    x, y, z = units
    ratios = [factor(own, x) for own in units]
    known = [ratio for ratio in ratios if ratio is not None]
    return (x, known, None) if len(known) == len(ratios) else ("1", [1.0] * 3, (x, y, z))


SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "day": 86400.0}
"""Units of time in seconds."""
_NAUTICAL_MILE = 1852.0
_SPEED = re.compile(r"\s*([a-z]+)\s*(?:/|\s|\*|\.|per)\s*([a-z]+)\s*(?:(?:\^|\*\*)?\(?-1\)?)?\s*", re.IGNORECASE)


def speed_factor(name: str) -> float | None:
    """The factor from a unit of speed to m/s; None if unknown.

    >>> speed_factor("m s-1"), speed_factor("cm/s"), speed_factor("km h**-1"), speed_factor("Pa s-1")
    (1.0, 0.01, 0.277777777778, None)
    """
    if name.strip().lower() in ("knot", "knots", "kt", "kts", "kn"):
        return _NAUTICAL_MILE / 3600.0
    found = _SPEED.fullmatch(name)
    length = factor(unit(found[1]) or "", "m") if found else None
    seconds = SECONDS.get(unit(found[2]) or "") if found else None
    return None if length is None or seconds is None else float(f"{length / seconds:.12g}")


_UNSAID = ("", "1", "voxel")
"""Texts for positions without a unit."""
BY_NUMBERS = "Positions say no unit, or not all of them, and velocities are in {}: lines follow their numbers"
"""The remark about vectors whose positions have no unit."""


def followed(lengths: Iterable[str], speeds: Sequence[str], *, named: bool) -> tuple[list[float], bool] | None:
    """Factors by which lines follow a vector through positions in `lengths`, and whether the result is in m/s. It is
    not if either unit is missing; then numbers stay unchanged. None if no lines can follow it, because positions are
    not lengths.

    `named` means that the user named the vector: then it may have any unit. Else all components must be speeds, or
    have no unit.

    >>> followed(["m"], ["cm/s", "m/s"], named=False), followed(["1"], ["m/s"], named=True)
    (([0.01, 1.0], True), ([1.0], False))
    >>> followed(["m", ""], ["m/s"], named=False), followed(["km", ""], ["m/s"], named=False)
    (([1.0], False), None)
    >>> followed(["degree"], ["m/s"], named=True)
    """
    inside = list(lengths)
    known = [speed_factor(speed) for speed in speeds]
    ratios = [ratio for ratio in known if ratio is not None]
    are_speeds = len(ratios) == len(known)
    are_lengths = all(u in _UNSAID or factor(u, "m") is not None for u in inside)
    if not are_speeds:
        may = named or (are_lengths and all(speed == "1" for speed in speeds))
        return ([1.0] * len(known), False) if may else None
    if not are_lengths:
        return None
    if any(u in _UNSAID for u in inside):
        # Components of one unit form a vector by their numbers; if some positions are in metres, they must be in m/s.
        said = set(inside) - set(_UNSAID)
        may = len(set(ratios)) == 1 and (not said or (said == {"m"} and ratios[0] == 1.0))
        return ([1.0] * len(known), False) if may else None
    return ratios, True
