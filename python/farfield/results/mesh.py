"""Triangles as NumPy arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield import _core
from farfield.errors import UnknownName
from farfield.results.outputs import output_path
from farfield.runtime.optional_libraries import need_pyvista

ENDINGS = (".vtp", ".ply", ".glb", ".npz")
"""Endings of files of surfaces."""
OWN = ("points", "triangles", "normals", "zone")
"""Names in files of the arrays that every mesh has."""
_BESIDE = {*OWN, "partial", "meta"}


class Mesh:
    """A surface in memory. `points[triangles]` are the corners of its triangles, counter-clockwise as seen from the
    side of the normals. Adjacent triangles share corners.

    >>> import farfield as ff
    >>> with ff.open("demo:box") as ds:
    ...     surface = ds.contour([0.5], scalars="velocity_magnitude", fields=["density"])
    >>> surface.points.shape == surface.normals.shape == (len(surface["density"]), 3)
    True
    >>> surface.points[surface.triangles].shape == (len(surface.triangles), 3, 3)
    True
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], summary: Mapping[str, Any]) -> None:
        self._arrays = {name: array for name, array in arrays.items() if name not in _BESIDE}
        self._points, self._triangles = arrays["points"], arrays["triangles"]
        self._normals, self._zone = arrays.get("normals"), arrays["zone"]
        self._meta: dict[str, Any] = json.loads(str(arrays["meta"]))
        self._summary = dict(summary)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"'{name}' of a mesh cannot be set: it is what was drawn")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        said = [f"{len(self.points)} points, {len(self.triangles)} triangles"]
        if self.names:
            said.append(f"sampled: {', '.join(self.names)}")
        if self.partial:
            said.append("partial")
        return f"<farfield.Mesh: {'; '.join(said)}>"

    @property
    def points(self) -> NDArray[Any]:
        """Positions, (N, 3), in the type of the coordinates; the unit is `units["points"]`."""
        return self._points

    @property
    def triangles(self) -> NDArray[np.int64]:
        """Indices of the points of each triangle, (M, 3)."""
        return self._triangles

    @property
    def normals(self) -> NDArray[np.float32] | None:
        """Unit normals at the points, (N, 3), or None if not requested; those of an isosurface point to lower values."""
        return self._normals

    @property
    def zone(self) -> NDArray[np.int32]:
        """Number of the zone of each point, (N,); the first zone is 1, and so is a volume."""
        return self._zone

    @property
    def names(self) -> list[str]:
        """Names of the sampled fields, as in files: a name that equals an array of every mesh gets the prefix
        `field_`."""
        return list(self._arrays)

    @property
    def units(self) -> dict[str, str]:
        """Units of the sampled fields and of the points."""
        return dict(self._meta["units"])

    @property
    def partial(self) -> bool:
        """Whether parts are missing, because pages could not be read."""
        return bool(self._meta["partial"])

    @property
    def summary(self) -> dict[str, Any]:
        """Counts and bounds, and statistics of the run's reads and memory."""
        return dict(self._summary)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field sampled at the points, (N,) or (N, components); or an array of every mesh by its name in files.

        Raises:
            UnknownName: if the field was not sampled.
        """
        found = self._arrays.get(name)
        if found is None and name in OWN:
            found = getattr(self, name)
        if found is None:
            have = [*self._arrays, *(own for own in OWN if getattr(self, own) is not None)]
            raise UnknownName(
                f"'{name}' was not sampled on this surface; there are: {', '.join(have)}. Name it in fields=[...]"
            )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `.vtp`, `.ply`, `.glb` or `.npz`, by the ending: the same file as `farfield extract`.

        Raises:
            UsageError: for any other ending, or if the folder does not exist.
            DataError: if the file cannot be written.

        >>> import os, tempfile, farfield as ff
        >>> with ff.open("demo:box") as ds, tempfile.TemporaryDirectory() as folder:
        ...     ds.slice(normal="z").save(folder + "/cut.vtp")
        ...     os.listdir(folder)
        ['cut.vtp']
        """
        arrays = {**self._arrays, "points": self.points, "triangles": self.triangles, "zone": self.zone}
        if self.normals is not None:
            arrays["normals"] = self.normals
        _core.save_mesh(output_path(path, ENDINGS, "surfaces"), arrays, json.dumps(self._meta))

    def to_pyvista(self) -> Any:
        """A `pyvista.PolyData`; needs the `pyvista` extra.

        Raises:
            ImportError: if pyvista is not installed.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     surface = ds.contour([0.5], scalars="velocity_magnitude", fields=["density"])
        >>> mesh = surface.to_pyvista()
        >>> mesh.n_cells == len(surface.triangles), mesh.point_data.keys()
        (True, ['density', 'zone', 'Normals'])
        """
        pyvista = need_pyvista()
        mesh = pyvista.PolyData()
        if not len(self.points):
            # PyVista rejects empty arrays.
            return mesh
        mesh.points = self.points
        # PyVista expects the number of points before the indices of each triangle.
        mesh.faces = np.insert(self.triangles, 0, 3, axis=1).ravel()
        for name, values in self._arrays.items():
            mesh.point_data[name] = values
        mesh.point_data["zone"] = self.zone
        if self.normals is not None:
            mesh.point_data["Normals"] = self.normals
            mesh.point_data.active_normals_name = "Normals"
        return mesh
