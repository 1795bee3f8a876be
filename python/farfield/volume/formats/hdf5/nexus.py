"""NeXus: HDF5 whose groups say of what class they are. Of an NXdata its signal is shown, and its axes say where that lies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.volume.formats.cf.conventions import Coordinate, number, numbers
from farfield.volume.formats.cf.coordinates import LONGEST
from farfield.volume.formats.hdf5.tree import attributes

_MOST = 1000
"""Groups that are looked at."""
_OF_SCALE = ("scaling_factor", "offset")
"""Ends of names of what numbers are multiplied by, and of what is added to them before."""


@dataclass(frozen=True)
class Axes:
    """The dimensions of a signal."""

    names: list[str | None]
    lines: dict[str, Coordinate]
    """By name; read already."""
    beyond: tuple[str, ...]
    """Axes of several dimensions, which place nothing here."""


def class_of(thing: Any) -> str:
    """The class that a group says it is of; empty where it says none."""
    return str(attributes(thing).get("NX_class", "")) if hasattr(thing, "attrs") else ""


def is_nexus(file: Any) -> bool:
    """Whether an HDF5 file is one of NeXus."""
    return any(
        class_of(file[name]) in ("NXentry", "NXdata") for name in list(file)[:_MOST] if file.get(name) is not None
    )


def signals(h5py: Any, file: Any) -> list[tuple[str, Any]]:
    """The signals of the NXdata groups of a file, by name, the default one first."""
    found: dict[str, Any] = {}
    for group in [*_defaults(file), *_groups(h5py, file)]:
        name = signal_of(h5py, group)
        if name is not None and group[name].dtype.kind in "iufbc":
            found.setdefault(f"{group.name}/{name}".replace("//", "/"), group[name])
    return list(found.items())


def _defaults(file: Any) -> Iterator[Any]:
    """Where the attributes `default` lead, group by group; from the first entry on where the file has none."""
    group = file
    for _ in range(8):
        name = attributes(group).get("default")
        following = group.get(str(name)) if name else None
        if following is None and group == file:
            following = next((file[n] for n in list(file)[:_MOST] if class_of(file.get(n)) == "NXentry"), None)
        if following is None:
            return
        group = following
        if class_of(group) == "NXdata":
            yield group
            return


def _groups(h5py: Any, file: Any) -> list[Any]:
    found: list[Any] = []

    def visit(_: str, thing: Any) -> bool | None:
        if isinstance(thing, h5py.Group) and class_of(thing) == "NXdata":
            found.append(thing)
        return True if len(found) >= _MOST else None

    file.visititems(visit)
    return found


def signal_of(h5py: Any, group: Any) -> str | None:
    """The name of the dataset of an NXdata that is meant; None where it says none."""
    name = attributes(group).get("signal")
    if name is not None:
        return str(name) if isinstance(group.get(str(name)), h5py.Dataset) else None
    # Files of before 2014 say it of the dataset.
    for own in list(group)[:_MOST]:
        thing = group.get(own)
        if isinstance(thing, h5py.Dataset) and str(attributes(thing).get("signal", "")) == "1":
            return str(own)
    return None


def axes_of(h5py: Any, dataset: Any, group: Any) -> Axes | None:
    """The axes of a dataset of an NXdata, the group; None of others, and where it says none."""
    if class_of(group) != "NXdata" or dataset.shape is None:
        return None
    about = attributes(group)
    words = _words(about.get("axes"))
    signal = signal_of(h5py, group)
    own = _words(attributes(dataset).get("axes"))
    if not words and not own and signal is not None and group[signal] == dataset:
        return _numbered(h5py, group, dataset)
    names: list[str | None] = [None] * dataset.ndim
    for n, word in enumerate(own or words):
        at = numbers(about.get(f"{word}_indices")) or [n]
        places = [int(v) for v in at] if word != "." and np.isfinite(at).all() else []
        if len(places) == 1 and 0 <= places[0] < dataset.ndim and names[places[0]] is None:
            names[places[0]] = word
    if not any(names):
        return None
    wide = [w for w in own or words if w in group and isinstance(group[w], h5py.Dataset) and group[w].ndim > 1]
    return Axes(names, _lines(h5py, group, names, dataset.shape), tuple(wide))


def _words(said: Any) -> list[str]:
    """Names of axes: an array of them, or as a text.

    >>> _words("y:x"), _words(np.array([b"z", "."], dtype=object)), _words(None), _words("[t,x]")
    (['y', 'x'], ['z', '.'], [], ['t', 'x'])
    """
    if said is None:
        return []
    if isinstance(said, str | bytes):
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        return [w for w in re.split(r"[:,\s]+", text.strip("[] ")) if w]
    return [w.decode("utf-8", "replace") if isinstance(w, bytes) else str(w) for w in np.asarray(said).reshape(-1)]


def _numbered(h5py: Any, group: Any, dataset: Any) -> Axes | None:
    """Axes of old files: each says with `axis` which dimension it is of, counted from 1."""
    names: list[str | None] = [None] * dataset.ndim
    for name in list(group)[:_MOST]:
        thing = group.get(name)
        said = number(attributes(thing).get("axis")) if isinstance(thing, h5py.Dataset) else None
        if said is not None and 1 <= said <= dataset.ndim and names[int(said) - 1] is None:
            names[int(said) - 1] = name
    return Axes(names, _lines(h5py, group, names, dataset.shape), ()) if any(names) else None


def _lines(h5py: Any, group: Any, names: list[str | None], shape: tuple[int, ...]) -> dict[str, Coordinate]:
    found: dict[str, Coordinate] = {}
    for name, length in zip(names, shape, strict=True):
        axis = group.get(name) if name is not None else None
        if name is None or not isinstance(axis, h5py.Dataset) or axis.dtype.kind not in "iuf" or length > LONGEST:
            continue
        if axis.shape not in ((length,), (length + 1,)):
            continue
        values = _centres(np.asarray(axis[...]), length)
        factor, offset = (_number_of(h5py, group, f"{name}_{word}") for word in _OF_SCALE)
        if factor is not None or offset is not None:
            values = (values.astype(np.float64) + (offset or 0.0)) * (1.0 if factor is None else factor)
        found[name] = Coordinate(name, attributes(axis), partial(np.asarray, values))
    return found


def _centres(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Centres of bins, where there are their edges: one more than bins.

    >>> _centres(np.array([0, 2, 6]), 2).tolist()
    [1.0, 4.0]
    """
    return values if len(values) == length else (values[:-1].astype(np.float64) + values[1:]) / 2


def scaled(h5py: Any, dataset: Any, group: Any) -> dict[str, float]:
    """What stored numbers are multiplied by, and what is added then, as CF has it: NeXus adds its offset first."""
    name = dataset.name.rsplit("/", 1)[-1]
    if class_of(group) != "NXdata":
        return {}

    # Without a name they are of the signal.
    before = (f"{name}_", "") if name == signal_of(h5py, group) else (f"{name}_",)
    factor, offset = (
        next((v for first in before if (v := _number_of(h5py, group, first + word)) is not None), None)
        for word in _OF_SCALE
    )
    if factor is None and offset is None:
        return {}
    slope = 1.0 if factor is None else factor
    return {"scale_factor": slope, "add_offset": slope * (offset or 0.0)}


def _number_of(h5py: Any, group: Any, name: str) -> float | None:
    """The one number of a dataset; None where there is none of the name."""
    thing = group.get(name)
    if isinstance(thing, h5py.Dataset) and thing.size == 1 and thing.dtype.kind in "iuf":
        return number(thing[()])
    return None
