"""Files of VTK XML whose grids are zones, one a time step, as files that are paged where they lie."""

from __future__ import annotations

import filecmp

from farfield.errors import DataError
from farfield.progress import reporting
from farfield.settings import Settings
from farfield.volume.options import Means, to_stderr
from farfield.volume.vtk_zones import as_plot3d


def series_of(files: list[str], *, quiet: bool = False) -> tuple[list[str], list[str], list[str]]:
    """Grid files, one if the grid does not move; function files, none if there are no fields; and what is to be known of them.

    Raises:
        DataError: if a file is damaged, or has other fields than the first one.
        Interrupted: if the report function says so.
    """
    with reporting(False if quiet else None) as report:
        means = Means(Settings()["cache_dir"], report, None if quiet else to_stderr)
        made = [as_plot3d(name, means) for name in files]
    first = made[0]
    for name, zone in zip(files, made, strict=True):
        if zone.names != first.names:
            here, there = (", ".join(of.names) or "none" for of in (zone, first))
            raise DataError(
                f"{name}: its arrays are {here}, and those of {files[0]} {there}; the files of a series have the same"
            )
    grids = [zone.grid for zone in made]
    # Files may have the same size and other points.
    if all(filecmp.cmp(first.grid, grid, shallow=False) for grid in grids[1:]):
        grids = grids[:1]
    remarks = []
    if first.of_cells:
        remarks.append(f"Of cells are {', '.join(first.of_cells)}: each point has the mean of the cells around it.")
    return grids, [zone.function for zone in made if zone.function is not None], remarks
