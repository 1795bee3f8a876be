"""Times of series: those of headers in single precision, headers that only count, and files whose headers give no times."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import UsageError
from plot3d_files import box, write
from running import Command, Json

SEED = ("--seeds", "point:0.6,0.5,0.3")
GRID = ("--seeds-grid", "0.4:0.6:3,0.4:0.6:3,0.5")
TENTHS = [n / 10 for n in range(10)]


def series(folder: Path, times: list[float], *, real: int = 8) -> str:
    for n, time in enumerate(times):
        write(folder, [box(9, 8, 7)], stem=f"q_{n}", time=time, real=real)
    return f"{folder}/q_0.xyz+q={folder}/q_*.q"


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten steps, 0.1 apart, in single precision."""
    return series(tmp_path_factory.mktemp("single"), TENTHS, real=4)


@pytest.fixture(params=["files", "store", "counted"])
def tenths(request: pytest.FixtureRequest, single: str, ff: Command, tmp_path: Path) -> tuple[object, ...]:
    """The same times in a store, and by --dt."""
    if request.param == "files":
        return (single,)
    if request.param == "store":
        ff("convert", single, tmp_path / "s.zarr", "--page", 8)
        return (tmp_path / "s.zarr",)
    return (series(tmp_path, [3.25] * 10), "--dt", 0.1)


def test_times_are_those_that_are_shown(tenths: tuple[object, ...], ff: Command, ff_json: Json, tmp_path: Path) -> None:
    assert ff_json("info", *tenths)["times"] == TENTHS
    assert "times    10: 0 to 0.9 [1], 0.1 apart" in ff("info", *tenths).stdout
    out = tmp_path / "l.npz"
    trace = ("trace", *tenths, *SEED, "-o", out)
    for words in (
        ("--t1", 0.9),
        ("--t0", 0.9, "--t1", 0.3),
        ("--t1", 0.9, "--output-times", "0.3,0.6,0.9"),
        ("--t1", 0.7, "--save-state", tmp_path / "a.state"),
        ("--t0", 0.3, "--t1", 0.6, "--points", "steps"),
    ):
        ff(*trace, "--kind", "pathline", *words)
    assert np.load(out)["time"].tolist() == [0.3, 0.4, 0.5, 0.6]
    ff(*trace, "--kind", "streakline", "--release-times", "0.3,0.9")
    assert np.load(out)["birth"].tolist() == [0.9, 0.3]
    ff("flowmap", *tenths, *GRID, "--t0", 0.1, "--t1", 0.9, "-o", tmp_path / "m.zarr")


def test_no_release_is_lost(tenths: tuple[object, ...], ff: Command, tmp_path: Path) -> None:
    out = tmp_path / "l.npz"
    words = ("trace", *tenths, *SEED, "--kind", "streakline", "-o", out, "--release-every", 0.1)
    for ends in (("--t0", 0, "--t1", 0.9), ("--t0", 0.9, "--t1", 0)):
        ff(*words, *ends)
        assert sorted(np.load(out)["birth"].tolist()) == TENTHS
    ff(*words, "--output-every", 0.3)
    assert sorted({float(t) for t in np.load(out)["time"]}) == [0.0, 0.3, 0.6, 0.9]
    # As floats have it, three tenths are more than 0.3.
    ff("trace", *tenths, *SEED, "--kind", "streakline", "-o", out, "--release-every", 0.1 + 0.2)
    assert len(np.load(out)["birth"]) == 4


def test_steps_are_selected_by_the_times_that_are_shown(single: str) -> None:
    with farfield.open(single) as ds:
        assert ds.times.tolist() == TENTHS
        assert ds.sel(time=0.1).times.tolist() == [0.1]
        assert ds.sel(time=slice(None, 0.3)).times.tolist() == [0.0, 0.1, 0.2, 0.3]


def test_a_state_goes_on_where_multiples_and_steps_differ_by_rounding(ff: Command, tmp_path: Path) -> None:
    """Times as a solver adds them up in double precision: 0.7999999999999999 is the eighth tenth, whichever run meets it."""
    times = [0.0]
    while len(times) < 12:
        times.append(times[-1] + 0.1)
    assert times[8] != 0.8
    source, state = series(tmp_path, times), tmp_path / "a.state"
    words = ("trace", source, *SEED, "--kind", "streakline", "--release-every", 0.1, "--t0", 0)
    ff(*words, "--t1", repr(times[8]), "-o", tmp_path / "few.npz", "--save-state", state)
    assert len(np.load(tmp_path / "few.npz")["birth"]) == 9
    ff(*words, "--t1", repr(times[11]), "-o", tmp_path / "on.npz", "--resume", state)
    ff(*words, "--t1", repr(times[11]), "-o", tmp_path / "one.npz")
    assert (tmp_path / "on.npz").read_bytes() == (tmp_path / "one.npz").read_bytes()
    assert sorted(np.load(tmp_path / "one.npz")["birth"].tolist()) == times


