"""Slices as pictures and as arrays: their place and appearance.

>>> vector("z", "normal"), vector("1,0,0.5", "normal")
((0.0, 0.0, 1.0), (1.0, 0.0, 0.5))
>>> pixels("640x480"), pair("0:1.5", "range")
((640, 480), (0.0, 1.5))
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farfield.errors import UsageError
from farfield.pictures.directions import moderate
from farfield.results import outputs
from farfield.results.image_files import ENDINGS as PICTURES
from farfield.results.image_files import beside, drawn_as_png, is_tiff, write_grey
from farfield.runtime.progress import Report, reporting

Path = str | os.PathLike[str]
ENDINGS = (*PICTURES, ".npy", ".npz")
"""Endings of files of slices sampled at pixels."""
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class SliceImage:
    """A slice sampled at the centres of pixels, with rows from the top of the picture down.

    `plt.imshow(cut.values, extent=cut.extent)` shows it in place.
    """

    values: NDArray[Any]
    """(rows, columns), or (rows, columns, components) for several numbers per pixel; NaN without a value. Labels of 64
    bits are integers, and 0 without a value."""
    pixels: NDArray[np.uint8]
    """State of each pixel: 1 (value), 2 (outside) or 3 (failed)."""
    extent: tuple[float, float, float, float]
    """Left, right, bottom and top edge, as distances from `origin` along `right` and `up`."""
    origin: tuple[float, float, float]
    normal: tuple[float, float, float]
    right: tuple[float, float, float]
    up: tuple[float, float, float]
    length_unit: str
    fields: dict[str, str]
    """The fields, in the order of the numbers of a pixel, with their units."""
    failed: int
    """Number of failed pixels."""
    failure: str | None
    """Reason of the first failed pixel."""
    edges: dict[str, str] | None = None
    """For anatomy, the sides at the `left`, `right`, `top` and `bottom` edge: R L A P S I, with several letters in
    oblique planes."""

    def positions(self) -> NDArray[np.float64]:
        """Positions of the pixels: (rows, columns, 3).

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
    """Three numbers: an axis by name (possibly with a minus), `"X,Y,Z"`, or a sequence.

    Raises:
        UsageError: for any other form.
    """
    if isinstance(value, str):
        text = value.strip().lower()
        if text.lstrip("+-") in _AXES:
            x, y, z = _AXES[text.lstrip("+-")]
            return (-x, -y, -z) if text.startswith("-") else (x, y, z)
    x, y, z = _numbers(value, 3, f"the {what} of a slice is x, y, z or three numbers")
    return x, y, z


def direction(value: str | Sequence[float], what: str) -> tuple[float, float, float]:
    """As `vector`, scaled so that squares are finite; the length of a direction does not matter."""
    return moderate(vector(value, what))


def pair(value: str | Sequence[float], what: str) -> tuple[float, float]:
    """Two numbers, the lower first: `"A:B"`, or a sequence.

    Raises:
        UsageError: for any other form.
    """
    form = f"a {what} is two numbers, the lower first"
    low, high = _numbers(value.replace(":", ",") if isinstance(value, str) else value, 2, form)
    if not low < high:
        raise UsageError(f"{form}, not {value!r}")
    return low, high


def box(value: str | Sequence[float]) -> tuple[float, float, float, float]:
    """Left, right, bottom and top: `"L,R,B,T"`, or a sequence.

    Raises:
        UsageError: for any other form.
    """
    left, right, bottom, top = _numbers(value, 4, "the extent of a slice is left, right, bottom, top")
    return left, right, bottom, top


def pixels(value: str | Sequence[int]) -> tuple[int, int]:
    """Width and height: `"WxH"`, or a sequence.

    Raises:
        UsageError: for any other form.
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


@dataclass(frozen=True)
class Plane:
    """The plane to sample: arguments of the method `slice_image` of datasets."""

    normal: str | Sequence[float]
    origin: str | Sequence[float] | None = None
    up: str | Sequence[float] | None = None
    extent: str | Sequence[float] | None = None
    size: str | Sequence[int] | None = None
    resolution: float | None = None
    field: str | Sequence[str] | None = None
    level: int | None = None
    nearest: bool = False
    convention: str | None = None

    def native(self, step: int) -> dict[str, Any]:
        """The options for the extension that data of every kind share."""
        return {
            "normal": direction(self.normal, "normal"),
            "origin": None if self.origin is None else vector(self.origin, "origin"),
            "up": None if self.up is None else direction(self.up, "upward direction"),
            "extent": None if self.extent is None else box(self.extent),
            "size": None if self.size is None else pixels(self.size),
            "resolution": None if self.resolution is None else float(self.resolution),
            "step": step,
        }


@dataclass(frozen=True)
class SliceStyle:
    """Appearance of a slice: arguments of the method `write_slice` of datasets."""

    cmap: str | None = None
    range: str | Sequence[float] | None = None
    grey16: bool = False
    bar: bool = True
    letters: bool = True
    title: str | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """Values of the first and the last colour, if given."""
        return None if self.range is None else pair(self.range, "range")

    @property
    def is_plain(self) -> bool:
        """Whether no colours are given."""
        return self.cmap is None and self.range is None and not self.grey16


class Slicing(Protocol):
    """Rules for sampling and colouring planes through data of one kind."""

    def options(self, plane: Plane, *, is_picture: bool) -> dict[str, Any]:
        """The options for the extension, with the names of the fields.

        Raises:
            UsageError: if an option does not apply to this kind of data.
        """

    def colors(self, fields: Sequence[str], style: SliceStyle) -> dict[str, Any] | None:
        """Colours of a picture; None for the data's own."""

    def inverted(self, fields: Sequence[str], style: SliceStyle) -> list[str]:
        """Fields whose lowest value has the last colour."""

    def signed(self, options: dict[str, Any], ranges: Sequence[Sequence[float]]) -> tuple[float, dict[str, Any]] | None:
        """The middle of a signed field and the colours about it, if a slice with these ranges has values on both sides;
        else None."""

    def is_of_numbers(self, style: SliceStyle) -> bool:
        """Whether a picture is written from numbers, as grey of 16 bits."""

    def finished(self, done: dict[str, Any], inverted: Sequence[str], *, is_picture: bool) -> dict[str, Any]:
        """The result with further keys for this kind of data."""


