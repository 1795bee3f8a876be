"""Selections of time steps: `isel` and `sel` on files and on stores, without reading more than is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield import Dataset, UsageError
from plot3d_files import box, write
from running import Command, Json

TIMES = (0.5, 1.0, 1.5, 2.5, 3.0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("steps")
    for n, time in enumerate(TIMES):
        block = box(33, 25, 17)
        block.q[0] = block.q[0] + 0.01 * n
        write(folder, [block], stem=f"s_{n}", time=time)
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


@pytest.fixture(scope="module")
def series_store(files: str, ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("store") / "s.zarr"
    ff("convert", files, target, "--page", 8)
    return target


@pytest.fixture(params=["files", "store"])
def series(request: pytest.FixtureRequest, files: str, series_store: Path) -> Dataset:
    return farfield.open(files if request.param == "files" else series_store)


def density(dataset: Dataset) -> float:
    return float(dataset["density"][3, 3, 3])


def test_by_number(series: Dataset) -> None:
    assert series.time_units == "1" and series.time_values.dtype == np.float64
    for n in range(-5, 5):
        view = series.isel(time=n)
        assert view.times.tolist() == [TIMES[n]] and density(view) == pytest.approx(1.2 + 0.01 * (n % 5), abs=1e-12)
        assert repr(view).endswith(f"at step {n % 5}")
    for bad in (5, -6):
        with pytest.raises(UsageError, match=f"no time step {bad}; there are 5"):
            series.isel(time=bad)
    with pytest.raises(UsageError, match="whole number"):
        series.isel(time=1.5)  # type: ignore[arg-type]
    view = series.isel(time=slice(1, 4))
    assert view.times.tolist() == [1.0, 1.5, 2.5] and repr(view).endswith("steps 1 to 3")
    assert density(view) == density(series.isel(time=1))
    assert view.isel(time=-1).times.tolist() == [2.5] and density(view.isel(time=-1)) == density(series.isel(time=3))
    assert view.isel(time=slice(1, None)).times.tolist() == [1.5, 2.5]
    assert series.isel(time=slice(None, None, 2)).times.tolist() == [0.5, 1.5, 3.0]
    for none in (slice(3, 3), slice(9, None), slice(None, None, -1), slice("a", None)):
        with pytest.raises(UsageError):
            series.isel(time=none)
    with pytest.raises(UsageError, match="no time step 3; there are 3"):
        view.isel(time=3)


def test_by_time(series: Dataset) -> None:
    for n, time in enumerate(TIMES):
        assert series.sel(time=time).times.tolist() == [time]
        assert density(series.sel(time=time * (1 + 1e-12))) == density(series.isel(time=n))
    for time, method, found in (
        (1.9, "nearest", 1.5),
        (2.1, "nearest", 2.5),
        (9.0, "nearest", 3.0),
        (2.4, "pad", 1.5),
        (2.4, "ffill", 1.5),
        (2.5, "pad", 2.5),
        (1.6, "backfill", 2.5),
        (0.0, "bfill", 0.5),
    ):
        assert series.sel(time=time, method=method).times.tolist() == [found], (time, method)
    assert series.sel(time=2.4, method="nearest", tolerance=0.2).times.tolist() == [2.5]
    for words, says in (
        ({"time": 2.0}, "times 0.5 to 3"),
        ({"time": 99.0}, "times 0.5 to 3"),
        ({"time": 0.4, "method": "pad"}, "none is before"),
        ({"time": 3.1, "method": "backfill"}, "none is after"),
        ({"time": 2.4, "method": "nearest", "tolerance": 0.05}, "within 0.05"),
        ({"time": 2.4, "tolerance": 0.05}, "method"),
        ({"time": 2.4, "method": "linear"}, "linear"),
        ({"time": float("nan")}, "finite"),
        ({"time": slice(1.1, 1.2)}, "times 0.5 to 3"),
        ({"time": slice(1.0, 2.0), "method": "nearest"}, "without method"),
        ({"time": slice("a", None)}, "number"),
    ):
        with pytest.raises(UsageError, match=says):
            series.sel(**words)  # type: ignore[arg-type]
    assert series.sel(time=slice(1.0, 2.5)).times.tolist() == [1.0, 1.5, 2.5]
    assert series.sel(time=slice(None, 1.2)).times.tolist() == [0.5, 1.0]
    assert series.sel(time=slice(1.2, None)).sel(time=3.0).times.tolist() == [3.0]


def test_paths_keep_to_the_selection(series: Dataset) -> None:
    seeds = [(0.6, 0.5, 0.3)]
    view = series.isel(time=slice(1, 3))
    lines = view.pathlines(seeds=seeds)
    assert lines.time[0] == 1.0 and lines.time[-1] == 1.5
    whole = series.pathlines(seeds=seeds, t0=1.0, t1=1.5)
    assert np.array_equal(lines.points, whole.points)
    back = view.pathlines(seeds=seeds, integration_direction="backward")
    assert back.time[0] == 1.5 and back.time[-1] == 1.0
    assert view.pathlines(seeds=seeds, t0=1.4, t1=1.1).time[-1] == pytest.approx(1.1)
    for words in ({"t0": 0.9}, {"t1": 1.6}):
        with pytest.raises(UsageError, match=r"times 1 to 1\.5"):
            view.pathlines(seeds=seeds, **words)
    with pytest.raises(UsageError, match=r"0\.5.*3"):
        series.pathlines(seeds=seeds, t0=4.0)
    with pytest.raises(UsageError, match="stride"):
        series.isel(time=slice(None, None, 2)).streaklines(seeds=seeds)
    # From one step particles may go on.
    assert series.isel(time=3).pathlines(seeds=seeds).time[[0, -1]].tolist() == [2.5, 3.0]


def test_no_step_is_loaded_whole(series: Dataset) -> None:
    """A value of one step is a page of it: 8x8x8 points of a store, two rows of planes of a file."""
    step = 33 * 25 * 17 * 5 * 8
    with series:
        view = series.isel(time=slice(1, 4)).sel(time=2.5)
        repr(view)
        before = series.stats()
        # Of a store, its ranges: at most a page for each array.
        assert before["pages"]["touched"] < 40 and before["bytes_read"] < step / 5
        density(view)
        after = series.stats()
    assert after["pages"]["touched"] - before["pages"]["touched"] <= 2
    assert after["bytes_read"] - before["bytes_read"] < step / 20


@pytest.mark.parametrize("how", ["files", "store"])
def test_info_shows_times(how: str, files: str, series_store: Path, ff: Command, ff_json: Json) -> None:
    source = files if how == "files" else series_store
    found = ff_json("info", source)
    assert found["times"] == list(TIMES) and found["times_gaps"] == [2] and found["times_equal"] == []
    assert found["times_step"] is None and found["time_units"] == "1"
    assert "times    5: 0.5 to 3 [1]; gaps: 1.5 to 2.5" in ff("info", source).stdout