def refused(source: str | Path, ff: Command, tmp_path: Path) -> set[str]:
    """What all that needs times says, with exit code 2, and that all else works."""
    out = tmp_path / "l.npz"
    said = {
        ff("trace", source, "--kind", kind, "--seeds", "line:.3,.5,.3:.6,.5,.3:3", "-o", out, ok=(2,)).stderr
        for kind in ("pathline", "streakline", "timeline")
    }
    said.add(ff("flowmap", source, *GRID, "-o", tmp_path / "m.zarr", ok=(2,)).stderr)
    assert not out.exists() and not (tmp_path / "m.zarr").exists()
    with farfield.open(source) as ds:
        with pytest.raises(UsageError, match="--dt"):
            ds.sel(time=slice(0.0, 1.0))
        with pytest.raises(UsageError) as caught:
            ds.sel(time=1.0, method="nearest")
        said.add(str(caught.value))
        assert len(ds.isel(time=slice(1, None)).times) == len(ds.times) - 1
        ds.isel(time=2)["density"][3, 3, 3]
    ff("trace", source, *SEED, "--step", 2, "-o", out)
    ff("trace", source, *SEED, "--steps", "all", "-o", out)
    ff("render", source, "-o", tmp_path / "f_%d.png", "--frames", "0:2", "--size", "60x40")
    return said


def test_headers_that_only_count_are_no_times(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    source, target = series(tmp_path, [5.0, 6.0, 7.0]), tmp_path / "s.zarr"
    found = ff_json("info", source)
    assert found["times_counted"] and found["times"] == [0, 1, 2] and found["times_equal"] == []
    assert found["times_why"] in found["guessed"]
    ff("convert", source, target, "--page", 8)
    for where in (source, target):
        for said in refused(where, ff, tmp_path):
            assert "only count the steps" in said and "q_0.q has 5" in said and "q_2.q has 7" in said, said
            assert "--dt 1 if these are their times" in said
        (tmp_path / "l.npz").unlink()
    out = tmp_path / "l.npz"
    ff("trace", source, *SEED, "--kind", "pathline", "-o", out, "--dt", 0.5)
    assert np.load(out)["time"][-1] == 1.0
    ff("flowmap", source, *GRID, "-o", tmp_path / "m.zarr", "--dt", 1)
    with farfield.open(source, plot3d={"dt": 1}) as ds:
        assert ds.sel(time=1.0).times.tolist() == [1.0]
    ff("convert", source, tmp_path / "t.zarr", "--dt", 1)
    ff("trace", tmp_path / "t.zarr", *SEED, "--kind", "pathline", "-o", out, "--t1", 2)


@pytest.mark.parametrize(
    ("times", "equal", "says"),
    [
        ([0, 0.25, 0.5, 0.5, 0.75], [2], ("q_2.q and q_3.q both have 0.5", "Leave one of the two out")),
        ([0.5, 0.0, 0.5, 0.25], [0], ("q_0.q and q_2.q both have 0.5", "Leave one of the two out")),
        ([3.25, 3.25, 3.25], [0, 1], ("all 3 steps the same time", "q_0.q and q_1.q both have 3.25")),
        ([0.0, math.nan, 0.5], [], ("q_1.q is no finite number but NaN", "Leave such files out")),
        ([0.0, 0.25, math.inf], [], ("q_2.q is no finite number but inf", "Leave such files out")),
    ],
)
def test_files_whose_headers_are_no_times_are_named(
    times: list[float], equal: list[int], says: tuple[str, ...], ff: Command, ff_json: Json, tmp_path: Path
) -> None:
    source = series(tmp_path, times)
    found = ff_json("info", source)
    assert found["times_counted"] and found["times_equal"] == equal
    shown = ff("info", source).stdout
    for said in (*refused(source, ff, tmp_path), shown):
        assert all(text in said for text in says) and "--dt" in said and "nothing says when" not in said, said


def test_what_is_noted_of_files_is_said_by_runs(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    source = series(tmp_path, [0.5, 0.0, 0.25])
    (tmp_path / "q_2.q").rename(tmp_path / "q_3.q")
    asked: tuple[tuple[tuple[object, ...], str], ...] = (
        (("--dt", 0.1), "q_3.q follows q_1.q"),
        ((), "q_3.q (0.25) comes before q_0.q (0.5)"),
    )
    for words, says in asked:
        noted = ff_json("info", source, *words)["notes"]
        assert len(noted) == 1 and says in noted[0]
        runs: tuple[tuple[object, ...], ...] = (
            ("trace", source, *SEED, "-o", tmp_path / "l.npz"),
            ("trace", source, *SEED, "--kind", "pathline", "-o", tmp_path / "l.npz"),
            ("flowmap", source, *GRID, "-o", tmp_path / "m.zarr", "--overwrite"),
            ("render", source, "-o", tmp_path / "f_%d.png", "--size", "60x40"),
        )
        for run in runs:
            said = ff(*run, *words).stderr
            assert said.count("\n") == 1 and said == f"farfield: note: {noted[0]}\n", said
            assert ff(*run, *words, "-q").stderr == ""
    # Who made a store of them has heard it.
    ff("convert", source, tmp_path / "s.zarr", "--page", 8)
    assert ff_json("info", tmp_path / "s.zarr")["notes"] == []
    assert ff("trace", tmp_path / "s.zarr", *SEED, "-o", tmp_path / "l.npz").stderr == ""
