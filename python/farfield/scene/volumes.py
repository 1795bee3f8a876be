"""Volumes in scenes: the default picture, and defaults for the open values of a scene."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import AccessError, DataError, UnknownName, UsageError
from farfield.pictures.colors import DIVERGING, SEQUENTIAL, find_color, how_to_color
from farfield.pictures.directions import FAR
from farfield.pictures.fill_values import SATURATED, cleared, fills, said, without
from farfield.pictures.sampled_values import LARGEST, PIECE, Values, around, mean_range, read_box, rising, sample
from farfield.pictures.signed_fields import reach_of_signed
from farfield.runtime import run_context
from farfield.scene.models import (
    Camera,
    ColorMap,
    Cores,
    Labels,
    Lines,
    Outline,
    Scene,
    Slice,
    Surface,
    Volume,
    Walls,
)
from farfield.volume.formats.description import as_stored
from farfield.volume.missing_values import ranges_of

if TYPE_CHECKING:
    from farfield.scene.models import Drawn
    from farfield.volume.dataset import VolumeDataset
    from farfield.volume.values import VolumeChannel

CMAP = "inferno"
"""Dark for low values, bright for high ones, so that dense parts stand out."""
VIEW = (-0.55, -0.75, 0.38)
"""Direction from the target to the eye, for a volume without a known upward axis."""
COLORS = ("rgb", "rgba")
"""Kinds of volumes that show stored colours."""
DISTANCES = [(0.04, 0.0), (0.14, 0.2), (0.4, 0.5), (1.0, 0.7)]
"""Nodes of the opacity of colours, over the distance from the background colour."""
ALPHAS = [(0.0, 0.0), (1.0, 0.9)]
"""Nodes of the opacity over alpha."""
_ANTERIOR = {"A": 1.0, "P": -1.0}


def fields_of(volume: VolumeDataset) -> dict[str, dict[str, Any]]:
    """The channels in the form of fields in `info`."""
    return {c.name: {"name": c.name, "components": 1, "units": c.units, "long_name": c.name} for c in volume.channels}


MOST_CHANNELS = 6
"""Largest number of channels in a default picture: more hide each other."""
_CHANNEL_COLORS = ("#30e050", "#e040e0", "#40a0ff", "#ff7030", "#ffe040", "#40f0e0")
"""Colours of channels without one."""


def first_scene(volume: VolumeDataset, source: str, step: int = 0, *, steps: Sequence[int] | None = None) -> Scene:
    """The default scene of a volume: its rays and its edges. Stored colours and labels keep their colours, and all
    channels are shown at once. `steps` as in `settled`."""
    drawn: list[Drawn] = [Outline()]
    how = _finely(volume)
    if volume._level:
        how["level"] = volume._level
    if volume._channel is not None:
        drawn.append(Volume(field=volume.channels[volume._channel].name, **how))
    elif volume.kind == "channels" and len(volume.channels) > 1:
        hidden = volume._description.hidden
        shown = [c for n, c in enumerate(volume.channels) if n not in hidden][:MOST_CHANNELS]
        drawn += [Volume(field=c.name, color=c.color or _CHANNEL_COLORS[n], **how) for n, c in enumerate(shown)]
    elif volume.kind in COLORS:
        drawn.append(Volume(**how))
    else:
        drawn.append(Volume(field=volume.channels[0].name, **how))
    direction, up = _standing(volume)
    scene = Scene(source=source, step=step, objects=drawn, camera=Camera(direction=direction, up=up))
    return settled(scene, volume, steps)


ACROSS = 256
"""Number of voxels across from which one sample per voxel shows no grain."""
MOST_FINELY = 16.0


def _finely(volume: VolumeDataset) -> dict[str, Any]:
    """Options for small and for thin volumes. Large voxels in the picture need more samples, or grain and jagged edges
    show. Thin volumes need a smaller `unit` to be visible."""
    level = volume.info()["levels"][0]
    lengths = [(n - 1) * s for n, s in zip(level["dims"], level["spacing"], strict=True)]
    how: dict[str, Any] = {"samples_per_voxel": min(max(1.0, ACROSS / max(level["dims"])), MOST_FINELY)}
    thin = min(lengths) / THROUGH
    if 0 < thin < math.hypot(*lengths) / 100:
        how["unit"] = thin
    return how


THROUGH = 8
"""Smallest number of lengths of `unit` through the thinnest axis of a volume."""


def _standing(volume: VolumeDataset) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Viewing direction and upward axis of a volume: anatomy from the front and the side, head up."""
    letters = volume.anatomy or ""
    if len(letters) == 3 and letters[2] in "SI" and letters[1] in "AP":
        front, high = _ANTERIOR[letters[1]], 1.0 if letters[2] == "S" else -1.0
        return (0.55, front * 0.8, high * 0.22), (0.0, 0.0, high)
    return VIEW, (0.0, 0.0, 1.0)


