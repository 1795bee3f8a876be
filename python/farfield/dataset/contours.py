"""Isosurfaces and cutting planes, in memory or as files of triangles."""

from __future__ import annotations

import json
import math
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farfield.dataset.field_names import field_names
from farfield.errors import UsageError
from farfield.results import outputs
from farfield.results.mesh import ENDINGS as MESHES
from farfield.results.mesh import Mesh
from farfield.runtime.progress import Report, reporting

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


class Surfaces(ABC):
    """Methods of an open dataset that make triangles."""

    _native: Any

    @property
    @abstractmethod
    def _name(self) -> str:
        """The source as the caller gave it."""

    @property
    @abstractmethod
    def _step(self) -> int | None:
        """Number of the selected time step."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """The JSON of `farfield info --json`."""

    @abstractmethod
    def _reads(self) -> list[str]:
        """Files that the dataset reads."""

    @abstractmethod
    def _counted(self, found: dict[str, Any]) -> dict[str, Any]:
        """Adds to a result of the extension the bytes that Python read before the extension opened the files."""

    @abstractmethod
    def _sampled(self) -> list[str]:
        """Default fields of a plane."""

    def _channel_names(self) -> list[str]:
        """Channels of a volume or its view; empty for a dataset of zones."""
        return []

    def _contour_options(self) -> dict[str, Any]:
        """Further options of the extension."""
        return {}

    def contour(
        self,
        isosurfaces: Sequence[float],
        scalars: str | None = None,
        *,
        fields: Sequence[str] = (),
        normals: bool = True,
        near: Sequence[float] | None = None,
        progress: bool | Report | None = None,
    ) -> Mesh:
        """Extracts isosurfaces into memory. The memory limit bounds pages and intermediate data, not the result.

        Args:
            isosurfaces: One or more values, in the field's units.
            scalars: A scalar field, derived field or expression; of a volume a channel. None: the only channel of a
                volume or view.
            fields: Fields sampled at the points (vectors too).
            normals: Whether points have normals, which point to lower values.
            near: A point: only the surface nearest to it, and all that is connected to that surface.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument is invalid.
            MemoryLimitError: if the memory limit does not hold a block of the surface.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     fast = ds.contour([0.5], scalars="velocity_magnitude", fields=["density"])
        >>> fast.names, fast.partial
        (['density'], False)
        """
        if isinstance(isosurfaces, (str, int, float)):
            raise UsageError(f"isosurfaces are a list of values, as in [{isosurfaces}]")
        named = self._channel_names() if scalars is None else [scalars]
        if len(named) != 1:
            raise UsageError(f"say which field has the values, as in scalars={(named or ['density'])[0]!r}")
        options = {"field": named[0], "values": isosurfaces, "scalars": fields, "normals": normals, "near": near}
        return _in_memory(extract_isosurface, self, options, progress)

    def slice(
        self,
        normal: str | Sequence[float] = "x",
        origin: Sequence[float] | None = None,
        *,
        fields: Sequence[str] | None = None,
        normals: bool = False,
        progress: bool | Report | None = None,
    ) -> Mesh:
        """Cuts the data by a plane into triangles with fields at their corners. They face along the normal; but if the
        plane is an outer face with all data opposite to the normal, against it.

        Args:
            normal: `"x"`, `"y"`, `"z"`, or three numbers.
            origin: A point of the plane; None: the middle of the data.
            fields: Fields sampled at the points. None: those that every zone has stored, or all channels of a volume or
                view.
            normals: Whether points have normals.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument is invalid.
            MemoryLimitError: if the memory limit does not hold a block of the surface.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     cut = ds.slice(normal="z", origin=(0, 0, 0.1))
        >>> cut.names, round(float(abs(cut.points[:, 2] - 0.1).max()), 6)
        (['density', 'momentum', 'energy'], 0.0)
        """
        taken = self._sampled() if fields is None else fields
        options = {"normal": normal, "origin": origin, "scalars": taken, "normals": normals}
        return _in_memory(extract_plane, self, options, progress)


def _in_memory(extract: Any, data: Any, options: dict[str, Any], progress: bool | Report | None) -> Mesh:
    """Makes the mesh from a file of arrays, so that the memory limit bounds the extraction."""
    with tempfile.TemporaryDirectory(prefix="farfield-") as folder:
        path = os.path.join(folder, "surface.npz")
        found = extract(data, path, progress=progress, **options)
        with np.load(path, allow_pickle=False) as arrays:
            made = {name: arrays[name] for name in arrays.files}
    return Mesh(made, {key: value for key, value in found.items() if key not in ("output", "bytes_written")})


def extract_isosurface(
    data: Surfaces,
    output: str | os.PathLike[str],
    *,
    field: str,
    values: Sequence[float],
    scalars: Sequence[str] = (),
    normals: bool = True,
    near: Sequence[float] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes isosurfaces of a field to a `.vtp`, `.ply`, `.glb` or `.npz`.

    Args:
        data: An open dataset or volume; of a volume its selected level.
        output: Name of the file.
        field: A scalar field, derived field or expression; of a volume a channel.
        values: One or more, in the field's units.
        scalars: Fields sampled at the points.
        normals: Whether points have normals, which point to lower values.
        near: A point: only the surface nearest to it, and all that is connected to that surface.
        progress: As in `farfield.open`.

    Returns:
        {"points", "triangles", "bounds", "partial", "failed_pages", "output", "bytes_written", "stats": STATS}.

    Raises:
        UnknownName: if there is no such field.
        UsageError: if an argument is invalid.

    >>> import tempfile, farfield as ff
    >>> from farfield.dataset.contours import extract_isosurface
    >>> with tempfile.TemporaryDirectory() as folder, ff.open("demo:box") as ds:
    ...     extract_isosurface(ds, folder + "/fast.ply", field="velocity_magnitude", values=[0.5])["triangles"] > 0
    True
    """
    listed = _finite("an isosurface's value", values)
    if not listed:
        raise UsageError("an isosurface needs a value")
    what: dict[str, Any] = {"field": field, "values": listed}
    if near is not None:
        what["near"] = _finite("near", near)
        if len(what["near"]) != 3:
            raise UsageError(f"near is three numbers, not {len(what['near'])}")
    return _extract(data, output, what, scalars, normals, progress)


