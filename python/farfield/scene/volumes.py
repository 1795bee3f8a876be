"""Volumes in scenes: the picture of a volume when nothing is said about it, and what a scene leaves open of its looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError, UnknownName, UsageError
from farfield.scene.colors import find_color
from farfield.scene.models import Camera, ColorMap, Labels, Outline, Scene, Slice, Volume

if TYPE_CHECKING:
    from farfield.scene.models import Drawn
    from farfield.volumedata import VolumeDataset

Values = NDArray[np.float64]

SAMPLES = 1 << 21
"""Values that are looked at for ranges and opacities."""
CMAP = "inferno"
"""Dark where there is little, bright where there is much, so that what is dense stands out of what is around it."""
VIEW = (-0.55, -0.75, 0.38)
"""From the target to the eye, of a volume whose axes say nothing of what is up."""
COLORS = ("rgb", "rgba")
"""Kinds of volumes that are shown as they are stored."""
DISTANCES = [(0.04, 0.0), (0.14, 0.2), (0.4, 0.5), (1.0, 0.7)]
"""Nodes of the opacity of colours over how far they are from the background."""
ALPHAS = [(0.0, 0.0), (1.0, 0.9)]
"""The same over alpha."""
_ANTERIOR = {"A": 1.0, "P": -1.0}


def fields_of(volume: VolumeDataset) -> dict[str, dict[str, Any]]:
    """The channels as `info` lists fields."""
    return {c.name: {"name": c.name, "components": 1, "units": c.units, "long_name": c.name} for c in volume.channels}


MOST_CHANNELS = 6
"""Channels that the first picture of a volume shows: more hide each other."""
_CHANNEL_COLORS = ("#30e050", "#e040e0", "#40a0ff", "#ff7030", "#ffe040", "#40f0e0")
"""Of channels that have no colour."""


def first_scene(volume: VolumeDataset, source: str, step: int = 0) -> Scene:
    """The default scene of a volume: its rays and its edges. Colours and labels are shown as such, channels all at once."""
    drawn: list[Drawn] = [Outline()]
    if volume.kind == "channels" and len(volume.channels) > 1:
        shown = volume.channels[:MOST_CHANNELS]
        drawn += [Volume(field=c.name, color=c.color or _CHANNEL_COLORS[n]) for n, c in enumerate(shown)]
    elif volume.kind in COLORS:
        drawn.append(Volume())
    else:
        drawn.append(Volume(field=volume.channels[0].name))
    direction, up = _standing(volume)
    return settled(Scene(source=source, step=step, objects=drawn, camera=Camera(direction=direction, up=up)), volume)


def _standing(volume: VolumeDataset) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """From where a volume is seen, and what is up: of anatomy from the front and the side, head up."""
    letters = volume.anatomy or ""
    if len(letters) == 3 and letters[2] in "SI" and letters[1] in "AP":
        front, high = _ANTERIOR[letters[1]], 1.0 if letters[2] == "S" else -1.0
        return (0.55, front * 0.8, high * 0.22), (0.0, 0.0, high)
    return VIEW, (0.0, 0.0, 1.0)


def settled(scene: Scene, volume: VolumeDataset) -> Scene:
    """The scene with ranges and opacities where it does not say them, from some of the volume's values."""
    maps = dict(scene.maps)
    objects = list(scene.objects)
    seen: dict[str, Values] = {}

    def values(name: str) -> Values:
        if name not in seen:
            seen[name] = sample(volume, name, scene.step)
        return seen[name]

    names = {c.name for c in volume.channels}
    for n, drawn in enumerate(objects):
        if isinstance(drawn, Volume):
            _check(drawn, n, volume)
        if isinstance(drawn, Slice) and drawn.color is None:
            drawn = drawn.model_copy(update={"color": volume.channels[0].name})
            objects[n] = drawn
        if isinstance(drawn, Volume):
            drawn = _shown(drawn, volume, scene.step, values)
            objects[n] = drawn
            if drawn.opacity_from is not None or drawn.labels is not None:
                continue
        color = getattr(drawn, "color", None)
        if isinstance(drawn, Volume):
            color = color or drawn.field or volume.channels[0].name
        if color is None or (color not in maps and color not in names and find_color(color) is not None):
            continue
        known = maps.get(color, ColorMap(field=color, cmap=None if isinstance(drawn, Slice) else CMAP))
        name = known.field if known.field in names else volume.channels[0].name
        if known.range is None:
            known = known.model_copy(
                update={"range": extent(volume, name, values(name), wide=isinstance(drawn, Slice))}
            )
        maps[color] = known
    return scene.model_copy(update={"objects": objects, "maps": maps})


def _check(drawn: Volume, number: int, volume: VolumeDataset) -> None:
    """Says what a volume does not have, with the place in the scene."""
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


def _shown(drawn: Volume, volume: VolumeDataset, step: int, values: Callable[[str], Values]) -> Volume:
    """A volume in a scene with all that it leaves open, by what the volume is."""
    if volume.kind in COLORS and drawn.field is None and drawn.color is None:
        by = drawn.opacity_from or ("alpha" if volume.kind == "rgba" else "distance")
        change: dict[str, Any] = {"opacity_from": by}
        if by == "distance" and drawn.background is None:
            change["background"] = background(volume, step)
        if drawn.opacity is None:
            change["opacity"] = ALPHAS if by == "alpha" else DISTANCES
        return drawn.model_copy(update=change)
    if volume.kind == "labels" and drawn.color is None and drawn.opacity is None and drawn.labels is None:
        return drawn.model_copy(update={"labels": Labels()})
    if drawn.opacity is not None or drawn.labels is not None or drawn.opacity_from is not None:
        return drawn
    known = values(drawn.field or volume.channels[0].name)
    if drawn.projection in ("maximum", "mean"):
        # All that is above what is most of the background: the brighter the more opaque.
        low, high = (float(v) for v in np.percentile(known, (50, 99.99))) if known.size else (0.0, 1.0)
        nodes = [(low, 0.0), (high if high > low else low + 1.0, 1.0)]
        return drawn.model_copy(update={"opacity": nodes})
    return drawn.model_copy(update={"opacity": opacities(known)})


