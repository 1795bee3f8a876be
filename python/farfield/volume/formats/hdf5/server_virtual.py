"""Virtual datasets of HDF5 files at servers. The library opens their sources on this machine alone, so that their parts are put
together here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.description import text_of

_ENDLESS = 1 << 62
"""What the library says instead of a number without end."""


@dataclass(frozen=True)
class _Part:
    """A box of a virtual dataset, and where its numbers are."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    file: str
    name: str
    start: tuple[int, ...]
    """The first of them in their own dataset."""
    axes: dict[int, int]
    """Of each dimension of that dataset that is longer than 1: the dimension here."""


class Virtual:
    """The numbers of a virtual dataset, read box by box as those of an h5py dataset."""

    chunks = None

    def __init__(self, h5py: Any, where: str, path: str, dataset: Any, plan: Any) -> None:
        self.shape, self.dtype = tuple(int(n) for n in dataset.shape), dataset.dtype
        self._h5py, self._fill = h5py, dataset.fillvalue
        names = [plan.get_virtual_filename(n) for n in range(plan.get_virtual_count())]
        files = [path if name == "." else places.join(places.dirname(path), name.replace("%%", "%")) for name in names]
        if any("%" in name.replace("%%", "") for name in names):
            raise _refused(where, "files that are numbered")
        places.prefetch_stats(files)
        self._parts = [_part(h5py, where, self.shape, plan, n, file) for n, file in enumerate(files)]

    @property
    def files(self) -> list[str]:
        """The files of its parts."""
        return list(dict.fromkeys(part.file for part in self._parts))

    @property
    def lacking(self) -> int:
        """Numbers that no part of it holds."""
        sizes = [math.prod(b - a for a, b in zip(part.low, part.high, strict=True)) for part in self._parts]
        return max(0, math.prod(self.shape) - sum(sizes))

    def __getitem__(self, box: tuple[slice, ...]) -> NDArray[Any]:
        low, high = [int(side.start) for side in box], [int(side.stop) for side in box]
        found = np.full([b - a for a, b in zip(low, high, strict=True)], self._fill, self.dtype)
        for part in self._parts:
            first = [max(pair) for pair in zip(low, part.low, strict=True)]
            end = [min(pair) for pair in zip(high, part.high, strict=True)]
            if all(a < b for a, b in zip(first, end, strict=True)):
                here = tuple(slice(a - of, b - of) for a, b, of in zip(first, end, low, strict=True))
                found[here] = self._read(part, first, end).reshape(found[here].shape)
        return found

    def _read(self, part: _Part, first: Sequence[int], end: Sequence[int]) -> NDArray[Any]:
        sides = []
        for n, start in enumerate(part.start):
            axis = part.axes.get(n)
            before, count = (0, 1) if axis is None else (first[axis] - part.low[axis], end[axis] - first[axis])
            sides.append(slice(start + before, start + before + count))
        with self._h5py.File(places.for_library(part.file), "r", locking=False) as file:
            return np.asarray(file[part.name][tuple(sides)])


def _part(h5py: Any, where: str, shape: tuple[int, ...], plan: Any, number: int, file: str) -> _Part:
    """A part of a virtual dataset.

    Raises:
        DataError: if it is not there or too short, which the library would fill without a word; or if it is no box.
    """
    name, space = plan.get_virtual_dsetname(number), plan.get_virtual_srcspace(number)
    if "%" in name:
        raise _refused(where, "datasets that are numbered")
    if not places.isfile(file):
        raise DataError(f"{where}: a part of it lies in {file}, which is not there; copy that file beside it")
    with h5py.File(places.for_library(file), "r", locking=False) as opened:
        if name not in opened:
            raise DataError(f"{where}: a part of it is {name} of {file}, which is not there; write it again")
        own = tuple(int(n) for n in opened[name].shape)
    low, high = _box(h5py, where, plan.get_virtual_vspace(number), shape)
    lengths = [b - a for a, b in zip(low, high, strict=True)]
    # A source that is taken whole is as large as it is in its file.
    start, end = _box(h5py, where, space, own)
    is_short = len(end) != len(own) or any(n > most for n, most in zip(end, own, strict=False))
    if is_short or math.prod(own) < math.prod(lengths):
        raise DataError(
            f"{where}: a part of it are {math.prod(lengths):,} numbers of {name} in {file}, which has {text_of(own)}; write it "
            "again, or copy all of that file"
        )
    here = [n for n, length in enumerate(lengths) if length > 1]
    there = [n for n, (a, b) in enumerate(zip(start, end, strict=True)) if b - a > 1]
    if [lengths[n] for n in here] != [end[n] - start[n] for n in there]:
        raise _refused(where, "boxes of other shapes than their sources")
    return _Part(low, high, file, name, start, dict(zip(there, here, strict=True)))


def _box(h5py: Any, where: str, space: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first place of a selection and its end."""
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        return (0,) * len(shape), shape
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        raise _refused(where, "selections that are no boxes")
    start, stride, count, block = (tuple(int(n) for n in part) for part in space.get_regular_hyperslab())
    if any(n > 1 and s != b for n, s, b in zip(count, stride, block, strict=True)):
        raise _refused(where, "selections with gaps")
    end = tuple(a + n * b for a, n, b in zip(start, count, block, strict=True))
    if any(n >= _ENDLESS for n in (*count, *block)):
        raise _refused(where, "selections without end")
    return start, end


def _refused(where: str, what: str) -> DataError:
    return DataError(
        f"{where}: its parts are {what}, which are not put together from a server; copy all of its files here"
    )
