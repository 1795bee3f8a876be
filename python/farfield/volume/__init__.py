"""Readers of formats of volumes: each says what a volume is and where its bytes lie; the extension reads and decodes the pages.

A reader is a module with a function that takes a path and gives a `Volume` (description.py). What cannot be read in part is
converted into the cache first (conversion.py).
"""

from __future__ import annotations

from farfield.volume.description import VolumeDescription
from farfield.volume.options import Means, Options
from farfield.volume.sniffing import format_of, split_variable


def read(source: str, options: Options, means: Means) -> VolumeDescription:
    """What a source is: as its reader finds it, with the options of its user over it.

    Raises:
        DataError: if it is damaged or of a format that is not read.
        UsageError: if options make no sense, or do not say enough.
        UnknownName: if there is no variable of that name.
    """
    from farfield.volume.reading import read as read_it

    return read_it(source, options, means)


__all__ = ["Means", "Options", "VolumeDescription", "format_of", "read", "split_variable"]
