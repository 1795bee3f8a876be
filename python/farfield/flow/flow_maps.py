"""Flow maps: end points, residence times and stretching of a grid of particles."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield import _core
from farfield.errors import UsageError
from farfield.flow.particle_options import Following
from farfield.results import outputs
from farfield.runtime.progress import Report, reporting

if TYPE_CHECKING:
    from farfield.sources.source import Source

QUANTITIES = ("ftle", "residence", "displacement", "end_position")
AXES = "xyz"

Axis = tuple[float, float, int]
"""Lowest and highest coordinate, and the number of seeds."""
SeedsGrid = str | Sequence[Sequence[float]]


class FlowMaps(ABC):
    """Flow maps of a dataset."""

    _native: _core.Dataset
    _source: Source

    @abstractmethod
    def _since(self, t0: float | None, t1: float | None = None, direction: str | None = None) -> float | None:
        """Time of release, given the selected steps."""

    @abstractmethod
    def _until(self, t0: float | None, t1: float | None, direction: str | None) -> float | None:
        """Time of the end, given the selected steps."""

    def flow_map(
        self,
        output: str | os.PathLike[str],
        *,
        seeds_grid: SeedsGrid | None = None,
        region: str | Sequence[Sequence[float]] | None = None,
        resolution: int | Sequence[int] | None = None,
        vectors: str = "velocity",
        t0: float | None = None,
        t1: float | None = None,
        integration_direction: str | None = None,
        quantities: Sequence[str] = ("ftle",),
        within: str | Sequence[Sequence[float]] | None = None,
        offset: float | None = None,
        integrator: str = "rk45",
        time_step: float | None = None,
        max_steps: int | None = None,
        tolerance: float = 1e-6,
        hold_steps: bool = False,
        overwrite: bool = False,
        progress: bool | Report | None = None,
    ) -> dict[str, Any]:
        """Follows a particle from each point of a grid of seeds; writes a Zarr v3 volume for zarr-python and xarray.
        Returns the JSON of `farfield flowmap --json`. Memory holds one block of the map at a time.

        Args:
            output: The folder of the volume, such as `"map.zarr"`. Its arrays are `[z, y, x]`, or `[component, z, y,
                x]` for vectors. It also has coordinates `x`, `y`, `z` and a `status`, the reason of each particle's end
                (5: left, 2: followed to the end).
            seeds_grid: `(low, high, n)` along x, y and z, or text like `"0:2:200,0:1:100,0.5"`; in 2-D x and y only.
            region: `(low, high)` along x, y and z, or text like `"0:2,0:1,0.5"`; requires `resolution`.
            resolution: Number of seeds along each axis; or along the longest, with equal distances along the others.
            vectors: The vector field.
            t0: Time of release; as in `pathlines`.
            t1: Time of the end.
            integration_direction: `"forward"` or `"backward"` in time; or `"both"`: from t0 to t1 and from t1 to t0, in
                arrays that end in `_forward` and `_backward`. None derives it from `t0` and `t1`.
            quantities: Any of `"ftle"`, `"residence"`, `"displacement"` and `"end_position"`. `"ftle"` is the
                finite-time Lyapunov exponent `ln(sqrt(largest eigenvalue of F^T F)) / |t1 - t0|` (Haller 2001, Shadden
                et al. 2005). F are central differences of end points between neighbouring seeds. They are one-sided at
                edges and beside neighbours that ended early, and NaN if the seed's own particle did. `"residence"` is
                the time until the particle leaves, at most `|t1 - t0|`, and NaN for seeds in no cell.
            within: Lower and higher corner of the box that particles leave, or text like `"0,0,0:1,1,1"`; None for the
                dataset's grid.
            offset: For `"ftle"`, the distance to extra neighbours of each seed, instead of those in the grid. Ridges
                are sharper; each seed and axis costs two more particles.
            integrator: As in `pathlines`.
            time_step: As in `pathlines`.
            max_steps: Steps of a particle; None for no bound.
            tolerance: As in `pathlines`.
            hold_steps: As in `pathlines`.
            overwrite: Replace an existing Zarr store when the new one is complete.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field or a quantity does not exist.
            UsageError: if an argument is invalid, or if a time is outside of the dataset's.
            DataError: if the output exists.
            MemoryLimitError: if the memory limit does not hold a block of the map.

        >>> import tempfile, farfield as ff
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = ff.open("demo:box").flow_map(folder + "/m.zarr", seeds_grid="0.3:0.7:5,0.3:0.7:5,0.5", t0=0.0, t1=0.1)
        ...     made["dims"], made["arrays"], made["reasons"]
        ([5, 5, 1], ['ftle', 'status'], {'forward': {'time': 25}})
        """
        target = os.fspath(output)
        grid = grid_of(seeds_grid, region, resolution)
        direction = integration_direction
        span = self._since(t0, t1, direction), self._until(t0, t1, direction)
        how = Following(*span, direction, integrator, time_step, max_steps, tolerance, hold_steps)
        options = {
            **how.native("pathline"),
            "grid": grid,
            "quantities": [quantities] if isinstance(quantities, str) else list(quantities),
            "within": None if within is None else box_of(within),
            "offset": offset,
            "overwrite": overwrite,
            "field": vectors,
        }
        outputs.check([target], self._source.reads())
        with reporting(progress) as report:
            text = self._native.flow_map(json.dumps(options), target, progress=report)
        found: dict[str, Any] = json.loads(text)
        return found


def grid_of(
    seeds_grid: SeedsGrid | None,
    region: str | Sequence[Sequence[float]] | None,
    resolution: int | Sequence[int] | None,
) -> list[Axis]:
    """Seeds along each axis, from a grid of seeds or from region and resolution.

    Raises:
        UsageError: unless exactly one of these is given and valid.

    >>> grid_of("0:2:5,0:1:3,0.5", None, None)
    [(0.0, 2.0, 5), (0.0, 1.0, 3), (0.5, 0.5, 1)]
    >>> grid_of(None, "0:2,0:1,0.5", 5)
    [(0.0, 2.0, 5), (0.0, 1.0, 3), (0.5, 0.5, 1)]
    """
    if seeds_grid is not None:
        if region is not None or resolution is not None:
            raise UsageError("a grid of seeds excludes region and resolution; give one of these ways to place seeds")
        rows = _rows(seeds_grid, "grid of seeds", "0:2:200,0:1:100,0.5", most=3)
        return [_axis(row) for row in rows]
    if region is None or resolution is None:
        raise UsageError("no seeds are given; give a grid of seeds, or a region and a resolution")
    spans = [(row[0], row[-1]) for row in _rows(region, "region", "0:2,0:1,0.5", most=2)]
    longest = max(high - low for low, high in spans)
    if isinstance(resolution, int):
        if resolution < 2 or longest <= 0:
            raise UsageError(
                f"a resolution of {resolution} over {longest:g} is not a grid; it must be 2 or more along the longest side"
            )
        gap = longest / (resolution - 1)
        counts = [1 if high == low else max(2, round((high - low) / gap) + 1) for low, high in spans]
    else:
        counts = [int(n) for n in resolution]
    if len(counts) != len(spans):
        raise UsageError(f"the resolution has {len(counts)} numbers and the region {len(spans)} axes")
    return [(low, high, n) for (low, high), n in zip(spans, counts, strict=True)]


def box_of(within: str | Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower and higher corner of a box; text is `x,y,z:x,y,z`. In 2-D, corners have two numbers, and z covers -1 to
    1.

    >>> box_of("0,0:1,2")
    [[0.0, 0.0, -1.0], [1.0, 2.0, 1.0]]
    """
    try:
        parts = within.split(":") if isinstance(within, str) else within
        low, high = ([float(v) for v in (p.split(",") if isinstance(p, str) else p)] for p in parts)
    except ValueError:
        low, high = [], []
    if len(low) != len(high) or len(low) not in (2, 3):
        raise UsageError(f"'{within}' is not a box; write its corners like 0,0,0:1,1,1")
    return [low, high] if len(low) == 3 else [[*low, -1.0], [*high, 1.0]]


def _axis(row: Sequence[float]) -> Axis:
    if len(row) == 1:
        return row[0], row[0], 1
    if len(row) != 3 or row[2] != int(row[2]):
        raise UsageError(f"{':'.join(map(str, row))} are not seeds along an axis; write low:high:n, or one number")
    return row[0], row[1], int(row[2])


def _rows(given: str | Sequence[Sequence[float]], what: str, form: str, *, most: int) -> list[list[float]]:
    try:
        axes = [part.split(":") for part in given.split(",")] if isinstance(given, str) else list(given)
        rows = [[float(v) for v in (axis if isinstance(axis, Sequence) else (axis,))] for axis in axes]
    except (ValueError, TypeError):
        rows = []
    if len(rows) not in (2, 3) or not all(1 <= len(row) <= most for row in rows):
        raise UsageError(f"'{given}' is not a {what}; write it like {form}, along {', '.join(AXES)} (in 2-D x and y)")
    return rows
