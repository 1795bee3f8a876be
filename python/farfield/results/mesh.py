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

ENDINGS = (".vtp", ".ply", ".glb", ".npz")
"""Of files of surfaces."""
OWN = ("points", "triangles", "normals", "zone")
"""What every mesh has, by the names that files have for it."""
_BESIDE = {*OWN, "partial", "meta"}


class Mesh:
    """A surface in memory: `points[triangles]` are the corners of its triangles, seen from the side of their normals one after the
    other counter-clockwise. Triangles that meet have corners in common.

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
        """Positions, (N, 3), in the numbers that the coordinates have, in `units["points"]`."""
        return self._points

    @property
    def triangles(self) -> NDArray[np.int64]:
        """Numbers of the points of each triangle, (M, 3)."""
        return self._triangles

    @property
    def normals(self) -> NDArray[np.float32] | None:
        """A normal of length 1 at each point, (N, 3), if they were asked for; those of an isosurface look to lower values."""
        return self._normals

    @property
    def zone(self) -> NDArray[np.int32]:
        """Number of the zone of each point, (N,); the first zone is 1, as is a volume."""
        return self._zone

    @property
    def names(self) -> list[str]:
        """Names of the sampled fields, as files have them: one that is called as what every mesh has gets `field_` before it."""
        return list(self._arrays)

    @property
    def units(self) -> dict[str, str]:
        """Unit of each sampled field, and of the points."""
        return dict(self._meta["units"])

    @property
    def partial(self) -> bool:
        """Whether something is missing, since pages could not be read."""
        return bool(self._meta["partial"])

    @property
    def summary(self) -> dict[str, Any]:
        """Counts and bounds, and what the run read and held."""
        return dict(self._summary)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field sampled at the points, (N,) or (N, components); or, by its name in files, what every mesh has.

        Raises:
            UnknownName: if it was not sampled.
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
        """Writes `.vtp`, `.ply`, `.glb` or `.npz`, by the suffix: the file that `farfield extract` writes.

        Raises:
            UsageError: for any other suffix, or where the folder is not there.
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
        try:
            import pyvista  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ImportError("to_pyvista needs pyvista: pip install 'farfield[pyvista]'") from error
        mesh = pyvista.PolyData()
        if not len(self.points):
            # PyVista takes no empty arrays.
            return mesh
        mesh.points = self.points
        # Before the numbers of each triangle's points, how many they are.
        mesh.faces = np.insert(self.triangles, 0, 3, axis=1).ravel()
        for name, values in self._arrays.items():
            mesh.point_data[name] = values
        mesh.point_data["zone"] = self.zone
        if self.normals is not None:
            mesh.point_data["Normals"] = self.normals
            mesh.point_data.active_normals_name = "Normals"
        return mesh
