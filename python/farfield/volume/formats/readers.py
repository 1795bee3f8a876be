"""The readers, by the names that `detection` gives."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from farfield.volume.formats.description import Volume
from farfield.volume.formats.options import Options, ReaderResources

Reader = Callable[[str, Options, ReaderResources], Volume]
READERS = {
    "dicom": "dicom.reader",
    "farfield": "farfield_store",
    "hdf5": "hdf5.reader",
    "images": "images.reader",
    "metaimage": "raster.metaimage",
    "netcdf3": "netcdf3",
    "nifti": "raster.nifti",
    "nrrd": "raster.nrrd",
    "packed": "compressed_files",
    "raw": "raster.raw",
    "tiff": "tiff.reader",
    "vtk": "vtk.images",
    "vtk_steps": "vtk.steps",
    "zarr": "zarr.reader",
}
"""The module of each format, which has a function `read`."""


def module_of(kind: str) -> Any:
    """The module of a format, imported on demand."""
    return importlib.import_module(f"farfield.volume.formats.{READERS[kind]}")


def reader_of(kind: str) -> Reader:
    """The `read` function of a format."""
    found: Reader = module_of(kind).read
    return found
