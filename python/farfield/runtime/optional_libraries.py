"""Libraries that read what only they should read; they are an extra, and are imported when a file needs them."""

from __future__ import annotations

import importlib
from typing import Any

from farfield.errors import UsageError

PACKAGES = {"tifffile": "tifffile", "pydicom": "pydicom", "h5py": "h5py", "PIL": "pillow"}
"""Modules and the packages that they come in."""


def need(module: str, what: str) -> Any:
    """The module.

    Raises:
        UsageError: if it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = PACKAGES[module.split(".")[0]]
        raise UsageError(
            f"{what} are read with {package}, which is not installed here ({error}); pip install 'farfield[volumes]' "
            f"(or pip install {package}) brings it"
        ) from error
