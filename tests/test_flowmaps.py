"""Flow maps against what is known: exponents, residence times, end points; and their volumes in other readers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield
from farfield.errors import DataError, MemoryLimitError, UnknownName
from plot3d_files import Block, write
from running import Command, Json

Array = Any
Motion = Callable[[Array, Array, Array, float], Sequence[Array]]


def made(
    folder: Path,
    motion: Motion,
    times: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    dims: Sequence[int],
) -> str:
    """A box with a motion given at the nodes, at each time."""
    x, y, z = np.meshgrid(*(np.linspace(a, b, n) for a, b, n in zip(low, high, dims, strict=True)), indexing="ij")
    x, y, z = (c.transpose(2, 1, 0) for c in (x, y, z))
    for n, time in enumerate(times):
        one = np.ones_like(x)
        u, v, w = (c * one for c in motion(x, y, z, time))
        write(folder, [Block([x, y, z], [one, u, v, w, 5 * one])], stem=f"m_{n:03}", time=time)
    return f"{folder}/m_000.xyz+q={folder}/m_*.q"


def gyre(x: Array, y: Array, t: float) -> tuple[Array, Array]:
    """The double gyre of Shadden, Lekien and Marsden (2005)."""
    amplitude, share, turn = 0.1, 0.25, 2 * np.pi / 10
    a, b = share * np.sin(turn * t), 1 - 2 * share * np.sin(turn * t)
    f, slope = a * x * x + b * x, 2 * a * x + b
    return (
        -np.pi * amplitude * np.sin(np.pi * f) * np.cos(np.pi * y),
        np.pi * amplitude * np.cos(np.pi * f) * np.sin(np.pi * y) * slope,
    )


STEPS = 500
"""Of the classical method over ten units of time: ends differ by 3e-7 from those of four times as many."""


def carried(x: Array, y: Array, t0: float, t1: float, steps: int) -> tuple[Array, Array]:
    """End points by the classical method with steps that are small enough."""
    h = (t1 - t0) / steps
    for n in range(steps):
        t = t0 + n * h
        k1 = gyre(x, y, t)
        k2 = gyre(x + h / 2 * k1[0], y + h / 2 * k1[1], t + h / 2)
        k3 = gyre(x + h / 2 * k2[0], y + h / 2 * k2[1], t + h / 2)
        k4 = gyre(x + h * k3[0], y + h * k3[1], t + h)
        x = x + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        y = y + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return x, y


def exponents(end: tuple[Array, Array], x: Array, y: Array, time: float) -> Array:
    """Of end points [y, x], by NumPy's gradients and singular values."""
    gradient = np.empty((*end[0].shape, 2, 2))
    for c in range(2):
        gradient[..., c, 1], gradient[..., c, 0] = np.gradient(end[c], y, x)
    return np.log(np.linalg.svd(gradient, compute_uv=False)[..., 0]) / abs(time)


