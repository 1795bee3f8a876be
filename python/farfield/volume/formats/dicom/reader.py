"""DICOM series: a folder of slices, or a multi-frame file. pydicom reads the headers; pixels are paged in place.

Positions are the patient's (PS3.3 C.7.6.2): +x left, +y back, +z up, in millimetres. Slices are in the order of their
positions along the normal of the first plane.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.runtime.optional_libraries import need
from farfield.volume.formats.description import Geometry, Level, Volume, contiguous, from_affine, in_table, table_of
from farfield.volume.formats.dicom.acquisition import Order, key_of, order_of, sorter
from farfield.volume.formats.dicom.frames import placed_frames
from farfield.volume.formats.dicom.headers import Slice, slices_in
from farfield.volume.formats.dicom.mosaic import of_mosaics
from farfield.volume.formats.dicom.pixels import alone, array_of, convert, for_each_frame, in_place, why_converted
from farfield.volume.formats.dicom.segments import of_segments, segments_of
from farfield.volume.formats.dicom.series import series_of
from farfield.volume.formats.dicom.slice_order import settled, slack
from farfield.volume.formats.dicom.stacks import is_of_slide
from farfield.volume.formats.dicom.tiles import of_slide
from farfield.volume.formats.dicom.values import NUMBERS, channels_of, look_shown, values_of, with_blanks
from farfield.volume.formats.files import missing_slices
from farfield.volume.formats.options import Options, ReaderResources

_PLANES = (
    ("x", "sagittal", (0.0, 1.0, 0.0, 0.0, 0.0, -1.0)),
    ("y", "coronal", (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)),
    ("z", "axial", (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)),
)
"""Names and orientations of slices stacked along each axis."""


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume of a series in a folder, or of a file; `options.variable` names a series by number or UID.

    Raises:
        DataError: if slices do not form a volume, or if a header is damaged.
        UnknownName: if the series does not exist.
        UsageError: if pydicom is not installed.
    """
    need("pydicom", f"{path}: DICOM files")
    guessed: list[str] = []
    found = series_of(path, slices_in(path, resources.progress), options, guessed)
    volume = _of_series(path, found.slices, options, resources, guessed)
    volume.contents, volume.shown = found.contents, found.shown
    return volume


def _of_series(
    path: str, chosen: list[Slice], options: Options, resources: ReaderResources, guessed: list[str]
) -> Volume:
    guessed += dict.fromkeys(itertools.chain.from_iterable(s.assumed for s in chosen))
    if all(map(is_of_slide, chosen)):
        return of_slide(path, chosen, options, resources, guessed)
    if len(chosen) == 1 and segments_of(chosen[0]):
        return of_segments(path, chosen[0], options, resources, guessed)
    if len(chosen) == 1 and chosen[0].frames > 1:
        return _of_many_frames(path, chosen[0], options, resources, guessed)
    if any(s.mosaic is not None for s in chosen):
        return of_mosaics(path, chosen, options, resources, guessed)
    many = next((s for s in chosen if s.frames > 1), None)
    if many is not None:
        raise DataError(
            f"{many.file}: this file of the series holds {many.frames} frames, and others one; open it by itself"
        )
    chosen = settled(path, chosen, guessed, spaced=options.spacing is not None)
    _alike(path, chosen, spaced=options.spacing is None)
    steps, order = _steps(path, _turned(chosen, guessed), guessed)
    blanks = _missing(path, steps[0], options, guessed) if options.spacing is None else [0] * len(steps[0])
    geometry = _geometry(path, steps[0], blanks, options, guessed)
    return _volume(path, chosen[0], steps, blanks, order, geometry, options, resources, guessed)


