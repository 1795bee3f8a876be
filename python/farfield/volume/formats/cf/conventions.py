"""What the CF conventions say of arrays: coordinates, units, scale factors, missing values. For Zarr, HDF5 and NetCDF alike."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.cf.axes import by_attributes
from farfield.volume.formats.decimals import decimals
from farfield.volume.formats.description import Array, Channel, Geometry
from farfield.volume.formats.units import factor, unit
from farfield.volume.missing_values import Missing, each, next_of, text_of, together

DEGREE, DEGREES = "degree", ("degrees_east", "degrees_north", "degree", "degrees", "degree_east", "degree_north")
"""The unit of angles, and how files write it."""


@dataclass(frozen=True)
class Coordinate:
    """The coordinate of a dimension."""

    name: str
    attributes: Mapping[str, Any]
    values: Callable[[], NDArray[Any]]
    """Reads them; they are as many as the dimension is long."""


@dataclass(frozen=True)
class Laid:
    """How an array lies, before it is known where its numbers are."""

    name: str
    axes: str
    """A letter a dimension."""
    shape: tuple[int, ...]
    coordinates: Mapping[str, Coordinate]
    """By letter."""
    beside: tuple[str, ...] = ()
    """Other fields of the same dimensions."""
    beyond: tuple[str, ...] = ()
    """Coordinates that place nothing here, as they are of several dimensions."""
    rest: tuple[str, ...] = ()
    """Fields of other dimensions."""


@dataclass
class Located:
    """Where an array lies, by its coordinates."""

    geometry: Geometry
    length_unit: str = "voxel"
    axis_units: tuple[str, str, str] | None = None
    """Of x, y and z where they have no unit in common; `length_unit` is 1 then."""
    times: list[float] = field(default_factory=list)
    time_units: str = "1"
    guessed: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    """Those of the sentences that make positions doubtful."""


def uneven(laid: Laid) -> bool:
    """Whether an array is one of a rectilinear grid: along an axis of space its coordinate goes one way, in unlike steps."""
    space = [axis for axis in "xyz" if axis in laid.axes and laid.shape[laid.axes.index(axis)] > 1]
    if len(space) < 2 or not {"x", "y"} <= set(laid.axes):
        return False
    return any(line_of(laid, axis)[1] for axis in space)


def line_of(laid: Laid, axis: str) -> tuple[NDArray[np.float64] | None, bool]:
    """Coordinates along an axis, and whether their steps are unlike; None where it has none, or they go back and forth."""
    coordinate = laid.coordinates.get(axis)
    if coordinate is None or axis not in laid.axes:
        return None, False
    length = laid.shape[laid.axes.index(axis)]
    first, _, why = _even(coordinate, length)
    return (None, False) if first is None else (_numbers(coordinate), why is not None)


def locate(
    axes: str, shape: Sequence[int], coordinates: Mapping[str, Coordinate], beyond: Sequence[str] = ()
) -> Located:
    """Geometry and times by the coordinates of axes (`coordinates` by letter); axes without one count voxels. `beyond` are
    coordinates that place nothing here.
    """
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
            found.places.append(why)
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
    counted = [axis for axis in "xyz" if axis in axes and shape[axes.index(axis)] > 1 and axis not in units]
    wide = [axis for axis in units if shape[axes.index(axis)] > 1]
    _one_unit(units, origin, spacing, said, found)
    counting = f"{_and(counted)} count{'s' if len(counted) == 1 else ''} voxels"
    why = beyond_lines(beyond) if counted and beyond else ""
    if counted and (wide or found.length_unit != "voxel"):
        placed = ", ".join(f"{axis} is in {'no unit' if units[axis] == '1' else units[axis]}" for axis in units)
        found.places.append(f"{counting}, and {placed}: positions have no one unit{why and f', as {why}'}")
        said.append(found.places[-1])
        found.length_unit, found.axis_units = "1", None
    elif why:
        found.places.append(f"{why}: {counting} from 0")
        said.append(found.places[-1])
    found.geometry = Geometry(
        (origin[0], origin[1], origin[2]),
        (spacing[0], spacing[1], spacing[2]),
        tuple((float(row[0]), float(row[1]), float(row[2])) for row in direction),
    )
    if "t" in axes and "t" in coordinates:
        _times(coordinates["t"], shape[axes.index("t")], found, said)
    found.guessed = said
    return found


def beyond_lines(beyond: Sequence[str]) -> str:
    """What is said of coordinates of more than one dimension, which place nothing here.

    >>> beyond_lines(["lat", "lon"])
    'its coordinates lat, lon are not one line for each axis and are not used'
    """
    one = len(beyond) == 1
    which = f"its coordinate {beyond[0]} is" if one else f"its coordinates {', '.join(beyond)} are"
    return f"{which} not one line for each axis and {'is' if one else 'are'} not used"


def _and(words: Sequence[str]) -> str:
    """Words as prose lists them.

    >>> _and("xyz"), _and("x")
    ('x, y and z', 'x')
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def not_fields(variables: Iterable[tuple[str, Mapping[str, Any]]]) -> set[str]:
    """Names of variables that others name as what belongs to them: bounds of cells, coordinates, areas, flags.

    >>> sorted(not_fields([("lat", {"bounds": "corners"}), ("t", {"coordinates": "lat lon", "cell_measures": "area: dx"})]))
    ['corners', 'dx', 'lat', 'lon']
    """
    found: set[str] = set()
    for _, about in variables:
        for key in ("bounds", "climatology", "coordinates", "cell_measures", "ancillary_variables", "grid_mapping"):
            found |= {word for word in str(about.get(key, "")).split() if not word.endswith(":")}
    return found