def settled(
    scene: Scene, volume: VolumeDataset, steps: Sequence[int] | None = None, samples: dict[str, Values] | None = None
) -> Scene:
    """Fills in missing ranges and opacities from samples of the volume in some time steps; None: the step of the scene.
    `samples` receives the sampled values of each channel."""
    count = max(1, len(volume._spec["times"]))
    if scene.step >= count:
        there = "is 1" if count == 1 else f"are {count}"
        raise UsageError(f"step: {volume.path}: there is no time step {scene.step}; there {there}, counted from 0")
    if scene.define:
        name = next(iter(scene.define))
        raise UsageError(
            f"define.{name}: {volume.path} is a volume, and only flows have derived fields; remove 'define', and name a "
            f"channel: {', '.join(c.name for c in volume.channels)}"
        )
    _check_size(volume)
    for drawn in scene.objects:
        if isinstance(drawn, Volume):
            _check_steps(drawn, volume)
    steps = steps or [scene.step]
    maps = dict(scene.maps)
    objects = list(scene.objects)

    @cache
    def seen(name: str) -> tuple[Values, list[float]]:
        found = sample(volume, name, steps)
        if samples is not None:
            samples[name] = found
        # Values known to be missing are excluded already; these are further fill values.
        channel = next(c for c in volume.channels if c.name == name)
        none = fills(found, whole=is_whole(channel))
        if unseen := [v for v in none if v not in SATURATED]:
            run_context.remark(volume.path, said(name, unseen))
        known = without(found, none)
        # A scene does not record how its source was opened: without the option, these values must stay clear.
        if volume._opening.options.missing is not None:
            factor, offset = channel.scale or (1.0, 0.0)
            ends = {
                as_stored(end, channel.dtype.name)
                for ends in ranges_of(volume._opening.options.missing)
                for end in ends
            }
            none += [factor * end + offset for end in sorted(ends)]
        return known, none

    def values(name: str) -> Values:
        return seen(name)[0]

    inverted = {c.name for c in volume.channels if c.inverted}

    @cache
    def is_dip(name: str) -> bool:
        return name in inverted or _is_dip(volume, name, *seen(name), steps[0])

    names = {c.name for c in volume.channels}
    for n, drawn in enumerate(objects):
        if isinstance(drawn, Surface | Walls | Cores) or (isinstance(drawn, Lines) and drawn.trace is not None):
            raise UsageError(
                f"objects.{n}: '{drawn.kind}' is drawn of flows, and {volume.path} is a volume; of volumes there are "
                "volume, contour, slice, outline and lines of a file"
            )
        if isinstance(drawn, Outline) and drawn.zone is not None:
            raise UsageError(f"objects.{n}.zone: {volume.path} is a volume, which has no zones; remove 'zone'")
        if isinstance(drawn, Volume):
            _check(drawn, n, volume)
        if isinstance(drawn, Slice) and drawn.color is None:
            drawn = drawn.model_copy(update={"color": volume.channels[0].name})
            objects[n] = drawn
        if isinstance(drawn, Volume):
            drawn = _shown(drawn, volume, steps, seen, is_dip)
            objects[n] = drawn
            if drawn.labels is not None and drawn.shading is not None:
                raise UsageError(
                    f"objects.{n}.shading: labels have one colour each, without gradients to shade; remove the shading"
                )
            if drawn.opacity_from is not None or drawn.labels is not None:
                continue
        color = getattr(drawn, "color", None)
        if isinstance(drawn, Volume):
            color = color or drawn.field or volume.channels[0].name
        # Lines have values of their own.
        if color is None or isinstance(drawn, Lines):
            continue
        if color not in maps and color not in names and find_color(color, f"objects.{n}.color") is not None:
            continue
        known = maps.get(color, ColorMap(field=color, cmap=None if isinstance(drawn, Slice) else CMAP))
        name = known.field
        projection = drawn.projection if isinstance(drawn, Volume) else None
        if projection == "maximum" and (color not in maps or known.cmap is None):
            # Maxima are usually shown in grey, like scans, over their own range.
            known = known.model_copy(update={"cmap": "gray"})
        elif name in names and color not in maps and projection in (None, "composite"):
            reach = reach_of_signed(volume, name, values(name))
            if reach is not None:
                known = known.model_copy(update={"cmap": DIVERGING, "range": (-reach, reach)})
        # With a given range the answer is unused, and sampling would cost time.
        is_open = (color not in maps or known.range is None) and name in names
        dips = is_open and isinstance(drawn, Volume) and drawn.projection == "composite" and is_dip(name)
        if (dips or name in inverted) and color not in maps:
            known = known.model_copy(update={"cmap": f"{known.cmap or SEQUENTIAL}_r"})
        if name not in names:
            place, what = (f"maps.{color}.field", "channel") if color in maps else (f"objects.{n}.color", COLORED_BY)
            known_names = ", ".join(c.name for c in volume.channels)
            if what == COLORED_BY:
                known_names += f"; {how_to_color(name, volume.channels[0].name)}"
            raise UnknownName(f"{place}: no {what} named '{name}' in {volume.path}; the channels are: {known_names}")
        if known.range is None:
            if projection == "mean":
                found = mean_range(volume, name, steps)
            elif projection == "maximum":
                found = mean_range(volume, name, steps, largest=True)
            else:
                found = extent(volume, name, values(name), wide=isinstance(drawn, Slice), dips=dips)
            known = known.model_copy(update={"range": found})
        maps[color] = known
    return scene.model_copy(update={"objects": objects, "maps": maps})


