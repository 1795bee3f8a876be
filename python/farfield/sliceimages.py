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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farfield import outputs
from farfield.errors import UsageError
from farfield.names import field_names
from farfield.progress import Report, reporting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from farfield.dataset import Dataset

Path = str | os.PathLike[str]
ENDINGS = (".png", ".npy", ".npz")
"""Of what is sampled at pixels; surfaces have others."""
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class SliceImage:
    """A slice sampled at the middles of pixels, rows from the top of the picture down.

    `plt.imshow(cut.values, extent=cut.extent)` shows it at its place.
    """

    values: NDArray[Any]
    """(rows, columns), or (rows, columns, components) where a pixel has several numbers; not numbers where there is no value."""
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

    def positions(self) -> NDArray[np.float64]:
        """Where pixels are: (rows, columns, 3).

        >>> import farfield as ff
        >>> cut = ff.open("demo:box").slice_image(normal="z", size=(4, 3), field="density")
        >>> cut.positions().shape
        (3, 4, 3)
        """
        import numpy as np

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


def _plane(
    normal: str | Sequence[float],
    origin: str | Sequence[float] | None,
    up: str | Sequence[float] | None,
    extent: str | Sequence[float] | None,
    size: str | Sequence[int] | None,
    resolution: float | None,
) -> dict[str, Any]:
    return {
        "normal": vector(normal, "normal"),
        "origin": None if origin is None else vector(origin, "origin"),
        "up": None if up is None else vector(up, "upward direction"),
        "extent": None if extent is None else box(extent),
        "size": None if size is None else pixels(size),
        "resolution": None if resolution is None else float(resolution),
    }


def slice_image(
    dataset: Dataset,
    *,
    normal: str | Sequence[float],
    origin: str | Sequence[float] | None = None,
    up: str | Sequence[float] | None = None,
    extent: str | Sequence[float] | None = None,
    size: str | Sequence[int] | None = None,
    resolution: float | None = None,
    field: str | Sequence[str],
    progress: bool | Report | None = None,
) -> SliceImage:
    """Samples a plane at pixels, in memory that is the caller's: see `Dataset.slice_image`."""
    options = {
        **_plane(normal, origin, up, extent, size, resolution),
        "fields": field_names(field),
        "step": dataset._step or 0,
    }
    with reporting(progress) as report:
        text, values, states = dataset._native.slice_image(json.dumps(options), progress=report)
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
        **{key: tuple(about[key]) for key in ("extent", "origin", "normal", "right", "up")},
    )


def write_slice(
    dataset: Dataset,
    output: Path,
    *,
    normal: str | Sequence[float],
    origin: str | Sequence[float] | None = None,
    up: str | Sequence[float] | None = None,
    extent: str | Sequence[float] | None = None,
    size: str | Sequence[int] | None = None,
    resolution: float | None = None,
    field: str | Sequence[str],
    cmap: str | None = None,
    range: str | Sequence[float] | None = None,
    grey16: bool = False,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Samples a plane at pixels and writes it: a picture (`.png`), or its numbers (`.npy`, `.npz`); returns what `--json` prints.

    Where the slice lies is said as in `Dataset.slice_image`.

    Args:
        dataset: An open dataset.
        output: The file.
        normal: See there, likewise below.
        origin: See there.
        up: See there.
        extent: See there.
        size: See there.
        resolution: See there.
        field: One field for a picture, any number for an archive.
        cmap: Colour map of a picture, any of the `cmap` package; None: viridis.
        range: Values of the first and the last colour; None: the range of the slice.
        grey16: Grey of 16 bits in place of colours.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if there is no such field or colour map.
        UsageError: if an argument makes no sense, or the plane does not meet the data.

    >>> import tempfile, farfield as ff
    >>> from farfield.sliceimages import write_slice
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_slice(ff.open("demo:box"), folder + "/cut.png", normal="z", size="64x48", field="density")["size"]
    [64, 48]
    """
    from farfield.runs import output_path
    from farfield.scene.colors import SEQUENTIAL, lut

    target = output_path(output, ENDINGS, "slices as pictures or arrays")
    if grey16 and cmap is not None:
        raise UsageError("a picture is grey of 16 bits or has a colour map: give one of them")
    look: dict[str, Any] | None = None
    if target.lower().endswith(".png"):
        look = {"range": None if range is None else pair(range, "range"), "grey16": grey16}
        look["table"] = None if grey16 else lut(cmap or SEQUENTIAL)
    elif grey16 or cmap is not None or range is not None:
        raise UsageError(f"{target}: colours and ranges are of pictures; an array has the numbers themselves")
    options = {
        **_plane(normal, origin, up, extent, size, resolution),
        "fields": field_names(field),
        "step": dataset._step or 0,
        "look": look,
    }
    outputs.check([target], dataset._source.reads())
    with reporting(progress) as report:
        done: dict[str, Any] = json.loads(dataset._native.write_slice(json.dumps(options), target, progress=report))
    return done
