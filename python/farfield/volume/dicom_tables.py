"""Tables, padding and windows in headers of DICOM images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def modality_table_of(header: Any, processing: Any) -> tuple[int, NDArray[Any]] | None:
    """The first stored number of a modality table, and its values from there on."""
    found = header.get("ModalityLUTSequence")
    if not found:
        return None
    count, first = _described(found[0].get("LUTDescriptor"), header)
    stored = np.arange(first, first + count)
    entries = np.asarray(processing.apply_modality_lut(stored, header))
    return first, entries


def palette_of(header: Any, processing: Any) -> tuple[int, NDArray[Any]] | None:
    """The first stored number of a palette, and red, green and blue (8 bits) from there on."""
    described = header.get("RedPaletteColorLookupTableDescriptor")
    if described is None:
        return None
    count, first = _described(described, header)
    colours = np.asarray(processing.apply_color_lut(np.arange(first, first + count), header))[:, :3]
    # Tables of 16 bits have the colour in the higher byte; some are written with 8 bits all the same.
    if colours.dtype.itemsize > 1:
        colours = colours >> 8 if int(colours.max(initial=0)) > 255 else colours
    return first, colours.astype(np.uint8)


def _described(descriptor: Any, header: Any) -> tuple[int, int]:
    """Entries of a table, and the first stored number that it is of."""
    count, first = int(descriptor[0]), int(descriptor[1])
    if int(header.get("PixelRepresentation", 0)) == 1 and first >= 1 << 15:
        first -= 1 << 16
    return count or 1 << 16, first


def padding_of(low: int | None, limit: int | None, dtype: str) -> tuple[int, int] | None:
    """The range of stored numbers that only fill an image; one that was written without its sign has it again.

    >>> padding_of(-2000, None, "int16"), padding_of(63536, None, "int16"), padding_of(70000, None, "uint16")
    ((-2000, -2000), (-2000, -2000), None)
    """
    if low is None or dtype.startswith("float"):
        return None
    known = np.iinfo(dtype)

    def within(value: int) -> int | None:
        if known.min <= value <= known.max:
            return value
        turned = value - (1 << known.bits) if value > 0 else value + (1 << known.bits)
        return turned if known.min <= turned <= known.max and abs(value) < 1 << known.bits else None

    ends = [v for v in (within(low), within(low if limit is None else limit)) if v is not None]
    return (min(ends), max(ends)) if len(ends) == 2 else None


def linear_window(center: float | None, width: float | None, function: str) -> tuple[float, float] | None:
    """Values shown black and white (PS3.3 C.11.2.1.2).

    >>> linear_window(40, 400, "LINEAR"), linear_window(40, 400, "LINEAR_EXACT")
    ((-160.0, 239.0), (-160.0, 240.0))
    """
    if center is None or width is None or not math.isfinite(center) or not math.isfinite(width):
        return None
    if function == "LINEAR_EXACT":
        return (center - width / 2, center + width / 2) if width > 0 else None
    return (center - 0.5 - (width - 1) / 2, center - 0.5 + (width - 1) / 2) if width > 1 else None