class Sliced(Protocol):
    """Members of an open dataset that slices use."""

    _native: Any

    @property
    def _slicing(self) -> Slicing: ...

    @property
    def _step(self) -> int | None: ...

    @property
    def memory_limit(self) -> int:
        """The memory limit in bytes."""

    def _reads(self) -> list[str]: ...


def slice_image(data: Sliced, plane: Plane, progress: bool | Report | None = None) -> SliceImage:
    """Samples a plane into an array of the caller: see the method `slice_image` of datasets."""
    options = data._slicing.options(plane, is_picture=False)
    with reporting(progress) as report:
        text, values, states = data._native.slice_image(json.dumps(options), progress=report)
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
    data: Sliced, output: Path, plane: Plane, style: SliceStyle, progress: bool | Report | None = None
) -> dict[str, Any]:
    """Samples a plane and writes it: see the method `write_slice` of datasets."""
    target = outputs.output_path(output, ENDINGS, "slices as pictures or arrays")
    is_picture = target.lower().endswith(PICTURES)
    slicing = data._slicing
    options = slicing.options(plane, is_picture=is_picture)
    if style.grey16 and style.cmap is not None:
        raise UsageError("a picture is grey of 16 bits or has a colour map: give one of them")
    inverted: list[str] = []
    if is_picture:
        options["look"] = slicing.colors(options["fields"], style)
        options["bar"], options["letters"] = style.bar, style.letters
        if style.title is not None:
            options["title"] = style.title
        inverted = slicing.inverted(options["fields"], style)
    elif not style.is_plain or style.title is not None:
        raise UsageError(f"{target}: colours, ranges and titles are of pictures; an array has the numbers themselves")
    outputs.check([target], data._reads())
    native = data._native
    is_grey = is_tiff(target) and len(options["fields"]) == 1 and (style.grey16 or slicing.is_of_numbers(style))
    with beside(target, ".npy") if is_grey else drawn_as_png(target, data.memory_limit) as name:
        look = options.pop("look", None) if is_grey else None
        with reporting(progress) as report:
            done: dict[str, Any] = json.loads(native.write_slice(json.dumps(options), name, progress=report))
            if is_picture and not is_grey and style.is_plain and not inverted:
                # The sign is known only from the slice, whose pages are now resident.
                signed = _signed(slicing, options, done)
                if signed is not None:
                    options["look"] = signed
                    done = json.loads(native.write_slice(json.dumps(options), name, progress=report))
        if is_grey:
            done["ranges"] = [write_grey(name, target, (look or {}).get("range"), inverted=bool(inverted))]
    done["output"] = target
    if not (done["pixels"]["values"] or done["pixels"]["failed"]):
        # A picture without values would pass for a failure.
        width, height = done["size"]
        done["stats"]["warnings"].append(
            f"{target}: the slice shows nothing: none of its {width:,} x {height:,} pixels has a value; look where the data lie "
            "('farfield info'), and at extent, origin and resolution: without them the whole cross-section is shown"
        )
    return slicing.finished(done, inverted, is_picture=is_picture)


def _signed(slicing: Slicing, options: dict[str, Any], done: dict[str, Any]) -> dict[str, Any] | None:
    """Colours of a slice with values on both sides of its field's middle, as in pictures of scenes; else None."""
    ranges = done.get("ranges") or []
    if options["look"] is None or len(ranges) != 1 or len(options["fields"]) != 1:
        return None
    found = slicing.signed(options, ranges)
    if found is None:
        return None
    (low, high), (middle, colors) = ranges[0], found
    reach = max(middle - low, high - middle)
    return {**options["look"], "range": [middle - reach, middle + reach], **colors}
