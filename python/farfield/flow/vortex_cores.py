"""Vortex cores: the axes of swirling flow."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield import _core
from farfield.dataset.field_names import field_names
from farfield.errors import UsageError
from farfield.results import outputs
from farfield.results.lines import Lines
from farfield.runtime.progress import Report, reporting

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.sources.source import Source

METHODS = ("sujudi-haimes", "levy", "lambda2")
FILES = (".vtp", ".npz", ".csv", ".parquet")
"""File formats of vortex cores."""


class VortexCores(ABC):
    """Vortex cores of a dataset."""

    _native: _core.Dataset
    _source: Source

    @property
    @abstractmethod
    def _step(self) -> int | None:
        """Number of the selected time step."""

    def vortex_cores(
        self,
        vectors: str = "velocity",
        *,
        method: str = "sujudi-haimes",
        min_strength: float = 0.0,
        min_length: float = 0.0,
        max_angle: float | None = None,
        scalars: Sequence[str] = (),
        progress: bool | Report | None = None,
    ) -> Lines:
        """Extracts vortex cores by parallel vectors (Peikert and Roth 1999).

        Lines begin and end at faces of cells and follow the flow. Cells with a blanked corner, and corners without a gradient, are
        omitted. `reason` and `reason_backward` hold why a line ends at its last and first point: `left` (the border of the zones),
        `hole`, `stopped` (no core any more, or filtered out), `closed` or `failed`. Overlapping zones have lines of their own;
        across abutting zones lines continue. Further arrays: `strength`; `angle` between line and velocity in degrees; for Levy's
        method `helicity_normalized`, 1 or -1 by the sense of rotation.

        Args:
            vectors: The velocity field.
            method: `"sujudi-haimes"`: velocity is parallel to its gradient times itself, and the gradient has complex
                eigenvalues; their imaginary part is the strength. `"levy"`: velocity is parallel to vorticity; its
                magnitude is the strength. `"lambda2"`: valley lines of negative lambda2; strength is -lambda2. The
                first two omit cores without flow along them.
            min_strength: Strength that points exceed.
            min_length: Smallest length of a line.
            max_angle: Largest `angle` in degrees; lines are cut where it is exceeded.
            scalars: Fields sampled at the points.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such method or field.
            UsageError: if an option is invalid, or if the data are planar.

        >>> import farfield as ff
        >>> cores = ff.open("demo:box").vortex_cores(scalars=["density"])
        >>> sorted(cores.names)
        ['angle', 'density', 'strength']
        """
        options = core_options(vectors, method, min_strength, min_length, max_angle, scalars, self._step)
        with reporting(progress) as report:
            return Lines(self._native.vortex_cores(options, progress=report))


def core_options(
    vectors: str,
    method: str,
    min_strength: float,
    min_length: float,
    max_angle: float | None,
    scalars: Sequence[str],
    step: int | None,
) -> str:
    """Options in the form for the extension."""
    return json.dumps(
        {
            "method": method,
            "field": vectors,
            "step": step or 0,
            "scalars": field_names(scalars),
            "min_strength": float(min_strength),
            "min_length": float(min_length),
            "max_angle": None if max_angle is None else float(max_angle),
        }
    )


def extract_cores(
    dataset: Dataset,
    output: str | os.PathLike[str],
    *,
    vectors: str = "velocity",
    method: str = "sujudi-haimes",
    min_strength: float = 0.0,
    min_length: float = 0.0,
    max_angle: float | None = None,
    scalars: Sequence[str] = (),
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes vortex cores directly to a `.vtp`, `.npz`, `.csv` or `.parquet` file, without a bound on their number;
    returns the JSON of `extract vortex-cores --json`.

    Arguments are those of `Dataset.vortex_cores`.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.extract_cores(ff.open("demo:box"), folder + "/cores.vtp", method="levy")["partial"]
    False
    """
    target = outputs.output_path(output, FILES, "vortex cores")
    options = core_options(vectors, method, min_strength, min_length, max_angle, scalars, dataset._step)
    outputs.check([target], dataset._source.reads())
    with reporting(progress) as report:
        found = json.loads(dataset._native.run("vortex_cores", options, output=target, progress=report))
    if not isinstance(found, dict):
        raise UsageError("the extension gave no object")
    return found
