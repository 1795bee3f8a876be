"""Metadata of TIFF pixels: OME-XML, ImageJ's text, resolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from farfield.errors import DataError
from farfield.volume.formats.description import Channel
from farfield.volume.formats.files import local_name, xml
from farfield.volume.formats.units import factor, in_common, unit


@dataclass
class About:
    """Geometry of voxels, and channels."""

    format: str
    spacing: tuple[float, float, float] = (1.0, 1.0, 1.0)
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    length_unit: str = "voxel"
    time_step: float | None = None
    time_units: str = "1"
    channels: list[Channel] = field(default_factory=list)


def of(path: str, file: Any, series: Any, guessed: list[str]) -> About:
    """The metadata of a file, from the first source that has any."""
    big = "BigTIFF" if file.is_bigtiff else "TIFF"
    if file.is_ome and series.kind == "ome":
        return _ome(path, file, series, guessed)
    if file.is_imagej and file.imagej_metadata:
        return _imagej(file, dict(file.imagej_metadata), guessed)
    found = About(big)
    spacing = _resolution(series.keyframe)
    if spacing is not None:
        found.spacing, found.length_unit = (spacing[0], spacing[1], spacing[0]), spacing[2]
        if len(series.pages) > 1:
            guessed.append("it does not say how far its pages are apart: as far as its pixels along x")
    else:
        guessed.append("it does not say how large a voxel is: 1; --spacing X,Y,Z says otherwise")
    return found


_GDAL_METADATA = 42112


def of_bands(path: str, page: Any, channels: list[Channel], kind: str) -> list[str]:
    """Applies names, units, scales and offsets of GDAL to channels; returns notes about invalid ones."""
    tag = page.tags.get(_GDAL_METADATA)
    if tag is None or kind not in ("scalar", "channels"):
        return []
    try:
        items = [e for e in xml(path, str(tag.value)).iter() if local_name(e.tag) == "Item"]
    except DataError:
        return ["what GDAL says of its bands cannot be read, and is not used"]
    said: list[str] = []
    of_channel: dict[tuple[int, str], str] = {}
    for item in items:
        number, role = item.get("sample", ""), item.get("role", "")
        if (
            number.isdecimal()
            and int(number) < len(channels)
            and role in ("scale", "offset", "unittype", "description")
        ):
            of_channel[int(number), role] = str(item.text or "").strip()
    for n, channel in enumerate(channels):
        slope, offset = _number(of_channel.get((n, "scale"), 1)), _number(of_channel.get((n, "offset"), 0))
        if slope is None or offset is None or slope == 0:
            said.append(f"the scale and offset of its band {n + 1} make no sense and are not used")
        elif (slope, offset) != (1.0, 0.0):
            channel.scale = (slope, offset)
        channel.units = unit(of_channel.get((n, "unittype"))) or channel.units
        name = of_channel.get((n, "description"))
        # Names open channels, so they must be unique.
        if name and sum(of_channel.get((m, "description")) == name for m in range(len(channels))) == 1:
            channel.name = name
    return said


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):  # absent, or text
        return None
    return found if math.isfinite(found) else None


def _positive(value: Any) -> float | None:
    found = _number(value)
    return found if found is not None and found > 0 else None


def _resolution(page: Any) -> tuple[float, float, str] | None:
    """Pixel sizes, if the resolution is a physical length: per centimetre; per inch is for printers."""
    if int(page.resolutionunit or 1) != 3:
        return None
    x, y = (_per_unit(page, tag) for tag in ("XResolution", "YResolution"))
    if x is None or y is None:
        return None
    ratio = factor("cm", "mm") or 10.0
    return ratio / x, ratio / y, "mm"


def _per_unit(page: Any, tag: str) -> float | None:
    found = page.tags.get(tag)
    try:
        top, bottom = found.value
        return _positive(top / bottom)
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):  # absent, or no ratio
        return None


_STRAIGHT, _NO_FUNCTION = 0, (20, 21)
"""ImageJ's numbers of calibration functions: a straight line; none, and uncalibrated film."""


def _calibrated(about: dict[str, Any], guessed: list[str]) -> tuple[tuple[float, float] | None, str]:
    """Slope and offset of ImageJ's calibration, and the unit of the result. Signed numbers are stored as unsigned ones
    with such an offset."""
    function = _number(about.get("cf"))
    if function is None or function in _NO_FUNCTION:
        return None, "1"
    offset, slope = _number(about.get("c0")), _number(about.get("c1"))
    if function != _STRAIGHT or offset is None or slope is None or slope == 0:
        guessed.append("its calibration is no straight line: values are the numbers that are stored")
        return None, "1"
    name = str(about.get("vunit") or "").strip()
    return (slope, offset), "1" if name.lower() in ("", "gray value") else unit(name) or "1"


