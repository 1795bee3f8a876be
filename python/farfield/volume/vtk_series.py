"""Files of VTK XML whose grids are zones, one a time step, as files that are paged where they lie."""

from __future__ import annotations

import filecmp
from collections.abc import Sequence
from dataclasses import dataclass

from farfield.errors import DataError
from farfield.progress import reporting
from farfield.settings import Settings
from farfield.volume.options import Means, to_stderr
from farfield.volume.vtk_zones import as_plot3d


@dataclass(frozen=True)
class Series:
    """What files were made of a series, and of which."""

    grids: tuple[str, ...]
    """One if the grid does not move."""
    functions: tuple[str, ...]
    """None if there are no fields."""
    remarks: tuple[str, ...]
    made_of: tuple[str, ...]
    """The series' files, and those of their pieces."""


def dt_of(times: Sequence[float]) -> float | None:
    """How far times are apart that begin at 0; None where they do not, or are uneven.

    >>> dt_of([0, 0.5, 1.0]), dt_of([0, 1, 3]), dt_of([1, 2])
    (0.5, None, None)
    """
    if len(times) < 2 or times[0] != 0:
        return None
    dt = times[-1] / (len(times) - 1)
    return dt if all(abs(t - n * dt) <= 1e-9 * times[-1] for n, t in enumerate(times)) else None


def series_of(files: list[str], *, quiet: bool = False) -> Series:
    """What a series becomes: a file is a time step.

    Raises:
        DataError: if a file is damaged, or has other fields than the first one.
        Interrupted: if the report function says so.
    """
    with reporting(False if quiet else None) as report:
        means = Means(Settings()["cache_dir"], report, None if quiet else to_stderr, None, Settings().cache_limit())
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
    functions = tuple(zone.function for zone in made if zone.function is not None)
    made_of = tuple(dict.fromkeys(file for zone in made for file in zone.made_of))
    return Series(tuple(grids), functions, tuple(remarks), made_of)
