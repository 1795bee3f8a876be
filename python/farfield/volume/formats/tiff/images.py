"""The images of a TIFF: selection of the shown one, and descriptions of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield.errors import DataError
from farfield.volume.formats import contents
from farfield.volume.formats.contents import Content
from farfield.volume.formats.description import text_of
from farfield.volume.formats.tiff import masks as tiff_masks
from farfield.volume.formats.tiff import pages as tiff_pages

if TYPE_CHECKING:
    from tifffile import TiffPageSeries


def images(path: str, file: Any) -> list[Any]:
    """The series of pages of a file, each once; a stack stored in several ways is one series."""
    found: list[Any] = []
    seen: set[int] = set()
    for series in file.series:
        if id(series) in seen:
            continue
        try:
            whole = tiff_pages.stacked(path, file, series)
        except DataError:  # pages of several kinds: each series alone may be valid
            whole = series
        if whole is not series:
            pages = {id(p) for p in whole.pages}
            seen |= {id(s) for s in file.series if any(id(p) in pages for p in s.pages)}
        found.append(whole)
    return found


def is_mask(series: TiffPageSeries) -> bool:
    """Whether a series marks the valid pixels of another one."""
    return tiff_masks.is_mask(series.keyframe)


def of_images(found: Sequence[TiffPageSeries]) -> list[Content]:
    """The list of images in `info`."""
    made = []
    for series in found:
        name = str(series.name or "").strip() or ("mask" if is_mask(series) else "")
        made.append(Content(name, f"{text_of(series.shape)} {series.axes} {series.dtype}"))
    return made


def chosen(path: str, file: Any, asked: str | None, guessed: list[str]) -> tuple[Any, list[Content], int]:
    """The shown series, all series, and its number.

    Raises:
        UnknownName: if no series has the requested name or number.
        DataError: if there are pages with other colours.
    """
    found = images(path, file)
    about = of_images(found)
    if asked is not None:
        number = contents.chosen(path, "image", about, asked)
        return found[number], about, number
    measured = [s for s in found if not is_mask(s)] or found
    largest = max(measured, key=lambda s: math.prod(s.shape))
    # Raises for pages of several kinds, if the largest is among them.
    tiff_pages.stacked(path, file, next(s for s in file.series if s.pages[0] is largest.pages[0]))
    if len(found) > 1:
        guessed.append(_left_out(path, found, largest))
    return largest, about, found.index(largest)


def _left_out(path: str, series: Sequence[TiffPageSeries], shown: TiffPageSeries) -> str:
    """The note about the series that are not shown."""
    types = len({str(s.dtype) for s in series}) > 1
    sizes = ", ".join(text_of(s.shape) + (f" of {s.dtype}" if types else "") for s in series[:6])
    equal = sum(math.prod(s.shape) == math.prod(shown.shape) for s in series) > 1
    which = "the first of the largest" if equal else "the largest"
    return f"of its {len(series)} series of pages ({sizes}) {which} is shown; {path}::NUMBER shows another"
