"""Headers of DICOM files: what a slice is, where it lies, and where its pixels begin."""

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
"""Files by which a folder is known."""
_BEGINNING = 4096
"""Bytes by which a file is known."""
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
"""Bytes of an element of a header, at most."""
_DIRECTORY = "1.2.840.10008.1.3.10"
"""SOP class of a DICOMDIR, which lists the files of a medium."""
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_BIG = "1.2.840.10008.1.2.2"
_IMPLICIT = "1.2.840.10008.1.2"
DEFLATED = "1.2.840.10008.1.2.1.99"
_WORDS = (*_PLAIN, DEFLATED, "1.2.840.10008.1.2.5")
"""Transfer syntaxes that keep words as they are; the others keep numbers, and know no bits beside them."""
_UNREAD = ("ARGB", "CMYK", "HSV")
"""Colours that the standard has given up, and that are no red, green and blue in this order."""
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
    bits: int
    """Of a pixel, as it is stored: 1 where eight of them are in a byte."""
    orientation: tuple[float, ...] | None
    position: tuple[float, ...] | None
    flaws: tuple[str, str]
    """What is wrong with the position and the orientation where they are None: `has no ImagePositionPatient`."""
    spacing: tuple[float, float] | None
    """Between rows, between columns."""
    thickness: float | None
    scale: tuple[float, float] | None
    look: Look
    """Between which values it is shown, and how."""
    units: str
    modality: str
    moments: dict[str, float] = field(default_factory=dict, compare=False)
    """What tells it from others of its place, by the name of the element."""
    resolution: float | None = None
    """Seconds between counted time steps."""
    table: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """The first stored number of a modality table, and its values from there on."""
    table_units: str = "1"
    palette: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """The first stored number of a palette, and its colours from there on."""
    padding: tuple[float, float] | None = None
    """The lowest and the highest number that is no pixel of the image (PixelPaddingValue)."""
    uid: str = ""
    location: float | None = None
    """Where it lies along something that nobody says (SliceLocation)."""
    mosaic: Mosaic | None = None
    assumed: tuple[str, ...] = ()
    """What was taken for granted of how it is written."""
    unapplied: str = ""
    """What its numbers mean by a mapping that is not applied."""
    kinds: tuple[str, ...] = ()
    """Words of its ImageType."""
    whole: tuple[int, int] = (0, 0)
    """Rows and columns of the picture of which its frames are tiles."""
    kept: tuple[int, ...] | None = field(compare=False, default=None)
    """Those of its frames that are meant; None for all."""
    header: Any = field(compare=False, repr=False, default=None)
    """Kept for files of many frames only."""

    @property
    def count(self) -> int:
        """Frames that are meant."""
        return self.frames if self.kept is None else len(self.kept)

    @property
    def pixel(self) -> str:
        """What a pixel is."""
        return f"{self.samples} x {self.dtype} ({self.photometric})"


