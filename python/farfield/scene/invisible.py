"""Warnings about objects of a scene that show nothing, since their picture would pass for one of empty data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.pictures.directions import moderate
from farfield.pictures.sampled_values import LARGEST, is_met, sample
from farfield.scene.models import Scene, Volume

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset

_CUT = {
    "contour": "the field has no such value",
    "slice": "the plane does not meet the data",
    "lines": "no line comes of its seeds, or its file holds none",
    "cores": "there are no vortex cores of this kind",
}
"""Reasons why an object of triangles or lines may be empty."""
_NOTHING = "of the values of '{}' that were looked at none is a number: there may be nothing to see"
_ALL_THE_SAME = (
    "all values of '{}' that were looked at are {:.6g}, and what differs may not be told apart: 'farfield info {} --ranges' looks "
    "at every page"
)
_BEYOND = (
    "the values of '{}' that were looked at are beyond 3.4e+38, or nearly, and rays see none that single precision does not have: "
    "there may be nothing to see; 'farfield extract slice' shows them"
)
_ROUNDING = 1e-9
"""Tolerance for a box that touches the volume, relative to the volume's length."""


def of_volume(
    scene: Scene,
    volume: VolumeDataset,
    steps: Sequence[int] | None = None,
    samples: Mapping[str, NDArray[np.float64]] | None = None,
) -> list[str]:
    """Messages about volumes of a scene whose rays show nothing, each with its place in the scene. `samples` are values
    of channels, sampled earlier."""
    found = []
    for n, drawn in enumerate(scene.objects):
        if not isinstance(drawn, Volume):
            continue
        said = _cut_away(drawn, volume) or _clear(drawn, volume, steps or [scene.step], samples or {})
        if said is not None:
            found.append(f"objects.{n}.{said[0]}: {said[1]}")
    return found


def _cut_away(drawn: Volume, volume: VolumeDataset) -> tuple[str, str] | None:
    """The key that cuts the whole box of a volume away, and the reason."""
    space = volume.space
    last = np.array(space.dims, dtype=np.float64) - 1
    corners = np.array([space.position_of(np.array(c) * last) for c in product((0.0, 1.0), repeat=3)])
    low, high = corners.min(axis=0), corners.max(axis=0)
    lies = f"{volume.path} lies from {_place(low)} to {_place(high)}"
    if drawn.within is not None:
        inside = np.array([space.index_of(np.array(p)) for p in product(*zip(*drawn.within, strict=True))])
        # Separated along an axis of space, or along one of the volume.
        beside = _apart(low, high, np.array(drawn.within[0]), np.array(drawn.within[1]))
        if beside or _apart(np.zeros(3), last, inside.min(axis=0), inside.max(axis=0)):
            return "within", f"the box lies outside of the volume, and nothing is drawn: {lies}"
        if flat := [axis for axis, *ends in zip("xyz", *drawn.within, strict=True) if ends[0] == ends[1]]:
            return "within", (
                f"the box has no thickness along {' and '.join(flat)}, and nothing is drawn: a plane is an object of the kind "
                "'slice'"
            )
    for n, plane in enumerate(drawn.planes):
        along = (corners - np.array(plane.origin)) @ np.array(moderate(plane.normal))
        if along.max() < -_ROUNDING * np.abs(along).max():
            return f"planes.{n}", f"the plane cuts all of the volume away, and nothing is drawn: {lies}"
    for axis, (first, end) in drawn.slices.items():
        count = space.dims["ijk".index(axis)]
        if first > count:
            return f"slices.{axis}", f"there are {count} voxels along {axis}, counted from 1, and nothing is drawn"
        if first == min(end, count):
            low = max(1, min(first, count - 1))
            return f"slices.{axis}", (
                f"one layer of voxels has no thickness to look into, and nothing is drawn: draw two, as in [{low}, {low + 1}], "
                "or a plane, which is an object of the kind 'slice'"
            )
    return None


