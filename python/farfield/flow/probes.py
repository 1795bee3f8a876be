"""Values at one point of a dataset."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Probe:
    """Values at one point.

    >>> import farfield as ff
    >>> found = ff.open("demo:box").probe_ijk("zone1", (3, 4.5, 5), fields=["density"])
    >>> found.zone, found.ijk, found.units["density"], found.note
    ('zone1', (3.0, 4.5, 5.0), '1', None)
    """

    zone: str
    ijk: tuple[float, float, float]
    """1-based, with fractions."""
    position: tuple[float, float, float]
    values: dict[str, Any]
    units: dict[str, str]
    note: str | None = None
    """Why the values are doubtful: the cell is blanked, or a corner is interpolated from another zone."""


def floats(value: Any) -> Any:
    """Numbers from JSON, or lists of them: null becomes NaN, and words become infinities."""
    if isinstance(value, list):
        return [floats(v) for v in value]
    return math.nan if value is None else float(value)


def probe_of(text: str) -> Probe | None:
    """The probe in the extension's JSON; None without a cell."""
    found: dict[str, Any] = json.loads(text)
    if found.get("outside"):
        return None
    i, j, k = found["ijk"]
    x, y, z = floats(found["position"])
    values = {name: floats(value) for name, value in found["values"].items()}
    return Probe(found["zone"], (i, j, k), (x, y, z), values, found["units"], found["note"])
