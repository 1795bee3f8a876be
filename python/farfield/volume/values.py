"""What voxels hold: channels of numbers, and what is at one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.missing_values import Missing, is_missing


@dataclass(frozen=True)
class VolumeChannel:
    """One channel of a volume.

    >>> import farfield as ff
    >>> ff.open("demo:phantom").channels[0]
    VolumeChannel(name='phantom', units='1', dtype=dtype('uint8'), color=None, limits=None, scale=None, ...)
    """

    name: str
    units: str
    dtype: np.dtype[Any]
    """Of the stored numbers, as they are in memory."""
    color: str | None = None
    limits: tuple[float, float] | None = None
    """Values that are shown as black and as full, where the format says them."""
    scale: tuple[float, float] | None = None
    """What stored numbers are multiplied by, and what is added then, to have values in `units`."""
    missing: Missing = None
    """The stored number that stands for a missing value; a tuple where there are several numbers, or ranges (lowest, highest)."""
    inverted: bool = False
    """Whether the lowest value is shown as the highest is otherwise: white in grey. Values stay what they are."""

    def values(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Values of stored numbers: NaN where they are missing. What needs no change stays what it is.

        >>> VolumeChannel("a", "HU", np.dtype("int16"), scale=(2.0, -1024.0), missing=-1.0).values(np.array([0, 500, -1], "i2"))
        array([-1024.,   -24.,    nan])
        """
        if self.scale is None and self.missing is None:
            return stored
        found = stored.astype(np.float64)
        if self.scale is not None:
            found = found * self.scale[0] + self.scale[1]
        if self.missing is not None:
            found[is_missing(stored, self.missing)] = np.nan
        return found


@dataclass(frozen=True)
class VolumeProbe:
    """What is at one place of a volume.

    >>> import farfield as ff
    >>> with ff.open("demo:phantom") as volume:
    ...     volume.probe((80, 100, 84))
    VolumeProbe(ijk=(33.0, 41.0, 29.0), position=(80.0, 100.0, 84.0), values={'phantom': 80.0}, units=..., note=None)
    """

    ijk: tuple[float, float, float]
    """1-based, along x, y and z, with fractions."""
    position: tuple[float, float, float]
    values: dict[str, float]
    """By channel, between voxels by linear interpolation; of labels and colours those of the nearest voxel."""
    units: dict[str, str]
    note: str | None = None
    """What makes the values doubtful."""


def in_memory(dtype: str) -> np.dtype[Any]:
    """Type of numbers in memory: those that have no type there have the next larger one."""
    return np.dtype({"bool": "uint8", "float16": "float32"}.get(dtype, dtype))


def pair(value: Any) -> tuple[float, float] | None:
    """Two numbers of JSON, where there are any."""
    return None if value is None else (float(value[0]), float(value[1]))


def between(box: NDArray[Any], fraction: NDArray[np.float64]) -> float:
    """Linear interpolation in a [k, j, i] box of one or two voxels along each axis; corners of no weight do not count."""
    total = 0.0
    for corner in np.ndindex(box.shape):
        weight = 1.0
        for n, part in enumerate(fraction[::-1]):
            if box.shape[n] > 1:
                weight *= float(part) if corner[n] else 1 - float(part)
        if weight:
            total += weight * float(box[corner])
    return total
