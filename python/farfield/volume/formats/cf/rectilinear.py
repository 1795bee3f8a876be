"""Arrays on uneven coordinates, of NetCDF, HDF5 and Zarr: rectilinear zones, as PLOT3D has them.

Voxels of a volume are evenly apart, and levels of an ocean or an atmosphere seldom are. So such arrays are converted into the cache
once: the lines of coordinates become the points of a grid, the variables on them fields, a time step a file. Memory that this takes
does not depend on how large they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield import _core
from farfield.errors import DataError, FarfieldError
from farfield.times.dates import date_of
from farfield.volume.formats.cache_conversion import PIECE, converted
from farfield.volume.formats.cf import conventions as cf
from farfield.volume.formats.decimals import tidied
from farfield.volume.formats.description import VolumeDescription, describe
from farfield.volume.formats.options import Means, Options
from farfield.volume.formats.readers import module_of
from farfield.volume.formats.units import BY_NUMBERS, SECONDS, factor, followed, unit
from farfield.volume.missing_values import is_missing, of_json

_SINGLE = ("int8", "uint8", "int16", "uint16", "float32", "float16", "bool")
"""Types whose numbers single precision holds."""
_FEW = 20
"""Names that a sentence lists."""
_LIMIT = 64 << 20
"""Memory for reading where nobody has said how much there is."""
_COMPONENTS = {
    "x": r"u|uo|ua|vx|ux|velx|u_?velocity|velocity_?[ux]|x_?velocity|water_u|vozocrtx|eastward_\w+|\w*_x_velocity",
    "y": r"v|vo|va|vy|uy|vely|v_?velocity|velocity_?[vy]|y_?velocity|water_v|vomecrty|northward_\w+|\w*_y_velocity",
    "z": r"w|wo|wa|vz|uz|velz|w_?velocity|velocity_?[wz]|z_?velocity|water_w|vovecrtz|upward_\w+|\w*_z_velocity",
}
"""Names of the components of a velocity, of variables and of `standard_name`."""


@dataclass(frozen=True)
class Made:
    """What was made in the cache of a source."""

    grid: str
    functions: tuple[str, ...]
    """A time step each."""
    times: tuple[float, ...]
    """Seconds since the first step, or the file's own numbers where their unit is not known; empty where it says none."""
    remarks: tuple[str, ...]
    made_of: tuple[str, ...]
    places: tuple[str, ...]
    """Those of the remarks that are about positions."""
    main_field: str
    """The variable that a reader of volumes would show."""
    units: dict[str, str]
    """Those of fields that have one."""
    length_unit: str | None
    """That of positions, where all axes have one."""
    time_unit: str | None
    """That of times, where it is known."""


@dataclass
class _Field:
    """A variable of the file, opened as a volume."""

    name: str
    about: VolumeDescription
    native: Any
    reversed_axes: tuple[bool, bool, bool] = (False, False, False)
    ratio: float = 1.0
    """What its numbers are multiplied by."""

    @property
    def channels(self) -> list[dict[str, Any]]:
        return list(self.about.spec["channels"])

    @property
    def units(self) -> str:
        return str(self.channels[0]["units"])

    @property
    def is_single(self) -> bool:
        dtypes = {a["dtype"] for a in self.about.spec["levels"][0]["arrays"]}
        return dtypes <= set(_SINGLE) and all(c.get("scale") is None for c in self.channels)


def laid(path: str, options: Options, kind: str) -> cf.Laid | None:
    """How the array lies that a reader would show; None where it cannot be told: then the reader says what is wrong."""
    try:
        return module_of(kind).laid(path, options)  # type: ignore[no-any-return]
    except FarfieldError:
        return None


def is_zone(path: str, options: Options, kind: str) -> bool:
    """Whether a file or store of one of these formats holds an array on uneven coordinates. Where its user says what it is as a
    volume it is one.
    """
    if replace(options, variable=None) != Options():
        return False
    found = laid(path, options, kind)
    return found is not None and cf.uneven(found)


