"""Multi-frame files: positions of the frames, and scales of their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.description import Geometry, from_affine
from farfield.volume.formats.dicom.acquisition import Order, key_of, moments_of_frame, order_of, sorter, zone_of
from farfield.volume.formats.dicom.appearance import Look, window_of
from farfield.volume.formats.dicom.elements import number_of, numbers_of, values_in
from farfield.volume.formats.dicom.headers import Slice, check_orientation


@dataclass
class Frames:
    """Positions and scales of the frames of a file."""

    geometry: Geometry
    placed: bool
    order: list[int] | None = None
    """Frames by time step and position, if their order in the file differs or some are omitted."""
    steps: int = 1
    times: list[float] = field(default_factory=list)
    time_units: str = "1"
    guessed: list[str] = field(default_factory=list)
    scales: list[tuple[float, float] | None] = field(default_factory=list)
    """Rescale slope and intercept of each frame, in the order of the file; a single one if all are equal."""
    units: str | None = None
    """Unit after rescaling, if the groups of frames give it."""
    looks: list[Look] = field(default_factory=list)
    """Appearance of each selected frame, in the order of the file; a single one if groups give none."""


def placed_frames(only: Slice, *, spaced: bool = False) -> Frames:
    """Positions of the frames of a file, and scales of their numbers; `spaced`: the user gives their spacing.

    Raises:
        DataError: if they are not evenly spaced, or if groups and frames differ in number.
    """
    per_frame = only.header.get("PerFrameFunctionalGroupsSequence") or []
    if len(per_frame) not in (0, only.frames):
        raise DataError(
            f"{only.file}: its PerFrameFunctionalGroupsSequence has {len(per_frame)} groups for {only.frames} frames, so "
            "the places of frames are unknown; write it again with the tool that made it"
        )
    found = _placed(only, spaced)
    shared = (only.header.get("SharedFunctionalGroupsSequence") or [None])[0]
    groups = [shared, *per_frame]
    of_all, *own = [_rescale(item) for item in groups]
    scales = [scale or of_all or only.scale for scale in own] or [of_all or only.scale]
    found.scales = scales[:1] if len(set(scales)) == 1 else scales
    of_shared = _window(shared)
    windows = [_window(per_frame[n]) for n in kept_of(only)] if len(per_frame) else [None]
    found.looks = [only.look.with_window(window or of_shared) for window in windows]
    said = [item.get("PixelValueTransformationSequence") for item in groups if item is not None]
    kind = next((str(s[0].get("RescaleType") or "").strip() for s in said if s), "")
    if any(scales):
        found.units = "HU" if kind in ("", "HU", "US") and only.modality == "CT" else (kind or None)
        found.units = None if found.units in ("US", "NONE") else found.units
    return found


def _rescale(item: Any) -> tuple[float, float] | None:
    """Slope and intercept of a functional group."""
    found = item.get("PixelValueTransformationSequence") if item is not None else None
    slope = number_of(found[0].get("RescaleSlope")) if found else None
    return None if not found or not slope else (slope, number_of(found[0].get("RescaleIntercept")) or 0.0)


def _window(item: Any) -> tuple[float, float] | None:
    """The window of a functional group."""
    found = item.get("FrameVOILUTSequence") if item is not None else None
    return window_of(found[0]) if found else None


def measured(only: Slice) -> tuple[tuple[float, float] | None, float | None]:
    """Distances of rows and columns, and the thickness of a frame, from the groups of frames or the file."""
    shared = (only.header.get("SharedFunctionalGroupsSequence") or [None])[0]
    first = (only.header.get("PerFrameFunctionalGroupsSequence") or [None])[0]
    groups = [g for g in (shared, first) if g is not None]
    apart = [group_numbers(g, "PixelMeasuresSequence", "PixelSpacing", 2) for g in groups]
    thick = [
        number_of(g["PixelMeasuresSequence"][0].get("SliceThickness")) for g in groups if g.get("PixelMeasuresSequence")
    ]
    spacing = next((v for v in apart if v is not None), None) or only.spacing
    thickness = next((v for v in thick if v), None) or only.thickness
    return None if spacing is None else (spacing[0], spacing[1]), thickness


def kept_of(only: Slice) -> list[int]:
    """Numbers of the selected frames."""
    return list(range(only.frames) if only.kept is None else only.kept)


def orientations(only: Slice) -> list[tuple[float, ...] | None]:
    """Orientation of each frame of a file; empty if it has no groups per frame."""
    per_frame = only.header.get("PerFrameFunctionalGroupsSequence") or []
    return [group_numbers(item, "PlaneOrientationSequence", "ImageOrientationPatient", 6) for item in per_frame]


def _placed(only: Slice, spaced: bool) -> Frames:
    header = only.header
    kept = kept_of(only)
    per_frame = header.get("PerFrameFunctionalGroupsSequence") or []
    groups = [per_frame[n] for n in kept] if len(per_frame) else []
    shared = (header.get("SharedFunctionalGroupsSequence") or [None])[0]
    said = [group_numbers(item, "PlanePositionSequence", "ImagePositionPatient", 3) for item in groups]
    positions = [found for found in said if found is not None]
    first = groups[0] if groups else None
    orientation = (
        group_numbers(shared, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
        or group_numbers(first, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
        or only.orientation
        or _of_detector(header, "ImageOrientationPatient", 6)
    )
    spacing = (
        group_numbers(shared, "PixelMeasuresSequence", "PixelSpacing", 2)
        or group_numbers(first, "PixelMeasuresSequence", "PixelSpacing", 2)
        or only.spacing
    )
    _, thickness = measured(only)
    guessed = []
    if spacing is None:
        guessed.append("it does not say how large a pixel is: 1 mm")
    down, across = spacing or (1.0, 1.0)
    if not positions:
        positions = _by_offsets(only, header, orientation) or _by_detector(only, header, orientation, thickness)
    if orientation is None or len(positions) != len(kept):
        return _unplaced(only, kept, [across, down, thickness or 1.0], orientation, len(positions), guessed)
    check_orientation(only.file, orientation)
    i, j = np.array(orientation[:3]), np.array(orientation[3:])
    normal = np.cross(i, j)
    at: dict[float, list[int]] = {}
    along = [round(float(np.dot(p, normal)), 3) for p in positions]
    for n in sorted(range(len(kept)), key=lambda n: (along[n], n)):
        at.setdefault(along[n], []).append(n)
    places = list(at)
    steps, rest = divmod(len(kept), len(places))
    if rest or any(len(group) != steps for group in at.values()):
        raise DataError(
            f"{only.file}: its {len(kept)} frames lie at {len(places)} positions, some more often than others; split it first"
        )
    zone = zone_of(header)
    moments = [moments_of_frame(item, zone) for item in groups] or [{}] * len(kept)
    said_of = [[moments[n] for n in group] for group in at.values()]
    key = key_of(said_of) if steps > 1 else None
    moment = sorter(key, said_of)
    sorted_groups = [sorted(group, key=lambda n: moment(moments[n])) for group in at.values()]
    step_order = order_of(key, [moments[n] for n in sorted_groups[0]], moment, only.resolution)
    if steps > 1:
        guessed.append(step_order.said(steps, "frames"))
    chosen = [group[step] for step in range(steps) for group in sorted_groups]
    gaps = np.diff(places)
    if spaced:
        guessed.append("distances between its frames were not compared, since a spacing was given")
    elif len(gaps) and float(np.abs(gaps - gaps.mean()).max()) > max(0.01 * abs(float(gaps.mean())), 2e-3):
        raise DataError(
            f"{only.file}: its frames are {gaps.min():.4g} to {gaps.max():.4g} mm apart, and should be evenly; resample it first, "
            "or give --spacing X,Y,Z to show them evenly all the same"
        )
    low, high = positions[chosen[0]], positions[chosen[len(places) - 1]]
    k = (np.array(high) - np.array(low)) / (len(places) - 1) if len(places) > 1 else normal * (thickness or 1.0)
    geometry = from_affine(
        only.file,
        [(i * across).tolist(), (j * down).tolist(), k.tolist()],
        low,
        "PixelSpacing with ImageOrientationPatient",
    )
    order = [kept[n] for n in chosen]
    same = order == list(range(only.frames)) and steps == 1
    return Frames(geometry, True, None if same else order, steps, *_timed(step_order, steps), guessed)


def _timed(order: Order, steps: int) -> tuple[list[float], str]:
    return (order.times, order.units) if steps > 1 and order.times else ([], "1")


def _unplaced(
    only: Slice,
    kept: list[int],
    apart: list[float],
    orientation: tuple[float, ...] | None,
    positions: int,
    guessed: list[str],
) -> Frames:
    """Frames without positions: those of a cine are time steps, others a stack."""
    order = None if only.kept is None else kept
    geometry = from_affine(only.file, np.diag(apart).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    times, tag = _of_film(only)
    if times:
        guessed.append(f"its frames follow each other in time ({tag}): they are time steps of one slice")
        chosen = [times[n] for n in kept]
        return Frames(geometry, False, order, len(kept), chosen, "s", guessed)
    missing = _missing(only, only.header, orientation, positions)
    guessed.append(f"its frames do not say where they lie ({missing}): along x, y and z, in their order")
    return Frames(geometry, False, order, guessed=guessed)


def _of_film(only: Slice) -> tuple[list[float], str]:
    """Times in seconds of a cine's frames, and the element that gives them."""
    header = only.header
    pointer = header.get("FrameIncrementPointer")
    wanted = [int(tag) for tag in (pointer if hasattr(pointer, "append") else [pointer])] if pointer is not None else []
    vector = numbers_of(header.get("FrameTimeVector"), only.frames)
    if 0x00181065 in wanted and vector is not None:
        return np.cumsum([v / 1000 for v in vector]).tolist(), "FrameTimeVector"
    each = number_of(header.get("FrameTime"))
    if each and (0x00181063 in wanted or not wanted):
        return [each / 1000 * n for n in range(only.frames)], "FrameTime"
    return [], ""


