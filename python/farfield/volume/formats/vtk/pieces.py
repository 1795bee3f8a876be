"""Grids that lie in several pieces, of one file or of several: made whole.

Pieces overlap where they touch, by a layer of points, and by more where they have ghosts: what is last in the file is taken there,
but of duplicates (ghosts of the lowest bit) what the piece says that has the point or the cell for its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.decimals import decimals
from farfield.volume.formats.description import Array, planes, text_of
from farfield.volume.formats.files import unreadable
from farfield.volume.formats.vtk.arrays import TYPES, DataArray, Reader
from farfield.volume.formats.vtk.outline import GHOSTS, LEVELS, Outline, Piece, dims_of, encoding_of, extent_of, settle

Part = tuple[Piece, DataArray]
_LONGEST_LINE = 1 << 20
_MOST_BOXES = 1 << 24
"""Pieces that cut the whole into more boxes are not held against one another."""


@contextmanager
def reader_of(piece: Piece, reader: Reader) -> Iterator[Reader]:
    """What reads the numbers of a piece: `reader`, unless they are in a file of their own, which is open meanwhile."""
    if piece.file is None:
        yield reader
        return
    path = piece.file.path
    try:
        with places.open_binary(path) as file:
            yield Reader(path, file, places.getsize(path), encoding_of(piece.file))
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def files_of(found: Outline) -> list[str]:
    """The file, and those of its pieces where they have their own."""
    return list(dict.fromkeys([found.path, *(p.file.path for p in found.pieces if p.file is not None)]))


def is_whole(found: Outline, whole: list[int]) -> bool:
    """Whether a file has one piece, in itself, which is all of the grid."""
    return len(found.pieces) == 1 and found.pieces[0].file is None and found.pieces[0].extent == whole


def named(piece: Piece, path: str) -> str:
    """How messages name a piece."""
    return f"a piece of {path}" if piece.file is None else piece.file.path


def parts_of(found: Outline, where: str, name: str) -> list[Part]:
    """An array of a name in all pieces; of coordinates and points, whose names are whatever the writer took, that in its place.

    Raises:
        DataError: naming the piece that lacks it, or has another type.
    """
    parts: list[Part] = []
    by_place = where in ("Coordinates", "Points")
    at = next((n for n, a in enumerate(found.pieces[0].arrays.get(where, [])) if a.name == name), 0)
    for piece in found.pieces:
        arrays = piece.arrays.get(where, [])
        part = next((a for n, a in enumerate(arrays) if (n == at if by_place else a.name == name)), None)
        if part is None:
            there = ", ".join(f"'{a.name}'" for a in piece.arrays.get(where, [])) or "none"
            raise DataError(
                f"{named(piece, found.path)} has no array '{name}' (there are: {there}), as the first piece has; write it again"
            )
        settle(found if piece.file is None else piece.file, part)
        first = parts[0][1] if parts else part
        if (part.dtype, part.components) != (first.dtype, first.components):
            raise DataError(
                f"{named(piece, found.path)} has '{name}' as {part.components} x {part.dtype}, and the first piece as "
                f"{first.components} x {first.dtype}; write it again with one type"
            )
        parts.append((piece, part))
    return parts


def time_of(found: Outline, reader: Reader) -> float | None:
    """The time under `TimeValue`, in the file or in its first piece; None where there is none.

    Raises:
        DataError: if it is not one number.
    """
    first = found.pieces[0].file if found.pieces else None
    holder = found if found.time is not None or first is None else first
    array = holder.time
    if array is None or array.dtype not in TYPES.values():
        return None
    settle(holder, array)
    piece = found.pieces[0] if holder is first else Piece([])
    with reader_of(piece, reader) as of:
        raw = _no_more(of.pieces(array, np.dtype(array.dtype).itemsize), np.dtype(array.dtype).itemsize)
        values = np.frombuffer(raw, _stored(array, of))
    if len(values) != 1 or not np.isfinite(values[0]):
        raise DataError(f"{of.path}: its TimeValue is not one number; write it again")
    return decimals(values)[0]


def _no_more(pieces: Iterable[bytes], count: int) -> bytes:
    """The bytes of pieces, but for what is more than there should be: text may go on for ever."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > count:
            break
    return bytes(found)


