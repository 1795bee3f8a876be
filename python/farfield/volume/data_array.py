"""Volumes as xarray has arrays: lazily, with coordinates where the axes are those of space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset


def data_array(volume: VolumeDataset) -> Any:
    """An `xarray.DataArray` of a volume.

    Raises:
        ImportError: if xarray is not installed.
    """
    try:
        import xarray
        from xarray.backends import BackendArray
        from xarray.core import indexing
    except ImportError as error:
        raise ImportError("to_xarray needs xarray: pip install xarray") from error

    channels = [c for n, c in enumerate(volume.channels) if n in volume._chosen_channels()]
    scaled = [c.scale is not None or c.missing is not None for c in channels]
    dtype = np.dtype(np.float64) if any(scaled) else volume.dtype

    class Lazy(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = volume.shape, dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._get)

        def _get(self, key: tuple[Any, ...]) -> Any:
            found = volume[key]
            if not any(scaled):
                return found
            if len(channels) == 1:
                return channels[0].values(found)
            at = volume.dims.index("channel")
            chosen = np.arange(len(channels))[key[at]]
            if np.ndim(chosen) == 0:
                return channels[int(chosen)].values(found)
            # Dimensions before it that were indexed by a number are gone.
            axis = at - sum(not isinstance(k, slice) for k in key[:at])
            parts = [channels[int(c)].values(np.take(found, n, axis)) for n, c in enumerate(chosen)]
            return np.stack(parts, axis).astype(dtype)

    space = volume.space
    coordinates: dict[str, Any] = {}
    straight = np.abs(np.array(space.direction))
    if np.allclose(straight, np.eye(3), atol=1e-6):
        for n, name in enumerate("xyz"):
            step = space.spacing[n] * float(np.sign(space.direction[n][n]))
            values = space.origin[n] + step * np.arange(space.dims[n])
            coordinates[name] = (name, values, {"units": space.axis_units[n] if space.axis_units else space.unit})
    if "time" in volume.dims:
        coordinates["time"] = ("time", volume.times, {"units": volume.time_units})
    if "channel" in volume.dims:
        coordinates["channel"] = ("channel", [c.name for c in channels])
    about: dict[str, Any] = {"affine": space.affine.tolist(), "length_unit": space.unit}
    if space.anatomy is not None:
        about["anatomy"] = space.anatomy
    if len(channels) == 1:
        about |= {"units": channels[0].units, "long_name": channels[0].name}
    label = channels[0].name if len(channels) == 1 else None
    return xarray.DataArray(indexing.LazilyIndexedArray(Lazy()), coordinates, volume.dims, label, about)
