"""Headers of DICOM files: description of a slice, its position, and the place of its pixels."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.runtime.optional_libraries import need
from farfield.runtime.progress import Report
from farfield.sources import places
from farfield.volume.formats import concurrent_headers, patterns
from farfield.volume.formats.dicom import acquisition as dicom_times
from farfield.volume.formats.dicom.appearance import Look, look_of
from farfield.volume.formats.dicom.elements import number_of, numbers_of, values_in, whole
from farfield.volume.formats.dicom.lookup_tables import modality_table_of, padding_of, palette_of
from farfield.volume.formats.dicom.mosaic_header import Mosaic, mosaic_of
from farfield.volume.formats.dicom.pixel_sizes import spacing_of
from farfield.volume.formats.dicom.without_preamble import is_dicom_start
from farfield.volume.formats.files import head, unreadable
from farfield.volume.formats.library_logs import quiet

_MOST_FILES = 1 << 17
_LOOKS = 40
"""Number of files that are examined to recognise a folder."""
_BEGINNING = 4096
"""Number of bytes that identify a file."""
_TAGS: list[str | tuple[int, int]] = [
    "SOPClassUID", "SeriesInstanceUID", "SeriesNumber", "SeriesDescription", "Modality", "InstanceNumber",
    "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "ImagerPixelSpacing", "SliceThickness",
    "SpacingBetweenSlices", "Rows", "Columns", "SamplesPerPixel", "BitsAllocated", "BitsStored", "HighBit",
    "PixelRepresentation", "PlanarConfiguration", "PhotometricInterpretation", "RescaleSlope", "RescaleIntercept",
    "ModalityLUTSequence", "RescaleType", "WindowCenter", "WindowWidth", "NumberOfFrames", "Units", "GridFrameOffsetVector",
    "DoseGridScaling",
    "DoseUnits", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence", "PixelPaddingValue",
    "PixelPaddingRangeLimit", "SOPInstanceUID", "ImageType", "SliceLocation", "VOILUTFunction", "AcquisitionMatrix",
    "RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor", "BluePaletteColorLookupTableDescriptor",
    "RedPaletteColorLookupTableData", "GreenPaletteColorLookupTableData", "BluePaletteColorLookupTableData",
    "SegmentedRedPaletteColorLookupTableData", "SegmentedGreenPaletteColorLookupTableData",
    "SegmentedBluePaletteColorLookupTableData", "TotalPixelMatrixRows", "TotalPixelMatrixColumns", "TotalPixelMatrixFocalPlanes",
    "NumberOfOpticalPaths", "OpticalPathSequence", "DimensionOrganizationType", "VOILUTSequence", "PresentationLUTShape",
    "FloatPixelPaddingValue", "FloatPixelPaddingRangeLimit", "DoubleFloatPixelPaddingValue", "DoubleFloatPixelPaddingRangeLimit",
    "NominalScannedPixelSpacing", "PixelAspectRatio", "SequenceOfUltrasoundRegions", "FrameTime", "FrameTimeVector",
    "FrameIncrementPointer", "DetectorInformationSequence", "SliceVector", "RealWorldValueMappingSequence",
    "SegmentSequence", "SegmentationType", *dicom_times.TAGS, (0x0019, 0x100A), (0x0029, 0x1010),
]  # fmt: skip
_LONGEST_ELEMENT = 64 << 20
"""Largest size in bytes of an element of a header."""
_DIRECTORY = "1.2.840.10008.1.3.10"
"""SOP class of a DICOMDIR, an index of the files of a medium."""
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_BIG = "1.2.840.10008.1.2.2"
_IMPLICIT = "1.2.840.10008.1.2"
DEFLATED = "1.2.840.10008.1.2.1.99"
_WORDS = (*_PLAIN, DEFLATED, "1.2.840.10008.1.2.5")
"""Transfer syntaxes that keep words unchanged; others keep only numbers, without extra bits."""
_UNREAD = ("ARGB", "CMYK", "HSV")
"""Retired colour models that are not red, green and blue."""
_IMAGES = ("Enhanced US Volume Storage", "Parametric Map Storage", "Segmentation Storage")
"""Classes of images that are not named after images."""


@dataclass(frozen=True)
class Slice:
    """A file of a series."""

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
    """Number of bits below the number in a word."""
    photometric: str
    big_endian: bool
    syntax_name: str
    plain_offset: int | None
    """Offset of the first byte of uncompressed pixels; None for compressed ones."""
    bits: int
    """Stored bits per pixel: 1 for eight pixels per byte."""
    orientation: tuple[float, ...] | None
    position: tuple[float, ...] | None
    flaws: tuple[str, str]
    """Reasons for a missing position and orientation: `has no ImagePositionPatient`."""
    spacing: tuple[float, float] | None
    """Distance between rows, and between columns, in millimetres."""
    thickness: float | None
    scale: tuple[float, float] | None
    look: Look
    """Window and inversion."""
    units: str
    modality: str
    moments: dict[str, float] = field(default_factory=dict, compare=False)
    """Values that distinguish it from others at its position, by element."""
    resolution: float | None = None
    """Seconds between counted time steps."""
    table: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """The first stored number of a modality table, and the values from it on."""
    table_units: str = "1"
    palette: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """The first stored number of a palette, and the colours from it on."""
    padding: tuple[float, float] | None = None
    """The lowest and highest number that is only padding (PixelPaddingValue)."""
    uid: str = ""
    location: float | None = None
    """Position along an unspecified axis (SliceLocation)."""
    mosaic: Mosaic | None = None
    assumed: tuple[str, ...] = ()
    """Assumptions about its encoding."""
    unapplied: str = ""
    """A real-world value mapping that is not applied."""
    kinds: tuple[str, ...] = ()
    """Words of its ImageType."""
    whole: tuple[int, int] = (0, 0)
    """Rows and columns of the whole picture, if the frames are its tiles."""
    kept: tuple[int, ...] | None = field(compare=False, default=None)
    """Numbers of its selected frames; None for all."""
    header: Any = field(compare=False, repr=False, default=None)
    """The header, for multi-frame files only."""

    @property
    def count(self) -> int:
        """Number of selected frames."""
        return self.frames if self.kept is None else len(self.kept)

    @property
    def pixel(self) -> str:
        """Kind of a pixel, as text."""
        return f"{self.samples} x {self.dtype} ({self.photometric})"


def slices_in(path: str, progress: Report | None = None) -> list[Slice]:
    """The slices of a folder and its subfolders, of a pattern's files, or of a file; for a DICOMDIR, of its folder.

    Raises:
        DataError: if there are none, or if one is damaged.
        Interrupted: if the report function returns False.
    """
    found: list[Slice] = []
    others: list[str] = []
    with quiet("pydicom"):
        files = list(_named(path))
        for file, read in zip(files, concurrent_headers.each(files, _read, progress), strict=True):
            if isinstance(read, Slice):
                found.append(read)
            elif read is None:
                others.append(file)
            elif read == _DIRECTORY and files == [path]:
                return slices_in(os.path.dirname(path) or ".", progress)
    if not found:
        raise DataError(f"{path}: it holds no DICOM image with pixels; name the folder of the series")
    # Only its name identifies a file without its beginning.
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
    """A file's name without numbers, which a series shares.

    >>> _numbered("ct/IM-0001-0023"), _numbered("ct/README")
    ('ct/IM-#-#', 'ct/README')
    """
    folder, name = os.path.split(file)
    return os.path.join(folder, re.sub(r"\d+", "#", name))


def _named(path: str) -> Iterable[str]:
    if patterns.is_pattern(path):
        return patterns.files_of(path)
    return [path] if places.isfile(path) else _files(path)


def has_slices(path: str) -> bool:
    """Whether a folder contains DICOM files, by a sample."""
    for n, file in enumerate(_files(path)):
        if n >= _LOOKS:
            return False
        if is_dicom_start(head(file, _BEGINNING)):
            return True
    return False


def outnumber(path: str, pictures: Sequence[str]) -> bool:
    """Whether a folder has more DICOM files than pictures, which then only accompany a series. A sample of the other
    files decides."""
    suffixes = {os.path.splitext(name)[1].lower() for name in pictures}
    count = looked = 0
    for folder, folders, names in places.walk(path):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or os.path.splitext(name)[1].lower() in suffixes:
                continue
            full = os.path.join(folder, name)
            looked += 1
            count += places.isfile(full) and is_dicom_start(head(full, _BEGINNING))
            if count > len(pictures) or looked >= max(_LOOKS, 2 * len(pictures)):
                return count > len(pictures)
    return False


def _files(path: str) -> Iterator[str]:
    count = 0
    for folder, folders, names in places.walk(path, onerror=_stop):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(names):
            full = os.path.join(folder, name)
            if not name.startswith(".") and name != "DICOMDIR" and places.isfile(full):
                count += 1
                if count > _MOST_FILES:
                    raise DataError(f"{path}: it holds more than {_MOST_FILES:,} files; name the folder of one series")
                yield full


def _stop(error: OSError) -> None:
    raise unreadable(str(error.filename), error)


class _Bounded:
    """A file that never reads beyond its end, whatever the length of a damaged element: pydicom allocates before it
    reads."""

    short = False
    """Whether a read went beyond the end: the file ends within an element."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self.name = file, size, file.name
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, count: int = -1) -> bytes:
        left = self._size - self._file.tell()
        # After the last element nothing is left; less than nothing if its length exceeds the file.
        self.short = self.short or left < 0 or 0 < left < (count or 0)
        left = max(0, min(left, _LONGEST_ELEMENT))
        return self._file.read(left if count is None or count < 0 else min(count, left))


