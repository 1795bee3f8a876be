"""Volumes in scenes: the picture of a volume when nothing is said about it, and what a scene leaves open of its looks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import AccessError, DataError, MemoryLimitError, UnknownName, UsageError
from farfield.scene.colors import find_color
from farfield.scene.fills import cleared, fills, without
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

if TYPE_CHECKING:
    from farfield.progress import Report
    from farfield.scene.models import Drawn
    from farfield.settings import Settings
    from farfield.volume.options import Options
    from farfield.volumedata import VolumeDataset
    from farfield.volumevalues import VolumeChannel

Values = NDArray[np.float64]

SAMPLES = 1 << 21
"""Values that are looked at for ranges and opacities."""
KEPT = 1 << 16
"""Of them so many are kept, for which nobody is charged: all of them, and a copy of each, took 20 MiB more than a limit of four."""
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


def first_scene(volume: VolumeDataset, source: str, step: int = 0, *, steps: Sequence[int] | None = None) -> Scene:
    """The default scene of a volume: its rays and its edges. Colours and labels are shown as such, channels all at once.
    `steps`: as `settled` has them."""
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
"""Voxels across from which on one sample a voxel shows no grain."""
MOST_FINELY = 16.0


def _finely(volume: VolumeDataset) -> dict[str, Any]:
    """What voxels that are large in the picture need, so that the places of samples do not show as grain and jagged edges; and what
    volumes that are thin need, so that they are seen at all."""
    level = volume.info()["levels"][0]
    lengths = [(n - 1) * s for n, s in zip(level["dims"], level["spacing"], strict=True)]
    how: dict[str, Any] = {"samples_per_voxel": min(max(1.0, ACROSS / max(level["dims"])), MOST_FINELY)}
    thin = min(lengths) / THROUGH
    if 0 < thin < math.hypot(*lengths) / 100:
        how["unit"] = thin
    return how


THROUGH = 8
"""Lengths of `unit` through a volume at least, where it is thinnest."""


def _standing(volume: VolumeDataset) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """From where a volume is seen, and what is up: of anatomy from the front and the side, head up."""
    letters = volume.anatomy or ""
    if len(letters) == 3 and letters[2] in "SI" and letters[1] in "AP":
        front, high = _ANTERIOR[letters[1]], 1.0 if letters[2] == "S" else -1.0
        return (0.55, front * 0.8, high * 0.22), (0.0, 0.0, high)
    return VIEW, (0.0, 0.0, 1.0)


def settled(
    scene: Scene, volume: VolumeDataset, steps: Sequence[int] | None = None, samples: dict[str, Values] | None = None
) -> Scene:
    """The scene with ranges and opacities where it does not say them, from some of the volume's values in some time steps; None:
    in that of the scene. `samples` gets the values of each channel that were looked at."""
    count = max(1, len(volume._spec["times"]))
    if scene.step >= count:
        there = "is 1" if count == 1 else f"are {count}"
        raise UsageError(f"step: {volume.path}: there is no time step {scene.step}; there {there}, counted from 0")
    steps = steps or [scene.step]
    maps = dict(scene.maps)
    objects = list(scene.objects)

    @cache
    def seen(name: str) -> tuple[Values, list[float]]:
        found = sample(volume, name, steps)
        if samples is not None:
            samples[name] = found
        # What is known to be missing is no value here, nor to rays: this is what else stands for none.
        channel = next(c for c in volume.channels if c.name == name)
        none = fills(found, whole=is_whole(channel))
        known = without(found, none)
        # A scene does not say with which options its source is opened: drawn without them it stays clear.
        if volume._options.missing is not None and channel.missing is not None:
            factor, offset = channel.scale or (1.0, 0.0)
            none.append(factor * channel.missing + offset)
        return known, none

    def values(name: str) -> Values:
        return seen(name)[0]

    @cache
    def is_dip(name: str) -> bool:
        return _is_dip(volume, name, *seen(name), steps[0])

    names = {c.name for c in volume.channels}
    for n, drawn in enumerate(objects):
        if isinstance(drawn, Surface | Walls | Cores) or (isinstance(drawn, Lines) and drawn.trace is not None):
            raise UsageError(
                f"objects.{n}: '{drawn.kind}' is drawn of flows, and {volume.path} is a volume; of volumes there are "
                "volume, contour, slice, outline and lines of a file"
            )
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
                    f"objects.{n}.shading: labels have one colour each and no gradient that could be lit; leave the shading away"
                )
            if drawn.opacity_from is not None or drawn.labels is not None:
                continue
        color = getattr(drawn, "color", None)
        if isinstance(drawn, Volume):
            color = color or drawn.field or volume.channels[0].name
        # Lines have numbers of their own.
        if color is None or isinstance(drawn, Lines):
            continue
        if color not in maps and color not in names and find_color(color) is not None:
            continue
        known = maps.get(color, ColorMap(field=color, cmap=None if isinstance(drawn, Slice) else CMAP))
        name = known.field
        dips = isinstance(drawn, Volume) and drawn.projection == "composite" and name in names and is_dip(name)
        if dips and color not in maps:
            known = known.model_copy(update={"cmap": f"{CMAP}_r"})
        if name not in names:
            place, what = (f"maps.{color}.field", "channel") if color in maps else (f"objects.{n}.color", COLORED_BY)
            known_names = ", ".join(c.name for c in volume.channels)
            raise UnknownName(f"{place}: no {what} named '{name}' in {volume.path}; the channels are: {known_names}")
        if known.range is None:
            if isinstance(drawn, Volume) and drawn.projection == "mean":
                found = mean_range(volume, name, steps)
            else:
                found = extent(volume, name, values(name), wide=isinstance(drawn, Slice), dips=dips)
            known = known.model_copy(update={"range": found})
        maps[color] = known
    return scene.model_copy(update={"objects": objects, "maps": maps})


COLORED_BY = "channel, map or colour"
"""What the colour of an object may name."""


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
    needs = {None: 0, "alpha": 4}.get(drawn.opacity_from, 3)
    if len(names) < needs:
        raise UsageError(
            f"objects.{number}.opacity_from: '{drawn.opacity_from}' is of colours in {needs} channels; {volume.path} has "
            f"{len(names)}: {', '.join(names)}. Leave it away, and 'opacity' is by values"
        )


def _shown(
    drawn: Volume,
    volume: VolumeDataset,
    steps: Sequence[int],
    seen: Callable[[str], tuple[Values, list[float]]],
    is_dip: Callable[[str], bool],
) -> Volume:
    """A volume in a scene with all that it leaves open, by what the volume is."""
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
        # It is opaque, whatever is said of values on their way to it.
        return drawn.model_copy(update={"opacity": [(drawn.value, 1.0)]})
    if drawn.opacity is not None or drawn.labels is not None or drawn.opacity_from is not None:
        return drawn
    name = drawn.field or volume.channels[0].name
    known, none = seen(name)
    if drawn.projection == "mean":
        low, high = mean_range(volume, name, steps)
        return drawn.model_copy(update={"opacity": [(low, 0.0), (high, 1.0)]})
    if drawn.projection == "maximum":
        # All that is above what is most of the background: the brighter the more opaque.
        low, high = (float(v) for v in np.percentile(known, (50, 99.99))) if known.size else (0.0, 1.0)
        nodes = [(low, 0.0), (high if high > low else low + 1.0, 1.0)]
        return drawn.model_copy(update={"opacity": nodes})
    if drawn.projection == "composite" and is_dip(name):
        nodes = [(-v, a) for v, a in reversed(opacities(-known))]
    else:
        nodes = opacities(known)
    return drawn.model_copy(update={"opacity": cleared(nodes, known, none)})


def _is_dip(volume: VolumeDataset, name: str, values: Values, none: Sequence[float], step: int) -> bool:
    """Whether what is to be seen is low in a background of high values: that of a distance, or of a negative."""
    if not values.size:
        return False
    split = threshold(values)
    # A background is most of a volume: others are spared the look at their faces.
    if not 0.5 < (values > split).mean() < 1.0:
        return False
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    found = [volume.channels[number].values(box).ravel() for (box,) in _faces(volume, [number], step)]
    around = np.concatenate(found).astype(np.float64) if found else np.zeros(0)
    around = without(around[np.isfinite(around)], none)
    return around.size > 0 and bool((around > split).mean() > OUTSIDE)


OUTSIDE = 0.98
"""Part of the values at a volume's faces that are high where what is seen in it is low."""


