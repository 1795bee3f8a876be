"""Recognition of labels by names, in formats that do not mark them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farfield.volume.formats.description import Volume

_LABELS = frozenset((
    "label", "labels", "labelmap", "seg", "segmentation", "segmentations", "tissue", "tissues", "atlas", "parcellation",
))  # fmt: skip


def is_labels_name(name: str) -> bool:
    """Whether a word of a name means labels.

    >>> is_labels_name("brain_seg.nii.gz"), is_labels_name("segment.tif"), is_labels_name("/volumes/labels")
    (True, False, True)
    """
    return not _LABELS.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))


def are_labels(path: str, volume: Volume) -> bool:
    """Whether the name of the file or of its array means labels, for a volume of one integer per voxel."""
    if volume.kind != "scalar" or len(volume.channels) != 1 or not volume.levels:
        return False
    if not all(array.dtype.lstrip("u").startswith("int") for array in volume.levels[0].arrays):
        return False
    # For FILE::NAME and STORE.zarr/NAME, the last name and the file's name count.
    file, _, inner = path.partition("::")
    names = [os.path.basename(file.rstrip("/")), inner.rpartition("/")[2], volume.channels[0].name]
    store, zarr, _ = file.partition(".zarr/")
    return any(map(is_labels_name, [*names, os.path.basename(store) if zarr else ""]))
