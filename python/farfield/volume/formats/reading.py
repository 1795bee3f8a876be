"""Reading of a source's description, with the user's options applied."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from farfield.errors import DataError, UnknownName, UsageError
from farfield.results.outputs import not_there
from farfield.runtime.run_context import once
from farfield.sources import places
from farfield.sources.addresses import refuse_unknown
from farfield.volume.formats import number_parts, patterns
from farfield.volume.formats.description import Volume, VolumeDescription, describe
from farfield.volume.formats.detection import DEMO, format_of, split_variable
from farfield.volume.formats.labels import are_labels
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.readers import reader_of
from farfield.volume.missing_values import together
from farfield.volume.page_ranges import with_ranges


@places.opening()
def read(source: str, options: Options, resources: ReaderResources) -> VolumeDescription:
    """The description of a source by its reader, with the user's options applied.

    Raises:
        DataError: if it is damaged or has an unsupported format.
        UsageError: if options are invalid or insufficient.
        UnknownName: if the variable does not exist.
    """
    described = once(
        ("volume", places.abspath(source), options, resources.cache_dir), lambda: _read(source, options, resources)
    )
    # Ranges may have been found since the last call.
    return with_ranges(described, resources)


def _read(source: str, options: Options, resources: ReaderResources) -> VolumeDescription:
    """As `read`, without known ranges, and with the duration."""
    begun, computed = time.perf_counter(), time.process_time()
    refuse_unknown(os.fspath(source))
    path, variable = split_variable(os.fspath(source))
    path = patterns.expanded(path)
    if variable is not None:
        options = Options(**{**options.given(), "variable": variable})
    if path == DEMO:
        from farfield.demo.volumes import volume_file

        path = str(volume_file(resources.cache_dir / "demo"))
    files = patterns.files_of(path) if patterns.is_pattern(path) else []
    if not places.exists(path) and not files:
        raise not_there(path)
    kind = format_of(path, options)
    if kind is None:
        raise UsageError(f"{path}: this is no volume of a format that is known; raw numbers need --shape and --dtype")
    try:
        with number_parts.choosing(options.component) as is_taken:
            volume = reader_of(kind)(path, options, resources)
    except RecursionError as error:
        raise DataError(f"{path}: its metadata is nested too deeply; write it again") from error
    if options.component is not None and not is_taken():
        types = ", ".join(sorted({a.dtype for level in volume.levels for a in level.arrays}))
        raise UsageError(f"{path}: --component is for complex numbers, and these are {types}; remove it")
    if options.variable is not None and kind not in _CONTAINERS:
        raise UnknownName(
            f"{path}: this is one volume ({volume.format}), and holds none named '{options.variable}'; remove "
            f"::{options.variable}"
        )
    named = path if options.variable is None else f"{path}::{options.variable}"
    if kind not in _SAY_LABELS and options.kind is None and are_labels(named, volume):
        volume.kind = "labels"
        volume.guessed.append(
            "its numbers are labels, as its name says: --kind scalar (of pictures: --raw kind=scalar) takes them as values"
        )
    if files:
        volume.reads = [*files, *(name for name in volume.reads if name != path)]
    described = describe(_as_said(volume, options))
    return replace(described, read_s=(time.perf_counter() - begun, time.process_time() - computed))


_CONTAINERS = frozenset((
    "zarr", "vtk", "tiff", "hdf5", "netcdf3", "dicom", "images", "farfield", "vtk_steps",
))  # fmt: skip
"""Formats that may contain several named volumes."""

_SAY_LABELS = frozenset(("farfield", "dicom"))
"""Formats that always mark labels; others seldom do."""

_SHOWN = {"rgb": "colours", "rgba": "colours", "labels": "labels, each of a colour of its own"}


def _as_said(volume: Volume, options: Options) -> Volume:
    """Applies options to a volume. Levels keep their relative positions."""
    if options.length_unit is not None:
        volume.length_unit, volume.axis_units = options.length_unit, None
    if options.kind is not None and options.kind != volume.kind:
        wanted = {"rgb": 3, "rgba": 4, "scalar": 1, "labels": 1}.get(options.kind)
        if wanted is not None and wanted != len(volume.channels):
            raise UsageError(
                f"--kind {options.kind}: the volume has {len(volume.channels)} numbers a voxel, and not {wanted}"
            )
        volume.kind = options.kind
    if options.missing is not None:
        for channel in volume.channels:
            # The user's missing values add to those of the file.
            channel.missing = together(channel.missing, options.missing)
    if options.invert is not None:
        if volume.kind in ("rgb", "rgba", "labels"):
            raise UsageError(
                f"{volume.path}: --invert is for numbers that are shown in grey, and these are {_SHOWN[volume.kind]}; remove it"
            )
        for channel in volume.channels:
            channel.inverted = options.invert
        # The option makes the note on the file's value superfluous.
        volume.guessed = [g for g in volume.guessed if "--no-invert" not in g]
        volume.notes = [g for g in volume.notes if "--no-invert" not in g]
    if not volume.levels:
        return volume
    first = volume.levels[0]
    spacing, origin = first.spacing, first.origin
    ratio = [1.0] * 3
    if options.spacing is not None:
        ratio = [new / old if old else 1.0 for new, old in zip(options.spacing, spacing, strict=True)]
        volume.guessed = [g for g in volume.guessed if "--spacing" not in g]
    start = options.origin or origin
    if options.spacing is None and options.origin is None:
        return volume
    directions = volume.direction
    for level in volume.levels:
        # The offset of a level is a fraction of a voxel along the axes, so it scales with the spacing.
        off = [a - b for a, b in zip(level.origin, origin, strict=True)]
        along = [sum(directions[n][r] * off[r] for r in range(3)) * ratio[n] for n in range(3)]
        moved = [start[r] + sum(along[n] * directions[n][r] for n in range(3)) for r in range(3)]
        level.origin = (moved[0], moved[1], moved[2])
        a, b, c = (s * r for s, r in zip(level.spacing, ratio, strict=True))
        level.spacing = (a, b, c)
    if options.spacing is not None:
        first.spacing = options.spacing
        volume.places, volume.axis_units = [], None
    return volume
