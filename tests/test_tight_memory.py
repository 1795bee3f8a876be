"""Particles in a memory that does not hold what they touch between two steps."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield_bench import series
from running import Command, Json

DIMS = (65, 65, 65)


@pytest.fixture(scope="module")
def flow(ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tight")
    ff("convert", series.make(folder, DIMS, 6).source, folder / "s.zarr", "--page", 8)
    np.save(folder / "seeds.npy", series.cloud(DIMS, 6000))
    return folder


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_pages_are_read_a_few_times_and_answers_stay(direction: str, flow: Path, process_json: Json) -> None:
    """6,000 particles: those in one place go together, so that its pages come once for all of them, and the states of those that
    wait are put away. In the order in which they came to it they read more than a hundred times what they touch.
    """
    found = {}
    for limit in (10, 256):
        out = flow / f"{direction}-{limit}.npz"
        words = ("--kind", "pathline", "--seeds", flow / "seeds.npy", "--direction", direction, "--scalars", "density")
        found[limit] = process_json("trace", flow / "s.zarr", *words, "--memory-limit", f"{limit}MiB", "-o", out)
    assert (flow / f"{direction}-10.npz").read_bytes() == (flow / f"{direction}-256.npz").read_bytes()
    assert found[10]["resident_peak_bytes"] <= found[10]["base_bytes"] + (10 << 20)
    assert found[10]["pages"]["evictions"] > found[256]["pages"]["touched"], "memory was not tight"
    assert found[10]["bytes_read"] <= 3 * found[256]["bytes_read"]


@pytest.mark.parametrize("limits", [(20, 8), (20, 12, 9), (12, 8, 16, 8)])
def test_a_limit_that_changes_under_way_changes_no_answer(limits: tuple[int, ...], flow: Path) -> None:
    """Particles that wait are put away in memory for as many as the first limit allows."""
    seeds = np.load(flow / "seeds.npy")
    with farfield.open(flow / "s.zarr", memory_limit="256MiB") as data:
        want = data.pathlines("velocity", seeds=seeds)
    with farfield.open(flow / "s.zarr", memory_limit=f"{limits[0]}MiB", workers=2) as data:
        done = threading.Event()

        def change() -> None:
            for limit in limits[1:]:
                time.sleep(0.2)
                data.set_memory_limit(f"{limit}MiB")
            done.set()

        changing = threading.Thread(target=change)
        changing.start()
        found = data.pathlines("velocity", seeds=seeds)
        changing.join()
    assert done.is_set(), "the limit did not change"
    assert np.array_equal(found.points, want.points)
    assert np.array_equal(found.offsets, want.offsets)
