"""Opens volumes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from farfield import _core
from farfield.flow.dataset import Dataset
from farfield.flow.opening import open_source
from farfield.results import outputs
from farfield.runtime import cache
from farfield.runtime.progress import Report, reporting
from farfield.runtime.run_context import to_stderr
from farfield.runtime.settings import Settings
from farfield.sources.source import Source
from farfield.volume.dataset import Opening, VolumeDataset
from farfield.volume.formats.options import Means, Options
from farfield.volume.formats.reading import read
from farfield.volume.vector_flow import flow_in

Path = str | os.PathLike[str]


def open_volume(
    source: Path,
    settings: Settings,
    *,
    options: Mapping[str, Any] | Options | None = None,
    events: Path | None = None,
    progress: bool | Report | None = None,
    quiet: bool = False,
    tell: bool = True,
) -> VolumeDataset:
    """Opens a volume without reading its pages. What cannot be read in part is converted into the cache first, which is said on
    stderr unless `quiet`, as is what was taken for granted, with `tell`.

    Raises:
        DataError: if it is not there, damaged, or of a format that is not read.
        UsageError: if options make no sense, or do not say enough.
    """
    chosen = options if isinstance(options, Options) else Options.of(options)
    with reporting(progress) as report:
        room = settings.cache_limit()
        means = Means(settings["cache_dir"], report, None if quiet else to_stderr, settings.memory_limit(), room)
        cache.use(settings["cache_dir"], room)
        described = read(os.path.expanduser(os.fspath(source)), chosen, means)
        outputs.check([events], described.reads)
        if tell and not quiet:
            described.say_notes(to_stderr)
        native = _core.Volume.open(
            json.dumps(described.spec),
            described.tables,
            **settings.means(),
            events=None if events is None else os.fspath(events),
            progress=report,
        )
    opening = Opening(os.fspath(source), chosen, settings.flags, reopened, flow_of)
    return VolumeDataset(native, described, settings["cache_dir"], opening)


def reopened(source: str, given: Mapping[str, Any], options: Options, view: Mapping[str, Any]) -> VolumeDataset:
    """What a pickled volume becomes where it is loaded."""
    opened = open_volume(source, Settings(given), options=options, progress=False, quiet=True)
    vars(opened).update(view)
    return opened


def flow_of(opening: Opening, settings: Settings) -> Dataset:
    """The vector of a volume as a flow, in the cache.

    Raises:
        UsageError: if there is no vector in it.
    """
    found = flow_in(opening.source, open_volume, settings=settings, options=opening.options)
    return open_source(replace(found, again=_flow_again), settings)


def _flow_again(source: str) -> Source:
    """The same in another process."""
    return flow_in(os.path.expanduser(source), open_volume)
