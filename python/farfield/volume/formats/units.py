"""Names of units as formats write them, in UDUNITS spelling."""

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
    """A unit by the spelling that the rest of Farfield uses; None where the text says that there is none.

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
    """What lengths in one unit are multiplied by to be in another; None where that is not known.

    >>> factor("mm", "um"), factor("um", "um"), factor("parsec", "m")
    (1000.0, 1.0, None)
    """
    if from_unit == to_unit:
        return 1.0
    if from_unit not in _LENGTHS or to_unit not in _LENGTHS:
        return None
    ratio = _LENGTHS[from_unit] / _LENGTHS[to_unit]
    # Powers of ten are meant exactly.
    return float(f"{ratio:.12g}")


def in_common(units: Sequence[str]) -> tuple[str, list[float], tuple[str, str, str] | None]:
    """The unit to which lengths along x, y and z are brought, that of x, and what they are multiplied by for it. Where one of them
    cannot be, there is none (1), and each axis keeps its own: these come last.

    >>> in_common(["mm", "mm", "cm"]), in_common(["um", "um", "s"])
    (('mm', [1.0, 1.0, 10.0], None), ('1', [1.0, 1.0, 1.0], ('um', 'um', 's')))
    """
    x, y, z = units
    ratios = [factor(own, x) for own in units]
    known = [ratio for ratio in ratios if ratio is not None]
    return (x, known, None) if len(known) == len(ratios) else ("1", [1.0] * 3, (x, y, z))


SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "day": 86400.0}
"""How many seconds the units of time have."""
_NAUTICAL_MILE = 1852.0
_SPEED = re.compile(r"\s*([a-z]+)\s*(?:/|\s|\*|\.|per)\s*([a-z]+)\s*(?:(?:\^|\*\*)?\(?-1\)?)?\s*", re.IGNORECASE)


def speed_factor(name: str) -> float | None:
    """What speeds in a unit are multiplied by to be in m/s; None where that is not known.

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
"""What stands for the unit of positions that have none."""
BY_NUMBERS = "Positions say no unit, or not all of them, and velocities are in {}: lines follow their numbers"
"""What is said of a vector whose positions say no unit."""


def followed(lengths: Iterable[str], speeds: Sequence[str], *, named: bool) -> tuple[list[float], bool] | None:
    """What components of a vector are multiplied by so that lines follow it through positions in `lengths`, and whether they are
    in m/s then, and not as they are, since one of both has no unit. None where no line follows them: positions are no lengths.

    `named` says that a user named the vector: then it may be in units of anything. Else all must be speeds, or none.

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
        # Of one unit they are one vector by their numbers; beside positions in metres they must be in m/s.
        said = set(inside) - set(_UNSAID)
        may = len(set(ratios)) == 1 and (not said or (said == {"m"} and ratios[0] == 1.0))
        return ([1.0] * len(known), False) if may else None
    return ratios, True
