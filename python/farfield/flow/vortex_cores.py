"""Vortex cores: lines along which a flow swirls."""

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
"""What cores are written as."""


class VortexCores(ABC):
    """What a dataset can be asked for about the vortices in it."""

    _native: _core.Dataset
    _source: Source

    @property
    @abstractmethod
    def _step(self) -> int | None:
        """The time step that is selected."""

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

        Lines begin and end at faces of cells; cells with a blanked-out corner, and corners at which there is no gradient, are left
        out. They go with the flow. Each has `reason` and `reason_backward`, why it ends at its last and its first point: `left`
        (the border of the zones), `hole`, `stopped` (it is no core any more, or is filtered out), `closed`, `failed`.
        Where zones overlap each has its own lines; where they abut lines go on. Arrays beside the scalars: `strength`;
        `angle` between line and velocity in degrees; of Levy's `helicity_normalized`, 1 or -1 by the sense in which it turns.

        Args:
            vectors: The velocity.
            method: `"sujudi-haimes"`: velocity is parallel to its gradient times itself, and the gradient has complex eigenvalues,
                whose imaginary part is the strength. `"levy"`: velocity is parallel to vorticity, whose magnitude is the
                strength. `"lambda2"`: valley lines of lambda2 where it is negative; strength is -lambda2. The first two find
                no core that nothing flows along.
            min_strength: Points have a strength above that.
            min_length: Lines are as long at least.
            max_angle: Largest `angle`; lines are cut where it is larger.
            scalars: Fields sampled at the points.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such method or field.
            UsageError: if an option makes no sense, or the data lie in a plane.

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
    """Options as the extension takes them."""
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
    """Vortex cores straight into a `.vtp`, `.npz`, `.csv` or `.parquet` file, however many; returns what
    `extract vortex-cores --json` prints.

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
        found = json.loads(dataset._native.extract_cores(options, target, progress=report))
    if not isinstance(found, dict):
        raise UsageError("the extension gave no object")
    return found
