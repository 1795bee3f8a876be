"""Zarr stores, v2 and v3, of anyone: OME-Zarr, xarray's, and plain arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from farfield.errors import DataError, FarfieldError, UnknownName, UsageError
from farfield.sources import places
from farfield.volume.formats import contents
from farfield.volume.formats.cf import auxiliary_coordinates
from farfield.volume.formats.cf import axes as naming
from farfield.volume.formats.cf import conventions as cf
from farfield.volume.formats.cf.coordinates import LONGEST, line_of, numbers_of
from farfield.volume.formats.contents import Content
from farfield.volume.formats.description import Channel, Level, Volume, colour_channels, text_of
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.zarr import ome
from farfield.volume.formats.zarr import zip_files as zarr_zip
from farfield.volume.formats.zarr.decoded import placing, settle, tables_of
from farfield.volume.formats.zarr.nodes import (
    Group,
    Node,
    arrays_below,
    can_list,
    children,
    decoded_fill,
    filled,
    kind_of,
    lost_arrays,
    open_node,
)
from farfield.volume.missing_values import Missing


def is_zarr(path: str) -> bool:
    """Whether a folder is a node of a store."""
    return places.isdir(path) and kind_of(path) is not None


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a store, or in a group or an array of one; `options.variable` names an array of a group.

    Raises:
        DataError: if the store is damaged, or lies in a way that is not read here.
        UnknownName: if there is no such array.
    """
    if places.isfile(path):
        return _read_zipped(path, options, resources)
    node = open_node(path)
    if node is None:
        raise DataError(
            f"{path}: this folder is no Zarr array or group; name the folder that holds zarr.json, .zarray or .zgroup"
        )
    if options.variable is not None and isinstance(node, Node) and options.variable.strip("/"):
        raise UnknownName(
            f"{path}: this is an array, and holds none named '{options.variable}'; leave ::{options.variable} away"
        )
    if options.variable is not None and isinstance(node, Group):
        return _read_named(node, path, options.variable, resources)
    return read_node(node, path, resources)


