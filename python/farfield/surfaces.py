"""Grid surfaces as people write them: `zone1:k=1`.

>>> parse_surface("zone2:j=17")
Surface(zone='zone2', axis='j', index=17)
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from farfield.errors import UsageError

_SURFACE = re.compile(r"(?P<zone>.+):(?P<axis>[ijk])=(?P<index>\d+)")


@dataclass(frozen=True)
class Surface:
    """All points of a zone with one index fixed (1-based)."""

    zone: str
    axis: str
    index: int

    def native(self) -> dict[str, Any]:
        """As the extension takes it."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.zone}:{self.axis}={self.index}"


def parse_surface(text: str) -> Surface:
    """Takes `ZONE:k=1` apart.

    Raises:
        UsageError: if it is written otherwise, or the index is 0.
    """
    match = _SURFACE.fullmatch(text.strip())
    if match is None or int(match["index"]) < 1:
        raise UsageError(f"'{text}' is not a grid surface; write it like zone1:k=1 (i, j or k; indices count from 1)")
    return Surface(match["zone"], match["axis"], int(match["index"]))
