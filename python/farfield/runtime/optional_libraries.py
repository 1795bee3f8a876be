"""Optional libraries, imported when a file or a caller needs them."""

from __future__ import annotations

import importlib
from typing import Any

from farfield.errors import UsageError

PACKAGES = {"tifffile": "tifffile", "pydicom": "pydicom", "h5py": "h5py", "PIL": "pillow"}
"""Modules and their packages."""


def need(module: str, what: str) -> Any:
    """Imports the module.

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


def need_xarray() -> Any:
    """Imports xarray.

    Raises:
        ImportError: if it is not installed, with the extra to install.
    """
    return _extra("xarray")


def need_pyvista() -> Any:
    """Imports PyVista.

    Raises:
        ImportError: if it is not installed, with the extra to install.
    """
    return _extra("pyvista")


def _extra(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"to_{module} needs {module}: pip install 'farfield[{module}]'") from error
