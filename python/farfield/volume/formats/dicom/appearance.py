"""Appearance of DICOM images: windows, tables of grey values, and inversion."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from farfield.volume.formats.dicom.elements import number_of, numbers_of
from farfield.volume.formats.dicom.lookup_tables import entries_of

_CURVED = "SIGMOID"


@dataclass(frozen=True)
class Look:
    """Appearance of an image."""

    window: tuple[float, float] | None = None
    """Values shown as black and white."""
    inverted: str = ""
    """The element that makes the lowest value white; empty if none does."""
    left_out: str = ""
    """A part of the header's appearance that a linear ramp omits."""

    def with_window(self, window: tuple[float, float] | None) -> Look:
        """The same appearance with another window, unless that is None."""
        return self if window is None else replace(self, window=window)


def look_of(header: Any) -> Look:
    """The appearance in a header; an unreadable table of grey values is omitted."""
    inverted = "MONOCHROME1" if str(header.get("PhotometricInterpretation", "")) == "MONOCHROME1" else ""
    if str(header.get("PresentationLUTShape") or "").strip() == "INVERSE":
        inverted = inverted or "PresentationLUTShape INVERSE"
    window = window_of(header)
    if header.get("VOILUTSequence"):
        found, falls, flaw = _of_table(header)
        ramp = window or found
        which = "its window" if window is not None else "all values" if flaw else "the values that it tells apart"
        what = f"cannot be read ({flaw})" if flaw else "is not followed"
        said = f"its table of grey values (VOILUTSequence) {what}: shown is a straight ramp over {which}"
        if window is None and falls:
            # A falling table swaps black and white; with another inversion, both cancel.
            inverted = "" if inverted else "a VOILUTSequence that falls"
        return Look(ramp, inverted, said)
    if window is not None and str(header.get("VOILUTFunction") or "").strip() == _CURVED:
        return Look(
            window, inverted, "its window is a curve (VOILUTFunction SIGMOID): shown is a straight ramp over it"
        )
    return Look(window, inverted)


def _of_table(header: Any) -> tuple[tuple[float, float] | None, bool, str]:
    """The values over which a table of grey values changes, whether it falls, and why it cannot be read."""
    described = numbers_of(header.VOILUTSequence[0].get("LUTDescriptor"), 3)
    if described is None:
        return None, False, "its LUTDescriptor is not three numbers"
    said = int(described[1])
    # Values may be negative, whatever type the header gives for the table's first one.
    signed = int(header.get("PixelRepresentation", 0)) == 1 or (number_of(header.get("RescaleIntercept")) or 0.0) < 0
    first = said - (1 << 16) if signed and said >= 1 << 15 else said
    try:
        entries = entries_of(header.VOILUTSequence[0], header).astype(np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        return None, False, " ".join(str(error).split())[:160] or type(error).__name__
    changes = np.flatnonzero(np.diff(entries))
    if not len(changes):
        return None, False, ""
    return (float(first + changes[0]), float(first + changes[-1] + 1)), bool(entries[0] > entries[-1]), ""


def window_of(header: Any) -> tuple[float, float] | None:
    """Values shown as black and white."""
    function = str(header.get("VOILUTFunction") or "LINEAR").strip()
    return linear_window(number_of(header.get("WindowCenter")), number_of(header.get("WindowWidth")), function)


def linear_window(center: float | None, width: float | None, function: str) -> tuple[float, float] | None:
    """Values shown as black and white (PS3.3 C.11.2.1.2).

    >>> linear_window(40, 400, "LINEAR"), linear_window(40, 400, "LINEAR_EXACT")
    ((-160.0, 239.0), (-160.0, 240.0))
    """
    if center is None or width is None or not math.isfinite(center) or not math.isfinite(width):
        return None
    if function in ("LINEAR_EXACT", _CURVED):
        return (center - width / 2, center + width / 2) if width > 0 else None
    return (center - 0.5 - (width - 1) / 2, center - 0.5 + (width - 1) / 2) if width > 1 else None
