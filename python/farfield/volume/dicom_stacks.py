"""Stacks in one series of a DICOM folder, or in one file of many frames: images that are turned otherwise, and localizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from farfield.volume.dicom_files import Slice
from farfield.volume.dicom_frames import orientations

_ALIKE = 1e-3
"""By how much the directions of rows and columns of one stack may differ: they are rounded when they are written."""
_PLANES = ("sagittal", "coronal", "axial")
_STRAIGHT = 0.9


def stacks_in(series: Sequence[Slice]) -> list[list[Slice]]:
    """The images of a series by how they are turned, localizers by themselves; all in one where no stack has two of them."""
    if any(map(is_of_slide, series)):
        levels = [s for s in series if _beside(s) is None]
        return [part for part in (levels, *([s] for s in series if _beside(s) is not None)) if part]
    if len(series) == 1 and series[0].frames > 1:
        return [[part] for part in _of_frames(series[0])]
    by_turn: list[tuple[Slice, list[Slice]]] = []
    unsaid: list[Slice] = []
    for s in series:
        if s.orientation is None:
            unsaid.append(s)
            continue
        mine = next((held for first, held in by_turn if _goes_with(first, s)), None)
        if mine is None:
            by_turn.append((s, [s]))
        else:
            mine.append(s)
    stacks = [held for _, held in by_turn]
    if len(stacks) < 2 or max(map(len, stacks)) < 2:
        return [list(series)]
    # An image that does not say how it is turned is placed among the most.
    max(stacks, key=len).extend(unsaid)
    return stacks


def is_of_slide(s: Slice) -> bool:
    """Whether a file is of a whole slide, or of what was taken beside it."""
    return min(s.whole) > 0


def _beside(s: Slice) -> str | None:
    """What a picture of a slide shows that is no level of it: its label, or all of the glass."""
    return next((word.lower() for word in ("LABEL", "OVERVIEW", "THUMBNAIL") if word in s.kinds), None)


def _is_localizer(s: Slice) -> bool:
    return "LOCALIZER" in s.kinds


def _goes_with(first: Slice, s: Slice) -> bool:
    return _is_localizer(first) == _is_localizer(s) and _same(first.orientation, s.orientation)


def _same(a: tuple[float, ...] | None, b: tuple[float, ...] | None) -> bool:
    return a is not None and b is not None and float(np.abs(np.subtract(a, b)).max()) <= _ALIKE


def _of_frames(only: Slice) -> list[Slice]:
    """The stacks of a file of many frames, each with those of its frames that are meant."""
    turns = orientations(only)
    if len(turns) != only.frames:
        return [only]
    by_turn: list[tuple[tuple[float, ...] | None, list[int]]] = []
    for n, turn in enumerate(turns):
        mine = next((held for first, held in by_turn if first == turn or _same(first, turn)), None)
        if mine is None:
            by_turn.append((turn, [n]))
        else:
            mine.append(n)
    if len(by_turn) < 2 or max(len(held) for _, held in by_turn) < 2:
        return [only]
    return [replace(only, orientation=turn, kept=tuple(held)) for turn, held in by_turn]


def turn_of(stack: Sequence[Slice]) -> str:
    """What a stack is called among others of its series.

    >>> turn_of([])
    ''
    """
    beside = _beside(stack[0]) if stack and is_of_slide(stack[0]) else None
    if beside is not None:
        return beside
    first = next((s for s in stack if s.orientation is not None), None)
    if first is None or first.orientation is None:
        return ""
    normal = np.abs(np.cross(first.orientation[:3], first.orientation[3:]))
    plane = _PLANES[int(normal.argmax())] if float(normal.max()) > _STRAIGHT else "oblique"
    return f"{plane} localizer" if _is_localizer(first) else plane
