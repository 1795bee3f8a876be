"""Libraries that read chunks of a store, or the same chunks in HDF5: shared parts of experiments with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farfield_bench import arms
from farfield_bench.result import Recorder

LIBRARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "zarr-python": ("zarr_pages", {}),
    "zarrs": ("zarr_pages", {"zarrs": True}),
    "TensorStore": ("tensorstore_pages", {}),
    "h5py": ("h5py_pages", {}),
}
"""Function in `farfield_bench.peers` and its options, for each library."""


def hdf5(recorder: Recorder, path: Path, options: dict[str, Any]) -> bool:
    """Writes the HDF5 file of a store's array, with the same chunks, made once. Returns whether it exists."""
    if path.exists():
        return True
    done = arms.run(arms.peer("h5py_make", **options, file=str(path)), timeout_s=1200)
    return ran(recorder, "h5py", done)


def ran(recorder: Recorder, name: str, done: arms.Run) -> bool:
    """Whether a peer ran. If not, the conditions record it with its message."""
    said = " ".join(done.stderr.strip().splitlines()[-1:])[:120]
    return recorder.condition(name, done.code == 0, "" if done.code == 0 else said or f"exit code {done.code}")
