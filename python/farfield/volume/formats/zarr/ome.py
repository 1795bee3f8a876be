"""OME-Zarr 0.4, 0.5 and 0.6: levels, what they measure, channels and their colours."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from farfield.errors import DataError, UsageError
from farfield.sources import places
from farfield.volume.formats import contents
from farfield.volume.formats.cf.axes import by_name
from farfield.volume.formats.contents import Content
from farfield.volume.formats.decimals import tidied
from farfield.volume.formats.description import INVERTED, Array, Channel, Level, Volume, colour_channels
from farfield.volume.formats.files import json_object
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.units import in_common, unit
from farfield.volume.formats.zarr.decoded import settle, tables_of
from farfield.volume.formats.zarr.nodes import Group, Node, children, filled, kind_of, open_node, prefetch
from farfield.volume.formats.zarr.ome_transforms import agree, anatomy_of, by_size, is_number, placed

_VERSIONS = re.compile(r"0\.[1-6](\.?(dev)?\d+)*")
_FULL = {"red": "FF0000", "green": "00FF00", "blue": "0000FF"}


def attributes_of(group: Group) -> Mapping[str, Any] | None:
    """What OME-Zarr says in a group's attributes, of either version; None where it says nothing.

    >>> attributes_of(Group("a", 2, {"units": "m"})) is None
    True
    """
    inner = group.attributes.get("ome")
    found = inner if isinstance(inner, Mapping) else group.attributes
    keys = ("multiscales", "plate", "well", "bioformats2raw.layout", "image-label", "omero", "series")
    return found if any(key in found for key in keys) else None


def image_in(group: Group) -> tuple[Group, Mapping[str, Any]]:
    """The image that a group is, or the only one in it.

    Raises:
        UsageError: if it holds several; the message lists them.
    """
    found = attributes_of(group) or {}
    if "multiscales" in found:
        return group, found
    path = group.path
    if "plate" in found:
        wells = [w.get("path") for w in _list(_object(found["plate"]).get("wells")) if isinstance(w, Mapping)]
        named = [places.join(path, f"{w}/0") for w in wells if w]
        raise UsageError(
            f"{path}: this is a plate of {len(wells)} wells, not one image; name an image of it: {_few(named)}"
        )
    if "well" in found:
        images = [i.get("path") for i in _list(_object(found["well"]).get("images")) if isinstance(i, Mapping)]
        named = [places.join(path, str(i)) for i in images if i is not None]
        raise UsageError(
            f"{path}: this is a well of {len(images)} images, not one image; name one of them: {_few(named)}"
        )
    named = _series(path)
    groups = [node for child in named if isinstance(node := _group(child), Group)]
    inside = [g for g in groups if "multiscales" in (attributes_of(g) or {})]
    if len(inside) == 1:
        return image_in(inside[0])
    if inside:
        raise UsageError(f"{path}: this holds {len(inside)} images; name one of them: {_few([g.path for g in inside])}")
    if "image-label" in found:
        raise DataError(f"{path}: this is a label image without 'multiscales'; write it again with an OME-Zarr writer")
    raise DataError(
        f"{path}: this is OME-Zarr and holds no image; name the group that has 'multiscales' in its metadata"
    )


def _group(path: str) -> Group | Node | None:
    return open_node(path) if kind_of(path) is not None else None


def _series(path: str) -> list[str]:
    """The images of a bioformats2raw folder: as its OME group lists them, else all that there are."""
    inner = _group(os.path.join(path, "OME"))
    listed = (attributes_of(inner) or {}).get("series") if isinstance(inner, Group) else None
    if isinstance(listed, list) and all(isinstance(s, str) for s in listed):
        return [places.join(path, s) for s in listed]
    return [child for child in children(path) if os.path.basename(child) != "OME"]


def image_of(node: Node) -> tuple[Group, str] | None:
    """The image that an array is a level of, and the level's name in it; None of other arrays."""
    at = places.normpath(node.path)
    folder = places.dirname(at) or os.path.dirname(places.abspath(at))
    for _ in range(2):  # levels may lie in a group of their own
        try:
            group = _group(folder)
        except DataError:  # of the array alone everything is known
            return None
        about = attributes_of(group) if isinstance(group, Group) else None
        scales = (about or {}).get("multiscales")
        first = scales[0] if isinstance(scales, list) and scales else None
        if isinstance(group, Group) and isinstance(first, Mapping):
            for dataset in _list(first.get("datasets")):
                name = dataset.get("path") if isinstance(dataset, Mapping) else None
                if isinstance(name, str) and places.normpath(name) == places.relpath(at, folder):
                    return group, name
        folder = places.dirname(places.abspath(folder))
    return None


