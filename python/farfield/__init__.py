"""Farfield shows any part of a dataset that is far larger than memory.

>>> import farfield as ff
>>> ds = ff.open("demo:box", memory_limit="64MiB")
>>> lines = ds.streamlines("velocity", seeds=ff.rake((0.6, 0.5, 0.3), (0.9, 0.5, 0.3), n_points=4), max_length=1.0)
>>> len(lines)
4

Importing the package costs next to nothing: NumPy and the extension come with the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from farfield._version import __version__

if TYPE_CHECKING:
    from farfield.cores import extract_cores
    from farfield.dataset import Dataset, open
    from farfield.errors import (
        AccessError,
        AmbiguousError,
        DataError,
        FarfieldError,
        Interrupted,
        MemoryLimitError,
        UnknownName,
        UsageError,
    )
    from farfield.lines import Lines
    from farfield.mesh import Mesh
    from farfield.probes import Probe
    from farfield.runs import convert, extract_surface, render, validate
    from farfield.scene import Scene
    from farfield.seeds import rake
    from farfield.volumedata import VolumeDataset
    from farfield.volumevalues import VolumeChannel, VolumeProbe
    from farfield.zones import Field, Zone

_HOME = {
    "AccessError": "errors",
    "AmbiguousError": "errors",
    "DataError": "errors",
    "Dataset": "dataset",
    "FarfieldError": "errors",
    "Field": "zones",
    "Interrupted": "errors",
    "Lines": "lines",
    "MemoryLimitError": "errors",
    "Mesh": "mesh",
    "Probe": "probes",
    "Scene": "scene",
    "UnknownName": "errors",
    "UsageError": "errors",
    "VolumeChannel": "volumevalues",
    "VolumeDataset": "volumedata",
    "VolumeProbe": "volumevalues",
    "Zone": "zones",
    "convert": "runs",
    "extract_cores": "cores",
    "extract_surface": "runs",
    "open": "dataset",
    "rake": "seeds",
    "render": "runs",
    "validate": "runs",
}

__all__ = [
    "AccessError",
    "AmbiguousError",
    "DataError",
    "Dataset",
    "FarfieldError",
    "Field",
    "Interrupted",
    "Lines",
    "MemoryLimitError",
    "Mesh",
    "Probe",
    "Scene",
    "UnknownName",
    "UsageError",
    "VolumeChannel",
    "VolumeDataset",
    "VolumeProbe",
    "Zone",
    "__version__",
    "convert",
    "extract_cores",
    "extract_surface",
    "open",
    "rake",
    "render",
    "validate",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'farfield' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"farfield.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