def directions(coordinate: Coordinate, axis: str) -> tuple[float, str | None]:
    """By which a coordinate's numbers are multiplied so that z goes up, and why.

    >>> directions(Coordinate("depth", {"positive": "down"}, lambda: np.zeros(1)), "z")
    (-1.0, 'positive: down')
    """
    word = _downward(coordinate) if axis == "z" else None
    return (1.0 if word is None else -1.0), word


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
    units: dict[str, str],
    origin: list[float],
    spacing: list[float],
    said: list[str],
    found: Located,
) -> None:
    """One unit for the three axes: that of x; z is brought to it where that is possible."""
    if not units:
        return
    main = units.get("x") or units.get("y") or units["z"]
    found.length_unit = DEGREE if main in DEGREES else main
    along = [found.length_unit] * 3
    for n, axis in enumerate("xyz"):
        own = units.get(axis, main)
        if own == main or (own in DEGREES and main in DEGREES):
            continue
        ratio = factor(own, main)
        if ratio is None:
            first = "x" if "x" in units else "y"
            shown = [f"{a} is in {'no unit' if u == '1' else u}" for a, u in ((axis, own), (first, main))]
            said.append(
                f"{' and '.join(shown)}: pictures take their numbers as of one unit (give a spacing of your own where that "
                "looks wrong)"
            )
            found.places.append(said[-1])
            along[n] = DEGREE if own in DEGREES else own
        else:
            origin[n], spacing[n] = origin[n] * ratio, spacing[n] * ratio
    if len(set(along)) > 1:
        found.length_unit, found.axis_units = "1", (along[0], along[1], along[2])


def _times(coordinate: Coordinate, steps: int, found: Located, said: list[str]) -> None:
    values = _numbers(coordinate)
    if values is None or len(values) != steps or not np.isfinite(values).all():
        said.append(f"the times in '{coordinate.name}' are not a number for each step: steps are counted")
        return
    stored = np.asarray(coordinate.values())
    found.times = decimals(stored if np.array_equal(stored, values) else values)
    found.time_units = unit(coordinate.attributes.get("units")) or "1"
    calendar = str(coordinate.attributes.get("calendar", "")).lower()
    # Two calendars are the same from 1582 on.
    since = re.search(r" since \+?0*(\d+)-", found.time_units)
    alike = ("", "standard", "gregorian", *(["proleptic_gregorian"] if since and int(since[1]) > _REFORM else []))
    if " since " in found.time_units and calendar not in alike:
        found.time_units += f" ({calendar})"


_REFORM = 1582
"""The year from which on the calendar of everyday use is the Gregorian one."""


def scale_of(about: Mapping[str, Any]) -> tuple[tuple[float, float] | None, list[str]]:
    """`scale_factor` and `add_offset`, and a sentence where they make no sense."""
    factor_, offset = number(about.get("scale_factor")), number(about.get("add_offset"))
    if factor_ is None and offset is None:
        return None, []
    pair = (1.0 if factor_ is None else factor_, 0.0 if offset is None else offset)
    if not all(map(math.isfinite, pair)) or pair[0] == 0:
        return None, [f"its scale_factor {pair[0]} and add_offset {pair[1]} make no sense and are not used"]
    return pair, []


def signed_as_said(array: Array, about: Mapping[str, Any], missing: Missing) -> Missing:
    """Gives an array's whole numbers the sign that `_Unsigned` says (NetCDF classic and others have no unsigned types), and what
    stands in chunks that were never written along with them. What stands for a missing value, as numbers are then.
    """
    dtype = _signed(array.dtype, about)
    if dtype == array.dtype:
        return missing
    array.dtype = dtype
    array.fill = None if array.fill is None else _resigned(array.fill, array.dtype)
    return each(missing, partial(_resigned, dtype=array.dtype))


