"""What is said where a volume is asked for what datasets of zones have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_OF_FLOWS = (
    "streamlines", "pathlines", "streaklines", "timelines", "trace", "flow_map", "vortex_cores", "zones", "fields", "define",
)  # fmt: skip


class VolumeWords:
    """Attributes that a volume does not have, and where they are."""

    if not TYPE_CHECKING:  # what has no such attribute is a mistake there

        def __getattr__(self, name: str) -> Any:
            way = (
                f"; of a volume of vectors .flow() makes a flow, which has: volume.flow().{name}"
                if name in _OF_FLOWS
                else ""
            )
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{way}", name=name, obj=self)