@pytest.fixture(scope="module")
def double_gyre(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("gyre")
    times = np.linspace(0, 10, 41)
    return made(folder, lambda x, y, z, t: (*gyre(x, y, t), 0 * z), times, (0, 0, 0), (2, 1, 0.1), (161, 81, 2))


def test_the_double_gyre(double_gyre: str, tmp_path: Path) -> None:
    grid = "0.02:1.98:99,0.02:0.98:49,0.05"
    with farfield.open(double_gyre) as ds:
        done = ds.flow_map(
            tmp_path / "m.zarr", seeds_grid=grid, quantities=["ftle", "end_position"], integration_direction="both"
        )
        aside = ds.flow_map(tmp_path / "a.zarr", seeds_grid=grid, offset=1e-4)
    assert done["seeds"] == 99 * 49 and done["reasons"]["forward"] == {"time": 99 * 49} == aside["reasons"]["forward"]
    found = zarr.open_group(tmp_path / "m.zarr", mode="r")
    x, y = (np.asarray(found[name]) for name in "xy")
    assert (x[0], x[-1], y[0], y[-1]) == (0.02, 1.98, 0.02, 0.98)
    xs, ys = np.meshgrid(x, y)
    for way, t0, t1 in (("forward", 0.0, 10.0), ("backward", 10.0, 0.0)):
        truth = carried(xs, ys, t0, t1, STEPS)
        end = np.asarray(found[f"end_position_{way}"])[:, 0]
        # Between the data's points and steps all is linear, and what that leaves out grows as fast as neighbours part.
        apart = np.hypot(end[0] - truth[0], end[1] - truth[1])
        assert np.median(apart) < 3e-3 and np.quantile(apart, 0.9) < 0.01, (np.median(apart), np.quantile(apart, 0.9))
        # Differences of the same seeds: what remains is the grid of the data.
        known, ftle = exponents(truth, x, y, t1 - t0), np.asarray(found[f"ftle_{way}"])[0]
        off = np.abs(ftle - known)
        assert np.median(off) < 2e-3 and np.quantile(off, 0.95) < 0.03, (np.median(off), np.quantile(off, 0.95))
        # The ridge: in nearly every row that it crosses it is found where it is, to a seed.
        rows = range(5, 25)
        beside = [abs(int(np.argmax(ftle[r])) - int(np.argmax(known[r]))) for r in rows]
        assert np.median(beside) <= 1 and known.max() > 0.4, beside
        assert abs(ftle.max() - known.max()) < 0.02
    # Neighbours of its own say what the gradient is at the seed: compared with differences as near.
    nearby = [carried(xs + dx, ys + dy, 0.0, 10.0, STEPS) for dx, dy in ((-1e-4, 0), (1e-4, 0), (0, -1e-4), (0, 1e-4))]
    gradient = np.empty((*xs.shape, 2, 2))
    for c in range(2):
        gradient[..., c, 0] = (nearby[1][c] - nearby[0][c]) / 2e-4
        gradient[..., c, 1] = (nearby[3][c] - nearby[2][c]) / 2e-4
    known = np.log(np.linalg.svd(gradient, compute_uv=False)[..., 0]) / 10
    ftle = np.asarray(zarr.open_group(tmp_path / "a.zarr", mode="r")["ftle"])[0]
    assert np.median(np.abs(ftle - known)) < 0.02, np.median(np.abs(ftle - known))


def test_strain_stretches_at_its_rate_and_rotation_does_not(tmp_path: Path) -> None:
    cases: dict[str, tuple[Motion, float]] = {
        "strain": (lambda x, y, z, t: (0.5 * x, -0.5 * y, 0 * z), 0.5),
        "turn": (lambda x, y, z, t: (-0.7 * y, 0.7 * x, 0 * z), 0.0),
        "space": (lambda x, y, z, t: (-0.2 * x, -0.3 * y, 0.5 * z), 0.5),
    }
    for name, (motion, rate) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        source = made(folder, motion, (0.0, 0.5, 2.0), (-1, -1, -1), (1, 1, 1), (9, 9, 9))
        grids = ["-0.2:0.2:7,-0.3:0.3:5,0", "-0.2:0.2:4,-0.3:0.3:3,-0.25:0.25:5"]
        with farfield.open(source) as ds:
            for n, grid in enumerate(grids if name != "space" else grids[1:]):
                for offset in (None, 0.01):
                    out = folder / f"{n}-{offset}.zarr"
                    ds.flow_map(out, seeds_grid=grid, offset=offset, tolerance=1e-11)
                    ftle = np.asarray(zarr.open_group(out, mode="r")["ftle"])
                    assert ftle.shape[0] == (1, 5)[n if name != "space" else 1]
                    assert np.abs(ftle - rate).max() < 1e-8, (name, grid, offset, np.abs(ftle - rate).max())


def test_residence_in_uniform_flow_is_known(tmp_path: Path) -> None:
    source = made(tmp_path, lambda x, y, z, t: (0.5, 0.1, 0.0), (0.0, 0.4, 1.0, 1.5), (0, 0, 0), (1, 1, 1), (11, 7, 5))
    with farfield.open(source) as ds:
        # The last two columns lie outside.
        grid = [(0.05, 1.05, 11), (0.3, 0.6, 4), (0.5, 0.5, 1)]
        ds.flow_map(tmp_path / "r.zarr", seeds_grid=grid, quantities=["residence", "displacement"])
        ds.flow_map(tmp_path / "b.zarr", seeds_grid=grid, quantities=["residence"], within="0.1,0,0:0.8,1,1")
        back = ds.flow_map(tmp_path / "t.zarr", seeds_grid=grid, quantities=["residence"], t0=1.5, t1=0.25)
    found = zarr.open_group(tmp_path / "r.zarr", mode="r")
    x = np.asarray(found["x"])
    stays = np.minimum((1 - x) / 0.5, 1.5)
    inside = x <= 1
    residence, status = np.asarray(found["residence_time"])[0], np.asarray(found["status"])[0]
    assert np.abs(residence[:, inside] - stays[inside]).max() < 1e-8
    assert np.isnan(residence[:, ~inside]).all() and (status[:, ~inside] == 8).all() and (~inside).sum() == 1
    assert (status[:, inside] == np.where(stays[inside] < 1.5, 5, 2)).all()
    moved = np.asarray(found["displacement"])[:, 0][:, :, stays == 1.5]
    assert np.abs(moved - np.array([0.75, 0.15, 0.0])[:, None, None]).max() < 1e-12
    # To a face of the box it is exact; who begins outside of it has left at once.
    inner = np.asarray(zarr.open_group(tmp_path / "b.zarr", mode="r")["residence_time"])[0]
    known = np.where((x >= 0.1) & (x <= 0.8), np.minimum((0.8 - x) / 0.5, 1.5), 0.0)
    assert np.abs(inner[:, inside] - known[inside]).max() < 1e-12
    # Backward it goes out where it came in.
    assert back["reasons"] == {"backward": {"left": 24, "time": 16, "outside": 4}}
    before = np.asarray(zarr.open_group(tmp_path / "t.zarr", mode="r")["residence_time"])[0][:, inside]
    assert np.abs(before - np.minimum(x[inside] / 0.5, 1.25)).max() < 1e-8


def contents(folder: Path) -> str:
    digest = hashlib.md5()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


def test_the_same_bytes_whatever_the_means(double_gyre: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """Limits that hold all steps, some, and one; seeds in several blocks of which some are cut; pages of a store."""
    seen = {}
    ff("convert", double_gyre, tmp_path / "s.zarr", "--page", 8)
    words = (
        "--seeds-grid",
        "0.01:1.99:300,0.01:0.99:140,0.03",
        "--t1",
        2,
        "--quantity",
        "ftle,residence,displacement,end_position",
    )
    arms: list[tuple[Any, ...]] = [
        (double_gyre, "--workers", 2, "--memory-limit", "512MiB"),
        (double_gyre, "--workers", 1, "--memory-limit", "12MiB"),
        (tmp_path / "s.zarr", "--workers", 3, "--memory-limit", "10MiB", "--readers", 3),
    ]
    for n, arm in enumerate(arms):
        out = tmp_path / f"{n}.zarr"
        found = ff_json("flowmap", *arm, *words, "-o", out)
        assert found["peak_bytes"] <= found["limit_bytes"] and found["reasons"] == {"forward": {"time": 42000}}
        seen[contents(out)] = arm
    assert len(seen) == 1, list(seen.values())
    assert len(list((tmp_path / "0.zarr" / "ftle" / "c").rglob("*"))) > 5


def test_other_readers_read_it(double_gyre: str, ff: Command, tmp_path: Path) -> None:
    import xarray

    out = tmp_path / "m.zarr"
    ff("flowmap", double_gyre, "--region", "0.5:1.5,0.25:0.75,0.05", "--resolution", 17, "--t0", 5, "--t1", 4,
       "--quantity", "ftle,end_position", "-o", out)  # fmt: skip
    with xarray.open_dataset(out, engine="zarr") as found:
        assert dict(found.sizes) == {"x": 17, "y": 9, "z": 1, "component": 3}
        assert found.ftle.attrs["release_time"] == 5.0 and found.ftle.attrs["direction"] == "backward"
        assert found.status.attrs["flag_meanings"].split()[2] == "time" and found.attrs["Conventions"] == "CF-1.11"
        assert np.isfinite(found.ftle.values).all() and (found.status.values == 2).all()
        assert float(found.end_position.sel(component=0).mean()) > 0
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


NONSENSE = {
    ("--seeds-grid", "0:1:0,0:1:3,0"): "0 seeds along x",
    ("--seeds-grid", "1:0:5,0:1:3,0"): "cannot go",
    ("--seeds-grid", "0:1,0:1:3,0"): "low:high:n",
    ("--seeds-grid", "a,b,c"): "is not a grid of seeds",
    ("--seeds-grid", "0.5,0.5,0.05"): "no neighbours",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--region", "0:1,0:1,0"): "excludes region and resolution; give one",
    ("--region", "0:1,0:1,0"): "resolution",
    ("--region", "0:1,0:1,0", "--resolution", "x"): "whole number",
    ("--region", "0:1,0:1,0", "--resolution", "4,4"): "2 numbers",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--quantity", "entropy"): "entropy",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--quantity", "ftle,ftle"): "twice",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--t1", "99"): "outside of the dataset's times",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--t0", "2", "--t1", "2"): "takes some time",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--offset", "-1"): "positive",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--quantity", "residence", "--offset", "1"): "ftle",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--within", "1,1,1:0,0,0"): "lower to its higher",
    ("--seeds-grid", "0:1:3,0:1:3,0", "--within", "1:2"): "is not a box",
    ("--seeds-grid", "0:1e18:99999999999999999,0:1:3,0"): "more than",
}


@pytest.mark.parametrize(
    ("words", "says"), NONSENSE.items(), ids=lambda v: " ".join(v) if isinstance(v, tuple) else None
)
def test_what_makes_no_sense(words: tuple[str, ...], says: str, double_gyre: str, ff: Command, tmp_path: Path) -> None:
    done = ff("flowmap", double_gyre, *words, "-o", tmp_path / "m.zarr", ok=(2,))
    assert says in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_there_stays_there(double_gyre: str, tmp_path: Path) -> None:
    out, grid = tmp_path / "m.zarr", "0.5:1.5:3,0.25:0.75:3,0.05"
    with farfield.open(double_gyre) as ds:
        ds.flow_map(out, seeds_grid=grid, t1=1.0)
        before = contents(out)
        with pytest.raises(DataError, match="--overwrite"):
            ds.flow_map(out, seeds_grid=grid, t1=2.0)
        with pytest.raises(UnknownName):
            ds.flow_map(out, seeds_grid=grid, vectors="nothing", overwrite=True)
        with pytest.raises(KeyboardInterrupt):
            ds.flow_map(out, seeds_grid=grid, overwrite=True, progress=_stop)
        assert contents(out) == before and [p.name for p in tmp_path.iterdir()] == ["m.zarr"]
        ds.flow_map(out, seeds_grid=grid, t1=2.0, overwrite=True)
        assert contents(out) != before and [p.name for p in tmp_path.iterdir()] == ["m.zarr"]
        (tmp_path / "other").mkdir()
        with pytest.raises(DataError, match="no Zarr store"):
            ds.flow_map(tmp_path / "other", seeds_grid=grid, overwrite=True)
        ds.set_memory_limit("4MiB")
        with pytest.raises(MemoryLimitError):
            ds.flow_map(
                tmp_path / "n.zarr",
                seeds_grid="0.1:1.9:512,0.1:0.9:256,0.05",
                quantities=farfield.flow.flow_maps.QUANTITIES,
            )


def _hidden(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("moment", ["between the renames", "after both", "before both", "without the new one"])
def test_what_a_killed_run_has_left_is_put_right(double_gyre: str, tmp_path: Path, moment: str) -> None:
    """A run that replaces a volume renames the old one, then the new one, then removes the old one: what it leaves where it is
    killed after the first, after the second, and before both."""
    out, grid = tmp_path / "m.zarr", "0.5:1.5:3,0.25:0.75:3,0.05"
    part, old = tmp_path / ".m.zarr.part-4194303-0", tmp_path / ".m.zarr.part-4194303-0.old"
    with farfield.open(double_gyre) as ds:
        one, two = tmp_path / "1.zarr", tmp_path / "2.zarr"
        ds.flow_map(one, seeds_grid=grid, t1=1.0)
        ds.flow_map(two, seeds_grid=grid, t1=2.0)
        first, second = contents(one), contents(two)
        assert first != second
        if moment == "before both":
            one.rename(out)
            (two / "zarr.json").unlink()
            two.rename(part)
        else:
            one.rename(old)
            two.rename({"between the renames": part, "after both": out}.get(moment, tmp_path / "elsewhere"))
        with pytest.raises(DataError, match="exists; --overwrite"):
            ds.flow_map(out, seeds_grid=grid, t1=0.5)
        assert contents(out) == (second if moment in ("between the renames", "after both") else first)
        assert _hidden(tmp_path) == []


def test_a_run_that_is_under_way_is_left_alone(double_gyre: str, tmp_path: Path) -> None:
    import fcntl
    import os

    out, part = tmp_path / "m.zarr", tmp_path / ".m.zarr.part-4194303-0"
    part.mkdir()
    (part / "piece").write_text("of a volume")
    holder = os.open(part, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with farfield.open(double_gyre) as ds:
        ds.flow_map(out, seeds_grid="0.5:1.5:3,0.25:0.75:3,0.05", t1=0.5)
        assert (part / "piece").read_text() == "of a volume"
        os.close(holder)
        ds.flow_map(out, seeds_grid="0.5:1.5:3,0.25:0.75:3,0.05", t1=0.5, overwrite=True)
    assert _hidden(tmp_path) == []


def _stop(phase: str, done: float, total: float) -> bool:
    raise KeyboardInterrupt
