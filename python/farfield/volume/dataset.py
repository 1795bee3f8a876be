"""Open volumes: regular grids of numbers or colours, at one or more levels of resolution.

Arrays run [z, y, x], as xarray shows them, after time and channel where there are several; indices count from 0. The `ijk` of
`probe_ijk` and of the command line count from 1, along x, y and z.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from farfield.dataset.contours import Surfaces
from farfield.dataset.indexing import Index, bounds_of
from farfield.errors import FarfieldError, UnknownName, UsageError
from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings
from farfield.runtime.sizes import resolve_limit
from farfield.sources.paths import elsewhere
from farfield.times.steps import TimeSteps
from farfield.volume import page_ranges, value_ranges
from farfield.volume.attribute_hints import VolumeWords
from farfield.volume.data_array import data_array
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.files import bytes_of_chunks
from farfield.volume.formats.options import Options
from farfield.volume.missing_values import of_json
from farfield.volume.native import Native, Triple
from farfield.volume.slices import VolumeSlices
from farfield.volume.space import Space, describe
from farfield.volume.values import VolumeChannel, VolumeProbe, between, in_memory, pair

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset

Path = str | os.PathLike[str]
_SLAB = 64 << 20
"""Bytes that are read at a time into an array of the caller."""
_VIEW = ("_level", "_channel", "_steps", "_one")
"""What a view is of."""


@dataclass(frozen=True)
class Opening:
    """How a volume was opened, and how it is opened again."""

    source: str
    """Its name, as it was given."""
    options: Options
    """What was said of it."""
    given: Mapping[str, Any]
    """Settings that it was opened with: they win over those of another machine."""
    again: Callable[..., VolumeDataset]
    """Opens it where a pickled one is loaded."""
    flow: Callable[[Opening, Settings], Dataset]
    """Opens its vector as a flow."""


class VolumeDataset(TimeSteps, Surfaces, VolumeSlices, VolumeWords):
    """A volume, or one level, channel or time step of it. Nothing is read before it is needed; a `repr` reads nothing.

    >>> import farfield as ff
    >>> volume = ff.open("demo:phantom")
    >>> volume
    <farfield.VolumeDataset ...: NRRD0005>
      voxels: 64 x 80 x 56 (x, y, z), scalar uint8; arrays are (z, y, x)
      spacing: 2.5 x 2.5 x 3 mm; i to L, j to P, k to S
      channels: phantom
    >>> volume[28, 40, 30:34]
    array([80, 80, 80, 80], dtype=uint8)

    Pickled, it is its name and how it was opened: where it is loaded it is opened again, with pages and a memory limit of its own.
    A process that was forked opens it again, too.
    """

    _is_volume = True

    def __init__(
        self, native: Native, description: VolumeDescription, cache_dir: pathlib.Path, opening: Opening
    ) -> None:
        self._native = native
        self._cache_dir = cache_dir
        self._description = description
        self._spec = description.spec
        self._level = 0
        self._channel: int | None = None
        self._info: dict[str, Any] | None = None
        self._opening = opening

    def _reads(self) -> list[str]:
        """Files that it reads."""
        return list(self._description.reads)

    def __copy__(self) -> Self:
        # A view, not what pickling makes: files, pages and memory limit are those of the whole.
        view = type(self).__new__(type(self))
        vars(view).update(vars(self))
        return view

    def __reduce__(self) -> tuple[Any, ...]:
        view = {name: value for name, value in vars(self).items() if name in _VIEW}
        opening = self._opening
        return opening.again, (elsewhere(opening.source), opening.given, opening.options, view)

    _view = __copy__

    @property
    def _levels(self) -> list[dict[str, Any]]:
        levels: list[dict[str, Any]] = self._spec["levels"]
        return levels

    @property
    def path(self) -> str:
        """What was opened."""
        return str(self._spec["path"])

    @property
    def format(self) -> str:
        """The format, as in `NIfTI-1`."""
        return str(self._spec["format"])

    @property
    def kind(self) -> str:
        """`scalar`, `rgb`, `rgba`, `channels` or `labels`."""
        return str(self._spec["kind"])

    @property
    def space(self) -> Space:
        """Where the voxels of this level lie."""
        level = self._levels[self._level]
        return Space(
            tuple(level["dims"]),
            tuple(level["origin"]),
            tuple(level["spacing"]),
            tuple(tuple(row) for row in self._spec["direction"]),
            self._spec["length_unit"],
            self._spec.get("anatomy"),
            self._description.axis_units,
        )

    @property
    def dims(self) -> tuple[str, ...]:
        """What the dimensions of `shape` are."""
        return tuple(name for name, _ in self._dimensions())

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions: (time, channel,) z, y, x; the channels of colours come last."""
        return tuple(length for _, length in self._dimensions())

    def _dimensions(self) -> list[tuple[str, int]]:
        i, j, k = self._levels[self._level]["dims"]
        found = [("z", int(k)), ("y", int(j)), ("x", int(i))]
        channels = len(self._spec["channels"])
        if self._channel is None and channels > 1:
            at = 3 if self.kind in ("rgb", "rgba") else 0
            found.insert(at, ("channel", channels))
        steps = self._selected_steps()
        if not self._one and len(steps) > 1:
            found.insert(0, ("time", len(steps)))
        return found

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers, as they are in memory."""
        chosen = self._chosen_channels()
        return np.result_type(*(c.dtype for n, c in enumerate(self.channels) if n in chosen))

    @property
    def levels(self) -> list[Triple]:
        """Voxels along x, y and z of each level, finest first."""
        return [(int(i), int(j), int(k)) for i, j, k in (level["dims"] for level in self._levels)]

    @property
    def channels(self) -> list[VolumeChannel]:
        """Its channels."""
        arrays = self._levels[self._level]["arrays"]
        types = {c: in_memory(a["dtype"]) for a in arrays for c in a["channels"]}
        return [
            VolumeChannel(
                c["name"],
                c["units"],
                types[n],
                c.get("color"),
                pair(c.get("limits")),
                pair(c.get("scale")),
                of_json(c.get("missing")),
                bool(c.get("inverted", False)),
            )
            for n, c in enumerate(self._spec["channels"])
        ]

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Distances between voxels along x, y and z, in `length_unit`."""
        return self.space.spacing

    @property
    def origin(self) -> tuple[float, float, float]:
        """Position of the centre of the first voxel."""
        return self.space.origin

    @property
    def direction(self) -> tuple[tuple[float, float, float], ...]:
        """Directions of the axes x, y and z of the array in space, each of length 1."""
        return self.space.direction

    @property
    def length_unit(self) -> str:
        """Unit of positions; `voxel` where nothing says one, `1` where axes have none in common."""
        return str(self._spec["length_unit"])

    @property
    def anatomy(self) -> str | None:
        """What +x, +y and +z of positions mean: three of R L A P S I; None where they mean no anatomy."""
        found = self._spec.get("anatomy")
        return None if found is None else str(found)

    @property
    def notes(self) -> list[str]:
        """What was taken for granted about its files, such as that nothing lies where a slice is missing in a folder.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").notes
        []
        """
        return list(self._spec["guessed"])

    def level(self, number: int) -> Self:
        """The volume at another level of resolution; 0 is the finest, -1 the coarsest.

        Raises:
            UsageError: if there is no such level.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").level(-1).shape
        (56, 80, 64)
        """
        count = len(self._levels)
        if isinstance(number, bool) or not isinstance(number, int) or not -count <= number < count:
            raise UsageError(
                f"{self.path}: there is no level {number!r}; there {'is 1' if count == 1 else f'are {count}'}, counted from 0"
            )
        view = self._view()
        view._level = number % count
        view._info = None
        return view

    def channel(self, name: str | int) -> Self:
        """One channel, by its name or number.

        Raises:
            UnknownName: if there is no such channel.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").channel("phantom").dims
        ('z', 'y', 'x')
        """
        names = [c["name"] for c in self._spec["channels"]]
        number = names.index(name) if name in names else name
        if isinstance(number, str) and number.isdigit():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or not -len(names) <= number < len(names):
            raise UnknownName(f"no channel named '{name}'; there are: {', '.join(names)}")
        view = self._view()
        view._channel = number % len(names)
        return view

    def _chosen_channels(self) -> list[int]:
        return list(range(len(self._spec["channels"]))) if self._channel is None else [self._channel]

    def _like(self, other: VolumeDataset) -> Self:
        """The level, channel and steps of this volume that are chosen of another, which is the same once more."""
        view = self._view()
        view._level, view._channel, view._steps, view._one = other._level, other._channel, other._steps, other._one
        return view

    def _selected_steps(self) -> range:
        return self._steps if self._steps is not None else range(max(1, len(self._spec["times"])))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a volume lies on disk: an array of it is always a copy")
        return np.asarray(self[...], dtype=dtype)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> NDArray[Any]:
        """A NumPy array of stored numbers; reads only the pages that hold what is asked for.

        Raises:
            IndexError: if an index is out of range, or of a kind other than int, slice and `...`.
        """
        bounds, rest, shape = bounds_of(index, self.shape)
        out = np.empty(shape, dtype=self.dtype)
        if 0 in shape:
            return out
        names = self.dims
        picks: dict[str, list[int]] = {}
        for name, (low, high), item in zip(names, bounds, rest, strict=True):
            picks[name] = list(range(low, high))[item] if isinstance(item, slice) else [low]
        full = tuple(len(picks[name]) for name in names)
        made = out.reshape(full)
        steps, channels = self._selected_steps(), self._chosen_channels()
        inner = [(bounds[n], rest[n]) for n in range(len(names)) if names[n] in "zyx"]
        for t, step in enumerate(picks.get("time", [0])):
            for c, channel in enumerate(picks.get("channel", [0])):
                where: list[Any] = [slice(None)] * len(names)
                for name, at in (("time", t), ("channel", c)):
                    if name in names:
                        where[names.index(name)] = at
                self._read(made[tuple(where)], channels[channel], steps[step], picks["z"], inner)
        return out

    def _read(
        self,
        into: NDArray[Any],
        channel: int,
        step: int,
        zs: list[int],
        inner: list[tuple[tuple[int, int], int | slice]],
    ) -> None:
        """Fills [z, y, x] with the voxels of these layers, some of them at a time: what is read beside the result stays small, and
        layers between those that are asked for are not read.
        """
        _, ((j0, j1), ys), ((i0, i1), xs) = inner
        layer = max(1, (j1 - j0) * (i1 - i0) * into.itemsize)
        apart = len(zs) > 1 and abs(zs[1] - zs[0]) > 1
        count = 1 if apart else max(1, _SLAB // layer)
        picks = (
            slice(None),
            ys if isinstance(ys, slice) else slice(None),
            xs if isinstance(xs, slice) else slice(None),
        )
        for start in range(0, len(zs), count):
            part = zs[start : start + count]
            low, high = min(part), max(part) + 1
            box = np.asarray(self._native.read_box(self._level, channel, (i0, j0, low), (i1, j1, high), step))
            into[start : start + count] = (box[::-1] if part[0] > part[-1] else box)[picks]

    def probe(self, position: Sequence[float]) -> VolumeProbe | None:
        """Values at a position in space, or None where it is outside of the volume.

        Raises:
            UsageError: if it is not three finite numbers, or two where the volume is one voxel thick along z.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").probe((80, 100, 84)).values
        {'phantom': 80.0}
        """
        where = self.space.place("a position", position)
        return self._probe(self.space.index_of(where), where)

    def probe_ijk(self, ijk: Sequence[float]) -> VolumeProbe | None:
        """As `probe`, at a place in voxels along x, y and z: 1-based, fractions are fine.

        Raises:
            UsageError: if it is not three finite numbers, or two where the volume is one voxel thick along z.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").probe_ijk((33, 41, 29)).position
        (80.0, 100.0, 84.0)
        """
        index = self.space.place("ijk", ijk, voxels=True) - 1
        return self._probe(index, self.space.position_of(index))

    def _probe(self, index: NDArray[np.float64], position: NDArray[np.float64]) -> VolumeProbe | None:
        dims = np.array(self.space.dims)
        # A volume one voxel thick is as thick as that voxel; otherwise it reaches from centre to centre.
        slack = np.where(dims == 1, 0.5, 1e-9 * dims)
        if not (np.all(index >= -slack) and np.all(index <= dims - 1 + slack)):
            return None
        at = np.clip(index, 0, dims - 1)
        nearest = self.kind in ("labels", "rgb", "rgba")
        low = np.minimum(np.floor(at + 0.5 if nearest else at).astype(int), dims - 1)
        fraction = np.zeros(3) if nearest else at - low
        # What counts for nothing is not read: it may be what cannot be.
        high = np.where(fraction == 0, low + 1, np.minimum(low + 2, dims))
        values, units, notes = {}, {"position": self.length_unit}, []
        channels = self.channels
        for n in self._chosen_channels():
            about = channels[n]
            box = self._native.read_box(self._level, n, _triple(low), _triple(high), self._step or 0)
            found = about.values(np.asarray(box))
            whole = found.reshape(-1)[0].item()
            # Numbers of 64 bits that no floating-point number is stay what they are.
            exact = nearest or (found.size == 1 and float(whole) != whole and not math.isnan(whole))
            values[about.name] = whole if exact else between(found, fraction)
            units[about.name] = about.units
            if isinstance(values[about.name], float) and math.isnan(values[about.name]):
                notes.append(f"{about.name} has no value there")
        ijk, place = (tuple(float(v) for v in triple) for triple in (at + 1, position))
        return VolumeProbe(
            (ijk[0], ijk[1], ijk[2]), (place[0], place[1], place[2]), values, units, "; ".join(notes) or None
        )

    def flow(self) -> Dataset:
        """The vector of the volume as a flow: a dataset of one zone, whose field `velocity` is made of three numbers a voxel, or of
        the variables u, v and w of its file. It is converted into the cache first.

        Raises:
            UsageError: if there is no vector in it.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").flow()
        Traceback (most recent call last):
        farfield.errors.UsageError: ...: this is a volume of 1 number a voxel, ...
        """
        return self._opening.flow(self._opening, Settings({"memory_limit": self.memory_limit}))

    def info(self, *, ranges: bool = False, progress: bool | Report | None = None) -> dict[str, Any]:
        """What `farfield info --json` prints.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").info()["format"]
        'NRRD0005'

        Args:
            ranges: Find the ranges of all pages by one bounded pass if they are not known, and keep them in the cache: whatever
                opens the volume after that passes over pages that show nothing.
            progress: As in `farfield.open`.

        Raises:
            DataError: if ranges are asked for and cannot be kept, as on a full disk.
        """
        if ranges and self._description.seen is None:
            folder = page_ranges.folder_of(self._description, self._cache_dir)
            with reporting(progress) as report:
                found = self._native.build_ranges(self._description.tables, str(folder), progress=report)
            seen, failed = page_ranges.seen_of(found), page_ranges.failed_of(found)
            self._description = replace(self._description, seen=seen, ranges_failed=failed)
            self._info = None
        if ranges and self._info is not None and not self._info["ranges_known"]:
            self._info = None
        if self._info is None:
            self._info = describe(
                self._spec, self.space, json.loads(self._native.info()), self.channels, self._seen(ranges, progress)
            )
            self._info["ranges_failed"] = self._description.ranges_failed
            self._info["ranges_known"] = value_ranges.are_known(self._description, self._cache_dir)
            self._info["labels"] = list(self._description.labels)
            self._info["contents"] = list(self._description.contents)
            self._info["notes"] = self.notes
            if not self._info["bytes_disk"] or self._description.bytes_disk is not None:
                counted = self._description.bytes_disk
                self._info["bytes_disk"] = bytes_of_chunks(self._spec) if counted is None else counted
        return self._info

    def _seen(self, find: bool, progress: bool | Report | None) -> Sequence[page_ranges.Seen] | None:
        """Lowest and highest stored value of each channel; missing ones are none."""
        described, folder = self._description, self._cache_dir

        def found() -> dict[int, page_ranges.Seen]:
            with reporting(progress) as report:
                return value_ranges.find(described, self._native, folder, report)

        return value_ranges.ranges(described, folder, found if find else None)

    def stats(self) -> dict[str, Any]:
        """What was read and held since the volume was opened: STATS of `farfield/_native.pyi`.

        >>> import farfield as ff
        >>> volume = ff.open("demo:phantom", memory_limit="64MiB")
        >>> int(volume[28, 40, 32]), volume.stats()["pages"]["touched"], volume.stats()["limit_bytes"]
        (80, 1, 67108864)
        """
        return self._description.counted(json.loads(self._native.stats()))

    @property
    def memory_limit(self) -> int:
        """The memory limit in bytes."""
        return int(self.stats()["limit_bytes"])

    def set_memory_limit(self, limit: str | int) -> None:
        """Raises or lowers the memory limit of the open volume.

        Raises:
            MemoryLimitError: if it is below what any run needs.

        >>> import farfield as ff
        >>> volume = ff.open("demo:phantom", memory_limit="64MiB")
        >>> volume.set_memory_limit("16MiB")
        """
        self._native.set_memory_limit(resolve_limit(limit))

    def to_xarray(self) -> Any:
        """An `xarray.DataArray` that reads pages when its numbers are asked for; scaled and with NaN where values are missing.

        Raises:
            ImportError: if xarray is not installed.

        >>> import farfield as ff
        >>> array = ff.open("demo:phantom").to_xarray()
        >>> array.dims, float(array.sel(z=84, y=100, x=80))
        (('z', 'y', 'x'), 80.0)
        """
        return data_array(self)

    def close(self) -> None:
        """Gives memory back and ends the log of events; twice is fine.

        Raises:
            DataError: if the log of events could not be written whole.

        >>> import farfield as ff
        >>> volume = ff.open("demo:phantom")
        >>> volume.close()
        >>> volume.close()
        """
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FarfieldError:
            # Of two errors the first one says what went wrong.
            if error is None:
                raise

    def __repr__(self) -> str:
        space = self.space
        rows = [f"<farfield.VolumeDataset {self.path}: {self.format}>"]
        where = f", level {self._level} of {len(self._levels)}" if self._level else ""
        rows.append(
            f"  voxels: {space.dims_text()} (x, y, z), {self.kind} {self.dtype}{where}; arrays are ({', '.join(self.dims)})"
        )
        rows.append(f"  spacing: {space.spacing_text()}{space.orientation_text()}")
        chosen = [c.name for n, c in enumerate(self.channels) if n in self._chosen_channels()]
        rows.append(f"  channels: {', '.join(chosen)}")
        if len(self._levels) > 1:
            rows.append(f"  levels: {len(self._levels)}, down to {' x '.join(map(str, self.levels[-1]))}")
        steps = self._selected_steps()
        if len(self._spec["times"]) > 1:
            times = self._spec["times"]
            rows.append(
                f"  times: {len(steps)}, {times[steps[0]]:g} to {times[steps[-1]]:g} [{self._spec['time_units']}]"
            )
        return "\n".join(rows)


def _triple(values: NDArray[Any]) -> Triple:
    return int(values[0]), int(values[1]), int(values[2])
