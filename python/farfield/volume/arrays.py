"""Conversion of volumes into arrays of xarray and images of PyVista."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.dataset.lazy_arrays import Key, lazy
from farfield.dataset.memory import SLAB, check_room
from farfield.runtime.optional_libraries import need_pyvista, need_xarray

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset
    from farfield.volume.values import VolumeChannel

_PART = "select a part, as in [0:10], a coarser level or a channel, or raise the limit"
_SMALLER = "take a coarser level or one channel, or raise the limit"


def data_array(volume: VolumeDataset) -> Any:
    """An `xarray.DataArray` of a volume, with coordinates if its axes are parallel to those of space.

    Raises:
        ImportError: if xarray is not installed.
    """
    xarray = need_xarray()
    channels = _channels(volume)
    scaled = any(_is_scaled(c) for c in channels)
    dtype = np.dtype(np.float64) if scaled else volume.dtype

    def read(key: Key) -> NDArray[Any]:
        found = volume[key]
        if not scaled:
            return found
        if len(channels) == 1:
            return channels[0].values(found)
        at = volume.dims.index("channel")
        chosen = np.arange(len(channels))[key[at]]
        if np.ndim(chosen) == 0:
            return channels[int(chosen)].values(found)
        # Indexing by a number has removed earlier dimensions.
        axis = at - sum(not isinstance(k, slice) for k in key[:at])
        parts = [channels[int(c)].values(np.take(found, n, axis)) for n, c in enumerate(chosen)]
        return np.stack(parts, axis).astype(dtype)

    def check(count: int) -> None:
        check_room(volume.path, count, volume.memory_limit, "what is asked for", _PART)

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
    return xarray.DataArray(lazy(volume.shape, dtype, read, check), coordinates, volume.dims, label, about)


def image_data(volume: VolumeDataset) -> Any:
    """A `pyvista.ImageData` of one time step of a volume, with a point at the centre of each voxel.

    Raises:
        ImportError: if PyVista is not installed.
        MemoryLimitError: if the result takes more than the memory limit, before any read.
    """
    pyvista = need_pyvista()
    channels, space = _channels(volume), volume.space
    count = math.prod(space.dims)
    colors = volume.kind in ("rgb", "rgba") and len(channels) > 1
    types = [np.dtype(np.float64) if _is_scaled(c) else c.dtype for c in channels]
    total = count * sum(dtype.itemsize for dtype in types)
    check_room(volume.path, total, volume.memory_limit, "it as an image of PyVista", _SMALLER)
    image = pyvista.ImageData(dimensions=space.dims, spacing=space.spacing, origin=space.origin)
    # PyVista expects the directions of the axes as columns.
    image.SetDirectionMatrix(np.array(space.direction, dtype=np.float64).T.ravel().tolist())
    names = volume.fields
    if colors:
        whole = np.empty((count, len(channels)), dtype=np.result_type(*types))
        parts = {name: whole[:, n] for n, name in enumerate(names)}
    else:
        parts = {name: np.empty(count, dtype=dtype) for name, dtype in zip(names, types, strict=True)}
    now = volume.isel(time=0) if "time" in volume.dims else volume
    for name, about in zip(names, channels, strict=True):
        _fill(parts[name], now.channel(name), about)
    for name, values in ({volume.kind: whole} if colors else parts).items():
        image.point_data[name] = values
    if len(volume.times):
        image.field_data["TimeValue"] = np.array([float(volume.times[0])])
    return image


def _channels(volume: VolumeDataset) -> list[VolumeChannel]:
    chosen = volume._chosen_channels()
    return [c for n, c in enumerate(volume.channels) if n in chosen]


def _is_scaled(channel: VolumeChannel) -> bool:
    return channel.scale is not None or channel.missing is not None


def _fill(out: NDArray[Any], volume: VolumeDataset, channel: VolumeChannel) -> None:
    """Fills values by point, x first, in slabs of layers, to bound the memory beside the result."""
    nz, ny, nx = volume.shape
    layer = ny * nx
    each = max(1, SLAB // (8 * layer))
    for low in range(0, nz, each):
        high = min(low + each, nz)
        out[low * layer : high * layer] = channel.values(volume[low:high]).reshape(-1)
