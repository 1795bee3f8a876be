"""Farfield shows any part of a dataset that is far larger than memory.

>>> import farfield as ff
>>> ds = ff.open("demo:box", memory_limit="64MiB")
>>> lines = ds.streamlines("velocity", seeds=ff.rake((0.6, 0.5, 0.3), (0.9, 0.5, 0.3), n_points=4), max_length=1.0)
>>> len(lines)
4

Importing the package is cheap: NumPy and the extension load with the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from farfield._version import __version__

if TYPE_CHECKING:
    from farfield.errors import (
        AccessError,
        AmbiguousError,
        DataError,
        FarfieldError,
        InternalError,
        Interrupted,
        MemoryLimitError,
        UnknownName,
        UsageError,
    )
    from farfield.flow.dataset import Dataset
    from farfield.flow.probes import Probe
    from farfield.flow.seeds import rake
    from farfield.flow.surface_extraction import extract_surface
    from farfield.flow.vortex_cores import extract_cores
    from farfield.flow.zones import Field, Zone
    from farfield.opening import open
    from farfield.pictures.rendering import render
    from farfield.results.lines import Lines
    from farfield.results.mesh import Mesh
    from farfield.scene import Scene
    from farfield.storage import convert, validate
    from farfield.volume.dataset import VolumeDataset
    from farfield.volume.values import VolumeChannel, VolumeProbe

_HOME = {
    "AccessError": "errors",
    "AmbiguousError": "errors",
    "DataError": "errors",
    "Dataset": "flow.dataset",
    "FarfieldError": "errors",
    "Field": "flow.zones",
    "InternalError": "errors",
    "Interrupted": "errors",
    "Lines": "results.lines",
    "MemoryLimitError": "errors",
    "Mesh": "results.mesh",
    "Probe": "flow.probes",
    "Scene": "scene",
    "UnknownName": "errors",
    "UsageError": "errors",
    "VolumeChannel": "volume.values",
    "VolumeDataset": "volume.dataset",
    "VolumeProbe": "volume.values",
    "Zone": "flow.zones",
    "convert": "storage",
    "extract_cores": "flow.vortex_cores",
    "extract_surface": "flow.surface_extraction",
    "open": "opening",
    "rake": "flow.seeds",
    "render": "pictures.rendering",
    "validate": "storage",
}

__all__ = [
    "AccessError",
    "AmbiguousError",
    "DataError",
    "Dataset",
    "FarfieldError",
    "Field",
    "InternalError",
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
