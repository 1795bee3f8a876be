"""The volumes of the experiments, and the exact picture that others are held against."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farfield_bench import Recorder, arms, registry, rights, volume_arms, volumes
from farfield_bench import volume_reference as reference
from farfield_bench.plots import points
from farfield_bench.plotted import PLOTS
from farfield_bench.result import Result
from farfield_bench.volumes import Transfer, View


@pytest.fixture(autouse=True)
def quick_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(arms, "_most_ready", 0)


def test_volumes_are_the_same_each_time_and_made_once(tmp_path: Path) -> None:
    first = volumes.ct(tmp_path / "a", (40, 36, 33))
    second = volumes.ct(tmp_path / "b", (40, 36, 33))
    assert first.files[0].read_bytes() == second.files[0].read_bytes() and first.bytes == 40 * 36 * 33
    written = first.files[0].stat().st_mtime_ns
    assert volumes.ct(tmp_path / "a", (40, 36, 33)).files[0].stat().st_mtime_ns == written
    assert not list((tmp_path / "a").glob("*.part"))


def test_a_trunk_is_air_body_and_bones(tmp_path: Path) -> None:
    values = np.asarray(volumes.ct(tmp_path, (96, 96, 96)).mapped())
    assert values.shape == (96, 96, 96)
    assert 0.3 < (values > 44).mean() < 0.5
    assert values[:, 0, 0].max() < 20 and len(np.unique(values[:, 0, 0])) > 5  # dim, not empty
    assert 0.0 < (values > volumes.CT_SPINE).mean() < 0.05


def test_a_series_moves_and_colours_are_three(tmp_path: Path) -> None:
    series = volumes.beating(tmp_path, (32, 32, 32), steps=3)
    assert len(series.files) == 3 and series.bytes == 3 * series.step_bytes
    assert (np.asarray(series.mapped(0)) != np.asarray(series.mapped(1))).any()
    assert series.header.read_text().splitlines()[-4:] == ["data file: LIST", *(p.name for p in series.files)]
    body = volumes.body(tmp_path, (64, 48, 13)).mapped()
    assert body.shape == (13, 48, 64, 3)
    red, _, blue = body[6, 0, 0].astype(int)
    assert blue > 2 * red  # what it is frozen in
    assert tuple(body[6, 24, 20].astype(int).argsort())[-1] == 0


def test_every_box_of_32_has_a_bubble(tmp_path: Path) -> None:
    foam = volumes.foam(tmp_path, (129, 97, 65))
    assert volumes.pages_crossed(foam, volumes.FOAM_LEVEL, 32) == (24, 24)
    ct = volumes.ct(tmp_path, (96, 96, 96))
    crossed, pages = volumes.pages_crossed(ct, volumes.CT_SPINE, 8)
    assert 0 < crossed < pages / 5


HAZE = Transfer(opacities=((0.0, 0.0), (100.0, 0.1)), colours=((0.0, (0.0, 0.0, 0.0)), (100.0, (1.0, 0.5, 0.0))))
AHEAD = View("ahead", (10.0, 10.0, -1000.0), (10.0, 10.0, 0.0), (0.0, 1.0, 0.0), fov_degrees=0.1)


def test_a_haze_is_as_dark_as_its_formula_says() -> None:
    """Light of one colour through a uniform haze: 1 - 0.9^length, however long the steps."""
    voxels = np.full((41, 21, 21), 100, np.uint8)
    middle = np.array([[8, 8]])
    for dt in (0.5, 1.0, 2.0):
        light = reference.picture(voxels, reference.Shown(HAZE), AHEAD, (17, 17), middle, dt=dt)[0]
        expected = 1 - 0.9**40
        assert light[3] == pytest.approx(expected, rel=1e-9)
        assert light[:3] == pytest.approx(expected * reference.linear(np.array([1.0, 0.5, 0.0])))
    missed = reference.picture(voxels, reference.Shown(HAZE), AHEAD, (17, 17), np.array([[0, 0]]), dt=1.0)
    assert missed.shape == (1, 4)


def test_between_voxels_values_are_straight() -> None:
    k, j, i = np.meshgrid(*(np.arange(n) for n in (4, 5, 6)), indexing="ij")
    x = np.random.default_rng(1).uniform(0, (5, 4, 3), (50, 3))
    found = reference.interpolated(3 * i + 5 * j + 7 * k, x)
    assert found == pytest.approx(x @ np.array([3.0, 5.0, 7.0]))
    colours = reference.interpolated(np.stack([i, j, k], axis=-1), x)
    assert colours == pytest.approx(x)
    assert reference.interpolated(i, np.array([[5.0, 4.0, 3.0]])) == pytest.approx([5.0])


def test_light_becomes_srgb_and_back() -> None:
    values = np.arange(256)
    assert (reference.srgb8(reference.linear(values / 255)) == values).all()


def test_the_views_look_at_the_volume() -> None:
    dims = (100, 80, 60)
    found = volumes.views(dims)
    assert len({view.name for view in found}) == 5
    for view in found:
        r = reference.rays(view, (65, 65), np.array([[32, 32]]))
        low, high = reference.within(dims, r)
        assert 0 < low[0] < high[0], view.name


def measured(name: str, work: Path) -> Result:
    """A quick run of an experiment, all of whose right results are right."""
    experiment = registry.find(name)
    recorder = Recorder(name, experiment.title, about=experiment.about, runs=1, quick=True, work=work)
    experiment.measure(recorder)
    result = recorder.result()
    right = [claim for claim in result.claims if claim.right]
    assert right and not [claim for claim in right if not claim.holds]
    for spec in PLOTS[name]:
        assert points(spec, result), spec.title
    return result


def test_rays_are_measured_beside_vtk(tmp_path: Path) -> None:
    result = measured("volume-rays", tmp_path)
    names = {arm.name.split(": ")[1] for arm in result.arms}
    assert {"Farfield, pages of 32", "Farfield, pages of 64", "Farfield, raw file in place"} <= names
    assert ("VTK, fixed point" in names) == arms.has_vtk()


def test_isosurfaces_are_measured_beside_vtk(tmp_path: Path) -> None:
    result = measured("volume-contour", tmp_path)
    names = {arm.name for arm in result.arms}
    assert "few pages crossed, in core: Farfield" in names
    assert ("all pages crossed, in core: VTK, Flying Edges" in names) == arms.has_vtk()
    crossed = {row[0]: row[3] for row in result.tables[0].rows}
    assert crossed["all pages crossed"] == 100 and float(crossed["few pages crossed"]) < 60


def test_memory_shrinks_for_a_body_in_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_make_swap", lambda *_: "no swap in this test")
    result = measured("visible-human-2003", tmp_path)
    names = {arm.name for arm in result.arms}
    bounded = next(c.here for c in result.conditions if c.what == "memory cgroup")
    assert "in core" in names and ("49 %: mmap" in names) == bounded == ("49 %: Farfield" in names)


@pytest.mark.parametrize("beside", [0.5, 0.0])
def test_reading_never_takes_nothing(beside: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second each second is taken without any reading: less than that beside the reading says nothing of it."""
    said = iter([0.0, 0.1, 0.1 + beside])
    monkeypatch.setattr(volume_arms, "_beside_users", lambda: next(said))
    monkeypatch.setattr(volume_arms, "fio", lambda *_: volume_arms.Fio(wall_s=0.1, cpu_s=0.25, bytes=1000.0))
    takes = volume_arms.reading_takes(tmp_path, 1, 1)
    assert takes is None if beside == 0 else takes == pytest.approx(0.75e-3, rel=0.1)


