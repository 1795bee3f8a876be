"""Recognition of formats by the first bytes and the name of a file."""

from __future__ import annotations

import os
import re

from farfield.volume.formats.compression import beginning, codec_of, plain_name
from farfield.volume.formats.dicom.without_preamble import is_dicom_start
from farfield.volume.formats.files import head
from farfield.volume.formats.options import Options
from farfield.volume.formats.tiff import ome_sets
from farfield.volume.formats.vtk import legacy

HEAD = 4096
"""Number of first bytes that identify a format."""
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
NETCDF = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
HDF5 = b"\x89HDF\r\n\x1a\n"
PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
_SIZE = re.compile(r"(?<![0-9])(\d{1,6})[xX](\d{1,6})[xX](\d{1,6})(?![0-9])")
_COMPRESSED = (".nrrd", ".mha", ".vti", ".vtr", ".vts", ".tif", ".tiff", ".dcm", ".h5", ".hdf5", ".nc", ".png")
"""Suffixes of volumes that may be compressed as a whole."""


def named_size(path: str) -> tuple[int, int, int] | None:
    """The size in a file's name, as in many collections.

    >>> named_size("data/engine_256x256x128_uint8.raw"), named_size("scan_2x2.raw")
    ((256, 256, 128), None)
    """
    found = _SIZE.search(os.path.basename(path))
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def content_of(name: str, start: bytes) -> str | None:
    """The reader for a file by its first 4096 bytes and its name; None if they do not decide."""
    if is_nrrd(start):
        return "nrrd"
    if is_vtk_grid(start):
        return "vtk"
    if start[:4] in TIFF or ome_sets.is_companion(start):
        return "tiff"
    if start.startswith(HDF5):
        return "hdf5"
    if start[:4] in NETCDF:
        return "netcdf3"
    if is_dicom_start(start):
        return "dicom"
    if is_metaimage(name, start):
        return "metaimage"
    if nifti_version(start) is not None:
        return "nifti"
    return "images" if start.startswith(PICTURES) else None


def is_nrrd(start: bytes) -> bool:
    """Whether a file with this beginning is NRRD."""
    return re.match(rb"NRRD000\d", start) is not None


def is_vtk(path: str) -> bool:
    """Whether a file is a structured grid of VTK."""
    return is_vtk_grid(head(path, HEAD))


def is_vtk_grid(start: bytes) -> bool:
    """Whether a file with this beginning is a structured grid of VTK."""
    found = re.search(rb'type\s*=\s*["\']P?(ImageData|RectilinearGrid|StructuredGrid)["\']', start)
    return (b"<VTKFile" in start and found is not None) or legacy.is_legacy_grid(start)


def is_hdf5(path: str, start: bytes) -> bool:
    """Whether a file is HDF5. Its signature may come after a user block whose size is a power of two."""
    if start.startswith(HDF5) or any(start[1 << n : (1 << n) + 8] == HDF5 for n in range(9, 12)):
        return True
    named = path.lower().endswith((".h5", ".hdf5", ".nc", ".nc4"))
    return named and any(head(path, 8, 1 << n) == HDF5 for n in range(12, 20))


def is_metaimage(path: str, start: bytes) -> bool:
    """Whether a file with this beginning is a header of MetaImage."""
    return path.lower().endswith((".mhd", ".mha")) and (b"NDims" in start or b"ObjectType" in start)


def is_nifti(path: str, start: bytes) -> bool:
    """Whether a file with this beginning is NIfTI or Analyze, compressed or not."""
    if codec_of(start) is not None:
        return _named_as_nifti(path) or nifti_version(beginning(path, 540)) is not None
    return nifti_version(start) is not None


def _named_as_nifti(path: str) -> bool:
    return plain_name(path) != path and plain_name(path).lower().endswith((".nii", ".hdr", ".img"))


def nifti_version(start: bytes) -> tuple[int, bool] | None:
    """Version and byte order (true: big-endian) from the beginning of a NIfTI header; version 0 is Analyze."""
    for order in ("little", "big"):
        size = int.from_bytes(start[:4], "little" if order == "little" else "big")
        if size == 540 and start[4:8] in (b"n+2\0", b"ni2\0"):
            return 2, order == "big"
        if size == 348 and len(start) >= 348:
            return (1 if start[344:348] in (b"n+1\0", b"ni1\0") else 0), order == "big"
    return None


def holds_volume(path: str, start: bytes, options: Options) -> bool:
    """Whether a file with this beginning is compressed as a whole and contains a volume."""
    if codec_of(start) is None:
        return False
    if options.shape is not None or options.dtype is not None:
        return True
    inside = beginning(path, HEAD)
    if not inside:  # damaged: only its name remains
        return plain_name(path).lower().endswith(_COMPRESSED)
    return content_of(plain_name(path), inside) is not None
