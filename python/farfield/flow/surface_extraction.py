"""Extraction of grid surfaces into files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield.dataset.field_names import field_names
from farfield.flow.grid_surfaces import parse_surface
from farfield.results import outputs
from farfield.results.mesh import ENDINGS
from farfield.runtime.progress import Report, reporting

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset

Path = str | os.PathLike[str]


def extract_surface(
    dataset: Dataset,
    output: Path,
    *,
    surfaces: Sequence[str] | None = None,
    scalars: Sequence[str] = (),
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes grid surfaces, with fields on them, to a `.vtp`, `.npz`, `.ply` or `.glb` file.

    A `.vtp` or `.npz` has every point, and quadrilaterals. A `.ply` or `.glb` has triangles with their points and
    normals.

    Args:
        dataset: An open dataset.
        output: Name of the file.
        surfaces: `"zone1:k=1"` and so on, 1-based, or parts such as `"zone1:k=1,i=2:40"`; None for all walls.
        scalars: Fields to write.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if a zone or field does not exist.
        UsageError: if a surface is outside of its zone, or the name has a wrong ending or is one of the dataset's
            files.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.extract_surface(ff.open("demo:box"), folder + "/face.vtp", surfaces=["zone1:k=1"])["points"]
    2009
    """
    target = outputs.output_path(output, ENDINGS, "surfaces")
    listed = None if surfaces is None else [parse_surface(text).native() for text in surfaces]
    options = {"surfaces": listed, "scalars": field_names(scalars), "step": dataset._step or 0}
    outputs.check([target], dataset._source.reads())
    with reporting(progress) as report:
        found: dict[str, Any] = json.loads(
            dataset._native.run("grid_surface", json.dumps(options), output=target, progress=report)
        )
    return found
