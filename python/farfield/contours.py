"""Isosurfaces and cutting planes, as files of triangles."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield import outputs
from farfield.errors import UsageError
from farfield.names import field_names
from farfield.progress import Report, reporting

if TYPE_CHECKING:
    from farfield.dataset import Dataset
    from farfield.volumedata import VolumeDataset

MESHES = (".vtp", ".ply", ".glb", ".npz")
AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def extract_isosurface(
    data: Dataset | VolumeDataset,
    output: str | os.PathLike[str],
    *,
    field: str,
    values: Sequence[float],
    scalars: Sequence[str] = (),
    normals: bool = True,
    near: Sequence[float] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes where a field has some values to a `.vtp`, `.ply`, `.glb` or `.npz`.

    Args:
        data: An open dataset or volume; of a volume the level that it is, finest first.
        output: The file.
        field: A scalar field, a derived one or an expression too; of a volume a channel.
        values: One or more, in the field's units.
        scalars: Fields sampled at the points.
        normals: Whether points have normals, which point to lower values.
        near: A point: only the surface that is nearest to it, and what hangs together with that.
        progress: As in `farfield.open`.

    Returns:
        {"points", "triangles", "bounds", "partial", "failed_pages", "output", "bytes_written", "stats": STATS}.

    Raises:
        UnknownName: if there is no such field.
        UsageError: if an argument makes no sense.

    >>> import tempfile, farfield as ff
    >>> from farfield.contours import extract_isosurface
    >>> with tempfile.TemporaryDirectory() as folder, ff.open("demo:box") as ds:
    ...     extract_isosurface(ds, folder + "/fast.ply", field="velocity_magnitude", values=[0.5])["triangles"] > 0
    True
    """
    listed = [float(v) for v in values]
    if not listed:
        raise UsageError("an isosurface needs a value")
    what: dict[str, Any] = {"field": field, "values": listed}
    if near is not None:
        what["near"] = [float(v) for v in near]
        if len(what["near"]) != 3:
            raise UsageError(f"near is three numbers, not {len(what['near'])}")
    return _extract(data, output, what, scalars, normals, progress)


def extract_plane(
    data: Dataset | VolumeDataset,
    output: str | os.PathLike[str],
    *,
    normal: str | Sequence[float] = "z",
    origin: Sequence[float] | None = None,
    scalars: Sequence[str] = (),
    normals: bool = False,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes a plane through a dataset, as triangles with fields at their corners, to the same kinds of files.

    Args:
        data: An open dataset or volume.
        output: The file.
        normal: `"x"`, `"y"`, `"z"`, or three numbers.
        origin: A point of the plane; None: the middle of the data.
        scalars: Fields sampled at the points.
        normals: Whether points have normals.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if there is no such field.
        UsageError: if an argument makes no sense.
    """
    across = AXES.get(normal) if isinstance(normal, str) else tuple(float(v) for v in normal)
    if across is None or len(across) != 3 or not any(across):
        raise UsageError(f"a plane's normal is x, y, z or three numbers that are not all 0, not {normal}")
    through = middle(data, progress) if origin is None else [float(v) for v in origin]
    if len(through) != 3:
        raise UsageError(f"a plane's origin is three numbers, not {len(through)}")
    return _extract(data, output, {"origin": through, "normal": across}, scalars, normals, progress)


def middle(data: Dataset | VolumeDataset, progress: bool | Report | None = None) -> list[float]:
    """The middle of the box of all zones, or of a volume."""
    info = data.info()
    box = info.get("box")
    if box is None:
        zones = info["zones"]
        if any(z.get("box") is None for z in zones):
            with reporting(progress) as report:
                zones = json.loads(data._native.look(step=0, progress=report))["zones"]  # type: ignore[union-attr]
        boxes = [z["box"] for z in zones if z.get("box")]
        if not boxes:
            raise UsageError("no point of the dataset has coordinates that are numbers; give an origin")
        box = [
            [min(b[0][n] for b in boxes) for n in range(3)],
            [max(b[1][n] for b in boxes) for n in range(3)],
        ]
    return [0.5 * (a + b) for a, b in zip(*box, strict=True)]


def _extract(
    data: Any,
    output: str | os.PathLike[str],
    what: Mapping[str, Any],
    scalars: Sequence[str],
    normals: bool,
    progress: bool | Report | None,
) -> dict[str, Any]:
    from farfield.runs import output_path
    from farfield.volumedata import VolumeDataset

    target = output_path(output, MESHES, "surfaces")
    options = {**what, "scalars": field_names(scalars), "normals": normals, "step": data._step or 0}
    if isinstance(data, VolumeDataset):
        options["level"] = data._level
        read = data._description.reads
    else:
        read = data._source.reads()
    outputs.check([target], read)
    with reporting(progress) as report:
        found: dict[str, Any] = json.loads(data._native.extract_contour(json.dumps(options), target, progress=report))
    return found
