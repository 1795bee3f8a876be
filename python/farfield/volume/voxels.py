"""Volumes opened only for reading their numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from farfield import _core
from farfield.results import outputs
from farfield.runtime import cache
from farfield.runtime.resources import Resources
from farfield.runtime.run_context import to_stderr
from farfield.sources import places
from farfield.volume.abilities import VolumeAbilities
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Opened:
    """A volume of the extension, with the description by its reader."""

    native: _core.Dataset
    description: VolumeDescription
    options: Options


@places.opening()
def open_native(
    source: Path,
    resources: Resources,
    *,
    options: Mapping[str, Any] | Options | None = None,
    quiet: bool = False,
    tell: bool = True,
) -> Opened:
    """Opens a volume without reading its pages. Files that cannot be read in part are converted into the cache first.
    `quiet` suppresses the note about that on stderr; `tell` enables notes on assumptions.

    Raises:
        DataError: if the volume does not exist, is damaged, or has an unsupported format.
        UsageError: if options are invalid or insufficient.
    """
    with resources.reporting() as report:
        listening = replace(resources, progress=report or False)
        described, chosen = describe_source(source, listening, options=options, quiet=quiet)
        outputs.check([resources.events], described.reads)
        if tell and not quiet:
            described.say_notes(to_stderr)
        native = _core.Dataset.open(described.native(), resources.native(), tables=described.tables, progress=report)
    return Opened(native, described, chosen)


@places.opening()
def describe_source(
    source: Path,
    resources: Resources,
    *,
    options: Mapping[str, Any] | Options | None,
    quiet: bool = False,
) -> tuple[VolumeDescription, Options]:
    """The description of a volume by its reader, made once per run.

    Raises:
        DataError: if the volume does not exist, is damaged, or has an unsupported format.
        UsageError: if options are invalid or insufficient.
    """
    chosen = options if isinstance(options, Options) else Options.of(options)
    settings = resources.settings
    room = settings.cache_limit()
    cache.use(settings["cache_dir"], room)
    with resources.reporting() as report:
        for_reader = ReaderResources(
            settings["cache_dir"], report, None if quiet else to_stderr, settings.memory_limit(), room
        )
        return read(places.expanduser(os.fspath(source)), chosen, for_reader), chosen


class Voxels(VolumeAbilities):
    """A volume whose numbers are read box by box, as for a conversion."""

    def __init__(self, source: str, opened: Opened) -> None:
        self.source = source
        """The source as the caller gave it."""
        self._native = opened.native
        self._description = opened.description
        self._spec = opened.description.spec
        self._level, self._channel, self._steps, self._one = 0, None, None, False

    @property
    def reads(self) -> list[str]:
        """Files that the volume reads."""
        return list(self._description.reads)

    @property
    def times(self) -> list[float]:
        """Time of each step."""
        return [float(time) for time in self._spec["times"]]

    @property
    def time_units(self) -> str:
        """Unit of times."""
        return str(self._spec["time_units"])

    @property
    def memory_limit(self) -> int:
        """The memory limit in bytes."""
        return int(json.loads(self._native.stats())["limit_bytes"])

    def read(self, channel: int, low: int, high: int, step: int) -> NDArray[Any]:
        """The stored numbers of some layers, [k, j, i]."""
        nx, ny, _ = self.levels[0]
        return np.asarray(self._native.read_box(0, channel, (0, 0, low), (nx, ny, high), step))

    def _view(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._native.close()
