"""Pictures of volumes one voxel thick: the whole slice.

>>> import farfield as ff
>>> is_flat(ff.open("demo:phantom"))
False
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.errors import UsageError
from farfield.pictures.fill_values import fills, said, without
from farfield.pictures.sampled_values import sample
from farfield.runtime import run_context
from farfield.runtime.progress import Report
from farfield.scene.films import looked_at, steps_of
from farfield.scene.volumes import extent, is_whole
from farfield.volume.orientation import OPPOSITE, UP, is_map

if TYPE_CHECKING:
    from farfield.scene.films import Film
    from farfield.volume.dataset import VolumeDataset

STRIP = 8
"""Largest aspect ratio of the picture of a single row of voxels, unless the row fills a higher one."""
MOST_PIXELS = (1600, 900)
"""Default largest size, as of other pictures."""


def is_flat(volume: VolumeDataset) -> bool:
    """Whether the volume is one voxel thick along an axis."""
    return 1 in volume.space.dims


def plane_of(volume: VolumeDataset, size: Sequence[int], *, fits: bool) -> dict[str, Any]:
    """The plane of the picture, in the form of `slice_image`: the whole volume in `size`, or with `fits` in the largest
    size of its shape within it. Images have their first row on top, maps north, and anatomy is upright."""
    space = volume.space
    axes = [np.array(row) for row in space.direction]
    # Of several thin axes use the last: two-dimensional data lie in x and y.
    thin = max(n for n in range(3) if space.dims[n] == 1)
    flat = [n for n in range(3) if n != thin]
    across, upward = _upright(volume, axes, thin, flat)
    high = next(n for n in flat if abs(axes[n] @ upward) > 0.5)
    wide = next(n for n in flat if n != high)
    if space.dims[wide] == 1 and space.dims[high] > 1:
        # A row of voxels is horizontal.
        wide, high = high, wide
        upward = axes[high]
    width, height = (space.dims[n] * space.spacing[n] for n in (wide, high))
    plane: dict[str, Any] = {"normal": across.tolist(), "up": upward.tolist(), "size": tuple(size)}
    if space.dims[high] == 1:
        # A single row of pixels would be no picture.
        rows = max(1, min(size[1], max(round(size[0] * height / width), size[0] // STRIP)))
        plane["size"] = (size[0], rows) if space.dims[wide] > 1 else (min(size), min(size))
        plane["extent"] = (-width / 2, width / 2, -height / 2, height / 2)
    elif fits:
        edge = max(width / size[0], height / size[1])
        plane["size"] = (max(1, round(width / edge)), max(1, round(height / edge)))
    return plane


def _upright(volume: VolumeDataset, axes: list[Any], thin: int, flat: list[int]) -> tuple[Any, Any]:
    """The normal of the picture's plane, and the upward direction."""
    letters = volume.anatomy or ""
    for letter in UP if letters else ():
        at = next(n for n in range(3) if letter in (letters[n], OPPOSITE[letters[n]]))
        along = max(range(3), key=lambda n: abs(axes[n][at]))
        if along in flat:
            sign = np.sign(axes[along][at]) * (1.0 if letters[at] == letter else -1.0)
            return axes[thin], sign * axes[along]
    if thin != 2:
        return axes[thin], axes[2]
    if is_map(volume):
        return axes[2], axes[1] if axes[1][1] >= 0 else -axes[1]
    # Rows of images run downward.
    return axes[2], -axes[1]


def flat_picture(
    volume: VolumeDataset,
    output: str,
    *,
    size: Sequence[int] | None = None,
    field: str | None = None,
    cmap: str | None = None,
    limits: Sequence[float] | None = None,
    nearest: bool = False,
    convention: str | None = None,
    bar: bool = True,
    letters: bool = True,
    film: Film | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes the picture of a volume one voxel thick, or one per time step of a `film`; returns the JSON of `--json`.

    Args:
        volume: The volume, or a time step of it.
        output: The `.png`, or the pattern of those of a film.
        size: Width and height in pixels; None: derived from the shape, at most 1600 x 900.
        field: The channel; None for all.
        cmap: As in `write_slice`.
        limits: Values of the first and the last colour. None: the range in the format, else that of nearly all values.
        nearest: As in `write_slice`.
        convention: As in `write_slice`.
        bar: As in `write_slice`.
        letters: As in `write_slice`.
        film: Time steps of the pictures.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if the channel or colour map does not exist.
        UsageError: for a video, which flat volumes do not support.
    """
    plane = plane_of(volume, size or MOST_PIXELS, fits=size is None)
    chosen = volume if field is None else volume.channel(field)
    numbers = [chosen.channels[n] for n in chosen._chosen_channels()]
    if limits is None and len(numbers) == 1 and (volume.kind != "labels" or cmap is not None):
        name = numbers[0].name
        found = sample(volume, name, looked_at(volume, film) if film is not None else [volume._step or 0])
        none = fills(found, whole=is_whole(numbers[0]))
        if none:
            run_context.remark(volume.path, said(name, none))
        limits = extent(volume, name, without(found, none), wide=True)
    marks: dict[str, Any] = {"convention": convention, "bar": bar, "letters": letters}
    how: dict[str, Any] = {**plane, **marks, "cmap": cmap, "range": limits, "nearest": nearest, "progress": progress}
    if film is None:
        return chosen.write_slice(output, **how)
    if film.fps is not None or film.resume:
        raise UsageError(
            f"{output}: a volume one voxel thick gives numbered pictures only, all made again; name them out_%04d.png, and "
            "remove --resume"
        )
    frames: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    with film.in_folder():
        for step in steps_of(volume, film):
            name = os.path.join(os.path.dirname(output), os.path.basename(output) % step)
            result = chosen.isel(time=step).write_slice(name, **how)
            frames.append({"step": step, **{key: result[key] for key in ("output", "partial", "pixels", "failure")}})
    if not frames:
        raise UsageError(f"{output}: there is no time step to draw")
    failure = next((frame["failure"] for frame in frames if frame["failure"]), None)
    partial = any(frame["partial"] for frame in frames)
    return {**result, "output": output, "frames": frames, "partial": partial, "failure": failure}
