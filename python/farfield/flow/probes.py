"""What is at one place of a dataset."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Probe:
    """What is at one place.

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
    """What makes the values doubtful: the cell is blanked out, or a corner of it is interpolated from another zone."""


def floats(value: Any) -> Any:
    """Numbers, or lists of them, as JSON has them: null stands for what is no number, a word for what is infinite."""
    if isinstance(value, list):
        return [floats(v) for v in value]
    return math.nan if value is None else float(value)


def probe_of(text: str) -> Probe | None:
    """A probe of what the extension says of a place; None where there is no cell."""
    found: dict[str, Any] = json.loads(text)
    if found.get("outside"):
        return None
    i, j, k = found["ijk"]
    x, y, z = floats(found["position"])
    values = {name: floats(value) for name, value in found["values"].items()}
    return Probe(found["zone"], (i, j, k), (x, y, z), values, found["units"], found["note"])
