"""Where the arrays of VTK grids are, for pages: in the file as it is, by a rule, or in a flat file of the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.flow.formats.description import Constant, Line, Rule, Stored, Uniform
from farfield.flow.formats.flat_arrays import FlatArrays, Slot, Tell, write_same
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.vtk.array_names import Variable
from farfield.volume.formats.vtk.grids import Column, Grid, blanks, image_of, of_points, reading
from farfield.volume.formats.vtk.outline import encoding_of
from farfield.volume.formats.vtk.pieces import coordinates_of, is_whole

Spot = tuple[Stored, ...] | tuple[Rule, ...] | Slot
"""Where an array is, or will be."""
_SINGLE = ("int8", "uint8", "int16", "uint16", "float32")
"""Types whose numbers single precision holds."""


@dataclass(frozen=True)
class Form:
    """What the zones of a series have in common, whatever its steps are."""

    places: str
    """Type of coordinates."""
    numbers: str
    """Type of fields."""
    blanked: bool
    planar: bool
    arrays: tuple[str, ...]
    """Their order, which is that of the first step."""

    @property
    def coordinates(self) -> int:
        """Those of a position."""
        return 2 if self.planar else 3


def form_of(steps: Sequence[Sequence[Grid]]) -> Form:
    """The form that holds the grids of all steps of a series."""
    grids = [grid for step in steps for grid in step]
    arrays = dict.fromkeys(column.name for grid in steps[0] for column in grid.fields)
    return Form(
        "<f4" if all(grid.points and all(c.dtype in _SINGLE for c in grid.points) for grid in grids) else "<f8",
        "<f4" if all(c.dtype in _SINGLE for grid in grids for c in grid.fields) else "<f8",
        any(grid.ghosts for grid in grids),
        all(grid.plane is not None for grid in grids),
        tuple(arrays),
    )


def axes_of(grid: Grid, *, planar: bool) -> list[int]:
    """The axes of the file that are i, j and k: of a plane the two that have several points."""
    return [n for n in range(3) if grid.dims[n] > 1] if planar else [0, 1, 2]


def dims_of(grid: Grid, *, planar: bool) -> tuple[int, int, int]:
    """Points along i, j and k."""
    a, b, c = (*(grid.dims[n] for n in axes_of(grid, planar=planar)), 1)[:3]
    return a, b, c


def _as_it_lies(grid: Grid, column: Column) -> Stored | None:
    """An array of points that the file holds uncompressed and in one piece; the file is open (`reading`).

    Raises:
        DataError: if it is not as long as it should be.
    """
    array = column.parts[0][1]
    if column.where not in ("Points", "PointData") or not is_whole(grid.found, grid.whole):
        return None
    if array.format != "bare" and (array.format != "raw" or encoding_of(grid.found).compressor is not None):
        return None
    item = np.dtype(column.dtype).itemsize
    count = grid.nodes * column.components * item
    return Stored(
        grid.path,
        ((grid.reader.plain_start(array, count), count),),
        column.dtype,
        grid.reader.big_endian and item > 1,
        component_bytes=item,
        point_bytes=item * column.components,
    )


def points_of(grid: Grid, form: Form, flat: FlatArrays, *, zone: int, by_rule: bool) -> Spot:
    """Where positions are; `by_rule` whether a rule may give them. The file is open."""
    count = form.coordinates
    if grid.found.kind == "StructuredGrid":
        there = _as_it_lies(grid, grid.points[0])
        if there is not None:
            return (there,)
        write = partial(_write_columns, grid, [(grid.points[0], range(count))], form.places)
        return flat.add(f"{zone} points", form.places, count * grid.nodes, write)
    rules = _rules(grid, form)
    if by_rule:
        return rules
    return flat.add(f"{zone} rules {rules}", form.places, count * grid.nodes, partial(_write_rules, grid, rules, form))


def _rules(grid: Grid, form: Form) -> tuple[Rule, ...]:
    axes = axes_of(grid, planar=form.planar)
    found: list[Rule] = []
    if grid.found.kind == "RectilinearGrid":
        lines = coordinates_of(grid.found, grid.reader, grid.whole)
        for n in range(form.coordinates):
            values = tuple(lines[n].astype(form.places).astype(np.float64).tolist())
            found.append(Line(axes.index(n), values) if n in axes else Constant(values[0]))
        return tuple(found)
    origin, columns = image_of(grid)
    for n in range(form.coordinates):
        steps = (*(float(columns[axis][n]) for axis in axes), 0.0)
        found.append(Uniform(float(origin[n]), (steps[0], steps[1], steps[2])))
    return tuple(found)


def blanking_of(grid: Grid, flat: FlatArrays, *, zone: int, by_rule: bool) -> Spot:
    """Where iblank is."""
    if not grid.ghosts and by_rule:
        return (Constant(1.0),)
    return flat.add(f"{zone} iblank", "<i4", grid.nodes, partial(_write_blanks, grid))


def field_of(grid: Grid, variable: Variable, form: Form, flat: FlatArrays, *, zone: int, by_rule: bool) -> Spot:
    """Where a field is; the file is open."""
    columns = {column.name: column for column in grid.fields}
    parts = [(columns.get(name), component) for name, component in variable.parts]
    if by_rule and all(column is None for column, _ in parts):
        return tuple(Constant(None) for _ in parts)
    there = [None if column is None else _as_it_lies(grid, column) for column, _ in parts]
    found = [of for of in there if of is not None]
    if len(found) == len(parts):
        if len({id(column) for column, _ in parts}) == 1 and [c for _, c in parts] == list(range(len(parts))):
            return (found[0],)
        return tuple(_component(of, c) for of, (_, c) in zip(found, parts, strict=True))
    groups: list[tuple[Column | None, list[int]]] = []
    for column, component in parts:
        if groups and column is not None and groups[-1][0] is column:
            groups[-1][1].append(component)
        else:
            groups.append((column, [component]))
    name = f"{zone} {variable.name} {variable.parts}"
    write = partial(_write_columns, grid, groups, form.numbers)
    return flat.add(name, form.numbers, len(parts) * grid.nodes, write)


def _component(of: Stored, component: int) -> Stored:
    """One component of an array whose components stand together."""
    if not component:
        return of
    ((start, count),) = of.runs
    skip = component * (of.component_bytes or 0)
    return Stored(
        of.path, ((start + skip, count - skip),), of.number, of.big_endian, of.component_bytes, of.point_bytes
    )


def _write_columns(
    grid: Grid,
    groups: Sequence[tuple[Column | None, Sequence[int]]],
    dtype: str,
    file: BinaryIO,
    at: int,
    tell: Tell,
) -> None:
    """Components of arrays one after the other; no numbers where there is none."""
    item = np.dtype(dtype).itemsize
    with reading(grid):
        for column, components in groups:
            if column is None:
                write_same(np.nan, dtype, grid.nodes * len(components), file, at, tell)
            else:
                done = 0
                for values in of_points(grid, column):
                    for n, c in enumerate(components):
                        file.seek(at + (n * grid.nodes + done) * item)
                        file.write(values[:, c].astype(dtype).tobytes())
                    done += len(values)
                    tell(len(values) * len(components) * item)
            at += len(components) * grid.nodes * item


def _write_rules(grid: Grid, rules: Sequence[Rule], form: Form, file: BinaryIO, at: int, tell: Tell) -> None:
    """The places of all points, coordinate by coordinate and plane by plane."""
    nx, ny, nz = dims_of(grid, planar=form.planar)
    rows = max(1, PIECE // (nx * 8))
    i = np.arange(nx)[None, :]
    file.seek(at)
    for rule in rules:
        place = _numbers(rule)
        for k in range(nz):
            for j in range(0, ny, rows):
                count = min(rows, ny - j)
                block = np.empty((count, nx), form.places)
                block[:] = place((i, np.arange(j, j + count)[:, None], np.array(k)))
                file.write(block.tobytes())
                tell(block.nbytes)


def _numbers(rule: Rule) -> Callable[[Sequence[NDArray[np.int64]]], Any]:
    """The numbers of a rule by the indices of points."""

    def uniform(x: Sequence[NDArray[np.int64]]) -> Any:
        assert isinstance(rule, Uniform)
        found: Any = rule.origin
        for step, n in zip(rule.steps, x, strict=True):
            if step != 0:
                found = found + step * n
        return found

    if isinstance(rule, Line):
        values, axis = np.array(rule.values), rule.axis
        return lambda x: values[x[axis]]
    if isinstance(rule, Uniform):
        return uniform
    value = np.nan if rule.value is None else rule.value
    return lambda _: value


def _write_blanks(grid: Grid, file: BinaryIO, at: int, tell: Tell) -> None:
    """Iblank of all points: hidden ones are 0."""
    write_same(1, "<i4", grid.nodes, file, at, lambda _: None)
    with reading(grid):
        for column in grid.ghosts:
            start = 0
            for blank in blanks(grid, column):
                file.seek(at + 4 * start)
                before = np.frombuffer(file.read(4 * len(blank)), "<i4")
                # A hidden point hides what begins at it, too.
                kept = np.where(before == 0, 0, np.where(blank == 1, before, blank))
                file.seek(at + 4 * start)
                file.write(kept.astype("<i4").tobytes())
                start += len(blank)
    tell(4 * grid.nodes)
