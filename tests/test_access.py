"""What permissions do not allow has an exit code of its own, wherever it is met."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """A folder that takes no files."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    # Whoever may do anything may not do that.
    for folder in (closed, Path("/sys")):
        try:
            with (folder / "farfield-probe").open("w"):
                pass
        except PermissionError:
            return folder
        except OSError:
            continue
    pytest.skip("there is no folder here that refuses files")


def test_outputs(refused: Path, flow: str, ff: Any) -> None:
    for words in (
        ("trace", flow, "--seeds", "point:0.7,0.5,0.3", "-o", refused / "l.npz"),
        ("extract", "grid-surface", flow, "--surface", "zone1:k=1", "-o", refused / "s.vtp"),
        ("render", flow, "-o", refused / "p.png", "--size", "80x60"),
        ("convert", flow, refused / "n.zarr"),
        ("info", flow, "--events", refused / "e.json"),
    ):
        said = ff(*words, ok=(5,)).stderr
        assert str(refused) in said and "not permitted" in said.replace("Permission denied", "not permitted"), said


def test_saving_lines(refused: Path, flow: str) -> None:
    import farfield

    with farfield.open(flow) as ds:
        lines = ds.streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.1)
    with pytest.raises(farfield.errors.AccessError, match="ermission denied"):
        lines.save(refused / "l.vtp")


def test_pages(tmp_path: Path, flow: str) -> None:
    """A dataset whose folder is closed between opening it and reading from it."""
    import shutil

    own = tmp_path / "own"
    own.mkdir()
    grid, solution = (shutil.copy(path, own) for path in flow.split("+q="))
    code = (
        "import os, sys, farfield as ff\n"
        "ds = ff.open(sys.argv[1], q=sys.argv[2])\n"
        "os.chmod(sys.argv[3], 0)\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
        "try: ds.zones['zone1']['density'][0, 0, 0]\n"
        "except ff.errors.AccessError as e: print(e)\n"
    )
    environment = {**os.environ, "FARFIELD_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-c", code, str(grid), str(solution), str(own)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60, check=False)
    own.chmod(0o700)
    assert "flow.q" in done.stdout and "check the permissions" in done.stdout, done.stdout + done.stderr
