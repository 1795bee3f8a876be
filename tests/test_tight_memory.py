"""Particles in a memory that does not hold what they touch between two steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farfield.bench import series
from running import Command, Json

DIMS = (65, 65, 65)


@pytest.fixture(scope="module")
def flow(ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tight")
    ff("convert", series.make(folder, DIMS, 6).source, folder / "s.zarr", "--page", 8)
    np.save(folder / "seeds.npy", series.cloud(DIMS, 6000))
    return folder


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_pages_are_read_a_few_times_and_answers_stay(direction: str, flow: Path, ff_json: Json) -> None:
    """6,000 particles: those in one place go together, so that its pages come once for all of them, and the states of those that
    wait are put away. In the order in which they came to it they read more than a hundred times what they touch.
    """
    found = {}
    for limit in (10, 256):
        out = flow / f"{direction}-{limit}.npz"
        words = ("--kind", "pathline", "--seeds", flow / "seeds.npy", "--direction", direction, "--scalars", "density")
        found[limit] = ff_json("trace", flow / "s.zarr", *words, "--memory-limit", f"{limit}MiB", "-o", out)
    assert (flow / f"{direction}-10.npz").read_bytes() == (flow / f"{direction}-256.npz").read_bytes()
    assert found[10]["resident_peak_bytes"] <= found[10]["base_bytes"] + (10 << 20)
    assert found[10]["pages"]["evictions"] > found[256]["pages"]["touched"], "memory was not tight"
    assert found[10]["bytes_read"] <= 6 * found[256]["bytes_read"]
