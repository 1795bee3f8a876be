"""Open datasets in other processes: pickled they open again, with what was chosen of them and said about them."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.errors import UsageError
from plot3d_files import box, cut, write

SAYS = "import pickle, sys; ds = pickle.load(open(sys.argv[1], 'rb')); "


def elsewhere(folder: Path, data: object, code: str) -> str:
    """What `code` prints of an object `ds`, pickled here, in another process with another working folder and cache."""
    folder.mkdir(exist_ok=True)
    (folder / "ds").write_bytes(pickle.dumps(data))
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SAYS + code, "ds"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_series_with_its_step_limit_and_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for n in range(3):
        write(tmp_path, cut(box(9, 8, 7), 2), stem=f"f_{n}", time=0.5 * n)
    with ff.open("f_0.xyz", q="f_*.q", memory_limit="24MiB", define={"twice": "2 * density"}) as ds:
        ds.define("half = density / 2")
        now = ds.isel(time=2)
        here = [float(now.zones["zone2"][name][1, 2, 3]) for name in ("twice", "half")]
        code = (
            "print([float(ds.zones['zone2'][n][1, 2, 3]) for n in ('twice', 'half')], ds.memory_limit, ds.times.tolist());"
            "print(ds.isel(time=0).times.tolist())"
        )
        assert elsewhere(tmp_path / "other", now, code) == f"{here} {24 << 20} [1.0]\n[1.0]"
        assert len(pickle.loads(pickle.dumps(ds)).times) == 3
        (tmp_path / "f_1.q").unlink()
        with pytest.raises(ff.DataError, match=r"f_1\.q"):
            pickle.loads(pickle.dumps(ds))


def test_what_lies_in_the_cache_is_made_again(tmp_path: Path) -> None:
    with ff.open("demo:box") as ds:
        first = float(ds["density"][0, 0, 0])
        assert elsewhere(tmp_path / "other", ds, "print(float(ds['density'][0, 0, 0]))") == str(first)


def test_lines_say_how_they_go_elsewhere() -> None:
    lines = ff.open("demo:box").streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.1)
    for refused in (pickle.dumps, copy.deepcopy):
        with pytest.raises(UsageError, match=r"save them with lines\.save\('lines\.npz'\)"):
            refused(lines)


def test_a_volume_and_a_view_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    values.tofile("v.raw")
    said = {"shape": (5, 4, 6), "dtype": "float32", "spacing": (1, 2, 3), "missing": 7}
    with ff.open("v.raw", volume=said, memory_limit="24MiB") as ds:
        code = "print(ds.space.spacing, ds.memory_limit, ds[0, 1, 1:4].tolist(), ds.probe_ijk((3, 2, 1)).values)"
        assert elsewhere(tmp_path / "other", ds, code) == f"(1.0, 2.0, 3.0) {24 << 20} [6.0, 7.0, 8.0] {{'v': nan}}"
        view = copy.copy(ds)
        assert view._native is ds._native, "a copy is a view of the same pages"
