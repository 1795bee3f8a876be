"""Slices as pictures and as arrays: where they lie, and how they look.

>>> vector("z", "normal"), vector("1,0,0.5", "normal")
((0.0, 0.0, 1.0), (1.0, 0.0, 0.5))
>>> pixels("640x480"), pair("0:1.5", "range")
((640, 480), (0.0, 1.5))
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.dataset.field_names import field_names
from farfield.dataset.kinds import is_open_volume
from farfield.errors import UsageError
from farfield.pictures.colors import DIVERGING, SEQUENTIAL, lut
from farfield.pictures.directions import moderate
from farfield.pictures.sampled_values import sample
from farfield.pictures.signed_fields import has_sign, is_signed, reach_of_signed
from farfield.results import outputs
from farfield.results.image_files import ENDINGS as PICTURES
from farfield.results.image_files import beside, drawn_as_png, is_tiff, write_grey
from farfield.runtime.progress import Report, reporting
from farfield.volume.orientation import rightward, upward, way

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.volume.dataset import VolumeDataset


Path = str | os.PathLike[str]
ENDINGS = (*PICTURES, ".npy", ".npz")
"""Of what is sampled at pixels; surfaces have others."""
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class SliceImage:
    """A slice sampled at the middles of pixels, rows from the top of the picture down.

    `plt.imshow(cut.values, extent=cut.extent)` shows it at its place.
    """

    values: NDArray[Any]
    """(rows, columns), or (rows, columns, components) where a pixel has several numbers; not numbers where there is no value.
    Labels of 64 bits are whole numbers, and 0 where there is none."""
    pixels: NDArray[np.uint8]
    """Of each pixel 1 (it has a value), 2 (it lies outside) or 3 (it cannot be read)."""
    extent: tuple[float, float, float, float]
    """Left, right, bottom and top edge, as distances from `origin` along `right` and `up`."""
    origin: tuple[float, float, float]
    normal: tuple[float, float, float]
    right: tuple[float, float, float]
    up: tuple[float, float, float]
    length_unit: str
    fields: dict[str, str]
    """The fields in the order of the numbers of a pixel, with their units."""
    failed: int
    """Pixels that cannot be read."""
    failure: str | None
    """Why the first of them cannot."""
    edges: dict[str, str] | None = None
    """Of anatomy, what is at the `left`, `right`, `top` and `bottom` edge: R L A P S I, several letters in planes between axes."""

    def positions(self) -> NDArray[np.float64]:
        """Where pixels are: (rows, columns, 3).

        >>> import farfield as ff
        >>> cut = ff.open("demo:box").slice_image(normal="z", size=(4, 3), field="density")
        >>> cut.positions().shape
        (3, 4, 3)
        """
        rows, columns = self.values.shape[:2]
        left, right, bottom, top = self.extent
        u = left + (np.arange(columns) + 0.5) * (right - left) / columns
        v = top - (np.arange(rows) + 0.5) * (top - bottom) / rows
        along = u[None, :, None] * np.asarray(self.right) + v[:, None, None] * np.asarray(self.up)
        return np.asarray(np.asarray(self.origin) + along)


def vector(value: str | Sequence[float], what: str) -> tuple[float, float, float]:
    """Three numbers: an axis by name (with a minus if need be), `"X,Y,Z"`, or a sequence.

    Raises:
        UsageError: if it is neither.
    """
    if isinstance(value, str):
        text = value.strip().lower()
        if text.lstrip("+-") in _AXES:
            x, y, z = _AXES[text.lstrip("+-")]
            return (-x, -y, -z) if text.startswith("-") else (x, y, z)
    x, y, z = _numbers(value, 3, f"the {what} of a slice is x, y, z or three numbers")
    return x, y, z


def direction(value: str | Sequence[float], what: str) -> tuple[float, float, float]:
    """As `vector`, in numbers whose squares are numbers, too: of a direction the length does not matter."""
    return moderate(vector(value, what))


def pair(value: str | Sequence[float], what: str) -> tuple[float, float]:
    """Two numbers, the lower first: `"A:B"`, or a sequence.

    Raises:
        UsageError: if it is neither.
    """
    form = f"a {what} is two numbers, the lower first"
    low, high = _numbers(value.replace(":", ",") if isinstance(value, str) else value, 2, form)
    if not low < high:
        raise UsageError(f"{form}, not {value!r}")
    return low, high


def box(value: str | Sequence[float]) -> tuple[float, float, float, float]:
    """Left, right, bottom and top: `"L,R,B,T"`, or a sequence.

    Raises:
        UsageError: if it is neither.
    """
    left, right, bottom, top = _numbers(value, 4, "the extent of a slice is left, right, bottom, top")
    return left, right, bottom, top


def pixels(value: str | Sequence[int]) -> tuple[int, int]:
    """Width and height: `"WxH"`, or a sequence.

    Raises:
        UsageError: if it is neither.
    """
    try:
        width, height = value.lower().split("x") if isinstance(value, str) else value
        size = int(width), int(height)
    except (TypeError, ValueError):
        raise UsageError(f"a size is like 1024x768, not {value!r}") from None
    if min(size) < 1:
        raise UsageError(f"a size is like 1024x768, not {value!r}")
    return size


def _numbers(value: str | Sequence[float], count: int, form: str) -> list[float]:
    try:
        numbers = [float(v) for v in (value.split(",") if isinstance(value, str) else value)]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise UsageError(f"{form}, not {value!r}")
    return numbers


def _options(
    data: Dataset | VolumeDataset,
    normal: str | Sequence[float],
    origin: str | Sequence[float] | None,
    up: str | Sequence[float] | None,
    extent: str | Sequence[float] | None,
    size: str | Sequence[int] | None,
    resolution: float | None,
    field: str | Sequence[str] | None,
    level: int | None,
    nearest: bool,
    convention: str | None = None,
) -> dict[str, Any]:

    options: dict[str, Any] = {
        "normal": direction(normal, "normal"),
        "origin": None if origin is None else vector(origin, "origin"),
        "up": None if up is None else direction(up, "upward direction"),
        "extent": None if extent is None else box(extent),
        "size": None if size is None else pixels(size),
        "resolution": None if resolution is None else float(resolution),
        "step": data._step or 0,
    }
    if is_open_volume(data):
        chosen = data if level is None else data.level(level)
        options["level"] = None if level is None and data._level == 0 else chosen._level
        options["nearest"] = nearest
        if options["up"] is None:
            options["up"] = upward(data, options["normal"])
        options["rightward"] = rightward(data.anatomy, convention)
        options["fields"] = field_names(field) or [data.channels[n].name for n in data._chosen_channels()]
        return options
    flow: Dataset = data  # type: ignore[assignment] # nothing else is left
    if level is not None or nearest or convention is not None:
        raise UsageError(
            f"{flow._source.text}: levels of resolution, nearest voxels and conventions of anatomy are of volumes, and this is a "
            "dataset of zones"
        )
    main = flow._source.main_field
    options["fields"] = field_names(field) or ([main] if main is not None else [])
    if not options["fields"]:
        raise UsageError("a slice needs a field; 'farfield info' lists them")
    return options


def slice_image(
    data: Dataset | VolumeDataset,
    *,
    normal: str | Sequence[float],
    origin: str | Sequence[float] | None = None,
    up: str | Sequence[float] | None = None,
    extent: str | Sequence[float] | None = None,
    size: str | Sequence[int] | None = None,
    resolution: float | None = None,
    field: str | Sequence[str] | None = None,
    level: int | None = None,
    nearest: bool = False,
    convention: str | None = None,
    progress: bool | Report | None = None,
) -> SliceImage:
    """Samples a plane at pixels, in memory that is the caller's: see `slice_image` of datasets and of volumes."""
    options = _options(data, normal, origin, up, extent, size, resolution, field, level, nearest, convention)
    native: Any = data._native
    with reporting(progress) as report:
        text, values, states = native.slice_image(json.dumps(options), progress=report)
    about: dict[str, Any] = json.loads(text)
    width, height = about["size"]
    numbers = sum(f["components"] for f in about["fields"])
    shape = (height, width) if numbers == 1 else (height, width, numbers)
    return SliceImage(
        values=values.reshape(shape),
        pixels=states.reshape(height, width),
        fields={f["name"]: f["unit"] for f in about["fields"]},
        failed=about["pixels"]["failed"],
        failure=about["failure"],
        length_unit=about["length_unit"],
        edges=about.get("edges"),
        **{key: tuple(about[key]) for key in ("extent", "origin", "normal", "right", "up")},
    )


