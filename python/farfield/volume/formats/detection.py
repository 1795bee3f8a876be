"""Choice of a reader by a source's content and name. Readers are imported on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence

from farfield.errors import DataError
from farfield.flow.flow_map_store import flow_map
from farfield.flow.formats import registry
from farfield.runtime.run_context import once
from farfield.sources import places
from farfield.sources.addresses import refuse_unknown
from farfield.sources.paths import PART
from farfield.volume.formats import patterns, unsupported, unsupported_meshes
from farfield.volume.formats.dicom.without_preamble import is_dicom_start
from farfield.volume.formats.files import head, json_object
from farfield.volume.formats.options import Options
from farfield.volume.formats.signatures import (
    HEAD,
    NETCDF,
    PICTURES,
    TIFF,
    holds_volume,
    is_hdf5,
    is_metaimage,
    is_nifti,
    is_nrrd,
    is_vtk,
    is_vtk_grid,
    named_size,
)
from farfield.volume.formats.tiff import ome_sets
from farfield.volume.formats.vtk import collection, legacy, multiblock

DEMO = "demo:phantom"
"""The generated volume."""
_OTHERS = {
    ".czi": "Zeiss CZI", ".lif": "Leica LIF", ".nd2": "Nikon ND2", ".oib": "Olympus OIB", ".oif": "Olympus OIF",
    ".vsi": "Olympus VSI", ".lsm5": "Zeiss LSM", ".zvi": "Zeiss ZVI", ".dv": "DeltaVision", ".mvd2": "Volocity",
    ".scn": "Leica SCN", ".mrxs": "3DHISTECH MRXS", ".bif": "Ventana BIF", ".sld": "SlideBook", ".ipl": "IPLab",
    ".dm3": "Gatan", ".dm4": "Gatan",
}  # fmt: skip
"""Formats of microscopes, which need a converter."""


_PNG = "convert it to PNG (magick {0} out.png)"
_FRAMES = "write each of its pictures as a PNG into a folder (ffmpeg -i {0} folder/%05d.png), which is a volume"
_KNOWN = {
    b"GIF87a": ("a GIF", _FRAMES), b"GIF89a": ("a GIF", _FRAMES),
    b"%PDF": ("a PDF document", "name the file with the numbers that it shows"),
    b"MATLAB 5.0 MAT-file": (
        "a MATLAB file of version 5",
        "save it with -v7.3, which is HDF5 and is read, or read it in Python (scipy.io.loadmat('{0}')) and write Zarr or NRRD",
    ),
}  # fmt: skip
"""Beginnings of files that are no volumes, with their description and advice."""
_STILLS = (b"heic", b"heix", b"mif1", b"avif", b"avis")
"""Brands of ISO media that are pictures; others are films."""
_RAW = (".raw", ".vol")
_RAW_WITH_SIZE = (".bin", ".dat", ".img", ".data")
"""Suffixes that files of zones have, too: a size in the name makes them raw numbers."""


def split_variable(source: str) -> tuple[str, str | None]:
    """Splits a source into path and variable: `file.h5::/path/to/dataset`. Names of variables may contain `::`.

    >>> split_variable("run.h5::/fields/u"), split_variable("run.h5")
    (('run.h5', '/fields/u'), ('run.h5', None))
    """
    # An address of IPv6 has colons in the name of its server.
    first = len(places.parts(source)[0]) if places.is_remote(source) else 0
    if "::" not in source[first:] or (places.isfile if first else places.exists)(source):
        return source, None
    # The longest existing path is the file. Without one, errors name the text before the last `::`.
    ends = [at for at in reversed(range(len(source))) if source.startswith("::", at) and at >= first]
    if not ends:
        return source, None
    places.prefetch_stats([source[:at] for at in ends])
    end = next((at for at in ends if places.exists(source[:at]) or patterns.names_any(source[:at])), ends[0])
    return source[:end], source[end + 2 :] or None


def format_of(path: str, options: Options | None = None) -> str | None:
    """The name of the reader for a path; None if it is no volume, but possibly a dataset of zones.

    Raises:
        DataError: if its format needs a converter, or if it cannot be read.
        UsageError: if it is a pattern of files that do not form a volume.
    """
    options = options or Options()
    path = patterns.expanded(path)
    return once(("format", places.abspath(path), options), lambda: _format_of(path, options))


def _format_of(path: str, options: Options) -> str | None:
    if registry.is_always_zones(path):
        return None
    if places.isdir(path):
        return _format_of_folder(path, options)
    if not places.isfile(path):
        return _format_of_pattern(path, options) if patterns.is_pattern(path) else None
    suffix = os.path.splitext(path.lower())[1]
    start = head(path, HEAD)
    if is_nrrd(start):
        return "nrrd"
    if is_vtk_grid(start):
        return None if _is_zone(path, options) else "vtk"
    if collection.is_collection(start):
        return _format_of_collection(path, options)
    if multiblock.is_multiblock(start):
        return None
    multiblock.refuse_levels(path, start)
    legacy.refuse_legacy(path, start)
    if start[:4] in TIFF or ome_sets.is_companion(start):
        return "tiff"
    if (kind := of_coordinates(path, start)) is not None:
        from farfield.volume.formats.cf import rectilinear

        return None if rectilinear.is_zone(path, options, kind) else kind
    if is_dicom_start(start):
        return "dicom"
    if is_metaimage(path, start):
        return "metaimage"
    if is_nifti(path, start):
        return "nifti"
    if start.startswith(PICTURES):
        return "images"
    if start.startswith(b"PK\x03\x04"):
        from farfield.volume.formats.zarr import zip_files

        if zip_files.is_zarr(path):
            return "zarr"
    if holds_volume(path, start, options):
        return "packed"
    if suffix in _OTHERS:
        raise DataError(
            f"{path}: {_OTHERS[suffix]} files are not read; convert it to OME-Zarr, which is (bioformats2raw "
            f"{os.path.basename(path)} out.zarr, or NGFF-Converter)"
        )
    if options.shape is not None or options.dtype is not None:
        return "raw"
    if suffix == ".img" and (header := next(filter(places.isfile, _headers_of(path)), None)) is not None:
        unsupported.refuse_envi(path, header)
        return "nifti"
    if suffix in _RAW or (suffix in _RAW_WITH_SIZE and named_size(path) is not None):
        return "raw"
    unsupported_meshes.refuse(path, start)
    _refuse_known(path, start, suffix)
    unsupported.refuse(path, start)
    return None


def _headers_of(image: str) -> list[str]:
    return [os.path.splitext(image)[0] + suffix for suffix in (".hdr", ".HDR", ".hdr.gz")]


def _refuse_known(path: str, start: bytes, suffix: str) -> None:
    """Raises for a picture, film, document or table that is no volume, and for one half of a pair of files."""
    name = os.path.basename(path)
    known = next((said for mark, said in _KNOWN.items() if start.startswith(mark)), None)
    if start[4:8] == b"ftyp":
        is_still = start[8:12] in _STILLS
        known = ("a picture (HEIF or AVIF)", _PNG) if is_still else ("a film (MP4 or QuickTime)", _FRAMES)
    if known is not None:
        what, way = known
        raise DataError(f"{path}: this is {what}, which is not read; {way.format(name)}")
    if suffix == ".img" and start.startswith(b"EHFA_HEADER_TAG"):
        raise DataError(
            f"{path}: this is an ERDAS Imagine raster, which is not read; convert it to TIFF (gdal_translate {name} out.tif)"
        )
    if suffix == ".img" and start:
        raise DataError(
            f"{path}: an .img is numbers alone; the header that says what they are (NIfTI's or Analyze's), {_headers_of(path)[0]}, "
            "is not there: copy it here too, or say how many numbers of which type the file holds: --raw 'shape=512x512x300 "
            "dtype=uint16', in Python volume={'shape': ..., 'dtype': ...}"
        )


def _format_of_pattern(pattern: str, options: Options) -> str | None:
    """The reader of a pattern, from its first file; None for files of zones."""
    files = patterns.files_of(pattern)
    kind = format_of(files[0], options) if files else None
    if kind in ("images", "tiff"):
        return "images"
    if kind == "vtk":
        return None if _any_zone(files[1:], options) else "vtk_steps"
    if kind in (None, "dicom"):
        return kind
    if kind == "packed":
        unsupported.refuse_packed_slices(pattern, files)
    raise patterns.alone(pattern, files, str(kind))


def _format_of_collection(path: str, options: Options) -> str | None:
    """The reader of a `.pvd` with a series of volumes; None for zones, lines or surfaces."""
    steps = collection.steps_of(path)
    if len(steps[0].parts) > 1 or not is_vtk(steps[0].file):
        return None
    return None if _any_zone([step.file for step in steps], options) else "vtk_steps"


def _any_zone(files: Sequence[str], options: Options) -> bool:
    """Whether files of a series are zones. One zone suffices, since any step may hide cells."""
    return any(is_vtk(file) and _is_zone(file, options) for file in files)


def _is_zone(path: str, options: Options) -> bool:
    """Whether a VTK grid is a zone. An image with a flow is not, if it has options of volumes, such as the name of an
    array."""
    from farfield.volume.formats.vtk.zones import is_flow_image, is_zone

    return is_zone(path) and (options == Options() or not is_flow_image(path))


@places.opening()
def is_volume(source: str | os.PathLike[str], options: Options | None = None) -> bool:
    """Whether a source is a volume, not a dataset of zones.

    Raises:
        DataError: if its format needs a converter, or if it cannot be read.
        UsageError: if it is an address of an unknown scheme.

    >>> is_volume("demo:box"), is_volume("demo:phantom"), is_volume("no/such/file.nii")
    (False, True, False)
    """
    text = places.expanduser(os.fspath(source))
    refuse_unknown(text)
    if places.is_remote(text) and PART.search(text):
        return False
    path, variable = split_variable(text)
    if path.startswith("demo:"):
        return path == DEMO
    if variable is not None:
        options = Options(**{**(options or Options()).given(), "variable": variable})
    return format_of(path, options) is not None


def _format_of_folder(path: str, options: Options) -> str | None:
    stored = _stored(path)
    if stored == "zones" or flow_map(path) is not None:
        return None
    if stored == "volume":
        return "farfield"
    from farfield.volume.formats.dicom.headers import has_slices, outnumber
    from farfield.volume.formats.images import reader as images
    from farfield.volume.formats.zarr import reader as zarr

    if zarr.is_zarr(path):
        from farfield.volume.formats.cf import rectilinear

        return None if rectilinear.is_zone(path, options, "zarr") else "zarr"
    if pictures := images.images_in(path):
        return "dicom" if outnumber(path, pictures) else "images"
    if has_slices(path):
        return "dicom"
    other = images.others_in(path)
    if other is not None:
        raise DataError(
            f"{path}: its images ({other}) are none that are read; convert them to PNG or TIFF (magick mogrify -format png)"
        )
    unsupported.refuse_folder(path)
    unsupported_meshes.refuse_folder(path)
    return None


def _stored(path: str) -> str | None:
    """The content of a folder of `farfield convert`: `zones` or a `volume`; None for any other folder."""
    document = os.path.join(path, "zarr.json")
    if not places.isfile(document):
        return None
    if head(document, 96).startswith(b'{"zarr_format":3,"node_type":"group","attributes":{"farfield":'):
        # A damaged store is still a store; opening it reports the damage.
        try:
            return "volume" if "ome" in json_object(document).get("attributes", {}) else "zones"
        except DataError:
            return "volume" if b'"kind":"volume"' in head(document, HEAD) else "zones"
    return None


def of_coordinates(path: str, start: bytes | None = None) -> str | None:
    """The reader of a file or store whose arrays may have coordinates: `hdf5`, `netcdf3` or `zarr`; else None."""
    if places.isdir(path):
        from farfield.volume.formats.zarr import reader as zarr

        return "zarr" if zarr.is_zarr(path) and _stored(path) is None and flow_map(path) is None else None
    start = head(path, HEAD) if start is None else start
    if is_hdf5(path, start):
        return "hdf5"
    return "netcdf3" if start[:4] in NETCDF else None