def read(
    group: Group, path: str, label: str, resources: ReaderResources, level: str | None = None, wanted: str | None = None
) -> Volume:
    """The image of a group, or one level of it alone; `path` is what the user named, `wanted` which of its images is meant.

    Raises:
        DataError: if a level is missing or its metadata makes no sense.
        UnknownName: if there is no image of the name that is wanted.
        UsageError: if the group holds several images.
    """
    group, found = image_in(group)
    where = group.path
    scales = found["multiscales"]
    if not isinstance(scales, list) or not scales or not all(isinstance(scale, Mapping) for scale in scales):
        raise DataError(f"{where}: its 'multiscales' hold no image; write it again with an OME-Zarr writer")
    guessed: list[str] = []
    held = [_content(scale) for scale in scales]
    number = 0 if wanted is None else contents.chosen(path, "image", held, wanted)
    image = scales[number]
    if len(scales) > 1 and wanted is None:
        guessed.append(f"of its {len(scales)} multiscales the first is shown; {path}::NAME shows another")
    version = str(found.get("version") or image.get("version") or ("0.5" if group.version == 3 else "0.4"))
    if _VERSIONS.fullmatch(version) is None:
        guessed.append(
            f"it is of version {version} of OME-Zarr, which is not known here: it is read like the one before"
        )
    datasets = []
    for n, dataset in enumerate(_list(image.get("datasets"))):
        if not isinstance(dataset, Mapping) or not isinstance(dataset.get("path"), str):
            raise DataError(
                f"{where}: datasets[{n}].path of its 'multiscales' is no name of an array; the metadata is damaged: copy it "
                "again, or write it again with an OME-Zarr writer"
            )
        datasets.append(dataset)
    if level is not None:
        datasets = [d for d in datasets if d["path"] == level][:1]
        guessed.append(f"it is the level '{level}' of an image, which {where} shows with all of its levels")
    if not datasets:
        raise DataError(f"{where}: its 'multiscales' name no datasets; write it again with an OME-Zarr writer")
    with places.asking(label_documents(where)):
        prefetch([places.normpath(places.join(where, d["path"])) for d in datasets])
    nodes = [_level(where, d["path"]) for d in datasets]
    if any(math.prod(a.shape) < math.prod(b.shape) for a, b in itertools.pairwise(nodes)):
        guessed.append("its levels are not listed from the finest to the coarsest: they are taken in that order")
        order = sorted(range(len(nodes)), key=lambda n: -math.prod(nodes[n].shape))
        nodes, datasets = [nodes[n] for n in order], [datasets[n] for n in order]
    axes = _system_of(where, image, datasets[0], guessed)
    letters, units = _axes(where, axes, len(nodes[0].shape), guessed)
    lengths, length_unit, axis_units = _lengths(letters, units, guessed)
    names = [str(axis.get("name", "")) if isinstance(axis, Mapping) else str(axis) for axis in _list(axes) or letters]
    found_at = []
    for dataset, node in zip(datasets, nodes, strict=True):
        if len(node.shape) != len(letters):
            raise DataError(
                f"{node.path}: it has {len(node.shape)} dimensions, and the image {len(letters)}: it is no level of it"
            )
        found_at.append(placed(where, letters, dataset, image, names))
    if not any(_list(d.get("coordinateTransformations")) for d in [*datasets, image]):
        guessed.append("nothing says how large a voxel is: levels are taken to cover the first one's extent")
        found_at = [found_at[0].coarser(*by_size(letters, nodes[0].shape, node.shape)) for node in nodes]
    agree(where, letters, nodes, found_at, guessed)
    levels = []
    directions = []
    for node, at in zip(nodes, found_at, strict=True):
        array = node.array
        array.axes = letters
        array.channels = list(range(array.length("c")))
        origin, spacing, direction = at.in_space(letters, lengths)
        levels.append(Level([array], origin, spacing))
        directions.append(direction)
    first = levels[0].arrays[0]
    _check_levels(where, [level.arrays[0] for level in levels])
    guessed += filled(nodes)
    made = [file for node in nodes for file in settle(node, resources)]
    guessed += nodes[0].said
    times: list[float] = []
    if first.length("t") > 1:
        n = letters.index("t")
        begin, step = float(found_at[0].move[n]), float(found_at[0].steps[n, n])
        times = [tidied(begin + step * count) for count in range(first.length("t"))]
    kind, channels = _channels(found, first, label, guessed)
    volume = Volume(
        path=path,
        tables=tables_of(nodes),
        format=f"OME-Zarr {version}",
        levels=levels,
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=length_unit,
        axis_units=axis_units,
        anatomy=anatomy_of([a if isinstance(a, Mapping) else {} for a in _list(axes) or letters], letters, guessed),
        direction=directions[0],
        times=times,
        time_units=units.get("t") or "1",
        reads=[where, *made],
        labels=labels_of(where),
        label_colors=_label_colors(found) if kind == "labels" else {},
        contents=held,
        shown=number,
    )
    turned = [c.name for c in channels if c.inverted]
    if turned:
        volume.note(INVERTED.format("omero" if len(channels) == 1 else f"omero, of {_few(turned)}"))
    return volume


