"""Headers of DICOM files: what a slice is, where it lies, and where its pixels begin."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.volume import patterns
from farfield.volume.description import Geometry, from_affine
from farfield.volume.files import head, unreadable
from farfield.volume.listening import heard
from farfield.volume.optional import need

_MOST_FILES = 1 << 17
_TAGS = [
    "SOPClassUID", "SeriesInstanceUID", "SeriesNumber", "SeriesDescription", "Modality", "InstanceNumber",
    "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "ImagerPixelSpacing", "SliceThickness",
    "SpacingBetweenSlices", "Rows", "Columns", "SamplesPerPixel", "BitsAllocated", "BitsStored", "HighBit",
    "PixelRepresentation", "PlanarConfiguration", "PhotometricInterpretation", "RescaleSlope", "RescaleIntercept",
    "ModalityLUTSequence", "RescaleType", "WindowCenter", "WindowWidth", "NumberOfFrames", "TriggerTime",
    "TemporalPositionIdentifier", "ContentTime", "AcquisitionTime", "Units", "GridFrameOffsetVector", "DoseGridScaling",
    "DoseUnits", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence", "PixelPaddingValue",
    "PixelPaddingRangeLimit",
]  # fmt: skip
_LONGEST_ELEMENT = 64 << 20
"""Bytes of an element of a header, at most."""
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_BIG = "1.2.840.10008.1.2.2"
_IMPLICIT = "1.2.840.10008.1.2"
DEFLATED = "1.2.840.10008.1.2.1.99"
_WORDS = (*_PLAIN, DEFLATED, "1.2.840.10008.1.2.5")
"""Transfer syntaxes that keep words as they are; the others keep numbers, and know no bits beside them."""
_IMAGES = ("Enhanced US Volume Storage", "Parametric Map Storage", "Segmentation Storage")
"""Classes of images whose names do not say so."""


@dataclass(frozen=True)
class Slice:
    """One file of a series."""

    file: str
    series: str
    number: int | None
    label: str
    instance: int
    size: tuple[int, int]
    """Rows, columns."""
    frames: int
    samples: int
    planar: bool
    dtype: str
    stored_bits: int
    low_bit: int
    """Bits of a word below the number."""
    photometric: str
    big_endian: bool
    syntax_name: str
    plain_offset: int | None
    """First byte of pixels that are not compressed."""
    orientation: tuple[float, ...] | None
    position: tuple[float, ...] | None
    flaws: tuple[str, str]
    """What is wrong with the position and the orientation where they are None: `has no ImagePositionPatient`."""
    spacing: tuple[float, float] | None
    """Between rows, between columns."""
    thickness: float | None
    scale: tuple[float, float] | None
    window: tuple[float, float] | None
    units: str
    time: float
    """In seconds, of whatever tells steps apart; NaN where nothing does."""
    modality: str
    by_table: bool = False
    """Values come of a table (Modality LUT), not of a slope."""
    padding: tuple[int, int] | None = None
    """The lowest and the highest number that is no pixel of the image (PixelPaddingValue)."""
    header: Any = field(compare=False, repr=False, default=None)
    """Kept for files of many frames only."""

    @property
    def pixel(self) -> str:
        """What a pixel is."""
        return f"{self.samples} x {self.dtype} ({self.photometric})"


def slices_in(path: str) -> list[Slice]:
    """The slices of a folder and of the folders in it, of a pattern's files, or of a file.

    Raises:
        DataError: if there are none, or one is damaged.
    """
    found: list[Slice] = []
    others: list[str] = []
    for file in _named(path):
        if not _is_dicom(file):
            others.append(file)
        elif (s := _slice(file)) is not None:
            found.append(s)
    if not found:
        raise DataError(f"{path}: it holds no DICOM image with pixels; name the folder of the series")
    # A file that lost its beginning is known by its name only.
    of_series = {_numbered(s.file): s.file for s in found}
    for file in others:
        like = of_series.get(_numbered(file))
        if like is not None:
            raise DataError(
                f"{file}: this is no DICOM file, though it is named like {os.path.basename(like)}, which is one: it was cut off, "
                "or has no preamble; copy it again, write it with one (dcmconv), or take it out of the folder"
            )
    return found


def _numbered(file: str) -> str:
    """What the names of a series have in common.

    >>> _numbered("ct/IM-0001-0023"), _numbered("ct/README")
    ('ct/IM-#-#', 'ct/README')
    """
    folder, name = os.path.split(file)
    return os.path.join(folder, re.sub(r"\d+", "#", name))


def _named(path: str) -> Iterable[str]:
    if patterns.is_pattern(path):
        return patterns.files_of(path)
    return [path] if os.path.isfile(path) else _files(path)


def has_slices(path: str) -> bool:
    """Whether a folder holds DICOM files, by a look at some of them."""
    for n, file in enumerate(_files(path)):
        if n >= 40:
            return False
        if head(file, 132)[128:] == b"DICM":
            return True
    return False


def _files(path: str) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(path, onerror=_stop):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(names):
            full = os.path.join(folder, name)
            if not name.startswith(".") and name != "DICOMDIR" and os.path.isfile(full):
                count += 1
                if count > _MOST_FILES:
                    raise DataError(f"{path}: it holds more than {_MOST_FILES:,} files; name the folder of one series")
                yield full


def _stop(error: OSError) -> None:
    raise unreadable(str(error.filename), error)


class _Bounded:
    """A file that never reads more than it holds, whatever length a damaged element has: room is made before the read."""

    short = False
    """Whether more was asked for than was left: the file ends within an element."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self.name = file, size, file.name
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, count: int = -1) -> bytes:
        left = self._size - self._file.tell()
        # Nothing at all is left where the last element ends; less than nothing, where its length led beyond the end.
        self.short = self.short or left < 0 or 0 < left < (count or 0)
        left = max(0, min(left, _LONGEST_ELEMENT))
        return self._file.read(left if count is None or count < 0 else min(count, left))