def as_plot3d(path: str, variable: str | None, kind: str, means: Means) -> Made:
    """The files of the cache that hold what is on uneven coordinates, made now if they are not there.

    Raises:
        DataError: if the source is damaged, or the disk is full.
        Interrupted: if the report function says so.
    """
    found = laid(path, Options(variable=variable), kind)
    if found is None:
        raise DataError(f"{path}: it has no array on coordinates; it was changed while it was opened")
    names: list[str | None] = [variable] if variable is not None else [found.name, *found.beside]
    fields: list[_Field] = []
    try:
        for name in names:
            fields.append(_opened(path, name, found.name, kind, means))
        # Of two variables the last parts of the names may be one.
        return _converted(path, found, f"{found.name} {names}", fields, means)
    finally:
        for of in fields:
            of.native.close()


def _opened(path: str, name: str | None, shown: str, kind: str, means: Means) -> _Field:

    module = module_of(kind)
    # An array that is named as the source holds no others.
    only = kind == "zarr" and name == shown and not os.path.isdir(os.path.join(path, shown))
    about = describe(module.read(path, Options(variable=None if only else name), means))
    native = _core.Volume.open(
        json.dumps(about.spec), about.tables, memory_limit=means.memory_limit or _LIMIT, workers=1, readers=0
    )
    return _Field(str(name or shown).rsplit("/", 1)[-1], about, native)


def _converted(path: str, found: cf.Laid, which: str, fields: list[_Field], means: Means) -> Made:
    dims = fields[0].about.spec["levels"][0]["dims"]
    nodes = dims[0] * dims[1] * dims[2]
    remarks: list[str] = []
    vectors, to_metres = _velocity(found, fields, remarks)
    places: list[str] = []
    lines, length_unit = _lines(found, dims, to_metres, places)
    remarks += places
    size = 4 if all(np.array_equal(line.astype(np.float32), line) for line in lines) else 8
    item = 4 if all(f.is_single for f in fields) else 8
    columns = _columns(fields, vectors)
    reads = tuple(dict.fromkeys(name for f in fields for name in f.about.reads if os.path.isfile(name))) or (path,)
    # A store is a folder: what tells that it changed are its documents.
    files = [path] if os.path.isfile(path) else _documents(path)
    grid = converted(
        path,
        means,
        count=12 + 3 * size * nodes,
        why="has uneven coordinates",
        how=f"rectilinear grid {size} {which} {[hashlib.sha256(line.tobytes()).hexdigest() for line in lines]}",
        files=files,
        write=partial(_write_grid, lines, f"<f{size}"),
    )
    steps = max(1, len(fields[0].about.spec["times"]))
    functions = []
    for step in range(steps):
        functions.append(
            converted(
                path,
                means if step == 0 else replace(means, say=None),
                count=16 + len(columns) * item * nodes,
                why=f"has uneven coordinates, with {len(columns)} fields{f' and {steps} time steps' if steps > 1 else ''}",
                how=f"rectilinear fields {item} {step} {which} {[name for name, *_ in columns]}",
                files=files,
                write=partial(_write_fields, dims, columns, step, item),
            ).path
        )
    settings = {
        "format": "binary", "byte-order": "little", "dimension": "3", "order": "whole", "plot3d-zones": "single", "iblank": "no",
        "grid": {"precision": str(8 * size)}, "function": {"precision": str(8 * item)}, "names": [name for name, *_ in columns],
    }  # fmt: skip
    _put(Path(grid.path + ".p3d.json"), json.dumps(settings))
    units = [f"{f.name} {f.units}" for f in fields if f.units != "1"]
    if units:
        remarks.append(f"Units: {', '.join(units)}.")
    if found.rest and len(fields) == 1 + len(found.beside):
        more = f" and {len(found.rest) - _FEW} more" if len(found.rest) > _FEW else ""
        remarks.append(
            f"It also holds {', '.join(found.rest[:_FEW])}{more}, of other dimensions; {path}::NAME opens one."
        )
    times, time_unit = _times(fields[0].about, remarks) if steps > 1 else ((), None)
    inside = [id(of) for of in vectors]
    main = "velocity" if id(fields[0]) in inside else columns[len(vectors)][0]
    return Made(
        grid.path,
        tuple(functions),
        times,
        tuple(remarks),
        reads,
        tuple(places),
        main,
        _units(columns, vectors),
        length_unit,
        time_unit,
    )


