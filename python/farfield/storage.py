"""Stores: conversion into them, and checks of every page of a source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from farfield import _core
from farfield.dataset.field_names import field_names
from farfield.errors import UsageError
from farfield.flow.definitions import SPEED, Definitions, added, beneath
from farfield.flow.opening import open_source
from farfield.opening import refuse_options_of_flows, volume_options
from farfield.results import outputs
from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings
from farfield.sources.parsing import parse
from farfield.sources.source import Source
from farfield.volume.store_conversion import convert_volume, validate_volume

Path = str | os.PathLike[str]


def convert(
    source: Path,
    destination: Path,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    page: int | None = None,
    layout: str | None = None,
    codec: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    append: bool = False,
    dry_run: bool = False,
    fields: Sequence[str] | None = None,
    define: Definitions | None = None,
    levels: int | None = None,
    downsample: str | None = None,
    volume: Mapping[str, Any] | None = None,
    memory_limit: str | int | None = None,
    workers: int | None = None,
    readers: int | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Streams a dataset into a Zarr v3 store, in memory bounded by the limit; returns what `convert --json` prints.

    A volume becomes a pyramid, as OME-Zarr 0.5 has it: all channels and time steps, each level half as fine as the one before.

    Args:
        source: As in `farfield.open`.
        destination: The folder of the store.
        q: As in `farfield.open`.
        function: As in `farfield.open`.
        page: Page edge in points: 4, 8, 16, 32 or 64; None: 16, of volumes 32.
        layout: `"cubed"` or `"flat"`.
        codec: `"none"`, `"zstd"` or `"lz4"`.
        resume: Complete a store that an interrupted conversion left.
        overwrite: Replace a store that is there, once the new one is whole.
        append: Add the time steps of the source that the store does not have yet; its pages stay what they are, and it takes
            the place of the old one in one step. Where there is no store, it is made.
        dry_run: Only say what it would cost.
        fields: The fields that the store is to hold beside the grid, derived ones too, which are made page by page; None: the
            stored ones.
        define: Fields made of others, as in `farfield.open`, for `fields`.
        levels: Of volumes, how many levels at most; None: down to where the longest side has at most 64 voxels.
        downsample: Of volumes, how up to eight voxels become one: `"mean"` (of those that have a value; whole numbers are rounded
            to the nearest, halves to even), `"majority"` (what most of them are; of several the lowest) or `"nearest"` (the
            first); None: majority for labels, else mean.
        volume: As in `farfield.open`.
        memory_limit: As in `farfield.open`.
        workers: As in `farfield.open`.
        readers: As in `farfield.open`.
        events: As in `farfield.open`.
        plot3d: As in `farfield.open`.
        zone_order: As in `farfield.open`.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the source cannot be read, the destination exists, or the disk is full; with `append`, if steps that are there
            were changed since, or new ones do not come after them or are of other zones or fields.
        UnknownName: if there is no such field.
        UsageError: if an argument makes no sense, or source and destination lie in each other.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.convert("demo:box", folder + "/box.zarr", page=8)["page"]
    ...     ff.convert("demo:box", folder + "/few.zarr", fields=["velocity", "vorticity"])["fields"]
    8
    ['velocity', 'vorticity']
    """
    given = {"memory_limit": memory_limit, "workers": workers, "readers": readers}
    settings = Settings({**given, "page": page, "layout": layout, "codec": codec})
    told = volume_options(source, volume)
    if told is not None:
        of_flows = {
            "q": q, "function": function, "append": append, "fields": fields, "define": define, "plot3d": plot3d,
            "zone_order": zone_order,
        }  # fmt: skip
        refuse_options_of_flows(source, of_flows)
        return convert_volume(
            source,
            destination,
            settings,
            options=told,
            page=settings["page"],
            levels=levels,
            downsample=downsample,
            resume=resume,
            overwrite=overwrite,
            dry_run=dry_run,
            events=events,
            progress=progress,
        )
    if levels is not None or downsample is not None:
        wrong = "levels" if levels is not None else "downsample"
        raise UsageError(f"{os.fspath(source)}: this is a dataset of zones, which has no levels: leave {wrong} away")
    plot3d = added(plot3d, define)
    found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    if SPEED in field_names(fields or ()):
        with open_source(found, settings, plot3d=plot3d, zone_order=zone_order, progress=False) as dataset:
            plot3d = beneath(plot3d, dataset._known.implied)
        found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    options = {
        "fields": field_names(fields or ()),
        **{name: settings[name] for name in ("page", "layout", "codec")},
        "resume": resume,
        "overwrite": overwrite,
        "append": append,
        "given": [name for name, value in (("page", page), ("layout", layout), ("codec", codec)) if value is not None],
        "dry_run": dry_run,
    }
    read = found.reads()
    target = os.path.abspath(destination)
    if overwrite and os.path.isdir(target):
        # A store may be cut anew: it is read until the new one is whole and takes its place.
        read = [name for name in read if os.path.realpath(name) != target]
    outputs.check([destination, events], read)
    with reporting(progress) as report:
        text = _core.convert(
            found.path,
            os.fspath(destination),
            **found.with_options(**options).native(),
            **settings.means(replacement=False),
            events=None if events is None else os.fspath(events),
            progress=report,
        )
    made: dict[str, Any] = json.loads(text)
    return made


def validate(
    source: Path,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    volume: Mapping[str, Any] | None = None,
    memory_limit: str | int | None = None,
    workers: int | None = None,
    readers: int | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Reads every page once and checks its checksum, where it has one, and its shape; returns what `validate --json` prints.

    A dataset that does not hold is an answer (`ok` False and a list of `failures`), not an error. Of a volume `never_written`
    counts chunks that its format defines as never written: whoever reads them gets the fill value. `volume` is as in
    `farfield.open`.

    Raises:
        DataError: if the dataset cannot be opened at all.

    >>> import farfield as ff
    >>> ff.validate("demo:box")["ok"]
    True
    """
    settings = Settings({"memory_limit": memory_limit, "workers": workers, "readers": readers})
    told = volume_options(source, volume)
    if told is not None:
        refuse_options_of_flows(source, {"q": q, "function": function, "plot3d": plot3d, "zone_order": zone_order})
        return validate_volume(source, settings, options=told, events=events, progress=progress)
    found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    outputs.check([events], found.reads())
    with reporting(progress) as report:
        text = _core.validate(
            found.path,
            **found.native(),
            **settings.means(replacement=False),
            events=None if events is None else os.fspath(events),
            progress=report,
        )
    made: dict[str, Any] = json.loads(text)
    return made


def _located(
    source: Path,
    settings: Settings,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    **options: Any,
) -> Source:
    """The files of a source, with the options (plot3d, zone_order) that it is opened with.

    Raises:
        DataError: if one is not there.
        UsageError: if the source makes no sense.
    """
    found = parse(source, q=q, function=function)
    return found.with_options(cache_dir=str(settings["cache_dir"]), settled=settings.definitions(), **options)