def _read(file: str) -> Slice | str | None:
    """The slice in a file, which is opened once; a word for DICOM without an image, None for other files.

    Raises:
        DataError: if it is damaged, or only named like a DICOM file.
    """
    pydicom = need("pydicom", f"{file}: DICOM files")
    try:
        with places.open_binary(file) as all_of_it:
            if not is_dicom_start(all_of_it.read(_BEGINNING)):
                if not file.lower().endswith((".dcm", ".dicom")):
                    return None
                raise DataError(
                    f"{file}: this is no DICOM file, though its name says so: it was cut off, or has no preamble; copy it again, "
                    "write it with one (dcmconv), or take it out of the folder"
                )
            all_of_it.seek(0)
            opened = _Bounded(all_of_it, places.getsize(file))
            header = pydicom.dcmread(opened, stop_before_pixels=True, specific_tags=_TAGS, force=True)
            at = opened.tell()
            if "Rows" in header and "Columns" in header:
                return _of_header(file, header, opened, at)
            kind = getattr(header, "file_meta", {}).get("MediaStorageSOPClassUID")
            if kind == _DIRECTORY:
                return _DIRECTORY
            if _was_image(header, short=opened.short):
                raise DataError(
                    f"{file}: its DICOM header ends before it says how large the image is: it was cut off; copy it again, "
                    "or take it out of the folder"
                )
            return ""
    except FarfieldError:
        raise
    except MemoryError:
        raise
    except OSError as error:
        raise unreadable(file, error) from error
    except Exception as error:  # pydicom raises any exception for a damaged header
        raise DataError(
            f"{file}: its DICOM header cannot be read ({type(error).__name__}: {str(error)[:160]}); copy it again"
        ) from error