def background(volume: VolumeDataset, step: int) -> str:
    """The colour that is most often at the faces of a volume, as `#rrggbb`. Faces that cannot be read are left out: whoever draws
    them says so."""
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


def _faces(volume: VolumeDataset, channels: Sequence[int], step: int) -> list[list[NDArray[Any]]]:
    """The stored numbers of some channels at each face of a volume that can be read, from its coarsest level."""
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
                boxes = [volume._native.read_box(level, c, (i, j, k), (hi[0], hi[1], hi[2]), step) for c in channels]
            except (DataError, AccessError):
                continue
            faces.append(boxes)
    return faces


FACE = 256
"""Voxels of a face along each axis that are looked at for a background."""


def _full(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return (0.0, 1.0)
    known = np.iinfo(dtype)
    return (float(known.min), float(known.max))


def _level(volume: VolumeDataset) -> tuple[int, tuple[int, int, int], tuple[int, int, int]]:
    """The coarsest level that has enough values, its voxels, and those of its pages."""
    levels = volume.info()["levels"]
    enough = [n for n, level in enumerate(levels) if math.prod(level["dims"]) >= SAMPLES // 32]
    at = enough[-1] if enough else 0
    (i, j, k), (pi, pj, pk) = levels[at]["dims"], levels[at]["page"]
    return at, (i, j, k), (pi, pj, pk)


def _page(
    volume: VolumeDataset, level: int, channel: int, page: tuple[int, int, int], step: int
) -> NDArray[Any] | None:
    """The numbers of a page, [k, j, i]; None where it cannot be read."""
    about = volume.info()["levels"][level]
    i, j, k = (n * p for n, p in zip(page, about["page"], strict=True))
    u, v, w = (min(n + p, d) for n, p, d in zip((i, j, k), about["page"], about["dims"], strict=True))
    try:
        return volume._native.read_box(level, channel, (i, j, k), (u, v, w), step)
    except (DataError, AccessError):
        return None


@contextlib.contextmanager
def to_look_at(
    source: str, settings: Settings, options: Mapping[str, Any] | Options | None, progress: bool | Report | None
) -> Iterator[VolumeDataset]:
    """Opens a volume to find out what a scene leaves open: what is looked at are arrays that nobody charges, so its pages have half
    of the limit, where that is enough for one.
    """
    from farfield.volumedata import open_volume

    with open_volume(source, settings, options=options, progress=progress) as opened:
        with contextlib.suppress(MemoryLimitError):
            opened.set_memory_limit(opened.memory_limit // 2)
        yield opened


def sample(volume: VolumeDataset, name: str, steps: Sequence[int], *, every: bool = False) -> Values:
    """Some values of a channel in some time steps, from the coarsest level that has enough, or from pages spread over
    the finest one: at equal steps, with the least and the largest of all, or `every` one that is looked at.

    Pages that cannot be read are left out: that only makes the sample smaller, and whoever draws them says so. Where all values are
    the same more pages are looked at until one has another: little may lie in much of nothing. What is known of ranges counts, too.
    """
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    channel = volume.channels[number]
    at, dims, page = _level(volume)
    counts = [-(-d // p) for d, p in zip(dims, page, strict=True)]
    wanted = max(1, SAMPLES // max(1, math.prod(page) * len(steps)))

    def values(pages: Sequence[tuple[int, int, int]]) -> Iterator[tuple[Values, float, float]]:
        for page, step in product(pages, steps):
            box = _page(volume, at, number, page, step)
            if box is None:
                continue
            found = channel.values(box).ravel().astype(np.float64)
            found = found[np.isfinite(found)]
            if found.size:
                yield found[::nth].copy(), float(found.min()), float(found.max())

    first = spread(counts, wanted)
    # Odd: rows of pages are not passed over at the same columns.
    nth = 1 if every else -(-math.prod(page) * len(first) * len(steps) // KEPT) | 1
    parts, low, high = [], math.inf, -math.inf
    for part, least, most in values(first):
        parts.append(part)
        low, high = min(low, least), max(high, most)
    if not parts:
        return np.zeros(0)
    found = np.concatenate(parts) if nth == 1 else np.concatenate([*parts, (low, high)])
    if low == high and math.prod(counts) > wanted:
        pair = volume.info()["channels"][number]["range"]
        if pair is not None and pair[0] < pair[1]:
            return np.append(found, pair)
        seen = set(first)
        for more, least, most in values([p for p in spread(counts, wanted * SEARCHED) if p not in seen]):
            if least < low or most > low:
                return np.append(found, [*more, least, most])
    return found


SEARCHED = 16
"""So many times as many pages are looked at where the first ones all hold one number."""


def is_whole(channel: VolumeChannel) -> bool:
    """Whether a channel's values are whole numbers."""
    return channel.dtype.kind in "iu" and channel.scale is None


def mean_range(volume: VolumeDataset, name: str, steps: Sequence[int]) -> tuple[float, float]:
    """The range in some time steps of the means along rays, which are far below the largest values: of some columns of pages,
    along the axis on which there are fewest.

    Pages that cannot be read are left out, as `sample` does."""
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    channel = volume.channels[number]
    at, dims, page = _level(volume)
    counts = [-(-d // p) for d, p in zip(dims, page, strict=True)]
    axis = counts.index(min(counts))
    deep = [n for n, *_ in spread((counts[axis], 1, 1), MOST_DEEP)]
    across = [1 if a == axis else count for a, count in enumerate(counts)]
    means = []
    columns = spread(across, max(1, SAMPLES // max(1, math.prod(page) * len(deep) * len(steps))))
    for column, step in product(columns, steps):
        sums: Values | None = None
        have: Values | None = None
        for n in deep:
            i, j, k = (n if a == axis else c for a, c in enumerate(column))
            box = _page(volume, at, number, (i, j, k), step)
            if box is None:
                continue
            found = channel.values(box).astype(np.float64)
            there = np.isfinite(found)
            total = np.where(there, found, 0.0).sum(axis=2 - axis)
            count = there.sum(axis=2 - axis).astype(np.float64)
            sums, have = (total, count) if sums is None or have is None else (sums + total, have + count)
        if sums is not None and have is not None:
            means.append(sums[have > 0] / have[have > 0])
    all_means = np.concatenate(means) if means else np.zeros(0)
    if not all_means.size:
        return (0.0, 1.0)
    low, high = (float(v) for v in np.percentile(all_means, (2.0, 99.9)))
    return _apart(low, high) or _about(low)


MOST_DEEP = 64
"""Pages of a column that are looked at for means."""


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


def extent(
    volume: VolumeDataset, name: str, values: Values, *, wide: bool = False, dips: bool = False
) -> tuple[float, float]:
    """The range that colours go over: what the format says, else that of nearly all values that are not background, which is
    what is low, or with `dips` what is high."""
    channel = next(c for c in volume.channels if c.name == name)
    if channel.limits is not None and channel.limits[0] < channel.limits[1]:
        return channel.limits
    if not values.size:
        return (0.0, 1.0)
    if dips:
        values = -values
    low, high = (float(v) for v in np.percentile(values, (0.5, 99.9) if wide else (2.0, 99.95)))
    if not wide:
        # What is half clear at the edge of what is seen is not black yet.
        split = min(threshold(values), high)
        low = max(split - FRINGE * (high - split), float(values.min()))
    low, high = _apart(low, high) or _apart(float(values.min()), float(values.max())) or _about(low)
    return (-high, -low) if dips else (low, high)


FRINGE = 0.25
"""Part of the range of colours that lies below what parts the background from what is seen, of what lies above."""


def _apart(low: float, high: float) -> tuple[float, float] | None:
    return (low, high) if low < high else None


def _about(value: float) -> tuple[float, float]:
    """A range with its only value in the middle."""
    half = 0.5 * max(abs(value), 1.0)
    return (value - half, value + half)


def _most(values: Values, low: float, high: float) -> tuple[float, float]:
    """Percentiles of values; where nearly all are one, the least and the largest, so that the few others are seen."""
    least, most = (float(v) for v in np.percentile(values, (low, high)))
    return _apart(least, most) or (float(values.min()), float(values.max()))


def threshold(values: Values) -> float:
    """What parts a histogram in two so that both parts are as even as can be (Otsu 1979).

    >>> threshold(np.repeat([0.0, 10.0], [900, 100]))
    5.0
    """
    low, high = _most(values, 0.1, 99.9)
    if not low < high:
        return low
    # Where numbers are so near each other that there are not as many between them.
    if not (np.diff(np.linspace(low, high, 257)) > 0).all():
        return 0.5 * low + 0.5 * high
    counts, edges = np.histogram(values, bins=256, range=(low, high))
    # In bins, so that squares of huge values stay finite.
    middle = np.arange(256) + 0.5
    below = np.cumsum(counts)
    above = below[-1] - below
    sums = np.cumsum(counts * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    between = np.where(np.isfinite(between), between, -1.0)
    # Where nothing lies between the two parts any place between them is as good: the middle, so that both are well apart from it.
    most = float(between.max())
    best = np.flatnonzero(between >= most - 1e-9 * abs(most))
    return float(0.5 * (edges[1 + best[0]] + edges[1 + best[-1]]))


def opacities(values: Values) -> list[tuple[float, float]]:
    """Nodes of an opacity that hides the background and lets one look some way into the rest."""
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
