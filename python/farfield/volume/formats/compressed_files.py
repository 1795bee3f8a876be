"""Files of any format and name that are compressed as a whole: unpacked into the cache once, and read there.

Compressed NIfTI files have their own way, which stores only the numbers in the cache.
"""

from __future__ import annotations

import os
from dataclasses import replace

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.compression import codec_of, plain_name, unpacked
from farfield.volume.formats.description import Volume
from farfield.volume.formats.detection import format_of
from farfield.volume.formats.files import head, stem
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.readers import reader_of


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a compressed file.

    Raises:
        DataError: if the file or its content is damaged.
    """
    codec = codec_of(head(path, 16)) or "gzip"
    inner = os.path.basename(plain_name(path))
    # A compressed file may have the plain name of its content.
    made = converted(
        path,
        resources,
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
        volume = reader_of(kind)(made.path, options, resources)
    except DataError as error:
        # Errors must name the user's file.
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
