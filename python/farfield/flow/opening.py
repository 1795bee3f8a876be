"""Opens datasets of zones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from farfield import _core
from farfield.flow import definitions
from farfield.flow.dataset import Dataset
from farfield.results import outputs
from farfield.runtime import cache
from farfield.runtime.resources import Resources
from farfield.sources import places
from farfield.sources.source import Source
from farfield.volume.formats.unsupported import raw_hinted

Path = str | os.PathLike[str]


@places.opening()
def open_source(
    source: Source,
    resources: Resources,
    *,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
) -> Dataset:
    """Opens the dataset of a source that is already taken apart."""
    settings, events = resources.settings, resources.log
    outputs.check([events], source.reads())
    source = source.with_options(
        plot3d=plot3d,
        zone_order=zone_order,
        cache_dir=str(settings["cache_dir"]),
        settled=settings.definitions(),
    )
    with resources.reporting() as report, raw_hinted(source.path):
        native = _core.Dataset.open(source.native(), resources.native(), progress=report)
    cache.use(settings["cache_dir"], settings.cache_limit())
    # What reading the files took is told once, by whoever opened them.
    dataset = Dataset(native, source.without_time(), reopened)
    dataset._known.given = settings.flags
    dataset._known.events = None if events is None else os.path.abspath(events)
    # Of a solution of PLOT3D the extension derives all that there is of its velocity.
    may_store_it = bool(source.made_of or source.function) or places.isdir(source.path)
    if may_store_it and (implied := definitions.speed(dataset.info()["fields"])):
        # Not among what users have defined: a scene that is saved does not need it.
        native.define(definitions.texts(implied))
        dataset._known.implied, dataset._known.info = implied, None
    return dataset


def reopened(
    source: Source, given: Mapping[str, Any], defined: Mapping[str, str], steps: range | None, one: bool
) -> Dataset:
    """What a pickled dataset becomes where it is loaded."""
    dataset = open_source(source.there(), Resources.of(**given, progress=False))
    for name, expression in defined.items():
        dataset.define(name, expression)
    return dataset if steps is None else dataset._with(steps, one=one)
