"""Files of any format that are compressed as a whole, under any name: unpacked once into the cache, and read there.

NIfTI reads its compressed files itself, since its numbers alone go to the cache then.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import replace

from farfield.errors import DataError
from farfield.volume.compressed import beginning, codec_of, plain_name, unpacked
from farfield.volume.conversion import converted
from farfield.volume.description import Volume
from farfield.volume.files import head, stem
from farfield.volume.options import Means, Options

_BEGINNING = 4096
"""Bytes by which content is known."""
_NAMES = (".nrrd", ".mha", ".vti", ".vtr", ".vts", ".tif", ".tiff", ".dcm", ".h5", ".hdf5", ".nc", ".png")
"""How volumes are named whose files may be compressed."""


def holds_volume(path: str, start: bytes, options: Options) -> bool:
    """Whether a file that begins so is compressed as a whole, and what is in it is a volume."""
    if codec_of(start) is None:
        return False
    if options.shape is not None or options.dtype is not None:
        return True
    from farfield.volume.sniffing import content_of

    inside = beginning(path, _BEGINNING)
    if not inside:  # damaged: its name says what it was
        return plain_name(path).lower().endswith(_NAMES)
    return content_of(plain_name(path), inside) is not None


def read(path: str, options: Options, means: Means) -> Volume:
    """The volume in a compressed file.

    Raises:
        DataError: if it is damaged, or what is in it is.
    """
    from farfield.volume.reading import READERS
    from farfield.volume.sniffing import format_of

    codec = codec_of(head(path, 16)) or "gzip"
    inner = os.path.basename(plain_name(path))
    # A file may be compressed under the name of what is in it.
    made = converted(
        path,
        means,
        count=None,
        why=f"is compressed with {codec}, which cannot be read in part",
        how=f"{codec}, whole",
        pieces=lambda: unpacked(path, codec),
        suffix=os.path.splitext(inner)[1],
    )
    try:
        kind = format_of(made.path, options)
        if kind is None:
            raise DataError(f"{path}: what is compressed in it is no volume of a format that is known")
        volume: Volume = importlib.import_module(f"farfield.volume.{READERS[kind]}").read(made.path, options, means)
    except DataError as error:
        # The name that the user knows.
        raise type(error)(str(error).replace(made.path, path)) from error
    mine, theirs = stem(path), stem(made.path)
    for channel in volume.channels:
        channel.name = channel.name.replace(theirs, mine)
    for level in volume.levels:
        for array in level.arrays:
            array.name = array.name.replace(theirs, mine)
    return replace(
        volume,
        path=path,
        format=f"{volume.format}, {codec}",
        guessed=[sentence.replace(made.path, path).replace(theirs, mine) for sentence in volume.guessed],
        reads=[path, *volume.reads],
    )
