"""Kinds of datasets: flows, made of zones, and volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.volume.dataset import VolumeDataset


def is_open_volume(data: object) -> TypeGuard[VolumeDataset]:
    """Whether an open dataset is a volume.

    >>> import farfield as ff
    >>> is_open_volume(ff.open("demo:phantom")), is_open_volume(ff.open("demo:box"))
    (True, False)
    """
    return getattr(data, "_is_volume", False) is True


def is_open_flow(data: object) -> TypeGuard[Dataset]:
    """Whether an open dataset is one of zones.

    >>> import farfield as ff
    >>> is_open_flow(ff.open("demo:phantom")), is_open_flow(ff.open("demo:box"))
    (False, True)
    """
    return getattr(data, "_is_volume", True) is False
