"""Fill values that the format does not declare, such as -9999 or 1e20. Default pictures ignore them.

>>> known = np.array([280.0, 290.0, 300.0, -9999.0, 1e20])
>>> fills(known)
[1e+20, -9999.0]
>>> without(known, fills(known)).tolist()
[280.0, 290.0, 300.0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Nodes = list[tuple[float, float]]

_CUSTOMARY = (
    999.0,
    9999.0,
    99999.0,
    999999.0,
    9999999.0,
    999.25,
    9999.25,
    9999.9,
    32767.0,
    32768.0,
    2147483647.0,
    2147483648.0,
)
_ENDS = (2.0**63, 2.0**64)
"""The ends of 64-bit integers, as floats."""
_BELOW_AIR = (-3024.0, -2048.0, -2000.0)
"""Values of scanners outside of their circular view, in Hounsfield units."""
SATURATED = (32767.0, 65535.0)
"""Saturated values of detectors: excluded from ranges, but visible."""
HUGE = 1e15
"""Magnitude from which any number far from all others is a fill value: NetCDF's 9.97e36, 1e20, the largest floats."""
FAR = 1e3
"""Distance of a huge number from the others, as a multiple of their range."""
MOST = 4
"""Largest number of fill values per channel."""
OFTEN = 0.005
"""Share of values from which a customary fill value may be nearer to the others."""


def fills(values: Values, *, whole: bool = False) -> list[float]:
    """The fill values among some values: extreme ones that are customary, or huge, and far from all others. `whole`:
    integers, where huge values may be labels.

    >>> names = np.array([0.0, 9.1e15, 9.2e18])
    >>> fills(names), fills(names, whole=True), fills(np.array([1.0, 2.0, 2.0**63]), whole=True)
    ([9.2e+18, 9100000000000000.0], [], [9.223372036854776e+18])
    >>> fills(np.array([0.0, 2.0**64]), whole=True)
    []
    """
    found: list[float] = []
    while values.size and len(found) < MOST:
        ends = (float(values.max()), float(values.min()))
        stands = next((v for v in ends if _stands_for_none(v, values, whole=whole)), None)
        if stands is None:
            break
        found.append(stands)
        values = values[values != stands]
    return found


def _stands_for_none(value: float, values: Values, *, whole: bool) -> bool:
    customary = abs(value) in _CUSTOMARY or value in _BELOW_AIR or value in SATURATED
    if not customary and (abs(value) < HUGE or (whole and abs(value) not in _ENDS)):
        return False
    others = values[values != value]
    if not others.size:
        return False
    low, high = float(others.min()), float(others.max())
    # Integers of two values, such as 0 and the largest, are a mask, and the second value is the object.
    if whole and low == high:
        return False
    gap, span = (low - value if value < low else value - high), high - low
    if not customary:
        return gap > FAR * max(span, 1.0)
    often = 1.0 - others.size / values.size >= OFTEN
    return gap > (span / 8 if often else span)


def said(name: str, found: Sequence[float]) -> str:
    """The message about values treated as missing.

    >>> said("t", [-9.0])
    "of 't' -9 is taken for no value, by custom, and pictures look past it; --missing says which number is none, --range shows it"
    """
    which = " and ".join(f"{v:.6g}" for v in found)
    are = "is" if len(found) == 1 else "are"
    return (
        f"of '{name}' {which} {are} taken for no value, by custom, and pictures look past it; --missing says which number is none, "
        "--range shows it"
    )


def without(values: Values, found: Sequence[float]) -> Values:
    """The values without those found."""
    return values[~np.isin(values, found)] if found else values


def cleared(nodes: Nodes, values: Values, found: Sequence[float]) -> Nodes:
    """Makes the nodes of an opacity clear at fill values. Saturated values stay visible.

    >>> cleared([(0.0, 0.0), (4.0, 0.9)], np.array([0.0, 4.0]), [1e20])
    [(0.0, 0.0), (4.0, 0.9), (5.0, 0.9), (6.0, 0.0)]
    """
    for value in found:
        if value in SATURATED or not values.size:
            continue
        low, high = float(values.min()), float(values.max())
        step = 0.25 * ((high - low) or max(abs(high), 1.0))
        if value > high:
            nodes = _cut(nodes, high, min(step, (value - high) / 3))
        elif value < low:
            nodes = [
                (-v, a)
                for v, a in reversed(_cut([(-v, a) for v, a in reversed(nodes)], -low, min(step, (low - value) / 3)))
            ]
    return nodes


def _cut(nodes: Nodes, high: float, step: float) -> Nodes:
    """Ends nodes in clear, within two steps from `high`."""
    edge = high + step
    at = float(np.interp(edge, [v for v, _ in nodes], [a for _, a in nodes]))
    if at == 0 and all(a == 0 for v, a in nodes if v > edge):
        return nodes
    return [*(n for n in nodes if n[0] < edge), (edge, at), (edge + step, 0.0)]
