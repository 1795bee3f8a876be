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