def write_slice(
    data: Dataset | VolumeDataset,
    output: Path,
    *,
    normal: str | Sequence[float],
    origin: str | Sequence[float] | None = None,
    up: str | Sequence[float] | None = None,
    extent: str | Sequence[float] | None = None,
    size: str | Sequence[int] | None = None,
    resolution: float | None = None,
    field: str | Sequence[str] | None = None,
    cmap: str | None = None,
    range: str | Sequence[float] | None = None,
    grey16: bool = False,
    level: int | None = None,
    nearest: bool = False,
    convention: str | None = None,
    bar: bool = True,
    letters: bool = True,
    title: str | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Samples a plane at pixels and writes it: a picture (`.png`, `.jpg`, `.tif`), or its numbers (`.npy`, `.npz`); returns what
    `--json` prints. A `.tif` of a volume's numbers is grey of 16 bits, unless a colour map is named.

    Where the slice lies is said as in `slice_image` of datasets and of volumes. Colours (RGB, RGBA), labels and several channels at
    once have colours of their own where no colour map, range or grey is asked for.

    Args:
        data: An open dataset or volume.
        output: The file.
        normal: See there, likewise below.
        origin: See there.
        up: See there.
        extent: See there.
        size: See there.
        resolution: See there.
        field: One field for a picture, any number for an archive; of a volume channels, None for all (in a picture but those
            that the file switches off).
        cmap: Colour map of a picture, any of the `cmap` package; None: viridis, of volumes grey, and red and blue about the middle
            of a field with a sign.
        range: Values of the first and the last colour; None: of a volume what its format says, else the range of the slice, as far
            on both sides of the middle of a field with a sign.
        grey16: Grey of 16 bits in place of colours.
        level: Of a volume's resolution, 0 the finest; None: one that suits the pixels.
        nearest: Of a volume the nearest voxel, nothing in between.
        convention: Of anatomy `"radiological"` (None: the same) or `"neurological"`, its mirror image.
        bar: Whether a picture of at least 120 pixels a side has a bar that says what colours mean, or the names of its channels.
        letters: Whether it has letters of anatomy at its edges, and a rule where the length of a pixel is known.
        title: Text in its upper left corner; None: with a bar where a slice of grids lies, of a volume nothing.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if there is no such field or colour map.
        UsageError: if an argument makes no sense, or the plane does not meet the data.

    >>> import tempfile, farfield as ff
    >>> from farfield.pictures.slices import write_slice
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_slice(ff.open("demo:box"), folder + "/cut.png", normal="z", size="64x48", field="density")["size"]
    [64, 48]
    """
    target = outputs.output_path(output, ENDINGS, "slices as pictures or arrays")
    is_picture = target.lower().endswith(PICTURES)
    if is_picture and not field_names(field) and is_open_volume(data):
        field = shown_names(data)
    options = _options(data, normal, origin, up, extent, size, resolution, field, level, nearest, convention)
    if grey16 and cmap is not None:
        raise UsageError("a picture is grey of 16 bits or has a colour map: give one of them")
    if is_picture:
        limits = None if range is None else pair(range, "range")
        options["look"] = _look(data, options["fields"], cmap, limits, grey16)
        options["bar"], options["letters"] = bar, letters
        if title is not None:
            options["title"] = title
        inverted = [name for name in options["fields"] if is_inverted(data, name, cmap)]
    elif grey16 or cmap is not None or range is not None or title is not None:
        raise UsageError(f"{target}: colours, ranges and titles are of pictures; an array has the numbers themselves")
    read = data._reads()
    outputs.check([target], read)
    native: Any = data._native
    of_numbers = is_open_volume(data) and data.kind == "scalar" and cmap is None
    is_grey = is_tiff(target) and len(options["fields"]) == 1 and (grey16 or of_numbers)
    with beside(target, ".npy") if is_grey else drawn_as_png(target, data.memory_limit) as name:
        look = options.pop("look", None) if is_grey else None
        with reporting(progress) as report:
            done: dict[str, Any] = json.loads(native.write_slice(json.dumps(options), name, progress=report))
            if is_picture and not is_grey and cmap is None and limits is None and not grey16 and not inverted:
                # Whether zero is the middle is known when the slice is: its pages are at hand then.
                signed = _signed(data, options, done)
                if signed is not None:
                    options["look"] = signed
                    done = json.loads(native.write_slice(json.dumps(options), name, progress=report))
        if is_grey:
            done["ranges"] = [write_grey(name, target, (look or {}).get("range"), inverted=bool(inverted))]
    done["output"] = target
    if not (done["pixels"]["values"] or done["pixels"]["failed"]):
        # A picture that is all clear looks like one that went wrong.
        width, height = done["size"]
        done["stats"]["warnings"].append(
            f"{target}: the slice shows nothing: none of its {width:,} x {height:,} pixels has a value; look where the data lie "
            "('farfield info'), and at extent, origin and resolution: without them the whole cross-section is shown"
        )
    if not is_open_volume(data):
        return done
    if is_picture:
        done["inverted"] = inverted
    if data.anatomy is not None:
        done["anatomy"] = {side: way(done[side], data.anatomy) for side in ("right", "up")}
    return data._description.counted(done)


def shown_names(volume: VolumeDataset) -> list[str]:
    """The channels of a view that a picture shows: those that its file does not switch off, or all if none is left."""
    chosen = volume._chosen_channels()
    shown = [n for n in chosen if n not in volume._description.hidden] or chosen
    return [volume.channels[n].name for n in shown]


def _signed(
    data: Dataset | VolumeDataset, options: Mapping[str, Any], done: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Colours of a slice that has values on both sides of what is the middle of its field, as pictures in space have them; None
    where there is no such middle, or the slice lies on one side of it."""
    ranges, name = done.get("ranges") or [], options["fields"][0]
    if options["look"] is None or len(ranges) != 1 or len(options["fields"]) != 1:
        return None
    (low, high), middle = ranges[0], 0.0
    if is_open_volume(data):
        if any(c.limits is not None and c.name == name for c in data.channels) or not low < 0 < high:
            return None
        if reach_of_signed(data, name, sample(data, name, [data._step or 0])) is None:
            return None
    else:
        field = next((f for f in data.info()["fields"] if f["name"] == name), {"units": None, "center": None})
        if field["center"] is not None:
            middle = float(field["center"])
        elif not has_sign(name, field["units"]) or not is_signed(low, high):
            return None
        if not low < middle < high:
            return None
    reach = max(middle - low, high - middle)
    return {**options["look"], "range": [middle - reach, middle + reach], "table": lut(DIVERGING)}


_GREY = "gray"
"""Of volumes, as scans are looked at."""


def is_inverted(data: Dataset | VolumeDataset, name: str, cmap: str | None) -> bool:
    """Whether a channel's lowest value has the last colour: the file says so, and nobody names a map; or its user did."""
    if not is_open_volume(data) or (cmap is not None and data._opening.options.invert is None):
        return False
    return any(c.inverted for c in data.channels if c.name == name)


def _look(
    data: Dataset | VolumeDataset,
    fields: Sequence[str],
    cmap: str | None,
    limits: tuple[float, float] | None,
    grey16: bool,
) -> dict[str, Any] | None:
    """Colours of a picture; None: those that a volume has of its own."""
    default = SEQUENTIAL
    if is_open_volume(data):
        default = _GREY
        if cmap is None and limits is None and not grey16:
            if len(fields) > 1 or data.kind == "labels":
                return None
            limits = next((c.limits for c in data.channels if c.name == fields[0]), None)
            # Windows of no width are in files, too: then the slice's own range does.
            limits = limits if limits is not None and limits[0] < limits[1] else None
    inverted = is_inverted(data, fields[0], cmap)
    table = None if grey16 else lut(cmap or default)
    return {
        "range": limits,
        "grey16": grey16,
        "inverted": grey16 and inverted,
        "table": table[::-1] if table is not None and inverted else table,
    }