COLORED_BY = "channel, map or colour"
"""Noun for what an object's colour may name."""


def _check_size(volume: VolumeDataset) -> None:
    """Refuses voxels whose squared lengths overflow or underflow."""
    about = volume.info()["levels"][0]
    for axis, count, length in zip("ijk", about["dims"], about["spacing"], strict=True):
        if count > 1 and not 1 / FAR <= abs(length) <= FAR:
            raise DataError(
                f"{volume.path}: its voxels are {length:g} apart along {axis}, out of the range of pictures: {1 / FAR:g} to "
                f"{FAR:g}; --raw 'spacing=1,1,1' sets another distance"
            )


MOST_STEPS = 1e6
"""Number of samples per ray from which a picture takes hours."""


def _check_steps(drawn: Volume, volume: VolumeDataset) -> None:
    """Refuses voxels that make rays too long: a step has the smallest distance between voxels, however large the others
    are."""
    levels = volume.info()["levels"]
    level = levels[drawn.level if drawn.level is not None and drawn.level < len(levels) else 0]
    spacing = [abs(s) for s in level["spacing"]]
    across = math.hypot(*((n - 1) * s for n, s in zip(level["dims"], spacing, strict=True)))
    steps = across / min(spacing) * (drawn.samples_per_voxel or 1.0)
    # Many voxels in a row justify as many samples.
    if steps > max(MOST_STEPS, MOST_FINELY * sum(level["dims"])):
        raise DataError(
            f"{volume.path}: its voxels are {' x '.join(f'{s:.6g}' for s in spacing)} apart. A ray that steps from one to the "
            f"next takes {steps:.1g} samples, of {MOST_STEPS:g} at most; --raw 'spacing=1,1,1' sets other distances"
        )


def _check(drawn: Volume, number: int, volume: VolumeDataset) -> None:
    """Refuses channels, levels and colours that a volume lacks, with the place in the scene."""
    names = [c.name for c in volume.channels]
    if drawn.field is not None and drawn.field not in names:
        raise UnknownName(
            f"objects.{number}.field: no channel named '{drawn.field}' in {volume.path}; there are: {', '.join(names)}"
        )
    count = len(volume.levels)
    if drawn.level is not None and drawn.level >= count:
        raise UsageError(
            f"objects.{number}.level: there is no level {drawn.level}; {volume.path} has {count}, counted from 0"
        )
    needs = {None: 0, "alpha": 4}.get(drawn.opacity_from, 3)
    if len(names) < needs:
        raise UsageError(
            f"objects.{number}.opacity_from: '{drawn.opacity_from}' needs colours in {needs} channels; {volume.path} has "
            f"{len(names)}: {', '.join(names)}. Remove it for an 'opacity' by values"
        )


