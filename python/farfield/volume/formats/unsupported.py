"""Errors for files in known formats that Farfield does not read.

Without these errors, PLOT3D would be tried, which fits none of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.compression import beginning, codec_of, plain_name
from farfield.volume.formats.files import head, unreadable
from farfield.volume.formats.signatures import content_of

_HEAD = 4096

_OURS = {
    ".nii": "NIfTI", ".nii.gz": "NIfTI", ".nrrd": "NRRD", ".nhdr": "NRRD", ".mha": "MetaImage", ".mhd": "MetaImage", ".tif": "TIFF",
    ".tiff": "TIFF", ".h5": "HDF5", ".hdf5": "HDF5", ".nc": "NetCDF", ".nc4": "NetCDF", ".dcm": "DICOM", ".vti": "VTK XML",
    ".vtr": "VTK XML", ".vts": "VTK XML",
    ".pvti": "VTK XML", ".pvtr": "VTK XML", ".pvts": "VTK XML", ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG",
}  # fmt: skip
_GRIB = "convert it to NetCDF (cdo -f nc4 copy {0} out.nc, or xarray with cfgrib)"
_GRIB_START = re.compile(rb"GRIB.{3}[\x01\x02]", re.DOTALL)
"""Beginning of a GRIB message, with its edition."""
_BULLETIN = 512
"""Bytes in which it begins, after a header of a WMO bulletin."""
_TOOLS = {
    **dict.fromkeys((".grb", ".grib", ".grb2", ".grib2"), ("GRIB (fields of weather models)", _GRIB)),
    ".mgz": ("a FreeSurfer volume", "convert it to NIfTI (mri_convert {0} out.nii)"),
    ".mgh": ("a FreeSurfer volume", "convert it to NIfTI (mri_convert {0} out.nii)"),
    ".mnc": ("a MINC volume", "convert it to NIfTI (mnc2nii {0} out.nii)"),
    ".gipl": ("a GIPL volume", "convert it to NRRD (SimpleITK, or ITK-SNAP)"),
    ".mrc": ("an MRC volume", "convert it to TIFF (mrc2tif -s {0} out.tif), or give --shape, --dtype and --header-bytes 1024"),
    ".gii": ("a GIFTI surface", "name the volume that it was made of (.nii, .mgz)"),
    ".am": ("an Amira mesh", "save it as NRRD from Amira"),
    ".vdb": ("an OpenVDB volume", "sample it to a regular grid and write that as Zarr or NRRD"),
}  # fmt: skip
_CELLS = {
    ".stl": "a surface (STL)", ".obj": "a surface (OBJ)", ".ply": "a surface or a cloud of points (PLY)", ".off": "a surface (OFF)",
    ".glb": "a surface (glTF)", ".gltf": "a surface (glTF)",
    ".vtm": "a VTK file of several blocks", ".vtmb": "a VTK file of several blocks",
    ".msh": "an unstructured grid (Gmsh)", ".exo": "an unstructured grid (Exodus)",
    ".dx": "an OpenDX file", ".su2": "an unstructured grid (SU2)", ".fbx": "a surface (FBX)",
}  # fmt: skip
"""Suffixes of files of cells and triangles: neither volumes nor structured grids."""
_OF_CELLS = {
    "UnstructuredGrid": "an unstructured grid", "PolyData": "surfaces or lines", "HyperTreeGrid": "a grid of trees",
    "Table": "a table", "Collection": "a collection of lines or surfaces",
}  # fmt: skip
"""Kinds of VTK XML, likewise; a prefix `P` means written in parallel."""
_OF_NUMBERS = (".bin", ".dat", ".img", ".data", "")
"""Suffixes of raw numbers."""
_OF_STORES = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
_PACKED = {
    b"PK\x03\x04": ("a zip archive", "unzip {0}"), b"7z\xbc\xaf": ("a 7z archive", "7z x {0}"),
    b"Rar!": ("a RAR archive", "unrar x {0}"), b"\xfd7zXZ": ("packed with xz", "tar -xf {0}, or unxz {0}"),
    b"BZh": ("packed with bzip2", "tar -xf {0}, or bunzip2 {0}"),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", "tar -xf {0}, or unzstd {0}"),
    b"\x1f\x8b": ("packed with gzip", "tar -xf {0}, or gunzip {0}"),
}  # fmt: skip
"""Beginnings of archives, with their description and how to unpack them."""
_PLOTFILE = (b"HyperCLaw", b"NavierStokes", b"CartGrid")
"""Beginnings of headers of plotfiles."""
_TAR = (257, b"ustar")
_VTK = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\'](\w+)["\']')


def refuse_cells(path: str) -> None:
    """Raises for a source that is an unstructured grid, a surface, or lines. It does not apply to lines drawn over a
    source.

    Raises:
        DataError: naming its kind and the supported formats.
    """
    start = head(path, _HEAD)
    kind = _VTK.search(start)
    what = _CELLS.get(os.path.splitext(path.lower())[1])
    if kind is not None:
        name = kind[1].decode()
        if name.removeprefix("P") in ("ImageData", "RectilinearGrid", "StructuredGrid"):
            return
        what = f"{_OF_CELLS.get(name, _OF_CELLS.get(name[1:], 'no structured grid'))} (VTK XML of the type {name})"
    if what is None or not start:
        return
    drawn = "; lines of a .vtp are drawn over a source with --lines" if name_is_lines(path) else ""
    raise DataError(
        f"{path}: this is {what}, and a source is a volume or a structured grid: PLOT3D, .vti, .vtr, .vts, NIfTI, Zarr and others; "
        f"resample it to one (in ParaView: Resample To Image, saved as .vti){drawn}"
    )


def name_is_lines(path: str) -> bool:
    """Whether a file has a name as for lines of 'farfield trace'."""
    return path.lower().endswith((".vtp", ".pvd"))


@contextlib.contextmanager
def raw_hinted(path: str) -> Iterator[None]:
    """Adds advice on raw numbers to the error for a file that fits no format, not even PLOT3D."""
    try:
        yield
    except DataError as error:
        text = str(error)
        if "no reading of its" not in text or os.path.splitext(path.lower())[1] not in _OF_NUMBERS:
            raise
        raise DataError(
            f"{text}\nIf it holds the raw numbers of a volume, say which: --raw 'shape=512x512x300 dtype=uint16', in Python "
            "volume={'shape': ..., 'dtype': ...}"
        ) from error


def refuse(path: str, start: bytes) -> None:
    """Raises for a file with this beginning that is no volume.

    Raises:
        DataError: naming its probable kind and advice.
    """
    name = os.path.basename(path)
    if start.startswith(b"# vtk DataFile"):
        raise DataError(
            f"{path}: this is a legacy VTK file, and of VTK the XML formats are read; save it as .vti, .vtr or .vts "
            "(in ParaView: File, Save Data)"
        )
    if name == "info" and _is_precomputed(path):
        raise _precomputed(os.path.dirname(path) or ".")
    if start.startswith(b"\x93NUMPY"):
        raise DataError(f"{path}: this is a NumPy array, which is not read{_as_raw(path, start)}")
    _refuse_grids(path, start)
    if name in _OF_STORES and start.lstrip().startswith(b"{"):
        folder = os.path.dirname(path) or "."
        raise DataError(
            f"{path}: this is a document of a Zarr store; name the folder that is the store, or the array: {folder}"
        )
    suffix = os.path.splitext(path.lower())[1]
    if suffix in _TOOLS:
        what, tool = _TOOLS[suffix]
        raise DataError(f"{path}: this is {what} by its name, which is not read; {tool.format(name)}")
    _refuse_packed(path, start)
    ours = _OURS.get(".nii.gz" if path.lower().endswith(".nii.gz") else suffix)
    if ours is not None and start:
        hint = ", or write it with its preamble (dcmconv)" if ours == "DICOM" else ""
        raise DataError(
            f"{path}: this is named like a {ours} file, and does not begin like one ({_shown(start)}): it was cut off, or is "
            f"something else; copy it again{hint}"
        )


_EBCDIC_CARD, _ASCII_CARD = b"\xc3\x40\xf1", b"C 1"
"""Beginning of the text before a SEG-Y file's traces, whose first line is called 'C 1'."""


