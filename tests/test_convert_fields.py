"""Stores of chosen fields: derived ones are made by the page and kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import farfield
from plot3d_files import box, cut, source_of, write
from running import Command, Json

BENT = "div(grad(pressure)) / (1 'rho_inf a_inf2 L-2') + grad_density_x / (1 'rho_inf / L') + time / (1 'L / a_inf')"
DEFINE = {"speed_kn": "magnitude(velocity) * 2", "bent": BENT}
FIELDS = ["density", "velocity", "vorticity", "speed_kn", "bent", "velocity_y"]


@pytest.fixture
def flow(tmp_path: Path) -> str:
    """Two zones, in double precision."""
    return source_of(*write(tmp_path, cut(box(25, 18, 15), 2)))


def arrays(source: str | Path, step: int = 0, **how: object) -> dict[str, np.ndarray]:
    with farfield.open(source, **how) as ds:
        now = ds.isel(time=step)
        return {f"{zone}/{name}": now.zones[zone][name][...] for zone in ("zone1", "zone2") for name in FIELDS}


@pytest.mark.parametrize("limit", ["4MiB", "256MiB"])
@pytest.mark.parametrize("page", [4, 16])
def test_a_store_holds_what_is_asked_for_and_what_it_is_in_place(
    flow: str, tmp_path: Path, limit: str, page: int
) -> None:
    store = tmp_path / "few.zarr"
    done = farfield.convert(flow, store, fields=FIELDS, define=DEFINE, page=page, memory_limit=limit, progress=False)
    assert done["fields"] == FIELDS and done["stats"]["pages"]["derived"] > 0
    assert done["stats"]["peak_bytes"] <= done["stats"]["limit_bytes"]
    truth = arrays(flow, define=DEFINE)
    found = arrays(store)
    for name, values in truth.items():
        assert found[name].dtype == values.dtype and np.array_equal(found[name], values, equal_nan=True), name
    with farfield.open(store) as ds:
        stored = [f["name"] for f in ds.info()["fields"] if not f["derived"]]
        assert stored == FIELDS
    assert farfield.validate(store)["ok"]


def test_other_tools_read_it_with_its_units(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    grid, solution = write(tmp_path, [box(17, 14, 12)], real=4)
    reference = {"length": 2.0, "density": 1.2, "sound_speed": 340.0}
    grid.with_name("flow.p3d.json").write_text(json.dumps({"reference": reference}))
    store = tmp_path / "few.zarr"
    define = {"kn": "to(magnitude(velocity), 'kn')"}
    farfield.convert(source_of(grid, solution), store, fields=["pressure", "vorticity", "kn"], define=define)
    group = zarr.open_group(store, mode="r")["zone1"]
    assert set(group.array_keys()) == {"xyz", "pressure", "vorticity", "kn", "time"}
    units = {name: group[name].attrs["units"] for name in ("pressure", "vorticity", "kn")}
    assert units == {"pressure": "Pa", "vorticity": "s-1", "kn": "kn"}
    assert group["pressure"].attrs["long_name"] == "pressure" and group["vorticity"].attrs["long_name"] == "vorticity"
    # Rigid rotation at rate 1 in units of a_inf / L.
    vorticity = np.asarray(group["vorticity"])[0]
    assert np.allclose(vorticity[:2], 0, atol=0.02) and np.allclose(vorticity[2], 2 * 340 / 2, rtol=1e-4)
    with farfield.open(source_of(grid, solution), define=define) as ds:
        for name in ("pressure", "kn"):
            assert group[name].dtype == np.float32
            assert np.array_equal(np.asarray(group[name])[0], ds[name][...]), name


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_from_a_store_too_and_by_the_command_line(flow: str, tmp_path: Path, ff_json: Json, codec: str) -> None:
    whole, few, again = (str(tmp_path / name) for name in ("whole.zarr", "few.zarr", "again.zarr"))
    words = ["--fields", "density,q_criterion,own", "--define", "own = q_criterion * 2", "--codec", codec]
    ff_json("convert", flow, whole)
    told = ff_json("convert", whole, again, *words, "--dry-run")
    assert told["fields"] == ["density", "q_criterion", "own"] and not Path(again).exists()
    for source, target in ((flow, few), (whole, again)):
        done = ff_json("convert", source, target, *words)
        assert (done["pages_written"], done["bytes_in"]) == (told["pages_written"], told["bytes_in"])
    # Coordinates of three numbers and three scalars, of eight bytes.
    assert told["bytes_in"] == 8 * 6 * sum(b.xyz[0].size for b in cut(box(25, 18, 15), 2))
    for store in (few, again):
        assert ff_json("validate", store)["ok"]
        with farfield.open(store) as ds, farfield.open(flow) as there:
            for zone in ("zone1", "zone2"):
                own = there.zones[zone]["q_criterion"][...] * 2
                assert np.array_equal(ds.zones[zone]["own"][...], own)


def test_every_step_of_a_series(tmp_path: Path) -> None:
    for n in range(3):
        block = box(13, 12, 11, origin=(0.1 * n, 0, 0), size=(1 + 0.2 * n, 1, 1))
        write(tmp_path, cut(block, 2), stem=f"flow_{n}", time=0.5 * n)
    source, store = f"{tmp_path}/flow_*.xyz+q={tmp_path}/flow_*.q", tmp_path / "few.zarr"
    farfield.convert(source, store, fields=FIELDS, define=DEFINE, page=8, memory_limit="8MiB", progress=False)
    for step in (2, 0, 1):
        truth, found = arrays(source, step, define=DEFINE), arrays(store, step)
        for name, values in truth.items():
            assert np.array_equal(found[name], values, equal_nan=True), (step, name)


def test_an_interrupted_one_goes_on_with_the_same_definitions_only(flow: str, tmp_path: Path, ff: Command) -> None:
    def run(target: Path, own: str, *more: str, ok: tuple[int, ...] = (0,)) -> str:
        define = ["--define", f"own = {own}"]
        return ff("convert", flow, target, "--fields", "density,own", *define, "--page", "4", *more, ok=ok).stderr

    whole, target = tmp_path / "whole.zarr", tmp_path / "cut.zarr"
    run(whole, "q_criterion")

    def stop(_phase: str, done: float, total: float) -> bool:
        return not (total > 0 and done > total / 2)

    with pytest.raises(farfield.Interrupted):
        farfield.convert(flow, target, fields=["density", "own"], define={"own": "q_criterion"}, page=4, progress=stop)
    assert not target.exists()
    said = run(target, "lambda2", "--resume", ok=(1,))
    assert "other options or another source" in said or "was begun" in said, said
    run(target, "q_criterion", "--resume")
    files = sorted(p.relative_to(whole) for p in whole.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(target) for p in target.rglob("*") if p.is_file())
    for name in files:
        assert (whole / name).read_bytes() == (target / name).read_bytes(), name
    # A finished one is what it is, for these definitions.
    run(target, "q_criterion", "--resume")
    assert "--overwrite replaces it" in run(target, "lambda2", "--resume", ok=(1,))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--fields", "nothing"], 2, "no field named 'nothing'"),
        (["--fields", "grad(pressure)"], 2, '--define "NAME = grad(pressure)" --fields NAME'),
        (["--fields", "density", "--append"], 2, "does not go with --fields"),
        (["--fields", "density,density"], 2, "asked for twice"),
        (["--define", "a = density * 2"], 2, "name all fields that it is to hold in --fields"),
        (["--fields", "a", "--define", "a = grad(velocity)"], 2, "grad() takes a scalar"),
    ],
)
def test_what_makes_no_sense_is_said(
    flow: str, tmp_path: Path, ff: Command, words: list[str], code: int, said: str
) -> None:
    done = ff("convert", flow, tmp_path / "no.zarr", *words, ok=(code,))
    assert said in done.stderr
    assert not list(tmp_path.glob("no.zarr*"))


def test_steps_are_not_added_to_a_store_of_other_fields(tmp_path: Path, ff: Command) -> None:
    grid, first = write(tmp_path, [box(9, 9, 9)], stem="f_0", time=0.0)
    _, second = write(tmp_path, [box(9, 9, 9)], stem="f_1", time=1.0)
    store = tmp_path / "s.zarr"
    ff("convert", source_of(grid, first), store, "--fields", "density,vorticity")
    said = ff("convert", "--append", source_of(grid, second), store, ok=(1,)).stderr
    assert "the arrays" in said and "vorticity" in said


def test_buffers_leave_little_room_for_the_pages_that_are_made(tmp_path: Path) -> None:
    source = source_of(*write(tmp_path, cut(box(191, 48, 48), 2), real=4))
    how = {"fields": ["vorticity", "q_criterion"], "workers": 32, "progress": False}
    # The least limit, which the refusal names: all but a few pages of it are the conversion's own buffers.
    with pytest.raises(farfield.MemoryLimitError) as refused:
        farfield.convert(source, tmp_path / "a.zarr", memory_limit="4MiB", **how)
    least = re.search(r"needs about ([\d.]+) MiB", str(refused.value))
    assert least, refused.value
    done = farfield.convert(source, tmp_path / "a.zarr", memory_limit=f"{float(least[1]) + 0.1:.1f}MiB", **how)
    with_room = farfield.convert(source, tmp_path / "b.zarr", memory_limit="256MiB", **how)
    # It took three seconds for each of some dozen boxes. The machine may be busy: then it is for both.
    assert done["stats"]["wall_s"] < 20 + 10 * with_room["stats"]["wall_s"] and done["stats"]["pages"]["derived"] > 0
    with farfield.open(tmp_path / "a.zarr") as little, farfield.open(tmp_path / "b.zarr") as ample:
        for name in ("vorticity", "q_criterion"):
            assert np.array_equal(little.zones["zone2"][name][...], ample.zones["zone2"][name][...], equal_nan=True)