def _stored(array: DataArray, reader: Reader) -> np.dtype[np.generic]:
    """The type of an array's numbers as they are read."""
    big = reader.big_endian and array.format != "ascii"
    return np.dtype(array.dtype).newbyteorder(">" if big else "<")


def is_even(values: NDArray[np.float64]) -> bool:
    """Whether coordinates rise by the same step each."""
    count = len(values)
    if count == 1:
        return True
    step = float(values[-1] - values[0]) / (count - 1)
    slack = max(abs(step) * 1e-3, 4 * float(np.finfo(np.float32).eps) * float(np.abs(values).max()))
    return bool(step > 0 and np.abs(values - (values[0] + step * np.arange(count))).max() <= slack)


def image_placed(
    found: Outline, spacing: Sequence[float] | None = None
) -> tuple[list[float], list[float], list[list[float]]]:
    """Origin of index 0 of an image, spacing and direction (columns are axes); `spacing` is taken where the file has none that
    makes sense.

    Raises:
        DataError: if they are not finite numbers, or a spacing is 0.
    """
    path = found.path
    whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
    origin = _floats(path, "Origin", found.grid.get("Origin", "0 0 0"), 3)
    said = _floats(path, "Spacing", found.grid.get("Spacing", "1 1 1"), 3)
    matrix = _floats(path, "Direction", found.grid.get("Direction", "1 0 0 0 1 0 0 0 1"), 9)
    for n in range(3):
        # An axis of one voxel has no distance between voxels, and some writers say 0.
        if said[n] == 0 and whole[2 * n] == whole[2 * n + 1]:
            said[n] = 1.0
        # VTK has points run backwards then.
        if said[n] < 0:
            said[n] = -said[n]
            for row in range(3):
                matrix[3 * row + n] = 0.0 - matrix[3 * row + n]
    if spacing is not None and not all(0 < v < math.inf for v in said):
        said = list(spacing)
    if not all(0 < v < math.inf for v in said):
        raise DataError(f"{path}: its Spacing is {said}, and should not be 0; correct it, or give --spacing X,Y,Z")
    return origin, said, [matrix[0:3], matrix[3:6], matrix[6:9]]


def _floats(path: str, what: str, text: str, count: int) -> list[float]:
    try:
        found = [float(w) for w in text.split()]
    except ValueError as error:
        raise DataError(f"{path}: its {what} is '{text}', which is not numbers; write it again") from error
    if len(found) != count or not all(map(math.isfinite, found)):
        raise DataError(f"{path}: its {what} is '{text}', which is not {count} finite numbers; write it again")
    return found


def coordinates_of(found: Outline, reader: Reader, whole: list[int]) -> list[NDArray[np.float64]]:
    """The coordinates along the three axes of a rectilinear grid, of all its pieces together.

    Raises:
        DataError: if they are not so many finite numbers, or pieces say different things of one point.
    """
    lines = [np.full(n, np.nan) for n in dims_of(whole, cells=False)]
    for axis, line in zip("xyz", lines, strict=True):
        if len(line) > _LONGEST_LINE:
            raise DataError(f"{found.path}: it has {len(line):,} {axis} coordinates; save it as a .vti instead")
    for piece in found.pieces:
        arrays = piece.arrays.get("Coordinates", [])
        if len(arrays) != 3:
            raise DataError(f"{named(piece, found.path)} has no three arrays of coordinates; write it again")
        with reader_of(piece, reader) as of:
            for n, array in enumerate(arrays):
                first, last = piece.extent[2 * n] - whole[2 * n], piece.extent[2 * n + 1] - whole[2 * n]
                if first < 0 or last >= len(lines[n]):
                    raise _outside(found, piece)
                values = _line(found, piece, of, array, last - first + 1, "xyz"[n])
                known = lines[n][first : last + 1]
                same = np.isnan(known) | (np.abs(known - values) <= 1e-6 * np.abs(values).max())
                if not same.all():
                    raise DataError(
                        f"{named(piece, found.path)} has other {'xyz'[n]} coordinates than the pieces beside it; write it again"
                    )
                lines[n][first : last + 1] = values
    for axis, line in zip("xyz", lines, strict=True):
        if np.isnan(line).any():
            raise DataError(
                f"{found.path}: its pieces do not give all of its {axis} coordinates; copy all of them here"
            )
    return lines