def _is_dicom(file: str) -> bool:
    """Whether a file begins like one.

    Raises:
        DataError: if it is named like one that it is not.
    """
    if head(file, 132)[128:] == b"DICM":
        return True
    if not file.lower().endswith((".dcm", ".dicom")):
        return False
    raise DataError(
        f"{file}: this is no DICOM file, though its name says so: it was cut off, or has no preamble; copy it again, write it "
        "with one (dcmconv), or take it out of the folder"
    )


def _slice(file: str) -> Slice | None:
    """The slice in a DICOM file; None for what is no image.

    Raises:
        DataError: if it is damaged.
    """
    pydicom = need("pydicom", f"{file}: DICOM files")
    try:
        with heard("pydicom"), open(file, "rb") as whole:
            opened = _Bounded(whole, os.path.getsize(file))
            header = pydicom.dcmread(opened, stop_before_pixels=True, specific_tags=_TAGS)
            at = opened.tell()
            if "Rows" not in header or "Columns" not in header:
                if _was_image(header, short=opened.short):
                    raise DataError(
                        f"{file}: its DICOM header ends before it says how large the image is: it was cut off; copy it again, "
                        "or take it out of the folder"
                    )
                return None
            return _of_header(file, header, opened, at)
    except FarfieldError:
        raise
    except MemoryError:
        raise
    except OSError as error:
        raise unreadable(file, error) from error
    except Exception as error:  # pydicom raises whatever comes of a damaged header
        raise DataError(
            f"{file}: its DICOM header cannot be read ({type(error).__name__}: {str(error)[:160]}); copy it again"
        ) from error


def _was_image(header: Any, *, short: bool) -> bool:
    """Whether a header that has no image is one that lost it; `short`: its file ends within an element."""
    found = header.file_meta.get("MediaStorageSOPClassUID") or header.get("SOPClassUID")
    if not found:
        return True
    name = str(found.name)
    if "Image Storage" in name or name in _IMAGES:
        return True
    # Doses may have no grid, and nobody knows the classes of one's own.
    return short and (name == str(found) or name == "RT Dose Storage")


