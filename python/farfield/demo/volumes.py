"""The volume of `demo:phantom`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError

DIMS = (64, 80, 56)
"""Number of voxels along x, y and z."""
SPACING = (2.5, 2.5, 3.0)
"""Distance of voxels in millimetres."""
EDGE = 3.0
"""Width of soft edges in voxels."""
_LAYOUT = 1
"""Version of the bytes, a part of the file's name; increase it when they change."""
_PARTS = [
    # Middle and half axes as shares of half the box, and the value added inside.
    ((0.0, 0.0, 0.0), (0.78, 0.92, 0.86), 200.0),
    ((0.0, -0.02, 0.0), (0.70, 0.84, 0.78), -120.0),
    ((0.25, 0.05, 0.05), (0.14, 0.34, 0.25), -50.0),
    ((-0.25, 0.05, 0.05), (0.14, 0.34, 0.25), -50.0),
    ((0.05, 0.55, -0.1), (0.16, 0.14, 0.2), 90.0),
    ((-0.1, -0.5, -0.25), (0.1, 0.1, 0.12), 60.0),
]
"""Nested ellipsoids after Shepp and Logan (1974): a shell, two hollows and two lumps."""


def phantom() -> NDArray[np.uint8]:
    """The voxels, [z, y, x], uint8, with soft edges.

    >>> phantom().shape
    (56, 80, 64)
    """
    x, y, z = (2.0 * (np.arange(n) + 0.5) / n - 1.0 for n in DIMS)
    at = (x[None, None, :], y[None, :, None], z[:, None, None])
    found = np.zeros(DIMS[::-1])
    for middle, half, value in _PARTS:
        shares = [(a - m) / h for a, m, h in zip(at, middle, half, strict=True)]
        radius = np.sqrt(sum(s * s for s in shares))
        # Approximate depth inside the ellipsoid in voxels.
        deep = (1.0 - radius) * min(h * n / 2 for h, n in zip(half, DIMS, strict=True))
        found += value * np.clip(deep / EDGE + 0.5, 0.0, 1.0)
    return np.rint(found).astype(np.uint8)


def volume_file(folder: Path) -> Path:
    """The volume as an NRRD file under `folder`, made unless it exists. Several processes may call it at once.

    Raises:
        DataError: if it cannot be written.
    """
    path = folder / f"phantom-v{_LAYOUT}" / "phantom.nrrd"
    if path.is_file():
        return path
    head = (
        "NRRD0005\ntype: uchar\ndimension: 3\n"
        f"sizes: {DIMS[0]} {DIMS[1]} {DIMS[2]}\nspace: LPS\n"
        f"space directions: ({SPACING[0]},0,0) (0,{SPACING[1]},0) (0,0,{SPACING[2]})\n"
        'space origin: (0,0,0)\nspace units: "mm" "mm" "mm"\nencoding: raw\n\n'
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(head.encode() + phantom().tobytes())
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise DataError(f"{error.filename or path}: cannot write the demo: {error.strerror or error}") from error
    return path
