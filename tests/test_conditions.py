"""Lines that end, and seeds that are drawn, where a condition of fields holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import UsageError
from plot3d_files import box, cut, source_of, write
from running import Command, Json
from test_tracks import written

TIMES = range(5)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rigid rotation at rate 1 about z, rising with 0.1, in three zones: density 1.2, pressure 0.8, so that the Mach number is that
    of a speed of sqrt(r^2 + 0.01) over sqrt(1.4 * 0.8 / 1.2)."""
    return source_of(*write(tmp_path_factory.mktemp("flow"), cut(box(29, 25, 17), 3)))


def test_a_line_ends_at_the_first_point_where_it_holds(flow: str) -> None:
    with farfield.open(flow) as ds:
        how: dict[str, Any] = {"seeds": "random:60:3", "max_time": 4.0, "scalars": ["mach", "velocity"]}
        free = ds.streamlines(**how)
        cut_off = ds.streamlines(**how, stop="mach > 0.35 and not velocity.y <= 0.1")
        holds = (free["mach"] > 0.35) & ~(free["velocity"][:, 1] <= 0.1)
        assert cut_off.summary["reasons"].get("stopped", 0) > 10
        stopped = 0
        for n in range(60):
            a, b = free.offsets[n], free.offsets[n + 1]
            c, d = cut_off.offsets[n], cut_off.offsets[n + 1]
            seed = a + int(np.flatnonzero(free.time[a:b] == 0.0)[0])
            after, before = np.flatnonzero(holds[seed:b]), np.flatnonzero(holds[a : seed + 1][::-1])
            last = seed + after[0] if len(after) else b - 1
            first = seed - before[0] if len(before) else a
            assert np.array_equal(cut_off.points[c:d], free.points[first : last + 1])
            assert np.array_equal(cut_off["mach"][c:d], free["mach"][first : last + 1])
            assert cut_off.reason[n] == ("stopped" if len(after) else free.reason[n])
            assert cut_off.reason_backward is not None and free.reason_backward is not None
            assert cut_off.reason_backward[n] == ("stopped" if len(before) else free.reason_backward[n])
            stopped += len(after) > 0 and after[0] > 0
        assert stopped > 10


@pytest.mark.parametrize("kind", ["streamline", "pathline", "streakline"])
def test_the_same_under_every_limit_and_page(kind: str, ff: Command, tmp_path: Path) -> None:
    """With a gradient in the condition, whose pages are made."""
    source, seen = written(tmp_path, TIMES), set()
    words = ["--kind", kind, "--seeds", "random:40:7", "--scalars", "pressure"]
    words += ["--stop", "vorticity_magnitude > 2.12 or 2 * x + y < 0.6"]
    words += ["--steps", "0:2"] if kind == "streamline" else ["--points", "steps"] if kind == "pathline" else []
    for page in (4, 16):
        ff("convert", source, tmp_path / f"{page}.zarr", "--page", page)
        for limit in ("12MiB", "512MiB"):
            out = tmp_path / "l.npz"
            ff("trace", tmp_path / f"{page}.zarr", *words, "--memory-limit", limit, "--workers", 2, "-o", out)
            seen.add(out.read_bytes())
    assert len(seen) == 1
    found = np.load(tmp_path / "l.npz")
    if kind != "streakline":
        assert "stopped" in found["reason"].tolist()


def test_particles_that_stop_do_not_go_on(ff: Command, tmp_path: Path) -> None:
    source = written(tmp_path, TIMES)
    words = ("trace", source, "--kind", "pathline", "--seeds", "random:50:4", "--stop", "time >= 1.25 and x > 0.5")
    ff(*words, "--t1", 1.25, "--save-state", tmp_path / "s", "-o", tmp_path / "a.npz")
    ff(*words, "--resume", tmp_path / "s", "-o", tmp_path / "b.npz")
    ff(*words, "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    found = np.load(tmp_path / "c.npz")
    last = found["offsets"][1:] - 1
    stopped = found["reason"] == "stopped"
    assert stopped.sum() > 5
    assert (found["time"][last][stopped] >= 1.25).all() and (found["points"][last][stopped, 0] > 0.5).all()
    said = ff(*words[:-1], "x > 0.4", "--resume", tmp_path / "s", "-o", tmp_path / "d.npz", ok=(2,)).stderr
    assert "stop" in said and "say the same again" in said


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "mach": "column 1: expected a condition, a comparison such as mach > 1, found a value",
        "mach >": "column 7: expected a number",
        "mach > 1 and density": "column 14: expected a condition",
        "velocity > 1": "takes scalars, not vectors",
        "nothing > 1": "there is no field 'nothing'",
        "density > 1 'kg/m3'": "compare",
        "to(x, 'm') > 1": "to() stands around a whole expression",
        "x > 0 and": "found the end",
    }.items(),
)
def test_what_is_no_condition_is_said(text: str, said: str, flow: str) -> None:
    with farfield.open(flow) as ds:
        with pytest.raises(UsageError) as error:
            ds.streamlines(seeds=[(0.5, 0.5, 0.5)], stop=text)
        assert said in str(error.value)
        with pytest.raises(UsageError):
            ds.streamlines(seeds=f"random:3:1:{text}")


def test_a_flow_map_takes_none(flow: str, tmp_path: Path) -> None:
    with farfield.open(written(tmp_path, TIMES)) as ds, pytest.raises(UsageError, match="no 'stop'"):
        ds._native.flow_map(
            '{"kind": "pathline", "stop": "x > 1", "grid": [[0, 1, 3], [0, 1, 3], [0, 1, 3]]}', "m.zarr"
        )


