"""What the dimensions of an array are: by their names, by what attributes say of their coordinates, or by where they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from farfield.errors import DataError
from farfield.volume.formats.description import text_of

_NAMES = {
    "t": r"t|time|times|date|step|timestep|frame|frames|valid_time|forecast_time\d*|xtime",
    "c": r"c|ch|channel|channels|component|components|comp|band|bands|rgb|rgba|color|colour|vector|sample|samples|s",
    "z": r"z|k|nz|depth|lev|level|levels|plev|height|altitude|alt|elevation|slice|slices|plane|vertical|pressure|isobaric\w*|"
    r"s_rho|s_w|sigma|hybrid|bottom_top\w*|deptht|depthu|depthv|depthw|z_\w+|zc|zf|mlev|ilev|pfull|phalf|olevel|dim_z|z_dim",
    "y": r"y|j|ny|lat|latitude|nav_lat|south_north\w*|yc|yf|rlat|projection_y\w*|northing|row|rows|eta_rho|eta_\w+|y_\w+|"
    r"latc|lat_\w+|nlat|dim_y|y_dim",
    "x": r"x|i|nx|lon|longitude|nav_lon|west_east\w*|xc|xf|rlon|projection_x\w*|easting|col|cols|column|columns|xi_rho|xi_\w+|"
    r"x_\w+|lonc|lon_\w+|nlon|dim_x|x_dim",
}
_PATTERNS = {axis: re.compile(pattern, re.IGNORECASE) for axis, pattern in _NAMES.items()}
_STANDARD = {
    "t": r"time|forecast_reference_time",
    "z": r"depth|height\w*|altitude|air_pressure|ocean_\w*coordinate|atmosphere_\w*coordinate|model_level_number",
    "y": r"latitude|grid_latitude|projection_y_coordinate",
    "x": r"longitude|grid_longitude|projection_x_coordinate",
}


def by_attributes(about: Mapping[str, Any]) -> str | None:
    """The axis that a coordinate's CF attributes say it is.

    >>> by_attributes({"units": "degrees_north"}), by_attributes({"axis": "Z"}), by_attributes({"units": "days since 1990-1-1"})
    ('y', 'z', 't')
    """
    axis = str(about.get("axis", "")).lower()
    if axis in ("t", "z", "y", "x"):
        return axis
    name = str(about.get("standard_name", ""))
    for found, pattern in _STANDARD.items():
        if re.fullmatch(pattern, name):
            return found
    units = str(about.get("units", "")).lower()
    if re.fullmatch(r"degrees?_?(north|n)", units):
        return "y"
    if re.fullmatch(r"degrees?_?(east|e)", units):
        return "x"
    if " since " in units:
        return "t"
    if str(about.get("positive", "")).lower() in ("up", "down"):
        return "z"
    return None


def by_name(name: str | None) -> str | None:
    """The axis that a dimension's name stands for.

    >>> [by_name(n) for n in ("time", "LAT", "x", "member", None)]
    ['t', 'y', 'x', None, None]
    """
    if not name:
        return None
    return next((axis for axis, pattern in _PATTERNS.items() if pattern.fullmatch(name)), None)


def of_array(
    what: str,
    shape: Sequence[int],
    names: Sequence[str | None] | None,
    about: Mapping[str, Mapping[str, Any]],
    *,
    colours: bool,
) -> tuple[str, list[str]]:
    """A letter a dimension, and sentences about what was guessed.

    `about` are attributes of the coordinates by dimension's name; `colours` says that the numbers may be colours.

    Raises:
        DataError: if there are too many dimensions.

    >>> of_array("a", (40, 1, 500), None, {}, colours=False)[0], of_array("a", (1, 1, 9, 8, 7), None, {}, colours=False)[0]
    ('zyx', 'tczyx')
    >>> of_array("a", (9, 8, 7, 3), None, {}, colours=True)[0]
    'zyxc'
    >>> of_array("a", (5, 9, 8, 7), ["run", "z", "y", "x"], {}, colours=False)
    ('tzyx', ["what 'run' are is not known: 5 x 9 x 8 x 7 are taken as t z y x"])
    """
    given = list(names or [None] * len(shape))
    found = [by_attributes(about.get(n or "", {})) or by_name(n) for n in given]
    for axis in "tczyx":  # one of a name counts, where it is not the only one the last: (y, x) are the fastest
        for n in [n for n, a in enumerate(found) if a == axis][:-1]:
            found[n] = None
    named = [a for a in found if a is not None]
    if len(named) == len(shape):
        return "".join(named), []
    # Dimensions without a known name: those of length 1 are none, the others take what is left from the fastest on.
    wide = [n for n, a in enumerate(found) if a is None and shape[n] > 1]
    left = [a for a in "xyz" if a not in named]
    said: list[str] = []
    if not named and colours and len(shape) > 2 and shape[-1] in (3, 4):
        found[-1] = "c"
        wide = [n for n in wide if n != len(shape) - 1]
        said.append(f"the last of the dimensions {text_of(shape)} counts components of a colour")
    blank = [n for n, a in enumerate(found) if a is None]
    if len(blank) <= len(left):
        wide = blank
    # One dimension more is time; of two the slower one is.
    spare = [a for a in ("tc" if len(wide) - len(left) < 2 else "ct") if a not in found]
    for n in reversed(wide):
        if not left and not spare:
            raise DataError(
                f"{what} has {len(shape)} dimensions ({text_of(shape)}): a volume has z, y and x, and beside them "
                "time and channels; take the part that is to be shown out of it into an array of its own"
            )
        found[n] = left.pop(0) if left else spare.pop(0)
    # Those of length 1 fill up what has no dimension yet, so that each has a letter of its own.
    free = [a for a in "xyzct" if a not in found]
    for n in reversed(range(len(shape))):
        if found[n] is None:
            if not free:
                raise DataError(
                    f"{what} has {len(shape)} dimensions ({text_of(shape)}), of which five may be axes; drop some"
                )
            found[n] = free.pop(0)
    axes = "".join(a or "" for a in found)
    which = ", ".join(repr(n) for n, a in zip(given, found, strict=True) if n and by_name(n) is None) if names else ""
    reason = f"what {which} are is not known" if which else "nothing names the dimensions"
    said.append(f"{reason}: {text_of(shape)} are taken as {' '.join(axes)}")
    return axes, said
