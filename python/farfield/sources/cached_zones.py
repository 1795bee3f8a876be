"""Grids of other formats, converted into zones of PLOT3D files in the cache. Converters are imported on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from farfield.errors import DataError
from farfield.runtime import run_context
from farfield.runtime.progress import reporting
from farfield.runtime.settings import Settings
from farfield.sources.source import Source
from farfield.volume.formats.detection import of_coordinates, split_variable
from farfield.volume.formats.files import head
from farfield.volume.formats.options import Means, Options
from farfield.volume.formats.signatures import is_vtk
from farfield.volume.formats.vtk.collection import is_collection, steps_named
from farfield.volume.formats.vtk.multiblock import is_multiblock, refuse_unread


def converted_zones(files: Sequence[str], text: str, *, quiet: bool) -> Source | None:
    """The converted zones of VTK files, or of collections of them, with one file per time step; None for other files.

    Raises:
        DataError: if a file is damaged, is of another kind, or has other fields.
        Interrupted: if the report function returns False.
    """

    def is_of_vtk(name: str) -> bool:
        start = head(name, 4096) if os.path.isfile(name) else b""
        return bool(start) and (is_collection(start) or is_multiblock(start) or is_vtk(name))

    if not any(is_of_vtk(name) for name in files):
        return None
    from farfield.volume.formats.vtk.series import series_of
    from farfield.volume.formats.vtk.zones import is_zone

    remarks: list[str] = []
    left_out: list[str] = []
    steps = steps_named(files, remarks, left_out)
    parts = [part.file for step in steps for part in step.parts]
    if not any(os.path.isfile(name) and is_vtk(name) for name in parts):
        if len(files) == 1 and os.path.isfile(parts[0]) and b'type="UnstructuredGrid"' in head(parts[0], 4096):
            refuse_unread(text, parts[0], "part")
        return None
    # Volumes, one per step, have readers of their own, which read no lists of blocks.
    if not left_out and all(len(s.parts) == 1 and not s.listed_in for s in steps) and not any(map(is_zone, parts)):
        return None
    others = [name for name in parts if not is_vtk(name)]
    if others:
        refuse_unread(text, others[0], "part")
        raise DataError(
            f"{text}: {others[0]} is no grid of VTK, as others of its files are; name those that go together"
        )
    made = series_of(steps, quiet=quiet)
    more: dict[str, Any] = {"grids": list(made.grids[1:])} if made.grids[1:] else {}
    if made.times:
        more["times"] = list(made.times)
    if made.untimed:
        more["untimed"] = made.untimed
    if made.define:
        more["define"] = [f"{name} = {of}" for name, of in made.define.items()]
    return Source(
        made.grids[0],
        (),
        made.functions,
        more,
        text,
        made.made_of,
        (*left_out, *made.places, *remarks, *made.remarks),
        len(steps),
        made.zones,
        (*remarks, *made.notes),
        made.format,
        places=(*left_out, *made.places),
    )


def uneven_zone(source: str, *, quiet: bool) -> Source | None:
    """The converted zone of an array of NetCDF, HDF5 or Zarr on uneven coordinates; None for other sources.

    Raises:
        DataError: if it is damaged, or if the disk is full.
        Interrupted: if the report function returns False.
    """
    path, variable = split_variable(os.path.expanduser(source))
    kind = of_coordinates(path) if os.path.isfile(path) or os.path.isdir(path) else None
    if kind is None:
        return None
    from farfield.volume.formats.cf import rectilinear

    if not rectilinear.is_zone(path, Options(variable=variable), kind):
        return None
    with reporting(False if quiet else None) as report:
        settings = Settings()
        means = Means(
            settings["cache_dir"],
            report,
            None if quiet else run_context.to_stderr,
            settings.memory_limit(),
            settings.cache_limit(),
        )
        made = rectilinear.as_plot3d(path, variable, kind, means)
    more: dict[str, Any] = {}
    remarks = list(made.remarks)
    if made.times:
        more["times"] = list(made.times)
    names = {"hdf5": "HDF5 or NetCDF-4", "netcdf3": "NetCDF classic", "zarr": "Zarr"}
    return Source(
        made.grid,
        (),
        made.functions,
        more,
        source,
        made.made_of,
        tuple(remarks),
        1,
        1,
        (),
        f"{names[kind]} on uneven coordinates",
        tuple(made.places),
        made.main_field,
        made.units,
        made.length_unit,
        made.time_unit,
    )
