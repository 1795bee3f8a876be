"""VTK XML that was written in parallel (`.pvti`, `.pvtr`, `.pvts`): a file that lists the files of its pieces, read as one grid."""

from __future__ import annotations

import os
from typing import BinaryIO

from farfield.errors import DataError
from farfield.runtime.run_context import once
from farfield.sources import places
from farfield.volume.formats.files import unreadable
from farfield.volume.formats.vtk.legacy import is_legacy_grid, legacy_outline
from farfield.volume.formats.vtk.outline import Outline, Piece, encoding_of, outline, settle

_HEAD = 4096
_SAME = ("Origin", "Spacing", "Direction")


def whole_outline(path: str, file: BinaryIO, length: int) -> Outline:
    """What a file says of itself; of one that lists pieces, what they say together, as if it held them. Found once a run.

    Raises:
        DataError: naming the file, or the piece, that is damaged, missing, or unlike the others.
    """
    return once(("vtk outline", places.realpath(path), path), lambda: _whole_outline(path, file, length))


def _whole_outline(path: str, file: BinaryIO, length: int) -> Outline:
    file.seek(0)
    if is_legacy_grid(file.read(_HEAD)):
        return legacy_outline(path, file, length)
    found = outline(path, file, length)
    if not found.kind.startswith("P"):
        return found
    kind = found.kind[1:]
    if not found.pieces:
        raise DataError(f"{path}: it lists no <Piece>, and so no numbers; write it again")
    pieces: list[Piece] = []
    files: dict[str, Outline] = {}
    for listed in found.pieces:
        if not listed.source:
            raise DataError(f"{path}: one of its pieces names no file (Source); write it again")
        name = places.join(os.path.dirname(path), listed.source)
        if name not in files:
            files[name] = _piece(path, name, kind, found.grid)
        pieces += _of_file(path, files[name], listed)
    first = files[next(iter(files))]
    grid = {**{key: first.grid[key] for key in _SAME if key in first.grid}, **found.grid}
    # Numbers are in the pieces alone, which may be written otherwise than this file says.
    return Outline(path, kind, first.about, grid, pieces, found.time, found.appended, found.appended_base64)


def _piece(path: str, name: str, kind: str, grid: dict[str, str]) -> Outline:
    if not places.isfile(name):
        raise DataError(
            f"{path}: its piece {name} is not there; copy it here too, or write {os.path.basename(path)} again"
        )
    try:
        with places.open_binary(name) as file:
            found = outline(name, file, places.getsize(name))
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(name, error) from error
    if found.kind != kind:
        raise DataError(
            f"{name}: this piece of {path} is VTK XML of the kind '{found.kind}', and should be {kind}; write it again"
        )
    for key in _SAME:
        here, there = found.grid.get(key), grid.get(key)
        if (
            here is not None
            and there is not None
            and not _close(here, there, 1.0 if key == "Direction" else _apart(grid))
        ):
            raise DataError(
                f"{name}: this piece has the {key} {' '.join(here.split())}, and {path} says {' '.join(there.split())}: they are "
                "not of one grid; write them again"
            )
    encoding_of(found)  # what it does not know is said with the piece's name
    for piece in found.pieces:
        for arrays in piece.arrays.values():
            for array in arrays:
                settle(found, array)
    return found


def _apart(grid: dict[str, str]) -> float:
    """The smallest distance between points; 0 where it is not said."""
    try:
        return min(abs(float(word)) for word in grid["Spacing"].split())
    except (KeyError, ValueError):
        return 0.0


def _close(one: str, other: str, unit: float) -> bool:
    """Whether two texts are the same numbers, but for how many digits were written; differences far below `unit` are none."""
    try:
        a, b = ([float(word) for word in text.split()] for text in (one, other))
    except ValueError:
        return one == other
    size = max(map(abs, [*a, *b, unit]))
    return len(a) == len(b) and all(abs(x - y) <= 1e-5 * size for x, y in zip(a, b, strict=True))


def _of_file(path: str, found: Outline, listed: Piece) -> list[Piece]:
    """The pieces that a piece's file holds: they have the extent together that is said of it."""
    if not found.pieces:
        raise DataError(f"{found.path}: this piece of {path} holds no <Piece>, and so no numbers; write it again")
    extents = [piece.extent for piece in found.pieces]
    box = [(min if n % 2 == 0 else max)(extent[n] for extent in extents) for n in range(6)]
    if box != listed.extent:
        raise DataError(
            f"{found.path}: this piece has the extent {_words(box)}, and {path} says {_words(listed.extent)}: it was changed, or "
            "is of another run; write them again"
        )
    return [Piece(piece.extent, piece.arrays, piece.active, file=found) for piece in found.pieces]


def _words(extent: list[int]) -> str:
    return " ".join(map(str, extent))