def _imagej(file: Any, about: dict[str, Any], guessed: list[str]) -> About:
    found = About("ImageJ TIFF")
    page = file.pages[0]
    x, y = (_per_unit(page, tag) for tag in ("XResolution", "YResolution"))
    z = _number(about.get("spacing"))
    name = unit(about.get("unit"))
    if x is not None and y is not None and (name is not None or (x, y) != (1.0, 1.0)):
        found.spacing = (1 / x, 1 / y, abs(z) if z else 1 / x)
    elif z:
        found.spacing = (1.0, 1.0, abs(z))
    found.length_unit = name or "voxel"
    # ImageJ gives the origin in pixels.
    first = (_number(about.get(f"{axis}origin")) or 0.0 for axis in "xyz")
    x, y, z = (-n * s for n, s in zip(first, found.spacing, strict=True))
    found.origin = (x, y, z)
    found.time_step = _positive(about.get("finterval"))
    found.time_units = unit(about.get("tunit")) or "s"
    ranges = [_number(v) for v in about.get("Ranges") or ()]
    labels = about.get("Labels") or []
    count = int(_number(about.get("channels")) or 1)
    low, high = _number(about.get("min")), _number(about.get("max"))
    scale, units = _calibrated(about, guessed)
    for n in range(min(count, 1 << 10)):
        lowest, highest = low, high
        if 2 * n + 1 < len(ranges):
            lowest, highest = ranges[2 * n], ranges[2 * n + 1]
        pair = None if lowest is None or highest is None else (lowest, highest)
        if pair is not None and scale is not None:  # the limits refer to stored numbers
            pair = (pair[0] * scale[0] + scale[1], pair[1] * scale[0] + scale[1])
        name_ = str(labels[n]) if len(labels) == count and labels[n] else f"channel {n}"
        color = _lut_color(about.get("LUTs") or [], n) if count > 1 else None
        name_ = name_ if count > 1 else "intensity"
        found.channels.append(Channel(name_, units=units, color=color, limits=pair, scale=scale))
    return found


def _lut_color(tables: Any, n: int) -> str | None:
    """The colour of a table for the largest value."""
    try:
        r, g, b = (int(tables[n][row][-1]) for row in range(3))
    except (IndexError, TypeError, ValueError):  # absent, or of another form
        return None
    return f"#{r:02x}{g:02x}{b:02x}" if all(0 <= v <= 255 for v in (r, g, b)) else None


def _ome(path: str, file: Any, series: Any, guessed: list[str]) -> About:
    found = About("OME-TIFF")
    root = xml(path, file.ome_metadata)
    images = [e for e in root.iter() if local_name(e.tag) == "Image"]
    number = file.series.index(series)
    if len(images) > len(file.series):  # tifffile omits images of absent files
        same = [n for n, image in enumerate(images) if image.get("Name") == (series.name or None)]
        if len(same) != 1:
            guessed.append(
                f"{len(file.series)} of its {len(images)} images are here, and nothing says which (their names do not differ): how "
                "large a voxel is is not known: 1; --spacing X,Y,Z says otherwise"
            )
            return found
        number = same[0]
    if number >= len(images):
        raise DataError(
            f"{path}: its OME-XML describes {len(images)} images, and it holds {len(file.series)}; write it again"
        )
    pixels = next((e for e in images[number].iter() if local_name(e.tag) == "Pixels"), None)
    if pixels is None:
        raise DataError(f"{path}: its OME-XML has no Pixels; write it again")
    sizes: list[float | None] = []
    units: list[str | None] = []
    for axis in "XYZ":
        sizes.append(_positive(pixels.get(f"PhysicalSize{axis}")))
        units.append(unit(pixels.get(f"PhysicalSize{axis}Unit", "\u00b5m")))
    if sizes[0] is not None:
        main = units[0] or "voxel"
        x = sizes[0]
        said = [main, *(main if size is None else own or "1" for size, own in zip(sizes[1:], units[1:], strict=True))]
        found.length_unit, ratios, alone = in_common(said)
        if alone is not None:
            guessed.append(f"x, y and z are in {', '.join(alone)}: their numbers are taken as of one unit")
        y, z = (None if size is None else size * ratio for size, ratio in zip(sizes[1:], ratios[1:], strict=True))
        if z is None and _whole(pixels.get("SizeZ")) > 1:
            guessed.append("it does not say how far its slices are apart: as far as its pixels along x")
        found.spacing = (x, x if y is None else y, x if z is None else z)
    else:
        guessed.append("its OME-XML does not say how large a voxel is: 1; --spacing X,Y,Z says otherwise")
    found.time_step = _positive(pixels.get("TimeIncrement"))
    found.time_units = unit(pixels.get("TimeIncrementUnit", "s")) or "1"
    for n, channel in enumerate([e for e in pixels if local_name(e.tag) == "Channel"][: 1 << 12]):
        found.channels += [
            Channel(channel.get("Name") or f"channel {n}", color=_argb(channel.get("Color")))
            for _ in range(max(1, min(16, _whole(channel.get("SamplesPerPixel")))))
        ]
    return found


def _whole(text: str | None) -> int:
    found = _number(text)
    return 1 if found is None else int(found)


def _argb(text: str | None) -> str | None:
    """OME's colours are signed integers of red, green, blue and opacity."""
    found = _number(text)
    if found is None or found == -1:
        return None
    value = int(found) & 0xFFFFFFFF
    return f"#{value >> 8:06x}"