def _refuse_grids(path: str, start: bytes) -> None:
    """Raises for formats of seismics, weather and astronomy.

    Raises:
        DataError: with advice.
    """
    name = os.path.basename(path)
    if start.startswith(_EBCDIC_CARD) or (
        path.lower().endswith((".sgy", ".segy")) and start.startswith((_ASCII_CARD, b"\xc3\xf0\xf1", b"C01"))
    ):
        raise DataError(
            f"{path}: this is SEG-Y (seismic traces), which is not read; convert it to Zarr (mdio segy import {name} out.mdio) "
            "or to NetCDF (segysak)"
        )
    if start.startswith(b"GRIB") or _GRIB_START.search(start[:_BULLETIN]):
        raise DataError(f"{path}: this is GRIB (fields of weather models), which is not read; {_GRIB.format(name)}")
    if start.startswith(b"SIMPLE  ="):
        raise DataError(f"{path}: this is FITS, which is not read{_fits_as_raw(path)}")


_FITS_TYPES = {8: "uint8", 16: "int16", 32: "int32", 64: "int64", -32: "float32", -64: "float64"}
_FITS_BLOCK, _FITS_MOST = 2880, 64


def _fits_as_raw(path: str) -> str:
    """Options that open the first image of a FITS file as raw numbers, from its header."""
    hint = "; write its image as Zarr or NRRD (astropy.io.fits)"
    said: dict[str, str] = {}
    for block in range(_FITS_MOST):
        text = head(path, _FITS_BLOCK, block * _FITS_BLOCK).decode("latin-1")
        for at in range(0, len(text), 80):
            card = text[at : at + 80]
            if card.startswith("END "):
                try:
                    sizes = [int(said[f"NAXIS{n + 1}"]) for n in range(int(said["NAXIS"]))]
                    kind = _FITS_TYPES[int(said["BITPIX"])]
                except (KeyError, ValueError):  # its images come later
                    return hint
                while len(sizes) > 2 and sizes[-1] == 1:
                    sizes.pop()
                if not 2 <= len(sizes) <= 3 or min(sizes) < 1:
                    return hint
                raw = f"shape={'x'.join(map(str, [*sizes, 1][:3]))} dtype={kind} byte-order=big"
                raw += f" header-bytes={(block + 1) * _FITS_BLOCK}"
                scaled = "; its BSCALE and BZERO are not applied then" if {"BSCALE", "BZERO"} & said.keys() else ""
                return f" by itself, but as the numbers in it: --raw '{raw}'{scaled}"
            key, _, value = card.partition("=")
            said[key.strip()] = value.partition("/")[0].strip()
    return hint