def _content(scale: Mapping[str, Any]) -> Content:
    """What `info` lists of an image of a group that has several."""
    levels = [str(d.get("path")) for d in _list(scale.get("datasets")) if isinstance(d, Mapping)]
    return Content(str(scale.get("name") or ""), f"levels {_few(levels)}")


def names_in(group: Group) -> list[str]:
    """The names of the images of a group that has several in one place; empty for others."""
    scales = _list((attributes_of(group) or {}).get("multiscales"))
    return [_content(s).name for s in scales if isinstance(s, Mapping)] if len(scales) > 1 else []


def _system_of(where: str, image: Mapping[str, Any], dataset: Mapping[str, Any], guessed: list[str]) -> Any:
    """The axes of an image: in 0.6 those of the system that its levels lead to, of which there may be several."""
    systems = [s for s in _list(image.get("coordinateSystems")) if isinstance(s, Mapping)]
    if not systems:
        return image.get("axes")
    steps = [s for s in _list(dataset.get("coordinateTransformations")) if isinstance(s, Mapping)]
    said = steps[-1].get("output") if steps else None
    name = said.get("name") if isinstance(said, Mapping) else said
    found = next((s for s in systems if s.get("name") == name), systems[0])
    others = [str(s.get("name")) for s in systems if s is not found]
    if others:
        guessed.append(f"positions are in its coordinate system '{found.get('name')}'; it also has {_few(others)}")
    axes = found.get("axes")
    if not isinstance(axes, list):
        raise DataError(f"{where}: its coordinate system '{found.get('name')}' has no axes; correct the metadata")
    return axes


def _level(where: str, name: str) -> Node:
    folder = places.normpath(places.join(where, name))
    node = _group(folder)
    if not isinstance(node, Node):
        raise DataError(f"{folder}: this level of {where} is not there; copy it again, whole, or write it again")
    return node


def _axes(where: str, listed: Any, rank: int, guessed: list[str]) -> tuple[str, dict[str, str | None]]:
    """A letter a dimension, and the unit of each that has one."""
    if listed is None:  # 0.1 and 0.2: always these five
        guessed.append("nothing names its dimensions: they are taken as t c z y x, from the last on")
        return "tczyx"[-rank:], {}
    letters, units = "", {}
    known = [_letter(axis) for axis in _list(listed)]
    for n, axis in enumerate(_list(listed)):
        said = axis if isinstance(axis, Mapping) else {"name": axis}
        name, kind = str(said.get("name", "")), said.get("type")
        letter = known[n]
        # Angles, lifetimes and the like are counted by what is free.
        if letter is None and len(known) == rank and (free := [a for a in "tc" if a not in known and a not in letters]):
            letter = free[0]
            guessed.append(f"its axis '{name}' ({kind or 'of no type'}) is taken as {letter}")
        if letter is None or letter in letters:
            raise DataError(
                f"{where}: its axis '{name}' is none of t, c, z, y and x, of which a volume is made; take it out first"
            )
        letters += letter
        units[letter] = unit(said.get("unit"))
    if len(letters) != rank:
        raise DataError(
            f"{where}: it names {len(letters)} axes, and its arrays have {rank} dimensions; the metadata is damaged"
        )
    return letters, units


def _letter(axis: Any) -> str | None:
    """The letter that an axis says it has; None where it is none of t, c, z, y and x."""
    said = axis if isinstance(axis, Mapping) else {"name": axis}
    return {"time": "t", "channel": "c"}.get(str(said.get("type"))) or by_name(str(said.get("name", "")))


