"""Datasets in HDF5 files, NetCDF-4 among them: h5py says where chunks lie, and the extension reads them there.

What a chunk cannot be had from by itself (filters that only the HDF5 library knows, compact and virtual datasets) is converted
into the cache through h5py, box by box.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from farfield.errors import DataError, FarfieldError, UnknownName, UsageError
from farfield.runtime.optional_libraries import need
from farfield.sources import places
from farfield.volume.formats import number_parts
from farfield.volume.formats.cf import auxiliary_coordinates
from farfield.volume.formats.cf import axes as naming
from farfield.volume.formats.cf import conventions as cf
from farfield.volume.formats.cf.coordinates import LONGEST
from farfield.volume.formats.contents import Content
from farfield.volume.formats.description import (
    Array,
    Channel,
    Geometry,
    Level,
    Volume,
    colour_channels,
    dtype_of,
    text_of,
)
from farfield.volume.formats.hdf5 import kinds as hdf5_kinds
from farfield.volume.formats.hdf5 import nexus, server_file
from farfield.volume.formats.hdf5.chunks import place
from farfield.volume.formats.hdf5.tree import attributes, datasets, few
from farfield.volume.formats.options import Options, ReaderResources

_MOST_LINKS = 100
_MOST_OTHERS = 1000
"""Names of a group among which coordinates are looked for."""


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a file: `options.variable`, else the only dataset of three or more dimensions, or the largest.

    Raises:
        DataError: if the file is damaged, or a filter is not known.
        UnknownName: if there is no such dataset.
        UsageError: if h5py is not installed.
    """
    h5py = need("h5py", f"{path}: HDF5 and NetCDF-4 files")
    if places.is_remote(path) and options.variable is not None:
        with _read_errors(path):
            target, name = server_file.followed(h5py, path, options.variable)
        if target != path:
            volume = read(target, replace(options, variable=name), resources)
            volume.path, volume.reads = path, [path, *volume.reads]
            return volume
    with _opened(h5py, path) as file:
        guessed: list[str] = []
        kind = hdf5_kinds.read(h5py, file, path, options, resources)
        if kind is not None:
            return kind
        name, dataset, held = _chosen(h5py, file, path, options, guessed)
        # A link may lead into another file: offsets are those of that one.
        own = dataset.file.filename
        at = path if places.is_remote(path) or places.realpath(own) == places.realpath(path) else own
        volume = _volume(h5py, path, at, dataset, _group_of(file, name), resources, guessed)
        names = [n for n, _ in held]
        if 1 < len(held) <= _MOST_OTHERS and name in names:
            volume.contents = [Content(n.lstrip("/"), f"{text_of(d.shape)} {d.dtype}") for n, d in held]
            volume.shown = names.index(name)
        return volume


@contextlib.contextmanager
def _opened(h5py: Any, path: str) -> Iterator[Any]:
    """The file while it is read."""
    with _read_errors(path), _file(h5py, path) as file:
        yield file


@contextlib.contextmanager
def _read_errors(path: str) -> Iterator[None]:
    """What h5py says of a damaged file becomes a sentence about it."""
    try:
        yield
    except FarfieldError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: this HDF5 file cannot be read ({str(error)[:200]}): it was cut off, changed, or is being "
            "written; copy it again"
        ) from error


def _file(h5py: Any, path: str) -> Any:
    """The file, without a lock; where this process has it open with one, as the library wants it, with one too."""
    if places.is_remote(path):
        return server_file.opened(h5py, path)
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking flag" not in str(error):
            raise
        return h5py.File(path, "r")


def _group_of(file: Any, name: str) -> Any:
    """The group in which a dataset is named, which may be a link."""
    return file.get(name.rsplit("/", 1)[0] or "/")


