"""Traced lines as NumPy arrays."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from farfield.errors import UnknownName, UsageError
from farfield.results.outputs import output_path
from farfield.runtime.optional_libraries import need_pyvista

if TYPE_CHECKING:
    from farfield import _native

ENDINGS = (".vtp", ".npz", ".parquet", ".pvd")
"""Endings of files of lines."""
MOST_STEPS = 2**32 - 1
"""The number of steps for no bound: steps are counted in 32 bits, and so many points take 200 GB."""


OWN = ("points", "time", "zone", "offsets", "seed", "reason", "reason_backward", "line_time", "line_step")
"""Names in files of the arrays that all lines, or all of some kinds, have."""


class Lines:
    """Lines in memory, in the order of their seeds. Line n is `points[offsets[n]:offsets[n + 1]]`. With several
    times, a seed has one line per time, consecutively.

    >>> import farfield as ff
    >>> lines = ff.open("demo:box").streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.5, scalars=["density"])
    >>> lines.points.shape == (len(lines["density"]), 3)
    True
    """

    def __init__(self, native: _native.Lines) -> None:
        self._native = native

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"'{name}' of lines cannot be set: they are what was traced")
        super().__setattr__(name, value)

    def __reduce__(self) -> NoReturn:
        # A pickle of lines may be too large to send between processes.
        raise UsageError(
            "lines are not pickled or copied: save them with lines.save('lines.npz') and pass the name of that file"
        )

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {why}" for why, n in self.summary["reasons"].items())
        sampled = f"sampled: {', '.join(self.names)}" if self.names else ""
        said = [f"{len(self)} lines, {len(self.points)} points", counts, sampled]
        return f"<farfield.Lines: {'; '.join(filter(None, said))}>"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        """Iterates over the points of each line."""
        for begin, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.points[begin:end]

    @property
    def points(self) -> NDArray[np.float64]:
        """Positions of all points, (N, 3)."""
        return self._native.points

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Index of the first point of each line, and the number of points, (L + 1,)."""
        return self._native.offsets

    @functools.cached_property
    def reason(self) -> NDArray[np.str_]:
        """Reason of the end of each line, (L,): length, steps, time, speed, wall, left, hole, failed or points."""
        return np.array(self._native.reason, dtype=np.str_)

    @functools.cached_property
    def reason_backward(self) -> NDArray[np.str_] | None:
        """Reason of the end at each line's first point, (L,), for lines in both directions; `reason` is for the last
        point.

        `.npz` and `.vtp` files use the same name.
        """
        reasons = self._native.reason_backward
        return None if reasons is None else np.array(reasons, dtype=np.str_)

    @property
    def time(self) -> NDArray[np.float64]:
        """Integration time since the seed for streamlines, negative before it; else the dataset's time; (N,)."""
        return self._native.time

    @property
    def zone(self) -> NDArray[np.int32]:
        """Number of the zone at each point, (N,); the first zone is 1."""
        return self._native.zone

    @functools.cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self._native.arrays

    @functools.cached_property
    def seed(self) -> NDArray[np.int64]:
        """Number of each line's seed, (L,); of timelines, number of the curve."""
        return self._native.seed

    @functools.cached_property
    def line_time(self) -> NDArray[np.float64] | None:
        """Time of each line, (L,), if a seed has lines at several times."""
        return self._native.line_time

    @functools.cached_property
    def line_step(self) -> NDArray[np.int64] | None:
        """Time step of each line, (L,), if a seed has lines in several steps."""
        return self._native.line_step

    @property
    def names(self) -> list[str]:
        """Names of the sampled fields."""
        return list(self._arrays)

    @property
    def units(self) -> dict[str, str]:
        """Unit of each sampled field."""
        return self._native.units

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """Counts, and statistics of the run's reads and memory."""
        found: dict[str, Any] = json.loads(self._native.summary)
        return found

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field sampled along the lines, (N,) or (N, components). Or an array of every line by its name in files,
        such as `"time"` and `"seed"`.

        Raises:
            UnknownName: if the field was not sampled.
        """
        found: NDArray[Any] | None = self._arrays.get(name)
        if found is None and name in OWN:
            found = getattr(self, name)
        if found is None and name.removeprefix("field_") in OWN:
            # Files prefix a field's name that equals an array of every line.
            found = self._arrays.get(name.removeprefix("field_"))
        if found is None:
            have = [*self._arrays, *(own for own in OWN if getattr(self, own) is not None)]
            raise UnknownName(
                f"'{name}' was not sampled along these lines; there are: {', '.join(have)}. Name it in scalars=[...]"
            )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `.vtp`, `.npz` or `.parquet` (a row per point), by the ending. Lines at several times also go to
        `.pvd`, with a folder of that name and a `.vtp` per time.

        Raises:
            UsageError: for any other ending.
            DataError: if the file cannot be written.

        >>> import os, tempfile, farfield as ff
        >>> lines = ff.open("demo:box").streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lines.save(folder + "/lines.vtp")
        ...     os.listdir(folder)
        ['lines.vtp']
        """
        self._native.save(output_path(path, ENDINGS, "lines"))

    def to_pyvista(self) -> Any:
        """A `pyvista.PolyData`; needs the `pyvista` extra. Lines without points are omitted; `seed` of a cell is the
        number of its seed.

        Raises:
            ImportError: if pyvista is not installed.

        >>> import farfield as ff
        >>> lines = ff.open("demo:box").streamlines(seeds=[(0.7, 0.5, 0.3), (9, 9, 9)], max_length=0.5, scalars=["density"])
        >>> mesh = lines.to_pyvista()
        >>> mesh.n_lines, mesh.n_points == len(lines.points), mesh.cell_data["seed"].tolist(), mesh.cell_data["reason"].tolist()
        (1, True, [0], ['length'])
        >>> mesh.point_data.keys()
        ['density', 'time', 'zone']
        """
        pyvista = need_pyvista()
        lengths = np.diff(self.offsets)
        kept = np.flatnonzero(lengths > 0)
        mesh = pyvista.PolyData()
        mesh.points = self.points
        # PyVista expects the number of points before the indices of each line.
        mesh.lines = np.insert(np.arange(len(self.points)), self.offsets[:-1][kept], lengths[kept])
        for name, values in self._arrays.items():
            # Names as in files: a field named like an array of every line gets a prefix.
            mesh.point_data[f"field_{name}" if name in ("time", "zone") else name] = values
        mesh.point_data["time"] = self.time
        mesh.point_data["zone"] = self.zone
        mesh.cell_data["seed"] = self.seed[kept]
        mesh.cell_data["reason"] = self.reason[kept]
        for name, per_line in (("line_time", self.line_time), ("line_step", self.line_step)):
            if per_line is not None:
                mesh.cell_data[name] = per_line[kept]
        if self.reason_backward is not None:
            mesh.cell_data["reason_backward"] = self.reason_backward[kept]
        return mesh
