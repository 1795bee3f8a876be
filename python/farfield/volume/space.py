"""Positions of a volume's voxels, and their description for users and programs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import UsageError
from farfield.runtime.sizes import format_bytes
from farfield.times.dates import dates_of
from farfield.volume.missing_values import as_json, of_json, text_of
from farfield.volume.orientation import OPPOSITE

_STRAIGHT = 1e-4
"""Angle in radians below which an axis counts as parallel to x, y or z."""


@dataclass(frozen=True)
class Space:
    """The map from voxels to positions: the centre of voxel (i, j, k), counted from 0, is origin + sum of index *
    spacing * direction."""

    dims: tuple[int, ...]
    origin: tuple[float, float, float]
    spacing: tuple[float, float, float]
    direction: tuple[tuple[float, float, float], ...]
    unit: str = "voxel"
    anatomy: str | None = None
    axis_units: tuple[str, str, str] | None = None
    """Units of x, y and z if they differ: then `unit` is 1."""

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Steps along i, j and k in space, as columns."""
        return np.asarray(np.array(self.direction).T * np.array(self.spacing), dtype=np.float64)

    @property
    def affine(self) -> NDArray[np.float64]:
        """The matrix, 4 x 4, from (i, j, k, 1) to positions.

        >>> space = Space((4, 5, 6), (1.0, 2.0, 3.0), (2.0, 2.0, 2.0), ((0, 1, 0), (-1, 0, 0), (0, 0, 1)))
        >>> (space.affine @ [1, 0, 0, 1]).tolist()
        [1.0, 4.0, 3.0, 1.0]
        """
        found = np.eye(4)
        found[:3, :3], found[:3, 3] = self.matrix, self.origin
        return found

    def position_of(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Position of a point in voxels."""
        return np.asarray(self.matrix @ index + np.array(self.origin))

    def index_of(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Point in voxels of a position."""
        return np.asarray(np.linalg.solve(self.matrix, position - np.array(self.origin)))

    def place(self, what: str, given: Sequence[float], *, voxels: bool = False) -> NDArray[np.float64]:
        """Checks three numbers of a position, or of `voxels` counted from 1. For a volume one voxel thick, the third is
        optional.

        Raises:
            UsageError: unless they are the right number of finite numbers.

        >>> space = Space((4, 5, 1), (1.0, 2.0, 7.0), (2.0, 2.0, 2.0), ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
        >>> space.place("a position", (3, 4)).tolist(), space.place("ijk", (3, 4), voxels=True).tolist()
        ([3.0, 4.0, 7.0], [3.0, 4.0, 1.0])
        """
        try:
            found = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.empty(0)
        flat = self.dims[2] == 1 and abs(float(np.linalg.det(self.matrix[:2, :2]))) > 0
        count = (2, 3) if flat else (3,)
        if found.ndim != 1 or len(found) not in count or not np.isfinite(found).all():
            numbers = "two or three" if flat else "three"
            raise UsageError(f"{what} of a volume is {numbers} finite numbers, not {given!r}")
        if len(found) == 3:
            return found
        if voxels:
            return np.array([*found, 1.0])
        ij = np.linalg.solve(self.matrix[:2, :2], found - np.array(self.origin[:2]))
        # The given x and y, and the plane's z there.
        return np.array([*found, self.position_of(np.array([*ij, 0.0]))[2]])

    @property
    def box(self) -> list[list[float]]:
        """Lowest and highest coordinates of the centres of voxels."""
        corners = [[c * (n - 1) for c, n in zip(corner, self.dims, strict=True)] for corner in np.ndindex(2, 2, 2)]
        places = np.array([self.position_of(np.array(c, dtype=np.float64)) for c in corners])
        return [places.min(axis=0).tolist(), places.max(axis=0).tolist()]

    def orientation(self) -> str | None:
        """Anatomical directions of i, j and k as three letters; None without anatomy.

        >>> Space((4, 5, 6), (0, 0, 0), (1, 1, 1), ((0, 1, 0), (-1, 0, 0), (0, 0, 1)), "mm", "RAS").orientation()
        'ALS'
        """
        if self.anatomy is None:
            return None
        letters = []
        for axis, sign in self.nearest_axes():
            letter = self.anatomy[axis]
            letters.append(letter if sign > 0 else OPPOSITE[letter])
        return "".join(letters)

    def nearest_axes(self) -> list[tuple[int, int]]:
        """The nearest coordinate axis of each of i, j and k, with sign; each axis once, however tilted the volume is.

        As nibabel's io_orientation: from the rotation nearest to the directions, the straightest axis first.

        >>> turned = ((0.7, 0.1, 0.7), (0.6, 0.5, -0.6), (-0.4, 0.85, 0.3))
        >>> Space((4, 5, 6), (0, 0, 0), (1, 1, 1), turned).nearest_axes()
        [(2, 1), (0, 1), (1, 1)]
        """
        rotation = _nearest_rotation(self.direction)
        found: dict[int, tuple[int, int]] = {}
        for n in np.argsort(-(rotation**2).max(axis=1), kind="stable").tolist():
            free = [axis for axis in range(3) if axis not in [used for used, _ in found.values()]]
            axis = max(free, key=lambda axis: abs(rotation[n, axis]))
            found[n] = (axis, 1 if rotation[n, axis] >= 0 else -1)
        return [found[n] for n in range(3)]

    def tilt_degrees(self) -> float:
        """Largest angle in degrees between an axis and its nearest coordinate axis."""
        along = zip(self.direction, self.nearest_axes(), strict=True)
        return math.degrees(max(math.acos(min(1.0, abs(row[axis]))) for row, (axis, _) in along))

    def dims_text(self) -> str:
        """The dimensions as text: `512 x 512 x 40`."""
        return " x ".join(str(n) for n in self.dims)

    def spacing_text(self) -> str:
        """The spacing as text: `0.5 x 0.5 x 2 mm`, or with a unit for each axis.

        >>> along = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        >>> Space((4, 5, 6), (0, 0, 0), (2, 2, 10), along, "1", None, ("degree", "degree", "m")).spacing_text()
        '2 degree x 2 degree x 10 m'
        """
        if self.axis_units is not None:
            # Axes with separate units are parallel to x, y and z.
            units = [self.axis_units[axis] for axis, _ in self.nearest_axes()]
            return " x ".join(f"{v:.6g} {_said(u)}" for v, u in zip(self.spacing, units, strict=True))
        unit = "" if self.unit in ("voxel", "1") else f" {self.unit}"
        return " x ".join(f"{v:.6g}" for v in self.spacing) + unit

    def unit_text(self) -> str:
        """The unit of positions as text.

        >>> along = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        >>> Space((4, 5, 6), (0, 0, 0), (2, 2, 10), along, "1", None, ("degree", "degree", "m")).unit_text()
        'degree, degree, m'
        """
        return _said(self.unit) if self.axis_units is None else ", ".join(map(_said, self.axis_units))

    def orientation_text(self) -> str:
        """The directions of the axes as text after a comma: letters of anatomy, and the tilt."""
        letters = self.orientation()
        parts = []
        if letters is not None:
            parts.append(", ".join(f"{a} to {letter}" for a, letter in zip("ijk", letters, strict=True)))
        elif not np.allclose(self.direction, np.eye(3), atol=_STRAIGHT):
            ways = []
            for a, (axis, sign) in zip("ijk", self.nearest_axes(), strict=True):
                ways.append(f"{a} to {'+' if sign > 0 else '-'}{'xyz'[axis]}")
            parts.append(", ".join(ways))
        if math.radians(self.tilt_degrees()) > _STRAIGHT:
            parts.append(f"tilted by {self.tilt_degrees():.3g} degrees")
        return "; " + ", ".join(parts) if parts else ""

    def axis_names(self) -> list[str]:
        """Names of x, y and z, with anatomy as `x (L to R)`.

        >>> Space((1, 1, 1), (0, 0, 0), (1, 1, 1), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), "mm", "LPS").axis_names()
        ['x (R to L)', 'y (A to P)', 'z (I to S)']
        """
        if self.anatomy is None:
            return ["x", "y", "z"]
        return [f"{a} ({OPPOSITE[to]} to {to})" for a, to in zip("xyz", self.anatomy, strict=True)]


def _said(unit: str) -> str:
    return "no unit" if unit == "1" else unit


def _nearest_rotation(direction: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """The rotation (or reflection) nearest to directions, by Newton's iteration for polar factors (Higham 1986).

    NumPy's decompositions would allocate memory outside of the ledger.
    """
    found = np.array(direction, dtype=np.float64)
    for _ in range(_ITERATIONS):
        a, b, c = found
        across = np.array([np.cross(b, c), np.cross(c, a), np.cross(a, b)])
        turned = across / float(a @ across[0])
        change = 0.5 * (turned - found)
        found = found + change
        if float(np.abs(change).max()) < _STILL:
            break
    return found


_ITERATIONS = 100
"""Far more iterations than non-planar directions need: at the end, each doubles the correct digits."""
_STILL = 1e-12


def are_counted(spec: Mapping[str, Any]) -> bool:
    """Whether a volume's steps have numbers instead of times."""
    return any("steps are counted" in sentence for sentence in spec["guessed"])


def describe(
    spec: Mapping[str, Any],
    space: Space,
    native: Mapping[str, Any],
    channels: Sequence[Any],
    seen: Sequence[tuple[float, float] | None] | None = None,
) -> dict[str, Any]:
    """The catalog of a volume, from its reader and the extension's pages and costs. `seen`: lowest and highest stored
    value of each channel, if known."""
    ranges = [None if seen is None else _range(c, pair) for c, pair in zip(channels, seen or channels, strict=True)]
    times = list(spec["times"])
    counted = are_counted(spec)
    of_levels = native.get("levels") or [{}] * len(spec["levels"])
    return {
        "source": spec["path"],
        "format": spec["format"],
        "what": "volume",
        "guessed": list(spec["guessed"]),
        "kind": spec["kind"],
        "dims": list(space.dims),
        "zones": [{"name": "volume", "dims": list(space.dims), "iblank": False}],
        "fields": [
            {"name": c.name, "components": 1, "dtype": str(c.dtype), "units": c.units, "range": pair}
            for c, pair in zip(channels, ranges, strict=True)
        ],
        "channels": [
            {
                "name": c.name, "units": c.units, "dtype": str(c.dtype), "color": c.color,
                "limits": None if c.limits is None else list(c.limits), "scale": None if c.scale is None else list(c.scale),
                "missing": as_json(c.missing), "inverted": c.inverted, "range": pair,
            }
            for c, pair in zip(channels, ranges, strict=True)
        ],
        "ranges_known": seen is not None,
        "length_unit": space.unit,
        "axis_units": None if space.axis_units is None else list(space.axis_units),
        "anatomy": space.anatomy,
        "orientation": space.orientation(),
        "direction": [list(row) for row in space.direction],
        "origin": list(space.origin),
        "spacing": list(space.spacing),
        "box": space.box,
        "levels": [
            {
                "dims": level["dims"], "origin": level["origin"], "spacing": level["spacing"],
                "page": more.get("page"), "pages": more.get("pages"),
            }
            for level, more in zip(spec["levels"], of_levels, strict=True)
        ],
        "times": times,
        "time_units": spec["time_units"],
        "dates": dates_of(times, spec["time_units"]) if " since " in spec["time_units"] else None,
        "times_counted": counted,
        "times_gaps": [],
        "times_why": "its steps are only numbered: it does not say when they are;" if counted else None,
        **{key: native.get(key) for key in ("pages", "bytes_disk", "bytes_memory", "checked", "limit_least_bytes")},
    }  # fmt: skip


def _range(channel: Any, pair: tuple[float, float] | None) -> list[float] | None:
    """The range of values for a range of stored numbers."""
    if pair is None:
        return None
    slope, intercept = channel.scale or (1.0, 0.0)
    return sorted(slope * v + intercept for v in pair)


def describe_text(info: Mapping[str, Any], space: Space) -> list[str]:
    """The catalog as text."""
    lines = [f"{info['source']}", f"format   {info['format']}"]
    lines += [f"guessed  {sentence}" for sentence in info["guessed"]]
    types = sorted({c["dtype"] for c in info["channels"]})
    lines.append(f"volume   {space.dims_text()} voxels, {math.prod(space.dims):,}; {info['kind']}, {', '.join(types)}")
    lines.append(f"spacing  {space.spacing_text()}{space.orientation_text()}")
    low, high = info["box"]
    spans = "  ".join(f"{name} {a:.6g}..{b:.6g}" for name, a, b in zip(space.axis_names(), low, high, strict=True))
    unit = "voxels, from the first one's centre to the last one's" if space.unit == "voxel" else space.unit_text()
    lines.append(f"box      {spans}  [{unit}]")
    lines.append(f"channels {len(info['channels'])}")
    width = max(len(c["name"]) for c in info["channels"])
    for c in info["channels"]:
        lines.append(f"  {c['name']:<{width}}  {c['dtype']:<8} [{c['units']}]{_of_channel(c)}")
    lines.append(f"levels   {len(info['levels'])}")
    for n, level in enumerate(info["levels"]):
        dims = " x ".join(map(str, level["dims"]))
        apart = " x ".join(f"{v:.6g}" for v in level["spacing"])
        page = f"  pages {' x '.join(map(str, level['page']))}: {level['pages']:,}" if level.get("page") else ""
        lines.append(f"  {n}  {dims}  by {apart}{page}")
    lines += [f"labels   {path}" for path in info.get("labels", ())]
    lines += _of_contents(info.get("contents") or ())
    lines.append(f"times    {_times(info)}")
    pages = info.get("pages")
    if pages:
        checked = "with checksums" if info.get("checked") else "unchecked (the format has no checksums)"
        lines.append(f"pages    {pages['total']:,} of up to {format_bytes(pages['bytes'])}, {checked}")
    if info.get("bytes_memory") is not None:
        least = info.get("limit_least_bytes")
        runs = f"; it is read within {format_bytes(least)} or more" if least else ""
        # The size of very many files is unknown.
        disk = f"{format_bytes(info['bytes_disk'])} on disk, " if info["bytes_disk"] else ""
        lines.append(f"cost     {disk}{format_bytes(info['bytes_memory'])} if all were loaded{runs}")
    if failed := info.get("ranges_failed"):
        pages = "1 page" if failed == 1 else f"{failed:,} pages"
        lines.append(
            f"ranges   not known: {pages} cannot be read; 'farfield validate {shlex.quote(info['source'])}' names them"
        )
    elif not info.get("ranges_known"):
        lines.append("ranges   not known yet; --ranges finds them, and what shows nothing is not read any more")
    return lines


def _of_contents(contents: Sequence[Mapping[str, Any]]) -> list[str]:
    """The contents of a container, each with the source that opens it."""
    if not contents:
        return []
    numbered = contents[0]["number"] is not None
    lines = [f"holds    {len(contents)}: SRC::NAME{' or SRC::NUMBER' if numbered else ''} opens one of them"]
    most = 40
    width = max(len(c["name"]) for c in contents[:most])
    for c in contents[:most]:
        number = f"{c['number']}  " if numbered else ""
        shown = "  (shown)" if c["shown"] else ""
        lines.append(f"  {number}{c['name']:<{width}}  {c['about']}{shown}".rstrip())
    return lines + [f"  ... and {len(contents) - most:,} more"] * (len(contents) > most)


def _of_channel(c: Mapping[str, Any]) -> str:
    said = ""
    if c.get("range") is not None:
        said += f"  {c['range'][0]:.6g} to {c['range'][1]:.6g}"
    if c["scale"] is not None:
        slope, intercept = c["scale"]
        said += f"  {slope:.6g} x stored {'-' if intercept < 0 else '+'} {abs(intercept):.6g}"
    if c["limits"] is not None:
        said += f"  shown from {c['limits'][0]:.6g} to {c['limits'][1]:.6g}"
    if c["color"] is not None:
        said += f"  {c['color']}"
    if c["missing"] is not None:
        said += f"  missing: {text_of(of_json(c['missing']), c['dtype'])}"
    if c["inverted"]:
        said += "  shown inverted: the lowest value is white"
    return said


def _times(info: Mapping[str, Any]) -> str:
    times = info["times"]
    if not times:
        return "one"
    unit = "" if info["time_units"] == "1" else f" [{info['time_units']}]"
    dates = info.get("dates")
    if dates and all(dates):
        last = f" to {dates[-1]}" if len(dates) > 1 else ""
        return f"{len(times)}: {dates[0]}{last} ({times[0]:g} to {times[-1]:g}{unit})"
    if len(times) == 1:
        return f"1: {times[0]:g}{unit}"
    if info["times_counted"]:
        return f"{len(times)}, numbered from 0: nothing says when they are"
    return f"{len(times)}: {times[0]:g} to {times[-1]:g}{unit}"