def _chosen(
    h5py: Any, file: Any, path: str, options: Options, guessed: list[str]
) -> tuple[str, Any, list[tuple[str, Any]]]:
    """The dataset that is meant, by name, and all that could be."""
    found = datasets(h5py, file)
    signals = nexus.signals(h5py, file) if nexus.is_nexus(file) else []
    held = [(n, d) for n, d in _fields(found) if d.ndim]
    held += [(n, d) for n, d in signals if n not in [n for n, _ in held] and d not in [d for _, d in held]]
    if options.variable is not None:
        name = "/" + options.variable.strip("/")
        known = dict(found)
        chosen = file.get(name) if name != "/" else None
        if name[1:].isdecimal() and chosen is None and int(name[1:]) < len(held):
            return *held[int(name[1:])], held
        # Of a group of NeXus its signal is meant.
        of_group = [(n, d) for n, d in signals if n.startswith(name + "/")]
        if isinstance(chosen, h5py.Group) and of_group:
            return *of_group[0], held
        if not isinstance(chosen, h5py.Dataset):
            inside = [n for n in known if n.startswith(name.rstrip("/") + "/")] or list(known)
            raise UnknownName(f"{path}: no dataset named '{options.variable}'; there are: {few(inside) or 'none'}")
        return name, chosen, held
    shown = [(n, d) for n, d in signals if d.ndim >= 2]
    if shown:
        if len(signals) > 1:
            guessed.append(
                f"of its {len(signals)} signals ({few([n for n, _ in signals])}) {shown[0][0]} is shown; {path}::NAME shows another"
            )
        return *shown[0], held
    fields = _fields(found)
    images = _images(fields) or _images(found)
    if not images:
        there = few([f"{n} ({text_of(d.shape) or 'one number'})" for n, d in found])
        linked = _linked(h5py, file)
        if linked:
            raise UsageError(
                f"{path}: its datasets of two or more dimensions are links ({few(linked)}); name one: {path}::{linked[0]}"
            )
        raise DataError(
            f"{path}: it holds no dataset of two or more dimensions of numbers; there are: {there or 'none'}"
        )
    # Complex numbers are what images are made of more often than what is to be seen.
    real = [(n, d) for n, d in images if d.dtype.kind != "c"] or images
    name, best = max(real, key=lambda pair: math.prod(pair[1].shape) * pair[1].dtype.itemsize)
    if len(images) > 1:
        which = "the largest" if len(real) == len(images) else "the largest of real numbers"
        guessed.append(
            f"of its {len(images)} datasets ({few([n for n, _ in images])}) {which}, {name}, is shown; "
            f"{path}::NAME shows another"
        )
    return name, best, held


