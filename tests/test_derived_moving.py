"""Fields of gradients where the grid moves: metrics are those of the grid at that step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield as ff
from plot3d_files import Array, Block, write
from running import Json

TIMES = (0.0, 0.5, 1.25)
HOW = pytest.mark.parametrize("how", ["in place", "store"])

RATES = np.array(
    [
        [[0.02, -0.11, 0.07], [0.20, 0.04, -0.06], [-0.02, 0.17, -0.06]],
        [[0.05, 0.13, -0.02], [-0.08, 0.01, 0.12], [0.04, -0.07, 0.03]],
        [[-0.10, -0.09, 0.11], [0.15, 0.02, 0.05], [0.08, 0.03, 0.06]],
    ]
)
"""Of each step, the gradient of its velocity: row by component."""


def place(step: int, r: Array) -> Array:
    """Where a point of the unit box, [..., 3], is at a step: turned, stretched and bent, each time otherwise."""
    turn, lean = 0.5 * step, 0.3 * step
    bent = r + 0.06 * (1 + step) * np.sin(2 * np.roll(r, 1, axis=-1) + step) * r * (1 - r)
    turned = np.array([[np.cos(turn), -np.sin(turn), lean], [np.sin(turn), np.cos(turn), 0], [0, 0.1 * step, 1.0]])
    placed: Array = bent @ turned.T * (1 + 0.2 * step) + 0.05 * step
    return placed


def block(step: int, n: tuple[int, int, int], *, linear: bool = True, holes: bool = True) -> Block:
    k, j, i = np.meshgrid(*(np.linspace(0, 1, m) for m in reversed(n)), indexing="ij")
    x = place(step, np.stack([i, j, k], axis=-1))
    u = x @ RATES[step].T + 0.01 if linear else np.stack(smooth(step, x), axis=-1)
    rho = 1.2 + 0.1 * np.sin(3 * i) * np.cos(2 * j + step)
    energy = 2.0 + 0.5 * rho * (u**2).sum(axis=-1)
    blank = np.ones(i.shape, dtype=np.int32)
    blank[3:5, 3 + step, 3:5] = 0
    xyz, q = np.moveaxis(x, -1, 0), [rho, *np.moveaxis(rho[..., None] * u, -1, 0), energy]
    return Block(list(xyz), q, blank if holes else None)


def smooth(step: int, x: Array) -> list[Array]:
    """No polynomial."""
    a, b, c = np.moveaxis(x, -1, 0)
    return [np.sin(2 * b + step), np.cos(a + c), np.sin(2 * a) * np.cos(b)]


def curl_of_smooth(step: int, x: Array) -> Array:
    a, b, c = np.moveaxis(x, -1, 0)
    return np.stack(
        [
            -np.sin(2 * a) * np.sin(b) + np.sin(a + c),
            -2 * np.cos(2 * a) * np.cos(b),
            -np.sin(a + c) - 2 * np.cos(2 * b + step),
        ]
    )


def files(folder: Path, n: tuple[int, int, int], **how: bool) -> str:
    folder.mkdir(exist_ok=True)
    for step, time in enumerate(TIMES):
        write(folder, [block(step, n, **how)], stem=f"flow_{step}", time=time)
    return f"{folder}/flow_*.xyz+q={folder}/flow_*.q"


def opened(source: str, how: str, tmp_path: Path) -> str:
    if how == "store":
        ff.convert(source, tmp_path / "moving.zarr", page=8, progress=False)
        return str(tmp_path / "moving.zarr")
    return source


def curl(rate: NDArray[np.float64]) -> list[float]:
    return [rate[2, 1] - rate[1, 2], rate[0, 2] - rate[2, 0], rate[1, 0] - rate[0, 1]]


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A linear velocity, another one at each step, on a grid that turns, leans and bends, with a hole that moves."""
    return files(tmp_path_factory.mktemp("moving") / "linear", (13, 11, 12))