def _of_header(file: str, header: Any, opened: Any, at: int) -> Slice:
    syntax = header.file_meta.get("TransferSyntaxUID")
    if syntax is None:
        raise DataError(f"{file}: it does not say how it is written (no TransferSyntaxUID); write it again")
    rows, columns = int(header.Rows), int(header.Columns)
    samples = int(header.get("SamplesPerPixel", 1))
    frames = int(header.get("NumberOfFrames") or 1)
    bits = int(header.get("BitsAllocated", 0))
    signed = int(header.get("PixelRepresentation", 0)) == 1
    big = str(syntax) == _BIG
    dtype, offset = "", None
    if min(rows, columns, frames, samples) < 1 or samples > 4:
        raise DataError(
            f"{file}: it has {rows} x {columns} pixels of {samples} samples in {frames} frames; the header is "
            "damaged: copy it again"
        )
    start, length, tag = _pixel_data(file, opened, at, str(syntax), big)
    if start is None and str(syntax) != DEFLATED:
        raise DataError(f"{file}: it holds no pixels; take it out of the folder, or copy it again")
    if tag in (0x0008, 0x0009):
        dtype, bits = ("float32", 32) if tag == 0x0008 else ("float64", 64)
    elif bits in (8, 16, 32):
        dtype = f"{'int' if signed else 'uint'}{bits}"
    else:
        raise DataError(f"{file}: its numbers have {bits} bits, and 8, 16 or 32 are read; convert it first")
    photometric = str(header.get("PhotometricInterpretation", "MONOCHROME2"))
    if start is not None and str(syntax) in _PLAIN and not photometric.startswith("YBR"):
        needed = rows * columns * samples * frames * bits // 8
        size = os.path.getsize(file)
        if (length is not None and length < needed) or start + needed > size:
            raise DataError(
                f"{file}: its {rows} x {columns} pixels need {needed:,} bytes from byte {start:,} on, and there are "
                f"{min(length or needed, size - start):,}: it was cut off; copy it again"
            )
        offset = start
    orientation = _numbers(header.get("ImageOrientationPatient"), 6)
    if orientation is not None:
        _check_orientation(file, orientation)
    spacing = _numbers(header.get("PixelSpacing") or header.get("ImagerPixelSpacing"), 2)
    thickness = _number(header.get("SpacingBetweenSlices")) or _number(header.get("SliceThickness"))
    slope, intercept = _number(header.get("RescaleSlope")), _number(header.get("RescaleIntercept"))
    if slope is None:  # doses have one of their own, and no intercept
        slope, intercept = _number(header.get("DoseGridScaling")), 0.0
    scale = None if slope is None or slope == 0 else (slope, intercept or 0.0)
    modality = str(header.get("Modality", ""))
    return Slice(
        file=file,
        series=str(header.get("SeriesInstanceUID", "")),
        number=_whole(header.get("SeriesNumber")),
        label=str(header.get("SeriesDescription") or modality or "slices"),
        instance=_whole(header.get("InstanceNumber")) or 0,
        size=(rows, columns),
        frames=frames,
        samples=samples,
        planar=samples > 1 and int(header.get("PlanarConfiguration", 0)) == 1,
        dtype=dtype,
        stored_bits=int(header.get("BitsStored", bits)),
        low_bit=_low_bit(file, header, bits, syntax) if dtype[0] != "f" else 0,
        photometric=photometric,
        big_endian=big,
        syntax_name=str(syntax.name),
        plain_offset=offset,
        orientation=orientation,
        position=_numbers(header.get("ImagePositionPatient"), 3),
        flaws=(_flaw(header, "ImagePositionPatient", 3), _flaw(header, "ImageOrientationPatient", 6)),
        spacing=None if spacing is None else (spacing[0], spacing[1]),
        thickness=abs(thickness) if thickness else None,
        scale=scale,
        by_table=scale is None and bool(header.get("ModalityLUTSequence")),
        padding=_padding(header),
        window=_window(header),
        units=_units(header, modality),
        time=_time(header),
        modality=modality,
        header=header if frames > 1 else None,
    )


def _padding(header: Any) -> tuple[int, int] | None:
    """The range of stored numbers that only fill an image."""
    first, last = _whole(header.get("PixelPaddingValue")), _whole(header.get("PixelPaddingRangeLimit"))
    if first is None:
        return None
    return (first, first) if last is None else (min(first, last), max(first, last))


def _low_bit(file: str, header: Any, bits: int, syntax: Any) -> int:
    """Bits of a word below the number."""
    stored = int(header.get("BitsStored") or bits)
    high = _whole(header.get("HighBit"))
    if high is None or high == stored - 1:
        return 0
    if not stored - 1 < high < bits:
        raise DataError(
            f"{file}: its HighBit is {high}, and numbers of {stored} bits (BitsStored) in words of {bits} (BitsAllocated) end at "
            f"bit {stored - 1} at least and {bits - 1} at most; correct it"
        )
    if str(syntax) not in _WORDS:
        raise DataError(
            f"{file}: its HighBit is {high} where BitsStored is {stored}, which pixels that are written as {syntax.name} cannot "
            "have; write it without compression first (dcmdjpeg, or gdcmconv --raw)"
        )
    return high + 1 - stored


