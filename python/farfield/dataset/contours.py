"""Isosurfaces and cutting planes, in memory or as files of triangles."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.dataset.field_names import field_names
from farfield.dataset.kinds import is_open_volume
from farfield.errors import UsageError
from farfield.results import outputs
from farfield.results.mesh import ENDINGS as MESHES
from farfield.results.mesh import Mesh
from farfield.runtime.progress import Report, reporting

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.volume.dataset import VolumeDataset

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


class Surfaces:
    """What datasets and volumes can be asked for that consists of triangles."""

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
        """Where a field has some values. The memory limit bounds what is read and drawn; the result is the caller's.

        Args:
            isosurfaces: One or more values, in the field's units.
            scalars: A scalar field, a derived one or an expression too; of a volume a channel. None: of a volume that has one, or
                a view of one, that channel.
            fields: Fields sampled at the points (vectors too).
            normals: Whether points have normals, which look to lower values.
            near: A point: only the surface that is nearest to it, and what hangs together with that.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument makes no sense.
            MemoryLimitError: if the memory limit does not hold a block of the surface.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     fast = ds.contour([0.5], scalars="velocity_magnitude", fields=["density"])
        >>> fast.names, fast.partial
        (['density'], False)
        """
        if isinstance(isosurfaces, (str, int, float)):
            raise UsageError(f"isosurfaces are a list of values, as in [{isosurfaces}]")
        named = _channels(self) if scalars is None else [scalars]
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
        """A plane through the data, in triangles with fields at their corners. They look along the normal, except on a face of the
        data that has them all on the normal's other side: there against it.

        Args:
            normal: `"x"`, `"y"`, `"z"`, or three numbers.
            origin: A point of the plane; None: the middle of the data.
            fields: Fields sampled at the points; None: those that every zone has stored, or all channels of a volume, or of a view.
            normals: Whether points have normals.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument makes no sense.
            MemoryLimitError: if the memory limit does not hold a block of the surface.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     cut = ds.slice(normal="z", origin=(0, 0, 0.1))
        >>> cut.names, round(float(abs(cut.points[:, 2] - 0.1).max()), 6)
        (['density', 'momentum', 'energy'], 0.0)
        """
        taken = _channels(self) or _stored(self) if fields is None else fields
        options = {"normal": normal, "origin": origin, "scalars": taken, "normals": normals}
        return _in_memory(extract_plane, self, options, progress)


def _channels(data: Any) -> list[str]:
    """Channels of a volume or its view; none of a dataset."""
    if not is_open_volume(data):
        return []
    return [data.channels[n].name for n in data._chosen_channels()]


def _stored(data: Any) -> list[str]:
    zones = [set(zone) for zone in data.zones.values()]
    return [f["name"] for f in data.info()["fields"] if not f["derived"] and all(f["name"] in of for of in zones)]


def _in_memory(extract: Any, data: Any, options: dict[str, Any], progress: bool | Report | None) -> Mesh:
    """Through a file of arrays, which the memory limit bounds on its way: then arrays of the caller's take its place."""
    with tempfile.TemporaryDirectory(prefix="farfield-") as folder:
        path = os.path.join(folder, "surface.npz")
        found = extract(data, path, progress=progress, **options)
        with np.load(path, allow_pickle=False) as arrays:
            made = {name: arrays[name] for name in arrays.files}
    return Mesh(made, {key: value for key, value in found.items() if key not in ("output", "bytes_written")})


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

    A plane in which a face of the data lies is drawn on whichever side they are, as pictures of it are.

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
    across = AXES.get(normal) if isinstance(normal, str) else tuple(_finite("a plane's normal", normal))
    if across is None or len(across) != 3 or not any(across):
        raise UsageError(f"a plane's normal is x, y, z or three numbers that are not all 0, not {normal}")
    through = middle(data, progress) if origin is None else _finite("a plane's origin", origin)
    if len(through) != 3:
        raise UsageError(f"a plane's origin is three numbers, not {len(through)}")
    found = _extract(data, output, {"origin": through, "normal": across}, scalars, normals, progress)
    if found["triangles"] == 0 and not found["partial"]:
        # What lies in the plane counts as being before it: data that are all before it have nothing behind, and are not cut.
        turned = tuple(-v for v in across)
        found = _extract(data, output, {"origin": through, "normal": turned}, scalars, normals, progress)
    return found


def _finite(what: str, numbers: Sequence[float]) -> list[float]:
    """Numbers as JSON has them."""
    listed = [float(v) for v in numbers]
    for v in listed:
        if not math.isfinite(v):
            raise UsageError(f"{what} is made of finite numbers, not {v}")
    return listed


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

    target = outputs.output_path(output, MESHES, "surfaces")
    options = {**what, "scalars": field_names(scalars), "normals": normals, "step": data._step or 0}
    if is_open_volume(data):
        options["level"] = data._level
    outputs.check([target], data._reads())
    with reporting(progress) as report:
        try:
            found: dict[str, Any] = json.loads(
                data._native.extract_contour(json.dumps(options), target, progress=report)
            )
        except UsageError as error:
            # Of what a volume is not, such as thick, the extension does not say whose it is.
            if str(error).startswith("the volume "):
                raise UsageError(f"{data.path}: {error}") from error
            raise
    return data._description.counted(found) if is_open_volume(data) else found
