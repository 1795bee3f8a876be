"""Ranges of the values of a volume, where what is known are those of all stored numbers, missing ones among them.

Ranges of pages hold all numbers, so that they hold whatever is said to be missing later on. For people the lowest and the highest
value are found by one more pass, made when ranges are asked for, and kept beside them in the cache.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError, Interrupted
from farfield.runtime.progress import Report
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.missing_values import Missing, is_missing, of_json, ranges_of
from farfield.volume.page_ranges import Seen, folder_of

_BOX = 8 << 20
"""About so many bytes are read at a time."""
Triple = tuple[int, int, int]


class Reads(Protocol):
    """What is asked of the extension's volume."""

    def info(self) -> str:
        """The pages of each level."""

    def read_box(self, level: int, channel: int, lo: Triple, hi: Triple, step: int) -> NDArray[Any]:
        """[k, j, i] of a box of voxels."""


def unsettled(described: VolumeDescription) -> list[int]:
    """Channels whose lowest or highest stored number is the one that stands for no value, or a double that single precision cannot
    hold.
    """
    missing = [of_json(channel.get("missing")) for channel in described.spec["channels"]]
    doubles = {c for a in described.spec["levels"][0]["arrays"] if a["dtype"] == "float64" for c in a["channels"]}
    return [
        n
        for n, pair in enumerate(described.seen or ())
        if pair is not None and (_at_an_end(missing[n], pair) or (n in doubles and not all(map(math.isfinite, pair))))
    ]


def _at_an_end(missing: Missing, seen: tuple[float, float]) -> bool:
    """Whether such a number may be the lowest or the highest of those seen, which are rounded outward to single precision.

    >>> _at_an_end(-9999.9, (-9999.900390625, 8.0)), _at_an_end(-9999.9, (-9999.91, 8.0)), _at_an_end(0.0, (-1.0, 0.0))
    (True, False, True)
    """
    with np.errstate(over="ignore"):
        ends = np.array(seen, dtype=np.float32)
        after, before = np.nextafter(ends[0], np.float32("inf")), np.nextafter(ends[1], np.float32("-inf"))
    return any(
        (low <= float(after) and high >= seen[0]) or (low <= seen[1] and high >= float(before))
        for low, high in ranges_of(missing)
    )


def are_known(described: VolumeDescription, cache_dir: Path) -> bool:
    """Whether the range of every channel is."""
    if described.seen is None or described.ranges_failed:
        return False
    return not unsettled(described) or kept(described, cache_dir) is not None


def kept(described: VolumeDescription, cache_dir: Path) -> dict[int, Seen] | None:
    """Ranges of the values of those channels, if they are in the cache; None where they are not."""
    try:
        found = json.loads(_file(described, cache_dir).read_bytes())
        if found["of"] != _state(described, cache_dir):
            return None
        return {int(n): None if pair is None else (pair[0], pair[1]) for n, pair in found["seen"].items()}
    except (OSError, ValueError, KeyError, TypeError):  # not there, or of another version
        return None


def find(described: VolumeDescription, native: Reads, cache_dir: Path, progress: Report | None) -> dict[int, Seen]:
    """Finds them by one pass over the finest level, and keeps them.

    Raises:
        DataError: if a page cannot be read, or the cache cannot be written.
        Interrupted: if the report function says so.
    """
    channels = unsettled(described)
    steps = max(1, len(described.spec["times"]))
    done, total = 0, len(channels) * steps * math.prod(described.spec["levels"][0]["dims"])
    found: dict[int, Seen] = dict.fromkeys(channels)
    for channel in channels:
        missing = of_json(described.spec["channels"][channel].get("missing"))
        for step in range(steps):
            for lo, hi in _boxes(native, described):
                box = native.read_box(0, channel, lo, hi, step)
                found[channel] = _wider(found[channel], box[~is_missing(box, missing) & ~np.isnan(box)])
                done += box.size
                if progress is not None and not progress("ranges", float(done), float(total)):
                    raise Interrupted("interrupted")
    _keep(described, cache_dir, found)
    return found


def _wider(seen: Seen, values: NDArray[Any]) -> Seen:
    if not values.size:
        return seen
    low, high = float(values.min()), float(values.max())
    return (low, high) if seen is None else (min(seen[0], low), max(seen[1], high))


def _boxes(native: Reads, described: VolumeDescription) -> Iterator[tuple[Triple, Triple]]:
    """Boxes of whole pages that hold all voxels of the finest level."""
    page = [int(n) for n in json.loads(native.info())["levels"][0]["page"]]
    dims = [int(n) for n in described.spec["levels"][0]["dims"]]
    edge = list(page)
    for axis in range(3):
        room = _BOX // (8 * math.prod(edge))
        edge[axis] = min(-(-dims[axis] // page[axis]), max(1, room)) * page[axis]
    for k in range(0, dims[2], edge[2]):
        for j in range(0, dims[1], edge[1]):
            for i in range(0, dims[0], edge[0]):
                high = [min(a + e, d) for a, e, d in zip((i, j, k), edge, dims, strict=True)]
                yield (i, j, k), (high[0], high[1], high[2])


def _file(described: VolumeDescription, cache_dir: Path) -> Path:
    return folder_of(described, cache_dir).with_suffix(".values.json")


def _state(described: VolumeDescription, cache_dir: Path) -> str:
    """What the ranges of pages were when they were made, and what stands for no value."""
    own = described.spec.get("ranges")
    # Ranges in the cache are made anew when the files have changed; a store of our own is another one then.
    document = os.path.join(os.path.dirname(own) if own is not None else folder_of(described, cache_dir), "zarr.json")
    at = os.stat(document)
    missing = [channel.get("missing") for channel in described.spec["channels"]]
    text = json.dumps([missing, at.st_size, at.st_mtime_ns, at.st_ino])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _keep(described: VolumeDescription, cache_dir: Path, found: dict[int, Seen]) -> None:
    target = _file(described, cache_dir)
    scratch = target.with_suffix(f".{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps({"of": _state(described, cache_dir), "seen": found}))
        os.replace(scratch, target)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise DataError(
            f"{target}: cannot keep the ranges of values: {error.strerror or error}; make room, or set cache_dir"
        ) from error


def ranges(
    described: VolumeDescription, cache_dir: Path, make: Callable[[], dict[int, Seen]] | None
) -> Sequence[Seen] | None:
    """Lowest and highest value, as stored, of each channel; None for one of which they are not known, and where none are known.
    `make` finds those that are not in the cache.
    """
    if described.seen is None:
        return None
    if described.ranges_failed:
        return [None] * len(described.seen)
    wanted = unsettled(described)
    if not wanted:
        return described.seen
    known = kept(described, cache_dir)
    if known is None and make is not None:
        known = make()
    return [(known or {}).get(n) if n in wanted else pair for n, pair in enumerate(described.seen)]