def _alike(path: str, chosen: Sequence[Slice], *, spaced: bool) -> None:
    """Refuses slices of different volumes; `spaced`: the spacing of pixels comes from the files."""
    first = chosen[0]
    for s in chosen[1:]:
        for what, mine, other in (
            ("size", s.size, first.size),
            ("pixels", s.pixel, first.pixel),
        ):
            if mine != other:
                raise DataError(
                    f"{s.file}: the {what} of this slice is {_text(mine)}, and that of "
                    f"{os.path.basename(first.file)} is {_text(other)}: they are not of one volume; take it out of {path}"
                )
        apart, usual = s.spacing, first.spacing
        same = apart == usual or (
            apart is not None and usual is not None and np.allclose(apart, usual, rtol=1e-3, atol=0)
        )
        if spaced and not same:
            raise DataError(
                f"{s.file}: the PixelSpacing of this slice is {_text(apart)}, and that of {os.path.basename(first.file)} is "
                f"{_text(usual)}: they are not of one volume; take it out of {path}, or give --spacing"
            )
        turn = [abs(a - b) for a, b in zip(s.orientation or (), first.orientation or (), strict=True)]
        if max(turn, default=0.0) > 1e-3:
            raise DataError(
                f"{s.file}: this slice is turned against {os.path.basename(first.file)}; take it out of {path}"
            )


def _turned(chosen: list[Slice], guessed: list[str]) -> list[Slice]:
    """Gives slices with positions but no orientation the plane across the axis of the largest extent."""
    places = [s.position for s in chosen if s.position is not None]
    if chosen[0].orientation is not None or len(places) < len(chosen):
        return chosen
    extent = np.ptp(np.array(places), axis=0)
    if not extent.any():
        return chosen
    axis, name, orientation = _PLANES[int(extent.argmax())]
    guessed.append(
        f"its slices do not say how they are turned (each {chosen[0].flaws[1]}): they are taken as {name}, since their positions "
        f"differ along {axis}"
    )
    return [replace(s, orientation=orientation) for s in chosen]


def _unsaid(s: Slice) -> str:
    return " and ".join(filter(None, s.flaws))


