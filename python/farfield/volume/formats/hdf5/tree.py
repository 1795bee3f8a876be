"""What an HDF5 file holds: datasets by name, and attributes as Python has them."""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST_FOUND = 10_000


def few(names: list[str]) -> str:
    """The first of some names, and how many more there are.

    >>> few(["a", "b"])
    'a, b'
    """
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def datasets(h5py: Any, file: Any) -> list[tuple[str, Any]]:
    """Datasets of numbers, by name; each once, however many links lead to it."""
    found: list[tuple[str, Any]] = []

    def visit(name: str, thing: Any) -> bool | None:
        if isinstance(thing, h5py.Dataset) and thing.shape is not None and thing.dtype.kind in "iufbc":
            found.append(("/" + name, thing))
        return True if len(found) >= _MOST_FOUND else None

    file.visititems(visit)
    return found


def attributes(thing: Any) -> dict[str, Any]:
    """Attributes as Python has them; those that cannot be read are left out."""
    found: dict[str, Any] = {}
    for key in thing.attrs:
        try:
            value = thing.attrs[key]
        except (OSError, TypeError, ValueError):  # of a type that h5py does not know
            continue
        if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iufSOU":
            value = value.reshape(-1)[0]
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if isinstance(value, np.generic):
            value = value.item()
            value = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
        found[key] = value
    return found