def _lengths(
    letters: str, units: Mapping[str, str | None], guessed: list[str]
) -> tuple[dict[str, float], str, tuple[str, str, str] | None]:
    """What lengths along each axis are multiplied by to be in one unit, and the unit; else each axis keeps its own."""
    have = {a: u for a in "xyz" if a in letters and (u := units.get(a)) is not None}
    if not have:
        return dict.fromkeys("xyz", 1.0), "voxel", None
    main = have.get("x") or next(iter(have.values()))
    length_unit, ratios, axis_units = in_common([have.get(axis, main) for axis in "xyz"])
    for axis, own in zip("xyz", axis_units or (), strict=False):
        if own != main:
            guessed.append(f"{axis} is in {own} and x in {main}: their numbers are taken as of one unit")
    return dict(zip("xyz", ratios, strict=True)), length_unit, axis_units


def _check_levels(where: str, arrays: Sequence[Array]) -> None:
    for array in arrays[1:]:
        for axis in "tc":
            if array.length(axis) != arrays[0].length(axis):
                raise DataError(
                    f"{where}: its level '{array.name}' has {array.length(axis)} along {axis}, and the first "
                    f"{arrays[0].length(axis)}: it is no level of the same image"
                )
        if array.dtype != arrays[0].dtype:
            raise DataError(
                f"{where}: its level '{array.name}' holds {array.dtype}, and the first {arrays[0].dtype}; write it again"
            )


def _channels(found: Mapping[str, Any], array: Array, label: str, guessed: list[str]) -> tuple[str, list[Channel]]:
    count = array.length("c")
    if "image-label" in found and count == 1:
        return "labels", [Channel(label)]
    omero = found.get("omero")
    listed = _list(omero.get("channels")) if isinstance(omero, Mapping) else []
    # Channels that were measured one by one are each a plane of its own, or are described.
    if not listed and count in (3, 4) and array.axes.endswith("c") and array.dtype == "uint8":
        guessed.append(
            f"its {count} channels stand together at each voxel: they are taken as a colour; --kind channels says otherwise"
        )
        return colour_channels(count)
    channels = []
    for n in range(count):
        said = listed[n] if n < len(listed) and isinstance(listed[n], Mapping) else {}
        window = said.get("window")
        limits = None
        if isinstance(window, Mapping):
            pair = [window.get("start", window.get("min")), window.get("end", window.get("max"))]
            if all(is_number(v) for v in pair):
                limits = (float(pair[0]), float(pair[1]))
        name = str(said.get("label") or (label if count == 1 else f"channel {n}"))
        off = said.get("active") is False
        turned = said.get("inverted") is True
        channels.append(Channel(name, color=_color(said.get("color")), limits=limits, hidden=off, inverted=turned))
    # Where none is on, all are.
    if all(c.hidden for c in channels):
        channels = [replace(c, hidden=False) for c in channels]
    return ("scalar" if count == 1 else "channels"), channels


def _label_colors(found: Mapping[str, Any]) -> dict[str, str]:
    """Colours of labels, by number.

    >>> _label_colors({"image-label": {"colors": [{"label-value": 7, "rgba": [255, 128, 0, 255]}, {"label-value": 8}]}})
    {'7': '#ff8000'}
    """
    about = found.get("image-label")
    colors = {}
    for said in _list(about.get("colors")) if isinstance(about, Mapping) else []:
        if not isinstance(said, Mapping):
            continue
        number, rgb = said.get("label-value"), _list(said.get("rgba"))[:3]
        if not isinstance(number, int) or number < 1 or len(rgb) != 3:
            continue
        if all(is_number(v) and 0 <= v <= 255 for v in rgb):
            colors[str(number)] = "#" + "".join(f"{int(v):02x}" for v in rgb)
    return colors


def _color(said: Any) -> str | None:
    text = str(said or "").lstrip("#")
    text = _FULL.get(text.lower(), text)
    if len(text) in (6, 8) and all(c in "0123456789abcdefABCDEF" for c in text):
        return "#" + text[:6].lower()
    return None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _few(names: Sequence[str]) -> str:
    shown = 6
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def label_documents(path: str) -> list[str]:
    """Documents that may list the label images of an image."""
    return [os.path.join(path, "labels", name) for name in ("zarr.json", ".zattrs")]


def labels_of(path: str) -> list[str]:
    """Folders of the label images of an image."""
    folder = os.path.join(path, "labels")
    documents = label_documents(path)
    places.prefetch_stats(documents)
    for document in documents:
        if places.isfile(document):
            found = json_object(document)
            found = found.get("attributes", found)
            inner = found.get("ome", found)
            listed = inner.get("labels") if isinstance(inner, Mapping) else None
            return [places.join(folder, str(name)) for name in _list(listed)]
    return []