def _was_image(header: Any, *, short: bool) -> bool:
    """Whether a header without an image has lost one; `short`: its file ends within an element."""
    found = getattr(header, "file_meta", {}).get("MediaStorageSOPClassUID") or header.get("SOPClassUID")
    if not found:
        return True
    name = str(found.name)
    if "Image Storage" in name or name in _IMAGES:
        return True
    # Doses may lack a grid, and private classes are unknown.
    return short and (name == str(found) or name == "RT Dose Storage")


def _of_header(file: str, header: Any, opened: Any, at: int) -> Slice:
    syntax, assumed = _syntax(file, header)
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
    start, length, tag, paired = _pixel_data(file, opened, at, str(syntax), big)
    if start is None and str(syntax) != DEFLATED:
        raise DataError(f"{file}: it holds no pixels; take it out of the folder, or copy it again")
    if tag in (0x0008, 0x0009):
        dtype, bits = ("float32", 32) if tag == 0x0008 else ("float64", 64)
    elif bits == 1 and samples == 1:
        dtype = "uint8"
    elif bits in (8, 16, 32):
        dtype = f"{'int' if signed else 'uint'}{bits}"
    else:
        raise DataError(f"{file}: its numbers have {bits} bits, and 1, 8, 16 or 32 are read; convert it first")
    photometric = str(header.get("PhotometricInterpretation", "MONOCHROME2"))
    if photometric in _UNREAD:
        raise DataError(f"{file}: its colours are {photometric}, which are not read; write it as RGB first")
    if start is not None and str(syntax) in _PLAIN and not photometric.startswith("YBR"):
        needed = -(-rows * columns * samples * frames * bits // 8)
        size = places.getsize(file)
        if (length is not None and length < needed) or start + needed > size:
            raise DataError(
                f"{file}: its {rows} x {columns} pixels need {needed:,} bytes from byte {start:,} on, and there are "
                f"{min(length or needed, size - start):,}: it was cut off; copy it again"
            )
        offset = None if paired and bits <= 8 else start
    orientation = numbers_of(header.get("ImageOrientationPatient"), 6)
    if orientation is not None:
        check_orientation(file, orientation)
    spacing, measured = spacing_of(header)
    thickness = number_of(header.get("SpacingBetweenSlices")) or number_of(header.get("SliceThickness"))
    processing = need("pydicom.pixels.processing", f"{file}: DICOM files")
    is_palette = photometric.startswith("PALETTE") and samples == 1
    scale, said = _scale(header)
    modality = str(header.get("Modality", ""))
    return Slice(
        file=file,
        series=str(header.get("SeriesInstanceUID", "")),
        number=whole(header.get("SeriesNumber")),
        label=str(header.get("SeriesDescription") or modality or "slices"),
        instance=whole(header.get("InstanceNumber")) or 0,
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
        bits=bits,
        orientation=orientation,
        position=numbers_of(header.get("ImagePositionPatient"), 3),
        flaws=(_flaw(header, "ImagePositionPatient", 3), _flaw(header, "ImageOrientationPatient", 6)),
        spacing=spacing,
        thickness=abs(thickness) if thickness else None,
        scale=scale,
        table=_table(file, "values (ModalityLUTSequence)", modality_table_of, header) if scale is None else None,
        table_units=_table_units(header),
        palette=_table(file, "colours (palette)", palette_of, header, processing) if is_palette else None,
        padding=padding_of(*_padding(header, dtype), dtype) if photometric.startswith("MONOCHROME") else None,
        uid=str(header.get("SOPInstanceUID") or ""),
        location=number_of(header.get("SliceLocation")),
        mosaic=mosaic_of(header, (rows, columns)) if frames == 1 and samples == 1 else None,
        assumed=tuple(filter(None, (assumed, measured, said))),
        unapplied=_unapplied(header, scale),
        kinds=tuple(str(word).upper() for word in values_in(header.get("ImageType"))),
        whole=(whole(header.get("TotalPixelMatrixRows")) or 0, whole(header.get("TotalPixelMatrixColumns")) or 0),
        look=look_of(header),
        units=_units(header, modality),
        moments=dicom_times.moments_of(header),
        resolution=(number_of(header.get("TemporalResolution")) or 0.0) / 1000 or None,
        modality=modality,
        header=header if frames > 1 or "TotalPixelMatrixColumns" in header or "SegmentSequence" in header else None,
    )


def _scale(header: Any) -> tuple[tuple[float, float] | None, str]:
    """Slope and intercept, and a note if one of them is invalid."""
    slope, intercept = number_of(header.get("RescaleSlope")), number_of(header.get("RescaleIntercept"))
    if slope is None and intercept and not header.get("ModalityLUTSequence"):
        return (1.0, intercept), f"it has a RescaleIntercept, {intercept:g}, and no RescaleSlope: that is taken as 1"
    if slope is None:  # doses have their own scale, without an intercept
        slope, intercept = number_of(header.get("DoseGridScaling")), 0.0
    elif slope == 0:
        return None, "its RescaleSlope is 0, which would leave nothing: its values are the stored numbers"
    return (None if not slope else (slope, intercept or 0.0)), ""


def _unapplied(header: Any, scale: tuple[float, float] | None) -> str:
    """The header's real-world values (PS3.3 C.7.6.16.2.11), if they differ from the displayed ones."""
    found = header.get("RealWorldValueMappingSequence")
    slope, intercept = (
        number_of(found[0].get(f"RealWorldValue{tag}")) if found else None for tag in ("Slope", "Intercept")
    )
    if slope is None or (slope, intercept or 0.0) == (scale or (1.0, 0.0)):
        return ""
    unit = found[0].get("MeasurementUnitsCodeSequence")
    named = f" [{unit[0].get('CodeValue')}]" if unit and unit[0].get("CodeValue") else ""
    return (
        f"its RealWorldValueMappingSequence gives another meaning of its stored numbers, {slope:g} times them "
        f"{'-' if (intercept or 0) < 0 else '+'} {abs(intercept or 0):g}{named}: it is not applied"
    )


def _padding(header: Any, dtype: str) -> tuple[float | None, float | None]:
    kind = {"float32": "Float", "float64": "DoubleFloat"}.get(dtype, "")
    low, limit = (header.get(f"{kind}PixelPadding{tag}") for tag in ("Value", "RangeLimit"))
    return (number_of(low), number_of(limit)) if kind else (whole(low), whole(limit))


def _syntax(file: str, header: Any) -> tuple[Any, str]:
    """The transfer syntax of a file; without one, a guess from its elements and a note about it."""
    syntax = header.file_meta.get("TransferSyntaxUID") if getattr(header, "file_meta", None) is not None else None
    if syntax is not None:
        return syntax, ""
    uid = need("pydicom.uid", f"{file}: DICOM files")
    implicit, little = getattr(header, "original_encoding", (None, None))
    if implicit is None or little is None:
        raise DataError(f"{file}: it does not say how it is written (no TransferSyntaxUID); write it again")
    found = uid.UID(_IMPLICIT if implicit else _PLAIN[1] if little else _BIG)
    return found, f"its files do not say how they are written: they are taken as {found.name}, as their elements look"


def _table(file: str, what: str, read: Callable[..., Any], *given: Any) -> Any:
    """Reads a table of a header, with an error that names the table."""
    try:
        return read(*given)
    except MemoryError:
        raise
    except Exception as error:  # pydicom raises any exception for damaged segments
        said = " ".join(str(error).split())[:160] or type(error).__name__
        raise DataError(
            f"{file}: its table of {what} cannot be read ({said}); write the file again with what made it, or take the table out"
        ) from error


def _table_units(header: Any) -> str:
    found = header.get("ModalityLUTSequence")
    said = str(found[0].get("ModalityLUTType") or "").strip() if found else ""
    return "1" if said in ("", "US") else said


def _low_bit(file: str, header: Any, bits: int, syntax: Any) -> int:
    """Number of bits below the number in a word."""
    stored = int(header.get("BitsStored") or bits)
    high = whole(header.get("HighBit"))
    if high is None or high == stored - 1:
        return 0
    if not stored - 1 < high < bits:
        raise DataError(
            f"{file}: its HighBit is {high}, out of the range {stored - 1} to {bits - 1} for numbers of {stored} bits (BitsStored) "
            f"in words of {bits} (BitsAllocated); correct it"
        )
    if str(syntax) not in _WORDS:
        raise DataError(
            f"{file}: its HighBit is {high} where BitsStored is {stored}, which pixels that are written as {syntax.name} cannot "
            "have; write it without compression first (dcmdjpeg, or gdcmconv --raw)"
        )
    return high + 1 - stored


def _pixel_data(file: str, opened: Any, at: int, syntax: str, big: bool) -> tuple[int | None, int | None, int, bool]:
    """Offset and length of the pixels, their element in group 7FE0, and whether their bytes are swapped in pairs, as in
    big-endian words (OW). The header was read up to that element."""
    opened.seek(at)
    raw = opened.read(12)
    order = ">" if big else "<"
    if len(raw) < 8:
        return None, None, 0, False
    group, element = struct.unpack(order + "HH", raw[:4])
    if group != 0x7FE0 or element not in (0x0008, 0x0009, 0x0010):
        return None, None, 0, False
    if syntax == _IMPLICIT:
        length = struct.unpack("<I", raw[4:8])[0]
        start = at + 8
    else:
        if len(raw) < 12:
            raise DataError(f"{file}: it ends where its pixels begin: it was cut off; copy it again")
        length = struct.unpack(order + "I", raw[8:12])[0]
        start = at + 12
    return start, None if length == 0xFFFFFFFF else length, element, big and raw[4:6] == b"OW"


def _flaw(header: Any, tag: str, count: int) -> str:
    """The reason why numbers of a header are invalid; empty if they are valid."""
    value = header.get(tag)
    if numbers_of(value, count) is not None:
        return ""
    text = value if isinstance(value, str) or not np.iterable(value) else "\\".join(map(str, value))
    text = " ".join(str("" if text is None else text).split())
    return f"has '{text[:80]}' as {tag}, which should be {count} numbers" if text else f"has no {tag}"


def check_orientation(file: str, orientation: tuple[float, ...]) -> None:
    """Raises `DataError` unless the orientation consists of two perpendicular directions."""
    i, j = np.array(orientation[:3]), np.array(orientation[3:])
    if abs(np.linalg.norm(i) - 1) > 1e-2 or abs(np.linalg.norm(j) - 1) > 1e-2 or abs(float(i @ j)) > 1e-2:
        raise DataError(
            f"{file}: its ImageOrientationPatient {[round(v, 4) for v in orientation]} is not two directions across "
            "each other; correct it"
        )


def _units(header: Any, modality: str) -> str:
    if modality == "RTDOSE" and "RescaleSlope" not in header:
        # Relative doses are relative to an unspecified dose.
        return "Gy" if header.get("DoseUnits") == "GY" and number_of(header.get("DoseGridScaling")) else "1"
    said = str(header.get("RescaleType") or header.get("Units") or "").strip()
    if said in ("", "US", "NONE"):
        return "HU" if modality == "CT" and "RescaleSlope" in header else "1"
    return said
