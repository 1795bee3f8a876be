"""What can be set and asked of datasets and lines in Python, what they say of themselves, and what wrong arguments are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import farfield
from farfield import MemoryLimitError, UnknownName, UsageError
from plot3d_files import box, write
from test_pathlines import TIMES
from test_tracks import written


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("series"), range(len(TIMES)))


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Steps whose headers are alike."""
    folder = tmp_path_factory.mktemp("numbered")
    for n in range(3):
        write(folder, [box(9, 8, 7)], stem=f"s_{n}", time=1.0)
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


def test_what_is_misspelt_is_not_set(series: str) -> None:
    with farfield.open(series, memory_limit="64MiB") as ds:
        lines = ds.streamlines(seeds=[(0.7, 0.5, 0.3)])
        for thing, name in (
            (ds, "foo"),
            (ds, "timevalues"),
            (ds, "times"),
            (ds, "info"),
            (lines, "foo"),
            (lines, "time"),
        ):
            with pytest.raises(AttributeError, match=name):
                setattr(thing, name, 3)
        ds.memory_limit = "16MiB"
        assert ds.memory_limit == 16 << 20 == ds.stats()["limit_bytes"] == ds.isel(time=0).memory_limit
        with pytest.raises(MemoryLimitError):
            ds.memory_limit = 1000


def test_what_every_line_has_goes_by_its_name(series: str) -> None:
    with farfield.open(series) as ds:
        smoke = ds.streaklines(seeds=[(0.7, 0.5, 0.3)], output_times="steps")
        lines = ds.streamlines(seeds=[(0.7, 0.5, 0.3)], integration_direction="forward")
    for name in ("points", "time", "zone", "offsets", "seed", "reason"):
        assert np.array_equal(lines[name], getattr(lines, name)), name
    assert np.array_equal(smoke["line_time"], TIMES) and len(smoke["birth"]) == len(smoke["age"]) == len(smoke["time"])
    assert "sampled: birth, age>" in repr(smoke) and "sampled" not in repr(lines)
    for name in ("line_time", "reason_backward", "pressure"):
        with pytest.raises(UnknownName, match=f"'{name}' was not sampled.*: points, time, zone"):
            lines[name]


def test_when_the_steps_are(series: str, numbered: str) -> None:
    with farfield.open(series) as ds:
        assert repr(ds).splitlines()[-1].startswith("  times: 5, 0.5 to 3 [1]")
    with farfield.open(numbered) as ds:
        assert repr(ds).splitlines()[-1].startswith("  times: 3, only numbered")
        with pytest.raises(UsageError, match="steps are numbered from 0"):
            ds.sel(time=0.5)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "times of sel": ("sel", {"time": [0.5, 1.0]}, "time is one number"),
    "an array of them": ("sel", {"time": np.array([0.5, 1.0])}, "time is one number"),
    "a word for sel": ("sel", {"time": "a"}, "time is one number"),
    "tolerance": ("sel", {"time": 0.5, "method": "nearest", "tolerance": "a"}, "tolerance is one number"),
    "release_times": ("streaklines", {"release_times": "x"}, "release_times are numbers"),
    "one release time": ("streaklines", {"release_times": 1.0}, "release_times are numbers"),
    "output_times": ("pathlines", {"output_times": 5}, "output_times are numbers"),
    "words": ("pathlines", {"output_times": ["x"]}, "output_times are numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(case: str, series: str) -> None:
    method, words, says = WRONG[case]
    seeds = {} if method == "sel" else {"seeds": [(0.7, 0.5, 0.3)]}
    with farfield.open(series) as ds, pytest.raises(UsageError, match=says):
        getattr(ds, method)(**seeds, **words)


def test_what_plot3d_takes(series: str) -> None:
    with pytest.raises(UsageError, match="plot3d is a dictionary"):
        farfield.open(series, plot3d=0.25)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"no PLOT3D option 'Dt'.* dt, define"):
        farfield.open(series, plot3d={"Dt": 0.25})
    with farfield.open(series, plot3d={"dt": 0.25, "byte-order": "little"}) as ds:
        assert ds.times.tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_one_step_is_no_streakline() -> None:
    with farfield.open("demo:box") as ds, pytest.raises(UsageError, match="nothing says when streaklines end"):
        ds.streaklines(seeds=[(0.7, 0.5, 0.3)])
