"""VTK grids that are zones: `.vts`, and `.vtr` whose coordinates are uneven; `.vti` and even `.vtr` that hold a flow, or are
blocks of several; `.pvts`, `.pvtr`, `.pvti` of such pieces; legacy files. A time step is a file, or several blocks.

Arrays that lie in a file in one piece as they are in memory stay there, and places of uniform and rectilinear grids follow from a
rule. All others of a time step are decoded once into one flat file of the cache. Memory that this takes does not depend on how
large it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace

from farfield.errors import DataError
from farfield.flow.formats.description import Array, Rule, Stored, Zone, Zones
from farfield.flow.formats.flat_arrays import FlatArrays, Slot, are_equal, read_rows
from farfield.flow.formats.registry import Asked
from farfield.flow.formats.vtk_arrays import Form, Spot, blanking_of, dims_of, field_of, form_of, points_of
from farfield.sources import places
from farfield.times.file_times import why_untimed
from farfield.volume.formats.files import head
from farfield.volume.formats.options import ReaderResources, sparing
from farfield.volume.formats.signatures import is_vtk
from farfield.volume.formats.vtk.array_names import Arrayed, Variable, Variables, variables_of
from farfield.volume.formats.vtk.collection import Step, steps_named
from farfield.volume.formats.vtk.folded_cells import Folded, folds_of
from farfield.volume.formats.vtk.grids import Grid, reading
from farfield.volume.formats.vtk.legacy import is_legacy
from farfield.volume.formats.vtk.multiblock import names_of, refuse_unread, time_of_blocks
from farfield.volume.formats.vtk.pieces import files_of
from farfield.volume.formats.vtk.zones import grids_of, holds_flow, is_flow_image, is_zone

_AT_ONCE = 8
"""So many files have their headers read at a time."""
Placed = tuple[Stored, ...] | tuple[Rule, ...]


def read(asked: Asked, resources: ReaderResources) -> Zones | None:
    """The zones of VTK files; None where they are volumes alone.

    Raises:
        DataError: if one is damaged, some are of another kind, or have other fields.
        Interrupted: if the report function says so.
    """
    remarks: list[str] = []
    left_out: list[str] = []
    steps = steps_named(asked.files, remarks, left_out)
    parts = [part.file for step in steps for part in step.parts]
    if not any(places.isfile(name) and is_vtk(name) for name in parts):
        if len(asked.files) == 1 and places.isfile(parts[0]) and b'type="UnstructuredGrid"' in head(parts[0], 4096):
            refuse_unread(asked.text, parts[0], "part")
        return None
    # What is volumes alone, one a step, is left to those who read them; none of them reads lists of blocks.
    if not left_out and all(len(s.parts) == 1 and not s.listed_in for s in steps) and not any(map(is_zone, parts)):
        return None
    others = [name for name in parts if not is_vtk(name)]
    if others:
        refuse_unread(asked.text, others[0], "part")
        raise DataError(
            f"{asked.text}: {others[0]} is no grid of VTK, as others of its files are; name those that go together"
        )
    found = _series_of(steps, resources)
    return replace(
        found,
        remarks=(*left_out, *found.places, *remarks, *found.remarks),
        notes=(*remarks, *found.notes),
        places=(*left_out, *found.places),
    )


@dataclass
class _Made:
    """A time step: what is known of it before its arrays have their places, and these."""

    step: Step
    grids: list[Grid]
    variables: Variables
    dims: list[tuple[int, int, int]]
    files: list[str]
    remarks: list[str]
    spots: list[list[Spot]] = field(default_factory=list)
    """By zone: positions, iblank if there is one, fields."""
    flat: FlatArrays = field(default_factory=FlatArrays)
    places: list[list[Placed]] = field(default_factory=list)
    """The same, with the flat file made."""
    folds: list[str] = field(default_factory=list)

    @property
    def fields(self) -> list[str]:
        """Names of fields."""
        return [of.name for of in self.variables.fields]


def _series_of(steps: Sequence[Step], resources: ReaderResources) -> Zones:
    """What time steps become, in order of time where files say their times."""
    if len(steps) > 1:
        resources = replace(resources, say=sparing(steps[0].file, len(steps), resources.say))
    grids = _grids(steps, resources)
    form = form_of(grids)
    made = [_step_of(step, of, form) for step, of in zip(steps, grids, strict=True)]
    _check(made)
    _place(made, form)
    for of in made:
        _settle(of, form, resources)
    when = _times(made)
    made = [made[n] for n in when.order]
    first = made[0]
    moves = not all(_is_same_grid(first, of, form) for of in made[1:])
    remarks = [*([] if when.untimed else when.notes), *first.remarks]
    of_cells = dict.fromkeys(c.name for grid in first.grids for c in grid.fields if c.where == "CellData")
    if of_cells:
        remarks.append(f"Of cells are {', '.join(of_cells)}: each point has the mean of the cells around it.")
    single = first.step.parts[0].file
    if len(made) == len(first.step.parts) == 1 and is_flow_image(single):
        why = (
            "It holds a flow, and opens as one"
            if holds_flow(first.grids[0])
            else "Points or cells of it are hidden, and it opens as a zone"
        )
        remarks.append(f"{why}: {os.path.basename(single)}::NAME opens one of its arrays as a volume, where it lies.")
    return Zones(
        "legacy VTK" if is_legacy(first.grids[0].found) else "VTK XML",
        _zones(made, form, moves=moves),
        # Whose grid it is: a step that is added later has that one, or another.
        files=() if moves else tuple(first.files),
        files_of_steps=tuple(tuple(of.files) for of in made),
        dimension=form.coordinates,
        times=when.times,
        untimed=when.untimed,
        is_converted=any(of.flat.kept for of in made),
        remarks=tuple(remarks),
        notes=tuple(when.notes),
        places=_folds(made),
        define=first.variables.define,
    )


def _grids(steps: Sequence[Step], resources: ReaderResources) -> list[list[Grid]]:
    """What the files of each step hold. Headers of a series are read some at a time, since each waits for its disk."""
    if len(steps) == 1:
        return [grids_of(steps[0].parts, resources)]
    with ThreadPoolExecutor(min(_AT_ONCE, len(steps))) as pool:
        # Each in a copy of its own: what this run has found is shared.
        waiting = [pool.submit(copy_context().run, grids_of, step.parts, resources) for step in steps]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _step_of(step: Step, grids: list[Grid], form: Form) -> _Made:
    arrays, lacking = _fields_of(grids)
    place_of = {name: n for n, name in enumerate(form.arrays)}
    arrays.sort(key=lambda array: place_of.get(array.name, len(place_of)))
    variables = variables_of(arrays, planar=form.planar)
    remarks = [*grids[0].remarks, *lacking]
    planes = sorted({grid.plane for grid in grids if grid.plane is not None})
    if form.planar:
        at = f"z = {planes[0]:g}" if len(planes) == 1 else f"z = {planes[0]:g} to {planes[-1]:g}"
        remarks.append(f"It is flat ({at}), and so two-dimensional: lines stay in its plane, and positions are x,y.")
    files = list(dict.fromkeys(file for grid in grids for file in files_of(grid.found)))
    return _Made(step, grids, variables, [grid.dims for grid in grids], files, [*remarks, *variables.remarks])


def _fields_of(grids: Sequence[Grid]) -> tuple[list[Arrayed], list[str]]:
    """The arrays of all zones, and what is to be said of those that not all have."""
    found: dict[str, Arrayed] = {}
    lacking: dict[str, int] = {}
    for grid in grids:
        for column in grid.fields:
            there = found.setdefault(column.name, Arrayed(column.name, column.components))
            if there.components != column.components:
                raise DataError(
                    f"{grid.path}: its array '{column.name}' has {column.components} numbers a point, and another block "
                    f"{there.components}; the blocks of a dataset are alike"
                )
    for name in found:
        without = [grid for grid in grids if all(column.name != name for column in grid.fields)]
        if without:
            lacking[name] = len(without)
    remarks = [
        f"Of the {len(grids)} zones {count} lack{'s' if count == 1 else ''} {name}: there it is no number (NaN)."
        for name, count in lacking.items()
    ]
    return list(found.values()), remarks


def _check(made: Sequence[_Made]) -> None:
    first = made[0]
    for of in made:
        if len(of.dims) != len(first.dims):
            raise DataError(
                f"{of.step.named}: its time step has {len(of.dims)} blocks, and that of {first.step.named} {len(first.dims)}; the "
                "steps of a series have the same"
            )
        shape, wanted = ([(v.name, len(v.parts)) for v in each.variables.fields] for each in (of, first))
        if shape != wanted:
            here, there = (", ".join(each.fields) or "none" for each in (of, first))
            raise DataError(
                f"{of.step.named}: its arrays are {here}, and those of {first.step.named} {there}; the files of "
                "a series have the same"
            )
        if of.dims != first.dims:
            raise DataError(
                f"{of.step.named}: its zones have {_sizes(of)} points, and those of {first.step.named} {_sizes(first)}; the "
                "files of a series are of one size"
            )


def _sizes(of: _Made) -> str:
    listed = [" x ".join(map(str, dims)) for dims in of.dims]
    return ", ".join(listed[:3]) + (", ..." if len(listed) > 3 else "")


def _place(made: Sequence[_Made], form: Form) -> None:
    """Finds where arrays are. One that has a rule at some steps alone has none: there its numbers are written out."""
    for of in made:
        of.spots, of.flat = _spots(of, form, lambda _zone, _n: True)
    written = {
        (zone, n)
        for zone, spots in enumerate(made[0].spots)
        for n in range(len(spots))
        if len({_has_rule(of.spots[zone][n]) for of in made}) > 1
    }
    for of in made if written else ():
        of.spots, of.flat = _spots(of, form, lambda zone, n: (zone, n) not in written)


def _has_rule(spot: Spot) -> bool:
    return not isinstance(spot, Slot) and not isinstance(spot[0], Stored)


def _spots(of: _Made, form: Form, by_rule: Callable[[int, int], bool]) -> tuple[list[list[Spot]], FlatArrays]:
    flat, found = FlatArrays(), []
    for zone, grid in enumerate(of.grids):
        with reading(grid):
            spots: list[Spot] = [points_of(grid, form, flat, zone=zone, by_rule=by_rule(zone, 0))]
            if form.blanked:
                spots.append(blanking_of(grid, flat, zone=zone, by_rule=by_rule(zone, 1)))
            for variable in of.variables.fields:
                rule = by_rule(zone, len(spots))
                spots.append(field_of(grid, variable, form, flat, zone=zone, by_rule=rule))
        found.append(spots)
    return found, flat


def _settle(of: _Made, form: Form, resources: ReaderResources) -> None:
    """Makes the flat file, where arrays need one."""
    first = of.grids[0]
    single = len(of.grids) == 1
    what = {
        "StructuredGrid": "a curvilinear grid",
        "RectilinearGrid": "a rectilinear grid",
        "ImageData": "a uniform grid",
    }[first.found.kind]
    what = what if single else f"the first of {len(of.grids):,} blocks, {what}"
    why = f"is {what} in " + ("a legacy VTK file" if is_legacy(first.found) else "VTK's XML")
    image = single and is_flow_image(first.path)
    instead = f"open {first.path}::NAME, which reads an array of it as a volume where it lies" if image else ""
    stored = of.flat.stored(first.path, resources, why=why, how=f"of VTK {form}", files=of.files, instead=instead)
    of.places = [[(stored[spot.number],) if isinstance(spot, Slot) else spot for spot in spots] for spots in of.spots]
    folded: list[Folded | None] = []
    for grid, placed in zip(of.grids, of.places, strict=True):
        # What hidden cells hold is of no account.
        if grid.found.kind != "StructuredGrid" or grid.ghosts or (1 in grid.dims and not form.planar):
            folded.append(None)
            continue
        dims = dims_of(grid, planar=form.planar)[: form.coordinates]
        (place,) = placed[0]
        assert isinstance(place, Stored)
        folded.append(Folded(read_rows(place, dims, form.coordinates), dims))
    of.folds = folds_of(first.path, folded, names_of(of.step.parts), form.places, of.files, resources)


def _zones(made: Sequence[_Made], form: Form, *, moves: bool) -> tuple[Zone, ...]:
    first = made[0]
    names = names_of(first.step.parts) or [""] * len(first.grids)
    geometry = 2 if form.blanked else 1
    zones = []
    for zone, grid in enumerate(first.grids):
        dims = dims_of(grid, planar=form.planar)

        def at(n: int, zone: int = zone) -> tuple[Placed, ...]:
            steps = made if moves or n >= geometry else made[:1]
            return tuple(of.places[zone][n] for of in steps)

        number = form.places[1:]
        arrays = [
            Array("xyz", role="coordinates", dtype=_dtype(number), components=form.coordinates, steps=at(0), long_name="position")
        ]  # fmt: skip
        if form.blanked:
            arrays.append(Array("iblank", role="iblank", dtype="int32", components=1, steps=at(1)))
        for n, variable in enumerate(first.variables.fields):
            arrays.append(_field(variable, n, form, at(geometry + n)))
        zones.append(Zone(dims, tuple(arrays), names[zone]))
    return tuple(zones)


def _field(variable: Variable, number: int, form: Form, steps: tuple[Placed, ...]) -> Array:
    name = variable.name or f"f{number + 1}"
    return Array(name, dtype=_dtype(form.numbers[1:]), components=len(variable.parts), steps=steps)


def _dtype(word: str) -> str:
    return {"f4": "float32", "f8": "float64"}[word]


def _is_same_grid(first: _Made, other: _Made, form: Form) -> bool:
    """Whether the positions and iblank of a step are those of the first one: files may have the same size and other points."""
    for zone, (here, there) in enumerate(zip(first.places, other.places, strict=True)):
        dims = dims_of(first.grids[zone], planar=form.planar)
        for n in range(2 if form.blanked else 1):
            (a, *_), (b, *_) = here[n], there[n]
            if not (isinstance(a, Stored) and isinstance(b, Stored)):
                if here[n] != there[n]:
                    return False
            elif not are_equal(a, b, dims, 1 if n else form.coordinates, "<i4" if n else form.places):
                return False
    return True


def _folds(made: Sequence[_Made]) -> tuple[str, ...]:
    """What makes places doubtful, at the first step at which something does."""
    folded = [(n, of.folds) for n, of in enumerate(made) if of.folds]
    if not folded:
        return ()
    n, folds = folded[0]
    when = (
        "" if len(made) == 1 else f" At step {n}" + (f", and {len(folded) - 1} others" if len(folded) > 1 else "") + "."
    )
    more = f" So it is in {len(folds) - 1} other zones." if len(folds) > 1 else ""
    return (folds[0] + more + when,)


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


def _times(made: Sequence[_Made]) -> _Times:
    """When steps are, by the collection or else by the files."""
    steps = [of.step for of in made]
    order = list(range(len(steps)))
    said = [step.time for step in steps]
    if None not in said:
        return _Times(tuple(time for time in said if time is not None), order)
    listed = [time_of_blocks(step.listed_in) if step.listed_in else None for step in steps]
    times = [of.grids[0].time if time is None else time for time, of in zip(listed, made, strict=True)]
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
