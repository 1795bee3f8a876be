"""What the CF conventions say of arrays: coordinates, units, scale factors, missing values. For Zarr, HDF5 and NetCDF alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.axes import by_attributes
from farfield.volume.description import Array, Channel, Geometry
from farfield.volume.units import factor, unit


@dataclass(frozen=True)
class Coordinate:
    """The coordinate of a dimension."""

    name: str
    attributes: Mapping[str, Any]
    values: Callable[[], NDArray[Any]]
    """Reads them; they are as many as the dimension is long."""


@dataclass
class Located:
    """Where an array lies, by its coordinates."""

    geometry: Geometry
    length_unit: str = "voxel"
    times: list[float] = field(default_factory=list)
    time_units: str = "1"
    guessed: list[str] = field(default_factory=list)


def locate(axes: str, shape: Sequence[int], coordinates: Mapping[str, Coordinate]) -> Located:
    """Geometry and times by the coordinates of axes (`coordinates` by letter); axes without one count voxels."""
    origin, spacing, direction = [0.0] * 3, [1.0] * 3, np.eye(3)
    units: dict[str, str] = {}
    said: list[str] = []
    found = Located(Geometry((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), ()))
    for n, axis in enumerate("xyz"):
        coordinate = coordinates.get(axis)
        if coordinate is None or axis not in axes:
            continue
        length = shape[axes.index(axis)]
        first, step, why = _even(coordinate, length)
        if why:
            said.append(why)
        if first is None or step is None:
            continue
        if axis == "z" and (word := _downward(coordinate)) is not None:
            # One value alone goes nowhere.
            first, step = 0.0 - first, step if length == 1 else -step
            said.append(
                f"the coordinate '{coordinate.name}' counts downwards ({word}): z, which goes up, is its negative"
            )
        origin[n], spacing[n] = first, abs(step)
        if step < 0:
            direction[n, n] = -1.0
        units[axis] = unit(coordinate.attributes.get("units")) or "1"
    _one_unit(units, origin, spacing, said, found)
    found.geometry = Geometry(
        (origin[0], origin[1], origin[2]),
        (spacing[0], spacing[1], spacing[2]),
        tuple((float(row[0]), float(row[1]), float(row[2])) for row in direction),
    )
    if "t" in axes and "t" in coordinates:
        _times(coordinates["t"], shape[axes.index("t")], found, said)
    found.guessed = said
    return found


_PRESSURE = frozenset((
    "pa", "hpa", "kpa", "pascal", "pascals", "bar", "bars", "mb", "mbar", "millibar", "millibars", "dbar", "decibar", "decibars",
    "atm", "torr",
))  # fmt: skip


def _downward(coordinate: Coordinate) -> str | None:
    """Why the numbers of a vertical coordinate grow towards the ground; None where they grow upwards, or nothing says so.

    >>> _downward(Coordinate("lev", {"units": "hPa"}, lambda: np.zeros(1)))
    'it is a pressure, in hPa'
    """
    about = coordinate.attributes
    positive = str(about.get("positive", "")).strip().lower()
    if positive in ("up", "down"):
        return "positive: down" if positive == "down" else None
    # CF has these as downwards where nothing else is said.
    standard = str(about.get("standard_name", "")).split(" ")[0]
    if standard == "depth" or standard.startswith("depth_below"):
        return f"its standard_name is {standard}"
    units = str(about.get("units", "")).strip()
    return f"it is a pressure, in {units}" if units.lower() in _PRESSURE else None


def _numbers(coordinate: Coordinate) -> NDArray[np.float64] | None:
    try:
        values = np.asarray(coordinate.values())
    except (TypeError, ValueError):  # no numbers: text, or records
        return None
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return None
    if str(coordinate.attributes.get("_Unsigned")).lower() == "true" and values.dtype.kind == "i":
        values = values.astype(values.dtype.newbyteorder("=")).view(f"u{values.dtype.itemsize}")
    scaled = values.astype(np.float64)
    scale, _ = scale_of(coordinate.attributes)
    return scaled if scale is None else scaled * scale[0] + scale[1]


def _even(coordinate: Coordinate, length: int) -> tuple[float | None, float | None, str | None]:
    """First value and step of a coordinate, and a sentence where it is not even."""
    name = coordinate.name
    values = _numbers(coordinate)
    if values is None or len(values) != length or not np.isfinite(values).all():
        return None, None, f"the coordinate '{name}' does not hold a number for each voxel: voxels are counted along it"
    first, last = float(values[0]), float(values[-1])
    if length == 1:
        return first, 1.0, None
    step = (last - first) / (length - 1)
    gaps = np.diff(values)
    if not (gaps > 0).all() and not (gaps < 0).all():
        return None, None, f"the coordinate '{name}' does not go one way: voxels are counted along it"
    # What is left by rounding to single precision is no unevenness.
    slack = max(abs(step) * 1e-3, 4 * float(np.finfo(np.float32).eps) * max(abs(first), abs(last)))
    if np.abs(values - (first + step * np.arange(length))).max() > slack:
        low, high = float(np.abs(gaps).min()), float(np.abs(gaps).max())
        return (
            first,
            step,
            f"the coordinate '{name}' is uneven (steps of {low:.6g} to {high:.6g}): its voxels are shown evenly "
            f"between its first and its last value, {first:.6g} and {last:.6g}",
        )
    return first, _tidy(values, step), None


def _tidy(values: NDArray[np.float64], step: float) -> float:
    """The step as it was meant: the shortest decimal number that gives the same coordinates."""
    for digits in range(1, 16):
        short = float(f"{step:.{digits}g}")
        made = float(values[0]) + short * np.arange(len(values))
        if np.array_equal(made, values) or np.allclose(made, values, rtol=1e-15, atol=0):
            return short
    return step


def _one_unit(
    units: dict[str, str], origin: list[float], spacing: list[float], said: list[str], found: Located
) -> None:
    """One unit for the three axes: that of x; z is brought to it where that is possible."""
    if not units:
        return
    main = units.get("x") or units.get("y") or units["z"]
    degrees = ("degrees_east", "degrees_north", "degree", "degrees", "degree_east", "degree_north")
    found.length_unit = "degree" if main in degrees else ("voxel" if main == "1" else main)
    for n, axis in enumerate("xyz"):
        own = units.get(axis, main)
        if own == main or (own in degrees and main in degrees):
            continue
        ratio = factor(own, main)
        if ratio is None:
            said.append(
                f"{axis} is in {own} and {'x' if 'x' in units else 'y'} in {main}: their numbers are taken as of one unit "
                "(give a spacing of your own where that looks wrong)"
            )
        else:
            origin[n], spacing[n] = origin[n] * ratio, spacing[n] * ratio


def _times(coordinate: Coordinate, steps: int, found: Located, said: list[str]) -> None:
    values = _numbers(coordinate)
    if values is None or len(values) != steps or not np.isfinite(values).all():
        said.append(f"the times in '{coordinate.name}' are not a number for each step: steps are counted")
        return
    found.times = [float(v) for v in values]
    found.time_units = unit(coordinate.attributes.get("units")) or "1"


def scale_of(about: Mapping[str, Any]) -> tuple[tuple[float, float] | None, list[str]]:
    """`scale_factor` and `add_offset`, and a sentence where they make no sense."""
    factor_, offset = number(about.get("scale_factor")), number(about.get("add_offset"))
    if factor_ is None and offset is None:
        return None, []
    pair = (1.0 if factor_ is None else factor_, 0.0 if offset is None else offset)
    if not all(map(math.isfinite, pair)) or pair[0] == 0:
        return None, [f"its scale_factor {pair[0]} and add_offset {pair[1]} make no sense and are not used"]
    return pair, []


def signed_as_said(array: Array, about: Mapping[str, Any], missing: float | None) -> float | None:
    """Gives an array's whole numbers the sign that `_Unsigned` says (NetCDF classic and others have no unsigned types), and what
    stands in chunks that were never written along with them. What stands for a missing value, as numbers are then.
    """
    said = str(about.get("_Unsigned")).lower()
    if said not in ("true", "false") or not array.dtype.removeprefix("u").startswith("int"):
        return missing
    array.dtype = ("u" if said == "true" else "") + array.dtype.removeprefix("u")
    array.fill = None if array.fill is None else _resigned(array.fill, array.dtype)
    return None if missing is None else _resigned(missing, array.dtype)


def _resigned(value: float, dtype: str) -> float:
    """A whole number as one of a type of another sign and as many bits reads it; what is none of either is left as it is.

    >>> _resigned(-1, "uint16"), _resigned(65535, "int16"), _resigned(-1, "int8"), _resigned(0.5, "uint8")
    (65535, -1, -1, 0.5)
    """
    if not math.isfinite(value) or int(value) != value:
        return value
    limits, span = np.iinfo(dtype), 1 << np.iinfo(dtype).bits
    found = int(value) + (span if value < limits.min else -span if value > limits.max else 0)
    return found if limits.min <= found <= limits.max else value


def left_as_they_are(about: Mapping[str, Any]) -> list[str]:
    """Sentences about values that an array's attributes say are none, and that are shown all the same."""
    said = []
    missing = np.asarray(about.get("missing_value", ())).reshape(-1)
    if missing.size > 1:
        said.append(f"it names {missing.size} missing values, of which one stands for no value here: {missing[0]}")
    low, high = about.get("valid_min"), about.get("valid_max")
    valid = np.asarray(about.get("valid_range", ())).reshape(-1)
    if valid.size == 2:
        low, high = valid
    if low is not None or high is not None:
        ends = f"{'' if low is None else low} to {'' if high is None else high}".strip()
        said.append(f"its valid range is {ends} (as stored): values beyond it are shown as they are")
    return said


def channel_of(name: str, about: Mapping[str, Any], missing: float | None) -> tuple[Channel, list[str]]:
    """A channel by an array's attributes, and sentences about what makes no sense in them."""
    scale, said = scale_of(about)
    said += left_as_they_are(about)
    limits = about.get("actual_range")
    pair = None
    if isinstance(limits, Sequence | np.ndarray) and not isinstance(limits, str) and len(limits) == 2:
        low, high = number(limits[0]), number(limits[1])
        pair = None if low is None or high is None else (low, high)
    text = str(about.get("long_name") or name)
    return Channel(text, unit(about.get("units")) or "1", limits=pair, scale=scale, missing=missing), said


def is_bound(name: str, about: Mapping[str, Any], names: Sequence[str | None]) -> bool:
    """Whether an array is a coordinate, and not a field."""
    return (
        (len(names) == 1 and names[0] == name)
        or (len(names) <= 1 and by_attributes(about) is not None)
        or name.endswith(("_bnds", "_bounds"))
    )


def number(value: Any) -> float | None:
    """A number of an attribute, the first where it has several; None where it has none."""
    try:
        return None if value is None else float(np.asarray(value).reshape(-1)[0])
    except (TypeError, ValueError, IndexError):  # text, or nothing
        return None