def _of_detector(header: Any, tag: str, count: int) -> tuple[float, ...] | None:
    """An element of the first detector of a nuclear image, if its frames are reconstructed slices."""
    kinds = header.get("ImageType")
    found = header.get("DetectorInformationSequence")
    is_stack = any(str(word).upper() in ("RECON TOMO", "RECON GATED TOMO") for word in values_in(kinds))
    return numbers_of(found[0].get(tag), count) if found and is_stack else None


def _by_detector(
    only: Slice, header: Any, orientation: tuple[float, ...] | None, thickness: float | None
) -> list[tuple[float, ...]]:
    """Positions of reconstructed slices, from the first position and the spacing in the header.

    The sign of SpacingBetweenSlices gives the side of the others (PS3.3 C.8.4.15).
    """
    first = _of_detector(header, "ImagePositionPatient", 3)
    numbers = numbers_of(header.get("SliceVector"), only.frames)
    step = number_of(header.get("SpacingBetweenSlices")) or thickness
    if first is None or orientation is None or not step or numbers is None:
        return []
    normal = np.cross(orientation[:3], orientation[3:])
    return [tuple((np.array(first) + normal * step * (numbers[n] - 1)).tolist()) for n in kept_of(only)]


def _missing(only: Slice, header: Any, orientation: tuple[float, ...] | None, positions: int) -> str:
    """The parts of the frames' positions that a file lacks."""
    offsets = header.get("GridFrameOffsetVector")
    if orientation is None:
        return "no ImageOrientationPatient"
    if positions:
        return f"an ImagePositionPatient for {positions} of {only.count}"
    if offsets is not None and np.size(offsets) != only.frames:
        return f"{np.size(offsets)} offsets in GridFrameOffsetVector for {only.frames}"
    return "no ImagePositionPatient" if offsets is not None else "no ImagePositionPatient of their own"


def _by_offsets(only: Slice, header: Any, orientation: tuple[float, ...] | None) -> list[tuple[float, ...]]:
    """Positions of frames of a dose: the first one's, and the offsets of the others."""
    offsets = header.get("GridFrameOffsetVector")
    if offsets is None or orientation is None or only.position is None or np.size(offsets) != only.frames:
        return []
    normal = np.cross(orientation[:3], orientation[3:])
    first = float(offsets[0])
    return [tuple((np.array(only.position) + normal * (float(offsets[n]) - first)).tolist()) for n in kept_of(only)]


def group_numbers(item: Any, sequence: str, tag: str, count: int) -> tuple[float, ...] | None:
    """A value of a functional group."""
    found = item.get(sequence) if item is not None else None
    return numbers_of(found[0].get(tag), count) if found else None
