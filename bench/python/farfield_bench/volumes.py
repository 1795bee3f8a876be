"""The volumes of the experiments: made a few planes at a time, stored in the working folder, the same each time.

Raw voxels, k slowest, have a detached NRRD header beside them. Readers and mappers of files so use the same bytes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.runtime.sizes import format_bytes
from farfield_bench.phantom import FOAM_PERIOD, FROZEN_LUNG, Body, Foam

Bytes = NDArray[np.uint8]
Dims = tuple[int, int, int]
Plane = Callable[[int], Bytes]
"""The voxels of a plane, row by row."""
SLAB_BYTES = 8 << 20
"""Bytes of planes that a thread makes before it writes."""

CT_SPINE = 176.0
"""A value below the densest parts of `ct`, the spine and the contrast medium. Its isosurface crosses few pages."""
FOAM_LEVEL = 238.0
"""A value of `foam`: bubbles of about two and a half voxels to each side, one in every box of 32 voxels. Its isosurface
crosses all pages.
"""

Nodes = tuple[tuple[float, float], ...]
Colours = tuple[tuple[float, tuple[float, float, float]], ...]


@dataclass(frozen=True)
class Transfer:
    """A transfer function, linear between nodes of stored numbers."""

    opacities: Nodes
    """Opacities of a length of one voxel."""
    colours: Colours
    """sRGB, 0 to 1."""


CT_TRANSFER = Transfer(
    opacities=(
        (0.0, 0.0), (44.0, 0.0), (60.0, 0.002), (90.0, 0.004), (130.0, 0.012), (150.0, 0.03), (190.0, 0.25), (255.0, 0.5),
    ),
    colours=(
        (0.0, (0.0, 0.0, 0.0)), (60.0, (0.76, 0.55, 0.40)), (90.0, (0.75, 0.32, 0.26)), (130.0, (0.85, 0.45, 0.35)),
        (170.0, (0.95, 0.90, 0.78)), (255.0, (1.0, 1.0, 1.0)),
    ),
)  # fmt: skip
"""Transfer function of `ct`: air and lungs are invisible, soft tissue is a thin haze, bones stop rays."""


@dataclass(frozen=True)
class View:
    """A point of view, in voxels."""

    name: str
    position: tuple[float, float, float]
    target: tuple[float, float, float]
    up: tuple[float, float, float]
    fov_degrees: float = 30.0


def views(dims: Dims, *, turned: float = 0.0) -> list[View]:
    """Five views of a volume, all `turned` by so many degrees: from the front, obliquely, from the side, from above,
    and from near, with a part of it in view.
    """
    middle = np.array([(n - 1) / 2 for n in dims])
    size = float(np.linalg.norm(dims))

    def view(name: str, azimuth: float, elevation: float, away: float) -> View:
        a, e = np.radians(azimuth + turned), np.radians(elevation)
        to = np.array([np.cos(e) * np.sin(a), -np.cos(e) * np.cos(a), np.sin(e)])
        x, y, z = (middle + to * size * away).tolist()
        up = (0.0, 1.0, 0.0) if abs(elevation) > 80 else (0.0, 0.0, 1.0)
        return View(name, (x, y, z), (float(middle[0]), float(middle[1]), float(middle[2])), up)

    return [
        view("front", 0, 0, 1.15),
        view("oblique", 35, 25, 1.25),
        view("side", 90, 10, 1.15),
        view("above", 20, 85, 1.15),
        view("near", -50, 15, 0.7),
    ]


@dataclass(frozen=True)
class Volume:
    """A volume on disk, or a series of them."""

    header: Path
    """NRRD, detached."""
    files: tuple[Path, ...]
    """Voxels of each time step."""
    dims: Dims
    components: int = 1

    @property
    def paths(self) -> list[Path]:
        """All its files."""
        return [self.header, *self.files]

    @property
    def step_bytes(self) -> int:
        """Bytes of the voxels of a time step."""
        return self.dims[0] * self.dims[1] * self.dims[2] * self.components

    @property
    def bytes(self) -> int:
        """Bytes of all voxels."""
        return self.step_bytes * len(self.files)

    def mapped(self, step: int = 0) -> Bytes:
        """The voxels of a time step [k, j, i, (component)], mapped."""
        shape = (*reversed(self.dims), *((self.components,) if self.components > 1 else ()))
        return np.memmap(self.files[step], np.uint8, "r", 0, shape)


def ct(work: Path, dims: Dims = (1024, 1024, 1024)) -> Volume:
    """A trunk as in a CT scan, 8 bits a voxel: two fifths of its voxels are body, the rest is dim, noisy air.

    Raises:
        DataError: if it cannot be written.
    """
    return _made(work, "ct", dims, 1, [Body(dims).plane])


def large(work: Path, edge: int = 2048) -> Volume:
    """The trunk of `ct`, made at half of the resolution along each axis and doubled, with fresh noise: eight times as
    fast to make.

    Raises:
        DataError: if it cannot be written.
    """
    half = ct(work, (edge // 2,) * 3).mapped()
    rng, plane_size = np.random.default_rng(3), edge * edge
    noise = rng.integers(0, 4, 2 * plane_size, np.uint8)
    begins = rng.integers(0, plane_size, edge)

    def plane(k: int) -> Bytes:
        rows: Bytes = np.minimum(half[k // 2], np.uint8(252)).repeat(2, axis=1).repeat(2, axis=0)
        rows += noise[begins[k] : begins[k] + plane_size].reshape(edge, edge)
        return rows

    return _made(work, "large", (edge,) * 3, 1, [plane])


def foam(work: Path, dims: Dims = (1024, 1024, 1024)) -> Volume:
    """Bubbles, one in every box of 32 voxels, no two of one size.

    Raises:
        DataError: if it cannot be written.
    """
    return _made(work, "foam", dims, 1, [Foam(dims).plane])


def body(work: Path, dims: Dims = (2048, 1216, 130)) -> Volume:
    """A body in colours as in photographs of frozen slices, before the blue of the medium around it.

    Raises:
        DataError: if it cannot be written.
    """
    # Slices are 1 mm apart, pixels a third of that: in millimetres, the trunk extends beyond both ends.
    return _made(work, "body", dims, 3, [Body(dims, part=0.4, lung=FROZEN_LUNG).coloured])


def beating(work: Path, dims: Dims = (256, 256, 256), steps: int = 10) -> Volume:
    """A series: the trunk of `ct` with beating heart and breathing lungs.

    Raises:
        DataError: if it cannot be written.
    """
    bodies = [Body(dims, phase=n / steps) for n in range(steps)]
    return _made(work, "beating", dims, 1, [b.plane for b in bodies])


def _made(work: Path, kind: str, dims: Dims, components: int, planes: Sequence[Plane]) -> Volume:
    label = "-".join([kind, "x".join(map(str, dims)), *([f"{len(planes)}steps"] if len(planes) > 1 else [])])
    names = [f"{label}.raw"] if len(planes) == 1 else [f"{label}-{n:03}.raw" for n in range(len(planes))]
    volume = Volume(work / f"{label}.nhdr", tuple(work / name for name in names), dims, components)
    if volume.header.exists() and all(p.exists() and p.stat().st_size == volume.step_bytes for p in volume.files):
        return volume
    print(f"farfield: making {volume.header}", file=sys.stderr, flush=True)
    try:
        work.mkdir(parents=True, exist_ok=True)
        for path, plane in zip(volume.files, planes, strict=True):
            part = path.with_suffix(".part")
            _write(part, dims, components, plane)
            os.replace(part, path)
        volume.header.write_text(_header(volume), encoding="ascii")
    except OSError as error:
        raise DataError(f"{error.filename or volume.header}: cannot write the data: {error.strerror}") from error
    print(f"farfield: made {format_bytes(volume.bytes)}", file=sys.stderr, flush=True)
    return volume


def _write(path: Path, dims: Dims, components: int, plane: Plane) -> None:
    """Makes and writes slabs of a few planes, with one thread a core: NumPy allows them to run in parallel."""
    size = dims[0] * dims[1] * components
    each = max(1, SLAB_BYTES // size)

    def slab(first: int) -> None:
        planes = [plane(k).reshape(-1) for k in range(first, min(first + each, dims[2]))]
        data, at = memoryview(np.concatenate(planes).data), first * size
        while data:
            written = os.pwrite(file.fileno(), data, at)
            data, at = data[written:], at + written

    with path.open("wb") as file, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for _ in threads.map(slab, range(0, dims[2], each)):
            pass


def _header(volume: Volume) -> str:
    several, colours = len(volume.files) > 1, volume.components > 1
    sizes = [*([volume.components] if colours else []), *volume.dims, *([len(volume.files)] if several else [])]
    kinds = [*(["RGB-color"] if colours else []), "domain", "domain", "domain", *(["time"] if several else [])]
    directions = [*(["none"] if colours else []), "(1,0,0)", "(0,1,0)", "(0,0,1)", *(["none"] if several else [])]
    names = [path.name for path in volume.files]
    return "\n".join(
        [
            "NRRD0005",
            "type: uint8",
            f"dimension: {len(sizes)}",
            "space dimension: 3",
            f"sizes: {' '.join(map(str, sizes))}",
            f"space directions: {' '.join(directions)}",
            f"kinds: {' '.join(kinds)}",
            "space origin: (0,0,0)",
            "encoding: raw",
            *([f"data file: {names[0]}"] if not several else ["data file: LIST", *names]),
            "",
        ]
    )


def pages_crossed(volume: Volume, level: float, page: int, step: int = 0) -> tuple[int, int]:
    """Pages of so many voxels an edge with a cell that an isosurface crosses, and all pages; counted from the voxels."""
    shape = [-(-max(n - 1, 1) // page) for n in reversed(volume.dims)]
    crossed, mapped = 0, volume.mapped(step)
    for k in range(shape[0]):
        # With the first layer of the next page, as cells reach there.
        slab = np.asarray(mapped[k * page : (k + 1) * page + 1])
        low, high = slab.min(axis=0), slab.max(axis=0)
        for j in range(shape[1]):
            rows = slice(j * page, (j + 1) * page + 1)
            lows, highs = low[rows].min(axis=0), high[rows].max(axis=0)
            for i in range(shape[2]):
                columns = slice(i * page, (i + 1) * page + 1)
                crossed += bool(lows[columns].min() < level <= highs[columns].max())
    return crossed, shape[0] * shape[1] * shape[2]


__all__ = [
    "CT_SPINE", "CT_TRANSFER", "FOAM_LEVEL", "FOAM_PERIOD", "Dims", "Transfer", "View", "Volume", "beating", "body", "ct",
    "foam", "large", "pages_crossed", "views",
]  # fmt: skip
