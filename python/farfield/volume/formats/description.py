"""Descriptions of volumes by readers: the JSON for the extension, with tables of chunks.

The classes mirror `VolumeSpec` of the extension (crates/field/src/volume/spec.rs) field by field. `describe` checks
their values, so that an invalid header gives an error that names the file.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.runtime import run_context
from farfield.runtime.sizes import format_bytes
from farfield.sources import places
from farfield.volume.formats import contents
from farfield.volume.formats.contents import Content
from farfield.volume.missing_values import Missing, as_json, each, together

DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "bool", "float16",
)  # fmt: skip
"""Types of voxels in files."""
INVERTED = "its low values are shown white ({}); --no-invert shows them black"
"""The note about an inverted volume, with the reason from its file."""
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_NUMBERS = re.compile(
    r"[<>|=]?(?:[bhilqBHILQefd?]|b1|[iu][1248]|f[248]|c8|c16|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))"
)
"""NumPy types of numbers; others are refused."""
_LONGEST_AXIS = (1 << 32) - 1
"""Largest length of an axis in the extension."""
_LARGEST_CHUNK = 1 << 31
"""Size in bytes of a chunk that the extension refuses."""
_MOST_BYTES = 1 << 62
"""Bound on bytes: no file is larger, and products below it fit into 64 bits."""


@dataclass
class Channel:
    """A channel: `ChannelSpec`."""

    name: str
    units: str = "1"
    color: str | None = None
    limits: tuple[float, float] | None = None
    scale: tuple[float, float] | None = None
    missing: Missing = None
    """Stored numbers that represent missing values: one, or a tuple of numbers and of ranges (lowest, highest)."""
    hidden: bool = False
    inverted: bool = False
    """Whether low values are shown bright, such as white in grey."""

    def spec(self) -> dict[str, Any]:
        """The form for JSON."""
        found: dict[str, Any] = {"name": self.name, "units": self.units or "1"}
        if self.color is not None:
            found["color"] = self.color
        if self.limits is not None and all(map(math.isfinite, self.limits)) and self.limits[0] < self.limits[1]:
            found["limits"] = [float(v) for v in self.limits]
        # Scaling by 1 and 0 is the default.
        if self.scale is not None and self.scale != (1.0, 0.0):
            found["scale"] = [float(v) for v in self.scale]
        # NaN is always missing.
        if together(self.missing) is not None:
            found["missing"] = as_json(together(self.missing))
        if self.hidden:
            found["hidden"] = True
        if self.inverted:
            found["inverted"] = True
        return found


def number(value: float) -> float | str:
    """A number for JSON: a word for NaN and infinities; integers with all digits.

    >>> number(1.5), number(2**63 + 1), number(float("-inf")), number(float("nan"))
    (1.5, 9223372036854775809, '-Infinity', 'NaN')
    """
    if isinstance(value, int):
        return int(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


@dataclass
class Array:
    """An array in files: `ArraySpec`. `place` is the content of `where`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    axes: str
    place: dict[str, Any]
    channels: list[int] = field(default_factory=lambda: [0])
    big_endian: bool = False
    chunk: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    fill: float | None = None
    codecs: list[dict[str, Any]] = field(default_factory=list)
    never_written: int = 0
    """Chunks that the format defines as never written, counted during a conversion. The converted file has none."""

    def length(self, axis: str) -> int:
        """Length of an axis; 1 if there is none of that name.

        >>> Array("a", "uint8", (4, 5), "zx", {}).length("x"), Array("a", "uint8", (4, 5), "zx", {}).length("t")
        (5, 1)
        """
        return self.shape[self.axes.index(axis)] if axis in self.axes else 1

    @property
    def dims(self) -> tuple[int, int, int]:
        """Number of voxels along i, j, k."""
        return self.length("x"), self.length("y"), self.length("z")

    @property
    def item(self) -> int:
        """Bytes per number."""
        return 1 if self.dtype == "bool" else np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """Bytes of all numbers."""
        return math.prod(self.shape) * self.item

    def spec(self) -> dict[str, Any]:
        """The form for JSON."""
        found: dict[str, Any] = {
            "name": self.name,
            "dtype": self.dtype,
            "big_endian": self.big_endian,
            "shape": list(self.shape),
            "axes": self.axes,
            "channels": self.channels,
            "codecs": self.codecs,
            "where": self.place,
        }
        if self.chunk is not None:
            found["chunk"] = list(self.chunk)
        if self.order is not None and tuple(self.order) != tuple(range(len(self.shape))):
            found["order"] = list(self.order)
        if self.fill is not None:
            found["fill"] = number(self.fill)
        return found