def _units(columns: Sequence[_Column], vectors: Sequence[_Field | None]) -> dict[str, str]:
    """Units of fields by the names that they have as such."""
    found = {}
    for name, of, channel in columns[len(vectors) :]:
        if of is not None and (said := str(of.channels[channel]["units"])) not in ("", "1"):
            # As the extension calls fields.
            found[re.sub(r"[^\w.+-]+", "_", name).strip("_.")] = said
    speeds = {"m s-1" if of.ratio != 1.0 else of.units for of in vectors if of is not None}
    if len(speeds) == 1 and speeds != {"1"}:
        found["velocity"] = speeds.pop()
    return found


def _lines(
    found: cf.Laid, dims: Sequence[int], to_metres: bool, remarks: list[str]
) -> tuple[list[NDArray[np.float64]], str | None]:
    """Coordinates along x, y and z, and their unit where it is one; cells are counted from 0 where there are none."""
    lines: list[NDArray[np.float64]] = []
    units: dict[str, str] = {}
    for n, axis in enumerate("xyz"):
        values, _ = cf.line_of(found, axis)
        if values is None:
            lines.append(np.arange(dims[n], dtype=np.float64))
            continue
        coordinate = found.coordinates[axis]
        sign, why = cf.directions(coordinate, axis)
        if why is not None:
            remarks.append(f"'{coordinate.name}' counts downwards ({why}): z, which goes up, is its negative.")
        own = unit(coordinate.attributes.get("units")) or ""
        own = "" if own == "1" else own
        ratio = factor(own, "m") if to_metres else None
        units[axis] = "m" if ratio is not None else own
        lines.append(0.0 + sign * values * (1.0 if ratio is None else ratio))
    counted = [axis for n, axis in enumerate("xyz") if axis not in units and dims[n] > 1]
    placed = [f"{axis} is in {units[axis] or 'no unit'} ('{found.coordinates[axis].name}')" for axis in units]
    why = cf.beyond_lines(found.beyond) if counted and found.beyond else ""
    remarks.append(f"Positions: {', '.join(placed)}{_counting(counted)}{why and f', as {why}'}.")
    wide = {units[axis] for n, axis in enumerate("xyz") if axis in units and dims[n] > 1}
    wide = {cf.DEGREE if own in cf.DEGREES else own for own in wide}
    return lines, None if counted or len(wide) != 1 else wide.pop() or None


def _counting(axes: Sequence[str]) -> str:
    return "" if not axes else f"; {' and '.join(axes)} count{'s' if len(axes) == 1 else ''} cells from 0, in no unit"


def _velocity(found: cf.Laid, fields: list[_Field], remarks: list[str]) -> tuple[list[_Field | None], bool]:
    """The fields that are x, y and z of a velocity, if they may be one, and whether positions are brought to metres for it."""
    by_axis: dict[str, _Field] = {}
    for axis, pattern in _COMPONENTS.items():
        match = next((f for f in fields if re.fullmatch(pattern, f.name, re.IGNORECASE) and len(f.channels) == 1), None)
        if match is not None:
            by_axis[axis] = match
    if not {"x", "y"} <= set(by_axis):
        return [], False
    names = ", ".join(f.name for f in by_axis.values())
    space = [axis for axis in "xyz" if axis in found.axes and found.shape[found.axes.index(axis)] > 1]
    own = {
        axis: unit(found.coordinates[axis].attributes.get("units")) or "" for axis in found.coordinates if axis in space
    }
    speeds = {f.units for f in by_axis.values()}
    found_ratios = followed(own.values(), [f.units for f in by_axis.values()], named=False)
    if found_ratios is None or len(own) < len(space):
        where = ", ".join(
            sorted({u or "no unit" for u in own.values()} | ({"cells"} if len(own) < len(space) else set()))
        )
        lengths = all(not u or factor(u, "m") is not None for u in own.values())
        way = "give both in units that say so" if lengths and len(own) == len(space) else "put them on a grid in metres"
        remarks.append(
            f"{names} stay scalars and are no velocity: positions are in {where}, and they in {', '.join(sorted(speeds))}; {way} "
            "to trace lines."
        )
        return [], False
    ratios, is_metric = found_ratios
    if is_metric and set(own.values()) != {"m"}:
        remarks.append("Positions are brought to m, since velocities are in m/s.")
    third = by_axis.get("z")
    for of, ratio in zip(by_axis.values(), ratios, strict=True):
        of.ratio = ratio
    brought = "" if set(ratios) == {1.0} else f", brought from {', '.join(sorted(speeds))} to m/s"
    remarks.append(f"velocity is made of {names}{brought}" + ("." if third is not None else ", and 0 along z."))
    if not is_metric and speeds != {"1"}:
        remarks.append(f"{BY_NUMBERS.format(', '.join(sorted(speeds)))}.")
    return [by_axis["x"], by_axis["y"], third], is_metric


