"""Files of version 0.1.0 (tests/baseline) are read as they were: stores, states, logs, scenes and lines.

What they hold is known by formula (baseline_files.py). The files themselves are never made again: what reads them today has to
read what users kept then.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baseline_files as made
import farfield
from running import printed

Array = np.ndarray[Any, Any]
SEEDS = np.array([[0.6 + 0.1 * n, 0.5, 0.2] for n in range(4)])
"""Those of all lines here."""
LINE = "line:0.6,0.5,0.2:0.9,0.5,0.2:4"
FLOWS, VOLUMES = ("flow", "derived", "walls"), ("scalar", "labels", "rgb")
SCENES = sorted(path.name for path in (made.BASELINE / "scenes").glob("*.json"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that whatever is written lies beside the copy, and elsewhere than where the files were made."""
    return Path(shutil.copytree(made.BASELINE, tmp_path_factory.mktemp("kept") / "baseline"))


@pytest.mark.parametrize("name", FLOWS + VOLUMES)
def test_every_page_is_whole(name: str, kept: Path) -> None:
    found, _ = printed("validate", kept / f"{name}.zarr")
    assert found["ok"] and found["failed"] == found["pages_unchecked"] == 0 and found["pages_checked"] > 0


@pytest.mark.parametrize("name", ["flow", "derived"])
def test_points_of_flows(name: str, kept: Path) -> None:
    with farfield.open(kept / f"{name}.zarr") as ds:
        assert ds.time_values.tolist() == list(made.TIMES) and list(ds.zones) == ["zone1", "zone2"]
        for n, time in enumerate(made.TIMES):
            shown = ds.isel(time=n)
            for block, zone in zip(made.flow(time), shown.zones.values(), strict=True):
                assert (np.asarray(zone["xyz"]) == np.array(block.xyz)).all()
                assert (np.asarray(zone["density"]) == block.q[0]).all()
                assert (np.asarray(zone["momentum"]) == np.array(block.q[1:4])).all()
                assert (np.asarray(zone["energy"]) == block.q[4]).all()
                # Of `derived` these are stored.
                np.testing.assert_allclose(np.asarray(zone["pressure"]), made.PRESSURE, rtol=1e-13)
                curl = np.asarray(zone["vorticity"])
                np.testing.assert_allclose(curl[2], 2 * made.rate(time), rtol=1e-12)
                np.testing.assert_allclose(curl[:2], 0, atol=1e-12)
                if name == "derived":
                    np.testing.assert_allclose(np.asarray(zone["own"]), made.DENSITY / 2, rtol=1e-13)


def test_what_a_flow_stores(kept: Path) -> None:
    plain, derived = (printed("info", kept / f"{name}.zarr")[0] for name in ("flow", "derived"))
    stored = [[f["name"] for f in found["fields"] if not f["derived"]] for found in (plain, derived)]
    assert stored == [
        ["density", "momentum", "energy"],
        ["density", "momentum", "energy", "pressure", "vorticity", "own"],
    ]
    assert [zone["header"]["mach"] for found in (plain, derived) for zone in found["zones"]] == [0.5] * 4
    assert plain["times"] == derived["times"] == list(made.TIMES)


@pytest.mark.parametrize("name", ["flow", "derived"])
@pytest.mark.parametrize("step", range(len(made.TIMES)))
def test_places_of_flows(name: str, step: int, kept: Path) -> None:
    place = np.array([0.37, 0.81, 0.23])
    found, _ = printed("probe", kept / f"{name}.zarr", *place, "--step", step, "--fields", "velocity,density")
    expected = made.velocity(place[:1], place[1:2], made.TIMES[step])[:, 0]
    np.testing.assert_allclose(found["values"]["velocity"], expected, rtol=1e-9)
    assert found["values"]["density"] == pytest.approx(made.DENSITY) and found["zone"] == "zone1"


def test_walls_and_a_hole(kept: Path, tmp_path: Path) -> None:
    block = made.walls()
    assert block.iblank is not None
    with farfield.open(kept / "walls.zarr") as ds:
        zone = ds.zones["zone1"]
        assert (np.asarray(zone["iblank"]) == block.iblank).all()
        assert (np.asarray(zone["momentum"]) == np.array(block.q[1:4]).astype("f4")).all()
    printed("extract", "grid-surface", kept / "walls.zarr", "-o", tmp_path / "body.npz")
    with np.load(tmp_path / "body.npz") as body:
        assert body["points"].shape == (9 * 5, 3) and body["quads"].shape == (8 * 4, 4)
        assert (body["points"][:, 1] == 0).all()


