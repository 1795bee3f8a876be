"""Pictures as tests read them: by hand, so that what is written is held against the format."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.uint8]


def picture(path: Path) -> tuple[NDArray[np.uint8], dict[str, str]]:
    """Pixels of a PNG of one image, 8 bits or 16 (two bytes) with opacity, and its texts, read by hand."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, texts, head = 8, b"", {}, b""
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        assert int.from_bytes(data[at + 8 + length : at + 12 + length], "big") == zlib.crc32(kind + body)
        if kind == b"IHDR":
            head = body
        elif kind == b"IDAT":
            packed += body
        elif kind == b"iTXt":
            key, _, rest = body.partition(b"\0")
            texts[key.decode()] = rest.split(b"\0", 4)[4].decode()
        at += 12 + length
    width, height = (int.from_bytes(head[n : n + 4], "big") for n in (0, 4))
    assert (head[8], head[9]) in ((8, 6), (16, 4))
    stride = 4 * width
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + stride)
    rows = np.zeros((1 + height, stride), np.uint8)
    for row in range(height):
        rows[row + 1] = unfiltered(raw[row, 0], raw[row, 1:], rows[row], each=4)
    return rows[1:].reshape(height, width, 4), texts


def unfiltered(kind: int, line: Row, above: Row, each: int) -> Row:
    """The bytes of a row; `each` are a pixel's."""
    if kind == 0:
        return line
    if kind == 1:
        return np.add.accumulate(line.reshape(-1, each), axis=0, dtype=np.uint8).ravel()
    if kind == 2:
        return line + above
    assert kind in (3, 4)
    pixels, left, corner = [], [0] * each, [0] * each
    for here, up in zip(line.reshape(-1, each).tolist(), above.reshape(-1, each).tolist(), strict=True):
        near = [(a + b) // 2 if kind == 3 else paeth(a, b, c) for a, b, c in zip(left, up, corner, strict=True)]
        left, corner = [(x + n) & 255 for x, n in zip(here, near, strict=True)], up
        pixels.append(left)
    return np.array(pixels, np.uint8).ravel()


def paeth(a: int, b: int, c: int) -> int:
    """Of the bytes to the left, above, and above that on the left, the one nearest to their plane."""
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
