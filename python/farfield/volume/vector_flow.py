"""Flows from volumes: a vector of two or three numbers per voxel, or the components of a velocity, become a zone.

Lines need all components at points of a grid. So a traced volume becomes a zone: a rule gives the points, the centres of
voxels. The vectors become a field, which is decoded into the cache once, in bounded memory.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np

from farfield.errors import UnknownName, UsageError
from farfield.flow.formats.description import Array, Uniform, Zone, Zones
from farfield.flow.formats.flat_arrays import FlatArrays
from farfield.runtime.progress import reporting
from farfield.runtime.resources import Resources
from farfield.runtime.run_context import to_stderr
from farfield.runtime.settings import Settings
from farfield.sources import places
from farfield.sources.source import Source
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.detection import split_variable
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.patterns import is_pattern
from farfield.volume.formats.units import BY_NUMBERS, SECONDS, factor, followed, speed_factor, unit
from farfield.volume.formats.vtk.array_names import SPELLINGS, VELOCITY, components_of_velocity
from farfield.volume.values import VolumeChannel
from farfield.volume.voxels import Voxels, open_native

_CONTAINERS = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf", ".he5", ".zarr")
"""Suffixes of containers, in which three variables may be the components of a velocity."""


@dataclass(frozen=True)
class _Part:
    """A component of the vector: a channel of a volume."""

    volume: Voxels
    channel: int

    @property
    def about(self) -> VolumeChannel:
        """The channel of the component."""
        return self.volume.channels[self.channel]


@places.opening()
def flow_in(
    source: str,
    *,
    quiet: bool = False,
    settings: Settings | None = None,
    options: Options | None = None,
) -> Source:
    """Converts a volume into a zone whose field `velocity` is its vector. `options` are those of the volume.

    Raises:
        DataError: if the volume cannot be read, or the disk is full.
        UsageError: if the volume has no vector.
    """
    settings = settings or Settings()
    with ExitStack() as open_until, reporting(False if quiet else None) as report:
        for_reader = ReaderResources(
            settings["cache_dir"], report, None if quiet else to_stderr, settings.memory_limit()
        )

        def opened(name: str) -> Voxels:
            own = options if name == source else None
            return open_until.enter_context(
                Voxels(name, open_native(name, Resources(settings), options=own, quiet=quiet))
            )

        parts, said = _vector(source, opened)
        return _converted(source, parts, said, for_reader)


def _vector(source: str, opened: Callable[[str], Voxels]) -> tuple[list[_Part], str]:
    """The components, and a description of the vector for messages."""
    try:
        volume = opened(source)
    except UsageError as error:
        if "--raw" not in str(error):
            raise
        name = os.path.basename(source)
        raise UsageError(
            f"{source}: raw numbers do not say what they are; convert them first, as in farfield convert {name} "
            f"{os.path.splitext(name)[0]}.zarr --raw 'shape=64x64x64 dtype=float32 components=3', and name the result here"
        ) from error
    planar = 1 in volume.levels[0]
    names = [channel.name for channel in volume.channels]
    found = components_of_velocity(names, planar=planar)
    if found is not None:
        return [_Part(volume, names.index(name)) for name in found], f"its channels {', '.join(found)}"
    real = all(channel.dtype.kind == "f" or channel.scale is not None for channel in volume.channels)
    if real and len(names) in ((2, 3) if planar else (3,)):
        return [_Part(volume, n) for n in range(len(names))], f"its {len(names)} numbers a voxel"
    path, variable = split_variable(source)
    if path.lower().rstrip("/").endswith(_CONTAINERS) and not is_pattern(path):
        variables = _components_in(path, variable, planar, opened)
        if variables is not None:
            _check_alike(source, variables)
            listed = ", ".join(part.volume.source.removeprefix(f"{path}::") for part in variables)
            return variables, f"its variables {listed}"
    numbers = "1 number" if len(names) == 1 else f"{len(names)} numbers"
    raise UsageError(
        f"{source}: this is a volume of {numbers} a voxel, and this command takes datasets of zones, and volumes with a vector: "
        "three floating-point numbers a voxel, or variables called u, v and w; name the vector (FILE::NAME), or write "
        "its components as one .vti; 'farfield info' and 'farfield probe' take all volumes"
    )


def _components_in(
    path: str, variable: str | None, planar: bool, opened: Callable[[str], Voxels]
) -> list[_Part] | None:
    """The variables of a container that are the components of a velocity; with a named variable, those that include
    it."""
    group = "" if variable is None else variable.rpartition("/")[0]
    for spelling in SPELLINGS:
        for change in (str, str.upper, str.capitalize):
            words = [change(word) for word in spelling.split()[: 2 if planar else 3]]
            names = [f"{group}/{word}" if group else word for word in words]
            if variable is not None and variable.strip("/") not in [name.strip("/") for name in names]:
                continue
            try:
                return [_Part(opened(f"{path}::{name}"), 0) for name in names]
            except UnknownName:
                continue  # the container has other variables
    return None


def _check_alike(source: str, parts: Sequence[_Part]) -> None:
    first = parts[0].volume
    for part in parts[1:]:
        other = part.volume
        if (other.shape, other.space.spacing, other.space.origin) != (
            first.shape,
            first.space.spacing,
            first.space.origin,
        ):
            names = other.source, first.source
            raise UsageError(
                f"{source}: {names[0]} and {names[1]} are not of one grid ({_size(other)} and {_size(first)} voxels), "
                "and components of a vector are; interpolate them to one grid"
            )


def _size(volume: Voxels) -> str:
    return " x ".join(map(str, volume.levels[0]))


def _paces(source: str, parts: Sequence[_Part], remarks: list[str]) -> list[float]:
    """Factors that bring the components into the units of positions and times.

    Raises:
        UsageError: if they are speeds, but positions are not lengths.
    """
    first = parts[0].volume
    length, said = first.space.unit, str(first._spec["time_units"])
    units = [part.about.units for part in parts]
    # With several units of positions, the length of a line has no unit.
    is_mixed = length == "1" and any(" unit" in place for place in first._description.places)
    found = followed(["no one unit" if is_mixed else length], units, named=True)
    given = ", ".join(dict.fromkeys(units))
    if found is None:
        raise UsageError(
            f"{source}: its positions are in {'no one unit' if length == '1' else length}, and its vectors in {given}, so "
            "that no line follows them; put them on a grid in metres"
        )
    known, is_metric = found
    if not is_metric:
        if length == "1" and all(speed_factor(u) is not None for u in units):
            remarks.append(f"{BY_NUMBERS.format(given)}.")
        return known
    metres = factor("m", length) or 1.0
    word = said.partition(" since ")[0] if len(first.times) > 1 else "s"
    seconds = SECONDS.get(unit(word) or "", 1.0)
    paces = [float(f"{pace * metres * seconds:.12g}") for pace in known]
    if any(pace != 1.0 for pace in paces):
        per = word if unit(word) in SECONDS else "s"
        remarks.append(f"{VELOCITY} is brought from {given} to {length}/{unit(per)}, the units of positions and times.")
    return paces


def _converted(source: str, parts: Sequence[_Part], said: str, for_reader: ReaderResources) -> Source:
    first = parts[0].volume
    remarks: list[str] = []
    dims = first.levels[0]
    space = first.space
    columns, origin = space.matrix.T, np.array(space.origin)
    along = [n for n in range(3) if dims[n] > 1]
    planar = dims[2] == 1 and len(along) == 2 and not columns[:2, 2].any()
    if planar:
        parts = parts[:2]
    elif len(parts) == 2:
        raise UsageError(
            f"{source}: its vectors have two components, and its voxels lie in no plane of one z; write three components"
        )
    paces = _paces(source, parts, remarks)
    axes = 2 if planar else 3
    nodes = int(np.prod(dims))
    files = list(dict.fromkeys(name for part in parts for name in part.volume.reads))
    number = "float32" if all(part.about.dtype.itemsize <= 4 for part in parts) else "float64"
    dtype = np.dtype(number).newbyteorder("<").str
    steps = max(1, len(first.times))
    made = []
    for step in range(steps):
        flat = FlatArrays()
        flat.add(VELOCITY, dtype, axes * nodes, partial(_write_vectors, parts, paces, step, dtype, dims))
        made.append(
            flat.stored(
                source,
                for_reader,
                why="is a volume with a flow in it" + (f", and its vectors are of step {step}" if steps > 1 else ""),
                how=f"flow {step} {axes} {[(p.volume.source, p.channel) for p in parts]} {paces}",
                files=files,
            )
        )
    rules = tuple(
        Uniform(float(origin[n]), (float(columns[0][n]), float(columns[1][n]), float(columns[2][n])))
        for n in range(axes)
    )
    remarks.insert(
        0, f"It is a volume, of which {said} are taken as the vector {VELOCITY}, along x, y and z of its positions."
    )
    if planar:
        remarks.append("It is flat, and so two-dimensional: lines stay in its plane, and positions are x,y.")
    times = tuple(float(t) for t in first.times)
    path = split_variable(source)[0]
    arrays = (
        Array("xyz", rules, role="coordinates", dtype="float64", long_name="position"),
        Array(VELOCITY, dtype=number, components=axes, steps=tuple(made)),
    )
    zones = Zones(
        f"{first.format} volume",
        (Zone((dims[0], dims[1], dims[2]), arrays),),
        files=tuple(dict.fromkeys([*files, *([path] if places.exists(path) else [])])),
        files_of_steps=((),) * steps,
        dimension=axes,
        times=times if all(a < b for a, b in itertools.pairwise(times)) else (),
        is_converted=True,
        remarks=tuple(remarks),
    )
    return Source.of_zones(zones, path, source)


def _layers(dims: Sequence[int]) -> Iterator[tuple[int, int]]:
    count = max(1, 4 * PIECE // (dims[0] * dims[1] * 8))
    for k in range(0, dims[2], count):
        yield k, min(k + count, dims[2])


def _write_vectors(
    parts: Sequence[_Part],
    paces: Sequence[float],
    step: int,
    dtype: str,
    dims: Sequence[int],
    file: BinaryIO,
    at: int,
    tell: Callable[[int], None],
) -> None:
    file.seek(at)
    for part, pace in zip(parts, paces, strict=True):
        about = part.about
        for low, high in _layers(dims):
            box = part.volume.read(part.channel, low, high, step)
            values = about.values(box) if pace == 1.0 else about.values(box) * pace
            block = np.asarray(values, dtype=dtype)
            file.write(block.tobytes())
            tell(block.nbytes)
