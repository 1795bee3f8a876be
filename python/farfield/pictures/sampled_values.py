"""Samples of a volume's values, from boxes spread over it, to choose its appearance.

The places of the boxes depend on the number of voxels, never on pages. So a volume looks the same however it is
stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import AccessError, DataError, MemoryLimitError
from farfield.sources.addresses import is_remote

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset

Values = NDArray[np.float64]
Triple = tuple[int, int, int]
Box = tuple[Triple, Triple]
"""The first voxel of a box along i, j, k, and the end, exclusive."""

SAMPLES = 1 << 21
"""Largest number of values of a level that are all read; larger levels are sampled by boxes."""
BOXES = 64
"""Number of these boxes."""
SEARCHED = 16
"""Factor for the number of boxes if the first ones all hold one value."""
SIDES = (32, 16, 16)
"""Voxels of a box: it is within one page of customary sizes, in files and in stores."""
LAYERS = 1 << 26
"""Approximate bound on voxels of all slices with boxes: if each slice is a page or a file, all of it is read."""
PIECE = 1 << 15
"""Voxels per read."""
AT_ONCE = 16
"""Boxes that are read at once at a server."""
KEPT = 1 << 16
"""Number of values to keep. They are not charged to the ledger: all values and a copy took 20 MiB beyond a limit of 4
MiB."""


def _level(volume: VolumeDataset) -> tuple[int, Triple]:
    """The coarsest level with enough values, and its dimensions."""
    levels = volume.info()["levels"]
    enough = [n for n, level in enumerate(levels) if math.prod(level["dims"]) >= SAMPLES // 32]
    at = enough[-1] if enough else 0
    i, j, k = levels[at]["dims"]
    return at, (i, j, k)


def _box(volume: VolumeDataset, level: int, channel: int, box: Box, step: int) -> NDArray[Any] | None:
    """The numbers of a box, [k, j, i]; None if it cannot be read."""
    try:
        return read_box(volume, level, channel, box, step)
    except (DataError, AccessError):
        return None


def read_box(volume: VolumeDataset, level: int, channel: int, box: Box, step: int) -> NDArray[Any]:
    """As `_box`, but raises the error.

    Raises:
        MemoryLimitError: if a single page exceeds the limit.
    """
    try:
        return volume._native.read_box(level, channel, *box, step)
    except MemoryLimitError:
        # The limit may hold each page, but not all at once.
        parts = _of_pages(volume, level, box)
        if len(parts) == 1:
            raise
    lo, hi = box
    found = np.empty([b - a for a, b in zip(reversed(lo), reversed(hi), strict=True)], volume.channels[channel].dtype)
    for part in parts:
        found[_within(part, box)] = volume._native.read_box(level, channel, *part, step)
    return found


def _of_pages(volume: VolumeDataset, level: int, box: Box) -> list[Box]:
    """The parts of a box in single pages."""
    page = volume.info()["levels"][level]["page"]
    edges = [[a, *range((a // p + 1) * p, b, p), b] for a, b, p in zip(*box, page, strict=True)]
    places = product(*(list(pairwise(e)) for e in reversed(edges)))
    return [((i[0], j[0], k[0]), (i[1], j[1], k[1])) for k, j, i in places]


def _within(part: Box, box: Box) -> tuple[slice, slice, slice]:
    """The place of a part within the array of its box."""
    i, j, k = (slice(a - o, b - o) for a, b, o in zip(*part, box[0], strict=True))
    return k, j, i


def _parts(volume: VolumeDataset, level: int, channel: int, box: Box, step: int) -> Iterator[tuple[Box, NDArray[Any]]]:
    """The numbers of a box, or else of its readable parts: a failed page omits only its own values."""
    found = _box(volume, level, channel, box, step)
    if found is not None:
        yield box, found
        return
    for part in _of_pages(volume, level, box):
        if part != box and (found := _box(volume, level, channel, part, step)) is not None:
            yield part, found


def _all_parts(
    volume: VolumeDataset, level: int, channel: int, asked: Sequence[tuple[Box, int]]
) -> Iterator[NDArray[Any]]:
    """The numbers of boxes at steps, in their order; at a server several at once, for each box is a round trip or two."""

    def of(one: tuple[Box, int]) -> list[NDArray[Any]]:
        return [part for _, part in _parts(volume, level, channel, *one)]

    if not is_remote(volume.path):
        for one in asked:
            yield from (part for _, part in _parts(volume, level, channel, *one))
        return
    from concurrent.futures import ThreadPoolExecutor  # the command line imports this module for its help

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="samples") as pool:
        for n in range(0, len(asked), AT_ONCE):
            for parts in pool.map(of, asked[n : n + AT_ONCE]):
                yield from parts


def sample(volume: VolumeDataset, name: str, steps: Sequence[int]) -> Values:
    """Samples a channel in some time steps, from the coarsest level with enough values: every n-th value, and the least
    and the largest value read.

    Unreadable pages are skipped, since drawing reports them. If all values are equal, more boxes are searched for
    another, because objects may be small. A known range counts, too.
    """
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    channel = volume.channels[number]
    at, dims = _level(volume)

    def values(boxes: Sequence[Box]) -> Iterator[tuple[Values, float, float]]:
        for part in _all_parts(volume, at, number, list(product(boxes, steps))):
            found = channel.values(part).ravel().astype(np.float64)
            found = found[np.isfinite(found)]
            if found.size:
                np.clip(found, -LARGEST, LARGEST, out=found)
                yield found[::nth].copy(), float(found.min()), float(found.max())

    first = looked_at(dims, len(steps))
    # Odd, so that samples of successive rows have different columns.
    nth = -(-sum(map(_size, first)) * len(steps) // KEPT) | 1
    parts, low, high = [], math.inf, -math.inf
    for part, least, most in values(first):
        parts.append(part)
        low, high = min(low, least), max(high, most)
    if not parts:
        return np.zeros(0)
    found = np.concatenate(parts) if nth == 1 else np.concatenate([*parts, (low, high)])
    if low == high and sum(map(_size, first)) < math.prod(dims):
        seen = set(first)
        for more, least, most in values(
            [b for b in spread(dims, max(1, BOXES * SEARCHED // len(steps))) if b not in seen]
        ):
            if least < low or most > low:
                return np.append(found, [*more, least, most])
        # Last, because some volumes have no known range.
        pair = volume.info()["channels"][number]["range"]
        if pair is not None and pair[0] < pair[1]:
            return np.append(found, pair)
    return found


def is_met(volume: VolumeDataset, name: str, steps: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether any of the labels is among the values that `sample` reads. Only one box is in memory at a time. True if
    no box is readable."""
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    at, dims = _level(volume)
    is_known = False
    for box, step in product(looked_at(dims, len(steps)), steps):
        for _, part in _parts(volume, at, number, box, step):
            is_known = True
            found = volume.channels[number].values(part)
            if np.isin(found, _as_held(wanted, found.dtype)).any():
                return True
    return not is_known


