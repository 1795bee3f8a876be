"""Ranges of pages of volumes paged in place: found by one pass on demand, and stored in the cache.

Their folder is named after the volume and a digest of the places of its pages. It records the state of the files and
is ignored after any change.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

from farfield import _core
from farfield.runtime.cache import note_use
from farfield.sources import places
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.files import stem
from farfield.volume.formats.options import ReaderResources

Seen = tuple[float, float] | None
"""Lowest and highest stored number of a channel; None if it has no number."""


def folder_of(described: VolumeDescription, cache_dir: Path) -> Path:
    """The cache folder for the ranges of a volume."""
    arrays = [level["arrays"] for level in described.spec["levels"]]
    text = json.dumps([places.realpath(described.spec["path"]), arrays], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    name = re.sub(r"[^A-Za-z0-9._-]", "", stem(described.spec["path"]))[:40] or "volume"
    return cache_dir / "data" / f"{name}-{digest}.ranges"


def with_ranges(described: VolumeDescription, resources: ReaderResources) -> VolumeDescription:
    """Adds the ranges of pages, if they are in the cache and the files are unchanged."""
    if described.spec.get("ranges") is not None:
        return described
    folder = folder_of(described, resources.cache_dir)
    if not (folder / "zarr.json").is_file():
        return described

    found = _core.known_ranges(described.native(), described.tables, str(folder), progress=resources.progress)
    if found is None:
        return described
    note_use(folder, described.reads)
    spec = {**described.spec, "ranges": str(folder / "_farfield")}
    return replace(described, spec=spec, seen=seen_of(found), ranges_failed=failed_of(found))


def seen_of(text: str) -> tuple[Seen, ...]:
    """Ranges by channel, from the extension's JSON.

    >>> seen_of('{"seen": [[1, "Infinity"], null], "failed": 0}')
    ((1.0, inf), None)
    """
    return tuple(None if pair is None else (float(pair[0]), float(pair[1])) for pair in json.loads(text)["seen"])


def failed_of(text: str) -> int:
    """Number of pages that were unreadable when the ranges were found.

    >>> failed_of('{"seen": [["-Infinity", "Infinity"]], "failed": 1}')
    1
    """
    return int(json.loads(text)["failed"])
