"""Files of NetCDF and HDF5: coordinates that are uneven, numbers that are missing, containers that have a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from case_table import Cases, Try


def _slice_is_100(folder: Path) -> None:
    values = np.load(folder / "s.npy")
    assert values.min() == values.max() == 100


def _plane_is_missing(folder: Path) -> None:
    values = np.load(folder / "a.npy")
    assert np.nanmax(np.abs(values)) < 1e3


def _goes_to(metres: float) -> Callable[[Path], None]:
    """The line ends where that flow takes it in an hour; `metres` is how long a metre is in the file."""
    t = 3600.0
    wanted = np.array([100 + 0.15 * t + 5e-6 * t**2, 100 + 0.05 * t + 0.05 * t**2 / 7200, 5 + 0.001 * t]) * metres

    def check(folder: Path) -> None:
        with np.load(folder / "o.npz") as lines:
            assert np.allclose(lines["points"][-1], wanted, rtol=1e-5, atol=0), lines["points"][-1]

    return check


_HOUR = "--kind pathline --seeds point:{} --t0 0 --t1 {} -o o.npz"
_NAN = float("nan")

CASES: Cases = {
    # The field holds its own depth.
    "flows/netcdf-uneven-depth": [
        Try("info ocean.nc", says=("x and y count cells", "nav_lat", "z is in m")),
        Try("probe ocean.nc 12 10 -100", json={"values.uo": 100.0, "position": [12, 10, -100]}, says=()),
        Try("probe ocean.nc 12 10 -100", says=("x and y count cells",)),
        Try(
            "extract slice ocean.nc --normal z --origin 12,10,-100 -o s.npy",
            says=("x and y count cells",),
            check=_slice_is_100,
        ),
        Try("render ocean.nc -o o.png --size 160x120"),
    ],
    # u = 0.1 + 0.01 z, v = 0.05 (1 + t / 3600), w = 0.001, in m/s: where a particle is after an hour, in m.
    "flows/netcdf-units": [
        Try(f"trace hours.nc {_HOUR.format('100,100,5', 1)}", check=_goes_to(1.0)),
        Try(f"trace kilometres.nc {_HOUR.format('0.1,0.1,0.005', 1)}", check=_goes_to(1e-3)),
        Try(f"trace uneven.nc {_HOUR.format('100,100,5', 3600)}", check=_goes_to(1.0)),
        Try(f"trace knots.nc {_HOUR.format('100,100,5', 3600)}", check=_goes_to(1.0)),
        Try("info uneven.nc", says=(r"brought from cm/s to m/s",), never=("stay scalars",)),
        Try(f"trace degrees.nc {_HOUR.format('0.1,0.1,5', 1)}", exit=2, says=("positions are in no one unit, .* m s-1",)),
    ],
    "flows/cgns-hdf5": [Try("info wing.cgns", exit=1, says=("CGNS", "PLOT3D", r"\.vts"), never=("spacing",))],
    "volumes/nc_missing_differ": [Try("probe a.nc --ijk 2 1 1", says=(r"has no value|nan",), never=("-999",))],
    "volumes/nc_two_missing": [Try("info a.nc", says=(r"missing: 1e\+20, -999, -888",), never=("one stands for no value",))],
    "volumes/nc_default_fill": [
        Try("extract slice a.nc --normal y -o a.npy", says=("missing",), check=_plane_is_missing),
    ],
    "volumes/nc_bounds_larger": [Try("info a.nc", says=("sample", "6 x 5 x 1"), never=("bounds_lat",))],
    "volumes/nc_curvilinear_depth": [
        Try("info a.nc", says=("nav_lat", "not used", "x and y count"), never=(r"x 0\.\.5  y 0\.\.4.*\[m\]",)),
    ],
    "volumes/vtkhdf": [
        Try("info a.vtkhdf", json={"origin": [1, 2, 3], "spacing": [0.5, 0.6, 2], "dims": [7, 6, 5], "format": "VTKHDF image"}),
    ],
    "volumes/imaris_like": [
        Try("info a.ims", json={"dims": [24, 20, 6], "spacing": [1, 0.5, 3], "length_unit": "um", "format": "Imaris"}),
        Try("info a.ims", says=("levels   2",)),
    ],
}  # fmt: skip
