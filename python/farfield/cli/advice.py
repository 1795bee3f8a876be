"""What is told at the end of a run about how the next one gets faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.runtime.sizes import format_bytes


def conversion_pays(stats: Mapping[str, Any], info: Mapping[str, Any], source: object) -> list[str]:
    """That a volume without levels, of which a picture read more than its memory holds, is better converted: a line, or none.

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
