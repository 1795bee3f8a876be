"""Series some of whose files give times that do not serve: why, wherever it is said that steps are only numbered."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from farfield.errors import UsageError

_NONE = re.compile(
    r"No file gives the times of the \d+ steps; they are numbered from 0\. --dt says how far apart they are\."
)
"""What the extension says, which knows none of these files."""


def why_untimed(files: Sequence[str], times: Sequence[float | None]) -> str:
    """Why times that files give, NaN where one gives no number, are not those of the steps; empty where they are,
    or no file gives any.

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


def unused(why: str, steps: int) -> str:
    """The sentence of it.

    >>> unused("b gives none", 3)
    'The times that files give (TimeValue) are not used, as b gives none: the 3 steps are numbered from 0. --dt says how far ...'
    """
    return (
        f"The times that files give (TimeValue) are not used, as {why}: the {steps} steps are numbered from 0. --dt says how far "
        "apart they are."
    )


@contextlib.contextmanager
def times_told(untimed: str) -> Iterator[None]:
    """Errors that say that no file gives the times say `untimed` instead, where that is not empty."""
    try:
        yield
    except UsageError as error:
        text = str(error)
        if not untimed or not _NONE.search(text):
            raise
        raise UsageError(_NONE.sub(lambda _: untimed, text)) from None


def told_in(found: Mapping[str, Any], untimed: str) -> dict[str, Any]:
    """`info` likewise."""
    said = found.get("times_why")
    if not untimed or said is None or not _NONE.fullmatch(said):
        return dict(found)
    return {**found, "times_why": untimed, "guessed": [untimed if s == said else s for s in found["guessed"]]}
