"""VTK files whose grids are zones, as files that are paged where they lie: a time step is a file, or several blocks."""

from __future__ import annotations

import filecmp
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field

from farfield.errors import DataError
from farfield.runtime.progress import reporting
from farfield.runtime.run_context import to_stderr
from farfield.runtime.settings import Settings
from farfield.times.file_times import why_untimed
from farfield.volume.formats.options import Means, sparing
from farfield.volume.formats.vtk.collection import Step
from farfield.volume.formats.vtk.grids import Grid
from farfield.volume.formats.vtk.multiblock import time_of_blocks
from farfield.volume.formats.vtk.zones import ZoneFiles, as_plot3d, form_of, grids_of, holds_flow, is_flow_image

_AT_ONCE = 8
"""So many files have their headers read at a time."""


@dataclass(frozen=True)
class Series:
    """What files were made of a series, and of which."""

    grids: tuple[str, ...]
    """One if the grid does not move."""
    functions: tuple[str, ...]
    """None if there are no fields."""
    remarks: tuple[str, ...]
    made_of: tuple[str, ...]
    """The series' files, and those of their pieces."""
    times: tuple[float, ...] = ()
    """When the steps are; none where nothing says it."""
    zones: int = 1
    define: dict[str, str] = field(default_factory=dict)
    """Fields that go by other names too."""
    notes: tuple[str, ...] = ()
    """Those of the remarks that whoever uses several steps should hear."""
    format: str = "VTK XML"
    untimed: str = ""
    """Why the times that files give are not those of the steps, where they are not."""
    places: tuple[str, ...] = ()
    """What every command that gives positions says of them."""


def series_of(steps: Sequence[Step], *, quiet: bool = False) -> Series:
    """What time steps become, in order of time where files say their times.

    Raises:
        DataError: if a file is damaged, or a step has other fields or another number of blocks than the first one.
        Interrupted: if the report function says so.
    """
    with reporting(False if quiet else None) as report:
        say: Callable[[str], None] | None = None if quiet else to_stderr
        if len(steps) > 1:
            say = sparing(steps[0].file, len(steps), say)
        settings = Settings()
        means = Means(settings["cache_dir"], report, say, None, settings.cache_limit())
        grids = _grids(steps, means)
        form = form_of(grids)
        made = [as_plot3d(of, step.parts, form, means) for of, step in zip(grids, steps, strict=True)]
    _check(steps, made)
    when = _times(steps, made)
    notes = when.notes
    made = [made[n] for n in when.order]
    first = made[0]
    grid_files = [zone.grid for zone in made]
    # Files may have the same size and other points.
    if all(filecmp.cmp(first.grid, grid, shallow=False) for grid in grid_files[1:]):
        grid_files = grid_files[:1]
    remarks = [*([] if when.untimed else notes), *first.remarks]
    if first.of_cells:
        remarks.append(f"Of cells are {', '.join(first.of_cells)}: each point has the mean of the cells around it.")
    single = steps[0].parts[0].file
    if len(steps) == len(steps[0].parts) == 1 and is_flow_image(single):
        flows = holds_flow(grids[0][0])
        why = (
            "It holds a flow, and opens as one" if flows else "Points or cells of it are hidden, and it opens as a zone"
        )
        remarks.append(f"{why}: {os.path.basename(single)}::NAME opens one of its arrays as a volume, where it lies.")
    functions = tuple(zone.function for zone in made if zone.function is not None)
    made_of = tuple(dict.fromkeys(file for zone in made for file in zone.made_of))
    return Series(
        tuple(grid_files),
        functions,
        tuple(remarks),
        made_of,
        when.times,
        len(first.dims),
        first.define,
        tuple(notes),
        first.format,
        when.untimed,
        _folds(made),
    )


def _folds(made: Sequence[ZoneFiles]) -> tuple[str, ...]:
    """What makes places doubtful, at the first step at which something does."""
    folded = [(n, zone.folds) for n, zone in enumerate(made) if zone.folds]
    if not folded:
        return ()
    n, folds = folded[0]
    when = (
        "" if len(made) == 1 else f" At step {n}" + (f", and {len(folded) - 1} others" if len(folded) > 1 else "") + "."
    )
    more = f" So it is in {len(folds) - 1} other zones." if len(folds) > 1 else ""
    return (folds[0] + more + when,)


def _grids(steps: Sequence[Step], means: Means) -> list[list[Grid]]:
    """What the files of each step hold. Headers of a series are read some at a time, since each waits for its disk."""
    if len(steps) == 1:
        return [grids_of(steps[0].parts, means)]
    with ThreadPoolExecutor(min(_AT_ONCE, len(steps))) as pool:
        # Each in a copy of its own: what this run has found is shared.
        waiting = [pool.submit(copy_context().run, grids_of, step.parts, means) for step in steps]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _check(steps: Sequence[Step], made: Sequence[ZoneFiles]) -> None:
    first = made[0]
    for step, zone in zip(steps, made, strict=True):
        if len(zone.dims) != len(first.dims):
            raise DataError(
                f"{step.named}: its time step has {len(zone.dims)} blocks, and that of {steps[0].named} {len(first.dims)}; the "
                "steps of a series have the same"
            )
        if zone.names != first.names:
            here, there = (", ".join(of.names) or "none" for of in (zone, first))
            raise DataError(
                f"{step.named}: its arrays are {here}, and those of {steps[0].named} {there}; the files of a series have the same"
            )
        if zone.dims != first.dims:
            raise DataError(
                f"{step.named}: its zones have {_sizes(zone)} points, and those of {steps[0].named} {_sizes(first)}; the files of "
                "a series are of one size"
            )


def _sizes(zone: ZoneFiles) -> str:
    listed = [" x ".join(map(str, dims)) for dims in zone.dims]
    return ", ".join(listed[:3]) + (", ..." if len(listed) > 3 else "")


@dataclass(frozen=True)
class _Times:
    """When steps are, and what is to be said of it."""

    times: tuple[float, ...]
    """In their order; empty where nothing says it."""
    order: list[int]
    """That of the steps."""
    notes: list[str] = field(default_factory=list)
    untimed: str = ""
    """Why times that files give are not used."""


def _times(steps: Sequence[Step], made: Sequence[ZoneFiles]) -> _Times:
    """When steps are, by the collection or else by the files."""
    order = list(range(len(steps)))
    said = [step.time for step in steps]
    if None not in said:
        return _Times(tuple(time for time in said if time is not None), order)
    listed = [time_of_blocks(step.listed_in) if step.listed_in else None for step in steps]
    times = [zone.time if time is None else time for time, zone in zip(listed, made, strict=True)]
    known = [time for time in times if time is not None]
    # That one file alone has no time is said where it is read.
    if not known or (len(steps) == 1 and not math.isfinite(known[0])):
        return _Times((), order)
    if why := why_untimed([step.named for step in steps], times):
        return _Times((), order, untimed=why)
    order.sort(key=lambda n: known[n])
    ordered = [known[n] for n in order]
    notes = []
    if order != list(range(len(steps))):
        n = next(n for n in range(len(order) - 1) if order[n] > order[n + 1])
        a, b = order[n], order[n + 1]
        notes.append(
            f"The steps are sorted by the times in the files, not by the names: {os.path.basename(steps[a].named)} ({known[a]:g}) "
            f"comes before {os.path.basename(steps[b].named)} ({known[b]:g})."
        )
    return _Times(tuple(ordered), order, notes)
