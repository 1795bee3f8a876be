"""Series of images in one folder: files whose names differ only in numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from farfield.errors import UsageError
from farfield.sources import places
from farfield.sources.paths import numbers_of
from farfield.volume.formats import contents, patterns
from farfield.volume.formats.contents import Content

_NUMBER = re.compile(r"\d+")


def series_of(files: Sequence[str]) -> dict[str, list[str]]:
    """Files grouped by names without numbers. They are one series if a single number varies, or unless two groups have
    several files.

    >>> series_of(["d/a_000.tif", "d/a_001.tif", "d/b_000.tif", "d/b_001.tif"])
    {'a': ['d/a_000.tif', 'd/a_001.tif'], 'b': ['d/b_000.tif', 'd/b_001.tif']}
    >>> list(series_of(["d/1.png", "d/2.png"])), list(series_of(["d/front.png", "d/side.png"]))
    ([''], [''])
    """
    if numbers_of(files) is not None:
        return {"": list(files)}
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(_NUMBER.sub("#", os.path.basename(file)), []).append(file)
    if sum(len(group) > 1 for group in found.values()) < 2:
        return {"": list(files)}
    short = [re.split("#", key)[0].rstrip("-_. ") for key in found]
    names = short if len(set(short)) == len(short) and all(short) else [os.path.splitext(key)[0] for key in found]
    return dict(zip(names, found.values(), strict=True))


def chosen(path: str, files: Sequence[str], asked: str | None) -> tuple[str, list[str], list[Content], int | None]:
    """The name and files of the selected series, all series, and its number.

    Raises:
        UnknownName: if the requested series does not exist.
        UsageError: if a folder contains several and none is requested.
    """
    # A pattern selects its files itself.
    found = {"": list(files)} if patterns.is_pattern(path) and asked is None else series_of(files)
    about = [Content(name or os.path.basename(places.abspath(path)), _about(group)) for name, group in found.items()]
    if asked is not None:
        number = contents.chosen(path, "series of images", about, asked)
        return (*list(found.items())[number], about, number)
    if len(found) > 1:
        raise UsageError(
            f"{path}: this holds {len(found)} series of images, and not one: {contents.listed(about)}; name one of them, as in "
            f"'{path}::{about[0].name}', or its files by a pattern, as in '{os.path.join(path, _pattern(found[about[0].name]))}'"
        )
    return (*next(iter(found.items())), [], None)


def _about(group: Sequence[str]) -> str:
    return f"{len(group):,} images from {os.path.basename(group[0])} to {os.path.basename(group[-1])}"


def _pattern(group: Sequence[str]) -> str:
    """A pattern for files whose names differ only in numbers."""
    return _NUMBER.sub("*", os.path.basename(group[0]), count=1) if len(group) > 1 else os.path.basename(group[0])
