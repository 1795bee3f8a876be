"""Relatives of the four data sets of Cox and Ellsworth (1997), and their traces."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench import common, data, series
from farfield_bench.data import Array, Flow
from farfield_bench.result import Recorder
from farfield_bench.series import Series

TAPER_DIMS: data.Dims = (65, 64, 32)
TAPER_STEPS = 60
TAPER_SPAN = 14.75
"""Span of the real one: 60 steps, 0.25 apart."""
GRID = ("xyz", "iblank")
READ = (*GRID, "density", "momentum")
"""Arrays that a trace of velocity reads."""


@dataclass(frozen=True)
class Kin:
    """A data set, and its trace."""

    name: str
    """Name in file names."""
    title: str
    about: str
    flow: Flow | Series
    seeds: str
    """A file of positions."""
    how: dict[str, Any]
    """Options of the trace for `farfield_bench._native.bench`."""
    options: list[str]
    """Options of the trace for the command line."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of one time step of the arrays read, by kind of array."""

    @property
    def unsteady(self) -> bool:
        """Whether it has time steps."""
        return isinstance(self.flow, Series)

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return self.flow.paths

    @property
    def source(self) -> str:
        """As the command line takes it."""
        return self.flow.source

    @property
    def files(self) -> dict[str, Any]:
        """Options of `arms.inside`."""
        steps = [str(q) for q in self.flow.steps] if isinstance(self.flow, Series) else [str(self.flow.q)]
        return {"source": str(self.flow.grid), "q": steps}

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.paths)

    @property
    def spec(self) -> dict[str, Any]:
        """The trace."""
        return {"seeds": self.seeds, **self.how}

    @property
    def tenths(self) -> Iterator[dict[str, Any]]:
        """The same trace, each with a tenth of the seeds."""
        points = np.load(self.seeds)
        for n, part in enumerate(np.array_split(points, 10)):
            path = Path(self.seeds).with_name(f"{Path(self.seeds).stem}-{n}.npy")
            np.save(path, part)
            yield {**self.spec, "seeds": str(path)}

    def shares(self, arrays: dict[str, Any]) -> tuple[float, float]:
        """Bytes of the pages touched over bytes of the arrays read: of the grid, and of the solution at all time steps.
        With the pages' edges, a share may be slightly above 1.
        """
        steps = len(self.flow.steps) if isinstance(self.flow, Series) else 1
        touched = {True: 0, False: 0}
        for kind, of in _kinds(arrays):
            touched[kind in GRID] += of["bytes"]
        grid = sum(size for kind, size in self.sizes.items() if kind in GRID)
        solution = steps * sum(size for kind, size in self.sizes.items() if kind not in GRID)
        return touched[True] / grid, touched[False] / solution

    def by_step(self, arrays: dict[str, Any]) -> list[float]:
        """Shares of the solution of each time step."""
        touched: dict[str, int] = {}
        for kind, of in _kinds(arrays):
            for step, size in of["steps"].items() if kind not in GRID else ():
                touched[step] = touched.get(step, 0) + size
        solution = sum(size for kind, size in self.sizes.items() if kind not in GRID)
        return [size / solution for size in touched.values()]


