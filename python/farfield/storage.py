"""Conversion into stores, and checks of every page of a source."""

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
from farfield.runtime.progress import Report
from farfield.runtime.resources import Resources
from farfield.runtime.settings import Settings
from farfield.sources import places
from farfield.sources.parsing import parse
from farfield.sources.source import Source
from farfield.volume.store_conversion import convert_volume, validate_volume

Path = str | os.PathLike[str]


@places.opening()
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
    """Streams a dataset into a Zarr v3 store within the memory limit; returns the JSON of `convert --json`.

    A volume becomes an OME-Zarr 0.5 pyramid with all channels and time steps. Each level halves the resolution.

    Args:
        source: As in `farfield.open`.
        destination: The folder of the store.
        q: As in `farfield.open`.
        function: As in `farfield.open`.
        page: Edge of a page in points: 4, 8, 16, 32 or 64. None: 16, or 32 for volumes.
        layout: `"cubed"` or `"flat"`.
        codec: `"none"`, `"zstd"` or `"lz4"`.
        resume: Complete a store that an interrupted conversion left.
        overwrite: Replace an existing store when the new one is complete.
        append: Add the time steps that the store lacks. Its pages stay unchanged, and the result replaces it in one
            step. Without a store, one is made.
        dry_run: Return the estimated cost only.
        fields: Fields to store beside the grid, derived ones too; None: the stored ones.
        define: Fields defined for `fields`, as in `farfield.open`.
        levels: Largest number of levels of a volume; None: until the longest side has at most 64 voxels.
        downsample: How up to eight voxels of a volume become one. `"mean"`: over voxels with a value; whole numbers
            round to the nearest, halves to even. `"majority"`: the most frequent value; the lowest of several.
            `"nearest"`: the first. None: majority for labels, else mean.
        volume: As in `farfield.open`.
        memory_limit: As in `farfield.open`.
        workers: As in `farfield.open`.
        readers: As in `farfield.open`.
        events: As in `farfield.open`.
        plot3d: As in `farfield.open`.
        zone_order: As in `farfield.open`.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the source cannot be read, the destination exists, or the disk is full. With `append`: if stored
            steps have changed, or if new steps do not come after them or have other zones or fields.
        UnknownName: if there is no such field.
        UsageError: if an argument is invalid, or if source or destination contains the other.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.convert("demo:box", folder + "/box.zarr", page=8)["page"]
    ...     ff.convert("demo:box", folder + "/few.zarr", fields=["velocity", "vorticity"])["fields"]
    8
    ['velocity', 'vorticity']
    """
    kept: dict[str, Any] = {"page": page, "layout": layout, "codec": codec}
    resources = Resources.of(
        memory_limit=memory_limit, workers=workers, readers=readers, events=events, progress=progress, **kept
    )
    settings = resources.settings
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
            resources,
            options=told,
            page=settings["page"],
            levels=levels,
            downsample=downsample,
            resume=resume,
            overwrite=overwrite,
            dry_run=dry_run,
        )
    if levels is not None or downsample is not None:
        wrong = "levels" if levels is not None else "downsample"
        raise UsageError(f"{os.fspath(source)}: a dataset of zones has no levels; remove {wrong}")
    plot3d = added(plot3d, define)
    found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    if SPEED in field_names(fields or ()):
        with open_source(found, Resources(settings, progress=False), plot3d=plot3d, zone_order=zone_order) as dataset:
            plot3d = beneath(plot3d, dataset._known.implied)
        found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    options = {
        "fields": field_names(fields or ()),
        **{name: settings[name] for name in ("page", "layout", "codec")},
        "resume": resume,
        "overwrite": overwrite,
        "append": append,
        "given": [name for name, value in kept.items() if value is not None],
        "dry_run": dry_run,
    }
    read = found.reads()
    target = os.path.abspath(destination)
    if overwrite and os.path.isdir(target):
        # With `overwrite`, a store may be its own source: it is read until the new one is complete and replaces it.
        read = [name for name in read if os.path.realpath(name) != target]
    outputs.check([destination, events], read)
    with resources.reporting() as report:
        text = _core.convert(
            found.native(),
            os.fspath(destination),
            resources.native(replacement=False),
            options=json.dumps(options),
            progress=report,
        )
    made: dict[str, Any] = json.loads(text)
    return made


@places.opening()
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
    """Reads every page once and checks its shape and, if it has one, its checksum; returns the JSON of `validate
    --json`.

    Damage is a result, not an error: `ok` is False and `failures` lists it. For volumes, `never_written` counts
    chunks that the format defines as never written; they read as the fill value. `volume` is as in `farfield.open`.

    Raises:
        DataError: if the dataset cannot be opened.

    >>> import farfield as ff
    >>> ff.validate("demo:box")["ok"]
    True
    """
    resources = Resources.of(
        memory_limit=memory_limit, workers=workers, readers=readers, events=events, progress=progress
    )
    told = volume_options(source, volume)
    if told is not None:
        refuse_options_of_flows(source, {"q": q, "function": function, "plot3d": plot3d, "zone_order": zone_order})
        return validate_volume(source, resources, options=told)
    found = _located(source, resources.settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    outputs.check([events], found.reads())
    with resources.reporting() as report:
        text = _core.validate(found.native(), resources.native(replacement=False), progress=report)
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
    """Locates the files of a source, and adds the options (plot3d, zone_order) that open it.

    Raises:
        DataError: if a file does not exist.
        UsageError: if the source is invalid.
    """
    found = parse(source, q=q, function=function)
    return found.with_options(cache_dir=str(settings["cache_dir"]), settled=settings.definitions(), **options)
