"""Cases of cells: hidden ones, those of a grid that moves, those that collapsed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from case_table import Cases, Try


def ends(name: str, at: float, reason: str, axis: int = 0) -> Try:
    """A line from (0.05, 0.5, 0.5) that ends at a coordinate, for a reason."""

    def check(folder: Path) -> None:
        import farfield as ff

        lines = ff.read_lines(folder / "o.npz") if hasattr(ff, "read_lines") else None
        points = np.load(folder / "o.npz")["points"] if lines is None else lines.points
        assert abs(points[:, axis].max() - at) < 1e-3, points[:, axis].max()

    words = f"trace {name} --seeds point:0.05,0.5,0.5 --direction forward -o o.npz --json"
    return Try(words, says=(reason,), check=check)


CASES: Cases = {}
