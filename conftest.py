"""Settings and caches of whoever runs the tests stay out of them, and theirs out of the tests; of the doctests, too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

KEPT = ("FARFIELD_DATA", "FARFIELD_SOAK_S", "FARFIELD_UPDATE_SNAPSHOTS")


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
