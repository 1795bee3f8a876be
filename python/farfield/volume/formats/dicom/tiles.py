"""Whole slides in DICOM (PS3.3 C.8.12.4): frames are tiles of one large picture in a focal plane."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.description import Array, Level, Volume, from_affine, in_table, table_of
from farfield.volume.formats.dicom.elements import number_of
from farfield.volume.formats.dicom.frames import measured
from farfield.volume.formats.dicom.headers import Slice
from farfield.volume.formats.dicom.pixels import array_of, convert, for_each_frame, why_converted
from farfield.volume.formats.dicom.values import Values, channels_of, look_shown, values_of
from farfield.volume.formats.options import Options, ReaderResources


def of_slide(
    path: str, chosen: Sequence[Slice], options: Options, resources: ReaderResources, guessed: list[str]
) -> Volume:
    """The picture of a file's tiles, with its focal planes. Several files are levels.

    Raises:
        DataError: if tiles overlap, if there are several optical paths, or if files are not levels of one picture.
    """
    files = sorted(chosen, key=lambda s: (-s.whole[0] * s.whole[1], s.instance, s.file))
    first = files[0]
    _check_levels(path, files)
    tables: list[bytes] = []
    reads = [path]
    across, down, step = _apart(first, options, guessed)
    levels: list[Level] = []
    values = None
    for file in files:
        array, found = _tiled(path, file, options, resources, tables, reads, guessed if file is first else [])
        # The largest picture determines the channels.
        values = values or found
        array.name = first.label or "slices"
        ratio = first.whole[1] / file.whole[1], first.whole[0] / file.whole[0]
        # Levels share a corner, so centres of larger voxels are further in.
        origin = (across * (ratio[0] - 1) / 2, down * (ratio[1] - 1) / 2, 0.0)
        levels.append(Level([array], origin, (across * ratio[0], down * ratio[1], step)))
    top = levels[0].arrays[0]
    odd = next((n for n, level in enumerate(levels) if level.arrays[0].length("z") != top.length("z")), None)
    if odd is not None:
        raise DataError(f"{files[odd].file}: it has other focal planes than {first.file}; take it out of {path}")
    look = look_shown([first.look], "frame", guessed)
    kind, channels = channels_of(first, top, values or Values(), look, guessed)
    geometry = from_affine(first.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    return Volume(
        path=path,
        format="DICOM, tiles of a picture",
        levels=levels,
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit="mm",
        direction=geometry.direction,
        tables=tables,
        reads=reads,
    )


def _check_levels(path: str, files: Sequence[Slice]) -> None:
    first = files[0]
    for before, file in itertools.pairwise(files):
        if file.pixel != first.pixel:
            raise DataError(
                f"{file.file}: its pixels are {file.pixel}, and those of {first.file} are {first.pixel}: they are no levels of one "
                f"picture; take it out of {path}"
            )
        if file.whole == before.whole:
            raise DataError(
                f"{file.file}: its picture is as large as that of {before.file}, {file.whole[1]} x {file.whole[0]} pixels, as "
                "those of several optical paths, focal planes or parts are; name one of the files"
            )


def _tiled(
    path: str,
    only: Slice,
    options: Options,
    resources: ReaderResources,
    tables: list[bytes],
    reads: list[str],
    guessed: list[str],
) -> tuple[Array, Values]:
    """The array of a file's tiles, and the conversion of its numbers."""
    rows, columns = only.whole
    grid = -(-rows // only.size[0]), -(-columns // only.size[1])
    planes, places = _places(only, grid)
    values = values_of(for_each_frame(only), [only.scale] * only.frames, options, guessed)
    array = array_of(only, 1, only.frames)
    file, start = only.file, only.plain_offset
    why = why_converted([only], array)
    if why is not None or values.meanings is not None:
        convert(path, [only], array, resources, why or "", reads, values=values)
        file, start = reads[-1], 0
    each = array.bytes // only.frames
    table = np.zeros((planes * grid[0] * grid[1], 3), dtype=np.uint64)
    for n, place in enumerate(places):
        table[place] = (0, (start or 0) + n * each, each)
    inner = list(array.shape[1:])
    y = array.axes.index("y") - 1
    array.chunk = (1, *inner)
    inner[y], inner[y + 1] = rows, columns
    array.shape = (planes, *inner)
    array.place = in_table([file], len(tables))
    tables.append(table_of(table))
    if not table[:, 2].all():
        array.fill = 255 if only.samples > 1 else 0
        guessed.append(f"{int((table[:, 2] == 0).sum()):,} of its tiles are not there: they are {array.fill}")
    return array, values


def _apart(only: Slice, options: Options, guessed: list[str]) -> tuple[float, float, float]:
    if options.spacing is not None:
        return options.spacing
    spacing, thickness = measured(only)
    if spacing is None:
        guessed.append("it does not say how large a pixel is: 1 mm")
    down, across = spacing or (1.0, 1.0)
    return across, down, thickness or 1.0


def _places(only: Slice, grid: tuple[int, int]) -> tuple[int, list[int]]:
    """The number of focal planes, and the tile of each frame, counted over all planes."""
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
    """Row and column of a tile's first pixel, from 0, and its depth."""
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
