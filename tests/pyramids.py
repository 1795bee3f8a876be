"""What a pyramid must hold, out of the definition alone, by NumPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
LAST_SIDE = 64


def shapes(dims: tuple[int, ...], spacing: tuple[float, ...], most: int | None = None) -> list[tuple[int, ...]]:
    """How many of the finest voxels lie along each axis in one of each level: an axis is halved unless its voxels are √2 times as
    far apart as along the finest axis that has more than one.
    """
    factors = [(1,) * len(dims)]
    while True:
        factor = factors[-1]
        now = [-(-n // f) for n, f in zip(dims, factor, strict=True)]
        if max(now) == 1 or (len(factors) >= most if most is not None else max(now) <= LAST_SIDE):
            return factors
        apart = [s * f for s, f in zip(spacing, factor, strict=True)]
        finest = min(a for a, n in zip(apart, now, strict=True) if n > 1)
        halved = [n > 1 and a < finest * math.sqrt(2) for a, n in zip(apart, now, strict=True)]
        factors.append(tuple(f * (2 if h else 1) for f, h in zip(factor, halved, strict=True)))


def parts(fine: Values, step: tuple[int, ...]) -> tuple[Values, NDArray[np.bool_]]:
    """Of each coarser voxel the finer ones, [..., part], and which of these there are. `fine` ends with the halved axes."""
    lead = fine.ndim - len(step)
    out = [-(-n // s) for n, s in zip(fine.shape[lead:], step, strict=True)]
    pad = [(0, 0)] * lead + [(0, o * s - n) for n, s, o in zip(fine.shape[lead:], step, out, strict=True)]
    there = np.pad(np.ones(fine.shape, bool), pad)
    whole = np.pad(fine, pad)

    def cut(a: Values) -> Values:
        split = a.reshape(*fine.shape[:lead], *(n for o, s in zip(out, step, strict=True) for n in (o, s)))
        order = [*range(lead), *range(lead, split.ndim, 2), *range(lead + 1, split.ndim, 2)]
        return split.transpose(order).reshape(*fine.shape[:lead], *out, -1)

    return cut(whole), cut(there)


def mean(fine: Values, step: tuple[int, ...], missing: float | None = None) -> Values:
    """The mean of the voxels that have a value: of whole numbers the nearest, halves to even."""
    values, there = parts(fine, step)
    first = values[..., 0]
    has = there & ~(np.isnan(values) if fine.dtype.kind == "f" else np.zeros(values.shape, bool))
    if missing is not None:
        has &= values != missing
    count = has.sum(axis=-1)
    if fine.dtype.kind == "f":
        total = np.where(has, values, 0).astype(np.float64)
        summed = np.zeros(count.shape)
        for n in range(total.shape[-1]):  # in this order, so that it is the same to the last bit
            summed = summed + total[..., n]
        found = summed / np.maximum(count, 1)
        return np.where(count == 0, first, found.astype(fine.dtype))
    sums = np.where(has, values, 0).astype(object).sum(axis=-1)
    out = np.empty(count.shape, fine.dtype)
    for at in np.ndindex(count.shape):
        n, total = int(count[at]), int(sums[at])
        if n == 0:
            out[at] = first[at]
            continue
        q, r = divmod(total, n)
        out[at] = q + (1 if 2 * r > n or (2 * r == n and q % 2) else 0)
    return out


def majority(fine: Values, step: tuple[int, ...]) -> Values:
    """What most voxels are; of several, the lowest."""
    values, there = parts(fine, step)
    flat, has = values.reshape(-1, values.shape[-1]), there.reshape(-1, values.shape[-1])
    out = np.empty(flat.shape[0], fine.dtype)
    for n, (row, own) in enumerate(zip(flat, has, strict=True)):
        found, counts = np.unique(row[own], return_counts=True)
        out[n] = found[np.argmax(counts)]
    return out.reshape(values.shape[:-1])


def levels(
    finest: Values,
    spacing: tuple[float, float, float],
    how: str = "mean",
    *,
    most: int | None = None,
    missing: float | None = None,
) -> list[Values]:
    """All levels of [..., z, y, x]; `spacing` is along z, y, x."""
    dims = finest.shape[-3:]
    found = [finest]
    factors = shapes(dims, spacing, most)
    for before, after in itertools.pairwise(factors):
        step = tuple(b // a for a, b in zip(before, after, strict=True))
        fine = found[-1]
        found.append(majority(fine, step) if how == "majority" else mean(fine, step, missing))
    return found
