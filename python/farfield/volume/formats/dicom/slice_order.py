"""Positions of slices without one, from the instance numbers of a series."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.volume.formats.dicom.headers import Slice

Points = NDArray[np.float64]
EVEN = 0.01
"""Largest deviation of the distance of two slices, relative to the spacing, for rounded positions."""
_LEAST = 2e-3
"""Smallest such bound in millimetres."""


def slack(step: float) -> float:
    """Allowed deviation in millimetres between slices a step apart."""
    return max(EVEN * abs(step), _LEAST)


def settled(path: str, chosen: list[Slice], guessed: list[str], *, spaced: bool) -> list[Slice]:
    """Adds positions to slices that lack them while others have them; `spaced`: the user gives the spacing.

    If the others follow their instance numbers evenly, the numbers give the positions. Else all slices are in the
    order of their numbers, if the spacing is given.

    Raises:
        DataError: if the position of a slice cannot be found.
    """
    flawed = [s for s in chosen if any(s.flaws)]
    whole = [s for s in chosen if not any(s.flaws)]
    if all(sum(bool(s.flaws[n]) for s in chosen) in (0, len(chosen)) for n in range(2)):
        return chosen
    few = ", ".join(os.path.basename(s.file) for s in flawed[:6]) + (", ..." if len(flawed) > 6 else "")
    what = " and ".join(filter(None, flawed[0].flaws))
    placed = _placed(chosen, whole)
    if placed is not None:
        guessed.append(
            f"{few} {what}, and stands where its InstanceNumber is among the others, which follow theirs evenly"
            if len(flawed) == 1
            else f"{few} do not say where they lie ({os.path.basename(flawed[0].file)} {what}), and stand where their "
            "InstanceNumbers are among the others, which follow theirs evenly"
        )
        return placed
    distinct = len({s.instance for s in chosen}) == len(chosen)
    if spaced and distinct and not _repeat(whole):
        guessed.append(f"{few} {what}: all slices are taken by their InstanceNumbers alone, as far apart as was said")
        alone = ("is taken by its InstanceNumber alone", "")
        return [replace(s, position=None, orientation=None, flaws=alone) for s in chosen]
    hint = ""
    if distinct and not _repeat(whole):
        hint = "give --spacing X,Y,Z to take all in the order of their InstanceNumbers, "
    raise DataError(
        f"{flawed[0].file}: this slice {what}, and others of the series have one; {hint}copy it again, correct it, or take it out "
        f"of {path}"
    )


def _repeat(whole: Sequence[Slice]) -> bool:
    """Whether several slices share a position, as time steps do."""
    return len({s.position for s in whole}) < len(whole)


def _placed(chosen: Sequence[Slice], whole: Sequence[Slice]) -> list[Slice] | None:
    """All slices with positions, if the known ones follow their numbers evenly and no number is missing; else None."""
    numbers = [s.instance for s in chosen]
    if len(whole) < 2 or len(set(numbers)) < len(numbers) or max(numbers) - min(numbers) + 1 > len(numbers):
        return None
    first, last = min(whole, key=lambda s: s.instance), max(whole, key=lambda s: s.instance)
    origin = np.array(first.position)
    step = (np.array(last.position) - origin) / (last.instance - first.instance)
    apart = float(np.linalg.norm(step))

    def place(s: Slice) -> Points:
        found: Points = origin + step * (s.instance - first.instance)
        return found

    def fits(s: Slice) -> bool:
        return s.position is None or float(np.abs(place(s) - s.position).max()) <= slack(apart)

    if apart <= _LEAST or not all(map(fits, chosen)) or not _alike(s.orientation for s in chosen):
        return None
    return [
        replace(
            s,
            position=s.position or tuple(place(s).tolist()),
            orientation=s.orientation or first.orientation,
            flaws=("", ""),
        )
        for s in chosen
    ]


def _alike(turns: Any) -> bool:
    """Whether all given orientations are equal."""
    said = np.array([t for t in turns if t is not None])
    return not len(said) or float(np.abs(said - said[0]).max()) <= 1e-3
