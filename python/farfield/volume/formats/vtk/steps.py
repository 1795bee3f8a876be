"""VTK XML images of several files, a time step each: a collection (`.pvd`), or a pattern."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farfield.errors import DataError, UnknownName
from farfield.times.file_times import why_untimed
from farfield.volume.formats.description import Array, Level, Volume, in_table, table_of, text_of
from farfield.volume.formats.options import Options, ReaderResources, sparing
from farfield.volume.formats.patterns import files_of, is_pattern
from farfield.volume.formats.vtk import images as vtk_xml
from farfield.volume.formats.vtk.collection import Step, single_files, steps_of
from farfield.volume.formats.vtk.multiblock import Block

_ROWS_BYTES = 256 << 10
"""About so many bytes of rows are a chunk of numbers that are not compressed."""


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume that the files are, one time step after the other.

    Raises:
        DataError: naming the file that is unlike the first one, damaged or missing.
        UnknownName: if `options.variable` names no array.
    """
    remarks: list[str] = []
    named = [Step((Block(file),), None) for file in files_of(path)] if is_pattern(path) else steps_of(path, remarks)
    steps = single_files(path, named)
    resources = replace(resources, say=sparing(path, len(steps), resources.say))
    first = vtk_xml.read(steps[0].file, options, resources)
    options = replace(options, variable=first.levels[0].arrays[0].name)
    found = [first]
    for step in steps[1:]:
        try:
            volume = vtk_xml.read(step.file, options, resources)
        except UnknownName as error:
            raise DataError(f"{error}; the files of a series have the same, and {steps[0].file} has it") from error
        _check(steps[0].file, first, step.file, volume)
        found.append(volume)
    arrays = [volume.levels[0].arrays[0] for volume in found]
    if len(arrays) == 1:
        array, tables = arrays[0], first.tables
    else:
        array, tables = _joined(steps, arrays, [v.tables for v in found])
    level = first.levels[0]
    times, untimed = _times(steps, found)
    return replace(
        first,
        path=path,
        format=f"{first.format}, {len(steps):,} files" if len(steps) > 1 else first.format,
        levels=[Level([array], level.origin, level.spacing)],
        times=times,
        guessed=[*first.guessed, *remarks, *untimed],
        tables=tables,
        reads=list(dict.fromkeys([*([] if is_pattern(path) else [path]), *(r for v in found for r in v.reads)])),
    )


def _check(name: str, first: Volume, other_name: str, other: Volume) -> None:
    """Refuses a step that is of another grid, or of other numbers."""
    (a, one), (b, two) = ((v.levels[0], v.levels[0].arrays[0]) for v in (first, other))
    numbers = [f"{of.axes} {text_of(of.shape)} of {of.dtype}" for of in (one, two)]
    if numbers[0] != numbers[1]:
        raise DataError(
            f"{other_name}: its numbers are {numbers[1]}, and in {name} {numbers[0]}; the files of a series are alike, "
            "and pieces of one volume are opened by their .pvti"
        )
    for what, here, there in (
        ("spacing", b.spacing, a.spacing),
        ("origin", b.origin, a.origin),
        ("direction", other.direction, first.direction),
    ):
        if not np.allclose(here, there, rtol=1e-6, atol=1e-6 * min(a.spacing)):
            raise DataError(
                f"{other_name}: its {what} is {_said(here)}, and in {name} {_said(there)}; the files of a series are of one grid"
            )


def _said(what: Any) -> str:
    return " ".join(f"{v:g}" for v in np.ravel(what))


def _times(steps: Sequence[Step], found: Sequence[Volume]) -> tuple[list[float], list[str]]:
    """Times of the collection, else those that the files say; none where they tell nothing, and why."""
    said = [step.time for step in steps]
    if None not in said:
        return [t for t in said if t is not None], []
    times = [v.times[0] if v.times else math.nan if vtk_xml.NO_TIME in v.guessed else None for v in found]
    names = [step.file for step in steps]
    why = why_untimed(names, times) if len(steps) > 1 else ""
    known = [t for t in times if t is not None and math.isfinite(t)]
    fall = next((n for n, (a, b) in enumerate(itertools.pairwise(known)) if a >= b), None)
    if not why and len(known) == len(found) and fall is not None:
        why = f"{names[fall]} gives {known[fall]:g}, and {names[fall + 1]} behind it {known[fall + 1]:g}"
    if why:
        return [], [f"the times that files give (TimeValue) are not used, as {why}: steps are counted"]
    return (known if len(known) == len(found) else []), []


def _joined(steps: Sequence[Step], arrays: Sequence[Array], tables: Sequence[list[bytes]]) -> tuple[Array, list[bytes]]:
    """One array of all steps: chunks of them all, in one table."""
    first = arrays[0]
    rows = [_chunks(array, own) for array, own in zip(arrays, tables, strict=True)]
    for step, array, (chunk, _, _) in zip(steps, arrays, rows, strict=True):
        if (array.big_endian, array.codecs, chunk) != (first.big_endian, first.codecs, rows[0][0]):
            raise DataError(
                f"{step.file}: its numbers are written in another way than those of {steps[0].file} (byte order, compression "
                "or size of blocks); write them alike"
            )
    files: dict[str, int] = {}
    listed = []
    for _, names, table in rows:
        number = np.array([files.setdefault(name, len(files)) for name in names], dtype=np.uint64)
        table[:, 0] = number[table[:, 0]]
        listed.append(table)
    joined = replace(
        first,
        shape=(len(arrays), *first.shape),
        axes="t" + first.axes,
        chunk=(1, *rows[0][0]),
        place=in_table(list(files)),
    )
    return joined, [table_of(np.concatenate(listed))]


def _chunks(array: Array, tables: list[bytes]) -> tuple[tuple[int, ...], list[str], np.ndarray[Any, Any]]:
    """An array's chunks: their size, the files that they are in, and file, first byte and length of each."""
    ((kind, place),) = array.place.items()
    if kind == "table":
        assert array.chunk is not None
        table = np.frombuffer(tables[place["table"]], "<u8").reshape(-1, 3).astype(np.uint64)
        return array.chunk, list(place["files"]), table
    nz, ny = array.shape[:2]
    row = math.prod(array.shape[2:]) * array.item
    wanted = max(1, min(ny, _ROWS_BYTES // max(1, row)))
    high = next(n for n in range(wanted, 0, -1) if ny % n == 0)
    blocks = ny // high
    table = np.zeros((nz * blocks, 3), dtype=np.uint64)
    within = np.arange(blocks, dtype=np.uint64)[None, :] * np.uint64(high * row)
    if kind == "contiguous":
        files = [place["file"]]
        starts = place["offset"] + np.arange(nz, dtype=np.uint64) * np.uint64(ny * row)
    else:
        files = list(place["files"])
        table[:, 0] = np.repeat(np.arange(nz, dtype=np.uint64), blocks)
        starts = np.array(place.get("offsets") or [place["offset"]] * nz, dtype=np.uint64)
    table[:, 1] = (starts.astype(np.uint64)[:, None] + within).reshape(-1)
    table[:, 2] = high * row
    return (1, high, *array.shape[2:]), files, table
