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

if TYPE_CHECKING:
    from farfield import _native

ENDINGS = (".vtp", ".npz", ".parquet", ".pvd")
"""Of files of lines."""
MOST_STEPS = 2**32 - 1
"""`max_steps` where there is to be no bound: steps are counted in 32 bits, and so many points take 200 GB."""


OWN = ("points", "time", "zone", "offsets", "seed", "reason", "reason_backward", "line_time", "line_step")
"""What every line has, or those of some kinds, by the names that files have for it."""


class Lines:
    """Lines in memory: `points[offsets[n]:offsets[n + 1]]` is line n, one line a seed, in seed order; where several times
    were asked for, a seed has a line at each, one after the other.

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
        # They may be far larger than what else goes from process to process.
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
        """The points of each line."""
        for begin, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.points[begin:end]

    @property
    def points(self) -> NDArray[np.float64]:
        """Positions, (N, 3)."""
        return self._native.points

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where lines begin, (L + 1,)."""
        return self._native.offsets

    @functools.cached_property
    def reason(self) -> NDArray[np.str_]:
        """Why each line ended, (L,): length, steps, time, speed, wall, left, hole, failed or points."""
        return np.array(self._native.reason, dtype=np.str_)

    @functools.cached_property
    def reason_backward(self) -> NDArray[np.str_] | None:
        """Why each line ended at its first point, (L,), where it was traced in both directions; `reason` is of its last.

        `.npz` and `.vtp` files name it so too.
        """
        reasons = self._native.reason_backward
        return None if reasons is None else np.array(reasons, dtype=np.str_)

    @property
    def time(self) -> NDArray[np.float64]:
        """Of streamlines the integration time since the seed, negative before it, else the dataset's time; (N,)."""
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
        """Number of each line's seed, (L,); of timelines that of the curve."""
        return self._native.seed

    @functools.cached_property
    def line_time(self) -> NDArray[np.float64] | None:
        """When each line is, (L,), where a seed has a line at each of several times."""
        return self._native.line_time

    @functools.cached_property
    def line_step(self) -> NDArray[np.int64] | None:
        """Of which time step each line is, (L,), where a seed has a line of each of several."""
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
        """Counts, and what the run read and held."""
        found: dict[str, Any] = json.loads(self._native.summary)
        return found

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field sampled along the lines, (N,) or (N, components); or, by its name in files, what every line has, such as
        `"time"` and `"seed"`.

        Raises:
            UnknownName: if it was not sampled.
        """
        found: NDArray[Any] | None = self._arrays.get(name)
        if found is None and name in OWN:
            found = getattr(self, name)
        if found is None and name.removeprefix("field_") in OWN:
            # Files have a field of such a name under this one.
            found = self._arrays.get(name.removeprefix("field_"))
        if found is None:
            have = [*self._arrays, *(own for own in OWN if getattr(self, own) is not None)]
            raise UnknownName(
                f"'{name}' was not sampled along these lines; there are: {', '.join(have)}. Name it in scalars=[...]"
            )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `.vtp`, `.npz`, `.parquet` (a row a point) or, of lines over several times, `.pvd` (with a folder of that name
        that has a `.vtp` a time), by the suffix.

        Raises:
            UsageError: for any other suffix.
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
        """A `pyvista.PolyData`; needs the `pyvista` extra. Lines without points are left out; `seed` of a cell is the number
        of its seed.

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
        try:
            import pyvista  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ImportError("to_pyvista needs pyvista: pip install 'farfield[pyvista]'") from error
        lengths = np.diff(self.offsets)
        kept = np.flatnonzero(lengths > 0)
        mesh = pyvista.PolyData()
        mesh.points = self.points
        # Before the numbers of each line's points, how many they are.
        mesh.lines = np.insert(np.arange(len(self.points)), self.offsets[:-1][kept], lengths[kept])
        for name, values in self._arrays.items():
            # Named as in files, where no field hides what every line has.
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
