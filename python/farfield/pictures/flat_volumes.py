"""Volumes one voxel thick: their picture is a slice, all of it.

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
from farfield.pictures.slices import write_slice
from farfield.runtime import run_context
from farfield.runtime.progress import Report
from farfield.scene.films import looked_at, steps_of
from farfield.scene.volumes import extent, is_whole
from farfield.volume.orientation import OPPOSITE, UP, is_map

if TYPE_CHECKING:
    from farfield.scene.films import Film
    from farfield.volume.dataset import VolumeDataset

STRIP = 8
"""Of a volume one voxel thick along two axes the picture is so many times as wide as it is high, if no less follows."""
MOST_PIXELS = (1600, 900)
"""Of a picture whose size nobody says: as that of others."""


def is_flat(volume: VolumeDataset) -> bool:
    """Whether it is one voxel thick along an axis."""
    return 1 in volume.space.dims


def plane_of(volume: VolumeDataset, size: Sequence[int], *, fits: bool) -> dict[str, Any]:
    """Where the picture lies, as `slice_image` takes it: all of the volume in so many pixels, or, if it `fits`, in no more than its
    shape needs of them. Images stand as they do elsewhere, their first row on top, maps north up, and anatomy stands upright.
    """
    space = volume.space
    axes = [np.array(row) for row in space.direction]
    # Of several the last: colours and numbers of two dimensions lie in x and y.
    thin = max(n for n in range(3) if space.dims[n] == 1)
    flat = [n for n in range(3) if n != thin]
    across, upward = _upright(volume, axes, thin, flat)
    high = next(n for n in flat if abs(axes[n] @ upward) > 0.5)
    wide = next(n for n in flat if n != high)
    if space.dims[wide] == 1 and space.dims[high] > 1:
        # A line of voxels lies.
        wide, high = high, wide
        upward = axes[high]
    width, height = (space.dims[n] * space.spacing[n] for n in (wide, high))
    plane: dict[str, Any] = {"normal": across.tolist(), "up": upward.tolist(), "size": tuple(size)}
    if space.dims[high] == 1:
        # A pixel high it would be no picture.
        rows = max(1, min(size[1], max(round(size[0] * height / width), size[0] // STRIP)))
        plane["size"] = (size[0], rows) if space.dims[wide] > 1 else (min(size), min(size))
        plane["extent"] = (-width / 2, width / 2, -height / 2, height / 2)
    elif fits:
        edge = max(width / size[0], height / size[1])
        plane["size"] = (max(1, round(width / edge)), max(1, round(height / edge)))
    return plane


def _upright(volume: VolumeDataset, axes: list[Any], thin: int, flat: list[int]) -> tuple[Any, Any]:
    """Across the picture, and what is up in it."""
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
    """Writes the picture of a volume one voxel thick, or one of each time step of a `film`; what `--json` prints.

    Args:
        volume: The volume, or a time step of it.
        output: The `.png`, or the pattern of those of a film.
        size: Width and height in pixels; None: what suits its shape, 1600 x 900 at most.
        field: The channel; None for all.
        cmap: As `write_slice` has it, likewise below.
        limits: Values of the first and the last colour; None: what the format says, else the range of nearly all values.
        nearest: There.
        convention: There.
        bar: There.
        letters: There.
        film: Of which time steps.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if there is no such channel or colour map.
        UsageError: for a video.
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
        return write_slice(chosen, output, **how)
    if film.fps is not None or film.resume:
        raise UsageError(
            f"{output}: of a volume one voxel thick there are numbered pictures, all made anew: name them out_%04d.png, and leave "
            "--resume away"
        )
    frames: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    with film.in_folder():
        for step in steps_of(volume, film):
            name = os.path.join(os.path.dirname(output), os.path.basename(output) % step)
            result = write_slice(chosen.isel(time=step), name, **how)
            frames.append({"step": step, **{key: result[key] for key in ("output", "partial", "pixels", "failure")}})
    if not frames:
        raise UsageError(f"{output}: there is no time step to draw")
    failure = next((frame["failure"] for frame in frames if frame["failure"]), None)
    partial = any(frame["partial"] for frame in frames)
    return {**result, "output": output, "frames": frames, "partial": partial, "failure": failure}
