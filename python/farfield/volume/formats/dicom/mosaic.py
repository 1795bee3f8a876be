"""Mosaics of Siemens scanners: all slices of a volume as tiles of one picture, by rows from the upper left corner.

The position is that of the whole picture, whose centre is the centre of each tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.description import Level, Volume, from_affine
from farfield.volume.formats.dicom.acquisition import key_of, order_of, sorter
from farfield.volume.formats.dicom.headers import Slice
from farfield.volume.formats.dicom.pixels import array_of, convert
from farfield.volume.formats.dicom.values import channels_of, look_shown, values_of
from farfield.volume.formats.options import Options, ReaderResources


def of_mosaics(
    path: str, chosen: Sequence[Slice], options: Options, resources: ReaderResources, guessed: list[str]
) -> Volume:
    """The volume of a mosaic, or of several, one per time step.

    Raises:
        DataError: if mosaics differ in tiles, size or type.
    """
    said = [[s.moments for s in chosen]]
    key = key_of(said)
    moment = sorter(key, said)
    listed = sorted(chosen, key=lambda s: (moment(s.moments), s.instance, s.file))
    order = order_of(key, [s.moments for s in listed], moment, chosen[0].resolution)
    first = listed[0]
    mosaic = first.mosaic
    odd = next((s for s in listed if s.mosaic != mosaic or s.size != first.size or s.pixel != first.pixel), None)
    if mosaic is None or odd is not None:
        raise DataError(f"{(odd or first).file}: this mosaic has other tiles than {first.file}; take it out of {path}")
    rows, columns = mosaic.size
    guessed.append(f"its pictures are mosaics of {mosaic.count} slices of {columns} x {rows} pixels")
    tile = replace(first, size=mosaic.size)
    array = array_of(tile, len(listed), mosaic.count)
    values = values_of(listed, [s.scale for s in listed], options, guessed)
    reads = [path]
    convert(
        path, listed, array, resources, "has slices as tiles of a picture", reads, values=values, tiles=mosaic.count
    )
    look = look_shown([s.look for s in listed], "picture", guessed)
    kind, channels = channels_of(first, array, values, look, guessed)
    down, across = first.spacing or (1.0, 1.0)
    if options.spacing is not None:
        across, down, _ = options.spacing
    step = first.thickness or 1.0
    placed = first.orientation is not None and first.position is not None
    if first.orientation is not None and first.position is not None:
        i, j = np.array(first.orientation[:3]), np.array(first.orientation[3:])
        normal = np.cross(i, j)
        if mosaic.normal is not None and float(normal @ np.array(mosaic.normal)) < 0:
            normal = -normal
        corner = (
            np.array(first.position)
            + i * across * (first.size[1] - columns) / 2
            + j * down * (first.size[0] - rows) / 2
        )
        axes = [(i * across).tolist(), (j * down).tolist(), (normal * step).tolist()]
        geometry = from_affine(first.file, axes, corner.tolist(), "PixelSpacing with ImageOrientationPatient")
    else:
        geometry = from_affine(first.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    times = order.times if len(listed) > 1 else []
    return Volume(
        path=path,
        format="DICOM, mosaic",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit="mm",
        anatomy="LPS" if placed else None,
        direction=geometry.direction,
        times=times,
        time_units=order.units if times else "1",
        reads=reads,
    )
