"""Pictures of time steps say when they are, whatever they are drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.cli import run
from farfield.times.dates import date_of, dates_of

h5py = pytest.importorskip("h5py")


def test_a_picture_of_a_scene_says_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with h5py.File("a.nc", "w") as file:
        for name, line in {"time": [0, 12, 24], "z": range(6), "y": range(7), "x": range(8)}.items():
            file.create_dataset(name, data=np.asarray(line, float)).make_scale(name)
        file["time"].attrs["units"] = "hours since 2000-02-28 18:00"
        dataset = file.create_dataset("t", data=np.random.default_rng(1).random((3, 6, 7, 8)))
        for n, name in enumerate(("time", "z", "y", "x")):
            dataset.dims[n].attach_scale(file[name])
    size = ["--size", "64x48"]
    assert run(["render", "a.nc", "--step", "1", "-o", "a.png", "--save-scene", "s.json", *size]) == 0
    first = capsys.readouterr().out
    assert run(["render", "s.json", "-o", "b.png", *size]) == 0
    second = capsys.readouterr().out
    for said in (first, second):
        assert "when     step 1, at 2000-02-29T06:00:00" in said


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf"), 1e306])
@pytest.mark.parametrize("unit", ["days", "months"])
def test_what_is_no_number_has_no_date(time: float, unit: str) -> None:
    assert date_of(time, f"{unit} since 1990-01-01") is None


@pytest.mark.parametrize("unit", ["seconds", "days"])
def test_times_within_a_second_are_told_apart(unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    """In info, in what a run says of its step, and in Python."""
    steps = np.array([1e9, 1e9 + 0.5, 1e9 + 1]) / (86400 if unit == "days" else 1)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name, line in {"time": steps, "y": range(7), "x": range(8)}.items():
            file.create_dataset(name, data=np.asarray(line, float)).make_scale(name)
        file["time"].attrs["units"] = f"{unit} since 1970-01-01"
        dataset = file.create_dataset("t", data=np.zeros((3, 7, 8)))
        for n, name in enumerate(("time", "y", "x")):
            dataset.dims[n].attach_scale(file[name])
    dates = [f"2001-09-09T01:46:{second}" for second in ("40.0", "40.5", "41.0")]
    with ff.open(tmp_path / "a.nc") as volume:
        assert volume.info()["dates"] == dates
    assert run(["info", str(tmp_path / "a.nc")]) == 0
    assert f"3: {dates[0]} to {dates[2]}" in capsys.readouterr().out
    assert run(["probe", str(tmp_path / "a.nc"), "--step", "1", "--ijk", "1", "1", "1"]) == 0
    assert f"step 1, at {dates[1]}" in capsys.readouterr().out


def test_digits_of_dates_are_those_that_steps_need() -> None:
    units = "seconds since 2001-01-01"
    assert dates_of([0, 0.25, 1e308], units)[1:] == ["2001-01-01T00:00:00.25", None]
    assert dates_of([0.5, 1.5], units) == ["2001-01-01T00:00:01", "2001-01-01T00:00:02"]
    assert dates_of([float("nan"), float("inf")], units) == [None, None]
