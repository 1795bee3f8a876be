"""Series with files whose times are unusable."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def why_untimed(files: Sequence[str], times: Sequence[float | None]) -> str:
    """Why the times of files are not those of the steps. NaN is a time that is no number. Empty if they are usable, or
    if no file has one.

    >>> why_untimed(["a", "b"], [1.0, None]), why_untimed(["a", "b"], [1.0, math.nan]), why_untimed(["a", "b"], [2.0, 2.0])
    ('b gives none', 'b gives no number', 'a and b both give 2')
    >>> why_untimed(["a", "b"], [2.0, 1.0]), why_untimed(["a", "b"], [None, None])
    ('', '')
    """
    if all(time is None for time in times):
        return ""
    for file, time in zip(files, times, strict=True):
        if time is None or not math.isfinite(time):
            return f"{file} gives {'none' if time is None else 'no number'}"
    twice = next((time for time, count in Counter(times).items() if count > 1), None)
    if twice is None:
        return ""
    one, other, *_ = (file for file, time in zip(files, times, strict=True) if time == twice)
    return f"{one} and {other} both give {twice:g}"
