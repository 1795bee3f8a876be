"""Grids that differ from step to step: each step is looked for in its own grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plot3d_files import box, write
from running import Command, Json

SHIFTS = (0.0, 10.0, 25.0)


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A box of 21 x 19 x 17 points that is somewhere else at each of three steps."""
    folder = tmp_path_factory.mktemp("moving")
    for n, x in enumerate(SHIFTS):
        write(folder, [box(21, 19, 17, origin=(x, 0, 0))], stem=f"flow_{n}")
    return f"{folder}/flow_*.xyz+q={folder}/flow_*.q"


@pytest.mark.parametrize("how", ["in place", "store"])
def test_each_step_has_boxes_of_its_own(moving: str, how: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    source = moving
    if how == "store":
        ff("convert", moving, tmp_path / "m.zarr", "--page", "8")
        source = str(tmp_path / "m.zarr")
    for step, shift in enumerate(SHIFTS):
        found = ff_json("probe", source, shift + 0.3, 0.6, 0.4, "--step", step)
        here = np.array(found["position"])
        assert np.allclose(here, [shift + 0.3, 0.6, 0.4], atol=1e-9), found
        # The same cell each time: the grid is only somewhere else.
        ijk = ff_json("probe", source, 0.3, 0.6, 0.4, "--step", 0)["ijk"]
        assert np.allclose(found["ijk"], ijk, atol=1e-6)
        ff("probe", source, shift + 5.0, 0.6, 0.4, "--step", step, ok=(1,))
        lines = tmp_path / f"{how}-{step}.npz".replace(" ", "-")
        ff(
            "trace",
            source,
            "--seeds",
            f"point:{shift + 0.3},0.6,0.4",
            "--step",
            str(step),
            "--max-length",
            "0.2",
            "-o",
            lines,
        )
        points = np.load(lines)["points"]
        assert len(points) > 3 and abs(points[0, 0] - shift) < 1.0
