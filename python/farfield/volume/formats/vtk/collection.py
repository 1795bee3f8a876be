"""Collections of VTK files (`.pvd`, and the JSON of ParaView's file series): which files are which time step."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farfield.errors import DataError, UsageError
from farfield.sources import places
from farfield.volume.formats.files import document, head, json_object, local_name, xml
from farfield.volume.formats.vtk.multiblock import (
    Block,
    beside,
    blocks_of,
    distinct,
    passed_over,
    unread,
    without_unread,
)
from farfield.volume.formats.vtk.regions import is_one_region, outset

_KIND = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\']Collection["\']')
_SERIES = re.compile(rb'^(?:\xef\xbb\xbf)?\s*\{.*"file-series-version"', re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A time step: its parts, and its time if the collection says it."""

    parts: tuple[Block, ...]
    time: float | None
    listed_in: str = ""
    """The file that lists its blocks, where it is one file of several blocks."""

    @property
    def file(self) -> str:
        """Its first file."""
        return self.parts[0].file

    @property
    def named(self) -> str:
        """The file that messages name it by."""
        return self.listed_in or self.file


@dataclass(frozen=True)
class _Entry:
    """A file of a collection, with what the collection says of it."""

    file: str
    time: float | None
    part: str
    name: str


def is_collection(start: bytes) -> bool:
    """Whether a file that begins so is a collection.

    >>> is_collection(b'{"file-series-version": "1.0", "files": []}'), is_collection(b'{"a": 1}')
    (True, False)
    """
    return _KIND.search(start) is not None or _SERIES.search(start) is not None


def steps_of(path: str, remarks: list[str] | None = None) -> list[Step]:
    """The time steps of a collection in order of time. Files of one time are a step together; of two files of one time, one part
    and the same region the later one is taken, as those of a run that was started again are. `remarks` gets what was passed over.

    Raises:
        DataError: if it is damaged, names no file, or one that is not there.
    """
    is_series = _SERIES.search(head(path, 4096)) is not None
    entries = _of_json(path) if is_series else _of_xml(path)
    if not entries:
        raise DataError(f"{path}: this collection names no files; write it again")
    places.prefetch_stats([e.file for e in entries])
    missing = next((e.file for e in entries if not places.isfile(e.file)), None)
    if missing is not None:
        raise DataError(f"{path}: its file {missing} is not there; copy it here too, or take it out of the collection")
    if any(e.time is None for e in entries):
        replaces = _Regions(by_place=not is_series)
        if not any(replaces(a, b) for a, b in itertools.combinations(entries, 2)):
            return [_step(None, entries)]
        return [_step(None, [e]) for e in entries]
    taken: dict[float, list[_Entry]] = {}
    passed: list[str] = []
    replaces = _Regions(by_place=not is_series)
    for entry in entries:
        assert entry.time is not None
        there = taken.setdefault(entry.time, [])
        at = next((n for n, before in enumerate(there) if replaces(before, entry)), None)
        if at is None:
            there.append(entry)
            continue
        if places.realpath(there[at].file) != places.realpath(entry.file):
            passed.append(f"{os.path.basename(there[at].file)} at {entry.time:g}")
        there[at] = entry
    if passed and remarks is not None:
        more = f" and {len(passed) - 3} more" if len(passed) > 3 else ""
        remarks.append(
            f"Of two files of one time the later one in {os.path.basename(path)} is taken; passed over: "
            f"{', '.join(passed[:3])}{more}."
        )
    return [_step(time, taken[time]) for time in sorted(taken)]


class _Regions:
    """Whether an entry takes the place of another one of its time."""

    def __init__(self, *, by_place: bool) -> None:
        self._by_place = by_place
        self._known: dict[tuple[Any, ...], bool] = {}
        """What was found, by what is cheap to know of both files: most steps of a series are like the first."""

    def __call__(self, before: _Entry, entry: _Entry) -> bool:
        if before.part != entry.part:
            return False
        if not self._by_place or places.realpath(before.file) == places.realpath(entry.file):
            return True
        one, other = outset(before.file), outset(entry.file)
        if one is None or other is None:
            return True
        key = (one[0], other[0], tuple(f"{q - p:.3g}" for p, q in zip(one[1], other[1], strict=True)))
        if key not in self._known:
            self._known[key] = is_one_region(before.file, entry.file)
        return self._known[key]