def _fields(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Datasets that are no coordinates, and belong to no others."""
    named = cf.not_fields((n, attributes(d)) for n, d in found)
    return [(n, d) for n, d in found if n.rsplit("/", 1)[-1] not in named and not _is_bound(d)]


def _images(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(n, d) for n, d in found if d.ndim >= 3] or [(n, d) for n, d in found if d.ndim == 2]


def laid(path: str, options: Options) -> cf.Laid:
    """How the dataset lies that `read` takes.

    Raises:
        DataError: if the file is damaged.
        UnknownName: if there is no such dataset.
        UsageError: if h5py is not installed.
    """
    h5py = need("h5py", f"{path}: HDF5 and NetCDF-4 files")
    with _opened(h5py, path) as file:
        if hdf5_kinds.is_known(file):
            raise DataError(f"{path}: it is a container of a kind with a name, and no array of coordinates")
        name, dataset, held = _chosen(h5py, file, path, options, [])
        letters, by_axis, unplaced, _ = _axes_of(h5py, dataset, _group_of(file, name), path)
        names = _dimension_names(dataset)
        folder = dataset.name.rsplit("/", 1)[0]
        others = [
            n
            for n, d in _fields(datasets(h5py, file))
            if n != dataset.name and n.rsplit("/", 1)[0] == folder and d.shape == dataset.shape
            if any(names) and _dimension_names(d) == names
        ]
        rest = tuple(n.lstrip("/") for n, _ in held[:_MOST_OTHERS] if n not in (name, *others))
        return cf.Laid(name, letters, tuple(dataset.shape), by_axis, tuple(others), unplaced, rest)


def _linked(h5py: Any, file: Any) -> list[str]:
    """Datasets that links lead to, maybe in other files; those that lead nowhere are left out."""
    names: list[str] = []
    file.visititems_links(
        lambda name, link: names.append("/" + name) if isinstance(link, h5py.SoftLink | h5py.ExternalLink) else None
    )
    found = []
    for name in names[:_MOST_LINKS]:
        try:
            thing = file.get(name)
        except (OSError, RuntimeError, ValueError):  # a file that is not here, or is damaged
            continue
        if (
            isinstance(thing, h5py.Dataset)
            and thing.shape is not None
            and thing.ndim >= 2
            and thing.dtype.kind in "iufbc"
        ):
            found.append(name)
    return found


def _is_bound(dataset: Any) -> bool:
    """Whether a dataset is a coordinate."""
    name = dataset.name.rsplit("/", 1)[-1]
    if dataset.is_scale and (dataset.ndim <= 1 or _is_length(dataset)):
        return True
    return cf.is_bound(name, attributes(dataset), _dimension_names(dataset))


def _is_length(scale: Any) -> bool:
    """Whether a scale stands for the length of a dimension of NetCDF-4, and holds nothing."""
    return str(attributes(scale).get("NAME")).startswith("This is a netCDF dimension but not a netCDF variable")


def _scales(dataset: Any) -> list[Any]:
    """The scale of each dimension, or None."""
    found = []
    for dimension in dataset.dims:
        try:
            found.append(dimension[0] if len(dimension) else None)
        except (RuntimeError, KeyError, ValueError):  # a reference that leads nowhere
            found.append(None)
    return found


def _dimension_names(dataset: Any) -> list[str | None]:
    found: list[str | None] = []
    for dimension, scale in zip(dataset.dims, _scales(dataset), strict=True):
        name = dimension.label or (scale.name.rsplit("/", 1)[-1] if scale is not None and scale.name else None)
        found.append(name or None)
    if dataset.ndim == 1 and dataset.is_scale:
        return [dataset.name.rsplit("/", 1)[-1]]
    return found


def _volume(
    h5py: Any, path: str, at: str, dataset: Any, group: Any, resources: ReaderResources, guessed: list[str]
) -> Volume:
    """The volume that a dataset is; `at` is the file that holds it."""
    where = f"{at}::{dataset.name}"
    if dataset.shape is None or not dataset.shape:
        raise DataError(f"{where}: this dataset holds one number or none, and no volume")
    real = number_parts.REAL.get(dataset.dtype.name)
    dtype, big = dtype_of(real or dataset.dtype, where)
    about = {**attributes(dataset), **nexus.scaled(h5py, dataset, group)}
    letters, by_axis, unplaced, said = _axes_of(h5py, dataset, group, where)
    array = Array(dataset.name.rsplit("/", 1)[-1], dtype, tuple(int(n) for n in dataset.shape), letters, {})
    array.big_endian = big
    array.channels = list(range(array.length("c")))
    tables: list[bytes] = []
    reads = list(dict.fromkeys([path, at]))
    place(h5py, at, dataset, array, tables, resources, reads, guessed)
    located = cf.locate(letters, array.shape, by_axis, unplaced)
    _element_sizes(about, letters, located)
    is_netcdf = "_NCProperties" in dataset.file.attrs or "_Netcdf4Dimid" in dataset.attrs
    never_filled = dataset.id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER
    default = cf.DEFAULT_FILLS.get(dtype) if is_netcdf and not never_filled else None
    missing, beyond = cf.missing_of(array, about, default)
    channel, more = cf.channel_of(array.name, about, missing)
    more += beyond
    count = array.length("c")
    kind = "scalar"
    channels = [channel]
    if letters.endswith("c") and count in (3, 4) and dtype in ("uint8", "uint16"):
        kind, channels = colour_channels(count)
    elif count > 1:
        kind = "channels"
        channels = [
            Channel(f"{channel.name} {n}", channel.units, scale=channel.scale, missing=channel.missing)
            for n in range(count)
        ]
    geometry = located.geometry
    return Volume(
        path=path,
        format="NetCDF-4" if is_netcdf else "NeXus" if nexus.is_nexus(group.file) else "HDF5",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=[*guessed, *said, *located.guessed, *more],
        length_unit=located.length_unit,
        axis_units=located.axis_units,
        direction=geometry.direction,
        times=located.times,
        time_units=located.time_units,
        places=located.places,
        tables=tables,
        reads=reads,
    )


def _axes_of(
    h5py: Any, dataset: Any, group: Any, where: str
) -> tuple[str, dict[str, cf.Coordinate], tuple[str, ...], list[str]]:
    """A letter a dimension, coordinates by letter, those that place nothing, and what was guessed."""
    names = _dimension_names(dataset)
    beside: dict[str, cf.Coordinate] = {}
    own = nexus.axes_of(h5py, dataset, group)
    if own is not None:
        about = {n: c.attributes for n, c in own.lines.items()}
        letters, said = naming.of_array(where, dataset.shape, own.names, about, colours=False)
        lines = {a: own.lines[n] for a, n in zip(letters, own.names, strict=True) if n is not None and n in own.lines}
        return letters, lines, own.beyond, said
    for name, scale, length in zip(names, _scales(dataset), dataset.shape, strict=True):
        if name is None or scale is None or _is_length(scale):
            continue
        if scale.shape == (length,) and length <= LONGEST:
            beside[name] = cf.Coordinate(name, attributes(scale), _values(scale))
    more = auxiliary_coordinates.Found({}, (), [])
    if any(names):
        more = auxiliary_coordinates.find(names, dataset.shape, attributes(dataset), beside, _others(h5py, dataset))
        # They are read while the file is open.
        beside |= {
            n: cf.Coordinate(c.name, c.attributes, partial(np.asarray, c.values())) for n, c in more.lines.items()
        }
    letters, said = naming.of_array(
        where,
        dataset.shape,
        names if any(names) else None,
        {n: c.attributes for n, c in beside.items()},
        colours=str(dataset.dtype) in ("uint8", "uint16"),
    )
    by_axis = {a: beside[n] for a, n in zip(letters, names, strict=True) if n is not None and n in beside}
    return letters, by_axis, more.beyond, [*more.said, *said]


def _others(h5py: Any, dataset: Any) -> Iterator[auxiliary_coordinates.Other]:
    """Datasets that may be coordinates of one: those of its group, and of the groups that this lies in."""
    group = dataset.parent
    while True:
        for name in itertools.islice(group, _MOST_OTHERS):
            other = group.get(name, getlink=True)
            other = group.get(name) if isinstance(other, h5py.HardLink) else None
            if not isinstance(other, h5py.Dataset) or other.shape is None or other == dataset:
                continue
            if 0 < other.ndim <= auxiliary_coordinates.COORDINATE_RANK and other.dtype.kind in "iuf":
                read = partial(other.__getitem__, ...)
                yield auxiliary_coordinates.Other(name, _dimension_names(other), other.shape, attributes(other), read)
        if group.name == "/":
            return
        group = group.parent


def _values(scale: Any) -> Any:
    """Reads a scale while the file is open; lines of text and records are no numbers."""
    values = np.asarray(scale[...]) if scale.dtype.kind in "iuf" else np.empty(0, dtype=object)
    return lambda: values


def _element_sizes(about: Mapping[str, Any], letters: str, located: cf.Located) -> None:
    """`element_size_um`, as tools of microscopy write it: z, y, x."""
    said = about.get("element_size_um")
    if said is None or located.length_unit != "voxel":
        return
    values = [float(v) for v in np.asarray(said, dtype=np.float64).reshape(-1)]
    if len(values) == 3 and all(math.isfinite(v) and v > 0 for v in values) and set("zyx") <= set(letters):
        located.geometry = Geometry(
            located.geometry.origin, (values[2], values[1], values[0]), located.geometry.direction
        )
        located.length_unit = "um"