_Column = tuple[str, "_Field | None", int]
"""A line of the list of names, and what it has: a channel of a field, or zeros."""


def _columns(fields: list[_Field], vectors: list[_Field | None]) -> list[_Column]:
    columns: list[_Column] = []
    for n, of in enumerate(vectors):
        columns.append((f"velocity {'xyz'[n]}{' ; velocity' if n == 0 else ''}", of, 0))
    inside = [id(of) for of in vectors if of is not None]
    for of in fields:
        if id(of) in inside:
            continue
        for n, channel in enumerate(of.channels):
            name = of.name if len(of.channels) == 1 else str(channel["name"])
            columns.append((re.sub(r"[;\n]+", ",", name).strip(), of, n))
    return columns


def _write_grid(lines: list[NDArray[np.float64]], dtype: str, file: BinaryIO, tell: Callable[[int], None]) -> None:
    nx, ny, nz = (len(line) for line in lines)
    file.write(np.array((nx, ny, nz), "<i4").tobytes())
    tell(12)
    made = [line.astype(dtype) for line in lines]
    rows = max(1, PIECE // (nx * made[0].itemsize))
    for n in range(3):
        for k in range(nz):
            for j in range(0, ny, rows):
                block = np.empty((min(rows, ny - j), nx), dtype)
                block[:] = (made[0][None, :], made[1][j : j + len(block), None], made[2][k])[n]
                file.write(block.tobytes())
                tell(block.nbytes)


def _write_fields(
    dims: Sequence[int], columns: list[_Column], step: int, item: int, file: BinaryIO, tell: Callable[[int], None]
) -> None:
    file.write(np.array((*dims, len(columns)), "<i4").tobytes())
    tell(16)
    for _, of, channel in columns:
        for block in _blocks(dims, of, channel, step):
            made = block.astype(f"<f{item}")
            file.write(made.tobytes())
            tell(made.nbytes)


def _blocks(dims: Sequence[int], of: _Field | None, channel: int, step: int) -> Iterator[NDArray[Any]]:
    """Values, rows of a plane at a time: scaled, and NaN where they are missing."""
    nx, ny, nz = dims
    rows = max(1, PIECE // (8 * nx))
    for k in range(nz):
        for j in range(0, ny, rows):
            high = min(j + rows, ny)
            if of is None:
                yield np.zeros((high - j, nx))
                continue
            stored = np.asarray(of.native.read_box(0, channel, (0, j, k), (nx, high, k + 1), step))
            about = of.channels[channel]
            values = stored.astype(np.float64)
            if about.get("scale") is not None:
                values = values * about["scale"][0] + about["scale"][1]
            if of.ratio != 1.0:
                values = values * of.ratio
            values[is_missing(stored, of_json(about.get("missing")))] = np.nan
            yield values


def _times(about: VolumeDescription, remarks: list[str]) -> tuple[tuple[float, ...], str | None]:
    """When the steps are, from the first one on: in seconds where the unit is known. And that unit."""
    times, said = [float(t) for t in about.spec["times"]], str(about.spec["time_units"])
    if any("steps are counted" in g for g in about.spec["guessed"]):
        return (), None
    word, _, since = said.partition(" since ")
    seconds = SECONDS.get(unit(word) or "")
    first = times[0]

    begin = date_of(first, said)
    if seconds is None:
        if begin is not None:
            remarks.append(f"Times count {word} from {begin}.")
        return tuple(tidied(t - first) for t in times), None if word == "1" else word
    if begin is not None:
        remarks.append(f"Times count seconds from {begin}.")
    elif since or first:
        remarks.append(f"Times count seconds from {first:g} {said}.")
    return tuple(tidied((t - first) * seconds) for t in times), "s"


def _documents(folder: str) -> list[str]:
    """The documents of a store, by which it is known."""
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.isdigit() and name != "c")
        found += [
            os.path.join(root, name) for name in sorted(files) if name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")
        ]
    return found


def _put(path: Path, text: str) -> None:
    """Writes a small file that is there whole or not at all."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