def _step(time: float | None, entries: Sequence[_Entry]) -> Step:
    return Step(tuple(distinct(Block(e.file, e.name) for e in entries)), time)


def _of_xml(path: str) -> list[_Entry]:
    found = []
    for element in xml(path, document(path)).iter():
        if local_name(element.tag) != "DataSet":
            continue
        name, said = element.get("file", ""), element.get("timestep")
        if not name:
            raise DataError(f"{path}: one of its data sets names no file; write it again")
        part = f"{element.get('group') or ''}/{(element.get('part') or '0').strip()}"
        file = beside(path, name)
        found.append(_Entry(file, _time(path, name, said), part, (element.get("name") or "").strip()))
    return found


def _of_json(path: str) -> list[_Entry]:
    files = json_object(path).get("files")
    if not isinstance(files, list):
        raise DataError(f"{path}: this file series has no list of files; write it again")
    found = []
    for entry in files:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise DataError(f"{path}: one of its files has no name; write it again")
        said = entry.get("time")
        time = None if said is None else _time(path, name, str(said))
        found.append(_Entry(beside(path, name), time, "", ""))
    return found


def _time(path: str, name: str, said: str | None) -> float | None:
    try:
        time = None if said is None else float(said)
    except ValueError:
        time = math.nan
    if time is not None and not math.isfinite(time):
        raise DataError(f"{path}: the timestep of {name} is '{said}', which is no time; write it again")
    return time


def single_files(path: str, steps: Sequence[Step]) -> list[Step]:
    """Steps of volumes, each of which is one file.

    Raises:
        UsageError: if one is several files.
    """
    several = next((step for step in steps if len(step.parts) > 1), None)
    if several is not None:
        one, other = several.parts[:2]
        when = "" if several.time is None else f"at the time {several.time:g} "
        raise UsageError(
            f"{path}: {when}it names the volumes {one.file} and {other.file}, and a time step of a volume is one file; open one of "
            "them, or write the parts as one .pvti or .pvtr"
        )
    return list(steps)


def steps_named(files: Sequence[str], remarks: list[str], left_out: list[str]) -> list[Step]:
    """The time steps that files are: those of a collection, else a step each. Files of several blocks become their blocks; of those
    what is no grid is passed over, which `left_out` gets, where others are grids.

    Raises:
        DataError: if a collection or a file of blocks is damaged, or one of its files is not there.
    """
    single = len(files) == 1 and places.isfile(files[0]) and is_collection(head(files[0], 4096))
    steps = steps_of(files[0], remarks) if single else [Step((Block(file),), None) for file in files]
    places.prefetch_stats([part.file for step in steps for part in step.parts])
    if not all(places.isfile(part.file) for step in steps for part in step.parts):
        return steps
    passed: dict[str, str] = {}
    found = []
    for step in steps:
        blocks = [b for part in step.parts for b in blocks_of(part.file, part.name)]
        is_list = blocks[0].file != step.file
        # What is no grid at all is refused as what it is.
        if is_list or any(unread(block.file) is None for block in blocks):
            blocks = without_unread(step.file if is_list else files[0], blocks, passed)
        found.append(Step(tuple(distinct(blocks)), step.time, step.file if is_list else ""))
    if passed:
        left_out.append(passed_over(files[0], passed))
    return found


def are_rising(times: Sequence[float]) -> bool:
    """Whether each time is later than the one before.

    >>> are_rising([2, 2.5, 4]), are_rising([1, 1])
    (True, False)
    """
    return all(a < b for a, b in itertools.pairwise(times))