def _line(found: Outline, piece: Piece, reader: Reader, line: DataArray, count: int, axis: str) -> NDArray[np.float64]:
    path = found.path if piece.file is None else piece.file.path
    if line.dtype not in TYPES.values():
        raise DataError(f"{path}: its {axis} coordinates are of the type {line.dtype}; save it as a .vti instead")
    # It may have been asked for before.
    array = replace(line)
    settle(found if piece.file is None else piece.file, array)
    size = count * np.dtype(array.dtype).itemsize
    values = np.frombuffer(_no_more(reader.pieces(array, size), size), _stored(array, reader)).astype(np.float64)
    if len(values) != count or not np.isfinite(values).all():
        raise DataError(f"{path}: its {axis} coordinates are not {count:,} numbers; write it again")
    return values


def _outside(found: Outline, piece: Piece) -> DataError:
    return DataError(f"{named(piece, found.path)} lies outside of the WholeExtent; write it again")


def in_planes(
    found: Outline, reader: Reader, array: Array, parts: Sequence[Part], whole: list[int], where: str
) -> bool:
    """Pages an array where it lies, if pieces hold whole planes of it, appended as they are in memory."""
    cells = where == "CellData"
    nx, ny, nz = array.dims
    if any(part.format not in ("raw", "bare") for _, part in parts):
        return False
    names: list[str | None] = [None] * nz
    offsets = [0] * nz
    orders = set()
    for piece, part in parts:
        px, py, pz = dims_of(piece.extent, cells=cells)
        at = [piece.extent[2 * n] - whole[2 * n] for n in range(3)]
        if at[:2] != [0, 0] or (px, py) != (nx, ny) or at[2] < 0 or at[2] + pz > nz:
            return False
        if encoding_of(found if piece.file is None else piece.file).compressor is not None:
            return False
        with reader_of(piece, reader) as of:
            orders.add(of.big_endian)
            plane = array.bytes // nz
            start = of.plain_start(part, plane * pz)
            names[at[2] : at[2] + pz] = [of.path] * pz
            offsets[at[2] : at[2] + pz] = [start + n * plane for n in range(pz)]
    files = [name for name in names if name is not None]
    if len(files) != nz or len(orders) != 1:
        return False
    array.big_endian = orders.pop() and array.item > 1
    array.place = planes(files, offsets)
    return True


