"""Conversion of stored numbers in DICOM images: tables of values and of colours, padding, windows.

A `Meaning` converts stored numbers if a slope and an intercept do not suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.formats.description import INVERTED, Array, Channel, colour_channels
from farfield.volume.formats.dicom.appearance import Look
from farfield.volume.formats.dicom.headers import Slice
from farfield.volume.formats.options import Options
from farfield.volume.missing_values import Missing

Meaning = Callable[[NDArray[Any]], NDArray[Any]]
Scale = tuple[float, float] | None
"""Rescale slope and intercept."""
NUMBERS = ("scalar", "labels")
"""Kinds that show the numbers of a palette."""


@dataclass(frozen=True)
class Values:
    """The conversion of a volume's numbers before paging; none if `meanings` is None."""

    meanings: list[Meaning] | None = None
    """A function for each slice or frame."""
    dtype: str = ""
    colours: bool = False
    """Whether the results are red, green and blue."""
    why: str = ""
    scaled: bool = False
    """Whether the results are values in their unit, without a slope."""
    missing: Missing = None
    """Stored numbers that represent missing values."""


def values_of(slices: Sequence[Slice], scales: Sequence[Scale], options: Options, guessed: list[str]) -> Values:
    """The conversion of the numbers of slices or frames; `slices` and `scales` have one entry for each.

    Raises:
        DataError: if only some slices have a palette.
    """
    first = slices[0]
    if any(s.palette is not None for s in slices) and options.kind not in NUMBERS:
        if any(s.palette is None for s in slices):
            lacking = next(s for s in slices if s.palette is None)
            raise DataError(
                f"{lacking.file}: this slice has no palette, and others of its series have one; take it out of the folder, or give "
                "--kind scalar to see the numbers of colours"
            )
        guessed.append(
            "its colours are those of its palette; --kind scalar (of pictures: --raw kind=scalar) shows its numbers"
        )
        return Values([_by_table(s.palette) for s in slices], "uint8", colours=True, why="has colours in a palette")
    if first.photometric.startswith("PALETTE"):
        guessed.append("its values are numbers of colours in a palette")
    paddings = [s.padding for s in slices]
    made = _made(first)
    _say_padding(paddings, guessed)
    if any(s.table is not None for s in slices):
        guessed.append("its values are those of a table of its own (ModalityLUTSequence)")
        plain = all(s.table is not None for s in slices) and not any(paddings)
        meanings = [_valued(s, scale) for s, scale in zip(slices, scales, strict=True)]
        integers = plain and all(s.table is not None and s.table[1].dtype.kind == "u" for s in slices)
        return Values(meanings, "uint16" if integers else made, why="has values in a table", scaled=True)
    what = "frame" if len(slices) > 1 and first.frames > 1 else "slice"
    if len(set(scales)) > 1 or (len(set(paddings)) > 1 and all(scales)):
        guessed.append(f"its {what}s have different rescale slopes: values were computed {what} by {what}")
        meanings = [_valued(s, scale) for s, scale in zip(slices, scales, strict=True)]
        return Values(meanings, made, why=f"has a rescale slope of its own in each {what}", scaled=True)
    if len(set(paddings)) > 1:
        return Values([_valued(s, None) for s in slices], made, why="has a padding of its own in each slice")
    padding = paddings[0]
    if padding is None:
        return Values()
    low, high = padding
    return Values(missing=low if low == high else ((low, high),))


def _say_padding(paddings: Sequence[tuple[float, float] | None], guessed: list[str]) -> None:
    """Notes the stored numbers of padding, even if a conversion replaces them."""
    if len(set(paddings)) > 1:
        guessed.append("its slices have different PixelPaddingValues, each of which is no value in its slice")
    elif paddings[0] is not None:
        low, high = paddings[0]
        guessed.append(
            f"its number {low:.9g} only fills it up (PixelPaddingValue): it is no value"
            if low == high
            else f"its numbers {low:.9g} to {high:.9g} only fill it up (PixelPaddingRangeLimit): they are no values"
        )


def _made(first: Slice) -> str:
    """The type of computed values: a float of 32 bits cannot hold all integers of 32 bits."""
    return "float64" if np.dtype(first.dtype).itemsize > 2 and first.dtype != "float32" else "float32"


def _by_table(table: tuple[int, NDArray[Any]] | None) -> Meaning:
    first, entries = table or (0, np.zeros(1))

    def look_up(stored: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = entries[np.clip(stored.astype(np.int64) - first, 0, len(entries) - 1)]
        return found

    return look_up


def _valued(s: Slice, scale: Scale) -> Meaning:
    def value(stored: NDArray[Any]) -> NDArray[Any]:
        if s.table is not None:
            found = _by_table(s.table)(stored)
        else:
            slope, intercept = scale or (1.0, 0.0)
            found = stored * float(slope) + float(intercept)
        if s.padding is None:
            return found
        low, high = s.padding
        return np.where((stored >= low) & (stored <= high), np.nan, found)

    return value


def with_blanks(values: Values, slices: Sequence[Slice]) -> Values:
    """The conversion to a type with NaN, because slices are missing; missing colours are black."""
    first = slices[0]
    if values.colours or first.samples > 1:
        return values
    if values.meanings is not None:
        return replace(values, dtype=_made(first))
    dtype = _made(first)
    meanings = [_as_it_is(s, dtype) for s in slices]
    return Values(meanings, dtype, why="lacks slices, which have no values")


def _as_it_is(s: Slice, dtype: str) -> Meaning:
    def value(stored: NDArray[Any]) -> NDArray[Any]:
        found = stored.astype(dtype)
        if s.padding is not None:
            found[(stored >= s.padding[0]) & (stored <= s.padding[1])] = np.nan
        return found

    return value


def channels_of(
    first: Slice, array: Array, values: Values, look: Look, guessed: list[str]
) -> tuple[str, list[Channel]]:
    """The kind of a volume, and its channels."""
    if values.colours:
        return colour_channels(3)
    if first.samples in (3, 4):
        return colour_channels(first.samples)
    if look.inverted:
        guessed.append(INVERTED.format(look.inverted))
    if first.unapplied:
        guessed.append(first.unapplied)
    if look.left_out:
        guessed.append(look.left_out)
    if first.modality == "RTDOSE" and first.scale is None and not values.scaled:
        guessed.append("its DoseGridScaling is missing or 0: its values are those that are stored, of no unit")
    scale = None if values.scaled else first.scale
    units = first.table_units if first.table is not None else first.units
    channel = Channel(array.name, units, limits=look.window, scale=scale, missing=values.missing)
    channel.inverted = bool(look.inverted)
    return "scalar", [channel]


def look_shown(looks: Sequence[Look], what: str, guessed: list[str]) -> Look:
    """The appearance of all slices: of several windows, that of the middle slice with one."""
    windows = [look.window for look in looks]
    said = [w for w in windows if w is not None]
    if not said:
        return looks[0]
    middle = min(
        (n for n, w in enumerate(windows) if w is not None), key=lambda n: (abs(2 * n - (len(windows) - 1)), n)
    )
    chosen = windows[middle]
    if len(set(said)) > 1 and chosen is not None:
        low = min(w[0] for w in said)
        high = max(w[1] for w in said)
        guessed.append(
            f"its {what}s have {len(set(said))} different windows: shown is that of the middle one, {chosen[0]:.6g} to "
            f"{chosen[1]:.6g} (--range {low:.6g}:{high:.6g} holds them all)"
        )
    return looks[middle]
