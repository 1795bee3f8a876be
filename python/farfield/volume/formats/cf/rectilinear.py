"""Arrays on uneven coordinates, of NetCDF, HDF5 and Zarr: whether there is one. `farfield.flow.formats.uneven` reads them."""

from __future__ import annotations

from dataclasses import replace

from farfield.errors import AccessError, FarfieldError
from farfield.volume.formats.cf import conventions as cf
from farfield.volume.formats.options import Options
from farfield.volume.formats.readers import module_of


def laid(path: str, options: Options, kind: str) -> cf.Laid | None:
    """How the array lies that a reader would show; None where it cannot be told: then the reader says what is wrong."""
    try:
        return module_of(kind).laid(path, options)  # type: ignore[no-any-return]
    except AccessError:
        raise
    except FarfieldError:
        return None


def is_zone(path: str, options: Options, kind: str) -> bool:
    """Whether a file or store of one of these formats holds an array on uneven coordinates. Where its user says what it is as a
    volume it is one.
    """
    if replace(options, variable=None) != Options():
        return False
    found = laid(path, options, kind)
    return found is not None and cf.uneven(found)
