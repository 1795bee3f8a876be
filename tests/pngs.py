"""Pictures as tests read them: by hand, so that what is written is held against the format."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


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
    stride, each = 4 * width, 4
    raw = zlib.decompress(packed)
    rows, above = [], bytearray(stride)
    for row in range(height):
        line = raw[row * (stride + 1) : (row + 1) * (stride + 1)]
        above = unfiltered(line[0], bytearray(line[1:]), above, each)
        rows.append(bytes(above))
    return np.frombuffer(b"".join(rows), np.uint8).reshape(height, width, 4), texts


def unfiltered(kind: int, line: bytearray, above: bytearray, each: int) -> bytearray:
    for n in range(len(line)):
        a = line[n - each] if n >= each else 0
        b, c = above[n], above[n - each] if n >= each else 0
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        line[n] = (line[n] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
    return line
