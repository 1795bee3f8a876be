"""DICOM series: a folder of slices, or a file of many frames. pydicom reads the headers; pixels are paged where they lie.

Positions are the patient's (PS3.3 C.7.6.2): +x left, +y back, +z up, in millimetres. Slices stand in the order of their
positions along the normal of the first one's plane.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farfield.errors import DataError, FarfieldError, UnknownName
from farfield.volume.conversion import converted
from farfield.volume.description import (
    Array,
    Channel,
    Geometry,
    Level,
    Volume,
    colour_channels,
    contiguous,
    from_affine,
    in_table,
    planes,
    table_of,
)
from farfield.volume.dicom_files import DEFLATED, Slice, frames_of, slices_in
from farfield.volume.dicom_order import settled, slack
from farfield.volume.listening import heard
from farfield.volume.optional import need
from farfield.volume.options import Means, Options

Scale = tuple[float, float] | None
"""Rescale slope and intercept."""
_PLANES = (
    ("x", "sagittal", (0.0, 1.0, 0.0, 0.0, 0.0, -1.0)),
    ("y", "coronal", (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)),
    ("z", "axial", (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)),
)
"""What slices are that follow each other along an axis, and their orientation."""


def read(path: str, options: Options, means: Means) -> Volume:
    """The volume of a series in a folder, or of a file; `options.variable` names a series by its number or UID.

    Raises:
        DataError: if slices do not go together, or a header is damaged.
        UnknownName: if there is no such series.
        UsageError: if pydicom is not installed.
    """
    need("pydicom", f"{path}: DICOM files")
    guessed: list[str] = []
    found = slices_in(path)
    chosen = _series(path, found, options, guessed)
    if len(chosen) == 1 and chosen[0].frames > 1:
        return _of_frames(path, chosen[0], means, guessed)
    many = next((s for s in chosen if s.frames > 1), None)
    if many is not None:
        raise DataError(
            f"{many.file}: this file of the series holds {many.frames} frames, and others one; open it by itself"
        )
    chosen = settled(path, chosen, guessed, spaced=options.spacing is not None)
    _alike(path, chosen, spaced=options.spacing is None)
    steps = _steps(path, _turned(chosen, guessed), guessed)
    geometry = _geometry(path, steps[0], options, guessed)
    return _volume(path, chosen[0], steps, geometry, means, guessed)


def _series(path: str, found: list[Slice], options: Options, guessed: list[str]) -> list[Slice]:
    by_uid: dict[str, list[Slice]] = {}
    for s in found:
        by_uid.setdefault(s.series, []).append(s)
    ordered = sorted(by_uid.values(), key=lambda s: (s[0].number if s[0].number is not None else 1 << 30, s[0].series))
    names = [
        f"{s[0].number if s[0].number is not None else s[0].series} ({s[0].label}, {len(s)} files)" for s in ordered
    ]
    if options.variable is not None:
        wanted = options.variable
        chosen = [s for s in ordered if wanted in (str(s[0].number), s[0].series)]
        if not chosen:
            raise UnknownName(f"{path}: no series '{wanted}'; there are: {', '.join(names)}")
        return chosen[0]
    best = max(ordered, key=lambda s: sum(x.frames for x in s))
    if len(ordered) > 1:
        guessed.append(f"of its series {', '.join(names[:6])} the largest is shown; {path}::NUMBER shows another")
    return best


def _alike(path: str, chosen: Sequence[Slice], *, spaced: bool) -> None:
    """Refuses slices that are not of one volume; `spaced`: nobody has said how far their pixels are apart."""
    first = chosen[0]
    for s in chosen[1:]:
        for what, mine, other in (
            ("size", s.size, first.size),
            ("pixels", s.pixel, first.pixel),
            ("transfer syntax", s.syntax_name, first.syntax_name),
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
    """Slices that have positions and no orientation, turned across the axis along which their positions differ most."""
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


def _steps(path: str, chosen: Sequence[Slice], guessed: list[str]) -> list[list[Slice]]:
    """Slices in order along the normal, for each time step."""
    first = chosen[0]
    if first.orientation is None or any(s.position is None for s in chosen):
        if len(chosen) > 1:
            guessed.append(
                f"its slices do not say where they lie (each {_unsaid(first)}): they stand in the order of their instance numbers"
            )
        return [sorted(chosen, key=lambda s: (s.instance, s.file))]
    normal = np.cross(first.orientation[:3], first.orientation[3:])
    places: dict[float, list[Slice]] = {}
    for s in sorted(chosen, key=lambda s: (_along(s, normal), s.time, s.instance, s.file)):
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
    if steps > 1:
        guessed.append(
            f"each position has {steps} slices: they are taken as time steps, in the order of their times and numbers"
        )
    return [[group[n] for group in places.values()] for n in range(steps)]


def _geometry(path: str, slices: Sequence[Slice], options: Options, guessed: list[str]) -> Geometry:
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
        step = first.thickness or 1.0
        guessed.append(f"it does not say where it lies (it {_unsaid(first)}): from (0, 0, 0) along x, y and z")
        return from_affine(first.file, np.diag([across, down, step]).tolist(), (0.0, 0.0, 0.0), "PixelSpacing")
    i, j = np.array(first.orientation[:3]), np.array(first.orientation[3:])
    normal = np.cross(i, j)
    if len(slices) == 1:
        k = normal * (first.thickness or 1.0)
    else:
        k = (np.array(last.position) - np.array(first.position)) / (len(slices) - 1)
        if options.spacing is None:
            _check_even(path, slices, normal)
        else:
            guessed.append("distances between its slices were not compared, since a spacing was given")
    return from_affine(
        first.file,
        [(i * across).tolist(), (j * down).tolist(), k.tolist()],
        first.position,
        "PixelSpacing with ImageOrientationPatient",
    )


def _check_even(path: str, slices: Sequence[Slice], normal: Any) -> None:
    gaps = [_along(b, normal) - _along(a, normal) for a, b in itertools.pairwise(slices)]
    usual = sorted(gaps)[len(gaps) // 2]
    for (before, after), gap in zip(itertools.pairwise(slices), gaps, strict=True):
        if abs(gap - usual) > slack(usual):
            raise DataError(
                f"{after.file}: this slice lies {gap:.4g} mm from {os.path.basename(before.file)}, and others "
                f"{usual:.4g} mm apart: slices are missing or were made unevenly; copy all of them into {path}, or "
                "give --spacing X,Y,Z to show them evenly all the same"
            )


def _volume(
    path: str, first: Slice, steps: list[list[Slice]], geometry: Geometry, means: Means, guessed: list[str]
) -> Volume:
    listed = [s for step in steps for s in step]
    array = _array(first, len(steps), len(steps[0]))
    tables: list[bytes] = []
    reads = [path]
    scales = {s.scale for s in listed}
    if len(scales) > 1:
        why = "has a rescale slope of its own in each slice"
        _convert(path, listed, array, means, why, reads, scales=[s.scale for s in listed])
        guessed.append("its slices have different rescale slopes: values were computed slice by slice")
    elif listed[0].plain_offset is None:
        _convert(path, listed, array, means, f"is compressed ({first.syntax_name})", reads)
    elif any(s.low_bit for s in listed):
        _convert(path, listed, array, means, "has numbers with other bits below them", reads)
    elif _spills(first, listed[len(listed) // 2], array):
        _convert(path, listed, array, means, "has numbers with other bits beside them", reads)
    else:
        _in_place(listed, array, len(steps), tables)
    kind, channels = _channels(first, array, scaled=len(scales) > 1, guessed=guessed)
    times = [s[0].time for s in steps] if len(steps) > 1 and all(math.isfinite(s[0].time) for s in steps) else []
    if len(set(times)) != len(times):
        times = []
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
        time_units="s" if times else "1",
        tables=tables,
        reads=reads,
    )


def _array(first: Slice, steps: int, slices: int) -> Array:
    rows, columns = first.size
    inner: tuple[int, ...] = (rows, columns)
    axes = "zyx"
    if first.samples > 1:
        inner = (first.samples, rows, columns) if first.planar else (rows, columns, first.samples)
        axes = "zcyx" if first.planar else "zyxc"
    shape: tuple[int, ...] = (slices, *inner)
    if steps > 1:
        shape, axes = (steps, *shape), "t" + axes
    array = Array(first.label or "slices", first.dtype, shape, axes, {}, list(range(first.samples)))
    array.big_endian = first.big_endian and array.item > 1
    return array


def _in_place(listed: Sequence[Slice], array: Array, steps: int, tables: list[bytes]) -> None:
    files = [s.file for s in listed]
    offsets = [s.plain_offset or 0 for s in listed]
    if steps == 1:
        array.place = planes(files, offsets)
        return
    each = array.bytes // len(listed)
    rows = np.zeros((len(listed), 3), dtype=np.uint64)
    rows[:, 0], rows[:, 1], rows[:, 2] = np.arange(len(listed)), offsets, each
    array.chunk = (1, 1, *array.shape[2:])
    array.place = in_table(files)
    tables.append(table_of(rows))


def _spills(first: Slice, middle: Slice, array: Array) -> bool:
    """Whether bits that are no part of the numbers hold something: overlays of old, or signs that were not carried on."""
    if first.stored_bits >= array.item * 8 or array.dtype.startswith("float") or middle.plain_offset is None:
        return False
    count = math.prod(first.size) * first.samples
    dtype = np.dtype(array.dtype).newbyteorder(">" if array.big_endian else "<")
    values = np.fromfile(middle.file, dtype, count, offset=middle.plain_offset)
    low, high = (
        (-(1 << (first.stored_bits - 1)), 1 << (first.stored_bits - 1))
        if array.dtype.startswith("int")
        else (0, 1 << first.stored_bits)
    )
    return bool(len(values)) and (int(values.min()) < low or int(values.max()) >= high)


def _convert(
    path: str,
    listed: Sequence[Slice],
    array: Array,
    means: Means,
    why: str,
    reads: list[str],
    *,
    scales: Sequence[Scale] | None = None,
) -> None:
    """Decodes slices one after the other into the cache; with `scales`, one a slice or frame, their values."""
    if scales is not None:
        array.dtype = "float32"
    array.big_endian = False
    if array.axes.endswith("cyx"):  # pydicom gives colours with the component last
        c, y, x = array.shape[-3:]
        array.axes, array.shape = array.axes.replace("cyx", "yxc"), (*array.shape[:-3], y, x, c)
    made = converted(
        path,
        means,
        count=array.bytes,
        why=why,
        how=f"slices of {listed[0].series} as {array.dtype}"
        + (" of groups" if scales is not None and len(listed) == 1 else "")
        + (" above other bits" if any(s.low_bit for s in listed) else ""),
        pieces=lambda: _pixels(listed, array, scales),
        files=[s.file for s in listed],
        at_once=array.bytes // max(1, math.prod(array.shape[: array.axes.index("y")])),
    )
    array.place = contiguous(made.path, 0)
    reads.append(made.path)


def _pixels(listed: Sequence[Slice], array: Array, scales: Sequence[Scale] | None) -> Iterator[bytes]:
    pydicom = need("pydicom", "DICOM files")
    pixels = need("pydicom.pixels", "DICOM files")

    each = iter(scales or ())
    for s in listed:
        try:
            for frame in _frames(pixels, s):
                values = np.asarray(frame)
                if s.low_bit:
                    unused = values.dtype.itemsize * 8 - s.stored_bits
                    values = values << (unused - s.low_bit) >> unused  # the sign goes with the highest bit
                if scales is not None:
                    slope, intercept = next(each, None) or (1.0, 0.0)
                    values = values * np.float32(slope) + np.float32(intercept)
                yield np.ascontiguousarray(values, dtype=np.dtype(array.dtype).newbyteorder("<")).tobytes()
        except FarfieldError:
            raise
        except MemoryError:
            raise
        except Exception as error:  # decoders raise whatever they like
            raise DataError(
                f"{s.file}: its pixels are written as {s.syntax_name}, which pydicom {pydicom.__version__} does not decode here "
                f"({' '.join(str(error).split())[:160]}); pip install "
                "pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg may bring it, or write it without compression "
                "first (dcmdjpeg, or gdcmconv --raw)"
            ) from error


def _frames(pixels: Any, s: Slice) -> Iterator[Any]:
    """Frames of a file, without what pydicom prints of decoders that it tries."""
    # pydicom takes the lowest bits of a word for the number, whatever HighBit says.
    how = {"correct_unused_bits": False} if s.low_bit else {}
    with heard("pydicom"):
        try:
            yield from pixels.iter_pixels(s.file, **how)
        except AttributeError:
            # Of a file that is deflated as a whole pydicom finds no pixels on its way: it is read whole.
            whole = need("pydicom", "DICOM files").dcmread(s.file)
            if str(whole.file_meta.TransferSyntaxUID) != DEFLATED:
                raise
            yield from pixels.iter_pixels(whole, **how)


def _channels(first: Slice, array: Array, *, scaled: bool, guessed: list[str]) -> tuple[str, list[Channel]]:
    if first.samples in (3, 4):
        return colour_channels(first.samples)
    if first.photometric == "MONOCHROME1":
        guessed.append("its low values are shown white (MONOCHROME1); --no-invert shows them black")
    if first.photometric.startswith("PALETTE"):
        guessed.append("its values are numbers of colours in a palette, which is not read")
    if first.modality == "RTDOSE" and first.scale is None and not scaled:
        guessed.append("its DoseGridScaling is missing or 0: its values are those that are stored, of no unit")
    if first.by_table:
        guessed.append(
            "its values come of a table (ModalityLUTSequence), which is not read: they are the numbers that are stored"
        )
    if first.padding is not None:
        low, high = first.padding
        guessed.append(
            f"its numbers {low} to {high} only fill it up (PixelPaddingRangeLimit): they are shown as they are"
            if low < high
            else f"its number {low} only fills it up (PixelPaddingValue): it is shown as it is"
            + ("" if scaled else f"; --missing {low} leaves it out")
        )
    scale = None if scaled else first.scale
    inverted = first.photometric == "MONOCHROME1"
    return "scalar", [Channel(array.name, first.units, limits=first.window, scale=scale, inverted=inverted)]


def _of_frames(path: str, only: Slice, means: Means, guessed: list[str]) -> Volume:
    """A file of many frames."""
    found = frames_of(only)
    if found.steps > 1:
        guessed.append(f"each position has {found.steps} frames: they are taken as time steps")
    own_scales = len(found.scales) > 1
    only = replace(only, scale=found.scales[0], units=found.units or only.units)
    array = _array(only, found.steps, only.frames // found.steps)
    tables: list[bytes] = []
    reads = [path]
    file, start = only.file, only.plain_offset
    if own_scales or start is None or only.low_bit:
        why = (
            "has a rescale slope of its own in each frame"
            if own_scales
            else f"is compressed ({only.syntax_name})"
            if start is None
            else "has numbers with other bits below them"
        )
        _convert(path, [only], array, means, why, reads, scales=found.scales if own_scales else None)
        file, start = reads[-1], 0
    if found.order is not None:
        each = array.bytes // only.frames
        offsets = [start + each * n for n in found.order]
        rows = np.zeros((len(offsets), 3), dtype=np.uint64)
        rows[:, 1], rows[:, 2] = offsets, each
        array.chunk = (*([1] * (1 + (found.steps > 1))), *array.shape[1 + (found.steps > 1) :])
        array.place = in_table([file])
        tables.append(table_of(rows))
    else:
        array.place = contiguous(file, start)
    if own_scales:
        guessed.append("its frames have different rescale slopes: values were computed frame by frame")
    guessed += found.guessed
    geometry = found.geometry
    kind, channels = _channels(only, array, scaled=own_scales, guessed=guessed)
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
        tables=tables,
        reads=reads,
    )
