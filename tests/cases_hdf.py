"""Files of NetCDF and HDF5: coordinates that are uneven, numbers that are missing, containers that have a name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from case_table import Cases, Try


def _slice_is_100(folder: Path) -> None:
    values = np.load(folder / "s.npy")
    assert values.min() == values.max() == 100


def _plane_is_missing(folder: Path) -> None:
    values = np.load(folder / "a.npy")
    assert np.nanmax(np.abs(values)) < 1e3


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