def seeds_of(ds: farfield.Dataset, spec: str, **how: Any) -> Any:
    return ds.streamlines(seeds=spec, max_steps=1, integration_direction="forward", **how)


def test_seeds_are_where_it_holds(flow: str) -> None:
    """In a shell about the axis: the speed there follows from the radius, but for the error of interpolation."""
    with farfield.open(flow) as ds:
        found = seeds_of(ds, "random:200:5:mach > 0.3 and mach < 0.4", scalars=["mach"])
        first = found.offsets[:-1]
        mach = found["mach"][first]
        assert len(mach) == 200 and ((mach > 0.3) & (mach < 0.4)).all()
        x, y, _ = found.points[first].T
        truth = np.sqrt(((x - 0.5) ** 2 + (y - 0.5) ** 2 + 0.01) / (1.4 * 0.8 / 1.2))
        assert np.abs(mach - truth).max() < 5e-3
        assert set(found.zone[first].tolist()) == {1, 2, 3}
        # Those of few are the first of many, and another seed of the generator gives others.
        fewer = seeds_of(ds, "random:50:5:mach > 0.3 and mach < 0.4")
        assert np.array_equal(fewer.points[fewer.offsets[:-1]], found.points[first[:50]])
        others = seeds_of(ds, "random:50:6:mach > 0.3 and mach < 0.4")
        assert not np.array_equal(others.points[others.offsets[:-1]], fewer.points[fewer.offsets[:-1]])
        # Even over the cells: a uniform flow of cells has as many in each eighth of k, within four standard deviations.
        k = [int(8 * z) for z in found.points[first, 2]]
        assert max(k.count(n) for n in range(8)) < 25 + 4 * 5


def test_where_there_are_fewer_cells_there_are_fewer_seeds(flow: str) -> None:
    with farfield.open(flow) as ds:
        zones = [zone["dims"] for zone in ds.info()["zones"]]
        cells = sum(int(np.prod([n - 1 for n in dims])) for dims in zones)
        everywhere = seeds_of(ds, f"random:{10 * cells}:1:density > 1")
        assert len(everywhere.offsets) - 1 == cells
        with pytest.raises(UsageError, match="holds nowhere"):
            seeds_of(ds, "random:5:1:density > 2")


def test_the_same_seeds_whatever_the_means(flow: str, ff: Command, tmp_path: Path) -> None:
    words = ("--seeds", "random:80:9:q_criterion > 0.9 and x > 0.55", "--max-steps", 3)
    seen = set()
    for page in (4, 8, 64):
        ff("convert", flow, tmp_path / f"{page}.zarr", "--page", page)
        for limit in ("8MiB", "512MiB"):
            ff("trace", tmp_path / f"{page}.zarr", *words, "--memory-limit", limit, "-o", tmp_path / "l.npz")
            seen.add((tmp_path / "l.npz").read_bytes())
    ff("trace", flow, *words, "-o", tmp_path / "l.npz")
    seen.add((tmp_path / "l.npz").read_bytes())
    assert len(seen) == 1


def test_pages_that_cannot_hold_any_are_not_read(flow: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    ff("convert", flow, tmp_path / "s.zarr", "--page", 4)
    found = {}
    for least in (-1.0, 0.4):
        words = ("--seeds", f"random:20:9:velocity_x > {least}", "--max-steps", 1, "--direction", "forward")
        found[least] = ff_json("trace", tmp_path / "s.zarr", *words, "-o", tmp_path / "l.npz")["bytes_read"]
    assert found[0.4] < 0.6 * found[-1.0], found


def test_particles_start_where_it_holds_when_they_start(ff: Command, tmp_path: Path) -> None:
    """Of the step at their release, which is not the first."""
    source = written(tmp_path, TIMES)
    words = (
        "trace",
        source,
        "--kind",
        "pathline",
        "--t0",
        1.25,
        "--scalars",
        "pressure,velocity_x",
        "-o",
        tmp_path / "l.npz",
    )
    ff(*words, "--seeds", "random:30:2:velocity_x > 0.02")
    found = np.load(tmp_path / "l.npz")
    first = found["offsets"][:-1]
    assert len(first) == 30 and (found["velocity_x"][first] > 0.02).all() and (found["time"][first] == 1.25).all()


@pytest.mark.parametrize("kind", ["streamline", "pathline"])
def test_scenes_have_them_too(kind: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """What is coloured by x ends just behind 0.6 at the latest, where lines stop there."""
    import json

    source, seeds = written(tmp_path, TIMES), "random:60:1:2 * x < 1"
    far = {}
    for stop in (None, "x > 0.6", "x"):
        trace = {"seeds": seeds, "kind": kind, "stop": stop, **({"max_length": 0.9} if kind == "streamline" else {})}
        scene = {"source": source, "objects": [{"kind": "lines", "trace": trace, "color": "velocity_z"}]}
        (tmp_path / "s.json").write_text(json.dumps(scene))
        out = tmp_path / ("p.png" if kind == "streamline" else "p_%d.png")
        words = ("render", tmp_path / "s.json", "-o", out, "--size", "120x90")
        if stop == "x":
            assert "expected a condition" in ff(*words, ok=(2,)).stderr
        else:
            far[stop] = ff_json(*words)["maps"]["velocity_z"]["range"][1]
    # The rise is 0.05 + 0.1 x: lines that stop end within a step of a cell's size behind 0.6.
    assert far["x > 0.6"] < 0.05 + 0.1 * 0.7 < far[None], far
