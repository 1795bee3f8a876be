"""Arrays on uneven coordinates, of NetCDF, HDF5 and Zarr: rectilinear zones.

Voxels of a volume are evenly apart, and levels of an ocean or an atmosphere seldom are. So the lines of coordinates give the
points of a zone, and the variables on them are its fields. Variables that lie uncompressed in a file, with no number that stands
for a missing one, stay there. Those of a time step that do not are decoded once into one flat file of the cache. Memory that this
takes does not depend on how large they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield import _core
from farfield.errors import DataError
from farfield.flow.formats.description import Array, Line, Place, Stored, Zone, Zones
from farfield.flow.formats.flat_arrays import FlatArrays, Slot, Tell, write_same
from farfield.flow.formats.registry import Asked
from farfield.runtime.resources import decoding
from farfield.sources import places
from farfield.times.dates import date_of
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.cf import conventions as cf
from farfield.volume.formats.cf import rectilinear
from farfield.volume.formats.decimals import tidied
from farfield.volume.formats.description import VolumeDescription, describe
from farfield.volume.formats.detection import of_coordinates
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.readers import module_of
from farfield.volume.formats.units import BY_NUMBERS, SECONDS, factor, followed, unit
from farfield.volume.missing_values import is_missing, of_json

_SINGLE = ("int8", "uint8", "int16", "uint16", "float32", "float16", "bool")
"""Types whose numbers single precision holds."""
_PLAIN = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
"""Types that are paged where they lie."""
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
_WORDS = {"hdf5": "HDF5 or NetCDF-4", "netcdf3": "NetCDF classic", "zarr": "Zarr"}


@dataclass
class _Field:
    """A variable of the file, opened as a volume."""

    name: str
    about: VolumeDescription
    native: Any
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


_Column = tuple[_Field | None, int]
"""A channel of a variable, or zeros."""
_Columns = list[tuple[str, list[_Column]]]
"""Name of each field, and its components."""


def read(asked: Asked, resources: ReaderResources) -> Zones | None:
    """What is on uneven coordinates; None where nothing is.

    Raises:
        DataError: if the source is damaged, or the disk is full.
        Interrupted: if the report function says so.
    """
    (path,), variable = asked.files, asked.variable
    kind = of_coordinates(path)
    if kind is None or not rectilinear.is_zone(path, Options(variable=variable), kind):
        return None
    found = rectilinear.laid(path, Options(variable=variable), kind)
    if found is None:
        raise DataError(f"{path}: it has no array on coordinates; it was changed while it was opened")
    names: list[str | None] = [variable] if variable is not None else [found.name, *found.beside]
    fields: list[_Field] = []
    try:
        for name in names:
            fields.append(_opened(path, name, found.name, kind, resources))
        # Of two variables the last parts of the names may be one.
        return _zones(path, kind, found, f"{found.name} {names}", fields, resources)
    finally:
        for of in fields:
            of.native.close()


def _opened(path: str, name: str | None, shown: str, kind: str, resources: ReaderResources) -> _Field:
    module = module_of(kind)
    # An array that is named as the source holds no others.
    only = kind == "zarr" and name == shown and not places.isdir(os.path.join(path, shown))
    about = describe(module.read(path, Options(variable=None if only else name), resources))
    native = _core.Dataset.open(about.native(), decoding(resources.memory_limit or _LIMIT), tables=about.tables)
    return _Field(str(name or shown).rsplit("/", 1)[-1], about, native)


def _zones(path: str, kind: str, found: cf.Laid, which: str, fields: list[_Field], resources: ReaderResources) -> Zones:
    dims = fields[0].about.spec["levels"][0]["dims"]
    remarks: list[str] = []
    vectors, to_metres = _velocity(found, fields, remarks)
    said: list[str] = []
    lines, length_unit = _lines(found, dims, to_metres, said)
    remarks += said
    is_single = all(np.array_equal(line.astype(np.float32), line) for line in lines)
    number = "float32" if all(f.is_single for f in fields) else "float64"
    columns = _columns(fields, vectors)
    reads = tuple(dict.fromkeys(name for f in fields for name in f.about.reads if places.isfile(name))) or (path,)
    # A store is a folder: what tells that it changed are its documents.
    files = [path] if places.isfile(path) else _documents(path)
    steps = max(1, len(fields[0].about.spec["times"]))
    made: list[list[Place]] = []
    is_converted = False
    for step in range(steps):
        why = f"has uneven coordinates, with {len(columns)} fields{f' and {steps} time steps' if steps > 1 else ''}"
        own = resources if step == 0 else replace(resources, say=None)
        flat, spots = _spots(dims, columns, step, number)
        how = f"of a rectilinear grid {which} step {step} {[(f.name, f.ratio) for f in fields]}"
        stored = flat.stored(path, own, why=why, how=how, files=files)
        is_converted = is_converted or bool(stored)
        made.append([[stored[s.number] if isinstance(s, Slot) else s for s in of] for of in spots])
    rules = tuple(Line(n, tuple(line.tolist())) for n, line in enumerate(lines))
    places_of = Array(
        "xyz", rules, role="coordinates", dtype="float32" if is_single else "float64", long_name="position"
    )
    arrays = [
        Array(name, dtype=number, components=len(of), steps=tuple(step[n] for step in made))
        for n, (name, of) in enumerate(columns)
    ]
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
    main = "velocity" if id(fields[0]) in inside else columns[1 if vectors else 0][0]
    return Zones(
        f"{_WORDS[kind]} on uneven coordinates",
        (Zone((dims[0], dims[1], dims[2]), (places_of, *arrays)),),
        files=tuple(dict.fromkeys([*files, *reads])),
        files_of_steps=((),) * steps,
        times=times,
        is_converted=is_converted,
        remarks=tuple(remarks),
        places=tuple(said),
        main_field=main,
        units=_units(columns, vectors),
        length_unit=length_unit,
        time_unit=time_unit,
    )


def _units(columns: _Columns, vectors: Sequence[_Field | None]) -> Mapping[str, str]:
    """Units of fields by the names that they have as such."""
    found = {}
    for name, parts in columns[1 if vectors else 0 :]:
        of, channel = parts[0]
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


def _columns(fields: list[_Field], vectors: list[_Field | None]) -> _Columns:
    columns: _Columns = [("velocity", [(of, 0) for of in vectors])] if vectors else []
    inside = [id(of) for of in vectors if of is not None]
    for of in fields:
        if id(of) in inside:
            continue
        for n, channel in enumerate(of.channels):
            name = of.name if len(of.channels) == 1 else str(channel["name"])
            columns.append((re.sub(r"[;\n]+", ",", name).strip(), [(of, n)]))
    return columns


def _spots(
    dims: Sequence[int], columns: _Columns, step: int, number: str
) -> tuple[FlatArrays, list[list[Stored | Slot]]]:
    """Where the components of fields are, or will be in a flat file."""
    flat = FlatArrays()
    nodes = dims[0] * dims[1] * dims[2]
    dtype = np.dtype(number).newbyteorder("<").str

    def spot(name: str, n: int, of: _Field | None, channel: int) -> Stored | Slot:
        if of is None:
            return flat.add(f"{name} {n}", dtype, nodes, partial(write_same, 0.0, dtype, nodes))
        there = _as_it_lies(of, channel, step)
        return there or flat.add(f"{name} {n}", dtype, nodes, partial(_write_values, dims, of, channel, step, dtype))

    return flat, [[spot(name, n, *part) for n, part in enumerate(parts)] for name, parts in columns]


def _as_it_lies(of: _Field, channel: int, step: int) -> Stored | None:
    """A time step of a variable that lies uncompressed in one file, and whose numbers are what they stand for."""
    about = of.channels[channel]
    array = next((a for a in of.about.spec["levels"][0]["arrays"] if a["channels"] == [channel]), None)
    if array is None or of.ratio != 1.0 or about.get("scale") is not None or about.get("missing") is not None:
        return None
    if array["codecs"] or "chunk" in array or "order" in array or array["dtype"] not in _PLAIN:
        return None
    axes = array["axes"]
    if axes.removeprefix("t") not in ("zyx", "yx", "x"):
        return None
    steps = array["shape"][0] if axes.startswith("t") else 1
    item = np.dtype(array["dtype"]).itemsize
    count = int(np.prod(array["shape"])) // steps * item
    ((way, place),) = array["where"].items()
    at = min(step, steps - 1)
    if way == "contiguous":
        file, offset = place["file"], place["offset"] + at * count
    elif way == "planes" and axes.startswith("t") and len(place["files"]) == steps:
        offsets = place.get("offsets") or [place["offset"]] * steps
        file, offset = place["files"][at], offsets[at]
    else:
        return None
    return Stored(file, ((offset, count),), array["dtype"], bool(array["big_endian"]) and item > 1)


def _write_values(
    dims: Sequence[int], of: _Field, channel: int, step: int, dtype: str, file: BinaryIO, at: int, tell: Tell
) -> None:
    file.seek(at)
    for block in _blocks(dims, of, channel, step):
        made = block.astype(dtype)
        file.write(made.tobytes())
        tell(made.nbytes)


def _blocks(dims: Sequence[int], of: _Field, channel: int, step: int) -> Iterator[NDArray[Any]]:
    """Values, rows of a plane at a time: scaled, and NaN where they are missing."""
    nx, ny, nz = dims
    rows = max(1, PIECE // (8 * nx))
    for k in range(nz):
        for j in range(0, ny, rows):
            high = min(j + rows, ny)
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
    if places.is_remote(folder):
        known = [places.join(folder, name) for name in places.DOCUMENTS]
        places.prefetch_stats(known)
        return [name for name in known if places.isfile(name)]
    found = []
    for root, folders, files in places.walk(folder):
        folders[:] = sorted(name for name in folders if not name.isdigit() and name != "c")
        found += [
            os.path.join(root, name) for name in sorted(files) if name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")
        ]
    return found