def test_a_series_is_cast_overlapped(tmp_path: Path) -> None:
    result = measured("volume-overlap", tmp_path)
    arm = {arm.name: arm.median for arm in result.arms}
    for place in ("1 Gbit/s", "disk"):
        assert arm[f"{place}: serial"]["load_s"] > 0 == arm[f"{place}: computing alone"]["read_bytes"]
        assert arm[f"{place}: serial"]["read_bytes"] >= 3 * 64**3
        # A read of several pages that was short is made again for each of them, so it may be a step more.
        assert 0 < arm[f"{place}: overlapped"]["read_bytes"] <= 1.5 * arm[f"{place}: serial"]["read_bytes"]
    assert arm["1 Gbit/s: serial"]["load_s"] >= 3 * 64**3 / 125e6


def test_the_first_picture_is_timed(tmp_path: Path) -> None:
    experiment = registry.find("volume-first")
    recorder = Recorder("volume-first", experiment.title, runs=1, quick=True, work=tmp_path)
    experiment.measure(recorder)
    result = recorder.result()
    assert {arm.name for arm in result.arms} == {"96 x 54", "32 x 18"} and len(result.claims) == 2
    assert all(arm.median["pages_read"] > 0 for arm in result.arms)


def test_limits_hold_for_volumes_and_results_are_the_same(tmp_path: Path) -> None:
    result = measured("volume-limit", tmp_path)
    assert len(result.claims) == 24
