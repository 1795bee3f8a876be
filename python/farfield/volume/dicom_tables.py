"""Tables and padding in headers of DICOM images."""

from __future__ import annotations

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


def padding_of(low: float | None, limit: float | None, dtype: str) -> tuple[float, float] | None:
    """The range of stored numbers that only fill an image; one that was written without its sign has it again.

    >>> padding_of(-2000, None, "int16"), padding_of(63536, None, "int16"), padding_of(70000, None, "uint16")
    ((-2000, -2000), (-2000, -2000), None)
    """
    if low is None:
        return None
    last = low if limit is None else limit
    if dtype.startswith("float"):
        return min(low, last), max(low, last)
    known = np.iinfo(dtype)

    def within(value: float) -> int | None:
        value = int(value)
        if known.min <= value <= known.max:
            return value
        turned = value - (1 << known.bits) if value > 0 else value + (1 << known.bits)
        return turned if known.min <= turned <= known.max and abs(value) < 1 << known.bits else None

    ends = [v for v in (within(low), within(last)) if v is not None]
    return (min(ends), max(ends)) if len(ends) == 2 else None
