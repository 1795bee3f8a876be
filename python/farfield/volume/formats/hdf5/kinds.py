"""Containers on HDF5 that have a name: VTKHDF images and Imaris are read as what they are, ITK's too; meshes and others are named.

Whoever names a dataset of one alone (`FILE::/path`) is shown that as an array.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from farfield.errors import UnknownName
from farfield.volume.formats import unsupported_meshes
from farfield.volume.formats.contents import Content
from farfield.volume.formats.decimals import decimals
from farfield.volume.formats.description import Array, Channel, Level, Volume, colour_channels, dtype_of, text_of
from farfield.volume.formats.hdf5 import imaris
from farfield.volume.formats.hdf5.chunks import place
from farfield.volume.formats.hdf5.tree import attributes
from farfield.volume.formats.options import Options, ReaderResources

_MOST = 1000
"""Names that are looked at."""


def text(value: Any) -> str:
    """Text of an attribute, which may be bytes, or letters one by one.

    >>> text(b"ImageData"), text(np.array([b"2", b"4"])), text(None)
    ('ImageData', '24', '')
    """
    if value is None:
        return ""
    if isinstance(value, np.ndarray):
        return "".join(text(v) for v in value.reshape(-1)[:4096])
    return value.decode("utf-8", "replace").strip("\0") if isinstance(value, bytes) else str(value)


def is_known(file: Any) -> bool:
    """Whether a file is a container of a kind with a name."""
    return "VTKHDF" in file or "ITKImage" in file or imaris.is_imaris(file) or _mesh(file) is not None


def read(h5py: Any, file: Any, path: str, options: Options, resources: ReaderResources) -> Volume | None:
    """The volume of a container of a kind with a name; None for any other file, and where a dataset is asked for by its path.

    Raises:
        DataError: if the kind is one that is not read: it is named, with what to do.
        UnknownName: if it holds nothing of that name.
    """
    asked = options.variable
    if asked is not None and isinstance(file.get("/" + asked.strip("/")), h5py.Dataset):
        return None
    if "VTKHDF" in file:
        return _vtkhdf(h5py, file["VTKHDF"], path, asked, resources)
    if imaris.is_imaris(file):
        return imaris.read(h5py, file, path, asked, resources)
    if "ITKImage" in file:
        return _itk(h5py, file["ITKImage"], path, resources)
    kind = _mesh(file)
    if kind is not None and asked is None:
        raise unsupported_meshes.refusal(path, kind)
    return None


def _mesh(file: Any) -> unsupported_meshes.Kind | None:
    if (found := unsupported_meshes.of_hdf5(file, text)) is not None:
        return found
    root = attributes(file)
    if "_NCProperties" not in root and "Conventions" not in root:
        return None
    held = [(name, attributes(file[name])) for name in itertools.islice(file, _MOST) if file.get(name) is not None]
    return unsupported_meshes.of_netcdf(root, [name for name, _ in held], held)


_RESAVE = "save it as .vti, a file a step (in ParaView: File, Save Data, Write Time Steps), which are read together"


def _refuse_order(h5py: Any, group: Any, path: str, name: str, where: str, rows: int, steps: int, each: int) -> None:
    """Raises where the steps of an array do not lie one after the other, `each` rows a step: some may share their numbers."""
    said = group.get(f"Steps/{where}Offsets/{name}")
    starts = [n * each for n in range(steps)]
    found = [int(v) for v in np.asarray(said[:]).reshape(-1)] if isinstance(said, h5py.Dataset) else starts
    # Numbers that are there once are those of all steps.
    if found != starts and not (rows == each and set(found) == {0}):
        raise unsupported_meshes.refusal(
            path,
            (
                f"a series of VTKHDF images whose array '{name}' has its {steps} steps in another order or some of them together "
                f"({where}Offsets: {', '.join(map(str, found[:6]))}{', ...' if len(found) > 6 else ''})",
                _RESAVE,
            ),
        )


def _vtkhdf(h5py: Any, group: Any, path: str, asked: str | None, resources: ReaderResources) -> Volume:
    about = attributes(group)
    kind = text(about.get("Type"))
    if kind != "ImageData":
        what = {
            "UnstructuredGrid": "an unstructured grid", "PolyData": "surfaces or lines", "OverlappingAMR": "nested grids",
            "MultiBlockDataSet": "several blocks", "PartitionedDataSetCollection": "several blocks",
            "HyperTreeGrid": "a grid of trees",
        }.get(kind, "no image")  # fmt: skip
        raise unsupported_meshes.refusal(
            path, (f"VTKHDF of the type {kind or 'none'} ({what})", unsupported_meshes.RESAMPLE)
        )
    extent = [int(v) for v in np.asarray(about["WholeExtent"]).reshape(-1)]
    low, high = np.array(extent[::2]), np.array(extent[1::2])
    arrays = {
        name: (data, where)
        for where in ("PointData", "CellData")
        if where in group
        for name, data in group[where].items()
        if isinstance(data, h5py.Dataset) and data.dtype.kind in "iufb"
    }
    if not arrays:
        raise UnknownName(f"{path}: this VTKHDF image holds no array of points or cells; write it again")
    scalars = text(attributes(group.get("PointData", group)).get("Scalars"))
    name = asked if asked is not None else (scalars if scalars in arrays else next(iter(arrays)))
    if name not in arrays and name.isdecimal() and int(name) < len(arrays):
        name = list(arrays)[int(name)]
    if name not in arrays:
        raise UnknownName(f"{path}: no array named '{name}'; there are: {', '.join(arrays)}")
    data, where = arrays[name]
    count = high - low + (1 if where == "PointData" else 0)
    wanted = tuple(int(n) for n in reversed(np.maximum(count, 1)))
    steps = decimals(group["Steps/Values"][:]) if "Steps/Values" in group else []
    # Steps lie along a dimension of their own, or one behind the other along z.
    letters = ("t" if data.ndim > 3 and steps and data.shape[1:4] == wanted else "") + "zyx"
    letters += "c" if data.ndim > len(letters) else ""
    behind = len(steps) if "t" not in letters and data.shape[0] == len(steps) * wanted[0] else 1
    if (data.shape[letters.index("z")] // behind, *data.shape[letters.index("z") + 1 :][:2]) != wanted:
        raise unsupported_meshes.refusal(
            path,
            (
                f"a VTKHDF image whose array '{name}' has the shape {tuple(data.shape)}, and its extent asks for {wanted}",
                f"name the array alone ({path}::{data.name}), or write it as .vti",
            ),
        )
    if "t" in letters or behind > 1:
        _refuse_order(h5py, group, path, name, where, data.shape[0], len(steps), wanted[0] if behind > 1 else 1)
    spacing = np.abs(np.asarray(about.get("Spacing", (1, 1, 1)), dtype=float))
    direction = np.asarray(about.get("Direction", np.eye(3)), dtype=float).reshape(3, 3)
    first = low + (0.0 if where == "PointData" else 0.5)
    origin = np.asarray(about.get("Origin", (0, 0, 0)), dtype=float) + direction @ (first * spacing)
    array, tables, reads, guessed = _array(h5py, path, data, name, letters, resources)
    if behind > 1:
        if array.chunk is not None and wanted[0] % array.chunk[0]:
            raise unsupported_meshes.refusal(
                path, (f"a series of VTKHDF images, chunks of which hold several of its {behind} steps", _RESAVE)
            )
        # The same numbers, and the same chunks in the same order.
        letters = f"t{letters}"
        array.axes, array.shape = letters, (behind, *wanted, *array.shape[3:])
        array.chunk = None if array.chunk is None else (1, *array.chunk)
    if len(arrays) > 1:
        others = ", ".join(f"{n} ({w})" for n, (_, w) in arrays.items() if n != name)
        guessed.append(f"of its arrays {name} is shown; {path}::NAME shows another: {others}")
    kind, channels = _channels(name, array)
    return Volume(
        path, "VTKHDF image", [Level([array], _three(origin), _three(spacing))], channels, kind, guessed,
        direction=[[float(v) for v in row] for row in direction.T], times=steps[: array.length("t")] if "t" in letters else [],
        tables=tables,
        reads=reads, contents=[Content(n, f"{text_of(d.shape)} {d.dtype}, {w}") for n, (d, w) in arrays.items()],
        shown=list(arrays).index(name),
    )  # fmt: skip


def _itk(h5py: Any, group: Any, path: str, resources: ReaderResources) -> Volume:
    """An image as ITK's HDF5ImageIO writes it: numbers along z, y, x, all else along x, y, z; places are LPS."""
    image = group["0"]
    data = image["VoxelData"]
    size = [int(v) for v in np.asarray(image["Dimension"]).reshape(-1)]
    letters = "zyx"[-len(size) :] + ("c" if data.ndim > len(size) else "")
    array, tables, reads, guessed = _array(h5py, path, data, "VoxelData", letters, resources)
    direction = np.eye(3)
    direction[: len(size), : len(size)] = np.asarray(image["Directions"], dtype=float).reshape(len(size), len(size))
    spacing, origin = np.ones(3), np.zeros(3)
    spacing[: len(size)], origin[: len(size)] = np.asarray(image["Spacing"]), np.asarray(image["Origin"])
    kind, channels = _channels("image", array)
    return Volume(
        path, "ITK image in HDF5", [Level([array], _three(origin), _three(spacing))], channels, kind, guessed, length_unit="mm",
        anatomy="LPS" if len(size) == 3 else None, direction=[[float(v) for v in row] for row in direction], tables=tables,
        reads=reads,
    )  # fmt: skip


def _array(
    h5py: Any, path: str, data: Any, name: str, letters: str, resources: ReaderResources
) -> tuple[Array, list[bytes], list[str], list[str]]:
    """An array where it lies, with tables of chunks, files that are read, and what was guessed."""
    dtype, big = dtype_of(data.dtype, f"{path}::{data.name}")
    array = Array(name, dtype, tuple(int(n) for n in data.shape), letters, {}, big_endian=big)
    array.channels = list(range(array.length("c")))
    tables: list[bytes] = []
    reads, guessed = [path], list[str]()
    place(h5py, path, data, array, tables, resources, reads, guessed)
    return array, tables, reads, guessed


def _channels(name: str, array: Array) -> tuple[str, list[Channel]]:
    count = array.length("c")
    if count in (3, 4) and array.dtype == "uint8":
        return colour_channels(count)
    if count == 1:
        return "scalar", [Channel(name)]
    return "channels", [Channel(f"{name} {n}") for n in range(count)]


def _three(values: Any) -> tuple[float, float, float]:
    a, b, c = (float(v) for v in values)
    return a, b, c
