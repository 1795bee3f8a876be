"""Segmentations in DICOM (PS3.3 C.8.20): each frame is one segment in one plane; together they form a volume of
labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.runtime.optional_libraries import need
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import Array, Channel, Level, Volume, contiguous, from_affine
from farfield.volume.formats.dicom.elements import number_of, whole
from farfield.volume.formats.dicom.frames import group_numbers, kept_of, measured, orientations
from farfield.volume.formats.dicom.headers import Slice, check_orientation
from farfield.volume.formats.dicom.pixels import frames_in, undecoded
from farfield.volume.formats.dicom.slice_order import slack
from farfield.volume.formats.options import Options, ReaderResources

_MOST_PLANES = 1 << 16
"""Largest number of planes; damaged positions give more."""


def segments_of(only: Slice) -> dict[int, str]:
    """Names of segments by number; empty unless a file is a segmentation of single bits.

    Raises:
        DataError: if a segment has no number.
    """
    header = only.header
    if header is None or str(header.get("SegmentationType") or "") != "BINARY" or not header.get("SegmentSequence"):
        return {}
    listed = [(whole(s.get("SegmentNumber")), str(s.get("SegmentLabel") or "")) for s in header.SegmentSequence]
    if any(number is None for number, _ in listed):
        raise DataError(
            f"{only.file}: a segment has no number (SegmentNumber), so its frames are unknown; write it "
            "again with the tool that made it"
        )
    return {number: name for number, name in listed if number is not None and number > 0}


def of_segments(path: str, only: Slice, options: Options, resources: ReaderResources, guessed: list[str]) -> Volume:
    """The volume of labels from the segments of a file; planes without frames are empty.

    Raises:
        DataError: if a frame lacks its position or segment, or if planes are not evenly spaced.
    """
    names = segments_of(only)
    per_frame = only.header.get("PerFrameFunctionalGroupsSequence") or []
    shared = (only.header.get("SharedFunctionalGroupsSequence") or [None])[0]
    kept = kept_of(only)
    groups = [per_frame[n] for n in kept if n < len(per_frame)]
    numbers = [_number(item, shared, names) for item in groups]
    positions = [group_numbers(item, "PlanePositionSequence", "ImagePositionPatient", 3) for item in groups]
    turns = orientations(only)
    turn = group_numbers(shared, "PlaneOrientationSequence", "ImageOrientationPatient", 6) or (
        turns[kept[0]] if kept[0] < len(turns) else None
    )
    known = [p for p in positions if p is not None]
    if turn is None or len(known) != len(kept) or None in numbers:
        raise DataError(
            f"{only.file}: a frame of this segmentation does not say where it lies, or of which segment it is; write it again with "
            "the tool that made it"
        )
    check_orientation(only.file, turn)
    i, j = np.array(turn[:3]), np.array(turn[3:])
    normal = np.cross(i, j)
    along = np.round([float(np.dot(p, normal)) for p in known], 3)
    places, step = _planes(only, along)
    of_planes: list[list[tuple[int, int]]] = [[] for _ in range(int(places.max()) + 1)]
    for frame, place, number in zip(kept, places.tolist(), numbers, strict=True):
        of_planes[place].append((int(number or 0), frame))
    array = Array(
        only.label or "segments",
        "uint8" if max(names) < 256 else "uint16",
        (len(of_planes), *only.size),
        "zyx",
        {},
    )
    made = converted(
        path,
        resources,
        count=array.bytes,
        why="has a frame for each segment",
        how=f"labels of segments as {array.dtype}" + ("" if only.kept is None else f" of the frames {list(kept)}"),
        pieces=lambda: _labels(only, of_planes, array.dtype),
        files=[only.file],
    )
    array.place = contiguous(made.path, 0)
    listed = ", ".join(f"{n} {name}".strip() for n, name in list(names.items())[:8]) + (
        ", ..." if len(names) > 8 else ""
    )
    overlap = "; where some overlap, the highest number is kept" if len(names) > 1 else ""
    guessed.append(f"its labels are the numbers of its segments: {listed}{overlap}")
    empty = sum(not plane for plane in of_planes)
    if empty:
        guessed.append(f"{empty} of its {len(of_planes)} planes have no frame: they are 0 there, no segment")
    spacing, _ = measured(only)
    down, across = spacing or (1.0, 1.0)
    if spacing is None:
        guessed.append("it does not say how large a pixel is: 1 mm")
    first = known[int(along.argmin())]
    axes = [(i * across).tolist(), (j * down).tolist(), (normal * step).tolist()]
    geometry = from_affine(only.file, axes, first, "PixelSpacing with ImageOrientationPatient")
    return Volume(
        path=path,
        format="DICOM, segmentation",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=[Channel(array.name)],
        kind="labels" if options.kind is None else options.kind,
        guessed=guessed,
        length_unit="mm",
        anatomy="LPS",
        direction=geometry.direction,
        reads=[path, made.path],
    )


def _number(item: Any, shared: Any, names: dict[int, str]) -> int | None:
    """The segment number of a frame."""
    for group in (item, shared):
        found = group.get("SegmentIdentificationSequence") if group is not None else None
        number = number_of(found[0].get("ReferencedSegmentNumber")) if found else None
        if number is not None:
            return int(number) if int(number) in names else None
    return None


def _planes(
    only: Slice, along: np.ndarray[Any, np.dtype[np.float64]]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], float]:
    """The plane of each frame, and the distance of planes."""
    distinct = np.unique(along)
    _, thickness = measured(only)
    gaps = np.diff(distinct)
    if not len(gaps):
        return np.zeros(len(along), np.int64), thickness or 1.0
    of_distinct = np.concatenate([[0], np.cumsum(np.round(gaps / gaps.min()))]).astype(np.int64)
    last = int(of_distinct[-1])
    # Over many planes the rounding of each distance adds up, so the whole length is more exact.
    step = float(np.ptp(distinct)) / last
    off = np.abs(distinct - distinct[0] - step * of_distinct)
    if float(off.max()) > slack(step) or last >= _MOST_PLANES:
        raise DataError(
            f"{only.file}: its planes are {gaps.min():.4g} to {gaps.max():.4g} mm apart, and should be evenly; resample it first"
        )
    return of_distinct[np.searchsorted(distinct, along)], step


def _labels(only: Slice, of_planes: Sequence[Sequence[tuple[int, int]]], dtype: str) -> Iterator[bytes]:
    pixels = need("pydicom.pixels", "DICOM files")
    order = [frame for plane in of_planes for _, frame in sorted(plane)]
    kind = np.dtype(dtype).newbyteorder("<")
    try:
        frames = frames_in(pixels, only, order)
        for plane in of_planes:
            made = np.zeros(only.size, kind)
            for number, _ in sorted(plane):
                made[np.asarray(next(frames)) > 0] = number
            yield made.tobytes()
    except (MemoryError, GeneratorExit):
        raise
    except Exception as error:  # decoders raise any exception
        raise undecoded(only, error) from error