def background(volume: VolumeDataset, step: int) -> str:
    """The colour that is most often at the faces of a volume, as `#rrggbb`. Faces that cannot be read are left out: whoever draws
    them says so."""
    level = len(volume.info()["levels"]) - 1
    dims = volume.info()["levels"][level]["dims"]
    faces = []
    for axis in range(3):
        for at in (0, dims[axis] - 1):
            lo, hi = [0, 0, 0], list(dims)
            lo[axis], hi[axis] = at, at + 1
            # A plane of a huge volume is read in the middle, where it says as much.
            for a in range(3):
                if a != axis and dims[a] > FACE:
                    lo[a], hi[a] = (dims[a] - FACE) // 2, (dims[a] + FACE) // 2
            i, j, k = lo
            try:
                boxes = [volume._native.read_box(level, c, (i, j, k), (hi[0], hi[1], hi[2]), step) for c in range(3)]
            except DataError:
                continue
            faces.append([volume.channels[c].values(box).ravel() for c, box in enumerate(boxes)])
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


FACE = 256
"""Voxels of a face along each axis that are looked at for a background."""


def _full(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return (0.0, 1.0)
    known = np.iinfo(dtype)
    return (float(known.min), float(known.max))


def sample(volume: VolumeDataset, name: str, step: int) -> Values:
    """Some values of a channel, from the coarsest level that has enough, or from pages spread over the finest one.

    Pages that cannot be read are left out: that only makes the sample smaller, and whoever draws them says so.
    """
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    channel = volume.channels[number]
    levels = volume.info()["levels"]
    enough = [n for n, level in enumerate(levels) if math.prod(level["dims"]) >= SAMPLES // 32]
    chosen = levels[enough[-1] if enough else 0]
    at = enough[-1] if enough else 0
    dims, page = chosen["dims"], chosen["page"]
    counts = [-(-d // p) for d, p in zip(dims, page, strict=True)]
    parts = []
    for at_page in spread(counts, max(1, SAMPLES // max(1, math.prod(page)))):
        lo = [a * p for a, p in zip(at_page, page, strict=True)]
        hi = [min(a + p, d) for a, p, d in zip(lo, page, dims, strict=True)]
        try:
            box = volume._native.read_box(at, number, tuple(lo), tuple(hi), step)
        except DataError:
            continue
        parts.append(channel.values(box).ravel().astype(np.float64))
    found = np.concatenate(parts) if parts else np.zeros(0)
    return found[np.isfinite(found)]


def spread(counts: Sequence[int], wanted: int) -> list[tuple[int, int, int]]:
    """At most so many of the boxes of a grid of `counts` along i, j, k, evenly over all three; all if no more are there.

    Multiples of 1/g, 1/g^2, 1/g^3 with g^4 = g + 1 fill a cube evenly however many are taken (Roberts 2018). Boxes at equal steps
    of their number do not: where a step is a multiple of a row all of them lie at one end of it, in the air beside what is seen.

    >>> spread((2, 1, 2), 9)
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    >>> len({i for i, _, _ in spread((32, 32, 32), 64)})
    29
    """
    ni, nj, nk = counts
    if ni * nj * nk <= wanted:
        return [(i, j, k) for k in range(nk) for j in range(nj) for i in range(ni)]
    g = 1.2207440846057596
    found: dict[tuple[int, int, int], None] = {}
    for n in range(wanted):
        i, j, k = (int((0.5 + (n + 1) / g**a) % 1.0 * count) for a, count in enumerate(counts, 1))
        found[i, j, k] = None
    return list(found)


def extent(volume: VolumeDataset, name: str, values: Values, *, wide: bool = False) -> tuple[float, float]:
    """The range that colours go over: what the format says, else that of nearly all values that are not background."""
    channel = next(c for c in volume.channels if c.name == name)
    if channel.limits is not None and channel.limits[0] < channel.limits[1]:
        return channel.limits
    if not values.size:
        return (0.0, 1.0)
    low, high = np.percentile(values, (0.5, 99.9) if wide else (2.0, 99.95))
    if not wide:
        low = min(threshold(values), high)
    low, high = (float(values.min()), float(values.max())) if not low < high else (float(low), float(high))
    return (low, high) if low < high else (low, low + 1.0)


def threshold(values: Values) -> float:
    """What parts a histogram in two so that both parts are as even as can be (Otsu 1979)."""
    low, high = np.percentile(values, (0.1, 99.9))
    if not low < high:
        return float(low)
    counts, edges = np.histogram(values, bins=256, range=(low, high))
    middle = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    sums = np.cumsum(counts * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    return float(edges[1:][np.nanargmax(np.where(np.isfinite(between), between, -1))])


def opacities(values: Values) -> list[tuple[float, float]]:
    """Nodes of an opacity that hides the background and lets one look some way into the rest."""
    if not values.size:
        return [(0.0, 0.0), (1.0, 0.5)]
    low, high = (float(v) for v in np.percentile(values, (0.1, 99.95)))
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
