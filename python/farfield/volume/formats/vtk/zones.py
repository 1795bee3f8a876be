"""Which VTK grids are zones: `.vts`, and `.vtr` whose coordinates are uneven; `.vti` and even `.vtr` that hold a flow, or are
blocks of several; `.pvts`, `.pvtr`, `.pvti` of such pieces. `farfield.flow.formats.vtk` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from farfield.errors import AccessError, DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import identity
from farfield.volume.formats.files import unreadable
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.vtk.array_names import is_flow
from farfield.volume.formats.vtk.arrays import Reader
from farfield.volume.formats.vtk.grids import Grid, grid_of
from farfield.volume.formats.vtk.hidden_cells import hides_any
from farfield.volume.formats.vtk.legacy import is_legacy_grid
from farfield.volume.formats.vtk.multiblock import Block
from farfield.volume.formats.vtk.outline import Outline, dims_of, encoding_of, extent_of
from farfield.volume.formats.vtk.parallel import whole_outline
from farfield.volume.formats.vtk.pieces import (
    coordinates_of,
    files_of,
    is_even,
)

_HEAD = 4096
_KIND = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\'](P?)(StructuredGrid|RectilinearGrid|ImageData)["\']')


def is_zone(path: str, start: bytes | None = None) -> bool:
    """Whether a file is a VTK grid that is a zone by itself: no volume, or one with a flow in it or with hidden cells. `start` are
    its first bytes, where they are known.

    What is damaged is left to the reader of volumes, which says what is wrong.
    """
    try:
        if start is None:
            with places.open_binary(path) as file:
                start = file.read(_HEAD)
        if not is_grid(start):
            return False
        kind = _KIND.search(start)
        if kind is not None and kind[2] == b"StructuredGrid":
            return True
        # A file that is only an outline has its numbers in others.
        own = identity(path)
        files = _files_of(path, own) if kind is not None and kind[1] else (path,)
        return _is_zone(path, own if files == (path,) else "\n".join(map(identity, files)))
    except AccessError:
        raise
    except (OSError, DataError):
        return False


@lru_cache(maxsize=1024)
def _files_of(path: str, _identity: str) -> tuple[str, ...]:
    """A file, and those of its pieces."""
    with places.open_binary(path) as file:
        return tuple(files_of(whole_outline(path, file, places.getsize(path))))


@lru_cache(maxsize=1024)
def _is_zone(path: str, _identities: str) -> bool:
    """As `is_zone`; asked for several times a command, and numbers in the text of a file are passed over each time."""
    try:
        with places.open_binary(path) as file:
            length = places.getsize(path)
            found = whole_outline(path, file, length)
            if found.kind == "StructuredGrid":
                return True
            if not found.pieces:
                return False
            whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
            if found.kind == "RectilinearGrid":
                if any(len(p.arrays.get("Coordinates", [])) != 3 for p in found.pieces):
                    return False
                reader = Reader(path, file, length, encoding_of(found))
                if not all(map(is_even, coordinates_of(found, reader, whole))):
                    return True
            if hides_any(found, Reader(path, file, length, encoding_of(found))):
                return True
            return _has_flow(found, whole)
    except AccessError:
        raise
    except (OSError, DataError):
        return False


def _has_flow(found: Outline, whole: list[int]) -> bool:
    held = [a for data in ("PointData", "CellData") for a in found.pieces[0].arrays.get(data, [])]
    return is_flow([(a.name, a.components, a.dtype) for a in held], planar=1 in dims_of(whole, cells=False))


def holds_flow(grid: Grid) -> bool:
    """Whether arrays of a grid are a flow's."""
    return _has_flow(grid.found, grid.whole)


def is_flow_image(path: str) -> bool:
    """Whether a file is a volume, too: an image, or a rectilinear grid of even spacing."""
    try:
        with places.open_binary(path) as file:
            length = places.getsize(path)
            found = whole_outline(path, file, length)
            if found.kind != "RectilinearGrid":
                return found.kind == "ImageData"
            whole = extent_of(path, "WholeExtent", found.grid.get("WholeExtent", ""))
            return all(map(is_even, coordinates_of(found, Reader(path, file, length, encoding_of(found)), whole)))
    except AccessError:
        raise
    except (OSError, DataError):
        return False


def is_grid(start: bytes) -> bool:
    """Whether a file that begins so is a VTK grid of points in rows, planes and layers."""
    return _KIND.search(start) is not None or is_legacy_grid(start)


def grids_of(blocks: Sequence[Block], resources: ReaderResources) -> list[Grid]:
    """What the files of a time step hold.

    Raises:
        DataError: if a file is damaged.
    """
    grids = []
    for block in blocks:
        try:
            grids.append(grid_of(block.file, resources.cache_dir / "data"))
        except OSError as error:
            if isinstance(error, DataError):
                raise
            raise unreadable(block.file, error) from error
    return grids
