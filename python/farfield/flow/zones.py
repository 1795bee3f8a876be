"""Zones and fields of open datasets.

Indices of arrays count from 0 and run [k, j, i], as in storage and in xarray.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.dataset.indexing import Index, bounds_of
from farfield.errors import UnknownName
from farfield.flow.arrays import structured_grid, zone_dataset

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset


class Zone:
    """A zone: its name, size and fields.

    >>> import farfield as ff
    >>> zone = ff.open("demo:taper").zones["zone1"]
    >>> zone, zone.iblank, zone["pressure"].dims
    (<farfield.Zone zone1: 13 x 21 x 49, iblank>, True, ('k', 'j', 'i'))
    """

    def __init__(self, dataset: Dataset, info: Mapping[str, Any]) -> None:
        self._dataset = dataset
        self.name: str = info["name"]
        ni, nj, nk = info["dims"]
        self.dims: tuple[int, int, int] = (ni, nj, nk)
        self.iblank: bool = bool(info["iblank"])

    def __repr__(self) -> str:
        return f"<farfield.Zone {self.name}: {' x '.join(map(str, self.dims))}{', iblank' if self.iblank else ''}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def _keys(self) -> list[str]:
        return [*self.fields, "xyz", *(["iblank"] if self.iblank else [])]

    def _ipython_key_completions_(self) -> list[str]:
        return self._keys()

    @property
    def fields(self) -> list[str]:
        """Names of the stored and derived fields that this zone has."""
        return [f["name"] for f in self._dataset.info()["fields"] if self._has(f)]

    def _has(self, field: Mapping[str, Any]) -> bool:
        return field.get("zones") is None or self.name in field["zones"]

    def to_xarray(self, *, fields: Sequence[str] | None = None) -> Any:
        """An `xarray.Dataset` of the zone, as in `Dataset.to_xarray`.

        >>> import farfield as ff
        >>> dict(ff.open("demo:taper").zones["zone1"].to_xarray().sizes)
        {'k': 49, 'j': 21, 'i': 13, 'component': 3}
        """
        return zone_dataset(self, fields)

    def to_pyvista(self, *, fields: Sequence[str] | None = None) -> Any:
        """A `pyvista.StructuredGrid` of the zone, as in `Dataset.to_pyvista`.

        >>> import farfield as ff
        >>> ff.open("demo:taper").zones["zone1"].to_pyvista().dimensions
        (13, 21, 49)
        """
        return structured_grid(self, fields)

    def __getitem__(self, name: str) -> Field:
        """A field, `xyz`, `iblank`, or an expression such as `"grad(pressure)"`.

        If a file hides cells, iblank has values from 1 << 30 on. They mean ordinary points. A bit marks each hidden
        cell (1), edge along i, j, k (2, 4, 8) or face across it (16, 32, 64) that begins at the point.

        Raises:
            UnknownName: if the zone does not have it.
        """
        info = self._dataset.info()
        if name == "xyz":
            unit = info.get("length_unit", "grid unit")
            return Field(self._dataset, self, name, int(info["dimension"]), str(info["coordinates_dtype"]), unit)
        if name == "iblank" and self.iblank:
            return Field(self._dataset, self, name, 1, "int32", "")
        for f in info["fields"]:
            if f["name"] == name and self._has(f):
                return Field(self._dataset, self, name, int(f["components"]), f["dtype"], f["units"])
        try:
            made = json.loads(self._dataset._native.describe(name, self.name))
        except UnknownName as error:
            raise UnknownName(
                f"no field named '{name}' in {self.name}; there are: {', '.join(self.fields)}, xyz"
            ) from error
        return Field(self._dataset, self, name, int(made["components"]), made["dtype"], made["units"])


class Field:
    """A field of a zone, read by indexing: `[k, j, i]`, or `[component, k, j, i]` for vectors.

    >>> import farfield as ff
    >>> density = ff.open("demo:box")["density"]
    >>> density.shape, density.dims
    ((33, 41, 49), ('k', 'j', 'i'))
    >>> density[10:20:5, :, 5].shape
    (2, 41)
    """

    def __init__(self, dataset: Dataset, zone: Zone, name: str, components: int, dtype: str, units: str) -> None:
        self._dataset = dataset
        self._zone = zone
        self.name = name
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.units = units
        ni, nj, nk = zone.dims
        self.shape: tuple[int, ...] = (nk, nj, ni) if components == 1 else (components, nk, nj, ni)
        self.dims: tuple[str, ...] = ("k", "j", "i") if components == 1 else ("component", "k", "j", "i")

    def __repr__(self) -> str:
        shape = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        return f"<farfield.Field {self._zone.name}/{self.name} ({shape}) [{self.units}]>"

    @property
    def ndim(self) -> int:
        """3 for scalars, 4 for vectors."""
        return len(self.shape)

    def _at(self, step: int) -> Field:
        """The same field at another step of the whole dataset."""
        view = self._dataset._with(range(step, step + 1), one=True)
        components = 1 if self.ndim == 3 else self.shape[0]
        return Field(view, self._zone, self.name, components, str(self.dtype), self.units)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a field lies on disk: an array of it is always a copy")
        return np.asarray(self[...], dtype=dtype)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> NDArray[Any]:
        """A NumPy array. Only pages around the index are read.

        Raises:
            IndexError: if an index is out of range or is not an int, slice or `...`.
        """
        boxes, rest, shape = bounds_of(index, self.shape)
        if 0 in shape:
            return np.empty(shape, dtype=self.dtype)
        (k0, k1), (j0, j1), (i0, i1) = boxes[-3:]
        dataset = self._dataset
        array = dataset._native.read(self.name, self._zone.name, dataset._step or 0, (i0, j0, k0), (i1, j1, k1))
        if len(boxes) == 4:
            array = array[slice(*boxes[0])]
        return array[tuple(rest)]
