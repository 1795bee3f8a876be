"""Which series of a folder is meant, and files that are there twice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from string import ascii_lowercase

from farfield.errors import UnknownName
from farfield.volume.dicom_files import Slice
from farfield.volume.options import Options


def series_of(path: str, found: Sequence[Slice], options: Options, guessed: list[str]) -> list[Slice]:
    """The slices of the series that `options.variable` names (by number, by number and letter where several have it, by description
    or by UID), or of the largest one; files that are there twice once.

    Raises:
        UnknownName: if there is no such series, or several.
    """
    by_uid: dict[str, list[Slice]] = {}
    for s in found:
        by_uid.setdefault(s.series, []).append(s)
    ordered = sorted(by_uid.values(), key=lambda s: (s[0].number if s[0].number is not None else 1 << 30, s[0].series))
    names = _names(ordered)
    listed = [
        f"{name} ({s[0].label}, {len(s)} {'file' if len(s) == 1 else 'files'} of {s[0].size[1]} x {s[0].size[0]})"
        for name, s in zip(names, ordered, strict=True)
    ]
    wanted = options.variable
    if wanted is None:
        best = max(ordered, key=lambda s: sum(x.frames for x in s))
        if len(ordered) > 1:
            more = f" and {len(listed) - 6} more" if len(listed) > 6 else ""
            other = next(name for name, s in zip(names, ordered, strict=True) if s is not best)
            guessed.append(
                f"of its series {', '.join(listed[:6])}{more} the largest is shown; {path}::{other} shows another"
            )
        return once(best, guessed)
    exact = [s for name, s in zip(names, ordered, strict=True) if wanted in (name, s[0].series)]
    chosen = exact or [s for s in ordered if wanted in (str(s[0].number), s[0].label)]
    if not chosen:
        raise UnknownName(f"{path}: no series '{wanted}'; there are: {', '.join(listed)}")
    if len(chosen) > 1:
        which = [text for text, s in zip(listed, ordered, strict=True) if s in chosen]
        raise UnknownName(f"{path}: {len(chosen)} series are '{wanted}': name one of {', '.join(which)}")
    return once(chosen[0], guessed)


def _names(ordered: Sequence[Sequence[Slice]]) -> list[str]:
    """A name of its own for each series: its number, with a letter where several have it; its UID where it has none."""
    numbers = [s[0].number for s in ordered]
    names = []
    for n, series in enumerate(ordered):
        number = numbers[n]
        same = numbers.count(number)
        if number is None:
            names.append(series[0].series)
        elif same == 1:
            names.append(str(number))
        else:
            before = numbers[:n].count(number)
            names.append(f"{number}{ascii_lowercase[before]}" if same <= len(ascii_lowercase) else series[0].series)
    return names


def once(chosen: Sequence[Slice], guessed: list[str]) -> list[Slice]:
    """The slices without those that are another one again: of the same SOPInstanceUID, the same number and place."""
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