@dataclass
class Level:
    """A level: `LevelSpec`."""

    arrays: list[Array]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    spacing: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass
class Volume:
    """A whole volume as found by a reader: `VolumeSpec`."""

    path: str
    format: str
    levels: list[Level]
    channels: list[Channel]
    kind: str = "scalar"
    guessed: list[str] = field(default_factory=list)
    length_unit: str = "voxel"
    """Unit of positions; 1 if there is none, or if the axes have different ones."""
    axis_units: tuple[str, str, str] | None = None
    """Units of x, y and z if they differ."""
    anatomy: str | None = None
    direction: Sequence[Sequence[float]] = IDENTITY
    times: list[float] = field(default_factory=list)
    time_units: str = "1"
    tables: list[bytes] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    """Files and folders that opening and paging reads."""
    ranges: str | None = None
    """The folder of our own ranges of pages, if there is one."""
    seen: list[tuple[float, float] | None] | None = None
    """Lowest and highest stored number of each channel, None for a channel without numbers; None if unknown."""
    bytes_disk: int | None = None
    """Bytes of all files with pages, if counted."""
    labels: list[str] = field(default_factory=list)
    """Volumes of labels for this volume."""
    made_as: str = ""
    """For our own store, the format of the converted source."""
    label_colors: dict[str, str] = field(default_factory=dict)
    """Colours of labels in the file, by number."""
    contents: list[Content] = field(default_factory=list)
    """Items of a container, in the order of their numbers; empty if all of it is shown."""
    shown: int | None = None
    """Number of the shown item."""
    notes: list[str] = field(default_factory=list)
    """Sentences of `guessed` that every run prints: uncertain assumptions that change the result."""

    def note(self, *sentences: str) -> None:
        """Adds sentences that every run prints."""
        self.guessed += sentences
        self.notes += sentences

    places: list[str] = field(default_factory=list)
    """Assumptions that make positions doubtful. Every command that gives positions prints them."""


@dataclass(frozen=True)
class VolumeDescription:
    """A volume in the form that the extension opens."""

    spec: dict[str, Any]
    tables: list[bytes]
    reads: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    seen: tuple[tuple[float, float] | None, ...] | None = None
    """As `Volume.seen`."""
    bytes_disk: int | None = None
    """As `Volume.bytes_disk`."""
    never_written: int = 0
    """As `Array.never_written`, summed over all arrays."""
    ranges_failed: int = 0
    """Number of pages that were unreadable when `seen` was found."""
    made_as: str = ""
    """As `Volume.made_as`."""
    notes: tuple[str, ...] = ()
    """As `Volume.notes`."""
    contents: tuple[dict[str, object], ...] = ()
    """Items of a container: number, name, description, and whether it is shown."""
    read_s: tuple[float, float] = (0.0, 0.0)
    """Seconds of wall time and processor time for reading headers and converting."""

    def say_notes(self, say: Callable[[str], None]) -> None:
        """Passes each note to `say`, with the source."""
        for note in self.notes:
            say(f"{self.spec['path']}: {note}")

    places: tuple[str, ...] = ()
    """As `Volume.places`."""
    axis_units: tuple[str, str, str] | None = None
    """As `Volume.axis_units`."""

    def native(self, *, ranges: bool = True) -> str:
        """The source in the form for the extension. `ranges` False: for a run that reads all pages, where the ranges
        save nothing."""
        return json.dumps({"volume": self.spec if ranges else {**self.spec, "ranges": None}})

    @property
    def hidden(self) -> tuple[int, ...]:
        """Channels that the file switches off by default."""
        return tuple(n for n, channel in enumerate(self.spec["channels"]) if channel.get("hidden"))

    @property
    def label_colors(self) -> dict[str, str]:
        """Colours of labels in the file, by number."""
        return dict(self.spec.get("label_colors", {}))

    def counted(self, found: dict[str, Any]) -> dict[str, Any]:
        """Adds to the result of a run, or its STATS, the work before the extension opened the volume: never-written
        chunks of a conversion, and the time for headers. Adds `notes` on assumptions.

        >>> stats = {"wall_s": 2.0, "cpu_s": 1.0, "pages": {"never_written": 1}}
        >>> VolumeDescription({}, [], never_written=2, read_s=(0.5, 0.25)).counted({"stats": stats})["stats"]
        {'wall_s': 2.5, 'cpu_s': 1.25, 'pages': {'never_written': 3}}
        """
        stats = found.get("stats", found)
        stats["pages"]["never_written"] += self.never_written
        for key, seconds in zip(("wall_s", "cpu_s"), self.read_s, strict=True):
            stats[key] += seconds
        found["notes"] = [*self.spec.get("guessed", ()), *run_context.remarks()]
        return found