def slices_in(path: str, progress: Report | None = None) -> list[Slice]:
    """The slices of a folder and of the folders in it, of a pattern's files, or of a file; of a DICOMDIR those of its folder.

    Raises:
        DataError: if there are none, or one is damaged.
        Interrupted: if the report function says so.
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
        if n >= _LOOKS:
            return False
        if is_dicom_start(head(file, _BEGINNING)):
            return True
    return False


def outnumber(path: str, pictures: Sequence[str]) -> bool:
    """Whether a folder holds more DICOM files than it has pictures, which are of something beside a series then, by a look at
    some of the other files.
    """
    suffixes = {os.path.splitext(name)[1].lower() for name in pictures}
    count = looked = 0
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or os.path.splitext(name)[1].lower() in suffixes:
                continue
            full = os.path.join(folder, name)
            looked += 1
            count += os.path.isfile(full) and is_dicom_start(head(full, _BEGINNING))
            if count > len(pictures) or looked >= max(_LOOKS, 2 * len(pictures)):
                return count > len(pictures)
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


def _read(file: str) -> Slice | str | None:
    """The slice in a file, which is opened once; a word for DICOM that is no image, None for what is no DICOM.

    Raises:
        DataError: if it is damaged, or named like a DICOM file that it is not.
    """
    pydicom = need("pydicom", f"{file}: DICOM files")
    try:
        with open(file, "rb") as all_of_it:
            if not is_dicom_start(all_of_it.read(_BEGINNING)):
                if not file.lower().endswith((".dcm", ".dicom")):
                    return None
                raise DataError(
                    f"{file}: this is no DICOM file, though its name says so: it was cut off, or has no preamble; copy it again, "
                    "write it with one (dcmconv), or take it out of the folder"
                )
            all_of_it.seek(0)
            opened = _Bounded(all_of_it, os.fstat(all_of_it.fileno()).st_size)
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
    except Exception as error:  # pydicom raises whatever comes of a damaged header
        raise DataError(
            f"{file}: its DICOM header cannot be read ({type(error).__name__}: {str(error)[:160]}); copy it again"
        ) from error


def _was_image(header: Any, *, short: bool) -> bool:
    """Whether a header that has no image is one that lost it; `short`: its file ends within an element."""
    found = getattr(header, "file_meta", {}).get("MediaStorageSOPClassUID") or header.get("SOPClassUID")
    if not found:
        return True
    name = str(found.name)
    if "Image Storage" in name or name in _IMAGES:
        return True
    # Doses may have no grid, and nobody knows the classes of one's own.
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
        size = os.path.getsize(file)
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
    """Slope and intercept, and a sentence where one of them is none."""
    slope, intercept = number_of(header.get("RescaleSlope")), number_of(header.get("RescaleIntercept"))
    if slope is None and intercept and not header.get("ModalityLUTSequence"):
        return (1.0, intercept), f"it has a RescaleIntercept, {intercept:g}, and no RescaleSlope: that is taken as 1"
    if slope is None:  # doses have one of their own, and no intercept
        slope, intercept = number_of(header.get("DoseGridScaling")), 0.0
    elif slope == 0:
        return None, "its RescaleSlope is 0, which would leave nothing: its values are the stored numbers"
    return (None if not slope else (slope, intercept or 0.0)), ""


def _unapplied(header: Any, scale: tuple[float, float] | None) -> str:
    """What real values are by the header (PS3.3 C.7.6.16.2.11), where they are others than what is shown."""
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
    """How a file is written; where it does not say so, by what its elements look like, and a sentence about that."""
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
    """A table of a header; the error says that it is the table that cannot be read."""
    try:
        return read(*given)
    except MemoryError:
        raise
    except Exception as error:  # pydicom raises whatever comes of damaged segments
        said = " ".join(str(error).split())[:160] or type(error).__name__
        raise DataError(
            f"{file}: its table of {what} cannot be read ({said}); write the file again with what made it, or take the table out"
        ) from error


def _table_units(header: Any) -> str:
    found = header.get("ModalityLUTSequence")
    said = str(found[0].get("ModalityLUTType") or "").strip() if found else ""
    return "1" if said in ("", "US") else said


def _low_bit(file: str, header: Any, bits: int, syntax: Any) -> int:
    """Bits of a word below the number."""
    stored = int(header.get("BitsStored") or bits)
    high = whole(header.get("HighBit"))
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


def _pixel_data(file: str, opened: Any, at: int, syntax: str, big: bool) -> tuple[int | None, int | None, int, bool]:
    """First byte and length of the pixels, the element of group 7FE0 that holds them, and whether bytes are turned in pairs, as
    those of words (OW) are with the highest byte first. Reading stopped before it.
    """
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
    """What is wrong with numbers of a header; nothing where they are there."""
    value = header.get(tag)
    if numbers_of(value, count) is not None:
        return ""
    text = value if isinstance(value, str) or not np.iterable(value) else "\\".join(map(str, value))
    text = " ".join(str("" if text is None else text).split())
    return f"has '{text[:80]}' as {tag}, which should be {count} numbers" if text else f"has no {tag}"


def check_orientation(file: str, orientation: tuple[float, ...]) -> None:
    """Raises `DataError` for what is not two directions across each other."""
    i, j = np.array(orientation[:3]), np.array(orientation[3:])
    if abs(np.linalg.norm(i) - 1) > 1e-2 or abs(np.linalg.norm(j) - 1) > 1e-2 or abs(float(i @ j)) > 1e-2:
        raise DataError(
            f"{file}: its ImageOrientationPatient {[round(v, 4) for v in orientation]} is not two directions across "
            "each other; correct it"
        )


def _units(header: Any, modality: str) -> str:
    if modality == "RTDOSE" and "RescaleSlope" not in header:
        # Relative doses are parts of one that nobody says.
        return "Gy" if header.get("DoseUnits") == "GY" and number_of(header.get("DoseGridScaling")) else "1"
    said = str(header.get("RescaleType") or header.get("Units") or "").strip()
    if said in ("", "US", "NONE"):
        return "HU" if modality == "CT" and "RescaleSlope" in header else "1"
    return said
