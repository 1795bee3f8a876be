"""Writer of PLOT3D files, plane by plane: Fortran records, little-endian, WHOLE ordering, multi-zone.

A record holds all of x before all of y, so each plane is written at several offsets. Memory holds a few planes,
however large the zones are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError

Real = NDArray[np.floating[Any]]

_LARGEST_RECORD = 2**31 - 1
"""Largest record in bytes: a record mark is a signed 32-bit number."""


@dataclass(frozen=True)
class Plane:
    """A k plane of a zone: arrays [j, i]."""

    xyz: Sequence[Real]
    iblank: NDArray[np.int32] | None
    q: Sequence[Real]
    """Density, momentum (three), energy."""


@dataclass(frozen=True)
class ZonePlan:
    """A zone to write: its size, and a function that makes its planes."""

    dims: tuple[int, int, int]
    plane: Callable[[int], Plane]
    """Makes the plane at k, counted from 0."""


def write(
    grid: Path,
    solution: Path,
    zones: Sequence[ZonePlan],
    *,
    header: tuple[float, float, float, float],
    precision: int = 32,
    progress: Callable[[float, float], None] | None = None,
) -> None:
    """Writes a multi-zone grid, with iblank if its planes have it, and its q file. `header`: Mach, alpha, Reynolds
    number, time; `precision`: 32 or 64 bits.

    Raises:
        DataError: if a zone exceeds the largest record, or if the files cannot be written.
    """
    with_iblank = zones[0].plane(0).iblank is not None
    size = precision // 8
    total = float(sum(z.dims[2] for z in zones))
    done = 0.0
    try:
        with grid.open("wb") as g, solution.open("wb") as s:
            for file in (g, s):
                _record(file, struct.pack("<i", len(zones)))
                _record(file, struct.pack(f"<{3 * len(zones)}i", *(n for z in zones for n in z.dims)))
            for zone in zones:
                points = zone.dims[0] * zone.dims[1] * zone.dims[2]
                g_size, s_size = (3 * size + 4 * with_iblank) * points, 5 * size * points
                if max(g_size, s_size) > _LARGEST_RECORD:
                    raise DataError(f"{grid}: a zone of {points:,} points is too large for one Fortran record")
                _record(s, np.array(header, dtype=f"<f{size}").tobytes())
                g_start, s_start = _open_record(g, g_size), _open_record(s, s_size)
                for k in range(zone.dims[2]):
                    made = zone.plane(k)
                    _planes(g, g_start, points, k, made.xyz, f"<f{size}")
                    _planes(s, s_start, points, k, made.q, f"<f{size}")
                    if made.iblank is not None:
                        _planes(g, g_start + 3 * size * points, points, k, [made.iblank], "<i4")
                    done += 1
                    if progress is not None:
                        progress(done, total)
                _close_record(g, g_start, g_size)
                _close_record(s, s_start, s_size)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{error.filename or grid}: cannot write the files: {error.strerror or error}") from error


def _record(file: BinaryIO, body: bytes) -> None:
    mark = struct.pack("<i", len(body))
    file.write(mark + body + mark)


def _open_record(file: BinaryIO, size: int) -> int:
    file.write(struct.pack("<i", size))
    return file.tell()


def _close_record(file: BinaryIO, start: int, size: int) -> None:
    file.seek(start + size)
    file.write(struct.pack("<i", size))


def _planes(file: BinaryIO, start: int, points: int, k: int, arrays: Sequence[NDArray[Any]], kind: str) -> None:
    for column, array in enumerate(arrays):
        plane = np.ascontiguousarray(array, dtype=kind)
        file.seek(start + plane.itemsize * (column * points + k * plane.size))
        file.write(plane.data)