def _as_raw(path: str, start: bytes) -> str:
    """Options that open a NumPy array as raw numbers, from its header."""
    about = re.search(
        rb"'descr': '([<>|])([iuf])([1248])', 'fortran_order': False, 'shape': \((\d+), (\d+), (\d+)\)", start
    )
    wide = 2 if start[6:7] == b"\x01" else 4
    if about is None:
        return "; write it as Zarr (zarr.save), or its numbers alone (tofile)"
    order, kind, size, *shape = (part.decode() for part in about.groups())
    said = f"shape={'x'.join(reversed(shape))} dtype={ {'i': 'int', 'u': 'uint', 'f': 'float'}[kind] }{8 * int(size)}"
    said += f" header-bytes={8 + wide + int.from_bytes(start[8 : 8 + wide], 'little')}"
    said += " byte-order=big" if order == ">" else ""
    return f" by itself, but as the numbers in it: --raw '{said}'"


_ENVI = {
    1: "uint8", 2: "int16", 3: "int32", 4: "float32", 5: "float64", 12: "uint16", 13: "uint32", 14: "int64", 15: "uint64",
}  # fmt: skip
"""Types of numbers by their codes in ENVI headers."""


def refuse_envi(path: str, header: str) -> None:
    """Raises for raw numbers with an ENVI header.

    Raises:
        DataError: with the options that read them, if bands are consecutive.
    """
    start = head(header, _HEAD)
    if not start.startswith(b"ENVI"):
        return
    said = dict(re.findall(r"^ *([a-z ]+?) *= *(\w+)", start.decode("latin-1").lower(), re.MULTILINE))
    try:
        shape = "x".join(str(int(said[key])) for key in ("samples", "lines", "bands"))
        way = f"its numbers are, by {os.path.basename(header)}: --raw 'shape={shape} dtype={_ENVI[int(said['data type'])]}"
        way += f" header-bytes={int(said.get('header offset', 0))}"
        way += f" byte-order={'big' if int(said.get('byte order', 0)) == 1 else 'little'}'"
    except (KeyError, ValueError):  # complex numbers, or incomplete
        way = ""
    if not way or said.get("interleave", "bsq") != "bsq":
        way = "convert it to TIFF (gdal_translate), or, if it is one band after the other (bsq), say what it is with --raw"
    raise DataError(f"{path}: this is an ENVI raster, whose header is not read; {way}")


