"""Kinds of datasets: flows and volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset

OF_FLOWS = (
    "define", "flow_map", "metrics", "pathlines", "streaklines", "streamlines", "timelines", "trace", "vortex_cores", "zones",
)  # fmt: skip
"""Members of datasets of zones only."""
OF_VOLUMES = (
    "anatomy", "channel", "channels", "dims", "direction", "dtype", "flow", "format", "kind", "length_unit", "level", "levels",
    "ndim", "notes", "origin", "path", "shape", "space", "spacing",
)  # fmt: skip
"""Members of volumes only."""


def is_open_volume(data: object) -> TypeGuard[VolumeDataset]:
    """Whether an open dataset is a volume.

    >>> import farfield as ff
    >>> is_open_volume(ff.open("demo:phantom")), is_open_volume(ff.open("demo:box"))
    (True, False)
    """
    return hasattr(data, "_opening")
