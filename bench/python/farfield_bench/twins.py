"""Stored twins of derived fields: the same numbers, made with NumPy and written to a function file beside the flow."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import numpy as np

from farfield.errors import DataError
from farfield.runtime.sizes import format_bytes
from farfield_bench.data import GAMMA, Array, Flow, arrays

SCALARS = ("speed", "pressure", "vorticity_magnitude", "q_criterion", "lambda2")
VECTOR = "grad_density"
SLAB = 16
"""Planes made at a time."""


def stored(name: str) -> str:
    """The name of a field's twin."""
    return f"stored_{name}"


def make(flow: Flow) -> Path:
    """A function file with the twins of `SCALARS` and `VECTOR` of a single-zone flow in single precision, made once.

    Raises:
        DataError: if it cannot be written.
    """
    path = flow.grid.with_suffix(".f")
    if path.exists():
        return path
    print(f"farfield: making {path}", file=sys.stderr, flush=True)
    names = [*(stored(name) for name in SCALARS), f"{stored(VECTOR)}_x ; {stored(VECTOR)}"]
    names += [f"{stored(VECTOR)}_{axis}" for axis in "yz"]
    part = path.with_suffix(".f.part")
    points = flow.dims[0] * flow.dims[1] * flow.dims[2]
    size = 4 * points * len(names)
    try:
        path.with_suffix(".nam").write_text("\n".join(names) + "\n")
        with part.open("wb") as file:
            for body in (struct.pack("<i", 1), struct.pack("<4i", *flow.dims, len(names))):
                file.write(struct.pack("<i", len(body)) + body + struct.pack("<i", len(body)))
            file.write(struct.pack("<i", size))
            start = file.tell()
            file.truncate(start + size)
            for k in range(0, flow.dims[2], SLAB):
                for column, values in enumerate(_planes(flow, k, min(k + SLAB, flow.dims[2]))):
                    file.seek(start + 4 * (column * points + k * flow.dims[0] * flow.dims[1]))
                    file.write(np.ascontiguousarray(values, dtype="<f4").data)
            file.seek(start + size)
            file.write(struct.pack("<i", size))
        os.replace(part, path)
    except OSError as error:
        raise DataError(f"{error.filename or path}: cannot write the data: {error.strerror}") from error
    print(f"farfield: made {format_bytes(path.stat().st_size)}", file=sys.stderr, flush=True)
    return path


def _planes(flow: Flow, first: int, last: int) -> list[Array]:
    """All twins on some planes. Differences are as documented: central, at the faces of the zone of second order from one side."""
    low, high = max(0, first - 2), min(flow.dims[2], last + 2)
    xyz, density, momentum, energy = (a[:, low:high].astype(np.float64) for a in arrays(flow))
    inner = slice(first - low, last - low)
    velocity = momentum / density
    square = (velocity**2).sum(axis=0)
    along = np.array([_differences(c)[:, inner] for c in xyz])  # [coordinate, axis, k, j, i]
    metrics = np.linalg.inv(np.moveaxis(along, (0, 1), (-2, -1)))  # [k, j, i, axis, coordinate]

    def gradient(f: Array) -> Array:
        """[k, j, i, coordinate]."""
        found: Array = np.einsum("a...,...ac->...c", _differences(f)[:, inner], metrics)
        return found

    g = np.stack([gradient(c) for c in velocity], axis=-2)  # [k, j, i, component, coordinate]
    turned = np.swapaxes(g, -1, -2)
    strain, spin = (g + turned) / 2, (g - turned) / 2
    curl = np.stack([g[..., (a + 2) % 3, (a + 1) % 3] - g[..., (a + 1) % 3, (a + 2) % 3] for a in range(3)], axis=-1)
    pressure = (GAMMA - 1) * (energy[0] - 0.5 * density[0] * square)
    return [
        np.sqrt(square)[inner],
        pressure[inner],
        np.linalg.norm(curl, axis=-1),
        ((spin**2).sum(axis=(-1, -2)) - (strain**2).sum(axis=(-1, -2))) / 2,
        np.linalg.eigvalsh(strain @ strain + spin @ spin)[..., 1],
        *np.moveaxis(gradient(density[0]), -1, 0),
    ]


def _differences(f: Array) -> Array:
    """Differences along i, j and k of an array [k, j, i]."""
    return np.stack([np.gradient(f, axis=axis, edge_order=2) for axis in (2, 1, 0)])