def describe(volume: Volume) -> VolumeDescription:
    """Checks the description by a reader, and converts it to the form for the extension.

    Raises:
        DataError: naming the file and the invalid value.
    """
    path = volume.path
    if not volume.levels:
        raise DataError(f"{path}: it holds no level of a volume; check that it was written to its end")
    for n, level in enumerate(volume.levels):
        _check_level(path, n, level, len(volume.channels))
    direction = _checked_direction(path, volume.direction)
    times = [float(t) for t in volume.times]
    if not all(map(math.isfinite, times)):
        raise DataError(f"{path}: a time step has no time that is a number; correct the times where it was written")
    steps = volume.levels[0].arrays[0].length("t")
    guessed = list(volume.guessed)
    if steps > 1 and not times:
        times = [float(n) for n in range(steps)]
        if not any("steps are counted" in g for g in guessed):
            guessed.append("it does not say when its time steps are: steps are counted")
    if times and len(times) != steps:
        raise DataError(f"{path}: it gives {len(times):,} times for {steps:,} time steps; correct the file's metadata")
    if volume.levels:
        for array in volume.levels[0].arrays:
            for number_of in array.channels:
                channel = volume.channels[number_of]
                channel.missing = each(channel.missing, partial(as_stored, dtype=array.dtype))
    spec: dict[str, Any] = {
        "path": path,
        "format": volume.format,
        "guessed": guessed,
        "kind": volume.kind,
        "channels": [c.spec() for c in volume.channels],
        "length_unit": volume.length_unit,
        "anatomy": volume.anatomy,
        "direction": direction,
        "times": times,
        "time_units": volume.time_units or "1",
        "levels": [
            {
                "dims": list(level.arrays[0].dims),
                "origin": [float(v) for v in level.origin],
                "spacing": [float(v) for v in level.spacing],
                "arrays": [a.spec() for a in level.arrays],
            }
            for level in volume.levels
        ],
    }
    if volume.ranges is not None:
        spec["ranges"] = volume.ranges
    if volume.label_colors:
        spec["label_colors"] = dict(volume.label_colors)
    reads = tuple(dict.fromkeys(volume.reads or [path]))
    seen = None if volume.seen is None else tuple(volume.seen)
    lacking = sum(array.never_written for level in volume.levels for array in level.arrays)
    return VolumeDescription(
        spec,
        volume.tables,
        reads,
        tuple(volume.labels),
        seen,
        volume.bytes_disk,
        lacking,
        made_as=volume.made_as,
        notes=tuple(volume.notes),
        contents=tuple(contents.spec(volume.contents, volume.shown)) if len(volume.contents) > 1 else (),
        places=tuple(volume.places),
        axis_units=volume.axis_units,
    )


def as_stored(missing: float, dtype: str) -> float:
    """A missing value in the precision of a type: 1e20 as text differs from 1e20 in 32 bits.

    >>> as_stored(1e20, "float32"), as_stored(1e20, "float64"), as_stored(-1, "uint8")
    (1.0000000200408773e+20, 1e+20, -1)
    """
    if dtype not in ("float16", "float32") or not math.isfinite(missing):
        return missing
    with np.errstate(over="ignore"):
        stored = float(np.dtype(dtype).type(missing))
    return stored if math.isfinite(stored) else missing


