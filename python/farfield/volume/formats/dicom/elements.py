"""Values of elements in DICOM headers, which may be absent, empty, text, or of another count."""

from __future__ import annotations

import math
from typing import Any


def values_in(value: Any) -> list[Any]:
    """The values of an element as a list.

    >>> values_in(None), values_in("AXIAL"), values_in(["ORIGINAL", "AXIAL"])
    ([], ['AXIAL'], ['ORIGINAL', 'AXIAL'])
    """
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def numbers_of(value: Any, count: int) -> tuple[float, ...] | None:
    """The finite numbers of an element; None unless there are `count`.

    >>> numbers_of([1, "2"], 2), numbers_of([1], 2), numbers_of("far", 3)
    ((1.0, 2.0), None, None)
    """
    try:
        found = tuple(float(v) for v in value)
    except (TypeError, ValueError):  # absent, or text
        return None
    return found if len(found) == count and all(map(math.isfinite, found)) else None


def number_of(value: Any) -> float | None:
    """The first number of an element; None if there is none.

    >>> number_of([40, 50]), number_of("2.5"), number_of(None), number_of("nan")
    (40.0, 2.5, None, None)
    """
    try:
        found = float(value[0] if isinstance(value, list | tuple) or hasattr(value, "append") else value)
    except (TypeError, ValueError, IndexError):  # absent, or text
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """The first number of an element as an integer."""
    found = number_of(value)
    return None if found is None else int(found)