def _text(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _along(s: Slice, normal: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(np.dot(np.array(s.position), normal)) if s.position is not None else 0.0


def _steps(path: str, chosen: Sequence[Slice], guessed: list[str]) -> tuple[list[list[Slice]], Order]:
    """Slices in order along the normal, for each time step, and the order of the steps."""
    first = chosen[0]
    if first.orientation is None or any(s.position is None for s in chosen):
        locations = {s.location for s in chosen}
        if len(locations) == len(chosen) > 1 and None not in locations:
            guessed.append(
                f"its slices do not say where they lie (each {_unsaid(first)}): they stand in the order of SliceLocation"
            )
            return [sorted(chosen, key=lambda s: s.location or 0.0)], Order(None)
        if len(chosen) > 1:
            guessed.append(
                f"its slices do not say where they lie (each {_unsaid(first)}): they stand in the order of their instance numbers"
            )
        return [sorted(chosen, key=lambda s: (s.instance, s.file))], Order(None)
    normal = np.cross(first.orientation[:3], first.orientation[3:])
    places: dict[float, list[Slice]] = {}
    for s in sorted(chosen, key=lambda s: (_along(s, normal), s.instance, s.file)):
        places.setdefault(round(_along(s, normal), 3), []).append(s)
    counts = {len(group) for group in places.values()}
    if len(counts) > 1:
        least, most = min(counts), max(counts)
        odd = next(g for g in places.values() if len(g) == (most if most == 2 and least == 1 else least))
        raise DataError(
            f"{odd[0].file}: at the position of this slice there are {len(odd)} slices, and at others "
            f"{most if len(odd) == least else least}; take what is there twice out of {path}, or copy what is missing"
        )
    (steps,) = counts
    said = [[s.moments for s in group] for group in places.values()]
    key = key_of(said) if steps > 1 else None
    moment = sorter(key, said)
    groups = [sorted(group, key=lambda s: moment(s.moments)) for group in places.values()]
    order = order_of(key, [s.moments for s in groups[0]], moment, first.resolution)
    if steps > 1:
        guessed.append(order.said(steps, "slices"))
    return [[group[n] for group in groups] for n in range(steps)], order


def _geometry(
    path: str, slices: Sequence[Slice], blanks: Sequence[int], options: Options, guessed: list[str]
) -> Geometry:
    first, last = slices[0], slices[-1]
    if first.spacing is None:
        guessed.append("it does not say how large a pixel is: 1 mm")
    down, across = first.spacing or (1.0, 1.0)
    if options.spacing is not None:
        across, down, _ = options.spacing
    if not all(math.isfinite(v) and v > 0 for v in (down, across)):
        raise DataError(
            f"{first.file}: its PixelSpacing is {down:g}, {across:g}, and should be positive; correct it, or give --spacing"
        )
    if first.orientation is None or first.position is None:
        step = _by_location(path, slices, options, guessed) or first.thickness or 1.0
        guessed.append(f"it does not say where it lies (it {_unsaid(first)}): from (0, 0, 0) along x, y and z")
        return from_affine(first.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    i, j = np.array(first.orientation[:3]), np.array(first.orientation[3:])
    normal = np.cross(i, j)
    if len(slices) == 1:
        k = normal * (first.thickness or 1.0)
    else:
        k = (np.array(last.position) - np.array(first.position)) / (len(slices) + sum(blanks) - 1)
        if options.spacing is not None:
            guessed.append("distances between its slices were not compared, since a spacing was given")
    if options.spacing is None:
        _say_aside(slices, blanks, k, min(across, down), guessed)
    return from_affine(
        first.file,
        [(i * across).tolist(), (j * down).tolist(), k.tolist()],
        first.position,
        "PixelSpacing with ImageOrientationPatient",
    )


_ASIDE = 0.1
"""Largest distance of a slice from the line of the others, in pixels, for rounded positions."""


def _say_aside(slices: Sequence[Slice], blanks: Sequence[int], k: Any, pixel: float, guessed: list[str]) -> None:
    """Notes a slice that is off the line from the first one to the last one."""
    start = np.array(slices[0].position)
    places = np.cumsum([0, *(1 + n for n in blanks[:-1])])
    away = [
        float(np.linalg.norm(np.array(s.position) - start - n * k))
        for s, n in zip(slices, places.tolist(), strict=True)
    ]
    worst = int(np.argmax(away))
    if away[worst] > _ASIDE * pixel + 2 * slack(float(np.linalg.norm(k))):
        guessed.append(
            f"{os.path.basename(slices[worst].file)} lies {away[worst]:.4g} mm beside where the first and the last slice would "
            "have it: slices are shown straight above each other"
        )


def _by_location(path: str, slices: Sequence[Slice], options: Options, guessed: list[str]) -> float | None:
    """The spacing of slices from their SliceLocations, if these all differ."""
    places = [s.location for s in slices if s.location is not None]
    if len(slices) < 2 or len(set(places)) < len(slices) or options.spacing is not None:
        return None
    gaps = [b - a for a, b in itertools.pairwise(places)]
    usual = sorted(gaps)[len(gaps) // 2]
    for (before, after), gap in zip(itertools.pairwise(slices), gaps, strict=True):
        if abs(gap - usual) > slack(usual):
            guessed.append(
                f"by SliceLocation {os.path.basename(after.file)} lies {gap:.4g} mm from {os.path.basename(before.file)}, and "
                f"others {usual:.4g} mm apart: they are shown evenly"
            )
            break
    return usual


def _missing(path: str, slices: Sequence[Slice], options: Options, guessed: list[str]) -> list[int]:
    """The number of missing slices after each slice, from their positions.

    Raises:
        DataError: if the positions do not fit an even stack, not even one with missing slices.
    """
    first = slices[0]
    none = [0] * len(slices)
    if first.orientation is None or first.position is None or len(slices) < 2:
        return none
    normal = np.cross(first.orientation[:3], first.orientation[3:])
    gaps = [_along(b, normal) - _along(a, normal) for a, b in itertools.pairwise(slices)]
    usual = sorted(gaps)[len(gaps) // 2]
    counts = [round(gap / usual) for gap in gaps]
    whole = all(n >= 1 and abs(gap - n * usual) <= slack(usual) for n, gap in zip(counts, gaps, strict=True))
    lacking = sum(counts) + 1 - len(slices)
    if whole and 0 < lacking < len(slices) and counts.count(1) > 1:
        is_coloured = first.samples > 1 or (first.palette is not None and options.kind not in NUMBERS)
        shown = "black" if is_coloured else "without values"
        guessed.append(
            f"{missing_slices([s.file for s in slices], counts)}: what lay there is {shown}; --spacing X,Y,Z shows the others as "
            "if nothing lay between them"
        )
        return [*(n - 1 for n in counts), 0]
    for (before, after), gap in zip(itertools.pairwise(slices), gaps, strict=True):
        if abs(gap - usual) > slack(usual):
            raise DataError(
                f"{after.file}: this slice lies {gap:.4g} mm from {os.path.basename(before.file)}, and "
                f"others {usual:.4g} mm apart: slices are missing or were made unevenly; copy all of them into {path}, or "
                "give --spacing X,Y,Z to show them evenly all the same"
            )
    return none


def _volume(
    path: str,
    first: Slice,
    steps: list[list[Slice]],
    blanks: list[int],
    order: Order,
    geometry: Geometry,
    options: Options,
    resources: ReaderResources,
    guessed: list[str],
) -> Volume:
    listed = [s for step in steps for s in step]
    array = array_of(first, len(steps), len(steps[0]) + sum(blanks))
    tables: list[bytes] = []
    reads = [path]
    values = values_of(listed, [s.scale for s in listed], options, guessed)
    why = why_converted(listed, array)
    if any(blanks):
        values, why = with_blanks(values, listed), why or "lacks slices"
    if why is not None or values.meanings is not None:
        convert(path, listed, array, resources, why or "", reads, values=values, blanks=blanks * len(steps))
    else:
        in_place(listed, array, len(steps), tables)
    look = look_shown([s.look for s in steps[0]], "slice", guessed)
    kind, channels = channels_of(listed[0], array, values, look, guessed)
    times = order.times if len(steps) > 1 else []
    return Volume(
        path=path,
        format="DICOM",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit="mm",
        anatomy="LPS" if steps[0][0].orientation is not None and steps[0][0].position is not None else None,
        direction=geometry.direction,
        times=times,
        time_units=order.units if times else "1",
        tables=tables,
        reads=reads,
    )


def _of_many_frames(path: str, only: Slice, options: Options, resources: ReaderResources, guessed: list[str]) -> Volume:
    """The volume of a multi-frame file."""
    found = placed_frames(only, spaced=options.spacing is not None)
    scales = found.scales if len(found.scales) > 1 else found.scales * only.frames
    only = alone(only, found.scales[0], found.units)
    array = array_of(only, 1, only.frames)
    values = values_of(for_each_frame(only), scales, options, guessed)
    tables: list[bytes] = []
    reads = [path]
    file, start = only.file, only.plain_offset
    why = why_converted([only], array)
    if why is not None or values.meanings is not None or start is None:
        convert(path, [only], array, resources, why or "", reads, values=values)
        file, start = reads[-1], 0
    each = array.bytes // only.frames
    inner = array.shape[1:]
    if found.steps > 1:
        array.axes, array.shape = "t" + array.axes, (found.steps, only.count // found.steps, *inner)
    else:
        array.shape = (only.count, *inner)
    if found.order is not None:
        offsets = [start + each * n for n in found.order]
        rows = np.zeros((len(offsets), 3), dtype=np.uint64)
        rows[:, 1], rows[:, 2] = offsets, each
        array.chunk = (*([1] * (1 + (found.steps > 1))), *inner)
        array.place = in_table([file])
        tables.append(table_of(rows))
    else:
        array.place = contiguous(file, start)
    guessed += found.guessed
    geometry = found.geometry
    look = look_shown(found.looks, "frame", guessed)
    kind, channels = channels_of(only, array, values, look, guessed)
    if str(only.header.get("SegmentationType") or "") == "LABELMAP":
        kind = "labels"
    return Volume(
        path=path,
        format="DICOM, many frames",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit="mm",
        anatomy="LPS" if found.placed else None,
        direction=geometry.direction,
        times=found.times,
        time_units=found.time_units,
        tables=tables,
        reads=reads,
    )