def _check_level(path: str, n: int, level: Level, channels: int) -> None:
    where = f"{path}: level {n}" if n else path
    if not level.arrays:
        raise DataError(f"{where} holds no array; check that it was written to its end")
    dims = level.arrays[0].dims
    for array in level.arrays:
        _check_array(path, array)
        if array.dims != dims:
            raise DataError(
                f"{path}: '{array.name}' has {text_of(array.dims)} voxels and '{level.arrays[0].name}' {text_of(dims)}: "
                "they are not of one volume; name one of them"
            )
    for what, values in (("origin", level.origin), ("spacing", level.spacing)):
        if len(values) != 3 or not all(map(math.isfinite, values)):
            raise DataError(f"{where}: its {what} {_numbers(values)} is not three numbers; give it with --{what} X,Y,Z")
    if min(level.spacing) <= 0:
        raise DataError(
            f"{where}: its spacing {_numbers(level.spacing)} is not positive along every axis; give it with --spacing X,Y,Z"
        )
    given = sorted(c for array in level.arrays for c in array.channels)
    if given != list(range(channels)):
        raise DataError(f"{where}: its arrays do not hold each of the {channels} channels once; check its metadata")


def _check_array(path: str, array: Array) -> None:
    what = f"{path}: '{array.name}'" if array.name else path
    if array.dtype not in DTYPES:
        raise DataError(f"{what} holds {array.dtype} numbers, which a volume cannot have; convert it to float32 first")
    if len(array.shape) != len(array.axes) or len(set(array.axes)) != len(array.axes):
        raise DataError(
            f"{what} has dimensions {text_of(array.shape)} and axes '{array.axes}': they do not go together"
        )
    if min(array.shape, default=0) < 1:
        raise DataError(f"{what} is empty: its size is {text_of(array.shape)}")
    if max(array.shape) > _LONGEST_AXIS or array.bytes > _MOST_BYTES:
        raise DataError(
            f"{what} would be {text_of(array.shape)} numbers, more than any file holds: the header is damaged"
        )
    if array.chunk is not None and (len(array.chunk) != len(array.shape) or min(array.chunk) < 1):
        raise DataError(
            f"{what} has chunks of {text_of(array.chunk)}, which do not suit its size {text_of(array.shape)}"
        )
    if array.chunk is not None and math.prod(array.chunk) * array.item > _MOST_BYTES:
        raise DataError(f"{what} has chunks of {text_of(array.chunk)} numbers: the header is damaged")
    chunk_bytes = 0 if array.chunk is None else math.prod(array.chunk) * array.item
    if chunk_bytes >= _LARGEST_CHUNK:
        raise DataError(
            f"{what} has chunks of {text_of(array.chunk or ())} numbers, {format_bytes(chunk_bytes)} each, and less than "
            f"{format_bytes(_LARGEST_CHUNK)} are read, since a chunk is decoded whole; write it again in "
            "chunks of about 64 x 64 x 64"
        )
    if array.length("c") != len(array.channels):
        raise DataError(f"{what} has {array.length('c')} numbers a voxel and {len(array.channels)} channels")


def _checked_direction(path: str, direction: Sequence[Sequence[float]]) -> list[list[float]]:
    rows = [[float(v) for v in row] for row in direction]
    if len(rows) != 3 or any(len(row) != 3 or not all(map(math.isfinite, row)) for row in rows):
        raise DataError(f"{path}: the directions of its axes are not three times three numbers; the header is damaged")
    lengths = [math.sqrt(sum(v * v for v in row)) for row in rows]
    if min(lengths) < 1e-12 or abs(float(np.linalg.det(np.array(rows)))) < 1e-6 * math.prod(lengths):
        raise DataError(
            f"{path}: the directions of its axes {rows} lie in one plane; the header is damaged: write it again with the tool "
            "that made it"
        )
    # A direction of length 1 stays exact to the last bit.
    return [
        row if abs(length - 1) < 1e-12 else [v / length for v in row] for row, length in zip(rows, lengths, strict=True)
    ]


def text_of(shape: Iterable[int]) -> str:
    """A size as text.

    >>> text_of((512, 512, 40))
    '512 x 512 x 40'
    """
    return " x ".join(str(n) for n in shape)


def _numbers(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{v:g}" for v in values) + ")"