def _as_held(wanted: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The labels that the type can hold, as an array of it. As floats, different labels of 64 bits could become
    equal."""
    if dtype.kind not in "iu":
        return np.array(wanted, dtype=np.float64)
    known = np.iinfo(dtype)
    return np.array([n for n in wanted if known.min <= n <= known.max], dtype=dtype)


def mean_range(volume: VolumeDataset, name: str, steps: Sequence[int], *, largest: bool = False) -> tuple[float, float]:
    """The range of means along rays in some time steps, which are far below the largest values. With `largest`, the
    range of maxima along rays, which are far above most values. Both come from columns of boxes along the shortest
    axis.

    Unreadable pages are skipped, as in `sample`.
    """
    number = next(n for n, c in enumerate(volume.channels) if c.name == name)
    at, dims = _level(volume)
    sides = _sides(dims)
    axis = dims.index(min(dims))
    most_deep = min(MOST_DEEP, max(1, LAYERS // (sides[2] * dims[0] * dims[1]))) if axis == 2 else MOST_DEEP
    deep = _evenly(-(-dims[axis] // sides[axis]), most_deep)
    across = [1 if a == axis else -(-n // side) for a, (n, side) in enumerate(zip(dims, sides, strict=True))]
    enough = max(1, 2 * BOXES // (len(deep) * len(steps)))
    if math.prod(dims) * len(steps) <= SAMPLES:
        enough = math.prod(across)
    means = []
    for column, step in product(_places(across, enough), steps):
        boxes = [_at([n if a == axis else c for a, c in enumerate(column)], sides, dims) for n in deep]
        sums, have = np.zeros(()), np.zeros(())
        for box in boxes:
            found = _with_gaps(volume, at, number, box, step)
            there = np.isfinite(found)
            if largest:
                most = np.where(there, found, -np.inf).max(axis=2 - axis)
                sums = np.maximum(sums, most) if have.ndim else most
                have = have + there.any(axis=2 - axis)
                continue
            sums = sums + np.where(there, found, 0.0).sum(axis=2 - axis)
            have = have + there.sum(axis=2 - axis)
        means.append(sums[have > 0] if largest else sums[have > 0] / have[have > 0])
    all_means = np.concatenate(means)
    if not all_means.size:
        return (0.0, 1.0)
    low, high = (float(v) for v in np.percentile(all_means, (2.0, 99.9)))
    if largest:
        high = float(all_means.max())
    return rising(low, high) or around(low)


def _with_gaps(volume: VolumeDataset, level: int, channel: int, box: Box, step: int) -> Values:
    """The values of a box, NaN for unreadable ones."""
    lo, hi = box
    found = np.full([b - a for a, b in zip(reversed(lo), reversed(hi), strict=True)], np.nan)
    for part, numbers in _parts(volume, level, channel, box, step):
        found[_within(part, box)] = volume.channels[channel].values(numbers)
    return found


LARGEST = 1e38
"""Bound that replaces larger values, since ranges and opacities are in single precision."""
MOST_DEEP = 64
"""Largest number of boxes in a column for means."""


def looked_at(dims: Triple, steps: int = 1) -> list[Box]:
    """The boxes of a level to sample: all of it, in pieces, or some spread over it.

    >>> looked_at((300, 40, 2)), len(looked_at((512, 512, 512)))
    ([((0, 0, 0), (300, 40, 2))], 64)
    """
    if math.prod(dims) * steps > SAMPLES:
        return spread(dims, max(1, BOXES // steps))
    sides = [min(side, n) for side, n in zip(SIDES, dims, strict=True)]
    for axis in range(3):
        sides[axis] = min(dims[axis], max(sides[axis], PIECE * sides[axis] // math.prod(sides)))
    i, j, k = (range(0, n, side) for n, side in zip(dims, sides, strict=True))
    ends = [side * (n > 0) for side, n in zip(sides, dims, strict=True)]
    return [_clipped((x, y, z), ends, dims) for z in k for y in j for x in i]


def spread(dims: Triple, wanted: int) -> list[Box]:
    """At most `wanted` boxes of a level, evenly spread over all three axes; all boxes if there are fewer.

    They lie in few layers along k, at even distances, so that a volume stored by slices needs few reads.

    >>> spread((40, 16, 3), 9)
    [((0, 0, 0), (32, 16, 3)), ((32, 0, 0), (40, 16, 3))]
    >>> found = spread((512, 512, 512), 64)
    >>> len(found), len({lo[2] for lo, _ in found}), found[0]
    (64, 8, ((128, 32, 32), (160, 48, 48)))
    """
    sides = _sides(dims)
    counts = [-(-n // side) for n, side in zip(dims, sides, strict=True)]
    return [_at(place, sides, dims) for place in _places(counts, wanted)]


def _sides(dims: Triple) -> Triple:
    """Dimensions of a box in a level: the larger the slices, the fewer of them a box spans."""
    i, j, k = SIDES
    fit = LAYERS // (math.isqrt(BOXES) * dims[0] * dims[1])
    return i, j, min(k, 1 << max(0, fit.bit_length() - 1))


def _places(counts: Sequence[int], wanted: int) -> list[Triple]:
    """At most `wanted` places of a grid of `counts` along i, j, k, in layers along k.

    Places within a layer are at multiples of 1/g and 1/g^2 with g^3 = g + 1, continued across layers. They fill a
    square evenly, whatever their number (Roberts 2018). Steps of equal size do not: if a step is a multiple of a row,
    all places are at one end of it, in the air beside the object.

    >>> _places((2, 1, 2), 9)
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    >>> found = _places((32, 32, 32), 64)
    >>> len(set(found)), [len({place[a] for place in found}) for a in range(3)]
    (64, [32, 27, 8])
    """
    ni, nj, nk = counts
    if ni * nj * nk <= wanted:
        return list(_whole(ni, nj, nk))
    layers = min(nk, math.isqrt(wanted))
    each = min(ni * nj, wanted // layers)
    # A long and narrow volume has few places per layer.
    layers = min(nk, wanted // each)
    g = 1.324717957244746
    found: dict[Triple, None] = {}
    for n, k in enumerate(_evenly(nk, layers)):
        if each == ni * nj:
            found |= dict.fromkeys((i, j, k) for i, j, _ in _whole(ni, nj, 1))
            continue
        for m in range(n * each, (n + 1) * each):
            i, j = (int((0.5 + (m + 1) / g**a) % 1.0 * count) for a, count in ((1, ni), (2, nj)))
            found[i, j, k] = None
    return list(found)


def _whole(ni: int, nj: int, nk: int) -> Iterator[Triple]:
    return ((i, j, k) for k in range(nk) for j in range(nj) for i in range(ni))


def _evenly(count: int, wanted: int) -> list[int]:
    """At most `wanted` of the numbers below `count`, in the middle of equal parts.

    >>> _evenly(3, 5), _evenly(32, 4)
    ([0, 1, 2], [4, 12, 20, 28])
    """
    return list(range(count)) if count <= wanted else [(2 * n + 1) * count // (2 * wanted) for n in range(wanted)]


def _at(place: Sequence[int], sides: Sequence[int], dims: Triple) -> Box:
    """The box at a place of the grid of boxes."""
    i, j, k = (n * side for n, side in zip(place, sides, strict=True))
    return _clipped((i, j, k), sides, dims)


def _clipped(lo: Triple, sides: Sequence[int], dims: Triple) -> Box:
    i, j, k = (min(a + side, n) for a, side, n in zip(lo, sides, dims, strict=True))
    return lo, (i, j, k)


def _size(box: Box) -> int:
    """Number of voxels of a box."""
    return math.prod(b - a for a, b in zip(*box, strict=True))


def rising(low: float, high: float) -> tuple[float, float] | None:
    """Two values as a range; None if they do not rise."""
    return (low, high) if low < high else None


def around(value: float) -> tuple[float, float]:
    """A range around a single value."""
    half = 0.5 * max(abs(value), 1.0)
    return (value - half, value + half)
