"""Recognition and description of flow maps on disk, from their Zarr metadata alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from farfield.sources import places

_LONGEST = 1 << 22
"""Largest size of a document of metadata in bytes; those of flow maps take a few kilobytes."""
_TITLE = "flow map of "


@places.opening()
def flow_map(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Describes a folder that `farfield flowmap` has written; None for any other path.

    >>> flow_map("no/such/folder") is None
    True
    """
    name = os.fspath(path)
    if places.is_remote(name) and not places.isdir(name):
        return None
    root = _document(os.path.join(name, "zarr.json"))
    about = root.get("attributes")
    documents = (root.get("consolidated_metadata") or {}).get("metadata")
    if not isinstance(about, Mapping) or not isinstance(documents, Mapping):
        return None
    if not (str(about.get("title")).startswith(_TITLE) and str(about.get("source")).startswith("farfield ")):
        return None
    arrays = [_array(key, document) for key, document in documents.items()]
    return {
        "source": name,
        "format": "flow map (Zarr v3)",
        "title": about["title"],
        "written_by": about["source"],
        "arrays": arrays,
        "open_with": opened_with(name),
    }


def opened_with(path: str) -> str:
    """The Python expression that opens a flow map.

    >>> opened_with("map.zarr")
    'xarray.open_zarr("map.zarr")'
    """
    return f"xarray.open_zarr({json.dumps(path)})"


def _array(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    about = document.get("attributes") or {}
    keys = ("long_name", "units", "direction", "release_time", "end_time", "time_units")
    return {
        "name": name,
        "dtype": document.get("data_type"),
        "shape": document.get("shape"),
        "dimensions": document.get("dimension_names"),
        **{key: about.get(key) for key in keys},
    }


def _document(path: str) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none."""
    try:
        with places.open_binary(path) as file:
            # The title is near the beginning. This avoids reading the whole root of a store with thousands of zones.
            text = file.read(512)
            if _TITLE.encode() not in text:
                return {}
            text += file.read(_LONGEST)
        found = json.loads(text) if len(text) <= _LONGEST else {}
    except (OSError, ValueError):  # opening it as a store reports the error
        return {}
    return found if isinstance(found, dict) else {}
