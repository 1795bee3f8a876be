"""Stored numbers that represent missing values: single numbers and ranges. NaN is always missing and never listed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Missing = float | tuple[float | tuple[float, float], ...] | None
"""A number, several numbers and ranges (lowest, highest), or None for no missing value."""


def ranges_of(missing: Missing) -> list[tuple[float, float]]:
    """Lowest and highest number of each range; a single number is both.

    >>> ranges_of(None), ranges_of(-999.0), ranges_of((-999.0, (7.0, 9.0)))
    ([], [(-999.0, -999.0)], [(-999.0, -999.0), (7.0, 9.0)])
    """
    if missing is None:
        return []
    parts = missing if isinstance(missing, tuple) else (missing,)
    return [part if isinstance(part, tuple) else (part, part) for part in parts]


def together(*several: Missing) -> Missing:
    """The union without repeats; None and NaN are dropped.

    >>> together(1e20, None, (-999.0, 1e20)), together(None), together(5.0, 5.0), together(float("nan"))
    ((1e+20, -999.0), None, 5.0, None)
    """
    found: dict[float | tuple[float, float], None] = {}
    for missing in several:
        for low, high in ranges_of(missing):
            if low == high:
                found[low] = None
            elif low < high:
                found[low, high] = None
    kept = tuple(found)
    if not kept:
        return None
    return kept[0] if len(kept) == 1 and not isinstance(kept[0], tuple) else kept


def each(missing: Missing, change: Callable[[float], float]) -> Missing:
    """The same numbers after `change`, which applies to both ends of ranges, too.

    >>> each((1.0, (2.0, 3.0)), lambda x: 10 * x)
    (10.0, (20.0, 30.0))
    """
    return together(*(change(a) if a == b else ((change(a), change(b)),) for a, b in ranges_of(missing)))


def is_missing(stored: NDArray[Any], missing: Missing) -> NDArray[np.bool_]:
    """Mask of the stored numbers that represent missing values.

    >>> is_missing(np.array([1, 2, 3, 8]), (2.0, (5.0, 9.0))).tolist()
    [False, True, False, True]
    """
    found = np.zeros(np.shape(stored), dtype=bool)
    for low, high in ranges_of(missing):
        found |= (stored == low) if low == high else (stored >= low) & (stored <= high)
    return found


def as_json(missing: Missing) -> Any:
    """The form for JSON: null, a number, or a list of numbers and pairs; words for infinities.

    >>> as_json(None), as_json(-1), as_json((-1.0, (float("-inf"), -5.0)))
    (None, -1, [-1.0, ['-Infinity', -5.0]])
    """
    parts = [_word(low) if low == high else [_word(low), _word(high)] for low, high in ranges_of(missing)]
    return parts[0] if isinstance(missing, (int, float)) and parts else parts or None


def of_json(found: Any) -> Missing:
    """Parses the result of `as_json`.

    >>> of_json(None), of_json(2**60 + 1), of_json([-1.0, ["-Infinity", -5.0]])
    (None, 1152921504606846977, (-1.0, (-inf, -5.0)))
    """
    if found is None:
        return None
    parts = found if isinstance(found, list) else [found]
    return together(*(((_end(p[0]), _end(p[1])),) if isinstance(p, list) else _end(p) for p in parts))


def text_of(missing: Missing, dtype: str | None = None) -> str:
    """Text for users. For a range without an end, the text gives the first number outside of it, if `dtype` is known.

    >>> text_of((1e20, -999.0, (float("-inf"), 0.0), (5.0, float("inf")), (7.0, 9.0)))
    '1e+20, -999, up to 0, from 5 on, 7 to 9'
    >>> text_of(((float("-inf"), -1.0), (101.0, float("inf"))), "int16")
    'below 0, above 100'
    """
    return ", ".join(_text(low, high, dtype) for low, high in ranges_of(missing))


def _text(low: float, high: float, dtype: str | None) -> str:
    if low == high:
        return str(low) if isinstance(low, int) else f"{low:.6g}"
    # `0.0 +` turns -0.0 into 0.0.
    if math.isinf(low):
        return f"up to {high:.6g}" if dtype is None else f"below {0.0 + next_of(high, dtype, math.inf):.6g}"
    if math.isinf(high):
        return f"from {low:.6g} on" if dtype is None else f"above {0.0 + next_of(low, dtype, -math.inf):.6g}"
    return f"{low:.6g} to {high:.6g}"


def next_of(end: float, dtype: str, towards: float) -> float:
    """The first number of a type beyond an end of a range.

    >>> next_of(0, "int16", -math.inf), next_of(2.5, "uint8", math.inf), next_of(1.0, "float64", math.inf)
    (-1, 3, 1.0000000000000002)
    """
    if dtype in ("float16", "float32"):
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(np.dtype(dtype).type(end), np.dtype(dtype).type(towards)))
    if dtype == "float64" or not math.isfinite(end):
        return math.nextafter(end, towards)
    return math.ceil(end) - 1 if towards < 0 else math.floor(end) + 1


def _end(found: Any) -> float:
    """A number; integers keep all their digits."""
    return found if isinstance(found, int) else float(found)


def _word(value: float) -> float | str:
    if isinstance(value, int):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else float(value)