def halved(values: Array, axes: tuple[int, ...]) -> Array:
    """The mean of two neighbours along each of these axes, of those that are numbers."""
    shape = [n for axis, size in enumerate(values.shape) for n in ((size // 2, 2) if axis in axes else (size, 1))]
    parts, odd = values.reshape(shape), tuple(range(1, 2 * values.ndim, 2))
    count = np.isfinite(parts).sum(axis=odd)
    return np.where(count > 0, np.nansum(parts, axis=odd) / np.maximum(count, 1), np.nan)


def test_levels_of_scalars(kept: Path) -> None:
    finest = np.where(made.scalars() == made.MISSING, np.nan, made.scalars())
    second = halved(finest, (1, 2))  # voxels are twice as far apart along z
    with farfield.open(kept / "scalar.zarr") as ds:
        (channel,) = ds.channels
        assert channel.missing == made.MISSING and ds.length_unit == "mm" and ds.spacing == made.SPACING
        for n, expected in enumerate([finest, second, halved(second, (0, 1, 2))]):
            values = channel.values(ds.level(n)[:])
            np.testing.assert_allclose(values, expected, rtol=1e-6, err_msg=f"level {n}")
            assert np.isnan(values).any() == (n < 2)
    inside, _ = printed("probe", kept / "scalar.zarr", 5.1, 6.9, 8.3)
    assert inside["values"]["scalar"] == pytest.approx(5.1 / 0.5 + 2 * 6.9 / 0.5 + 4 * 8.3)
    missing, _ = printed("probe", kept / "scalar.zarr", 4.0, 3.0, 4.0)
    assert missing["values"]["scalar"] is None


def test_levels_of_labels_and_colours(kept: Path) -> None:
    with farfield.open(kept / "labels.zarr") as ds:
        assert ds.kind == "labels"
        for n in range(3):
            apart = slice(None, None, 2**n)
            assert (ds.level(n)[:] == made.labels()[apart, apart, apart]).all()
    with farfield.open(kept / "rgb.zarr") as ds:
        assert ds.kind == "rgb" and [c.name for c in ds.channels] == ["red", "green", "blue"]
        assert (ds.level(0)[:] == made.colours()).all()
        assert (ds.level(1)[:] == made.colours()[::2, ::2, ::2] + 4).all()


def ends(found: Any) -> Array:
    """The last point of each line."""
    return np.asarray(found["points"][found["offsets"][1:] - 1])


@pytest.mark.parametrize("kind", ["pathline", "streakline"])
def test_particles_go_on_as_in_one_run(kind: str, kept: Path, tmp_path: Path) -> None:
    words: tuple[object, ...] = ("trace", kept / "flow.zarr", "--kind", kind, "--seeds", LINE)
    words += ("--release-every", 0.125) if kind == "streakline" else ("--scalars", "velocity")
    printed(*words, "--resume", kept / f"{kind}s.state", "-o", tmp_path / "on.npz")
    printed(*words, "-o", tmp_path / "whole.npz")
    assert (tmp_path / "on.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    with np.load(tmp_path / "on.npz") as found:
        last = made.TIMES[-1]
        if kind == "pathline":
            where = np.concatenate([made.turned(s, np.array([made.angle(last)]), np.array([last])) for s in SEEDS])
            np.testing.assert_allclose(ends(found), where, atol=1e-5)
        else:
            for n, seed in enumerate(SEEDS):
                own = slice(*found["offsets"][n : n + 2])
                released = found["birth"][own]
                assert sorted(released) == pytest.approx(np.arange(9) / 8)
                where = made.turned(seed, made.angle(last) - made.angle(released), last - released)
                np.testing.assert_allclose(found["points"][own], where, atol=1e-5)


@pytest.mark.parametrize("name", ["lines", "pathlines"])
def test_lines_lie_where_the_flow_goes(name: str, kept: Path) -> None:
    with np.load(kept / f"{name}.npz") as found:
        assert (found["seed"] == np.arange(4)).all()
        for n, seed in enumerate(SEEDS):
            own = slice(*found["offsets"][n : n + 2])
            time = found["time"][own]
            by = made.angle(time) if name == "pathlines" else time * made.rate(0.0)
            np.testing.assert_allclose(found["points"][own], made.turned(seed, np.asarray(by), time), atol=1e-5)


def test_lines_are_drawn_and_are_seeds(kept: Path, tmp_path: Path) -> None:
    pictures = []
    for end in ("npz", "vtp"):
        lines, picture = kept / f"lines.{end}", tmp_path / f"{end}.png"
        words = ("--lines", lines, "--color", "mach", "--size", "96x64", "--no-outline")
        found, said = printed("render", kept / "flow.zarr", *words, "-o", picture)
        assert [part["kind"] for part in found["drawn"]] == ["lines"] and "warning" not in said
        pictures.append(picture.read_bytes())
    assert pictures[0] == pictures[1]
    found, _ = printed("trace", kept / "flow.zarr", "--seeds", kept / "lines.vtp", "-o", tmp_path / "l.npz")
    with np.load(kept / "lines.npz") as lines:
        assert found["lines"] == len(lines["points"])


def test_a_log_is_reported_and_replayed(kept: Path, tmp_path: Path) -> None:
    run = json.loads((kept / "run.printed.json").read_text())
    found, _ = printed("report", kept / "run.events", "-o", tmp_path / "page.html")
    assert (
        found["whole"] and not found["damaged"] and found["verdict"] and "<svg" in (tmp_path / "page.html").read_text()
    )
    again, _ = printed("replay", kept / "run.events", "--limits", "64MiB,6MiB", "--policies", "lru,clock")
    assert again["whole"] and again["policy"] == "lru" and again["limit_bytes"] == 64 << 20
    assert again["run"]["faults"] == again["mirror"]["faults"] == run["pages"]["faults"]
    # What holds every page reads each once, by whatever policy.
    wide = [curve for curve in again["curves"] if curve["limit_bytes"] == 64 << 20]
    assert [curve["misses"] for curve in wide] == [run["pages"]["touched"]] * 2


def test_the_forms_of_a_log_agree(kept: Path, tmp_path: Path) -> None:
    run = json.loads((kept / "run.printed.json").read_text())
    printed("events", kept / "run.events", "-o", tmp_path / "run.json")
    then, now = (json.loads((folder / "run.json").read_text()) for folder in (kept, tmp_path))
    kinds = [Counter(e["args"]["kind"] for e in events if "kind" in e.get("args", {})) for events in (then, now)]
    assert kinds[0] == kinds[1] and kinds[0]["fault"] == run["pages"]["faults"] and kinds[0]["read"] == run["reads"]
    parquet = pytest.importorskip("pyarrow.parquet")
    found, _ = printed("events", kept / "run.events", "-o", tmp_path / "run.parquet")
    tables = [parquet.read_table(folder / "run.parquet") for folder in (kept, tmp_path)]
    # A local run has nothing in the columns of servers, which came later.
    later = [name for name in tables[1].column_names if name not in tables[0].column_names]
    assert later == ["server", "connection", "wait_us", "service_us"]
    assert all(tables[1].column(name).null_count == tables[1].num_rows for name in later)
    assert tables[0].equals(tables[1].drop_columns(later)) and tables[0].num_rows == found["events"]
    assert tables[0].column("event").to_pylist().count("fault") == run["pages"]["faults"]


@pytest.mark.parametrize("name", SCENES)
def test_scenes_are_drawn(name: str, kept: Path, tmp_path: Path) -> None:
    scene = json.loads((kept / "scenes" / name).read_text())
    steps = len(made.TIMES) if name == "film.json" else 1
    target = tmp_path / ("a_%d.png" if steps > 1 else "a.png")
    found, said = printed("render", kept / "scenes" / name, "-o", target)
    kinds = ["surface" if part["kind"] == "walls" else part["kind"] for part in scene["objects"]]
    assert [part["kind"] for part in found["drawn"]] == kinds
    assert all(part["primitives"] > 0 for part in found["drawn"])
    assert found["warnings"] == [] and "warning" not in said and "note" not in said
    assert not found["partial"] and found["pixels_missing"] == 0 and found["size"] == scene["size"] == [96, 64]
    assert len(list(tmp_path.glob("*.png"))) == steps


def test_colours_of_scenes_have_their_ranges(kept: Path, tmp_path: Path) -> None:
    found, _ = printed("render", kept / "scenes" / "everything.json", "-o", tmp_path / "a.png")
    assert found["maps"]["mach"]["range"] == [0.1, 0.6]
    low, high = found["maps"]["density"]["range"]
    assert low <= made.DENSITY <= high
    # Twice the velocity along x at the edges of the slice, which lie half a cube from the axis.
    found, _ = printed("render", kept / "scenes" / "defined.json", "-o", tmp_path / "b.png")
    assert found["maps"]["twice"]["range"] == pytest.approx([-1, 1])
