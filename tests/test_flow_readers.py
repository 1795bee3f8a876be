"""Every reader of a format of flows: what it says of files is true of their bytes, and damage is an error that names a file."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
import flow_text
from farfield.errors import DataError
from farfield.flow.formats import registry
from farfield.flow.formats.description import Array, Constant, Line, Place, Rule, Stored, Zone, Zones
from farfield.flow.formats.registry import Asked
from farfield.volume.formats.options import ReaderResources
from test_volume_coordinates import uneven
from test_vtk_zones import bent, linear, write

Numbers = np.ndarray[Any, Any]


def structured(folder: Path, **how: bool) -> Path:
    x = bent()
    fields = {"p": linear(x).astype("f4"), "velocity": x.astype("f8"), "flag": np.round(linear(x)).astype("i2")}
    return write(folder / "a.vts", "StructuredGrid", {"Points": x.astype("f4")}, fields, **how)


def rectilinear(folder: Path) -> Path:
    lines = {axis: np.array(values) for axis, values in (("x", [0.0, 1, 3]), ("y", [0.0, 2, 3, 7]), ("z", [1.0, 4]))}
    x = np.stack(np.meshgrid(*lines.values(), indexing="ij"), axis=-1).transpose(2, 1, 0, 3)
    return write(folder / "a.vtr", "RectilinearGrid", lines, {"p": linear(x)})


CASES: dict[str, Callable[[Path], Path]] = {
    "flow text": flow_text.write,
    "vtk appended": structured,
    "vtk big endian": lambda folder: structured(folder, big=True),
    "vtk text": lambda folder: structured(folder, text=True),
    "vtk rectilinear": rectilinear,
    "hdf5 uneven": lambda folder: uneven(folder / "a.h5", {}, "K", flows="m/s"),
}
"""A format of the table, and how a file of it is made."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    flow_text.register(monkeypatch)
    return tmp_path / "cache"


def described(path: Path, cache: Path) -> Zones:
    """What the reader of the table says of a file."""
    asked = Asked((str(path),), None, str(path))
    for of in registry.FORMATS:
        if of.matches(asked):
            found = importlib.import_module(of.module).read(asked, ReaderResources(cache))
            if found is not None:
                assert isinstance(found, Zones)
                return found
    raise AssertionError(f"{path}: no format of the table reads it")


def stored(part: Stored, dims: tuple[int, int, int], components: int) -> Numbers:
    """Numbers of a file by their distances, [component, k, j, i]."""
    kind = np.dtype(part.number).newbyteorder(">" if part.big_endian else "<")
    with open(part.path, "rb") as file:
        data = b"".join(file.seek(first) * b"" + file.read(length) for first, length in part.runs)
    point = part.point_bytes or kind.itemsize
    row = part.row_bytes or point * dims[0]
    plane = part.plane_bytes or row * dims[1]
    component = part.component_bytes or plane * dims[2]
    return np.ndarray((components, *dims[::-1]), kind, data, strides=(component, plane, row, point))


def computed(rule: Rule, dims: tuple[int, int, int]) -> Numbers:
    k, j, i = np.indices(dims[::-1])
    if isinstance(rule, Constant):
        return np.full(dims[::-1], math.nan if rule.value is None else rule.value)
    if isinstance(rule, Line):
        return np.asarray(rule.values)[(i, j, k)[rule.axis]]
    return np.asarray(rule.origin + i * rule.steps[0] + j * rule.steps[1] + k * rule.steps[2])


def numbers(zone: Zone, array: Array, place: Place) -> Numbers:
    """Numbers of an array at a step, in its type in the dataset."""
    files = [part for part in place if isinstance(part, Stored)]
    rules = [part for part in place if not isinstance(part, Stored)]
    count = array.components or len(place)
    if rules:
        found = np.stack([computed(rule, zone.dims) for rule in rules])
    elif len(files) == 1:
        found = stored(files[0], zone.dims, count)
    else:
        found = np.concatenate([stored(part, zone.dims, 1) for part in files])
    assert found.shape == (count, *zone.dims[::-1]), array.name
    return found.astype(array.dtype)


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_is_true_of_the_bytes(case: str, cache: Path, tmp_path: Path) -> None:
    path = CASES[case](tmp_path)
    found = described(path, cache)
    document = found.document()
    assert document == json.loads(json.dumps(document, allow_nan=False)), "JSON holds it"
    assert document == described(path, cache).document(), "a second reading says the same"
    assert str(path) in found.all_files and all(Path(file).exists() for file in found.all_files)
    steps = max(1, *(len(array.steps) for zone in found.zones for array in zone.arrays))
    with farfield.open(path) as ds:
        assert len(ds.zones) == len(found.zones)
        for step in range(steps):
            at = ds.isel(time=step) if steps > 1 else ds
            for zone, opened in zip(found.zones, at.zones.values(), strict=True):
                assert opened.dims == zone.dims and zone.arrays[0].role == "coordinates"
                for array in zone.arrays:
                    place = array.steps[step] if array.steps else array.place
                    want, have = numbers(zone, array, place), np.asarray(opened[array.name][...])
                    want = want[0] if len(want) == 1 else want
                    assert have.dtype == want.dtype, array.name
                    assert np.array_equal(have, want, equal_nan=True), array.name


def values(path: Path) -> list[Numbers]:
    with farfield.open(path) as ds:
        names = ["xyz", *ds.fields]
        return [np.asarray(zone[name][...]) for zone in ds.zones.values() for name in names if name in zone]


def are_equal(a: list[Numbers], b: list[Numbers]) -> bool:
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_cut_and_missing_files_are_errors_that_name_them(case: str, tmp_path: Path) -> None:
    """A cut may spare all numbers, as where it takes the last tag of XML: then they are the same."""
    path = CASES[case](tmp_path)
    whole = values(path)
    for file in [file for file in sorted(tmp_path.iterdir()) if file.is_file()]:
        data, refused = file.read_bytes(), 0
        for length in (len(data) - 1, len(data) * 19 // 20, len(data) // 2, 12, 0):
            file.write_bytes(data[:length])
            try:
                found = values(path)
            except DataError as error:
                assert f"{tmp_path}/" in str(error)  # a cut header may name another file
                refused += 1
            else:
                assert are_equal(found, whole), f"{file.name} of {length} bytes"
        assert refused >= 3
        file.unlink()
        with pytest.raises(DataError, match=file.name.replace(".", r"\.")):
            farfield.open(path)
        file.write_bytes(data)
    assert are_equal(values(path), whole)
