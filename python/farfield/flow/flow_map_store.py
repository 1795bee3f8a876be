"""Flow maps on disk: told from stores and described, by their Zarr metadata alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

_LONGEST = 1 << 22
"""Documents are a few kilobytes; what is longer is no flow map's."""
_TITLE = "flow map of "


def flow_map(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What a folder holds that `farfield flowmap` has written; None for anything else.

    >>> flow_map("no/such/folder") is None
    True
    """
    name = os.fspath(path)
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
    """The line of Python that opens a flow map.

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
    """The object in a file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            # The title stands near the beginning: the root of a store with thousands of zones is not read for it.
            text = file.read(512)
            if _TITLE.encode() not in text:
                return {}
            text += file.read(_LONGEST)
        found = json.loads(text) if len(text) <= _LONGEST else {}
    except (OSError, ValueError):  # whoever opens it as a store says what is wrong with it
        return {}
    return found if isinstance(found, dict) else {}
