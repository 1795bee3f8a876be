"""TIFF strips that are too large for a page, read in pieces. Deflate allows this in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.compression import unpacked
from farfield.volume.formats.description import Array

_ZLIB = (8, 32946)


def strip_pieces(
    path: str,
    array: Array,
    page: Any,
    table: np.ndarray[Any, np.dtype[np.uint64]],
    files: Sequence[str],
    rows: int,
) -> Iterator[bytes]:
    """The pixels of all pages in order, little-endian, with the predictor undone.

    Raises:
        DataError: if the strips are damaged, or if their codec does not allow pieces.
    """
    if int(page.compression) not in _ZLIB or page.is_tiled:
        raise DataError(
            f"{path}: its strips are too large to be read in part, and are not written with deflate; write it again "
            "in tiles or short strips (tiffcp -t, or tiffcp -r 16)"
        )
    if not table[:, 2].all():
        raise DataError(
            f"{path}: its strips are too large to be read in part, and some were never written; write it again in tiles"
        )
    samples = 1 if "c" in array.axes and not array.axes.endswith("c") else int(page.samplesperpixel)
    height, width = int(page.imagelength), int(page.imagewidth)
    row = width * samples * array.item
    strips = -(-height // rows)
    for n, (file, start, length) in enumerate(table.tolist()):
        tall = min(rows, height - n % strips * rows)
        kept = bytearray()
        done = 0
        for piece in unpacked(files[int(file)], "zlib", start=int(start), count=tall * row):
            kept += piece
            usable = len(kept) // row * row
            if usable:
                yield _undone(bytes(kept[:usable]), array, int(page.predictor), width, samples)
                done += usable
                del kept[:usable]
        if done != tall * row:
            raise DataError(
                f"{path}: its strip {n} of {int(length):,} bytes holds {done:,} of {tall * row:,}: it was cut off; copy it again"
            )


def _undone(data: bytes, array: Array, predictor: int, width: int, samples: int) -> bytes:
    """Rows with the predictor undone."""
    kind = np.dtype(array.dtype)
    if predictor == 3:
        count = len(data) // (width * samples * kind.itemsize)
        raw = np.frombuffer(data, np.uint8).reshape(count, -1, samples)
        summed = np.add.accumulate(raw, axis=1, dtype=np.uint8).reshape(count, kind.itemsize, width * samples)
        # The highest bytes of all numbers come first, in either byte order.
        turned = summed.transpose(0, 2, 1)[:, :, ::-1]
        return np.ascontiguousarray(turned).tobytes()
    numbers = np.frombuffer(data, kind.newbyteorder(">" if array.big_endian else "<")).astype(kind)
    if predictor == 2:
        whole = numbers.view(f"u{kind.itemsize}").reshape(-1, width, samples)
        numbers = np.add.accumulate(whole, axis=1, dtype=whole.dtype).view(kind)
    return numbers.tobytes()
