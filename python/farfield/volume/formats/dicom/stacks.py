"""Stacks within a series or a multi-frame file: images of different orientation, and localizers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from farfield.volume.formats.dicom.frames import orientations
from farfield.volume.formats.dicom.headers import Slice

_ALIKE = 1e-3
"""Largest difference of directions within a stack, for rounded values."""
_CELL = 1e-2
"""Width of the cells for finding similar directions: several times their difference, so that few cells are searched."""
_PLANES = ("sagittal", "coronal", "axial")
_STRAIGHT = 0.9


def stacks_in(series: Sequence[Slice]) -> list[list[Slice]]:
    """The images of a series by orientation, with localizers apart; a single list if no stack has two images."""
    if any(map(is_of_slide, series)):
        levels = [s for s in series if _beside(s) is None]
        return [part for part in (levels, *([s] for s in series if _beside(s) is not None)) if part]
    if len(series) == 1 and series[0].frames > 1:
        return [[part] for part in _stacks_of_frames(series[0])]
    stacks: list[list[Slice]] = []
    known = Turns()
    unsaid: list[Slice] = []
    for s in series:
        if s.orientation is None:
            unsaid.append(s)
            continue
        mine = known.number((float(_is_localizer(s)), *s.orientation))
        if mine == len(stacks):
            stacks.append([])
        stacks[mine].append(s)
    if len(stacks) < 2 or max(map(len, stacks)) < 2:
        return [list(series)]
    # An image without an orientation joins the largest stack.
    max(stacks, key=len).extend(unsaid)
    return stacks


def is_of_slide(s: Slice) -> bool:
    """Whether a file is of a whole slide, or accompanies one."""
    return min(s.whole) > 0


def _beside(s: Slice) -> str | None:
    """The kind of a slide's picture that is no level: its label, or the whole glass."""
    return next((word.lower() for word in ("LABEL", "OVERVIEW", "THUMBNAIL") if word in s.kinds), None)


def _is_localizer(s: Slice) -> bool:
    return "LOCALIZER" in s.kinds


class Turns:
    """Distinct orientations, numbered in the order of their first use.

    Each is stored in a cell. Similar ones are in the few neighbouring cells within reach.
    """

    def __init__(self) -> None:
        self._cells: dict[tuple[int, ...], list[int]] = {}
        self._held: list[tuple[float, ...] | None] = []

    def number(self, turn: tuple[float, ...] | None) -> int:
        """The number of the first similar orientation, or a new number."""
        if turn is None:  # missing orientations are equal
            cell: tuple[int, ...] = ()
            near = self._cells.get(cell, [])
        else:
            cell = tuple(map(_cell, turn))
            around = itertools.product(*({_cell(v - _ALIKE), _cell(v + _ALIKE)} for v in turn))
            near = [n for c in around for n in self._cells.get(c, ()) if _same(self._held[n], turn)]
        if near:
            return min(near)
        self._held.append(turn)
        self._cells.setdefault(cell, []).append(len(self._held) - 1)
        return len(self._held) - 1


def _cell(value: float) -> int:
    """The cell of a component of an orientation. The frequent values 0 and 1 are in the middle of their cells."""
    return round(value / _CELL)


def _same(a: tuple[float, ...] | None, b: tuple[float, ...] | None) -> bool:
    return a is not None and b is not None and max(abs(x - y) for x, y in zip(a, b, strict=True)) <= _ALIKE


def _stacks_of_frames(only: Slice) -> list[Slice]:
    """The stacks of a multi-frame file, each with its selected frames."""
    turns = orientations(only)
    if len(turns) != only.frames:
        return [only]
    known = Turns()
    by_turn: list[tuple[tuple[float, ...] | None, list[int]]] = []
    for n, turn in enumerate(turns):
        mine = known.number(turn)
        if mine == len(by_turn):
            by_turn.append((turn, []))
        by_turn[mine][1].append(n)
    if len(by_turn) < 2 or max(len(held) for _, held in by_turn) < 2:
        return [only]
    return [replace(only, orientation=turn, kept=tuple(held)) for turn, held in by_turn]


def turn_of(stack: Sequence[Slice]) -> str:
    """A stack's description within its series.

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
