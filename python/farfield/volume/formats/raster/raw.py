"""Raw numbers without a header: size, type and byte order come from options, from the file's name, or from a header
beside it."""

from __future__ import annotations

import re

from farfield.errors import DataError, UsageError
from farfield.sources import places
from farfield.volume.formats.description import (
    Array,
    Channel,
    Level,
    Volume,
    check_size,
    colour_channels,
    contiguous,
    text_of,
)
from farfield.volume.formats.files import stem
from farfield.volume.formats.options import Options, ReaderResources, named_type
from farfield.volume.formats.signatures import named_size

_TYPE = re.compile(
    r"(?<![a-z])(u?int(?:8|16|32|64)|float(?:16|32|64)|[ui](?:8|16|32|64)|f(?:32|64))(?![0-9a-z])", re.IGNORECASE
)
_BY_BYTES = {1: "uint8", 2: "uint16", 4: "float32", 8: "float64"}


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a file's bytes, as the options describe it.

    Raises:
        UsageError: if the size of the volume is unknown.
        DataError: if the file has another size.
    """
    size = places.getsize(path)
    guessed: list[str] = []
    shape = options.shape
    if shape is None:
        shape = named_size(path)
        if shape is None:
            raise UsageError(
                f"{path}: raw numbers do not say what they are; give their size and type, as in --raw "
                "'shape=512x512x300 dtype=uint16' (and byte-order, header-bytes, spacing where needed; in Python "
                f"volume={{'shape': ..., 'dtype': ...}}); the file has {size:,} bytes"
            )
        guessed.append(f"its size {text_of(shape)} is from the file's name")
    components = options.components or 1
    count = components
    for n in shape:
        count *= n
    dtype = options.dtype
    header = options.header_bytes
    if dtype is None:
        word = _TYPE.search(stem(path))
        if word is not None:
            dtype = named_type(word[1])
            guessed.append(f"its type {dtype} is from the file's name")
        else:
            body = size - max(0, header or 0)
            dtype = _BY_BYTES.get(body // count) if body % count == 0 else None
            if dtype is None:
                raise UsageError(
                    f"{path}: {text_of(shape)} voxels in {size:,} bytes are of no type that is known; give --dtype, and "
                    "--header-bytes where there is a header"
                )
            guessed.append(f"its type {dtype} is from the file's length: {body // count} bytes a number")
    array = Array(stem(path), dtype, _stored(shape, components), _axes(shape, components), {}, list(range(components)))
    start = _start(path, array, size, header, guessed)
    array.place = contiguous(path, start)
    if array.item > 1:
        if options.byte_order is None:
            guessed.append("its byte order is taken as little-endian; --byte-order big says otherwise")
        array.big_endian = options.byte_order == "big"
    kind, channels = _channels(array, components)
    return Volume(path, "raw", [Level([array])], channels, kind=kind, guessed=guessed)


def _axes(shape: tuple[int, ...], components: int) -> str:
    letters = "tzyx"[-max(3, len(shape)) :] if len(shape) > 2 else "yx"
    return letters + ("c" if components > 1 else "")


def _stored(shape: tuple[int, ...], components: int) -> tuple[int, ...]:
    return (*reversed(shape), components) if components > 1 else tuple(reversed(shape))


def _start(path: str, array: Array, size: int, header: int | None, guessed: list[str]) -> int:
    """The offset of the first number, checked against the file's size."""
    needed = array.bytes
    if header == -1:
        if needed > size:
            check_size(path, needed, 0, f"{text_of(array.dims)} voxels of {array.dtype}")
        return size - needed
    start = header or 0
    about = f"{text_of(array.dims)} voxels of {array.dtype}"
    check_size(path, needed, start, about)
    left = size - start - needed
    if left and header is None:
        raise DataError(
            f"{path}: {about} are {needed:,} bytes, and the file has {size:,}: if the {left:,} more are a header, give "
            f"--header-bytes {left} (or 0 where they stand at the end), else another --shape or --dtype"
        )
    if left:
        guessed.append(f"the last {left:,} bytes of the file are not part of the volume")
    return start


def _channels(array: Array, components: int) -> tuple[str, list[Channel]]:
    if components in (3, 4) and array.dtype == "uint8":
        return colour_channels(components)
    if components == 1:
        return "scalar", [Channel(array.name)]
    return "channels", [Channel(f"{array.name} {n}") for n in range(components)]
