"""Abilities of volumes only: channels, levels, and positions of voxels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from farfield.errors import UnknownName, UsageError
from farfield.runtime.settings import Settings
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.options import Options
from farfield.volume.missing_values import of_json
from farfield.volume.native import Triple
from farfield.volume.space import Space
from farfield.volume.values import VolumeChannel, in_memory, pair

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.volume.dataset import VolumeDataset


@dataclass(frozen=True)
class Opening:
    """The source and options of an open volume, and functions that open it again."""

    source: str
    """The source as the caller gave it."""
    options: Options
    """Options of the volume."""
    given: Mapping[str, Any]
    """Settings given at opening. They take precedence over the settings of the machine that loads a pickle."""
    again: Callable[..., VolumeDataset]
    """Opens the volume of a loaded pickle."""
    flow: Callable[[Opening, Settings], Dataset]
    """Opens its vector as a flow."""


class VolumeAbilities:
    """Members of volumes beside those of every dataset."""

    _spec: dict[str, Any]
    _description: VolumeDescription
    _opening: Opening
    _level: int
    _channel: int | None
    _steps: range | None
    _one: bool
    _info: dict[str, Any] | None

    @abstractmethod
    def _view(self) -> Self:
        """A copy of the volume that shares its files and pages."""

    @property
    @abstractmethod
    def memory_limit(self) -> int:
        """The memory limit in bytes."""

    @property
    def _levels(self) -> list[dict[str, Any]]:
        levels: list[dict[str, Any]] = self._spec["levels"]
        return levels

    @property
    def path(self) -> str:
        """The path of the volume."""
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
        """Positions of the voxels of this level."""
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
        """Names of the dimensions of `shape`."""
        return tuple(name for name, _ in self._dimensions())

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions: (time, channel,) z, y, x; channels of colours come last."""
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
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers in memory."""
        chosen = self._chosen_channels()
        return np.result_type(*(c.dtype for n, c in enumerate(self.channels) if n in chosen))

    @property
    def levels(self) -> list[Triple]:
        """Number of voxels along x, y and z of each level, finest first."""
        return [(int(i), int(j), int(k)) for i, j, k in (level["dims"] for level in self._levels)]

    @property
    def channels(self) -> list[VolumeChannel]:
        """The channels."""
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
        """Unit of positions; `voxel` if unknown, `1` if the axes have no common unit."""
        return str(self._spec["length_unit"])

    @property
    def anatomy(self) -> str | None:
        """Anatomical directions of +x, +y and +z: three of R L A P S I; None without anatomy."""
        found = self._spec.get("anatomy")
        return None if found is None else str(found)

    @property
    def notes(self) -> list[str]:
        """Assumptions about its files, such as an empty place for a missing slice of a folder.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").notes
        []
        """
        return list(self._spec["guessed"])

    def level(self, number: int) -> Self:
        """The volume at another level; 0 is the finest, -1 the coarsest.

        Raises:
            UsageError: if the level does not exist.

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
        """One channel by name or number.

        Raises:
            UnknownName: if the channel does not exist.

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

    def _selected_steps(self) -> range:
        return self._steps if self._steps is not None else range(max(1, len(self._spec["times"])))

    def flow(self) -> Dataset:
        """The vector of the volume as a flow: a dataset of one zone with the field `velocity`. It consists of three
        numbers per voxel, or of the variables u, v and w of the file. It is converted into the cache first.

        Raises:
            UsageError: if the volume has no vector.

        >>> import farfield as ff
        >>> ff.open("demo:phantom").flow()
        Traceback (most recent call last):
        farfield.errors.UsageError: ...: this is a volume of 1 number a voxel, ...
        """
        return self._opening.flow(self._opening, Settings({"memory_limit": self.memory_limit}))
