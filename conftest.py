"""Settings and caches of whoever runs the tests stay out of them, and theirs out of the tests; of the doctests, too."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from unittest import mock

import pytest

KEPT = ("FARFIELD_DATA", "FARFIELD_SOAK_S", "FARFIELD_UPDATE_SNAPSHOTS")


SLOW = frozenset(
    [
        "test_append",
        "test_bad_luck",
        "test_bench_papers",
        "test_bench_volumes",
        "test_cases",
        "test_events",
        "test_extension",
        "test_films",
        "test_flat_volumes",
        "test_flowmaps",
        "test_pages",
        "test_seeds",
        "test_series_times",
        "test_slice_volumes",
        "test_tight_memory",
        "test_unsteady",
        "test_volume_cache",
        "test_volume_convert",
        "test_volume_unseen",
        "test_volume_zarr",
    ]
)
"""Files whose tests take more than 9 s together; `-m "not slow"` leaves them out."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of slow files."""
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for settings and caches."""
    home = tmp_path_factory.mktemp("home")
    old = dict(os.environ)
    for name in [n for n in os.environ if n.startswith("FARFIELD_") and n not in KEPT]:
        del os.environ[name]
    os.environ |= {"XDG_CONFIG_HOME": str(home / "config"), "XDG_CACHE_HOME": str(home / "cache")}
    yield home
    os.environ.clear()
    os.environ |= old


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Workers of xdist collect with clocks that are days apart. A name of a test that is made of the time differs then, always and
    not once in many runs, and xdist says so: two compressed values of different seconds had two names."""
    ahead_s = 86_400 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    now, now_ns = time.time, time.time_ns
    with mock.patch.multiple(time, time=lambda: now() + ahead_s, time_ns=lambda: now_ns() + ahead_s * 10**9):
        return (yield)
