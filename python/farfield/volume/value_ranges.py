"""Ranges of a volume's values without missing ones, beside known ranges of all stored numbers.

Ranges of pages include all numbers, so that they hold for any definition of missing values. The lowest and highest
value for users need another pass. It is made when ranges are requested; its result is stored in the cache.
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
"""Approximate bytes per read."""
Triple = tuple[int, int, int]


class Reads(Protocol):
    """Methods of the extension's volume for this pass."""

    def info(self) -> str:
        """The pages of each level, as JSON."""

    def read_box(self, level: int, channel: int, lo: Triple, hi: Triple, step: int) -> NDArray[Any]:
        """The numbers of a box, [k, j, i]."""


def unsettled(described: VolumeDescription) -> list[int]:
    """Channels whose lowest or highest stored number is a missing value, or a double beyond single precision."""
    missing = [of_json(channel.get("missing")) for channel in described.spec["channels"]]
    doubles = {c for a in described.spec["levels"][0]["arrays"] if a["dtype"] == "float64" for c in a["channels"]}
    return [
        n
        for n, pair in enumerate(described.seen or ())
        if pair is not None and (_at_an_end(missing[n], pair) or (n in doubles and not all(map(math.isfinite, pair))))
    ]


def _at_an_end(missing: Missing, seen: tuple[float, float]) -> bool:
    """Whether a missing value may be the lowest or highest of the numbers, whose range is rounded outward to single
    precision.

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
    """Whether the range of every channel is known."""
    if described.seen is None or described.ranges_failed:
        return False
    return not unsettled(described) or kept(described, cache_dir) is not None


def kept(described: VolumeDescription, cache_dir: Path) -> dict[int, Seen] | None:
    """Ranges of the unsettled channels from the cache; None if they are not there."""
    try:
        found = json.loads(_file(described, cache_dir).read_bytes())
        if found["of"] != _state(described, cache_dir):
            return None
        return {int(n): None if pair is None else (pair[0], pair[1]) for n, pair in found["seen"].items()}
    except (OSError, ValueError, KeyError, TypeError):  # absent, or of another version
        return None


def find(described: VolumeDescription, native: Reads, cache_dir: Path, progress: Report | None) -> dict[int, Seen]:
    """Finds these ranges by one pass over the finest level, and stores them.

    Raises:
        DataError: if a page cannot be read, or the cache cannot be written.
        Interrupted: if the report function returns False.
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
    """Boxes of whole pages that cover all voxels of the finest level."""
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
    """A digest of the state of the ranges of pages and of the missing values."""
    own = described.spec.get("ranges")
    # A change of the files renews ranges in the cache; a new store has other ranges.
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
    """Lowest and highest stored value of each channel, without missing ones. None for an unknown channel, or if none is
    known. `make` finds ranges that are not in the cache."""
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