def _apart(low: Any, high: Any, other_low: Any, other_high: Any) -> bool:
    slack = _ROUNDING * (high - low).max()
    return bool(((other_high < low - slack) | (other_low > high + slack)).any())


def _place(position: Any) -> str:
    return "(" + ", ".join(f"{v:.6g}" for v in position) + ")"


def _clear(
    drawn: Volume, volume: VolumeDataset, steps: Sequence[int], samples: Mapping[str, NDArray[np.float64]]
) -> tuple[str, str] | None:
    """The key that makes all values of a volume clear, and the reason; None if some are visible or nothing is known."""
    is_surface = drawn.projection == "surface"
    if drawn.labels is not None:
        return _no_label(drawn.labels.only, drawn.field or volume.channels[0].name, volume, steps)
    if drawn.opacity_from is not None:
        return None
    about = next((c for c in volume.info()["channels"] if drawn.field in (None, c["name"])), None)
    if about is None or (drawn.field is None and volume.kind != "scalar"):
        return None
    values, pair, looked_at = samples.get(about["name"]), about["range"], ""
    # A range within single precision, or a type of that size, excludes values beyond it.
    may_be_beyond = about["dtype"] == "float64" and (pair is None or max(map(abs, pair)) >= LARGEST)
    if values is None and may_be_beyond:
        values = sample(volume, about["name"], steps)
    if values is not None and values.size and np.abs(values).min() >= LARGEST:
        return "field", _BEYOND.format(about["name"])
    if pair is None:
        if values is None and not (is_surface or drawn.opacity):
            return None
        values = sample(volume, about["name"], steps) if values is None else values
        if not values.size:
            # Failed pages have messages of their own.
            return None if volume.stats()["pages"]["failed"] else ("field", _NOTHING.format(about["name"]))
        pair = [float(values.min()), float(values.max())]
        looked_at = " that were looked at"
        if pair[0] == pair[1] and values.size < math.prod(volume.space.dims) and not is_surface:
            return "field", _ALL_THE_SAME.format(about["name"], pair[0], shlex.quote(volume.path))
    low, high = pair
    are = f"the values{looked_at} of '{about['name']}' are from {low:.6g} to {high:.6g}"
    nothing = "there may be nothing to see" if looked_at else "there is nothing to see"
    if is_surface:
        if drawn.value is None or drawn.value <= high:
            return None
        return "value", f"{are}, and {drawn.value:.6g} is not reached: {nothing}"
    nodes = drawn.opacity
    if not nodes:
        return None
    at = [low, high, *(v for v, _ in nodes if low < v < high)]
    if np.interp(at, [v for v, _ in nodes], [a for _, a in nodes]).max() > 0:
        return None
    return "opacity", f"{are}, and all of them are clear: {nothing}"


def _no_label(wanted: Sequence[int], name: str, volume: VolumeDataset, steps: Sequence[int]) -> tuple[str, str] | None:
    """The message if none of the wanted labels is among the sampled values."""
    if not wanted or name not in {c.name for c in volume.channels}:
        return None
    if is_met(volume, name, steps, wanted):
        return None
    few = ", ".join(map(str, wanted[:4])) + (" and others" if len(wanted) > 4 else "")
    return "labels.only", f"none of the values of '{name}' that were looked at is {few}: there may be nothing to see"


def of_drawn(drawn: Sequence[Mapping[str, Any]]) -> list[str]:
    """Messages about objects that drew nothing, with the reason.

    >>> of_drawn([{"kind": "slice", "name": "slice", "primitives": 0}, {"kind": "outline", "name": "outline", "primitives": 12}])
    ['slice: nothing is drawn of it: the plane does not meet the data']
    """
    return [
        f"{d['name']}: nothing is drawn of it: {_CUT[d['kind']]}"
        for d in drawn
        if d["kind"] in _CUT and not d["primitives"] and "failure" not in d
    ]
