"""Whole slides in DICOM (PS3.3 C.8.12.4): frames are tiles of one large picture, of one focal plane each."""

from __future__ import annotations

from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.volume.description import Level, Volume, from_affine, in_table, table_of
from farfield.volume.dicom_files import Slice
from farfield.volume.dicom_frames import measured
from farfield.volume.dicom_numbers import number_of
from farfield.volume.dicom_pixels import array_of, convert, of_frames, why_converted
from farfield.volume.dicom_values import channels_of, look_shown, values_of
from farfield.volume.options import Means, Options


def is_tiled(only: Slice) -> bool:
    """Whether the frames of a file are tiles of a larger picture."""
    rows, columns = _whole_size(only.header)
    return rows > only.size[0] or columns > only.size[1]


def _whole_size(header: Any) -> tuple[int, int]:
    found = [number_of(header.get(tag)) or 0 for tag in ("TotalPixelMatrixRows", "TotalPixelMatrixColumns")]
    return int(found[0]), int(found[1])


def of_tiles(path: str, only: Slice, options: Options, means: Means, guessed: list[str]) -> Volume:
    """The picture that the tiles of a file make, with its focal planes.

    Raises:
        DataError: if tiles do not lie beside each other, or there are several optical paths.
    """
    rows, columns = _whole_size(only.header)
    grid = -(-rows // only.size[0]), -(-columns // only.size[1])
    planes, places = _places(only, grid)
    values = values_of(of_frames(only), [only.scale] * only.frames, options, guessed)
    stored = array_of(only, 1, only.frames)
    reads = [path]
    file, start = only.file, only.plain_offset
    why = why_converted([only], stored)
    if why is not None or values.meanings is not None:
        convert(path, [only], stored, means, why or "", reads, values=values)
        file, start = reads[-1], 0
    each = stored.bytes // only.frames
    table = np.zeros((planes * grid[0] * grid[1], 3), dtype=np.uint64)
    for n, place in enumerate(places):
        table[place] = (0, (start or 0) + n * each, each)
    array = stored
    inner = list(stored.shape[1:])
    y = stored.axes.index("y") - 1
    array.chunk = (1, *inner)
    inner[y], inner[y + 1] = rows, columns
    array.shape = (planes, *inner)
    array.place = in_table([file])
    if not table[:, 2].all():
        array.fill = 255 if only.samples > 1 else 0
        guessed.append(f"{int((table[:, 2] == 0).sum()):,} of its tiles are not there: they are {array.fill}")
    look = look_shown([only.look], "frame", guessed)
    kind, channels = channels_of(only, array, values, look, guessed)
    across, down, step = _apart(only, options, guessed)
    geometry = from_affine(only.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    return Volume(
        path=path,
        format="DICOM, tiles of a picture",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit="mm",
        direction=geometry.direction,
        tables=[table_of(table)],
        reads=reads,
    )


def _apart(only: Slice, options: Options, guessed: list[str]) -> tuple[float, float, float]:
    if options.spacing is not None:
        return options.spacing
    spacing, thickness = measured(only)
    if spacing is None:
        guessed.append("it does not say how large a pixel is: 1 mm")
    down, across = spacing or (1.0, 1.0)
    return across, down, thickness or 1.0


def _places(only: Slice, grid: tuple[int, int]) -> tuple[int, list[int]]:
    """Focal planes, and for each frame which tile of them all it is."""
    header = only.header
    of_plane = grid[0] * grid[1]
    paths = len(header.get("OpticalPathSequence") or ()) or int(number_of(header.get("NumberOfOpticalPaths")) or 1)
    groups = header.get("PerFrameFunctionalGroupsSequence") or []
    sparse = str(header.get("DimensionOrganizationType", "")) == "TILED_SPARSE"
    listed = [_corner(group) for group in groups]
    if listed and all(corner is not None for corner in listed) and len(listed) == only.frames:
        return _by_corners(only, grid, [corner for corner in listed if corner is not None])
    planes = int(number_of(header.get("TotalPixelMatrixFocalPlanes")) or 1)
    if sparse or only.frames != of_plane * planes:
        more = f" of {paths} optical paths" if paths > 1 else ""
        raise DataError(
            f"{only.file}: its {only.frames} tiles of {only.size[1]} x {only.size[0]} pixels{more} are not the {grid[1]} x "
            f"{grid[0]} of a picture in {planes} focal planes, and nothing says where each lies; split it first"
        )
    return planes, list(range(only.frames))


def _corner(group: Any) -> tuple[int, int, float] | None:
    """Row and column of a tile's first pixel, from 0 on, and how deep it lies."""
    found = group.get("PlanePositionSlideSequence")
    if not found:
        return None
    row, column = (
        number_of(found[0].get(tag))
        for tag in ("RowPositionInTotalImagePixelMatrix", "ColumnPositionInTotalImagePixelMatrix")
    )
    if row is None or column is None:
        return None
    return int(row) - 1, int(column) - 1, number_of(found[0].get("ZOffsetInSlideCoordinateSystem")) or 0.0


def _by_corners(only: Slice, grid: tuple[int, int], corners: list[tuple[int, int, float]]) -> tuple[int, list[int]]:
    depths = sorted({depth for _, _, depth in corners})
    places = []
    for n, (row, column, depth) in enumerate(corners):
        (down, off), (across, aside) = divmod(row, only.size[0]), divmod(column, only.size[1])
        if off or aside or not (0 <= down < grid[0] and 0 <= across < grid[1]):
            raise DataError(
                f"{only.file}: its tile {n + 1} begins at row {row + 1} and column {column + 1}, between the others of "
                f"{only.size[1]} x {only.size[0]} pixels; tiles that overlap are not read: write it again (TILED_FULL)"
            )
        places.append((depths.index(depth) * grid[0] + down) * grid[1] + across)
    if len(set(places)) < len(places):
        raise DataError(
            f"{only.file}: several of its tiles lie at one place, as those of several optical paths do; split it into one file a "
            "path first"
        )
    return len(depths), places