def _shown(
    drawn: Volume,
    volume: VolumeDataset,
    steps: Sequence[int],
    seen: Callable[[str], tuple[Values, list[float]]],
    is_dip: Callable[[str], bool],
) -> Volume:
    """Fills in what a volume in a scene leaves open, by the kind of volume."""
    if volume.kind in COLORS and drawn.field is None and drawn.color is None:
        by = drawn.opacity_from or ("alpha" if volume.kind == "rgba" else "distance")
        change: dict[str, Any] = {"opacity_from": by}
        if by == "distance" and drawn.background is None:
            change["background"] = background(volume, steps[0])
        if drawn.opacity is None:
            change["opacity"] = ALPHAS if by == "alpha" else DISTANCES
        return drawn.model_copy(update=change)
    if volume.kind == "labels" and drawn.color is None and drawn.opacity is None and drawn.labels is None:
        return drawn.model_copy(update={"labels": Labels(colors=dict(volume._description.label_colors))})
    if drawn.projection == "surface" and drawn.value is not None:
        # A surface is opaque, whatever the opacity of smaller values.
        return drawn.model_copy(update={"opacity": [(drawn.value, 1.0)]})
    if drawn.opacity is not None or drawn.labels is not None or drawn.opacity_from is not None:
        return drawn
    name = drawn.field or volume.channels[0].name
    known, none = seen(name)
    if drawn.projection == "mean":
        low, high = mean_range(volume, name, steps)
        return drawn.model_copy(update={"opacity": [(low, 0.0), (high, 1.0)]})
    if drawn.projection == "maximum":
        # Above most of the background, brighter is more opaque.
        low, high = (float(v) for v in np.percentile(known, (50, 99.99))) if known.size else (0.0, 1.0)
        nodes = [(low, 0.0), (high if high > low else low + 1.0, 1.0)]
        return drawn.model_copy(update={"opacity": nodes})
    if drawn.projection == "composite" and reach_of_signed(volume, name, known) is not None:
        # Values far from zero, on either side.
        upper = _far_from_zero(np.abs(known))
        nodes = [*((-v, a) for v, a in reversed(upper)), *upper]
    elif drawn.projection == "composite" and is_dip(name):
        nodes = [(-v, a) for v, a in reversed(opacities(-known))]
    else:
        nodes = opacities(known)
    return drawn.model_copy(update={"opacity": cleared(nodes, known, none)})


