"""OME-Zarr 0.4 and 0.5: levels, what they measure, channels and their colours."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from farfield.errors import DataError, UsageError
from farfield.volume.axes import by_name
from farfield.volume.description import Array, Channel, Level, Volume, colour_channels
from farfield.volume.files import json_object
from farfield.volume.options import Means
from farfield.volume.units import factor, unit
from farfield.volume.zarr_decoded import settle
from farfield.volume.zarr_nodes import Group, Node, children, filled, kind_of, open_node

_VERSIONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.5.1", "0.5.2")
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
        named = [os.path.join(path, str(w), "0") for w in wells if w]
        raise UsageError(
            f"{path}: this is a plate of {len(wells)} wells, not one image; name an image of it: {_few(named)}"
        )
    if "well" in found:
        images = [i.get("path") for i in _list(_object(found["well"]).get("images")) if isinstance(i, Mapping)]
        named = [os.path.join(path, str(i)) for i in images if i is not None]
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
        return [os.path.join(path, s) for s in listed]
    return [child for child in children(path) if os.path.basename(child) != "OME"]


def image_of(node: Node) -> tuple[Group, str] | None:
    """The image that an array is a level of, and the level's name in it; None of other arrays."""
    at = os.path.normpath(node.path)
    folder = os.path.dirname(at) or os.path.dirname(os.path.abspath(at))
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
                if isinstance(name, str) and os.path.normpath(name) == os.path.relpath(at, folder):
                    return group, name
        folder = os.path.dirname(os.path.abspath(folder))
    return None


def read(group: Group, path: str, label: str, means: Means, level: str | None = None) -> Volume:
    """The image of a group, or one level of it alone; `path` is what the user named.

    Raises:
        DataError: if a level is missing or its metadata makes no sense.
        UsageError: if the group holds several images.
    """
    group, found = image_in(group)
    where = group.path
    scales = found["multiscales"]
    if not isinstance(scales, list) or not scales or not isinstance(scales[0], Mapping):
        raise DataError(f"{where}: its 'multiscales' hold no image; write it again with an OME-Zarr writer")
    image = scales[0]
    guessed = [f"of its {len(scales)} multiscales the first is shown"] if len(scales) > 1 else []
    version = str(found.get("version") or image.get("version") or ("0.5" if group.version == 3 else "0.4"))
    if version not in _VERSIONS:
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
    nodes = [_level(where, d["path"]) for d in datasets]
    if any(math.prod(a.shape) < math.prod(b.shape) for a, b in itertools.pairwise(nodes)):
        guessed.append("its levels are not listed from the finest to the coarsest: they are taken in that order")
        order = sorted(range(len(nodes)), key=lambda n: -math.prod(nodes[n].shape))
        nodes, datasets = [nodes[n] for n in order], [datasets[n] for n in order]
    letters, units = _axes(where, image.get("axes"), len(nodes[0].shape), guessed)
    lengths, length_unit = _lengths(letters, units, guessed)
    placed = []
    for dataset, node in zip(datasets, nodes, strict=True):
        if len(node.shape) != len(letters):
            raise DataError(
                f"{node.path}: it has {len(node.shape)} dimensions, and the image {len(letters)}: it is no level of it"
            )
        placed.append(_placed(where, letters, dataset, image))
    if not any(_list(d.get("coordinateTransformations")) for d in [*datasets, image]):
        guessed.append("nothing says how large a voxel is: levels are taken to cover the first one's extent")
        placed = [_by_size(letters, nodes[0].shape, node.shape) for node in nodes]
    _agree(where, letters, nodes, placed, guessed)
    levels = []
    for node, (scale, move) in zip(nodes, placed, strict=True):
        array = node.array
        array.axes = letters
        array.channels = list(range(array.length("c")))
        at = [letters.index(a) if a in letters else None for a in "xyz"]
        spacing = [1.0 if n is None else scale[n] * lengths[a] for n, a in zip(at, "xyz", strict=True)]
        origin = [0.0 if n is None else move[n] * lengths[a] for n, a in zip(at, "xyz", strict=True)]
        levels.append(Level([array], (origin[0], origin[1], origin[2]), (spacing[0], spacing[1], spacing[2])))
    first = levels[0].arrays[0]
    _check_levels(where, [level.arrays[0] for level in levels])
    guessed += filled(nodes)
    made = [file for node in nodes for file in settle(node, means)]
    times: list[float] = []
    if first.length("t") > 1:
        scale, move = placed[0]
        n = letters.index("t")
        times = [move[n] + scale[n] * step for step in range(first.length("t"))]
    kind, channels = _channels(found, first, label, guessed)
    return Volume(
        path=path,
        format=f"OME-Zarr {version}",
        levels=levels,
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=length_unit,
        times=times,
        time_units=units.get("t") or "1",
        reads=[where, *made],
        labels=labels_of(where),
        label_colors=_label_colors(found) if kind == "labels" else {},
    )


def _level(where: str, name: str) -> Node:
    folder = os.path.normpath(os.path.join(where, name))
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
    for axis in _list(listed):
        said = axis if isinstance(axis, Mapping) else {"name": axis}
        name, kind = str(said.get("name", "")), said.get("type")
        letter = {"time": "t", "channel": "c"}.get(str(kind)) or by_name(name)
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