@HOW
@pytest.mark.parametrize("limit", ["1GiB", "4MiB"])
def test_linear_fields_have_exact_gradients_at_every_step(moving: str, how: str, limit: str, tmp_path: Path) -> None:
    define = {"turning": "magnitude(curl(velocity)) * time + z / (1 'L')", "whole": "grad(velocity.x + 2 * velocity.y)"}
    with ff.open(opened(moving, how, tmp_path), memory_limit=limit, define=define) as ds:
        # Not in the order of time: what is resident of one step is none of another's.
        for step in (1, 0, 2):
            now, rate, made = ds.isel(time=step).zones["zone1"], RATES[step], block(step, (13, 11, 12))
            assert made.iblank is not None
            hole = made.iblank == 0
            assert np.array_equal(now["iblank"][...] == 0, hole)
            spin, strain = (rate - rate.T) / 2, (rate + rate.T) / 2
            truth = {
                "vorticity": curl(rate),
                "divergence": np.trace(rate),
                "q_criterion": ((spin**2).sum() - (strain**2).sum()) / 2,
                "lambda2": np.linalg.eigvalsh(strain @ strain + spin @ spin)[1],
                "strain_rate": np.sqrt(2 * (strain**2).sum()),
                "grad(velocity_y)": rate[1],
                "whole": rate[0] + 2 * rate[1],
                "turning": np.linalg.norm(curl(rate)) * TIMES[step] + made.xyz[2],
            }
            for name, value in truth.items():
                found = now[name][...]
                assert np.isnan(found[..., hole]).all(), (step, name)
                value = np.reshape(value, np.shape(value) + (1,) * (found.ndim - np.ndim(value)))
                off = np.abs(found - value)[..., ~hole]
                assert off.max() < 1e-9, (step, name, off.max())


@HOW
def test_lines_and_probes_take_the_grid_of_their_step(moving: str, how: str, tmp_path: Path, ff_json: Json) -> None:
    source = opened(moving, how, tmp_path)
    for step in (2, 0, 1):
        start = place(step, np.array([0.7, 0.6, 0.65]))
        found = ff_json("probe", source, *start, "--step", step, "--fields", "vorticity,divergence")
        assert found["values"]["vorticity"] == pytest.approx(curl(RATES[step]), abs=1e-9)
        assert found["values"]["divergence"] == pytest.approx(np.trace(RATES[step]), abs=1e-9)
        at_node = ff_json("probe", source, "--ijk", "zone1", 11, 9, 10, "--step", step, "--fields", "vorticity")
        assert at_node["values"]["vorticity"] == pytest.approx(curl(RATES[step]), abs=1e-9)
        out = tmp_path / "lines.npz"
        seeds = "point:" + ",".join(map(str, start))
        traced = ff_json(
            "trace", source, "--seeds", seeds, "--step", step, "--scalars", "vorticity", "--max-length", 0.3, "-o", out
        )
        with np.load(out) as lines:
            assert len(lines["points"]) > 3
            assert np.allclose(lines["vorticity"], curl(RATES[step]), atol=1e-9)
        assert traced["pages"]["derived"] > 0


@HOW
def test_pathlines_go_from_the_gradients_of_one_grid_to_those_of_the_next(
    moving: str, how: str, tmp_path: Path
) -> None:
    """Between two steps a node's values change linearly with time, and here they are the same at all nodes."""
    middle = place(0, np.array([[0.62, 0.62, 0.6], [0.7, 0.55, 0.6]]))
    with ff.open(opened(moving, how, tmp_path)) as ds:
        paths = ds.pathlines("velocity", seeds=middle, scalars=["vorticity", "divergence"], progress=False)
    assert set(paths.reason.tolist()) <= {"time", "left"} and paths.time.max() > 0.9
    curls, divergences = np.array([curl(rate) for rate in RATES]), np.trace(RATES, axis1=1, axis2=2)
    for axis in range(3):
        truth = np.interp(paths.time, TIMES, curls[:, axis])
        assert np.allclose(paths["vorticity"][:, axis], truth, atol=1e-9)
    assert np.allclose(paths["divergence"], np.interp(paths.time, TIMES, divergences), atol=1e-9)


@HOW
def test_what_is_not_linear_converges_on_every_grid(how: str, tmp_path: Path) -> None:
    errors = []
    for n in (13, 25):
        source = files(tmp_path / f"{n}", (n, n, n), linear=False, holes=False)
        if how == "store":
            ff.convert(source, tmp_path / f"{n}.zarr", page=8, progress=False)
            source = str(tmp_path / f"{n}.zarr")
        with ff.open(source) as ds:
            found = [ds.isel(time=step)["vorticity"][...] for step in range(3)]
        truth = [curl_of_smooth(step, np.moveaxis(np.array(block(step, (n, n, n)).xyz), 0, -1)) for step in range(3)]
        errors.append([np.abs(a - b).max() for a, b in zip(found, truth, strict=True)])
    orders = np.log2(np.array(errors[0]) / np.array(errors[1]))
    assert ((orders > 1.6) & (orders < 2.6)).all(), (orders, errors)


def test_surfaces_take_the_grid_of_their_step(moving: str, tmp_path: Path) -> None:
    out = tmp_path / "surface.npz"
    with ff.open(moving) as ds:
        for step in (2, 0):
            now = ds.isel(time=step)
            ff.extract_surface(now, out, surfaces=["zone1:k=9"], scalars=["vorticity"], progress=False)
            with np.load(out) as found:
                assert np.allclose(found["vorticity"], curl(RATES[step]), atol=1e-9)