@dataclass(frozen=True)
class Geometry:
    """Geometry of voxels: position of the first one's centre, and distances and directions along i, j, k."""

    origin: tuple[float, float, float]
    spacing: tuple[float, float, float]
    direction: tuple[tuple[float, float, float], ...]


def from_affine(
    path: str, columns: Sequence[Sequence[float]], origin: Sequence[float], key: str = "header"
) -> Geometry:
    """Geometry from the steps along i, j and k in space; `key` names their place in the file for errors.

    Raises:
        DataError: if a step has no length or is not finite.

    >>> from_affine("a.nii", [(-2, 0, 0), (0, 3, 0), (0, 0, 4)], (1, 2, 3)).direction[0]
    (-1.0, 0.0, 0.0)
    """
    lengths = [math.hypot(*(float(v) for v in column)) for column in columns]
    if not all(math.isfinite(v) and v > 0 for v in lengths):
        raise DataError(
            f"{path}: the steps from voxel to voxel {[list(map(float, c)) for c in columns]} by its {key} are not "
            "three directions; correct it, or write the file again with the tool that made it"
        )
    # `0.0 +` turns -0.0 into 0.0.
    direction = [
        tuple(0.0 + float(v) / length for v in column) for column, length in zip(columns, lengths, strict=True)
    ]
    x, y, z = (float(v) for v in origin)
    a, b, c = lengths
    return Geometry((x, y, z), (a, b, c), tuple((d[0], d[1], d[2]) for d in direction))


def table_of(rows: NDArray[np.uint64] | Sequence[Sequence[int]]) -> bytes:
    """Rows of file, offset and length as the bytes of a `table`.

    >>> len(table_of([(0, 100, 50), (0, 150, 0)]))
    48
    """
    return np.ascontiguousarray(rows, dtype="<u8").tobytes()


def contiguous(file: str | os.PathLike[str], offset: int) -> dict[str, Any]:
    """Place of consecutive elements in a file."""
    return {"contiguous": {"file": os.fspath(file), "offset": int(offset)}}


def planes(files: Sequence[str], offsets: int | Sequence[int]) -> dict[str, Any]:
    """Place of planes, one file each; `offsets` is one for all, or one per file."""
    if isinstance(offsets, int):
        return {"planes": {"files": list(files), "offset": offsets}}
    if len(set(offsets)) == 1:
        return {"planes": {"files": list(files), "offset": int(offsets[0])}}
    return {"planes": {"files": list(files), "offset": 0, "offsets": [int(o) for o in offsets]}}


def in_table(files: Sequence[str], table: int = 0) -> dict[str, Any]:
    """Place of chunks in a table."""
    return {"table": {"files": list(files), "table": table}}


def colour_channels(components: int) -> tuple[str, list[Channel]]:
    """Kind and channels of colours with 3 or 4 numbers per voxel."""
    names = ("red", "green", "blue", "alpha")[:components]
    return ("rgb" if components == 3 else "rgba"), [Channel(name) for name in names]


def dtype_of(kind: Any, what: str) -> tuple[str, bool]:
    """Name and byte order (true: big-endian) of a NumPy type.

    Raises:
        DataError: if it is not a type of voxels.

    >>> dtype_of(">f4", "a"), dtype_of("|b1", "a")
    (('float32', True), ('bool', False))
    """
    known = not isinstance(kind, str) or _NUMBERS.fullmatch(kind)
    found = np.dtype(kind) if known else None
    if found is None or found.name not in DTYPES:
        said = kind if found is None else found.name
        is_text = str(said).lstrip("<>|=").startswith(("U", "S", "O", "V", "str", "bytes", "object", "void"))
        hint = "it holds text or records, no numbers" if is_text else "convert it to float32 first"
        raise DataError(f"{what} is of the type '{said}', which a volume cannot have; {hint}")
    return found.name, found.byteorder == ">"


def check_size(path: str, needed: int, offset: int, about: str) -> None:
    """Refuses a file that is shorter than its header requires.

    Raises:
        DataError: with both sizes.
    """
    size = places.getsize(path)
    if offset + needed > size:
        raise DataError(
            f"{path}: {about} needs {needed:,} bytes from byte {offset:,} on, and the file ends at {size:,}: it was cut off, or "
            "its header is wrong; copy or write it again"
        )
