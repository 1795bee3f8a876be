"""The formats of flows beside PLOT3D and stores: a table of what tells a format by its files, and of the module that reads it.

A new format is a module with a function `read`, and an entry of the table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from farfield.flow.formats.description import Zones
from farfield.runtime.progress import reporting
from farfield.runtime.run_context import to_stderr
from farfield.runtime.settings import Settings
from farfield.sources import places
from farfield.sources.source import Source
from farfield.volume.formats import concurrent_headers, detection
from farfield.volume.formats.files import head
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.signatures import HEAD, is_vtk_grid
from farfield.volume.formats.vtk.collection import is_collection
from farfield.volume.formats.vtk.multiblock import is_multiblock


@dataclass(frozen=True)
class Asked:
    """What a user asks for."""

    files: tuple[str, ...]
    """A time step each, in natural order."""
    variable: str | None
    """Which of several, `FILE::NAME`."""
    text: str
    """As the user wrote it."""


Reader = Callable[[Asked, ReaderResources], Zones | None]
"""`read` of a module: what the files are; None where they are none of its zones after all.

It raises `DataError`, naming the file, for what is damaged.
"""


@dataclass(frozen=True)
class FlowFormat:
    """A format of flows."""

    matches: Callable[[Asked], bool]
    """By first bytes and names alone."""
    module: str
    is_always_zones: bool = False
    """Whether all that matches is zones: then it is never looked at as a volume."""


def _is_of_vtk(asked: Asked) -> bool:
    places.prefetch_stats(asked.files)
    files = [name for name in asked.files if places.isfile(name)]
    starts = list(concurrent_headers.each(files, partial(head, count=HEAD)))
    lists = any(is_collection(start) or is_multiblock(start) for start in starts if start)
    return asked.variable is None and (lists or any(map(is_vtk_grid, starts)))


def _has_coordinates(asked: Asked) -> bool:
    path = asked.files[0]
    is_there = len(asked.files) == 1 and (places.isfile(path) or places.isdir(path))
    return is_there and detection.of_coordinates(path) is not None


FORMATS: tuple[FlowFormat, ...] = (
    FlowFormat(_has_coordinates, "farfield.flow.formats.uneven"),
    FlowFormat(_is_of_vtk, "farfield.flow.formats.vtk"),
)
"""The first that matches and finds zones reads them."""


def is_always_zones(path: str) -> bool:
    """Whether a path is of a format that has no volumes."""
    asked = Asked((path,), None, path)
    return any(of.is_always_zones and of.matches(asked) for of in FORMATS)


def source_of(files: Sequence[str], variable: str | None, text: str, *, quiet: bool) -> Source | None:
    """The dataset that files are, read by the first format that finds zones in them; None where none does.

    Raises:
        DataError: if one is damaged, or the disk is full.
        Interrupted: if the report function says so.
    """
    asked = Asked(tuple(files), variable, text)
    for of in FORMATS:
        if not of.matches(asked):
            continue
        reader: Reader = importlib.import_module(of.module).read
        with reporting(False if quiet else None) as report:
            settings = Settings()
            resources = ReaderResources(
                settings["cache_dir"],
                report,
                None if quiet else to_stderr,
                settings.memory_limit(),
                settings.cache_limit(),
            )
            found = reader(asked, resources)
        if found is not None:
            return Source.of_zones(found, asked.files[0], text)
    return None
