from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from farfield import sources
from farfield.errors import DataError, UnknownName, UsageError
from farfield.seeds import as_seeds, load, rake, resolve


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("wing.xyz", "sol_1.q", "sol_2.q", "sol_10.q", "a+q=b.xyz", "wing.f"):
        (tmp_path / name).touch()
    return tmp_path


def test_parts_and_natural_order(files: Path) -> None:
    s = sources.parse("wing.xyz+q=sol_*.q+f=wing.f")
    assert (s.path, s.q, s.function) == ("wing.xyz", ("sol_1.q", "sol_2.q", "sol_10.q"), ("wing.f",))
    assert sources.parse("wing.xyz+function=wing.f").function == ("wing.f",)
    assert sources.parse("wing.xyz", q=["sol_2.q", Path("sol_1.q")]).q == ("sol_2.q", "sol_1.q")


def test_a_file_that_is_named_like_parts_wins(files: Path) -> None:
    assert sources.parse("a+q=b.xyz").path == "a+q=b.xyz"


@pytest.mark.parametrize("text", ["none.xyz", "wing.xyz+q=none.q", "wing.xyz+q=no_*.q", "none/wing.zarr"])
def test_what_is_not_there_is_named(files: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"none|no_\*"):
        sources.parse(text)


@pytest.mark.parametrize("text", ["", "+q=sol_1.q", "wing.xyz+q=", "s3://bucket/x", "http://host/x", "sol_*.q"])
def test_what_makes_no_sense(files: Path, text: str) -> None:
    with pytest.raises(UsageError):
        sources.parse(text)


def test_what_is_neither_a_file_nor_a_store(files: Path) -> None:
    (files / "folder").mkdir()
    os.mkfifo(files / "pipe")
    for name, word in (("folder", "no store"), ("pipe", "neither"), ("wing.xyz+q=pipe", "neither")):
        with pytest.raises(DataError, match=word):
            sources.parse(name)


def test_a_p3d_file_goes_to_the_extension_as_it_is(files: Path) -> None:
    (files / "run.p3d").write_text("{}")
    assert sources.parse("run.p3d") == sources.Source("run.p3d", text="run.p3d")
    with pytest.raises(UsageError, match="names its q"):
        sources.parse("run.p3d+q=sol_1.q")


def test_options_merge() -> None:
    s = sources.Source("g", options={"plot3d": {"precision": 32, "format": "binary"}}).with_options(
        plot3d={"precision": 64}, zone_order=None, cache_dir="c"
    )
    assert s.options == {"plot3d": {"precision": 64, "format": "binary"}, "cache_dir": "c"}


def test_demo_sources() -> None:
    s = sources.parse("demo:box")
    assert Path(s.path).stat().st_size > 10**6 and s.text == "demo:box"
    assert sources.parse("demo:box").path == s.path
    with pytest.raises(UnknownName, match="taper"):
        sources.parse("demo:nothing")


def test_seed_arrays() -> None:
    assert as_seeds((1, 2, 3)).shape == (1, 3)
    assert as_seeds(np.zeros((4, 2), "i2")).dtype == np.float64
    for bad in (np.zeros((3, 4)), np.zeros(5), [[np.nan, 0, 0]], [[1j, 0, 0]], "words", np.zeros((2, 2, 3))):
        with pytest.raises(UsageError):
            as_seeds(bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        rake((0, 0, 0), (1, 1), n_points=3)
    with pytest.raises(UsageError):
        rake((0, 0, 0), (1, 1, 1), n_points=0)


def test_seed_files(tmp_path: Path) -> None:
    want = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "s.npy", want)
    (tmp_path / "s.csv").write_text("id,z,x,y\n7,2,0,1\n8,5,3,4\n")
    (tmp_path / "plain.csv").write_text("# seeds\n0, 1, 2\n\n3, 4, 5\n")
    for name in ("s.npy", "s.csv", "plain.csv"):
        assert np.array_equal(load(str(tmp_path / name)), want), name
    (tmp_path / "paraview.csv").write_text('\ufeff"mach","Points:0","Points:1","Points:2"\n9,0,1,2\n9,3,4,5\n')
    assert np.array_equal(load(str(tmp_path / "paraview.csv")), want)
    (tmp_path / "other.csv").write_text("id,u,v\n1,2,3\n")
    with pytest.raises(DataError, match="id, u, v"):
        resolve(str(tmp_path / "other.csv"))
    (tmp_path / "bad.csv").write_text("0,1,2\n3,oh,5\n")
    (tmp_path / "bad.npy").write_bytes(b"no")
    for name in ("bad.csv", "bad.npy", "none.npy"):
        with pytest.raises(DataError, match=name):
            resolve(str(tmp_path / name))
    np.save(tmp_path / "wide.npy", np.zeros((2, 5)))
    with pytest.raises(UsageError, match=r"wide\.npy"):
        resolve(str(tmp_path / "wide.npy"))
    with pytest.raises(UsageError, match="random:"):
        resolve("rnadom:3:1")
    assert resolve("random:3:1") == ("random:3:1", None)
