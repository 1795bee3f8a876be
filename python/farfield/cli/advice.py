"""Advice at the end of a run on how to make the next one faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.runtime.sizes import format_bytes


def conversion_pays(stats: Mapping[str, Any], info: Mapping[str, Any], source: object) -> list[str]:
    """Advice to convert a volume without levels, if a picture read more than the memory limit: one line, or none.

    >>> stats = {"bytes_read": 9 << 30, "limit_bytes": 64 << 20}
    >>> conversion_pays(stats, {"what": "volume", "levels": [{}]}, "scan.nrrd")[0][:60]
    'again    9.0 GiB were read, since the volume has no coarser '
    >>> conversion_pays(stats, {"what": "volume", "levels": [{}, {}]}, "scan.zarr")
    []
    """
    if info.get("what") != "volume" or len(info.get("levels", ())) != 1:
        return []
    if stats["bytes_read"] <= stats["limit_bytes"]:
        return []
    read = format_bytes(stats["bytes_read"])
    return [
        f"again    {read} were read, since the volume has no coarser levels: after `farfield convert {source} NAME.zarr`, once, "
        "pictures read a part of that"
    ]
