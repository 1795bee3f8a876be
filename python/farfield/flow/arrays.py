"""Conversion of zones into datasets of xarray and grids of PyVista."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.dataset.lazy_arrays import Key, lazy
from farfield.dataset.memory import SLAB, check_room
from farfield.runtime.optional_libraries import need_pyvista, need_xarray
from farfield.sources import places

if TYPE_CHECKING:
    from farfield.flow.zones import Field, Zone

_AXES = ("x", "y", "z")
_SMALLER = "take one zone, fewer fields or one time step, or raise the limit"
_PART = "select a part, as in .isel(k=slice(0, 10)), or raise the limit"


def zone_dataset(zone: Zone, fields: Sequence[str] | None = None) -> Any:
    """An `xarray.Dataset` of a zone.

    Raises:
        ImportError: if xarray is not installed.
        UnknownName: if there is no such field.
    """
    xarray = need_xarray()
    dataset = zone._dataset
    steps = list(dataset._steps) if dataset._steps is not None else list(range(max(1, len(dataset._all_times))))
    several = len(steps) > 1 and not dataset._one
    check = partial(_check, zone)
    place = zone["xyz"]
    axes = _AXES[: place.shape[0]]

    def array(field: Field, *, moves: bool, component: int | None = None) -> Any:
        dims, shape = field.dims, field.shape
        if field.ndim == 4 and field.shape[0] != len(axes):
            # Tensors need a dimension that differs from that of vectors.
            dims = (f"component_{field.shape[0]}", *dims[1:])
        if component is not None:
            dims, shape = dims[1:], shape[1:]
        over = steps if several and moves else steps[:1]
        if several and moves:
            dims, shape = ("time", *dims), (len(steps), *shape)
        return dims, lazy(shape, field.dtype, partial(_read, field, over, several and moves, component), check)

    moves = several and _moves(zone)
    coordinates: dict[str, Any] = {
        axis: (*array(place, moves=moves, component=n), {"units": place.units, "standard_name": f"{axis}_coordinate"})
        for n, axis in enumerate(axes)
    }
    if len(dataset._all_times):
        times = dataset._all_times[steps]
        about = {"units": dataset.time_units}
        coordinates["time"] = ("time", times, about) if several else ((), times[0], about)
    known = {f["name"]: f for f in dataset.info()["fields"]}
    variables: dict[str, Any] = {}
    for name in _chosen(fields, [n for n in zone.fields if not known[n]["derived"] or known[n]["defined"]]):
        field = zone[name]
        said = {key: known[name][key] for key in ("long_name", "standard_name") if known.get(name, {}).get(key)}
        variables[name] = (*array(field, moves=True), {"units": field.units, **said})
        if "component" in variables[name][0]:
            coordinates["component"] = ("component", list(axes))
    if zone.iblank and fields is None:
        variables["iblank"] = (*array(zone["iblank"], moves=moves), {"long_name": "iblank"})
    made = xarray.Dataset(variables, attrs={"zone": zone.name, "source": dataset._name})
    # As a `Variable`, a coordinate gets no index, for which xarray would read it.
    return made.assign_coords({name: xarray.Variable(*parts) for name, parts in coordinates.items()})


def zones_tree(zones: Sequence[Zone], fields: Sequence[str] | None = None) -> Any:
    """An `xarray.DataTree` with a dataset for each zone.

    Raises:
        ImportError: if xarray is not installed.
        UnknownName: if a zone has no such field.
    """
    xarray = need_xarray()
    return xarray.DataTree.from_dict({zone.name: zone_dataset(zone, fields) for zone in zones})


def structured_grid(zone: Zone, fields: Sequence[str] | None = None) -> Any:
    """A `pyvista.StructuredGrid` of one time step of a zone.

    Raises:
        ImportError: if PyVista is not installed.
        UnknownName: if there is no such field.
        MemoryLimitError: if the grid takes more than the memory limit, before any read.
    """
    _check_grids([zone], fields)
    return _structured_grid(zone, fields)


def multiblock(zones: Sequence[Zone], fields: Sequence[str] | None = None) -> Any:
    """A `pyvista.MultiBlock` of one time step of zones.

    Raises:
        ImportError: if PyVista is not installed.
        UnknownName: if a zone has no such field.
        MemoryLimitError: if the grids take more than the memory limit, before any read.
    """
    pyvista = need_pyvista()
    _check_grids(zones, fields)
    return pyvista.MultiBlock({zone.name: _structured_grid(zone, fields) for zone in zones})


def _structured_grid(zone: Zone, fields: Sequence[str] | None) -> Any:
    pyvista = need_pyvista()
    place = zone["xyz"]
    count = math.prod(zone.dims)
    points = np.zeros((count, 3), dtype=place.dtype)
    _fill(points[:, : place.shape[0]], place)
    grid = pyvista.StructuredGrid()
    grid.points = points
    grid.dimensions = zone.dims
    for field in _fields(zone, fields):
        values = np.empty(count if field.ndim == 3 else (count, field.shape[0]), dtype=field.dtype)
        _fill(values, field)
        grid.point_data[field.name] = values
    if zone.iblank:
        grid.hide_points(grid.point_data["iblank"] == 0)
    times = zone._dataset.times
    if len(times):
        grid.field_data["TimeValue"] = np.array([times[0]])
    return grid


def _fields(zone: Zone, fields: Sequence[str] | None) -> list[Field]:
    """The given fields of a grid, or the stored ones and iblank."""
    known = {f["name"]: f for f in zone._dataset.info()["fields"]}
    stored = [n for n in zone.fields if not known[n]["derived"]]
    names = _chosen(fields, stored)
    return [zone[name] for name in [*names, *["iblank"] * (zone.iblank and "iblank" not in names)]]


def _chosen(fields: Sequence[str] | None, default: list[str]) -> list[str]:
    if fields is None:
        return default
    return [fields] if isinstance(fields, str) else list(dict.fromkeys(fields))


def _fill(out: NDArray[Any], field: Field) -> None:
    """Fills values by point, i first, in slabs of layers, to bound the memory beside the result."""
    nk, nj, ni = field.shape[-3:]
    layer = nj * ni
    for k0, k1 in _slabs(nk, layer * field.dtype.itemsize * (field.shape[0] if field.ndim == 4 else 1)):
        part = out[k0 * layer : k1 * layer]
        if field.ndim == 3:
            part[...] = field[k0:k1].reshape(-1)
        else:
            part[...] = field[:, k0:k1].reshape(field.shape[0], -1).T


def _slabs(count: int, layer: int) -> Iterator[tuple[int, int]]:
    each = max(1, SLAB // max(1, layer))
    for low in range(0, count, each):
        yield low, min(low + each, count)


def _check_grids(zones: Sequence[Zone], fields: Sequence[str] | None) -> None:
    """Refuses grids that exceed the memory limit."""
    total = 0
    for zone in zones:
        sizes = [f.dtype.itemsize * (f.shape[0] if f.ndim == 4 else 1) for f in _fields(zone, fields)]
        total += math.prod(zone.dims) * (3 * zone["xyz"].dtype.itemsize + sum(sizes))
    what = f"zone {zones[0].name}" if len(zones) == 1 else f"all of its {len(zones)} zones"
    dataset = zones[0]._dataset
    check_room(dataset._name, total, dataset.memory_limit, f"{what} as a grid of PyVista", _SMALLER)


def _check(zone: Zone, count: int) -> None:
    dataset = zone._dataset
    check_room(dataset._name, count, dataset.memory_limit, f"what is asked for of zone {zone.name}", _PART)


def _read(field: Field, steps: Sequence[int], several: bool, component: int | None, key: Key) -> NDArray[Any]:
    """Reads the numbers of an index into (time,) (component,) k, j, i."""
    if not several:
        return _at_step(field, steps[0], component, key)
    first, rest = key[0], key[1:]
    if isinstance(first, slice):
        parts = [_at_step(field, step, component, rest) for step in steps[first]]
        shape = tuple(
            len(range(n)[k]) for n, k in zip(_shape(field, component), rest, strict=True) if isinstance(k, slice)
        )
        return np.stack(parts) if parts else np.empty((0, *shape), field.dtype)
    return _at_step(field, steps[first], component, rest)


def _shape(field: Field, component: int | None) -> tuple[int, ...]:
    return field.shape if component is None else field.shape[1:]


def _at_step(field: Field, step: int, component: int | None, key: Key) -> NDArray[Any]:
    now = field._at(step)
    if component is None:
        return now[key]
    # A read gives all components of a point. Slabs bound the memory of the unused ones.
    layers = key[0]
    if not isinstance(layers, slice):
        return now[(component, *key)]
    picks = range(field.shape[1])[layers]
    shape = [len(range(n)[k]) for n, k in zip(field.shape[1:], key, strict=True) if isinstance(k, slice)]
    out = np.empty(shape, field.dtype)
    for low, high in _slabs(len(picks), field.shape[0] * field.shape[2] * field.shape[3] * field.dtype.itemsize):
        part = picks[low:high]
        end = part.stop if part.stop >= 0 else None
        out[low:high] = now[(component, slice(part.start, end, part.step), *key[1:])]
    return out


def _moves(zone: Zone) -> bool:
    """Whether the points of a zone may change between steps."""
    source = zone._dataset._source
    if "zones" in source.options or not places.isdir(source.path):
        return source.moves
    try:
        with places.open_binary(os.path.join(source.path, zone.name, "xyz", "zarr.json")) as file:
            return int(json.load(file)["shape"][0]) > 1
    except (OSError, ValueError, KeyError, IndexError):  # True costs time, but is never wrong
        return True