def _pixel_data(file: str, opened: Any, at: int, syntax: str, big: bool) -> tuple[int | None, int | None, int]:
    """First byte and length of the pixels, and the element of group 7FE0 that holds them. Reading stopped before it."""
    opened.seek(at)
    raw = opened.read(12)
    order = ">" if big else "<"
    if len(raw) < 8:
        return None, None, 0
    group, element = struct.unpack(order + "HH", raw[:4])
    if group != 0x7FE0 or element not in (0x0008, 0x0009, 0x0010):
        return None, None, 0
    if syntax == _IMPLICIT:
        length = struct.unpack("<I", raw[4:8])[0]
        start = at + 8
    else:
        if len(raw) < 12:
            raise DataError(f"{file}: it ends where its pixels begin: it was cut off; copy it again")
        length = struct.unpack(order + "I", raw[8:12])[0]
        start = at + 12
    return start, None if length == 0xFFFFFFFF else length, element


def _numbers(value: Any, count: int) -> tuple[float, ...] | None:
    try:
        found = tuple(float(v) for v in value)
    except (TypeError, ValueError):  # not there, or text
        return None
    return found if len(found) == count and all(map(math.isfinite, found)) else None


def _flaw(header: Any, tag: str, count: int) -> str:
    """What is wrong with numbers of a header; nothing where they are there."""
    value = header.get(tag)
    if _numbers(value, count) is not None:
        return ""
    text = value if isinstance(value, str) or not np.iterable(value) else "\\".join(map(str, value))
    text = " ".join(str("" if text is None else text).split())
    return f"has '{text[:80]}' as {tag}, which should be {count} numbers" if text else f"has no {tag}"


def _number(value: Any) -> float | None:
    try:
        found = float(value[0] if isinstance(value, list | tuple) or hasattr(value, "append") else value)
    except (TypeError, ValueError, IndexError):  # not there, or text
        return None
    return found if math.isfinite(found) else None


def _whole(value: Any) -> int | None:
    found = _number(value)
    return None if found is None else int(found)


def _check_orientation(file: str, orientation: tuple[float, ...]) -> None:
    i, j = np.array(orientation[:3]), np.array(orientation[3:])
    if abs(np.linalg.norm(i) - 1) > 1e-2 or abs(np.linalg.norm(j) - 1) > 1e-2 or abs(float(i @ j)) > 1e-2:
        raise DataError(
            f"{file}: its ImageOrientationPatient {[round(v, 4) for v in orientation]} is not two directions across "
            "each other; correct it"
        )


def _window(header: Any) -> tuple[float, float] | None:
    """Values shown black and white (PS3.3 C.11.2.1.2, LINEAR)."""
    center, width = _number(header.get("WindowCenter")), _number(header.get("WindowWidth"))
    if center is None or width is None or width < 1:
        return None
    return (center - 0.5 - (width - 1) / 2, center - 0.5 + (width - 1) / 2) if width > 1 else None


def _units(header: Any, modality: str) -> str:
    if modality == "RTDOSE" and "RescaleSlope" not in header:
        # Relative doses are parts of one that nobody says.
        return "Gy" if header.get("DoseUnits") == "GY" and _number(header.get("DoseGridScaling")) else "1"
    said = str(header.get("RescaleType") or header.get("Units") or "").strip()
    if said in ("", "US", "NONE"):
        return "HU" if modality == "CT" and "RescaleSlope" in header else "1"
    return said


def _time(header: Any) -> float:
    trigger = _number(header.get("TriggerTime"))
    if trigger is not None:
        return trigger / 1000
    for key in ("TemporalPositionIdentifier",):
        found = _number(header.get(key))
        if found is not None:
            return found
    text = str(header.get("AcquisitionTime") or header.get("ContentTime") or "")
    try:
        return int(text[:2]) * 3600 + int(text[2:4]) * 60 + float(text[4:] or 0)
    except ValueError:  # not there, or of a form of its own
        return math.nan


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
    said = [item.get("PixelValueTransformationSequence") for item in groups if item is not None]
    kind = next((str(s[0].get("RescaleType") or "").strip() for s in said if s), "")
    if any(scales):
        found.units = "HU" if kind in ("", "HU", "US") and only.modality == "CT" else (kind or None)
        found.units = None if found.units in ("US", "NONE") else found.units
    return found


def _rescale(item: Any) -> tuple[float, float] | None:
    """Slope and intercept in a group."""
    found = item.get("PixelValueTransformationSequence") if item is not None else None
    slope = _number(found[0].get("RescaleSlope")) if found else None
    return None if not found or not slope else (slope, _number(found[0].get("RescaleIntercept")) or 0.0)


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
    _check_orientation(only.file, orientation)
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
    return _numbers(found[0].get(tag), count) if found else None