def _kinds(arrays: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Arrays with data of a zone, by their names without the zone: no boxes, no shard indexes."""
    for name, of in arrays.items():
        zone, _, kind = name.partition("/")
        if not zone.startswith("_") and "/" not in kind and kind in READ:
            yield kind, of


def kin(recorder: Recorder) -> Iterator[Kin]:
    """The four, made one after the other; in quick runs an unsteady and a steady one of them.

    Raises:
        DataError: if files cannot be written.
    """
    quick, work = recorder.quick, recorder.work
    yield _cylinder(recorder)
    # Zones of 64 x 64 x 32 and of 128 x 128 x 64 points are multiples of pages of all sizes.
    few = (127, 127, 63) if quick else (255, 255, 127)
    zones = data.single(work, few, cuts=(2, 2, 2))
    yield _steady(recorder, "zones", "steady, eight zones", zones, few, 30 if quick else 150)
    if quick:
        return
    dims, steps = (127, 127, 64), 16
    moving = series.make(work, dims, steps, cuts=(2, 2, 1), span=series.SPAN * 0.8)
    cloud = series.cloud(dims, 1000)
    yield _unsteady(recorder, "moving", "unsteady, four zones", moving, cloud, f"{steps} time steps")
    many = (512, 512, 256)
    large = data.single(work, many)
    yield _steady(recorder, "large", "large, steady", large, many, 300)


def _points(dims: data.Dims) -> int:
    return dims[0] * dims[1] * dims[2]


def _sizes(points: int) -> dict[str, int]:
    """Single precision. Points of shared faces count once, which is too little by a per cent or two."""
    return {"xyz": 12 * points, "density": 4 * points, "momentum": 12 * points}


def _steady(recorder: Recorder, name: str, title: str, flow: Flow, dims: data.Dims, count: int) -> Kin:
    seeds = common.seeds_file(recorder, f"paging-{name}", data.random_seeds(dims, count))
    how = {"max_length": 1.0, "max_steps": 10_000}
    options = ["--max-length", "1", "--max-steps", "10000"]
    about = f"{' x '.join(map(str, dims))} points, {count:,} streamlines"
    return Kin(name, title, about, flow, seeds, how, options, _sizes(_points(dims)))


def _unsteady(recorder: Recorder, name: str, title: str, flow: Series, seeds: Array, words: str) -> Kin:
    file = common.seeds_file(recorder, f"paging-{name}", seeds)
    how = {"kind": "pathline", "direction": "forward", "max_steps": 1_000_000, "points": "steps"}
    options = ["--kind", "pathline", "--points", "steps", "--max-steps", "1000000"]
    about = f"{' x '.join(map(str, flow.dims))} points, {words}, {len(seeds):,} pathlines"
    return Kin(name, title, about, flow, file, how, options, _sizes(_points(flow.dims)))


def _cylinder(recorder: Recorder) -> Kin:
    """The real one if available; otherwise, and in quick runs, a made flow."""
    title = "tapered cylinder"
    archive = Path(os.environ.get("FARFIELD_DATA", ".")) / "plot3d" / "taper.tar.xz"
    if recorder.quick:
        here, why = False, "a made flow stands for it in quick runs"
    elif "FARFIELD_DATA" not in os.environ or not archive.exists():
        here = False
        why = "FARFIELD_DATA does not name a folder that has plot3d/taper.tar.xz; a made flow of its size stands for it"
    else:
        here, why = True, ""
    recorder.condition("the real tapered cylinder", here, why)
    if here:
        folder = recorder.work / "taper"
        if not (folder / "taper" / "taper_059.q").exists():
            with tarfile.open(archive) as files:
                files.extractall(folder, filter="data")
        steps = tuple(sorted((folder / "taper").glob("taper_*.q")))
        flow: Series = Cylinder(folder / "taper" / "taper.xyz", steps, TAPER_DIMS, TAPER_SPAN)
        words = f"{len(steps)} time steps, the real one"
        seeds = _wake(200)
    else:
        dims, count, many = (TAPER_DIMS, 8, 40) if recorder.quick else (TAPER_DIMS, TAPER_STEPS, 200)
        flow = series.make(recorder.work, dims, count, span=TAPER_SPAN)
        words, seeds = f"{count} time steps, made", series.cloud(dims, many)
    return _unsteady(recorder, "cylinder", title, flow, seeds, words)


class Cylinder(Series):
    """The real tapered cylinder, with its own names of files."""

    @property
    def source(self) -> str:
        """As the command line takes it."""
        return f"{self.grid}+q={self.grid.parent}/taper_*.q"


def _wake(count: int) -> Array:
    """Points along the cylinder's span, two diameters behind the axis, where vortices have formed."""
    heights = np.linspace(0.05, 0.95, count) * 16.0
    diameters = 1 - 0.5 * heights / 16.0
    sides = np.where(np.arange(count) % 2, 0.25, -0.25) * diameters
    points: Array = np.stack([2.0 * diameters, sides, heights], axis=-1)
    return points
