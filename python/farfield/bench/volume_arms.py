"""What the experiments with volumes share: a volume as native arms take it, views as they do, and what they say of frames."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.bench import arms
from farfield.bench.result import Recorder
from farfield.bench.volumes import Transfer, View, Volume
from farfield.errors import DataError
from farfield.volume import Means, Options, read

Size = tuple[int, int]
WINDOW: Size = (768, 456)
"""Pixels of the window of the Visible Human's ray-caster (2003)."""


def spec(path: Path) -> dict[str, Any]:
    """What its reader says of a volume.

    Raises:
        DataError: if it is damaged.
    """
    return read(str(path), Options(), Means(path.parent)).spec


def channel(of: dict[str, Any], number: int) -> dict[str, Any]:
    """A volume of colours in which every number is a channel for itself; `number` comes first, as the arms show the first one."""
    found = {**of, "kind": "channels", "channels": [{"name": f"channel{n}", "units": "1"} for n in range(3)]}
    order = [number, *(n for n in range(3) if n != number)]
    levels = []
    for level in of["levels"]:
        channels = [order.index(n) for n in range(3)]
        levels.append({**level, "arrays": [{**a, "channels": channels} for a in level["arrays"]]})
    return {**found, "levels": levels}


def cameras(views: Sequence[View]) -> list[dict[str, Any]]:
    """Views as native arms take them."""
    return [
        {
            "position": view.position,
            "target": view.target,
            "up": view.up,
            "lens": {"kind": "perspective", "fov_degrees": view.fov_degrees},
        }
        for view in views
    ]


def looks(transfer: Transfer) -> dict[str, Any]:
    """A transfer function as native arms take it."""
    return {"opacities": transfer.opacities, "colours": transfer.colours}


def peer_looks(transfer: Transfer, views: Sequence[View]) -> dict[str, Any]:
    """A transfer function and views as the arms of VTK take them."""
    shown = [
        {"name": v.name, "position": v.position, "target": v.target, "up": v.up, "fov_degrees": v.fov_degrees}
        for v in views
    ]
    return {"opacities": transfer.opacities, "colours": transfer.colours, "views": shown}


def rays(of: dict[str, Any], transfer: Transfer, views: Sequence[View], size: Size, **options: Any) -> list[str]:
    """A command that casts rays and prints what each picture took."""
    return arms.inside(
        arm="volume_rays", spec=of, cameras=cameras(views), size=list(size), **looks(transfer), **options
    )


def contour(of: dict[str, Any], value: float, **options: Any) -> list[str]:
    """A command that draws an isosurface, lets its pieces go, and prints what each round took."""
    return arms.inside(arm="volume_contour", spec=of, value=value, **options)


def picture(prefix: Path, number: int, size: Size) -> NDArray[np.uint8]:
    """A picture [row, column, rgb] that `rays` wrote with the option `pictures`."""
    data = np.fromfile(f"{prefix}{number}.rgb", np.uint8)
    return data.reshape(size[1], size[0], 3)


def store(recorder: Recorder, volume: Volume, *, page: int = 32) -> Path:
    """A plain Zarr store of a scalar volume, uncompressed, with cubic pages in shards, made once.

    Raises:
        DataError: if it cannot be written.
    """
    import zarr

    path = recorder.work / f"{volume.header.stem}-plain-p{page}.zarr"
    if path.exists():
        return path
    part = path.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    edge = page * max(1, 256 // page)
    shape, mapped = volume.dims[::-1], volume.mapped()
    try:
        array = zarr.create_array(
            part, shape=shape, dtype="uint8", chunks=(page,) * 3, shards=(edge,) * 3, compressors=None, filters=None
        )
        for k in range(0, shape[0], edge):
            for j in range(0, shape[1], edge):
                array[k : k + edge, j : j + edge] = mapped[k : k + edge, j : j + edge]
        part.rename(path)
    except OSError as error:
        raise DataError(f"{path}: cannot write the store: {error.strerror}") from error
    return path
