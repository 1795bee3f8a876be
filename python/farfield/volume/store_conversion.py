"""Volumes on their way into Farfield's own store, and every page of one once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from farfield import _core
from farfield.errors import DataError, UsageError
from farfield.results import outputs
from farfield.runtime.progress import Report, reporting
from farfield.runtime.run_context import to_stderr
from farfield.runtime.settings import Settings
from farfield.volume.formats.detection import format_of, split_variable
from farfield.volume.formats.options import Means, Options
from farfield.volume.formats.reading import read

Path = str | os.PathLike[str]

DOWNSAMPLES = ("mean", "majority", "nearest")


def convert_volume(
    source: Path,
    destination: Path,
    settings: Settings,
    *,
    options: Options,
    page: int | None = None,
    levels: int | None = None,
    downsample: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    events: Path | None = None,
    progress: bool | Report | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Streams a volume into a pyramid of pages, as `farfield.convert` says.

    Raises:
        DataError: if the source cannot be read, the destination exists, or the disk is full.
        UsageError: if an argument makes no sense, or source and destination lie in each other.
    """
    if downsample is not None and downsample not in DOWNSAMPLES:
        raise UsageError(f"no way to downsample is called '{downsample}'; there are: {', '.join(DOWNSAMPLES)}")
    if levels is not None and levels < 1:
        raise UsageError(f"a volume has at least one level: {levels} levels are too few")
    if not isinstance(destination, str):
        destination = os.fspath(destination)
    with reporting(progress) as report:
        described = read(os.path.expanduser(os.fspath(source)), options, _means(settings, report, quiet))
        if not quiet:
            described.say_notes(to_stderr)
        target = os.path.abspath(destination)
        reads = list(described.reads)
        if overwrite and os.path.isdir(target):
            # A store may be cut anew: it is read until the new one is whole and takes its place.
            kept = [name for name in reads if os.path.realpath(name) != os.path.realpath(target)]
            if len(kept) < len(reads):
                _check_carried(os.path.normpath(os.path.expanduser(os.fspath(source))), described.spec)
            reads = kept
        outputs.check([destination, events], reads)
        if described.labels and not quiet:
            to_stderr(
                f"{os.fspath(source)}: labels belong to it ({', '.join(described.labels[:6])}), which are no part of "
                f"{destination}: convert each by itself"
            )
        asked = {
            "page": page,
            "layout": settings["layout"],
            "codec": settings["codec"],
            "levels": levels,
            "downsample": downsample,
            "resume": resume,
            "overwrite": overwrite,
            "dry_run": dry_run,
        }
        text = _core.convert_volume(
            # Everything is read: ranges, which say what need not be, are of no use.
            json.dumps({**described.spec, "ranges": None}),
            described.tables,
            destination,
            options=json.dumps({key: value for key, value in asked.items() if value is not None}),
            **settings.means(replacement=False),
            events=None if events is None else os.fspath(events),
            progress=report,
        )
    return described.counted(json.loads(text))


_OWN = {"zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata", "c", "_farfield", ".DS_Store"}
"""What a conversion of a store writes anew, beside its levels."""


def _check_carried(store: str, spec: Mapping[str, Any]) -> None:
    """Refuses to put a store in the place of one that holds what it would not hold: labels of an image, other images.

    Raises:
        DataError: naming it.
    """
    text = json.dumps(spec, ensure_ascii=False)
    levels = {name for name in os.listdir(store) if f"{store}/{name}/" in text}
    others = sorted(name for name in os.listdir(store) if name not in _OWN | levels)
    # A single array has chunks beside its documents.
    if others and levels:
        raise DataError(
            f"{store}: it also holds {', '.join(others[:6])}{' and more' if len(others) > 6 else ''}, which a conversion of the "
            "image does not carry over: write to another name, or move them away first"
        )


def validate_volume(
    source: Path,
    settings: Settings,
    *,
    options: Options,
    events: Path | None = None,
    progress: bool | Report | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Every page of a volume once, as `farfield.validate` says.

    Raises:
        DataError: if the volume cannot be opened at all.
    """
    path, variable = split_variable(os.path.expanduser(os.fspath(source)))
    own = variable is None and format_of(path, options) == "farfield"
    with reporting(progress) as report:
        if own:
            outputs.check([events], [path])
            means = settings.means(replacement=False)
            text = _core.validate(
                path, options="{}", **means, events=None if events is None else os.fspath(events), progress=report
            )
            return {**json.loads(text), "never_written": 0}
        described = read(os.path.expanduser(os.fspath(source)), options, _means(settings, report, quiet))
        outputs.check([events], described.reads)
        if not quiet:
            described.say_notes(to_stderr)
        native = _core.Volume.open(
            json.dumps({**described.spec, "ranges": None}),
            described.tables,
            **settings.means(replacement=False),
            events=None if events is None else os.fspath(events),
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


def _means(settings: Settings, report: Report | None, quiet: bool) -> Means:
    return Means(
        settings["cache_dir"], report, None if quiet else to_stderr, settings.memory_limit(), settings.cache_limit()
    )
