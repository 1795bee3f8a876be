"""Contents of containers: images of a TIFF, arrays and images of a Zarr group, series of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farfield.errors import UnknownName, UsageError

_FEW = 20
"""Largest number of items in a message."""


@dataclass(frozen=True)
class Content:
    """An item of a container, which `FILE::NAME` opens."""

    name: str
    """The name; empty for an item that only its number identifies."""
    about: str = ""
    """Size and type, as text."""
    numbered: bool = True
    """Whether the number of the item opens it, too; not if names are numbers themselves."""


def spec(contents: Sequence[Content], shown: int | None) -> list[dict[str, object]]:
    """The items in `info`, with the number that opens each.

    >>> spec([Content("label", "5 x 4 uint8")], None)
    [{'number': 0, 'name': 'label', 'about': '5 x 4 uint8', 'shown': False}]
    """
    return [
        {"number": n if c.numbered else None, "name": c.name, "about": c.about, "shown": n == shown}
        for n, c in enumerate(contents)
    ]


def listed(contents: Sequence[Content]) -> str:
    """All items in a line, with the numbers that open them.

    >>> listed([Content("label", "5 x 4 uint8"), Content("", "5 x 4 x 2 uint8")])
    '0 (label, 5 x 4 uint8), 1 (5 x 4 x 2 uint8)'
    """
    few = [f"{n} ({', '.join(filter(None, (c.name, c.about)))})" for n, c in enumerate(contents[:_FEW])]
    more = len(contents) - len(few)
    return ", ".join(few) + (f" and {more:,} more" if more else "")


def chosen(path: str, what: str, contents: Sequence[Content], asked: str) -> int:
    """The number of the requested item: by name, else by number from 0.

    Raises:
        UnknownName: if there is none; the message lists all items.
        UsageError: if several items have the name.

    >>> chosen("a.tif", "image", [Content("label"), Content("scan")], "scan")
    1
    >>> chosen("a.tif", "image", [Content("label"), Content("scan")], "0")
    0
    """
    named = [n for n, c in enumerate(contents) if c.name == asked]
    if len(named) == 1:
        return named[0]
    if len(named) > 1:
        which = ", ".join(f"{path}::{n}" for n in named[:_FEW])
        raise UsageError(f"{path}: {len(named)} of what it holds are called '{asked}'; name one by its number: {which}")
    if asked.isdecimal() and int(asked) < len(contents):
        return int(asked)
    raise UnknownName(f"{path}: no {what} named '{asked}'; there are: {listed(contents)}")