def _lengths(letters: str, units: Mapping[str, str | None], guessed: list[str]) -> tuple[dict[str, float], str]:
    """What lengths along each axis are multiplied by to be in one unit, and the unit."""
    have = {a: u for a in "xyz" if a in letters and (u := units.get(a)) is not None}
    if not have:
        return dict.fromkeys("xyz", 1.0), "voxel"
    main = have.get("x") or next(iter(have.values()))
    found = {}
    for axis in "xyz":
        ratio = factor(have.get(axis, main), main)
        if ratio is None:
            guessed.append(f"{axis} is in {have[axis]} and x in {main}: their numbers are taken as of one unit")
        found[axis] = 1.0 if ratio is None else ratio
    return found, main


def _placed(
    where: str, letters: str, dataset: Mapping[str, Any], image: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """Scale and translation of a level: its own transformations, then those of the image."""
    rank = len(letters)
    scale, move = [1.0] * rank, [0.0] * rank
    for step in _list(dataset.get("coordinateTransformations")) + _list(image.get("coordinateTransformations")):
        kind = step.get("type") if isinstance(step, Mapping) else None
        if kind == "identity":
            continue
        if kind not in ("scale", "translation"):
            raise DataError(
                f"{where}: its transformation '{kind}' is neither scale nor translation; take it out of the metadata"
            )
        values = step.get(kind)
        if not isinstance(values, list) or len(values) != rank or not all(_is_number(v) for v in values):
            raise DataError(f"{where}: its {kind} {values!r} is not {rank} numbers, one an axis; correct the metadata")
        if kind == "scale":
            scale = [a * b for a, b in zip(scale, values, strict=True)]
            move = [a * b for a, b in zip(move, values, strict=True)]
        else:
            move = [a + b for a, b in zip(move, values, strict=True)]
    for letter, value in zip(letters, scale, strict=True):
        if letter in "zyx" and not value > 0:
            raise DataError(
                f"{where}: its scale along {letter} is {value:g}, and should be positive; correct the metadata"
            )
    return scale, move


def _by_size(letters: str, first: Sequence[int], own: Sequence[int]) -> tuple[list[float], list[float]]:
    """Scale and translation of a level that covers what the first one covers."""
    spatial = [a in "zyx" for a in letters]
    scale = [round(f / o) if s else 1.0 for f, o, s in zip(first, own, spatial, strict=True)]
    scale = [float(max(1, v)) for v in scale]
    return scale, [(v - 1) / 2 for v in scale]


def _agree(
    where: str, letters: str, nodes: Sequence[Node], placed: list[tuple[list[float], list[float]]], guessed: list[str]
) -> None:
    """Holds what levels say of their voxels against the first one. Those that have its scale, though they have fewer voxels, are
    placed by their sizes: writers forget to say it.

    Raises:
        DataError: if a level is another part of space than the first.
    """
    (scale, move), first = placed[0], nodes[0]
    for n, node in enumerate(nodes[1:], 1):
        own = placed[n][0]
        off = [a for a, letter in enumerate(letters) if letter in "zyx" and _apart(first, scale, node, own, a)]
        if not off:
            continue
        if any(own[a] != scale[a] for a in off):
            a = off[0]
            raise DataError(
                f"{where}: by its coordinateTransformations the level '{os.path.relpath(node.path, where)}' is "
                f"{node.shape[a] * own[a]:g} long along {letters[a]}, and the first {first.shape[a] * scale[a]:g}: one of them is "
                f"wrong; correct them, or open a level alone ({first.path})"
            )
        ratio, shift = _by_size(letters, first.shape, node.shape)
        placed[n] = (
            [s * r for s, r in zip(scale, ratio, strict=True)],
            [m + s * by for m, s, by in zip(move, scale, shift, strict=True)],
        )
        guessed.append(
            f"its level '{os.path.relpath(node.path, where)}' says that its voxels are as large as the first one's, though they "
            "are fewer: it is taken to cover the first one's extent"
        )


def _apart(first: Node, scale: Sequence[float], node: Node, own: Sequence[float], axis: int) -> bool:
    """Whether two levels are not of the same length: by more than what rounding and padding make of it."""
    a, b = first.shape[axis] * scale[axis], node.shape[axis] * own[axis]
    return max(a, b) > 1.5 * min(a, b) and abs(a - b) > 2 * max(scale[axis], own[axis])


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
            if all(_is_number(v) for v in pair):
                limits = (float(pair[0]), float(pair[1]))
        name = str(said.get("label") or (label if count == 1 else f"channel {n}"))
        off = said.get("active") is False
        channels.append(Channel(name, color=_color(said.get("color")), limits=limits, hidden=off))
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
        if all(_is_number(v) and 0 <= v <= 255 for v in rgb):
            colors[str(number)] = "#" + "".join(f"{int(v):02x}" for v in rgb)
    return colors


def _color(said: Any) -> str | None:
    text = str(said or "").lstrip("#")
    text = _FULL.get(text.lower(), text)
    if len(text) in (6, 8) and all(c in "0123456789abcdefABCDEF" for c in text):
        return "#" + text[:6].lower()
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _few(names: Sequence[str]) -> str:
    shown = 6
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def labels_of(path: str) -> list[str]:
    """Folders of the label images of an image."""
    folder = os.path.join(path, "labels")
    for name in ("zarr.json", ".zattrs"):
        document = os.path.join(folder, name)
        if os.path.isfile(document):
            found = json_object(document)
            found = found.get("attributes", found)
            inner = found.get("ome", found)
            listed = inner.get("labels") if isinstance(inner, Mapping) else None
            return [os.path.join(folder, str(name)) for name in _list(listed)]
    return []
