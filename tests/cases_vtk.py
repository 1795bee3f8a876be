"""Cases of VTK files: times, parts, blocks, vectors on uniform grids, axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from case_table import Cases, Try


def _from_to(start: tuple[float, ...], end: tuple[float, ...], tolerance: float = 1e-4) -> Callable[[Path], None]:
    """The line in o.npz begins and ends there."""

    def check(folder: Path) -> None:
        with np.load(folder / "o.npz") as lines:
            found = lines["points"]
            assert np.allclose(found[0], start, rtol=0, atol=tolerance), found[0]
            assert np.allclose(found[-1], end, rtol=0, atol=tolerance), found[-1]

    return check


# dx/dt = 1 + y, dy/dt = -a x: (1 + y)^2 + a x^2 stays as it is.
_BENT = _from_to((0.1, 0.5, 0.5), (2.0, math.sqrt(1.5**2 + 0.2 * 0.1**2 - 0.2 * 2**2) - 1, 0.5))
_EVEN = _from_to(
    (0.0, math.sqrt(1.5**2 + 0.2 * 0.1**2) - 1, 0.5), (1.0, math.sqrt(1.5**2 + 0.2 * 0.1**2 - 0.2) - 1, 0.5)
)
_FLAT = _from_to((0.0, math.sqrt(1.5**2 + 2 * 0.5**2) - 1, 0.0), (math.sqrt((1.5**2 + 2 * 0.5**2 - 1) / 2), 0.0, 0.0))
_UNEVEN = {"times": [2, 2.5, 4], "times_why": None, "times_counted": False}
_HALVES = {"times": [0, 0.5, 1], "times_why": None}

CASES: Cases = {
    # x(3.7) = 0.5 + (3.7^2 - 2^2) / 2, as u = t.
    "flows/vts-timevalue": [
        Try("info s_*.vts", json=_UNEVEN, never=("No file gives the times",)),
        Try("info uneven.pvd", json=_UNEVEN),
        *(
            Try(
                f"trace {source} --kind pathline --seeds point:0.5,0.5,0.5 --t0 2 --t1 3.7 -o o.npz",
                check=_from_to((0.5, 0.5, 0.5), (5.345, 0.5, 0.5)),
            )
            for source in ("uneven.pvd", "s_*.vts")
        ),
        Try("info s_1.vts", json={"times": [2.5]}),
    ],
    # u = 1 + 2 t through both parts, which end at x = 2; the time there solves 0.1 + t + t^2 = 2.
    "flows/pvd-parts-and-times": [
        Try("info parts.pvd", json={**_HALVES, "zones.0.dims": [4, 4, 4], "zones.1.dims": [4, 4, 4]}),
        Try(
            "trace parts.pvd --kind pathline --seeds point:0.1,0.5,0.5 -o o.npz",
            check=_from_to((0.1, 0.5, 0.5), (2, 0.5, 0.5), 1e-3),
        ),
        Try("info unsorted.pvd", json=_HALVES),
        Try("info twice.pvd", json=_HALVES, never=("passed over",)),
        Try("info restart.pvd", json=_HALVES, says=("later one in restart.pvd is taken; passed over: t1p0.vts at 1",)),
        Try("info text.pvd", json={"times": [9, 10, 11], "times_why": None}),
        # Of the last step of restart.pvd u is 3.
        Try("probe restart.pvd 0.5 0.5 0.5 --step 2", json={"values.velocity": [3, 0, 0]}),
        Try(
            "trace text.pvd --kind pathline --seeds point:0.1,0.5,0.5 --t0 9 -o o.npz",
            # u = 1 + (t - 9) until x = 1.
            check=_from_to((0.1, 0.5, 0.5), (1, 0.5, 0.5), 1e-3),
        ),
    ],
    "flows/vti-vectors": [
        Try("trace v.vti --seeds point:0.1,0.5,0.5 --direction forward -o o.npz", check=_BENT),
        Try("trace even.vtr --seeds point:0.1,0.5,0.5 -o o.npz", check=_EVEN),
        Try("trace v.vti::velocity --seeds point:0.1,0.5,0.5 --direction forward -o o.npz", check=_BENT),
        Try("probe v.vti 0.5 0.5 0.5", json={"values.velocity": [1.5, -0.1, 0]}),
        # Its spacing along x is -0.5 from x = 1, and u = 1 - 2 (1 - x).
        Try("probe backwards.vti 0.75 0.5 0.5", json={"values.velocity": [0.5, 0, 0]}),
        Try("info v.vti", says=("opens as one: v.vti::NAME opens one of its arrays as a volume",)),
        Try("info v.vti --ranges", says=(r"uniform: from \(0, 0, 0\) by \(0.2, 0.2, 0.2\)",)),
        Try("info v.vti::velocity", says=("volume   11 x 6 x 6 voxels",)),
        Try("extract isosurface v.vti --field velocity_x --value 1.5 -o o.ply", json={"triangles": 100}),
        Try("render v.vti -o o.png --size 160x90", json={"size": [160, 90]}),
    ],
    "flows/vts-2d-2comp": [
        Try("trace a.vts --seeds point:0.5,0.5,0 -o o.npz", check=_FLAT),
        Try("trace a.vts --seeds point:0.5,0.5 -o o.npz", check=_FLAT),
        Try("probe a.vts 0.5 0.5 0", json={"values.velocity": [1.5, -1]}),
        Try("info a.vts", says=(r"flat \(z = 0\), and so two-dimensional",), json={}),
    ],
    "flows/vtm-multiblock": [
        Try(
            "trace m.vtm --seeds point:0.1,0.5,0.5 --direction forward -o o.npz",
            check=_from_to((0.1, 0.5, 0.5), (2, 0.5, 0.5)),
        ),
        Try("info m.vtm", json={"zones.0.dims": [4, 4, 4], "zones.1.dims": [4, 4, 4]}, says=()),
    ],
    # As VTK 9 reads them: the list of blocks says the time.
    "flows/vtm-times": [
        Try("info run_0.vtm", json={"times": [2]}),
        Try("info 'run_*.vtm'", json={"times": [0.5, 2]}, says=(r"run_1\.vtm \(0\.5\) comes before run_0\.vtm \(2\)",)),
        Try(
            "trace run_0.vtm --seeds point:0.5,0.5,0.5 --direction forward -o o.npz",
            check=_from_to((0.5, 0.5, 0.5), (4, 0.5, 0.5)),
        ),
    ],
    # s = x + 10 y + 100 z.
    "flows/vtr-axes": [
        Try("probe decreasing.vtr 0.55 0.4 0.3", json={"values.s": 34.55}),
        Try("probe duplicate.vtr 0.7 0.4 0.3", json={"values.s": 34.7}),
        Try("probe duplicate.vtr 0.55 0.4 0.3", json={"values.s": 34.55}),
        Try("probe evendecreasing.vtr 0.5 0.5 0.25", json={"values.s": 30.5}),
        *(
            Try(
                f"{words} nonmonotone.vtr{more}", exit=1, says=(r"x coordinates go back and forth \(0.4 follows 0.5\)",)
            )
            for words, more in (("info", ""), ("probe", " 0.55 0.4 0.3"))
        ),
    ],
}
