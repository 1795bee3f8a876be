from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import DataError, UnknownName, UsageError
from farfield.flow.seeds import as_seeds, rake
from farfield.sources import parsing as sources


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


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("wing.xyz", {"q": "sol_*.q"}),
        ("wing.xyz", {"q": ["sol_2.q", Path("sol_1.q")], "function": "wing.f"}),
        ("wing.xyz+q=sol_1.q", {"function": ["wing.f"]}),
        ("wing.xyz+f=wing.f+q=sol_1.q", {"q": "sol_2.q"}),
        ("wing.xyz", {}),
    ],
)
def test_the_text_of_a_source_finds_its_files(text: str, more: dict[str, Any], files: Path) -> None:
    found = sources.parse(text, **more)
    assert sources.parse(found.text) == found


def test_a_file_that_is_named_like_parts_wins(files: Path) -> None:
    assert sources.parse("a+q=b.xyz").path == "a+q=b.xyz"


@pytest.mark.parametrize("text", ["none.xyz", "wing.xyz+q=none.q", "wing.xyz+q=no_*.q", "none/wing.zarr"])
def test_what_is_not_there_is_named(files: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"none|no_\*"):
        sources.parse(text)


@pytest.mark.parametrize("text", ["", "+q=sol_1.q", "wing.xyz+q=", "ftp://bucket/x", "file:///data/x", "s3:/bucket/x"])
def test_what_makes_no_sense(files: Path, text: str) -> None:
    with pytest.raises(UsageError):
        sources.parse(text)


def test_what_is_neither_a_file_nor_a_store(files: Path) -> None:
    (files / "folder").mkdir()
    os.mkfifo(files / "pipe")
    for name, word in (
        ("folder", "nothing in this folder is read"),
        ("pipe", "neither"),
        ("wing.xyz+q=pipe", "neither"),
    ):
        with pytest.raises(DataError, match=word):
            sources.parse(name)


def test_a_p3d_file_goes_to_the_extension_as_it_is(files: Path) -> None:
    (files / "run.p3d").write_text("{}")
    assert sources.parse("run.p3d") == sources.Source("run.p3d", text="run.p3d")
    with pytest.raises(UsageError, match="names its own q and function files; remove"):
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


def test_what_a_conversion_has_left_is_told(tmp_path: Path) -> None:
    left = tmp_path / "a.zarr.partial"
    left.mkdir()
    with pytest.raises(DataError) as told:
        farfield.open(tmp_path / "a.zarr")
    assert "check the path" in str(told.value) and "--resume" not in str(told.value)
    (left / "plan.json").write_text("{}")
    for name in (tmp_path / "a.zarr", left):
        with pytest.raises(DataError, match=r"a\.zarr\.partial.* --resume completes it"):
            farfield.open(name)


def test_folders_in_which_nothing_is_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"empty: nothing in this folder is read \(it is empty\): a store has a zarr\.json"
    ):
        farfield.open(tmp_path / "empty")
    (tmp_path / "scan").mkdir()
    for n in range(2):
        (tmp_path / "scan" / f"{n}.dcm").write_bytes(bytes(200))
    with pytest.raises(DataError, match=r"scan: none of its \.dcm files begins as DICOM does: .* write them with one"):
        farfield.open(tmp_path / "scan")
