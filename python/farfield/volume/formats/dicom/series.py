"""Selection of a series of a folder or a stack of a series, and removal of duplicate files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from farfield.errors import UnknownName
from farfield.volume.formats.contents import Content
from farfield.volume.formats.dicom.headers import Slice
from farfield.volume.formats.dicom.stacks import is_of_slide, stacks_in, turn_of
from farfield.volume.formats.options import Options


@dataclass(frozen=True)
class Chosen:
    """The shown series, among all series."""

    slices: list[Slice]
    contents: list[Content]
    """All series."""
    shown: int
    """Number of the shown series."""


def series_of(path: str, found: Sequence[Slice], options: Options, guessed: list[str]) -> Chosen:
    """The series that `options.variable` names, or the largest one, without duplicates. Names are numbers, with a
    letter if several series have the number; descriptions; or UIDs. Images of other orientation within a series form
    a separate stack.

    Raises:
        UnknownName: if no series matches, or several do.
    """
    by_uid: dict[str, list[Slice]] = {}
    for s in found:
        by_uid.setdefault(s.series, []).append(s)
    of_series = sorted(
        by_uid.values(), key=lambda s: (s[0].number if s[0].number is not None else 1 << 30, s[0].series)
    )
    ordered: list[list[Slice]] = []
    turns: list[str] = []
    for series in of_series:
        stacks = stacks_in(series)
        ordered += stacks
        turns += [turn_of(stack) if len(stacks) > 1 else "" for stack in stacks]
    names = _names(ordered)
    about = [_about(stack, turn) for stack, turn in zip(ordered, turns, strict=True)]
    listed = [f"{name} ({text})" for name, text in zip(names, about, strict=True)]
    contents = [Content(name, text, numbered=False) for name, text in zip(names, about, strict=True)]
    wanted = options.variable
    if wanted is None:
        at = max(range(len(ordered)), key=lambda n: (sum(x.count for x in ordered[n]), -n))
        if len(ordered) > 1:
            more = f" and {len(listed) - 6} more" if len(listed) > 6 else ""
            other = names[0 if at else 1]
            what = "series" if len(ordered) == len(of_series) else "series and stacks"
            guessed.append(
                f"of its {what} {', '.join(listed[:6])}{more} the largest is shown; {path}::{other} shows another"
            )
        return Chosen(once(ordered[at], guessed), contents, at)
    exact = [n for n, s in enumerate(ordered) if wanted == names[n]] or [
        n for n, s in enumerate(ordered) if wanted == s[0].series
    ]
    matches = exact or [n for n, s in enumerate(ordered) if wanted in (str(s[0].number), s[0].label)]
    if not matches:
        raise UnknownName(f"{path}: no series '{wanted}'; there are: {', '.join(listed)}")
    if len(matches) > 1:
        which = ", ".join(listed[n] for n in matches)
        raise UnknownName(f"{path}: {len(matches)} series are '{wanted}': name one of {which}")
    return Chosen(once(ordered[matches[0]], guessed), contents, matches[0])


def _about(stack: Sequence[Slice], turn: str) -> str:
    first = stack[0]
    size = max(s.whole for s in stack) if all(map(is_of_slide, stack)) else first.size
    what = f"{len(stack)} {'file' if len(stack) == 1 else 'files'}"
    if len(stack) == 1 and first.frames > 1 and size == first.size:
        what = f"{first.count} frames"
    return f"{first.label}, {turn + ', ' if turn else ''}{what} of {size[1]} x {size[0]}"


def _names(ordered: Sequence[Sequence[Slice]]) -> list[str]:
    """Unique names of series: the number, with a letter if several have it, else the UID."""
    bases = [str(s[0].number) if s[0].number is not None else s[0].series for s in ordered]
    names = []
    for n, base in enumerate(bases):
        same, before = bases.count(base), bases[:n].count(base)
        letter = ascii_lowercase[before] if same <= len(ascii_lowercase) else f".{before + 1}"
        names.append(f"{base}{letter}" if same > 1 else base)
    return names


def once(chosen: Sequence[Slice], guessed: list[str]) -> list[Slice]:
    """The slices without duplicates, which have the same SOPInstanceUID, number and position."""
    kept: dict[tuple[object, ...], Slice] = {}
    again: list[str] = []
    for n, s in enumerate(chosen):
        key = (s.uid, s.instance, s.position, s.size, s.frames) if s.uid else (n,)
        first = kept.setdefault(key, s)
        if first is not s:
            again.append(f"{os.path.basename(s.file)} is {os.path.basename(first.file)}")
    if again:
        more = f", and {len(again) - 3} more" if len(again) > 3 else ""
        guessed.append(f"{', '.join(again[:3])}{more} again (the same SOPInstanceUID): each is taken once")
    return list(kept.values())