def _signed(dtype: str, about: Mapping[str, Any]) -> str:
    """A type as `_Unsigned` has it.

    >>> _signed("int8", {"_Unsigned": "true"}), _signed("uint8", {}), _signed("float32", {"_Unsigned": "true"})
    ('uint8', 'uint8', 'float32')
    """
    said = str(about.get("_Unsigned")).lower()
    if said not in ("true", "false") or not dtype.removeprefix("u").startswith("int"):
        return dtype
    return ("u" if said == "true" else "") + dtype.removeprefix("u")


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


DEFAULT_FILLS: Mapping[str, float] = {
    "int16": -32767, "uint16": 65535, "int32": -2147483647, "uint32": 4294967295, "int64": -9223372036854775806,
    "uint64": 18446744073709551614, "float32": 9.969209968386869e36, "float64": 9.969209968386869e36,
}  # fmt: skip
"""What NetCDF's library writes where nobody has, by type (NetCDF User's Guide). Of bytes every number may be a value."""


def missing_of(array: Array, about: Mapping[str, Any], default: float | None = None) -> tuple[Missing, list[str]]:
    """The stored numbers that stand for a missing value, by an array's attributes: `_FillValue`, all of `missing_value`, and what
    lies beyond `valid_range`, `valid_min` and `valid_max`, as netCDF4-python has it. `default` is what the format's library
    writes where nobody has, unless `_FillValue` names another number. A sentence says what is left out by a range.

    The numbers are those of the type that the array has before `signed_as_said`.
    """
    fill = numbers(about.get("_FillValue"))
    found = together(*fill, *numbers(about.get("missing_value")), None if fill else default)
    beyond, said = _beyond(array, about)
    return together(signed_as_said(array, about, found), beyond), said


def _beyond(array: Array, about: Mapping[str, Any]) -> tuple[Missing, list[str]]:
    """What lies beyond the valid range: of an array of whole numbers with a scale, a range of floats is one of values."""
    ends = [numbers(about.get("valid_min"))[:1], numbers(about.get("valid_max"))[:1]]
    both = numbers(about.get("valid_range"))
    ends = [[v] for v in both] if len(both) == 2 else ends
    if not any(ends) or array.dtype in ("bool",):
        return None, []
    low, high = (end[0] if end and not math.isnan(end[0]) else None for end in ends)
    whole = array.dtype.removeprefix("u").startswith("int")
    scale, _ = scale_of(about)
    of_values = whole and scale is not None and all(isinstance(v, float) for v in (low, high) if v is not None)
    dtype = _signed(array.dtype, about)
    if dtype != array.dtype and not of_values:
        low, high = (None if v is None else _resigned(v, dtype) for v in (low, high))
    shown = text_of(((-math.inf if low is None else low, math.inf if high is None else high),))
    if of_values and scale is not None:
        low, high = (None if v is None else (v - scale[1]) / scale[0] for v in (low, high))
        low, high = (high, low) if scale[0] < 0 else (low, high)
    if low is not None and high is not None and not low <= high:
        return None, [f"its valid range {shown} holds no number: it is not used"]
    under = () if low is None else ((-math.inf, next_of(low, dtype, -math.inf)),)
    over = () if high is None else ((next_of(high, dtype, math.inf), math.inf),)
    what = "" if of_values or scale is None else " as stored"
    return together(under, over), [f"its valid range is {shown}{what}: numbers beyond it are missing"]


def channel_of(name: str, about: Mapping[str, Any], missing: Missing) -> tuple[Channel, list[str]]:
    """A channel by an array's attributes, and sentences about what makes no sense in them."""
    scale, said = scale_of(about)
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
        or re.fullmatch(r"latitude|longitude", str(about.get("standard_name", ""))) is not None
        or re.fullmatch(r"degrees?_(north|east|N|E)", str(about.get("units", ""))) is not None
    )


def numbers(value: Any) -> list[float]:
    """All numbers of an attribute, whole ones with all their digits; none where it is text.

    >>> numbers(np.array([7, 8], "i2")), numbers("7, 8"), numbers(None), numbers(1.5)
    ([7, 8], [], [], [1.5])
    """
    found = np.asarray(() if value is None else value).reshape(-1)
    return [v.item() for v in found] if found.dtype.kind in "iuf" else []


def number(value: Any) -> float | None:
    """A number of an attribute, the first where it has several; None where it has none."""
    try:
        return None if value is None else float(np.asarray(value).reshape(-1)[0])
    except (TypeError, ValueError, IndexError):  # text, or nothing
        return None
