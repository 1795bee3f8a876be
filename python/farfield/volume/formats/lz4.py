"""Decompression of LZ4 blocks (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), for conversions, which run
once."""

from __future__ import annotations


def unpack_block(data: bytes, size: int) -> bytes:
    """The content of a block, `size` bytes.

    Raises:
        ValueError: if it is damaged or has another size.

    >>> unpack_block(bytes([0x14]) + b"a" + bytes([1, 0]) + bytes([0x50]) + b"hello", 14)
    b'aaaaaaaaahello'
    """
    out = bytearray()
    at, end = 0, len(data)
    while True:
        if at >= end:
            raise ValueError("the block ends within a sequence")
        token = data[at]
        at += 1
        literals, at = _length(data, at, token >> 4)
        if at + literals > end or len(out) + literals > size:
            raise ValueError("literals go beyond the block")
        out += data[at : at + literals]
        at += literals
        if at == end:
            break
        if at + 2 > end:
            raise ValueError("the block ends within an offset")
        back = data[at] | data[at + 1] << 8
        count, at = _length(data, at + 2, token & 15)
        count += 4
        if not 0 < back <= len(out) or len(out) + count > size:
            raise ValueError("a match lies outside of the block")
        start = len(out) - back
        if back >= count:
            out += out[start : start + count]
        else:
            pattern = bytes(out[start:])
            out += (pattern * (count // back + 1))[:count]
    if len(out) != size:
        raise ValueError(f"the block holds {len(out)} bytes, not {size}")
    return bytes(out)


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """A length of 15 continues in the next bytes."""
    if length == 15:
        while True:
            if at >= len(data):
                raise ValueError("the block ends within a length")
            more = data[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at
