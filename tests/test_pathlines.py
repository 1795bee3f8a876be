"""Pathlines by the command line and from Python: times, directions, sources, and what makes no sense."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import farfield as ff_module
from farfield.errors import UsageError
from plot3d_files import Block, box, write
from running import Command, Json

TIMES = (0.5, 1.0, 1.25, 2.0, 3.0)
LAST = len(TIMES) - 1


def accelerated(time: float) -> Block:
    """A warped box in which everything goes by (0.1 + 0.05 t, -0.1 t, 0.02): positions are known exactly."""
    block = box(17, 15, 13)
    density = block.q[0]
    velocity = [0.1 + 0.05 * time, -0.1 * time, 0.02]
    block.q[1:4] = [density * v for v in velocity]
    return block


def moved(x: np.ndarray, t0: float, t1: np.ndarray | float) -> np.ndarray:
    """Where a particle that is at `x` at `t0` is at `t1`."""
    t1 = np.asarray(t1, dtype=float)
    way = [0.1 * (t1 - t0) + 0.025 * (t1**2 - t0**2), -0.05 * (t1**2 - t0**2), 0.02 * (t1 - t0)]
    return x + np.stack(way, axis=-1)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("series")
    for n, time in enumerate(TIMES):
        write(folder, [accelerated(time)], stem=f"s_{n}", time=time)
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


@pytest.fixture(scope="module")
def store(series: str, ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "s.zarr"
    ff("convert", series, path, "--page", 4)
    return path


def test_positions_are_known(series: str) -> None:
    with ff_module.open(series) as ds:
        assert ds.time_values.tolist() == list(TIMES)
        x = np.array([[0.2, 0.8, 0.3], [0.4, 0.9, 0.6]])
        lines = ds.pathlines(seeds=x, scalars=["velocity_x"])
        assert lines.reason.tolist() == ["time", "time"]
        for n in range(2):
            own = slice(lines.offsets[n], lines.offsets[n + 1])
            time = lines.time[own]
            assert time[0] == TIMES[0] and time[-1] == TIMES[-1] and (np.diff(time) > 0).all()
            assert set(TIMES) <= set(time.tolist()), "steps end at the times of the series"
            assert np.abs(lines.points[own] - moved(x[n], TIMES[0], time)).max() < 1e-12
            assert np.abs(lines["velocity_x"][own] - 0.1 - 0.05 * time).max() < 1e-12
        # From between steps to between others, and back.
        there = ds.pathlines(seeds=x[:1], t0=0.7, t1=2.6)
        assert np.abs(there.points[-1] - moved(x[0], 0.7, 2.6)).max() < 1e-12
        back = ds.pathlines(seeds=there.points[-1:], t0=2.6, t1=0.7)
        assert back.time[0] == 2.6 and back.time[-1] == 0.7
        assert np.abs(back.points[-1] - x[0]).max() < 1e-12
        whole = ds.pathlines(seeds=moved(x[:1], 0.5, 3.0).reshape(1, 3), integration_direction="backward")
        assert np.abs(whole.points[-1] - x[0]).max() < 1e-12 and whole.time[-1] == 0.5


@pytest.mark.parametrize("integrator", ["rk45", "rk4"])
def test_a_step_of_time(series: str, integrator: str) -> None:
    with ff_module.open(series) as ds:
        lines = ds.pathlines(seeds=[(0.2, 0.8, 0.3)], integrator=integrator, time_step=0.1)
        assert np.diff(lines.time).max() <= 0.1 + 1e-12
        assert np.abs(lines.points[-1] - moved(np.array([0.2, 0.8, 0.3]), 0.5, 3.0)).max() < 1e-12
        held = ds.pathlines(seeds=[(0.2, 0.8, 0.3)], integrator=integrator, time_step=0.1, hold_steps=True)
        spans = np.diff(TIMES)
        x = 0.2 + sum(d * (0.1 + 0.05 * t) for d, t in zip(spans, TIMES[:LAST], strict=True))
        assert abs(held.points[-1][0] - x) < 1e-12


def test_the_same_bytes_whatever_the_memory(series: str, store: Path, ff: Command, tmp_path: Path) -> None:
    seen = set()
    arms = [
        (series, "--memory-limit", "4MiB", "--workers", 1),
        (series, "--memory-limit", "64MiB", "--workers", 2),
        (store, "--memory-limit", "4MiB", "--workers", 2, "--replacement", "lru"),
        (store, "--memory-limit", "1GiB", "--readers", 1),
    ]
    for n, (source, *more) in enumerate(arms):
        out = tmp_path / f"{n}.npz"
        ff("trace", source, "--kind", "pathline", "--seeds", "random:40:2", "--scalars", "pressure", "-o", out, *more)
        seen.add(hashlib.md5(out.read_bytes()).hexdigest())
    assert len(seen) == 1
    for n, (source, *more) in enumerate(arms):
        out = tmp_path / f"s{n}.npz"
        words = ("--kind", "streakline", "--release-every", 0.2, "--seeds", "random:40:2", "--scalars", "pressure")
        ff("trace", source, *words, "-o", out, *more)
        seen.add(hashlib.md5(out.read_bytes()).hexdigest())
    assert len(seen) == 2


def test_streaklines_are_known_too(series: str) -> None:
    x = np.array([0.2, 0.8, 0.3])
    with ff_module.open(series) as ds:
        smoke = ds.streaklines(seeds=[x], scalars=["velocity_y"])
        assert smoke["birth"].tolist() == list(TIMES)[::-1]
        assert smoke["age"].tolist() == [TIMES[LAST] - t for t in TIMES[::-1]]
        assert (smoke.time == TIMES[LAST]).all() and np.abs(smoke["velocity_y"] + 0.3).max() < 1e-12
        for point, born in zip(smoke.points, smoke["birth"], strict=True):
            assert np.abs(point - moved(x, born, TIMES[LAST])).max() < 1e-12
        assert ds.streaklines(seeds=[x], release_times=[1.5, 0.7])["birth"].tolist() == [1.5, 0.7]
        assert ds.streaklines(seeds=[x], release_steps=2)["birth"].tolist() == [3.0, 1.25, 0.5]
        assert len(ds.streaklines(seeds=[x], t0=1.0, t1=2.0, release_every=0.25).points) == 5
        back = ds.streaklines(seeds=[x], t0=2.0, t1=1.0, release_every=0.5)
        assert back["birth"].tolist() == [1.0, 1.5, 2.0] and back["age"].tolist() == [0.0, 0.5, 1.0]
        assert np.abs(back.points[2] - moved(x, 2.0, 1.0)).max() < 1e-12
        with pytest.raises(UsageError, match="in one way"):
            ds.streaklines(seeds=[x], release_every=0.1, release_steps=1)
        with pytest.raises(UsageError, match="does not lie between"):
            ds.streaklines(seeds=[x], release_times=[9.0])
        with pytest.raises(UsageError, match="positive"):
            ds.streaklines(seeds=[x], release_every=-1.0)


def test_options_of_streamlines_are_refused(series: str, tmp_path: Path) -> None:
    with ff_module.open(series) as ds:
        for key in ("max_time", "initial_step", "max_step", "terminal_speed"):
            options = {"seeds": "point:0.2,0.8,0.3", "kind": "pathline", "direction": "forward", key: 0.5}
            with pytest.raises(UsageError, match=f"'{key}' is not for lines of kind pathline"):
                ds.trace(tmp_path / "l.npz", options=options)


def test_a_selected_time_is_when_particles_start(series: str) -> None:
    with ff_module.open(series) as ds:
        assert ds.sel(time=1.25).pathlines(seeds=[(0.2, 0.8, 0.3)]).time[0] == 1.25
        assert ds.isel(time=1).streaklines(seeds=[(0.2, 0.8, 0.3)])["birth"].min() == 1.0


def test_info_says_what_pathlines_need(series: str, ff_json: Json, ff: Command, tmp_path: Path) -> None:
    ff("convert", series, tmp_path / "big.zarr", "--page", 64)
    least = ff_json("info", tmp_path / "big.zarr")["limit_least_bytes"]
    words = ("--kind", "pathline", "--seeds", "random:9:1", "-o", tmp_path / "l.npz", "--memory-limit", least)
    ff("trace", tmp_path / "big.zarr", *words)


def test_files_say_what_they_hold(store: Path, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    said = ff_json(
        "trace", store, "--kind", "pathline", "--seeds", "point:0.2,0.8,0.3", "--t1", 2.0, "-o", tmp_path / "p.npz"
    )
    assert said["reasons"] == {"time": 1}
    found = np.load(tmp_path / "p.npz")
    assert found["time"][0] == 0.5 and found["time"][-1] == 2.0
    shown = ff("trace", store, "--kind", "pathline", "--seeds", "point:0.2,0.8,0.3", "-o", tmp_path / "p.vtp").stdout
    assert "ended by: 1 time" in shown


NONSENSE = {
    ("--t0", "0.4"): "outside of the dataset's times, 0.5 to 3",
    ("--t1", "nan"): "finite",
    ("--t0", "2", "--t1", "1", "--direction", "forward"): "must lie after",
    ("--t0", "1", "--t1", "2", "--direction", "backward"): "must lie before",
    ("--direction", "both"): "forward or backward",
    ("--step", "1"): "--step is not for lines of kind pathline",
    ("--max-time", "1"): "--max-time is not for lines of kind pathline",
    ("--time-step", "-1"): "positive",
    ("--terminal-speed", "1"): "--terminal-speed is not for lines of kind pathline",
    ("--release-every", "1"): "--release-every is not for lines of kind pathline; it goes with --kind streakline",
    ("--integrator", "rk5"): "there are: rk45",
}


@pytest.mark.parametrize("words", NONSENSE)
def test_what_makes_no_sense(store: Path, words: tuple[str, ...], ff: Command, tmp_path: Path) -> None:
    out = tmp_path / "l.npz"
    done = ff("trace", store, "--kind", "pathline", "--seeds", "point:0.2,0.8,0.3", "-o", out, *words, ok=(2,))
    assert NONSENSE[words] in done.stderr
    assert not out.exists()


def test_streamlines_take_no_times(store: Path, ff: Command, tmp_path: Path) -> None:
    done = ff("trace", store, "--seeds", "point:0.2,0.8,0.3", "-o", tmp_path / "l.npz", "--t0", 1, ok=(2,))
    assert "--kind pathline" in done.stderr
    ff("trace", store, "--seeds", "point:0.2,0.8,0.3", "-o", tmp_path / "l.npz", "--kind", "smoke", ok=(2,))


def test_a_steady_flow_needs_an_end() -> None:
    with ff_module.open("demo:box") as ds:
        with pytest.raises(UsageError, match="give the end time"):
            ds.pathlines(seeds=[(0.7, 0.5, 0.3)])
        path = ds.pathlines(seeds=[(0.7, 0.5, 0.3)], t0=0.0, t1=1.5, tolerance=1e-9)
        line = ds.streamlines(seeds=[(0.7, 0.5, 0.3)], integration_direction="forward", max_time=1.5, tolerance=1e-9)
        assert path.time[-1] == 1.5
        assert np.abs(path.points[-1] - line.points[-1]).max() < 1e-6


def test_steps_without_times_are_asked_for(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    for n in range(3):
        write(tmp_path, [accelerated(0.5 * n)], stem=f"u_{n}")
    source = f"{tmp_path}/u_0.xyz+q={tmp_path}/u_*.q"
    info = ff_json("info", source)
    assert info["times"] == [0, 1, 2] and info["times_counted"]
    assert any("u_0.q and u_1.q both have 3.25" in g and "--dt" in g for g in info["guessed"])
    assert "--dt" in ff("info", source).stdout
    out = tmp_path / "p.npz"
    words = ("trace", source, "--kind", "pathline", "--seeds", "point:0.2,0.8,0.3", "-o", out)
    assert "--dt" in ff(*words, ok=(2,)).stderr
    ff(*words, "--dt", 0.5)
    assert np.abs(np.load(out)["points"][-1] - moved(np.array([0.2, 0.8, 0.3]), 0.0, 1.0)).max() < 1e-12
    ff("convert", source, tmp_path / "u.zarr", "--dt", 0.5)
    assert ff_json("info", tmp_path / "u.zarr")["times"] == [0, 0.5, 1]
    assert "holds its times" in ff("info", tmp_path / "u.zarr", "--dt", 1, ok=(2,)).stderr
    assert "positive" in ff("info", source, "--dt", 0, ok=(2,)).stderr
    with ff_module.open(source, plot3d={"dt": 2.0}) as ds:
        assert ds.times.tolist() == [0, 2, 4]


def test_gaps_are_shown(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    for n, time in enumerate((0.0, 0.1, 0.2, 0.7, 0.8)):
        write(tmp_path, [box(5, 5, 5)], stem=f"g_{n}", time=time)
    source = f"{tmp_path}/g_0.xyz+q={tmp_path}/g_*.q"
    assert ff_json("info", source)["times_gaps"] == [2]
    assert "gaps: 0.2 to 0.7" in ff("info", source).stdout


def test_arms_are_equal(series: str, store: Path, ff_json: Json, tmp_path: Path) -> None:
    """What is read ahead, how many threads there are, and how much memory, show in no result."""
    arms: list[tuple[object, ...]] = [
        (),
        ("--read-ahead", "none"),
        ("--read-ahead", "none", "--workers", 1),
        ("--workers", 3),
        ("--memory-limit", "4MiB"),
        ("--read-ahead", "none", "--memory-limit", "4MiB"),
    ]
    for t0, t1 in ((0.5, 3.0), (2.7, 0.6)):
        digests = set()
        for n, arm in enumerate(arms):
            out = tmp_path / f"{n}.npz"
            words = ("trace", store, "--kind", "pathline", "--seeds", "random:400:7", "-o", out, "--scalars", "density")
            pages = ff_json(*words, "--t0", t0, "--t1", t1, *arm)["pages"]
            assert pages["given_back"] > 0
            assert (pages["prefetched"] > 0) is (arm[:2] != ("--read-ahead", "none")), (arm, pages)
            assert pages["prefetched_used"] <= pages["prefetched"]
            digests.add(hashlib.sha256(out.read_bytes()).hexdigest())
        assert len(digests) == 1


NO_READ_AHEAD = "say along or none"


@pytest.mark.parametrize("wrong", ["0", "far", "-1", "2"])
def test_read_ahead_that_makes_no_sense(store: Path, ff: Command, tmp_path: Path, wrong: str) -> None:
    out = tmp_path / "a.npz"
    words = ("trace", store, "--seeds", "random:4:7", "-o", out)
    assert NO_READ_AHEAD in ff(*words, "--kind", "pathline", f"--read-ahead={wrong}", ok=(2,)).stderr
    assert "--read-ahead is not for lines of kind streamline" in ff(*words, "--read-ahead", "none", ok=(2,)).stderr
    assert not out.exists()
