"""Conversion of volumes into Farfield's own store, and checks of all their pages."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from farfield import _core
from farfield.errors import DataError, UsageError
from farfield.results import outputs
from farfield.runtime.progress import Report
from farfield.runtime.resources import Resources
from farfield.runtime.run_context import to_stderr
from farfield.sources import places
from farfield.volume.formats.detection import format_of, split_variable
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read

Path = str | os.PathLike[str]

DOWNSAMPLES = ("mean", "majority", "nearest")


def convert_volume(
    source: Path,
    destination: Path,
    resources: Resources,
    *,
    options: Options,
    page: int | None = None,
    levels: int | None = None,
    downsample: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Streams a volume into a pyramid of pages, as in `farfield.convert`.

    Raises:
        DataError: if the source cannot be read, the destination exists, or the disk is full.
        UsageError: if an argument is invalid, or if source or destination contains the other.
    """
    if downsample is not None and downsample not in DOWNSAMPLES:
        raise UsageError(f"no way to downsample is called '{downsample}'; there are: {', '.join(DOWNSAMPLES)}")
    if levels is not None and levels < 1:
        raise UsageError(f"a volume has at least one level: {levels} levels are too few")
    if not isinstance(destination, str):
        destination = os.fspath(destination)
    with resources.reporting() as report:
        described = read(places.expanduser(os.fspath(source)), options, _reader_resources(resources, report, quiet))
        if not quiet:
            described.say_notes(to_stderr)
        target = places.abspath(destination)
        reads = list(described.reads)
        if overwrite and places.isdir(target):
            # With `overwrite`, a store may be its own source: it is read until the new one is complete and replaces
            # it.
            kept = [name for name in reads if places.realpath(name) != places.realpath(target)]
            if len(kept) < len(reads):
                _check_carried(places.normpath(places.expanduser(os.fspath(source))), described.spec)
            reads = kept
        outputs.check([destination, resources.events], reads)
        if described.labels and not quiet:
            to_stderr(
                f"{os.fspath(source)}: labels belong to it ({', '.join(described.labels[:6])}), which are no part of "
                f"{destination}: convert each by itself"
            )
        asked = {
            "page": page,
            "layout": resources.settings["layout"],
            "codec": resources.settings["codec"],
            "levels": levels,
            "downsample": downsample,
            "resume": resume,
            "overwrite": overwrite,
            "dry_run": dry_run,
        }
        text = _core.convert(
            described.native(ranges=False),
            destination,
            resources.native(replacement=False),
            tables=described.tables,
            options=json.dumps({key: value for key, value in asked.items() if value is not None}),
            progress=report,
        )
    return described.counted(json.loads(text))


_OWN = {"zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata", "c", "_farfield", ".DS_Store"}
"""Names in a store that a conversion rewrites, beside its levels."""


def _check_carried(store: str, spec: Mapping[str, Any]) -> None:
    """Refuses to replace a store with contents that the new one would lose, such as labels or other images.

    Raises:
        DataError: with their names.
    """
    text = json.dumps(spec, ensure_ascii=False)
    levels = {name for name in places.listdir(store) if f"{store}/{name}/" in text}
    others = sorted(name for name in places.listdir(store) if name not in _OWN | levels)
    # A single array has its chunks beside its documents.
    if others and levels:
        raise DataError(
            f"{store}: it also holds {', '.join(others[:6])}{' and more' if len(others) > 6 else ''}, which a conversion of the "
            "image does not carry over: write to another name, or move them away first"
        )


@places.opening()
def validate_volume(
    source: Path,
    resources: Resources,
    *,
    options: Options,
    quiet: bool = False,
) -> dict[str, Any]:
    """Checks every page of a volume, as in `farfield.validate`.

    Raises:
        DataError: if the volume cannot be opened.
    """
    path, variable = split_variable(places.expanduser(os.fspath(source)))
    own = variable is None and format_of(path, options) == "farfield"
    with resources.reporting() as report:
        if own:
            outputs.check([resources.events], [path])
            store = json.dumps({"path": path})
            text = _core.validate(store, resources.native(replacement=False), progress=report)
            return {**json.loads(text), "never_written": 0}
        described = read(places.expanduser(os.fspath(source)), options, _reader_resources(resources, report, quiet))
        outputs.check([resources.events], described.reads)
        if not quiet:
            described.say_notes(to_stderr)
        native = _core.Dataset.open(
            described.native(ranges=False),
            resources.native(replacement=False),
            tables=described.tables,
            progress=report,
        )
        try:
            found: dict[str, Any] = json.loads(native.check_pages(progress=report))
        finally:
            native.close()
    counted = {"pages_checked": found["pages"], "pages_unchecked": 0}
    if not found["checked"]:
        counted = {"pages_checked": 0, "pages_unchecked": found["pages"]}
    return {
        "ok": found["failed"] == 0,
        **counted,
        "failures": found["failures"],
        "failed": found["failed"],
        "never_written": found["never_written"] + described.never_written,
        "stats": described.counted(found)["stats"],
        "notes": found["notes"],
    }


def _reader_resources(resources: Resources, report: Report | None, quiet: bool) -> ReaderResources:
    settings = resources.settings
    return ReaderResources(
        settings["cache_dir"], report, None if quiet else to_stderr, settings.memory_limit(), settings.cache_limit()
    )
