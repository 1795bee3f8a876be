"""Collections of VTK files (`.pvd`): which file is which time step."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from farfield.errors import DataError, UsageError
from farfield.volume.files import document, head, local_name, xml

_KIND = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\']Collection["\']')


@dataclass(frozen=True)
class Step:
    """A time step: its file, and its time if the collection says it."""

    file: str
    time: float | None


def is_collection(start: bytes) -> bool:
    """Whether a file that begins so is a collection."""
    return _KIND.search(start) is not None


def steps_of(path: str) -> list[Step]:
    """The files of a collection in order of time.

    Raises:
        DataError: if it is damaged, names no file, or one that is not there.
        UsageError: if a time step is several files.
    """
    found: list[Step] = []
    for element in xml(path, document(path)).iter():
        if local_name(element.tag) != "DataSet":
            continue
        name, said = element.get("file", ""), element.get("timestep")
        if not name:
            raise DataError(f"{path}: one of its data sets names no file; write it again")
        try:
            time = None if said is None else float(said)
        except ValueError:
            time = math.nan
        if time is not None and not math.isfinite(time):
            raise DataError(f"{path}: the timestep of {name} is '{said}', which is no time; write it again")
        found.append(Step(os.path.join(os.path.dirname(path), name), time))
    if not found:
        raise DataError(f"{path}: this collection names no files; write it again")
    missing = next((s.file for s in found if not os.path.isfile(s.file)), None)
    if missing is not None:
        raise DataError(f"{path}: its file {missing} is not there; copy it here too, or take it out of the collection")
    if any(s.time is None for s in found):
        return [Step(s.file, None) for s in found]
    found.sort(key=lambda s: s.time or 0.0)
    for one, other in itertools.pairwise(found):
        if one.time == other.time:
            raise UsageError(
                f"{path}: at the time {one.time:g} it names {one.file} and {other.file}, and a time step is one file; open one of "
                "them, or write the parts as one .pvti, .pvtr or .pvts"
            )
    return found


def times_of(files: Sequence[str]) -> tuple[list[str], list[float] | None]:
    """The files of a collection and their times, where it says them; other files as they are.

    Raises:
        DataError: if the collection is damaged, or a file of it is not there.
        UsageError: if a time step is several files.
    """
    if len(files) != 1 or not os.path.isfile(files[0]) or not is_collection(head(files[0], 4096)):
        return list(files), None
    steps = steps_of(files[0])
    times = [step.time for step in steps if step.time is not None]
    return [step.file for step in steps], times if len(times) == len(steps) > 1 else None