def extract_plane(
    data: Surfaces,
    output: str | os.PathLike[str],
    *,
    normal: str | Sequence[float] = "z",
    origin: Sequence[float] | None = None,
    scalars: Sequence[str] = (),
    normals: bool = False,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes a plane through a dataset, as triangles with fields at their corners, in the same formats.

    A plane along an outer face of the data gives triangles whichever side the data are on, as in pictures.

    Args:
        data: An open dataset or volume.
        output: Name of the file.
        normal: `"x"`, `"y"`, `"z"`, or three numbers.
        origin: A point of the plane; None: the middle of the data.
        scalars: Fields sampled at the points.
        normals: Whether points have normals.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if there is no such field.
        UsageError: if an argument is invalid.
    """
    across = AXES.get(normal) if isinstance(normal, str) else tuple(_finite("a plane's normal", normal))
    if across is None or len(across) != 3 or not any(across):
        raise UsageError(f"a plane's normal is x, y, z or three numbers that are not all 0, not {normal}")
    through = middle(data, progress) if origin is None else _finite("a plane's origin", origin)
    if len(through) != 3:
        raise UsageError(f"a plane's origin is three numbers, not {len(through)}")
    found = _extract(data, output, {"origin": through, "normal": across}, scalars, normals, progress)
    if found["triangles"] == 0 and not found["partial"]:
        # Points in the plane count as before it, opposite to the normal. With all data there, nothing is cut: turn the
        # normal.
        turned = tuple(-v for v in across)
        found = _extract(data, output, {"origin": through, "normal": turned}, scalars, normals, progress)
    return found


def _finite(what: str, numbers: Sequence[float]) -> list[float]:
    """Converts numbers to finite floats, since JSON has no others."""
    listed = [float(v) for v in numbers]
    for v in listed:
        if not math.isfinite(v):
            raise UsageError(f"{what} is made of finite numbers, not {v}")
    return listed


def middle(data: Surfaces, progress: bool | Report | None = None) -> list[float]:
    """The middle of the box of all zones or of a volume."""
    info = data.info()
    found = info.get("box")
    if found is None:
        zones = info["zones"]
        if any(z.get("box") is None for z in zones):
            with reporting(progress) as report:
                zones = json.loads(data._native.look(step=0, progress=report))["zones"]
        found = joined([z["box"] for z in zones])
        if found is None:
            raise UsageError("no point of the dataset has coordinates that are numbers; give an origin")
    return [0.5 * (a + b) for a, b in zip(*found, strict=True)]


def joined(boxes: Sequence[Sequence[Sequence[float]] | None]) -> list[list[float]] | None:
    """The box around all boxes that are not None; None if there is none.

    >>> joined([[[0.0, 1.0], [2.0, 3.0]], None, [[1.0, 0.0], [4.0, 2.0]]])
    [[0.0, 0.0], [4.0, 3.0]]
    """
    there = [box for box in boxes if box]
    if not there:
        return None
    low = [min(axis) for axis in zip(*(box[0] for box in there), strict=True)]
    high = [max(axis) for axis in zip(*(box[1] for box in there), strict=True)]
    return [low, high]


def _extract(
    data: Surfaces,
    output: str | os.PathLike[str],
    what: Mapping[str, Any],
    scalars: Sequence[str],
    normals: bool,
    progress: bool | Report | None,
) -> dict[str, Any]:
    target = outputs.output_path(output, MESHES, "surfaces")
    options = {**what, "scalars": field_names(scalars), "normals": normals, "step": data._step or 0}
    options |= data._contour_options()
    outputs.check([target], data._reads())
    with reporting(progress) as report:
        try:
            found: dict[str, Any] = json.loads(
                data._native.run("contour", json.dumps(options), output=target, progress=report)
            )
        except UsageError as error:
            # Messages of the extension about a volume do not name its file.
            if str(error).startswith("the volume "):
                raise UsageError(f"{data._name}: {error}") from error
            raise
    return data._counted(found)
