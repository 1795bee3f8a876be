"""Cases of cells: those that are hidden, those of a grid that moves, those that have collapsed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from case_table import Cases, Try


def goes_to(x: float) -> Callable[[Path], None]:
    """The line of o.npz ends at that x."""

    def check(folder: Path) -> None:
        with np.load(folder / "o.npz") as found:
            assert abs(found["points"][:, 0].max() - x) < 1e-3, found["points"][:, 0].max()

    return check


TRACE = "--seeds point:0.05,0.5,0.5 --direction forward -o o.npz --json"
MOVING = "'g_*.xyz+q=q_*.q'"

CASES: Cases = {
    # Truth: where the writer hid cells; VTK 9 agrees (its line of plate.vts ends at 0.97, its probe is invalid).
    "flows/vts-ghosts": [
        Try(f"trace plate.vts {TRACE}", json={"reasons.hole": 1}, check=goes_to(1.0)),
        Try(f"trace block.vts {TRACE}", json={"reasons.hole": 1}, check=goes_to(0.5)),
        Try("probe plate.vts 1.1 0.5 0.5", exit=1, says=("no zone",)),
        Try("probe plate.vts 0.9 0.5 0.5"),
        Try("probe plate.vts 1.3 0.5 0.5"),
        Try("probe cells.vts 0.8 0.5 0.4", exit=1, says=("no zone",)),
        Try("probe cells.vts 0.6 0.5 0.4"),
        Try("probe cells.vts 0.8 0.5 0.55"),
        Try("info cells.vts --ranges", says=("hidden cells: 1",)),
    ],
    # s = x + 10 y + 100 z, and cells of one layer, at x from 0.5 to 0.75, are hidden; VTK 9 reads BLANKING, bits and ids of
    # 32 bits in legacy files, and takes old ghost levels for cells that others have, through which its lines go.
    "flows/vtk-hidden": [
        Try("probe scalar.vti 0.6 0.5 0.5", exit=1, says=("no zone",)),
        Try("probe scalar.vti 0.4 0.5 0.5", json={"values.s": 55.4}),
        Try("probe scalar.vti::s 0.6 0.5 0.5", json={"values.s": 55.6}, says=("is shown",)),
        Try(
            "info scalar.vti",
            says=("Points or cells of it are hidden, and it opens as a zone",),
            never=("holds a flow",),
        ),
        Try(f"trace levels.vti {TRACE}", json={"reasons.left": 1}, check=goes_to(1.0)),
        Try("info levels.vti", never=("vtkGhostLevels",)),
        Try("probe blanking.vtk 0.5 0.5 0.5", json={"values.s": 55.5, "values.velocity": [1, 0, 0]}),
        Try("probe blanking.vtk 1.5 0.5 0.5", exit=1, says=("no zone",)),
        Try("info blanking.vtk", says=(r"Left out, as they are no numbers that are read: flag \(bit\)",)),
        Try("probe ids.vtk 1 1 0", json={"values.id": 4, "values.velocity": [1, 2, 3]}),
        # Steps of other precision and order, of which the last one alone hides cells.
        Try("info 'step_*.vts'", json={"times": [0, 0.5, 2]}),
        Try("probe 'step_*.vts' 1.2 0.5 0.5 --step 1", json={"values.s": 2.2, "values.velocity": [2, 0, 0]}),
        Try("probe 'step_*.vts' 1.2 0.5 0.5 --step 2", exit=1, says=("no zone",)),
        Try("probe 'step_*.vts' 0.6 0.5 0.5 --step 2", json={"values.s": 2.6, "values.velocity": [3, 0, 0]}),
    ],
    # Truth: the body at j = 1 moves at 0.4 with its grid, and the flow there at 0.4.
    "flows/moving-wall": [
        Try(f"info {MOVING} --ranges", says=(r"walls +zone1:j=1\n",)),
        Try(
            f"trace {MOVING} --kind pathline --seeds point:0.6,0.05,0.5 -o o.npz --json",
            never=('"left"',),
        ),
        Try(f"extract grid-surface {MOVING} -o s.npz --json", json={"surfaces.0.axis": "j", "surfaces.0.index": 1}),
    ],
    # Truth: u = (1 + y/2, -x/2, 0), whose vorticity is (0, 0, -1) and Q 1/4 everywhere.
    "flows/collapsed-axis": [
        Try(
            "probe g.xyz+q=w.q 0.02 0.01 0.5 --fields velocity,vorticity,q_criterion --json",
            json={"values.vorticity": [0, 0, -1], "values.q_criterion": 0.25},
        ),
        Try("probe g.xyz+q=w.q -0.15 -0.05 0.3 --fields q_criterion --json", json={"values.q_criterion": 0.25}),
        Try("trace g.xyz+q=w.q --seeds point:-0.9,0,0.5 --scalars q_criterion -o o.npz --json"),
    ],
}
