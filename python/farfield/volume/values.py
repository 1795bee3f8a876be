"""Channels of volumes, and values at one point."""

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
    """Type of the stored numbers in memory."""
    color: str | None = None
    limits: tuple[float, float] | None = None
    """Values shown as black and as full, if the format gives them."""
    scale: tuple[float, float] | None = None
    """Factor and offset from stored numbers to values in `units`."""
    missing: Missing = None
    """The stored number that represents a missing value; a tuple for several numbers, or ranges (lowest, highest)."""
    inverted: bool = False
    """Whether low values are shown bright, such as white in grey. Values stay unchanged."""

    def values(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Values of stored numbers: NaN for missing ones. Numbers that need no change are returned as they are.

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
    """Values at one point of a volume.

    >>> import farfield as ff
    >>> with ff.open("demo:phantom") as volume:
    ...     volume.probe((80, 100, 84))
    VolumeProbe(ijk=(33.0, 41.0, 29.0), position=(80.0, 100.0, 84.0), values={'phantom': 80.0}, units=..., note=None)
    """

    ijk: tuple[float, float, float]
    """1-based, along x, y and z, with fractions."""
    position: tuple[float, float, float]
    values: dict[str, float]
    """By channel, with linear interpolation between voxels; labels and colours are those of the nearest voxel."""
    units: dict[str, str]
    note: str | None = None
    """Why the values are doubtful, or None."""


def in_memory(dtype: str) -> np.dtype[Any]:
    """Type of numbers in memory: types without one there become the next larger type."""
    return np.dtype({"bool": "uint8", "float16": "float32"}.get(dtype, dtype))


def pair(value: Any) -> tuple[float, float] | None:
    """Two numbers from JSON, or None."""
    return None if value is None else (float(value[0]), float(value[1]))


def between(box: NDArray[Any], fraction: NDArray[np.float64]) -> float:
    """Linear interpolation in a [k, j, i] box of one or two voxels along each axis; corners of weight 0 do not count."""
    total = 0.0
    for corner in np.ndindex(box.shape):
        weight = 1.0
        for n, part in enumerate(fraction[::-1]):
            if box.shape[n] > 1:
                weight *= float(part) if corner[n] else 1 - float(part)
        if weight:
            total += weight * float(box[corner])
    return total
