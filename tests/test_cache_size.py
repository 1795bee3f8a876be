"""The cache keeps within its size, and forgets what was made of files that changed."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.cli import run
from farfield.runtime import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_BEGUN", {})
    monkeypatch.setattr(cache, "_LOOKED", {})
    return tmp_path / "cache" / "farfield"


def scan(path: Path, value: int) -> str:
    """A compressed NRRD of 16^3 bytes, which is converted into the cache."""
    header = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 16 16 16\nencoding: gzip\n\n"
    path.write_bytes(header.encode() + gzip.compress(np.full(4096, value, np.uint8).tobytes()))
    return str(path)


def kept(folder: Path) -> list[str]:
    return [e.name.split("-")[0] for e in cache.entries(folder)]


def long_ago(folder: Path) -> None:
    """As if all that there is had been used by a process that ended, one after the other, an hour ago."""
    for held in cache._BEGUN.values():
        held.close()
    cache._BEGUN.clear()
    cache._LOOKED.clear()
    for entry in cache.entries(folder):
        when = time.time() - 3600 + 60 * int(entry.name[1])
        os.utime(folder / "data" / cache.RECORDS / f"{entry.name}.json", (when, when))
        os.utime(folder / "data" / entry.name, (when - 7200, when - 7200))


def test_what_was_used_longest_ago_goes_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(4):
        with ff.open(scan(tmp_path / f"s{n}.nrrd", n)) as volume:
            assert volume[0, 0, 0] == n
    assert kept(folder) == ["s0", "s1", "s2", "s3"]
    long_ago(folder)
    with ff.open(str(tmp_path / "s0.nrrd")):
        pass
    monkeypatch.setenv("FARFIELD_CACHE_SIZE", str(3 * 4096))
    with ff.open(scan(tmp_path / "s4.nrrd", 4)) as volume:
        assert volume[3, 2, 1] == 4
    assert kept(folder) == ["s0", "s3", "s4"]


def test_what_is_in_use_stays(folder: Path, tmp_path: Path) -> None:
    name = scan(tmp_path / "s0.nrrd", 7)
    words = (
        "import sys, farfield as ff; held = ff.open(sys.argv[1]); print(held[0, 0, 0], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", words, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "7\n"
        locked = next((folder / "data" / cache.RECORDS).glob("*.lock"))
        begun = time.time() - 3600
        os.utime(locked, (begun, begun))
        for place in [*(folder / "data" / cache.RECORDS).glob("*.json"), *(folder / "data").glob("*.raw")]:
            os.utime(place, (begun + 60, begun + 60))
        assert cache.keep_within(folder, 1) == []
        other.communicate("")
    assert [e.name.split("-")[0] for e in cache.keep_within(folder, 1)] == ["s0"]
    assert kept(folder) == []
    assert not list((folder / "data" / cache.RECORDS).iterdir())


def test_copies_of_files_that_changed_are_forgotten(folder: Path, tmp_path: Path) -> None:
    name = scan(tmp_path / "s0.nrrd", 1)
    with ff.open(name) as volume:
        assert volume[0, 0, 0] == 1
    other = scan(tmp_path / "s1.nrrd", 1)
    with ff.open(other):
        pass
    long_ago(folder)
    scan(tmp_path / "s0.nrrd", 2)
    os.unlink(other)  # its disk may come back
    assert [e.stale for e in cache.entries(folder)] == [True, False]
    with ff.open(name) as volume:
        assert volume[0, 0, 0] == 2
    assert kept(folder) == ["s0", "s1"] and not any(e.stale for e in cache.entries(folder))


def test_a_copy_of_a_file_that_has_just_changed_goes_with_the_next_run(folder: Path, tmp_path: Path) -> None:
    """But not while somebody holds it, and no copy that is good."""
    name, good = scan(tmp_path / "s0.nrrd", 1), scan(tmp_path / "s1.nrrd", 1)
    words = "import sys, farfield as ff; [print(ff.open(name)[0, 0, 0]) for name in sys.argv[1:]]; sys.stdin.read()"
    command = [sys.executable, "-c", words, name, good]
    held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    others = [command[:-1], [*command[:3], good]]
    with held:
        assert held.stdout is not None and held.stdin is not None
        while kept(folder) != ["s0", "s1"]:
            time.sleep(0.05)
        scan(tmp_path / "s0.nrrd", 2)
        time.sleep(1.1 * cache.MOMENT_S)
        done = subprocess.run(others[0], input="", capture_output=True, text=True, check=True)
        assert done.stdout == "2\n" and kept(folder) == ["s0", "s0", "s1"]
        held.communicate("")
    subprocess.run(others[1], input="", capture_output=True, text=True, check=True)
    assert kept(folder) == ["s0", "s1"] and not any(e.stale for e in cache.entries(folder))


def test_text_has_a_record_too(folder: Path, tmp_path: Path) -> None:
    grid = tmp_path / "t.xyz"
    points = np.stack(np.meshgrid(*[np.arange(3.0)] * 3, indexing="ij"))[::-1]
    grid.write_text("3 3 3\n" + " ".join(map(str, points.ravel())))
    with ff.open(str(grid), plot3d={"format": "ascii"}) as flow:
        assert flow.probe((1, 1, 1)).zone == "zone1"
    binary = next(e for e in cache.entries(folder) if e.name.endswith(".bin"))
    assert not binary.stale
    grid.write_text("3 3 3\n" + " ".join(map(str, 2 * points.ravel())))
    assert next(e for e in cache.entries(folder) if e.name.endswith(".bin")).stale


def test_the_size_is_a_flag_and_a_setting(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = scan(tmp_path / "s1.nrrd", 1)
    assert run(["info", name, "--json"]) == 0
    long_ago(folder)
    assert run(["info", scan(tmp_path / "s2.nrrd", 2), "--cache-size", "5KiB", "--json"]) == 0
    assert kept(folder) == ["s2"]
    assert run(["info", name, "--cache-size", "much"]) == 2
    assert "cache-size" in capsys.readouterr().err
    assert run(["cache", "info"]) == 0
    assert "at most (cache_size)" in capsys.readouterr().out
