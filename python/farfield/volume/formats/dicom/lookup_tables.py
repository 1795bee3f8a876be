"""Lookup tables and padding in headers of DICOM images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.dicom.elements import numbers_of

_BITS = (8, *range(10, 17))
"""Possible numbers of bits of a table's entry."""


def modality_table_of(header: Any) -> tuple[int, NDArray[Any]] | None:
    """The first stored number of a modality table, and the values from it on.

    Raises:
        ValueError: if it differs from its descriptor.
    """
    found = header.get("ModalityLUTSequence")
    if not found:
        return None
    _, first = _described(found[0].get("LUTDescriptor"), header)
    return first, entries_of(found[0], header)


def entries_of(item: Any, header: Any) -> NDArray[Any]:
    """The values of a table in an item of a sequence. Entries of 8 bits are packed two in a word, or one per word
    (PS3.3 C.11.1.1.1).

    Raises:
        ValueError: if there are too few, or if their size is unknown.
    """
    described = numbers_of(item.get("LUTDescriptor"), 3)
    if described is None:
        raise ValueError("its LUTDescriptor is not three numbers")
    count, bits = int(described[0]) or 1 << 16, int(described[2])
    if bits not in _BITS:
        raise ValueError(f"its entries have {bits} bits, and 8 or 10 to 16 are read")
    data = item.get("LUTData")
    if data is None:
        raise ValueError("it has no LUTData")
    if not isinstance(data, bytes):
        # pydicom returns words as numbers, and a single word as no list.
        data = np.atleast_1d(np.asarray(data, dtype="<u2")).tobytes()
        return _numbers(data, count, bits, big=False)
    return _numbers(data, count, bits, big=_is_big(header))


def _numbers(data: bytes, count: int, bits: int, *, big: bool) -> NDArray[Any]:
    """Numbers of a table from its words, big-endian if `big`."""
    if len(data) >= 2 * count:
        words = np.frombuffer(data, ">u2" if big else "<u2", count).astype(np.uint16)
        return words.astype(np.uint8) if bits == 8 and int(words.max()) < 1 << 8 else words
    if bits > 8 or len(data) < count:
        raise ValueError(f"{count} entries of {bits} bits do not fit into its {len(data)} bytes")
    if big and len(data) % 2 == 0:
        data = np.frombuffer(data, "<u2").astype(">u2").tobytes()
    return np.frombuffer(data, np.uint8, count)


def _is_big(header: Any) -> bool:
    """Whether words of a header are big-endian."""
    return getattr(header, "original_encoding", (None, None))[1] is False


def palette_of(header: Any, processing: Any) -> tuple[int, NDArray[Any]] | None:
    """The first stored number of a palette, and red, green and blue (8 bits) from it on.

    Raises:
        Exception: if it differs from its descriptors; for segments, any exception of pydicom.
    """
    described = header.get("RedPaletteColorLookupTableDescriptor")
    if described is None:
        return None
    count, first = _described(described, header)
    plain = [header.get(f"{colour}PaletteColorLookupTableData") for colour in ("Red", "Green", "Blue")]
    if all(isinstance(data, bytes) for data in plain):
        # Descriptors seldom give the right number of bits; the length of the data does.
        bits = [8 if len(data) < 2 * count else 16 for data in plain]
        tables = [_numbers(data, count, n, big=_is_big(header)) for data, n in zip(plain, bits, strict=True)]
        colours = np.stack(tables, axis=1)
    else:
        colours = np.asarray(processing.apply_color_lut(np.arange(first, first + count), header))[:, :3]
    # Tables of 16 bits have the colour in the high byte, but some contain 8 bits.
    if colours.dtype.itemsize > 1:
        colours = colours >> 8 if int(colours.max(initial=0)) > 255 else colours
    return first, colours.astype(np.uint8)


def _described(descriptor: Any, header: Any) -> tuple[int, int]:
    """Number of a table's entries, and its first stored number."""
    count, first = int(descriptor[0]), int(descriptor[1])
    if int(header.get("PixelRepresentation", 0)) == 1 and first >= 1 << 15:
        first -= 1 << 16
    return count or 1 << 16, first


def padding_of(low: float | None, limit: float | None, dtype: str) -> tuple[float, float] | None:
    """The range of padding in stored numbers; padding written without its sign is corrected.

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
