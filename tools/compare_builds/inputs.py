"""Datasets that both builds read, written without either of them.

The numbers are formulas and a seeded generator, and NumPy alone writes the files: digests depend on nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Grid = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

STEPS = 6
"""Time steps of the unsteady flow."""
STEP_TIME = 0.5


def write_all(folder: Path) -> None:
    """Writes all datasets into a folder, unless they are there from a run before."""
    done = folder / "written.json"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _two_zones(folder)
    _one_zone(folder)
    _rectilinear(folder)
    _volumes(folder)
    done.write_text(json.dumps({"steps": STEPS}))


def _grid(*axes: NDArray[np.float64]) -> Grid:
    """Coordinates over i, j, k as arrays `[k, j, i]`."""
    k, j, i = np.meshgrid(*axes[::-1], indexing="ij")
    return i, j, k


def _sector(ni: int, nj: int, nk: int) -> Grid:
    """A part of a tube around the z axis; k goes outward from the wall at radius 0.5."""
    angle, z, radius = _grid(np.linspace(0.0, 1.5 * np.pi, ni), np.linspace(0.0, 2.0, nj), np.linspace(0.0, 1.0, nk))
    radius = 0.5 + radius**1.3 + 0.03 * np.sin(3 * angle) * radius
    return radius * np.cos(angle), radius * np.sin(angle), z


def _block(ni: int, nj: int, nk: int) -> Grid:
    """A slightly warped box that overlaps the tube."""
    i, j, k = _grid(*(np.linspace(0.0, 1.0, n) for n in (ni, nj, nk)))
    return 0.9 + 2.2 * i + 0.05 * np.sin(4 * j), -1.2 + 2.4 * j + 0.05 * np.sin(3 * k), 2.0 * k + 0.04 * np.sin(5 * i)


def _flow(grid: Grid, time: float) -> list[NDArray[np.float64]]:
    """The conserved variables of two vortices that move, in a stream along x."""
    x, y, z = grid
    u, v = np.full_like(x, 0.35), np.zeros_like(x)
    w = 0.1 + 0.05 * np.sin(2 * z + time)
    density = 1.0 + 0.1 * np.exp(-((x - 1.0) ** 2) - y**2)
    for strength, a, b in ((1.0, 1.4 + 0.15 * time, 0.4), (-0.7, 2.1 + 0.1 * time, -0.5)):
        dx, dy = x - a - 0.2 * np.sin(z), y - b
        turn = strength * np.exp(-2.0 * (dx * dx + dy * dy))
        u, v = u - turn * dy, v + turn * dx
        density = density - 0.15 * abs(strength) * np.exp(-3.0 * (dx * dx + dy * dy))
    pressure = 0.7 * density**1.4
    energy = pressure / 0.4 + 0.5 * density * (u * u + v * v + w * w)
    return [density, density * u, density * v, density * w, energy]


def _record(*parts: NDArray[np.generic] | bytes) -> bytes:
    """A record of Fortran with its lengths."""
    body = b"".join(p if isinstance(p, bytes) else p.tobytes() for p in parts)
    length = np.array([len(body)], "<i4").tobytes()
    return length + body + length


def _write_plot3d(
    folder: Path, stem: str, grids: list[Grid], iblanks: list[NDArray[np.int32]] | None, steps: int
) -> None:
    dims = np.array([[*grid[0].shape[::-1]] for grid in grids], "<i4")
    head = _record(np.array([len(grids)], "<i4")) + _record(dims)
    with (folder / f"{stem}.xyz").open("wb") as f:
        f.write(head)
        for n, grid in enumerate(grids):
            blanks = [iblanks[n].astype("<i4")] if iblanks else []
            f.write(_record(*(c.astype("<f4") for c in grid), *blanks))
    for step in range(steps):
        time = STEP_TIME * step
        with (folder / f"{stem}_{step}.q").open("wb") as f:
            f.write(head)
            for n, grid in enumerate(grids):
                q = _flow(grid, time)
                if iblanks:
                    for moment in q[1:4]:
                        moment[iblanks[n] == 2] = 0.0
                f.write(_record(np.array([0.35, 0.0, 1e4, time], "<f4")))
                f.write(_record(*(c.astype("<f4") for c in q)))


def _two_zones(folder: Path) -> None:
    """`two.xyz` and `two_N.q`: curvilinear zones that overlap, with a wall and a hole, over time."""
    grids = [_sector(48, 32, 24), _block(40, 36, 28)]
    iblanks = [np.ones(grid[0].shape, np.int32) for grid in grids]
    iblanks[0][0] = 2
    iblanks[1][8:14, 12:20, 24:30] = 0
    _write_plot3d(folder, "two", grids, iblanks, STEPS)


def _one_zone(folder: Path) -> None:
    """`one.xyz` and `one_0.q`: a zone that is large enough to be timed."""
    _write_plot3d(folder, "one", [_block(128, 96, 96)], None, 3)


def _rectilinear(folder: Path) -> None:
    """`uneven.vtr`: a velocity and a scalar on unevenly spaced axes."""
    axes = [np.linspace(0.0, 1.0, n) ** 1.5 * length for n, length in ((22, 3.0), (18, 2.0), (14, 1.0))]
    x, y, z = _grid(*axes)
    velocity = np.stack([1.0 - (y - 1.0) ** 2, 0.2 * np.sin(2 * x), 0.1 * np.cos(x) * z], axis=-1)
    arrays = {"velocity": (3, velocity), "pressure": (1, x + y * z)}
    extent = f"0 {len(axes[0]) - 1} 0 {len(axes[1]) - 1} 0 {len(axes[2]) - 1}"

    def array(name: str, components: int, values: NDArray[np.float64]) -> str:
        numbers = " ".join(f"{v:.9g}" for v in values.ravel())
        return f'<DataArray type="Float64" Name="{name}" NumberOfComponents="{components}" format="ascii">{numbers}</DataArray>'

    text = "".join(
        (
            '<VTKFile type="RectilinearGrid" version="1.0" byte_order="LittleEndian">',
            f'<RectilinearGrid WholeExtent="{extent}"><Piece Extent="{extent}"><PointData>',
            *(array(name, n, values) for name, (n, values) in arrays.items()),
            "</PointData><Coordinates>",
            *(array(name, 1, values) for name, values in zip("xyz", axes, strict=True)),
            "</Coordinates></Piece></RectilinearGrid></VTKFile>",
        )
    )
    (folder / "uneven.vtr").write_text(text)


def _write_nrrd(path: Path, values: NDArray[np.generic], kind: str, spacing: tuple[float, float, float]) -> None:
    """`values` are `[z, y, x]`, or `[z, y, x, channel]`."""
    sizes = [*values.shape[:3][::-1]]
    kinds, space = ["domain"] * 3, [str(s) for s in spacing]
    if values.ndim == 4:
        sizes, kinds, space = [values.shape[3], *sizes], ["RGB-color", *kinds], ["nan", *space]
    head = (
        f"NRRD0004\ntype: {kind}\ndimension: {len(sizes)}\nsizes: {' '.join(map(str, sizes))}\n"
        f"kinds: {' '.join(kinds)}\nspacings: {' '.join(space)}\nencoding: raw\nendian: little\n\n"
    )
    path.write_bytes(head.encode() + np.ascontiguousarray(values).tobytes())


def _write_image(path: Path, values: NDArray[np.uint8]) -> None:
    """`values` are `[z, y, x]`."""
    extent = " ".join(f"0 {n - 1}" for n in values.shape[::-1])
    numbers = " ".join(map(str, values.ravel()))
    path.write_text(
        '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian">'
        f'<ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="1 1 1"><Piece Extent="{extent}"><PointData>'
        f'<DataArray type="UInt8" Name="wave" format="ascii">{numbers}</DataArray>'
        "</PointData></Piece></ImageData></VTKFile>"
    )


def _volumes(folder: Path) -> None:
    """Volumes of 96 x 88 x 80 voxels of each kind, some time steps, and one of 256^3 that is large enough to be timed."""
    x, y, z = _grid(*(np.linspace(-1.0, 1.0, n) for n in (96, 88, 80)))
    noise = np.random.default_rng(7).normal(0.0, 0.02, x.shape)
    shells = np.cos(9 * np.sqrt(x * x + 1.4 * y * y + z * z)) * np.exp(-(x * x + y * y + z * z))
    scalar = (1000.0 * (shells + noise)).astype("<i2")
    _write_nrrd(folder / "scalar.nrrd", scalar, "int16", (0.5, 0.5, 0.8))
    labels = np.digitize(shells, [-0.2, 0.1, 0.4]).astype("u1")
    _write_nrrd(folder / "labels.nrrd", labels, "uint8", (0.5, 0.5, 0.8))
    colours = np.stack([127 + 120 * np.sin(3 * a + b) for a, b in ((x, y), (y, z), (z, x))], axis=-1).astype("u1")
    _write_nrrd(folder / "colours.nrrd", colours, "uint8", (1.0, 1.0, 1.0))
    gaps = (0.01 * scalar).astype("<f4")
    gaps[20:40, 30:50, 10:60] = np.nan
    _write_nrrd(folder / "gaps.nrrd", gaps, "float", (1.0, 1.0, 1.0))
    x, y, z = _grid(*(np.linspace(-1.0, 1.0, n) for n in (48, 44, 40)))
    for step in range(3):
        wave = (100 + 90 * np.sin(6 * x + step) * np.cos(5 * y) * np.cos(4 * z)).astype("u1")
        _write_image(folder / f"wave_{step}.vti", wave)
    x, y, z = _grid(*(np.linspace(-1.0, 1.0, 256),) * 3)
    foam = np.sin(17 * x + 2 * y) * np.sin(13 * y - z) * np.sin(15 * z + x)
    (folder / "foam-256x256x256-uint8.raw").write_bytes((127 + 100 * foam).astype("u1").tobytes())
