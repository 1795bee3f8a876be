"""Open volumes: regular grids of numbers or colours, at one or more levels of resolution.

Arrays run [z, y, x], as in xarray, after time and channel if there are several; indices count from 0. The `ijk` of
`probe_ijk` and of the command line count from 1, along x, y and z.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from farfield.dataset.field_names import field_names
from farfield.dataset.indexing import Index, bounds_of
from farfield.dataset.kinds import OF_FLOWS
from farfield.dataset.memory import SLAB
from farfield.errors import UsageError
from farfield.flow.dataset import Dataset
from farfield.pictures.slices import Slicing
from farfield.pictures.volume_slices import VolumeSlicing
from farfield.runtime.progress import Report, reporting
from farfield.sources.paths import elsewhere
from farfield.volume import page_ranges, value_ranges
from farfield.volume.abilities import Opening, VolumeAbilities
from farfield.volume.arrays import data_array, image_data
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.files import bytes_of_chunks
from farfield.volume.native import Native, Triple
from farfield.volume.space import describe
from farfield.volume.values import VolumeProbe, between

_VIEW = ("_level", "_channel", "_steps", "_one")
"""Attributes that distinguish a view."""


class VolumeDataset(Dataset, VolumeAbilities):
    """A volume, or a view of one level, channel or time step. It reads on demand; a `repr` reads nothing.

    >>> import farfield as ff
    >>> volume = ff.open("demo:phantom")
    >>> volume
    <farfield.VolumeDataset ...: NRRD0005>
      voxels: 64 x 80 x 56 (x, y, z), scalar uint8; arrays are (z, y, x)
      spacing: 2.5 x 2.5 x 3 mm; i to L, j to P, k to S
      channels: phantom
    >>> volume[28, 40, 30:34]
    array([80, 80, 80, 80], dtype=uint8)

    A pickle holds the name and the options of opening. Loading it opens the volume again, with its own pages and
    memory limit. A forked process opens it again, too.
    """

    _native: Native  # type: ignore[assignment] # what is asked of it differs from what zones are asked

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

    if not TYPE_CHECKING:  # type checkers see the members of both kinds

        def __getattribute__(self, name: str) -> Any:
            if name in OF_FLOWS:
                raise AttributeError(name)  # so that Python calls `__getattr__`
            return super().__getattribute__(name)

        def __getattr__(self, name: str) -> Any:
            way = "; of a volume of vectors .flow() makes a flow, which has: volume.flow()." if name in OF_FLOWS else ""
            text = f"'{type(self).__name__}' object has no attribute '{name}'{way}{name if way else ''}"
            raise AttributeError(text, name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_FLOWS]

    @property
    def _name(self) -> str:
        return self.path

    def _reads(self) -> list[str]:
        return list(self._description.reads)

    def _counted(self, found: dict[str, Any]) -> dict[str, Any]:
        return self._description.counted(found)

    @property
    def _slicing(self) -> Slicing:
        return VolumeSlicing(self)

    def _channel_names(self) -> list[str]:
        return self.fields

    def _sampled(self) -> list[str]:
        return self.fields

    def _contour_options(self) -> dict[str, Any]:
        return {"level": self._level}

    def _preview_field(self) -> str | None:
        return None

    def _logged(self) -> str | None:
        return None

    def _box(self, progress: bool | Report | None = False) -> Sequence[Sequence[float]]:
        return self.space.box

    @property
    def fields(self) -> list[str]:
        """Names of the channels, or of the view's channel."""
        names = [c["name"] for c in self._spec["channels"]]
        return [names[n] for n in self._chosen_channels()]

    @property
    def n_points(self) -> int:
        """Number of voxels of the level in one time step."""
        return math.prod(self.space.dims)

    def _keys(self) -> list[str]:
        return [c["name"] for c in self._spec["channels"]]

    def __copy__(self) -> Self:
        # Unlike a loaded pickle, a view shares files, pages and memory limit with the whole.
        view = type(self).__new__(type(self))
        vars(view).update(vars(self))
        return view

    def __reduce__(self) -> tuple[Any, ...]:
        view = {name: value for name, value in vars(self).items() if name in _VIEW}
        opening = self._opening
        return opening.again, (elsewhere(opening.source), opening.given, opening.options, view)

    _view = __copy__

    def _whole(self) -> Self:
        """The whole volume at its finest level."""
        view = self._view()
        view._level, view._channel, view._steps, view._one, view._info = 0, None, None, False, None
        return view

    def _like(self, other: VolumeDataset) -> Self:
        """A view of this volume with the level, channel and steps of another one of the same source."""
        view = self._view()
        view._level, view._channel, view._steps, view._one = other._level, other._channel, other._steps, other._one
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a volume lies on disk: an array of it is always a copy")
        return np.asarray(self[...], dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[n] for n in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return value in self._keys() if isinstance(value, str) else any(bool(np.any(part == value)) for part in self)

    @overload  # type: ignore[override] # a channel is indexed as a field is
    def __getitem__(self, index: str) -> Self: ...

    @overload
    def __getitem__(self, index: Index | tuple[Index, ...]) -> NDArray[Any]: ...

    def __getitem__(self, index: Any) -> Any:
        """A NumPy array of stored numbers, for which only pages around the index are read; or a channel, by its name.

        Raises:
            IndexError: if an index is out of range or is not an int, slice, `...` or text.
            UnknownName: if the channel does not exist.
        """
        if isinstance(index, str):
            return self.channel(index)
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
        """Fills [z, y, x] with the voxels of these layers, in slabs that bound the memory beside the result. Layers in
        between are not read."""
        _, ((j0, j1), ys), ((i0, i1), xs) = inner
        layer = max(1, (j1 - j0) * (i1 - i0) * into.itemsize)
        apart = len(zs) > 1 and abs(zs[1] - zs[0]) > 1
        count = 1 if apart else max(1, SLAB // layer)
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

    def probe(  # type: ignore[override] # a place of a volume has all that one of a zone has, but the zone
        self, position: Sequence[float], *, fields: Sequence[str] | None = None
    ) -> VolumeProbe | None:
        """Values at a position in space; None outside of the volume. `fields` are channels; None: those of the view.

        Raises:
            UsageError: if the position is not three finite numbers, or two for a volume one voxel thick along z.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").probe((80, 100, 84)).values
        {'phantom': 80.0}
        """
        where = self.space.place("a position", position)
        return self._probe(self.space.index_of(where), where, fields)

    def probe_ijk(  # type: ignore[override] # there is no zone to name
        self, ijk: Sequence[float], *, fields: Sequence[str] | None = None
    ) -> VolumeProbe | None:
        """As `probe`, at a 1-based place in voxels along x, y and z; fractions are valid.

        Raises:
            UsageError: if the place is not three finite numbers, or two for a volume one voxel thick along z.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").probe_ijk((33, 41, 29)).position
        (80.0, 100.0, 84.0)
        """
        index = self.space.place("ijk", ijk, voxels=True) - 1
        return self._probe(index, self.space.position_of(index), fields)

    def _probe(
        self, index: NDArray[np.float64], position: NDArray[np.float64], fields: Sequence[str] | None
    ) -> VolumeProbe | None:
        wanted = self._chosen_channels() if fields is None else [self.channel(f)._channel or 0 for f in fields]
        dims = np.array(self.space.dims)
        # An axis of one voxel has that voxel's thickness; others extend from centre to centre.
        slack = np.where(dims == 1, 0.5, 1e-9 * dims)
        if not (np.all(index >= -slack) and np.all(index <= dims - 1 + slack)):
            return None
        at = np.clip(index, 0, dims - 1)
        nearest = self.kind in ("labels", "rgb", "rgba")
        low = np.minimum(np.floor(at + 0.5 if nearest else at).astype(int), dims - 1)
        fraction = np.zeros(3) if nearest else at - low
        # Voxels of weight 0 are not read, since their pages may be unreadable.
        high = np.where(fraction == 0, low + 1, np.minimum(low + 2, dims))
        values, units, notes = {}, {"position": self.length_unit}, []
        channels = self.channels
        for n in wanted:
            about = channels[n]
            box = self._native.read_box(self._level, n, _triple(low), _triple(high), self._step or 0)
            found = about.values(np.asarray(box))
            whole = found.reshape(-1)[0].item()
            # Integers of 64 bits that no float can represent stay exact.
            exact = nearest or (found.size == 1 and float(whole) != whole and not math.isnan(whole))
            values[about.name] = whole if exact else between(found, fraction)
            units[about.name] = about.units
            if isinstance(values[about.name], float) and math.isnan(values[about.name]):
                notes.append(f"{about.name} has no value there")
        ijk, place = (tuple(float(v) for v in triple) for triple in (at + 1, position))
        return VolumeProbe(
            (ijk[0], ijk[1], ijk[2]), (place[0], place[1], place[2]), values, units, "; ".join(notes) or None
        )

    def info(self, *, ranges: bool = False, progress: bool | Report | None = None) -> dict[str, Any]:
        """The JSON of `farfield info --json`.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").info()["format"]
        'NRRD0005'

        Args:
            ranges: Find unknown ranges of all pages by one pass of bounded memory, and store them in the cache. Later
                runs skip pages that show nothing.
            progress: As in `farfield.open`.

        Raises:
            DataError: if ranges are requested and cannot be stored, as on a full disk.
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
        """Lowest and highest stored value of each channel, without missing values."""
        described, folder = self._description, self._cache_dir

        def found() -> dict[int, page_ranges.Seen]:
            with reporting(progress) as report:
                return value_ranges.find(described, self._native, folder, report)

        return value_ranges.ranges(described, folder, found if find else None)

    def to_xarray(self, *, fields: Sequence[str] | None = None) -> Any:
        """An `xarray.DataArray` that reads pages on demand; scaled, with NaN for missing values.

        Args:
            fields: One channel; None: all, or that of the view.

        Raises:
            ImportError: if xarray is not installed.
            UsageError: if several channels are named, but not all.
            MemoryLimitError: if a later read takes more than the memory limit.

        >>> import farfield as ff
        >>> array = ff.open("demo:phantom").to_xarray()
        >>> array.dims, float(array.sel(z=84, y=100, x=80))
        (('z', 'y', 'x'), 80.0)
        """
        return data_array(self._of_fields(fields))

    def to_pyvista(self, *, fields: Sequence[str] | None = None) -> Any:
        """A `pyvista.ImageData` of one time step, with a point at the centre of each voxel; scaled, with NaN for
        missing values. Colours form one array, `rgb` or `rgba`.

        Args:
            fields: One channel; None: all, or that of the view.

        Raises:
            ImportError: if PyVista is not installed.
            UsageError: if several channels are named, but not all.
            MemoryLimitError: if the result takes more than the memory limit, before any read.

        >>> import farfield as ff
        >>> image = ff.open("demo:phantom").to_pyvista()
        >>> image.dimensions, image.spacing, image.point_data.keys()
        ((64, 80, 56), (2.5, 2.5, 3.0), ['phantom'])
        """
        return image_data(self._of_fields(fields))

    def _of_fields(self, fields: Sequence[str] | None) -> Self:
        names = field_names(fields)
        if fields is None or (self._channel is None and names == self._keys()):
            return self
        if len(names) != 1:
            raise UsageError(f"{self.path}: {len(names)} channels do not form an array; name one, or remove fields")
        return self.channel(names[0])

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
