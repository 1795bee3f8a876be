"""What a reader of a format of flows says of its files: which zones there are, and where the numbers of their arrays are.

The classes mirror `ZonesSpec` of the extension (crates/field/src/described_zones/spec.rs). The extension checks the document
against the files, and pages them where they lie.

>>> line = Line(0, (0.0, 1.0, 3.0))
>>> places = Array("xyz", (line, Constant(0.0)), role="coordinates", dtype="float64")
>>> Zones("a test", (Zone((3, 2, 1), (places,)),), ("a.txt",), dimension=2).document()["zones"][0]["dims"]
[3, 2, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stored:
    """Numbers in a file: element (c, k, j, i) begins at byte
    `c * component_bytes + k * plane_bytes + j * row_bytes + i * point_bytes` of its runs, one run behind the other.
    """

    path: str
    runs: tuple[tuple[int, int], ...]
    """First byte and length of each."""
    number: str
    """NumPy's name of the type there: whole numbers and fractions of 8 to 64 bits."""
    big_endian: bool = False
    component_bytes: int | None = None
    """None: components one after the other, each with all its points."""
    point_bytes: int | None = None
    """None: a number."""
    row_bytes: int | None = None
    """None: rows one after the other."""
    plane_bytes: int | None = None
    """None: planes one after the other."""

    def document(self, files: dict[str, int]) -> dict[str, Any]:
        """As JSON has it; `files` gives files their numbers."""
        distances = {
            "component_bytes": self.component_bytes,
            "point_bytes": self.point_bytes,
            "row_bytes": self.row_bytes,
            "plane_bytes": self.plane_bytes,
        }
        return {
            "file": files.setdefault(self.path, len(files)),
            "runs": [list(run) for run in self.runs],
            "number": self.number,
            "big_endian": self.big_endian,
            **{key: value for key, value in distances.items() if value is not None},
        }


@dataclass(frozen=True)
class Constant:
    """The same number at all points; None is no number."""

    value: float | None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"constant": self.value}


@dataclass(frozen=True)
class Line:
    """A number for each point along an axis (0, 1, 2 for i, j, k)."""

    axis: int
    values: tuple[float, ...]

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"line": {"axis": self.axis, "values": list(self.values)}}


@dataclass(frozen=True)
class Uniform:
    """`origin` at the first point, and what is added from a point to the next along i, j and k."""

    origin: float
    steps: tuple[float, float, float]

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"uniform": {"origin": self.origin, "steps": list(self.steps)}}


Rule = Constant | Line | Uniform
Place = Sequence[Stored] | Sequence[Rule]
"""Where an array is at a step: in files, all components together or one each; or a rule a component."""


@dataclass(frozen=True)
class Array:
    """An array of a zone."""

    name: str
    place: Place = ()
    """At all steps, where `steps` says nothing."""
    role: str = "field"
    """`coordinates`, `iblank` or `field`."""
    dtype: str = "float32"
    """Type of its numbers in the dataset: float32, float64, of iblank int32."""
    components: int | None = None
    """Numbers a point; None: as many as parts of the place."""
    steps: tuple[Place, ...] = ()
    """At each step."""
    long_name: str = ""
    units: str = "1"

    def document(self, files: dict[str, int]) -> dict[str, Any]:
        """As JSON has it."""
        steps = self.steps or (self.place,)
        return {
            "name": self.name,
            "long_name": self.long_name,
            "role": self.role,
            "dtype": self.dtype,
            "components": self.components or len(steps[0]),
            "units": self.units,
            "steps": [_place(place, files) for place in steps],
        }


def _place(place: Place, files: dict[str, int]) -> dict[str, Any]:
    stored = [part.document(files) for part in place if isinstance(part, Stored)]
    if stored:
        return {"stored": stored}
    return {"computed": [part.document() for part in place if not isinstance(part, Stored)]}


@dataclass(frozen=True)
class Zone:
    """A zone: points along i, j and k, and arrays, coordinates first, then iblank if there is one."""

    dims: tuple[int, int, int]
    arrays: tuple[Array, ...]
    name: str = ""
    """Empty: by its number."""


@dataclass(frozen=True)
class Zones:
    """A dataset in files of a foreign format."""

    format: str
    """In words, as `info` says it."""
    zones: tuple[Zone, ...]
    files: tuple[str, ...] = ()
    """The files that it is, those of all steps: what was named, and what that names."""
    files_of_steps: tuple[tuple[str, ...], ...] = ((),)
    """Those of each step."""
    dimension: int = 3
    times: tuple[float, ...] = ()
    """When the steps are; none where nothing says it."""
    untimed: str = ""
    """Why times that files give are not those of the steps, where they are not."""
    is_converted: bool = False
    """Whether numbers of it were decoded into a file of the cache."""
    remarks: tuple[str, ...] = ()
    """What was taken for granted."""
    notes: tuple[str, ...] = ()
    """Those of the remarks that whoever uses the data should hear."""
    places: tuple[str, ...] = ()
    """What every command that gives positions says of them."""
    define: Mapping[str, str] = field(default_factory=dict)
    """Fields that go by other names too."""
    main_field: str | None = None
    """The field that is meant where none is named."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of fields, by name, that are said but not reckoned with."""
    length_unit: str | None = None
    """That of positions likewise."""
    time_unit: str | None = None
    """That of times likewise."""

    @property
    def all_files(self) -> tuple[str, ...]:
        """All files that it is, each once."""
        return tuple(dict.fromkeys([*self.files, *(file for step in self.files_of_steps for file in step)]))

    def document(self) -> dict[str, Any]:
        """As the extension takes it."""
        files: dict[str, int] = {}
        zones = [
            {"name": z.name, "dims": list(z.dims), "arrays": [a.document(files) for a in z.arrays]} for z in self.zones
        ]
        return {
            "format": self.format,
            "dimension": self.dimension,
            "files": list(files),
            "sources": {"steady": list(self.files), "steps": [list(step) for step in self.files_of_steps]},
            "times": list(self.times),
            "untimed": self.untimed,
            "zones": zones,
        }