_SLICES = ("dicom", "images", "tiff")
"""Formats in which many files form one volume."""
_UNPACK = {"gzip": "gunzip -k", "bz2": "bunzip2 -k", "xz": "unxz -k"}
_LOOKS = 40
"""Number of files that are examined to recognise a folder."""


def refuse_packed_slices(path: str, files: Sequence[str]) -> None:
    """Raises for slices that are compressed one by one.

    Raises:
        DataError: with advice.
    """
    for file in files[:_LOOKS]:
        codec = codec_of(head(file, 16))
        if codec is None or content_of(plain_name(file), beginning(file, _HEAD)) not in _SLICES:
            continue
        way = f" ({_UNPACK[codec]} {shlex.quote(file)}, likewise the others)" if codec in _UNPACK else ""
        raise DataError(
            f"{path}: its slices are compressed one by one ({os.path.basename(file)} with {codec}), and are read together only as "
            f"they are without that; unpack them first{way}, or name one of them"
        )


def refuse_folder(path: str) -> None:
    """Raises for a folder of N5, of nested grids, or of slices that are compressed one by one.

    Raises:
        DataError: with advice.
    """
    document = os.path.join(path, "attributes.json")
    if places.isfile(document):
        raise DataError(
            f"{path}: this is N5 by its attributes.json, which is not read; copy it to Zarr (with tensorstore, or n5-copy)"
        )
    document = os.path.join(path, "info")
    if places.isfile(document) and _is_precomputed(document):
        raise _precomputed(path)
    try:
        names = sorted(name for name in places.listdir(path) if not name.startswith("."))[:_LOOKS]
    except OSError as error:
        raise unreadable(path, error) from error
    refuse_packed_slices(path, [file for name in names if places.isfile(file := os.path.join(path, name))])
    header = os.path.join(path, "Header")
    if places.isfile(header) and head(header, 64).startswith(_PLOTFILE):
        raise DataError(
            f"{path}: this is a plotfile of AMReX (nested grids), which is not read; resample it to a regular grid and write "
            "that as Zarr, NRRD or .vti (yt: covering_grid; or in ParaView: Resample To Image, saved as .vti)"
        )


def _is_precomputed(document: str) -> bool:
    """Whether a file is the `info` of Neuroglancer's precomputed volumes."""
    start = head(document, _HEAD)
    return (
        start.lstrip().startswith(b"{")
        and b'"scales"' in head(document, 1 << 20)
        and b'"data_type"' in head(document, 1 << 20)
    )


def _precomputed(path: str) -> DataError:
    return DataError(
        f"{path}: this is a precomputed volume of Neuroglancer, which is not read; copy it to Zarr (with tensorstore: "
        "neuroglancer_precomputed to zarr3, or with cloud-volume)"
    )


def _shown(start: bytes) -> str:
    text = start[:12]
    if all(32 <= b < 127 for b in text):
        return f"its first bytes are '{text.decode()}'"
    return f"its first bytes are {text.hex(' ')}"


def _refuse_packed(path: str, start: bytes) -> None:
    """Raises for an archive; formats with their own compression are recognised earlier."""
    name = os.path.basename(path)
    packed = next((said for mark, said in _PACKED.items() if start.startswith(mark)), None)
    if start[_TAR[0] :].startswith(_TAR[1]):
        packed = ("a tar archive", "tar -xf {0}")
    if packed is not None:
        what, way = packed
        raise DataError(
            f"{path}: this is {what}, and nothing is read out of those; unpack it first ({way.format(name)}) and name what comes "
            "of it"
        )