def scatter(
    found: Outline,
    reader: Reader,
    array: Array,
    parts: Sequence[Part],
    whole: list[int],
    where: str,
) -> Callable[[BinaryIO, Callable[[int], None]], None]:
    """Writes pieces to their places, row by row, in the array's byte order."""
    path = found.path
    cells = where == "CellData"
    size = array.item * array.length("c")
    nx, ny, _ = array.dims

    def rows(piece: Piece, part: DataArray) -> Iterator[tuple[int, bytes]]:
        with reader_of(piece, reader) as of:
            swap = array.item > 1 and array.big_endian != (of.big_endian and part.format != "ascii")
            data = of.pieces(part, math.prod(dims_of(piece.extent, cells=cells)) * size)
            for place, row in placed(piece, data):
                yield place, np.frombuffer(row, f"u{array.item}").byteswap().tobytes() if swap else row

    def own(piece: Piece, ghosts: DataArray) -> Iterator[NDArray[np.bool_]]:
        """Row by row, what a piece has that is no duplicate of another's."""
        count = math.prod(dims_of(piece.extent, cells=cells))
        row = dims_of(piece.extent, cells=cells)[0]
        mask = 255 if ghosts.name == LEVELS else 1
        kept = bytearray()
        with reader_of(piece, reader) as of:
            for data in of.pieces(ghosts, count):
                kept += data
                whole = len(kept) // row * row
                for start in range(0, whole, row):
                    yield np.frombuffer(bytes(kept[start : start + row]), np.uint8) & mask == 0
                del kept[:whole]

    def placed(piece: Piece, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        px, py, pz = dims_of(piece.extent, cells=cells)
        at = [piece.extent[2 * n] - whole[2 * n] for n in range(3)]
        if any(at[n] < 0 or at[n] + (px, py, pz)[n] > array.dims[n] for n in range(3)):
            raise _outside(found, piece)
        kept = bytearray()
        row, n = px * size, 0
        for data in pieces:
            kept += data
            usable = len(kept) // row * row
            for start in range(0, usable, row):
                k, j = divmod(n, py)
                if k >= pz:
                    raise DataError(f"{named(piece, path)} holds more numbers than its extent; write it again")
                yield (((at[2] + k) * ny + at[1] + j) * nx + at[0]) * size, bytes(kept[start : start + row])
                n += 1
            del kept[:usable]
        if n != py * pz:
            raise DataError(
                f"{named(piece, path)} holds {n:,} rows of {py * pz:,}: it was cut off; copy or write it again"
            )

    def write(file: BinaryIO, tell: Callable[[int], None]) -> None:
        total = sum(math.prod(dims_of(p.extent, cells=cells)) for p, _ in parts) * size
        done = told = 0
        for piece, part in parts:
            for place, data in rows(piece, part):
                file.seek(place)
                file.write(data)
                done += len(data)
                if done * array.bytes // total - told > PIECE:
                    tell(done * array.bytes // total - told)
                    told = done * array.bytes // total
        for piece, part in parts:
            ghosts = next((a for a in piece.arrays.get(where, []) if a.name in (GHOSTS, LEVELS)), None)
            if ghosts is None or ghosts.dtype != "uint8" or ghosts.components != 1:
                continue
            settle(found if piece.file is None else piece.file, ghosts)
            for (place, data), mine in zip(rows(piece, part), own(piece, ghosts), strict=True):
                ends = np.flatnonzero(np.diff(np.concatenate([[False], mine, [False]]).astype(np.int8)))
                for first, last in ends.reshape(-1, 2).tolist():
                    file.seek(place + first * size)
                    file.write(data[first * size : last * size])
        if not _covered([p.extent for p, _ in parts], whole, cells=cells):
            raise DataError(
                f"{path}: its pieces do not fill its WholeExtent {text_of(array.dims)}; save it as one piece"
            )
        tell(array.bytes - told)

    return write


def _covered(extents: list[list[int]], whole: list[int], *, cells: bool) -> bool:
    """Whether pieces fill the whole: between all borders that they have along the axes each box lies in one of them."""

    def ends(extent: list[int], n: int) -> tuple[int, int]:
        low, high = extent[2 * n], extent[2 * n + 1]
        return low, high + (0 if cells and low < high else 1)

    cuts = [sorted({border for e in (whole, *extents) for border in ends(e, n)}) for n in range(3)]
    if math.prod(len(c) for c in cuts) > _MOST_BOXES:
        return False
    number = [{border: n for n, border in enumerate(c)} for c in cuts]
    filled = np.zeros([len(c) - 1 for c in cuts], dtype=bool)
    for e in extents:
        filled[tuple(slice(number[n][ends(e, n)[0]], number[n][ends(e, n)[1]]) for n in range(3))] = True
    return bool(
        filled[tuple(slice(number[n][ends(whole, n)[0]], number[n][ends(whole, n)[1]]) for n in range(3))].all()
    )
