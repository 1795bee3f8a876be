"""Opening of volumes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from farfield.flow.dataset import Dataset
from farfield.flow.opening import open_source
from farfield.runtime.resources import Resources
from farfield.runtime.settings import Settings
from farfield.sources import places
from farfield.sources.source import Source
from farfield.volume.abilities import Opening
from farfield.volume.dataset import VolumeDataset
from farfield.volume.formats.options import Options
from farfield.volume.vector_flow import flow_in
from farfield.volume.voxels import open_native

Path = str | os.PathLike[str]


@places.opening()
def open_volume(
    source: Path,
    resources: Resources,
    *,
    options: Mapping[str, Any] | Options | None = None,
    quiet: bool = False,
    tell: bool = True,
) -> VolumeDataset:
    """Opens a volume without reading its pages. Files that cannot be read in part are converted into the cache first.
    `quiet` suppresses the note about that on stderr; `tell` enables notes on assumptions.

    Raises:
        DataError: if the volume does not exist, is damaged, or has an unsupported format.
        UsageError: if options are invalid or insufficient.
    """
    opened = open_native(source, resources, options=options, quiet=quiet, tell=tell)
    settings = resources.settings
    opening = Opening(os.fspath(source), opened.options, settings.flags, reopened, flow_of)
    return VolumeDataset(opened.native, opened.description, settings["cache_dir"], opening)


def reopened(source: str, given: Mapping[str, Any], options: Options, view: Mapping[str, Any]) -> VolumeDataset:
    """Opens the volume of a loaded pickle."""
    opened = open_volume(source, Resources.of(**given, progress=False), options=options, quiet=True)
    vars(opened).update(view)
    return opened


def flow_of(opening: Opening, settings: Settings) -> Dataset:
    """Converts the vector of a volume into a flow in the cache.

    Raises:
        UsageError: if the volume has no vector.
    """
    found = flow_in(opening.source, settings=settings, options=opening.options)
    return open_source(replace(found, again=_flow_again), Resources(settings))


def _flow_again(source: str) -> Source:
    """Makes the source of a flow again in another process."""
    return flow_in(places.expanduser(source))
