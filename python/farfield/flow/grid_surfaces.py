"""Grid surfaces in text form: `zone1:k=1`, or parts of them, `zone1:k=1,i=2:40`.

>>> parse_surface("zone2:j=17")
Surface(zone='zone2', axis='j', index=17, within=())
>>> str(parse_surface("zone1: i=2:40, k=end, j=:8"))
'zone1:k=end,i=2:40,j=:8'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from farfield.errors import UsageError

_SURFACE = re.compile(r"(?P<zone>.+?):\s*(?P<terms>[ijk]\s*=[^=]*(?:,\s*[ijk]\s*=[^=]*)*)")
_INDEX = re.compile(r"[1-9]\d*|end")
_RANGE = re.compile(r"([1-9]\d*|):([1-9]\d*|end|)")

End = int | None


@dataclass(frozen=True)
class Surface:
    """Points of a zone with one index fixed; indices count from 1."""

    zone: str
    axis: str
    index: int | Literal["end"]
    within: tuple[tuple[str, End, End], ...] = ()
    """First and last index, both inclusive, of other axes; None for the end of the axis. Axes that are absent are
    whole."""

    def native(self) -> dict[str, Any]:
        """The form for the extension."""
        within = {axis: [first, last] for axis, first, last in self.within}
        return {"zone": self.zone, "axis": self.axis, "index": self.index, "within": within}

    def __str__(self) -> str:
        ends = (f",{axis}={first or ''}:{last or ''}" for axis, first, last in self.within)
        return f"{self.zone}:{self.axis}={self.index}{''.join(ends)}"


def parse_surface(text: str) -> Surface:
    """Parses `ZONE:k=1,i=2:40`: exactly one axis with an index, a number or `end`; the others may have a range.

    >>> parse_surface("zone1:k=1,i=2:40").within
    (('i', 2, 40),)

    Raises:
        UsageError: if the form is wrong, an index is 0, a range ends before it begins, or not exactly one axis has an
            index.
    """
    wrong = UsageError(
        f"'{text}' is not a grid surface; write it like zone1:k=1, or zone1:k=1,i=2:40 for a part of it (i, j or k; indices count "
        "from 1, 'end' is the last)"
    )
    match = _SURFACE.fullmatch(text.strip())
    if match is None:
        raise wrong
    fixed: list[tuple[str, str]] = []
    within: dict[str, tuple[End, End]] = {}
    for term in match["terms"].split(","):
        axis, said = (part.strip() for part in term.split("="))
        if axis in within or axis in (a for a, _ in fixed):
            raise UsageError(f"'{text}' says {axis} twice")
        if _INDEX.fullmatch(said):
            fixed.append((axis, said))
            continue
        ends = _RANGE.fullmatch(said)
        if ends is None:
            raise wrong
        first, last = (int(end) if end.isdigit() else None for end in ends.groups())
        if first is not None and last is not None and first > last:
            raise UsageError(f"'{text}': {axis} ends before it begins")
        within[axis] = (first, last)
    if len(fixed) != 1:
        what = "is a line or a point" if fixed else "is a box"
        raise UsageError(f"'{text}' {what}, not a surface; give one index of one axis, like zone1:k=1,i=2:40")
    ((axis, index),) = fixed
    number: int | Literal["end"] = "end" if index == "end" else int(index)
    return Surface(match["zone"].strip(), axis, number, tuple((a, *within[a]) for a in "ijk" if a in within))