def _is_dip(volume: VolumeDataset, name: str, values: Values, none: Sequence[float], step: int) -> bool:
    """Whether the object is low in a background of high values, as in a distance or a negative."""
    if not values.size:
        return False
    split = threshold(values)
    # A background fills most of a volume; this test saves reading the faces of others.
    if not 0.5 < (values > split).mean() < 1.0:
        return False
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    high, count = 0, 0
    for (box,) in _faces(volume, [number], step):
        # A few rows at a time, since the ledger does not charge these arrays.
        for part in np.array_split(box.ravel(), -(-box.size // PIECE)):
            beside = volume.channels[number].values(part).astype(np.float64)
            beside = without(np.clip(beside[np.isfinite(beside)], -LARGEST, LARGEST), none)
            high, count = high + int((beside > split).sum()), count + beside.size
    return count > 0 and high / count > OUTSIDE


OUTSIDE = 0.98
"""Share of high values at a volume's faces that indicates an object of low values."""


def background(volume: VolumeDataset, step: int) -> str:
    """The most frequent colour at the faces of a volume, as `#rrggbb`. Unreadable faces are skipped; drawing reports
    them."""
    faces = [
        [volume.channels[c].values(box).ravel() for c, box in enumerate(boxes)]
        for boxes in _faces(volume, [0, 1, 2], step)
    ]
    if not faces:
        return "#000000"
    planes = [np.concatenate([face[c] for face in faces]) for c in range(3)]
    limits = [c.limits or _full(c.dtype) for c in volume.channels[:3]]
    seen = np.stack(
        [np.clip((p - low) / (high - low), 0, 1) for p, (low, high) in zip(planes, limits, strict=True)], axis=1
    )
    coarse, counts = np.unique((seen * 15.999).astype(int), axis=0, return_counts=True)
    most = coarse[counts.argmax()]
    own = seen[((seen * 15.999).astype(int) == most).all(axis=1)].mean(axis=0)
    return "#" + "".join(f"{round(255 * v):02x}" for v in own)


def _faces(volume: VolumeDataset, channels: Sequence[int], step: int) -> Iterator[list[NDArray[Any]]]:
    """The stored numbers of some channels at each readable face of a volume, from its coarsest level."""
    level = len(volume.info()["levels"]) - 1
    dims = volume.info()["levels"][level]["dims"]
    for axis in range(3):
        for at in (0, dims[axis] - 1):
            lo, hi = [0, 0, 0], list(dims)
            lo[axis], hi[axis] = at, at + 1
            # The middle of a huge face is representative.
            for a in range(3):
                if a != axis and dims[a] > FACE:
                    lo[a], hi[a] = (dims[a] - FACE) // 2, (dims[a] + FACE) // 2
            i, j, k = lo
            try:
                boxes = [read_box(volume, level, c, ((i, j, k), (hi[0], hi[1], hi[2])), step) for c in channels]
            except (DataError, AccessError):
                continue
            yield boxes


FACE = 256
"""Largest number of voxels along each axis of a face that are read for a background."""


def _full(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return (0.0, 1.0)
    known = np.iinfo(dtype)
    return (float(known.min), float(known.max))


def _far_from_zero(sizes: Values) -> list[tuple[float, float]]:
    """Nodes of an opacity over the distance from zero. Most values are noise around zero."""
    some = sizes[sizes > 0]
    low, high = (float(v) for v in np.percentile(some, (100 - SHOWN, 99.9)))
    low = max(low, min(threshold(some), float(np.percentile(some, 99.0))))
    return [(low, 0.0), (low + 0.25 * (high - low), 0.3), (high, 0.9)] if low < high else [(0.0, 0.0), (low, 0.5)]


SHOWN = 15.0
"""Largest visible share, in percent, of the values that are not zero."""


def is_whole(channel: VolumeChannel) -> bool:
    """Whether a channel's values are whole numbers."""
    return channel.dtype.kind in "iu" and channel.scale is None


def extent(
    volume: VolumeDataset, name: str, values: Values, *, wide: bool = False, dips: bool = False
) -> tuple[float, float]:
    """The range of colours: from the format, else of nearly all values outside the background. The background is low,
    or with `dips` high."""
    channel = next(c for c in volume.channels if c.name == name)
    if channel.limits is not None and channel.limits[0] < channel.limits[1]:
        return channel.limits
    if not values.size:
        return (0.0, 1.0)
    if dips:
        values = -values
    low, high = (float(v) for v in np.percentile(values, (0.5, 99.9) if wide else (2.0, 99.95)))
    if not wide:
        # Half-clear values at the object's edge must not be black.
        split = min(threshold(values), high)
        low = max(split - FRINGE * (high - split), float(values.min()))
    low, high = rising(low, high) or rising(float(values.min()), float(values.max())) or around(low)
    return (-high, -low) if dips else (low, high)


FRINGE = 0.25
"""Share of the colour range below the threshold, relative to the part above."""


def _most(values: Values, low: float, high: float) -> tuple[float, float]:
    """Percentiles of values. If they coincide, the least and the largest value, so that rare values stay visible."""
    least, most = (float(v) for v in np.percentile(values, (low, high)))
    return rising(least, most) or (float(values.min()), float(values.max()))


def threshold(values: Values) -> float:
    """The threshold that splits a histogram into the two most uniform parts (Otsu 1979).

    >>> threshold(np.repeat([0.0, 10.0], [900, 100]))
    5.0
    """
    low, high = _most(values, 0.1, 99.9)
    if not low < high:
        return low
    # Numbers so near each other leave no room for 256 bins.
    if not (np.diff(np.linspace(low, high, 257)) > 0).all():
        return 0.5 * low + 0.5 * high
    counts, edges = np.histogram(values, bins=256, range=(low, high))
    # In units of bins, so that squares of huge values stay finite.
    middle = np.arange(256) + 0.5
    below = np.cumsum(counts)
    above = below[-1] - below
    sums = np.cumsum(counts * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    between = np.where(np.isfinite(between), between, -1.0)
    # An empty gap between the parts has many equally good thresholds; take its middle.
    most = float(between.max())
    best = np.flatnonzero(between >= most - 1e-9 * abs(most))
    return float(0.5 * edges[1 + best[0]] + 0.5 * edges[1 + best[-1]])


def opacities(values: Values) -> list[tuple[float, float]]:
    """Nodes of an opacity that hides the background and reveals some depth of the rest."""
    if not values.size:
        return [(0.0, 0.0), (1.0, 0.5)]
    low, high = _most(values, 0.1, 99.95)
    if not low < high:
        return [(low, 0.3)]
    split = threshold(values)
    width = 0.08 * (high - low)
    rest = max(high - split, width)
    return [
        (split - width, 0.0),
        (split + width, 0.12),
        (split + 0.45 * rest + width, 0.45),
        (split + rest + 2 * width, 0.9),
    ]
