"""Files of many frames: where the frames lie, and how their numbers are scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.volume.description import Geometry, from_affine
from farfield.volume.dicom_files import Slice, check_orientation, number_of, numbers_of, window_of


@dataclass
class Frames:
    """How the frames of a file lie."""

    geometry: Geometry
    placed: bool
    order: list[int] | None = None
    """Frames by position, where that is another order than theirs in the file."""
    steps: int = 1
    guessed: list[str] = field(default_factory=list)
    scales: list[tuple[float, float] | None] = field(default_factory=list)
    """Rescale slope and intercept of each frame, in the order of the file; one for all where they are alike."""
    units: str | None = None
    """Of what is rescaled, where the groups of frames say it."""
    windows: list[tuple[float, float] | None] = field(default_factory=list)
    """Window of each frame, in the order of the file; one for all where groups say none."""


def frames_of(only: Slice) -> Frames:
    """Where the frames of a file lie, and how their numbers are scaled.

    Raises:
        DataError: if they are not evenly spaced, or there are not as many groups as frames.
    """
    of_frames = only.header.get("PerFrameFunctionalGroupsSequence") or []
    if len(of_frames) not in (0, only.frames):
        raise DataError(
            f"{only.file}: its PerFrameFunctionalGroupsSequence has {len(of_frames)} groups for {only.frames} frames, so that "
            "nobody knows which frame lies where; write it again with the tool that made it"
        )
    found = _placed(only)
    shared = (only.header.get("SharedFunctionalGroupsSequence") or [None])[0]
    groups = [shared, *of_frames]
    of_all, *own = [_rescale(item) for item in groups]
    scales = [scale or of_all or only.scale for scale in own] or [of_all or only.scale]
    found.scales = scales[:1] if len(set(scales)) == 1 else scales
    shown = [_window(item) for item in groups]
    found.windows = [own or shown[0] or only.window for own in shown[1:]] or [shown[0] or only.window]
    said = [item.get("PixelValueTransformationSequence") for item in groups if item is not None]
    kind = next((str(s[0].get("RescaleType") or "").strip() for s in said if s), "")
    if any(scales):
        found.units = "HU" if kind in ("", "HU", "US") and only.modality == "CT" else (kind or None)
        found.units = None if found.units in ("US", "NONE") else found.units
    return found


def _rescale(item: Any) -> tuple[float, float] | None:
    """Slope and intercept in a group."""
    found = item.get("PixelValueTransformationSequence") if item is not None else None
    slope = number_of(found[0].get("RescaleSlope")) if found else None
    return None if not found or not slope else (slope, number_of(found[0].get("RescaleIntercept")) or 0.0)


def _window(item: Any) -> tuple[float, float] | None:
    """The window in a group."""
    found = item.get("FrameVOILUTSequence") if item is not None else None
    return window_of(found[0]) if found else None


def measured(only: Slice) -> tuple[tuple[float, float] | None, float | None]:
    """How far rows and columns are apart, and how thick a frame is, by the groups of frames or the file."""
    shared = (only.header.get("SharedFunctionalGroupsSequence") or [None])[0]
    first = (only.header.get("PerFrameFunctionalGroupsSequence") or [None])[0]
    groups = [g for g in (shared, first) if g is not None]
    apart = [_group(g, "PixelMeasuresSequence", "PixelSpacing", 2) for g in groups]
    thick = [
        number_of(g["PixelMeasuresSequence"][0].get("SliceThickness")) for g in groups if g.get("PixelMeasuresSequence")
    ]
    spacing = next((v for v in apart if v is not None), None) or only.spacing
    thickness = next((v for v in thick if v), None) or only.thickness
    return None if spacing is None else (spacing[0], spacing[1]), thickness


def _placed(only: Slice) -> Frames:
    header = only.header
    per_frame = header.get("PerFrameFunctionalGroupsSequence") or []
    shared = (header.get("SharedFunctionalGroupsSequence") or [None])[0]
    positions: list[tuple[float, ...]] = []
    for item in per_frame:
        found = _group(item, "PlanePositionSequence", "ImagePositionPatient", 3)
        if found is not None:
            positions.append(found)
    first = per_frame[0] if len(per_frame) else None
    orientation = (
        _group(shared, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
        or _group(first, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
        or only.orientation
    )
    spacing = (
        _group(shared, "PixelMeasuresSequence", "PixelSpacing", 2)
        or _group(first, "PixelMeasuresSequence", "PixelSpacing", 2)
        or only.spacing
    )
    guessed = []
    if spacing is None:
        guessed.append("it does not say how large a pixel is: 1 mm")
    down, across = spacing or (1.0, 1.0)
    if not positions:
        positions = _by_offsets(only, header, orientation)
    if orientation is None or len(positions) != only.frames:
        step = only.thickness or 1.0
        missing = _missing(only, header, orientation, len(positions))
        guessed.append(f"its frames do not say where they lie ({missing}): along x, y and z, in their order")
        return Frames(
            from_affine(only.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing"),
            False,
            guessed=guessed,
        )
    check_orientation(only.file, orientation)
    i, j = np.array(orientation[:3]), np.array(orientation[3:])
    normal = np.cross(i, j)
    along = [round(float(np.dot(p, normal)), 3) for p in positions]
    places = sorted(set(along))
    steps, rest = divmod(only.frames, len(places))
    if rest or any(along.count(p) != steps for p in places[: 1 << 12]):
        raise DataError(
            f"{only.file}: its {only.frames} frames lie at {len(places)} positions, some more often than others; split it first"
        )
    ordered = sorted(range(only.frames), key=lambda n: (along[n], n))
    if steps > 1:
        ordered = [ordered[p * steps + s] for s in range(steps) for p in range(len(places))]
    gaps = np.diff(places)
    if len(gaps) and float(np.abs(gaps - gaps.mean()).max()) > max(0.01 * abs(float(gaps.mean())), 2e-3):
        raise DataError(
            f"{only.file}: its frames are {gaps.min():.4g} to {gaps.max():.4g} mm apart, and should be evenly; resample it first"
        )
    low, high = positions[ordered[0]], positions[ordered[len(places) - 1]]
    k = (np.array(high) - np.array(low)) / (len(places) - 1) if len(places) > 1 else normal * (only.thickness or 1.0)
    geometry = from_affine(
        only.file,
        [(i * across).tolist(), (j * down).tolist(), k.tolist()],
        low,
        "PixelSpacing with ImageOrientationPatient",
    )
    same = ordered == list(range(only.frames)) and steps == 1
    return Frames(geometry, True, None if same else ordered, steps, guessed)


def _missing(only: Slice, header: Any, orientation: tuple[float, ...] | None, positions: int) -> str:
    """What a file does not say of where its frames lie."""
    offsets = header.get("GridFrameOffsetVector")
    if orientation is None:
        return "no ImageOrientationPatient"
    if positions:
        return f"an ImagePositionPatient for {positions} of {only.frames}"
    if offsets is not None and np.size(offsets) != only.frames:
        return f"{np.size(offsets)} offsets in GridFrameOffsetVector for {only.frames}"
    return "no ImagePositionPatient" if offsets is not None else "no ImagePositionPatient of their own"


def _by_offsets(only: Slice, header: Any, orientation: tuple[float, ...] | None) -> list[tuple[float, ...]]:
    """Positions of frames as doses have them: the first one's, and how far the others are from it."""
    offsets = header.get("GridFrameOffsetVector")
    if offsets is None or orientation is None or only.position is None or np.size(offsets) != only.frames:
        return []
    normal = np.cross(orientation[:3], orientation[3:])
    first = float(offsets[0])
    return [tuple((np.array(only.position) + normal * (float(o) - first)).tolist()) for o in offsets]


def _group(item: Any, sequence: str, tag: str, count: int) -> tuple[float, ...] | None:
    """A value in a functional group."""
    found = item.get(sequence) if item is not None else None
    return numbers_of(found[0].get(tag), count) if found else None