def _read_zipped(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a store in a zip file."""
    mounted = zarr_zip.mount(path, resources.cache_dir)
    try:
        with placing(mounted):
            volume = read(mounted.folder, options, resources)
    except FarfieldError as error:
        raise type(error)(zarr_zip.beneath(mounted, path, str(error))) from error
    volume.path = path
    volume.guessed = [zarr_zip.beneath(mounted, path, sentence) for sentence in volume.guessed]
    # What was copied is the zip file's.
    volume.reads = [path, *(name for name in volume.reads if not name.startswith(mounted.folder))]
    volume.format += " in a zip file"
    volume.labels = [f"{path}::{places.relpath(label, mounted.folder)}" for label in volume.labels]
    return volume


def _read_named(group: Group, path: str, asked: str, resources: ReaderResources) -> Volume:
    """What of a group is asked for: one of its images that are in one place, a node by its path, else one by its name or number.

    Raises:
        UnknownName: if there is none; the message lists what there is.
    """
    label = os.path.basename(places.normpath(group.path))
    if asked in ome.names_in(group):
        return ome.read(group, path, label, resources, wanted=asked)
    found = open_node(os.path.join(path, asked.strip("/")))
    if found is not None:
        return read_node(found, path, resources)
    if ome.names_in(group):
        return ome.read(group, path, label, resources, wanted=asked)
    images = _images_in(group)
    folders = images or [node.path for node in _fields(group)[0]] or arrays_below(group.path)
    about = [_content(group, folder) for folder in folders]
    inner = open_node(folders[contents.chosen(path, "image" if images else "array", about, asked)])
    if inner is None:  # it was listed a moment ago
        raise DataError(f"{path}: '{asked}' is not there any more; name it again")
    volume = read_node(inner, path, resources)
    volume.contents, volume.shown = about, folders.index(inner.path)
    return volume


def _content(group: Group, folder: str) -> Content:
    """What `info` lists of a node of a group."""
    name = places.relpath(folder, group.path)
    try:
        node = open_node(folder)
    except DataError:  # it says why when it is opened
        return Content(name)
    if isinstance(node, Node):
        return Content(name, f"{text_of(node.shape)} {node.array.dtype}")
    return Content(name, "image")


def read_node(node: Group | Node, path: str, resources: ReaderResources) -> Volume:
    """The volume that a node is."""
    label = os.path.basename(places.normpath(node.path))
    if isinstance(node, Node):
        image = ome.image_of(node)
        if image is not None:
            group, level = image
            try:
                return ome.read(group, path, os.path.basename(places.normpath(group.path)), resources, level)
            except DataError as error:  # the array may be fine by itself
                return _read_array(node, path, [f"what its image says of it is of no use ({error})"], resources)
        return _read_array(node, path, [], resources)
    if ome.attributes_of(node) is not None:
        return ome.read(node, path, label, resources)
    return _read_group(node, path, resources)


def _read_group(group: Group, path: str, resources: ReaderResources) -> Volume:
    images = _images_in(group)
    if images:
        if len(images) > 1:
            raise _several(path, images)
        inner = open_node(images[0])
        if isinstance(inner, Group):
            return ome.read(inner, path, os.path.basename(images[0]), resources)
    return _read_arrays(group, path, resources)


def _several(path: str, images: list[str]) -> UsageError:
    more = ", ..." if len(images) > 20 else ""
    return UsageError(
        f"{path}: this group holds {len(images)} images; name one of them: {', '.join(images[:20])}{more}"
    )


def _images_in(group: Group) -> list[str]:
    """Images of OME-Zarr in a group that is none itself, such as that of an image's labels: their arrays alone do not say where
    they lie.
    """
    found = []
    for folder in children(group.path):
        try:
            node = open_node(folder)
        except DataError:  # an array that is not read: another one may be meant
            continue
        about = ome.attributes_of(node) if isinstance(node, Group) else None
        if about is not None and "multiscales" in about:
            found.append(folder)
    return found


def _fields(group: Group) -> tuple[list[Node], DataError | None]:
    """Arrays of a group that are no coordinates, and why one of them is not read."""
    fields: list[Node] = []
    refused: DataError | None = None
    for folder in arrays_below(group.path):
        try:
            node = open_node(folder)
        except DataError as error:  # one that is text, say: others may do
            refused = refused or error
            continue
        if isinstance(node, Node) and not cf.is_bound(
            node.name, node.attributes, node.names or [None] * len(node.shape)
        ):
            fields.append(node)
    named = cf.not_fields((node.name, node.attributes) for node in fields)
    fields = [node for node in fields if node.name not in named] or fields
    return fields, refused


def _read_arrays(group: Group, path: str, resources: ReaderResources) -> Volume:
    fields, refused = _fields(group)
    images = [n for n in fields if len(n.shape) >= 3] or [n for n in fields if len(n.shape) == 2]
    lost = lost_arrays(group)
    few = f"{', '.join(lost[:8])}{', ...' if len(lost) > 8 else ''}"
    if not images:
        if refused is not None:
            raise refused
        if lost:
            raise DataError(f"{path}: its metadata name arrays that are not there: {few}; copy it again, whole")
        raise DataError(
            f"{path}: this group holds no array of two or more dimensions; name the folder of the array that is meant"
        )
    best = max(images, key=lambda n: n.array.bytes)
    # Images of OME-Zarr may lie deeper, such as those of a row of a plate.
    if (image := ome.image_of(best)) is not None:
        deeper = {found[0].path: found[0] for n in images if (found := ome.image_of(n)) is not None}
        if len(deeper) > 1:
            raise _several(path, list(deeper))
        return ome.read(image[0], path, os.path.basename(image[0].path), resources)
    guessed = [f"its metadata name arrays that are not there: {few}"] if lost else []
    if len(images) > 1:
        names = [places.relpath(n.path, group.path) for n in images]
        guessed.append(
            f"of its {len(images)} arrays ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}) the largest, "
            f"{places.relpath(best.path, group.path)}, is shown; {path}::NAME shows another"
        )
    volume = _read_array(best, path, guessed, resources)
    volume.contents, volume.shown = [_content(group, n.path) for n in fields], fields.index(best)
    return volume


def _read_array(node: Node, path: str, guessed: list[str], resources: ReaderResources) -> Volume:
    array = node.array
    if not node.shape:
        raise DataError(f"{node.path}: this array holds one number, and no volume")
    letters, by_axis, unplaced, said = _axes_of(node, resources.memory_limit)
    array.axes = letters
    array.channels = list(range(array.length("c")))
    located = cf.locate(letters, node.shape, by_axis, unplaced)
    missing, beyond = _missing(node)  # before its fill value goes into what is converted
    said += filled([node])
    made = settle(node, resources)
    said += node.said
    # What is converted keeps its bits.
    cf.signed_as_said(array, node.attributes, None)
    channel, more = cf.channel_of(node.name, node.attributes, missing)
    more += beyond
    kind, channels = _kind(array.axes, array.dtype, array.length("c"), channel)
    geometry = located.geometry
    return Volume(
        path=path,
        tables=tables_of([node]),
        format=f"Zarr v{node.version}",
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
        reads=[node.path, *made],
    )


def _axes_of(
    node: Node, memory_limit: int | None = None
) -> tuple[str, dict[str, cf.Coordinate], tuple[str, ...], list[str]]:
    """A letter a dimension, coordinates by letter, those that place nothing, and what was guessed."""
    beside = _coordinates(node, memory_limit)
    more = auxiliary_coordinates.Found({}, (), [])
    if node.names is not None and any(node.names):
        more = auxiliary_coordinates.find(node.names, node.shape, node.attributes, beside, _others(node, memory_limit))
        beside |= more.lines
    about = {name: c.attributes for name, c in beside.items()}
    letters, said = naming.of_array(
        node.path, node.shape, node.names, about, colours=node.array.dtype in ("uint8", "uint16")
    )
    names = node.names or [None] * len(letters)
    by_axis = {a: beside[n] for a, n in zip(letters, names, strict=True) if n is not None and n in beside}
    return letters, by_axis, more.beyond, [*more.said, *said]


def _others(node: Node, memory_limit: int | None) -> Iterator[auxiliary_coordinates.Other]:
    """Arrays that may be coordinates of one: those beside it in its group."""
    own = places.abspath(node.path)
    group = places.dirname(own)
    for folder in children(group) if kind_of(group) is not None and can_list(group) else ():
        other = _opened(folder) if folder != own else None
        if other is None or other.names is None or other.undecoded is not None or other.table is not None:
            continue
        if 0 < len(other.shape) <= auxiliary_coordinates.COORDINATE_RANK:
            read = partial(numbers_of, other.path, other.array, memory_limit=memory_limit)
            yield auxiliary_coordinates.Other(other.name, other.names, other.shape, other.attributes, read)


def laid(path: str, options: Options) -> cf.Laid | None:
    """How the array lies that `read` takes; None where it is an image of OME-Zarr.

    Raises:
        DataError: if the store is damaged.
    """
    node = open_node(path if options.variable is None else os.path.join(path, options.variable.strip("/")))
    beside: list[Node] = []
    rest: list[Node] = []
    folder = path
    if isinstance(node, Group):
        if ome.attributes_of(node) is not None or _images_in(node):
            return None
        folder = node.path
        inside = [inner for inner in map(_opened, arrays_below(folder)) if inner is not None]
        named = cf.not_fields((inner.name, inner.attributes) for inner in inside)
        fields = [
            inner
            for inner in inside
            if inner.name not in named
            and not cf.is_bound(inner.name, inner.attributes, inner.names or [None] * len(inner.shape))
        ]
        images = [n for n in fields if len(n.shape) >= 3] or [n for n in fields if len(n.shape) == 2]
        if not images:
            return None
        node = max(images, key=lambda n: n.array.bytes)
        beside = [n for n in fields if n is not node and n.names == node.names and n.shape == node.shape]
        rest = [n for n in fields if n is not node and n not in beside]
    if not isinstance(node, Node) or not node.names or ome.image_of(node) is not None:
        return None
    letters, by_axis, unplaced, _ = _axes_of(node)
    others = tuple(places.relpath(n.path, folder) for n in beside)
    return cf.Laid(
        places.relpath(node.path, folder) if node.path != path else node.name,
        letters,
        node.shape,
        by_axis,
        others,
        unplaced,
        tuple(places.relpath(n.path, folder) for n in rest),
    )


def _opened(folder: str) -> Node | None:
    """An array; None of one that is not read."""
    try:
        node = open_node(folder)
    except DataError:
        return None
    return node if isinstance(node, Node) else None


def _kind(letters: str, dtype: str, components: int, channel: Channel) -> tuple[str, list[Channel]]:
    if "c" in letters and components in (3, 4) and letters.endswith("c") and dtype in ("uint8", "uint16"):
        return colour_channels(components)
    if components == 1:
        return "scalar", [channel]
    return "channels", [
        Channel(f"{channel.name} {n}", channel.units, scale=channel.scale, missing=channel.missing)
        for n in range(components)
    ]


def _missing(node: Node) -> tuple[Missing, list[str]]:
    """What stands for a missing value: by CF's attributes, of which xarray keeps one in v2 stores as Zarr's own fill value."""
    about = dict(node.attributes)
    for key in ("_FillValue", "missing_value"):
        said = about.pop(key, None)
        parts = said if isinstance(said, list) else [said]
        found = [v for part in parts if (v := decoded_fill(part, node.array.dtype)) is not None]
        if found:
            about[key] = found
    default = node.array.fill if node.version == 2 and "_ARRAY_DIMENSIONS" in about else None
    return cf.missing_of(replace(node.array), about, default)


def _coordinates(node: Node, memory_limit: int | None) -> dict[str, cf.Coordinate]:
    """Coordinates of an array's dimensions: arrays beside it that are named like them."""
    folder = places.dirname(places.normpath(node.path))
    found: dict[str, cf.Coordinate] = {}
    for name, length in zip(node.names or [], node.shape, strict=False):
        if not name or "/" in name or name == node.name or kind_of(places.join(folder, name)) is None:
            continue
        try:
            line = open_node(os.path.join(folder, name))
        except DataError:  # text, or dates as no number: its name still says which axis it is
            continue
        if isinstance(line, Node) and line.undecoded is None and line.shape == (length,) and length <= LONGEST:
            found[name] = _coordinate(line, memory_limit)
    return found


def _coordinate(line: Node, memory_limit: int | None) -> cf.Coordinate:
    return cf.Coordinate(line.name, line.attributes, partial(line_of, line.path, line.array, memory_limit=memory_limit))
