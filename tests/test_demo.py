"""The demo's flow is what it says: at rest on the wall, free of divergence in planes, written as PLOT3D."""

from __future__ import annotations

import math
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from farfield import demo
from farfield.cli import run
from farfield.demo import wake
from farfield.demo.datasets import KINDS, WAKE_ZONE
from farfield.demo.story import SCALE, Story, _as_typed


def records(path: Path) -> list[bytes]:
    """The bodies of a file's Fortran records."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        size = int(np.frombuffer(data, "<i4", 1, at)[0])
        assert np.frombuffer(data, "<i4", 1, at + 4 + size)[0] == size
        found.append(data[at + 4 : at + 4 + size])
        at += size + 8
    return found


@pytest.mark.parametrize("z", [0.7, 4.0, 7.6])
def test_no_divergence_in_planes(z: float) -> None:
    # Where the cores widen with x their stream function is only nearly one: the bound is for that, not for the difference.
    h = 1e-3
    x, y = (a.astype("f8") for a in np.meshgrid(np.linspace(-3, 12, 301), np.linspace(-3, 3, 121)))
    keep = np.hypot(x, y) > 0.56 * wake.diameter(z)
    u_x = (wake.velocity(x + h, y, z)[0] - wake.velocity(x - h, y, z)[0]) / (2 * h)  # type: ignore[arg-type]
    v_y = (wake.velocity(x, y + h, z)[1] - wake.velocity(x, y - h, z)[1]) / (2 * h)  # type: ignore[arg-type]
    assert np.abs(u_x + v_y)[keep].max() < 0.03 * np.abs(u_x)[keep].max()


def test_at_rest_inside_and_uniform_far_away() -> None:
    angle = np.linspace(0, 2 * np.pi, 50).astype("f4")[np.newaxis, :]
    for z in (0.0, 3.0, wake.SPAN):
        r = np.float32(0.5 * wake.diameter(z))
        assert all(
            np.abs(c).max() == 0 for c in wake.velocity(0.99 * r * np.cos(angle), 0.99 * r * np.sin(angle), z)[:3]
        )
    u, v, _, _ = wake.velocity(np.array([[-40.0]], "f4"), np.array([[30.0]], "f4"), 2.0)
    assert abs(u[0, 0] / wake.MACH - 1) < 1e-2 and abs(v[0, 0]) < 1e-2 * wake.MACH


def test_the_state_is_physical() -> None:
    x, y = np.meshgrid(np.linspace(-3, 16, 200, dtype="f4"), np.linspace(-4, 4, 100, dtype="f4"))
    for z in (0.5, 4.0, 7.5):
        u, v, w, core = wake.velocity(x, y, z)
        density, energy = wake.state(u, v, w, core)
        pressure = (wake.GAMMA - 1) * (energy - 0.5 * density * (u * u + v * v + w * w))
        assert density.min() > 0.5 and pressure.min() > 0.4 and core.min() >= 0 and core.max() < 2.1


def test_files_are_plot3d(tmp_path: Path) -> None:
    grid, solution = demo.make("taper", tmp_path, scale=1, progress=False)
    g, s = records(grid), records(solution)
    zones = KINDS["taper"].zones(1)
    assert np.frombuffer(g[0], "<i4").tolist() == [6] == np.frombuffer(s[0], "<i4").tolist()
    assert g[1] == s[1] and np.frombuffer(g[1], "<i4").reshape(6, 3).tolist() == [list(z.dims) for z in zones]
    assert len(g) == 2 + 6 and len(s) == 2 + 12
    for n, zone in enumerate(zones):
        ni, nj, nk = zone.dims
        whole = np.frombuffer(g[2 + n], "<f4").reshape(4, nk, nj, ni)
        q = np.frombuffer(s[3 + 2 * n], "<f4").reshape(5, nk, nj, ni)
        plane = zone.plane(nk // 2)
        for c in range(3):
            assert np.array_equal(whole[c, nk // 2], plane.xyz[c])
        assert np.array_equal(q[:, nk // 2], np.stack(plane.q))
        iblank = whole[3].view("<i4")
        if n < 4:
            assert (iblank[:, 0, :] == 2).all() and (iblank[:, 1:, :] == 1).all()
            assert (q[1:4, :, 0, :] == 0).all() and (np.abs(q[1:4, :, 1:, :]).max() > 0)
            after = np.frombuffer(g[2 + (n + 1) % 4], "<f4").reshape(4, nk, nj, ni)
            assert np.allclose(whole[:3, :, :, -1], after[:3, :, :, 0], atol=1e-6)  # the quarters abut
        elif n == WAKE_ZONE - 1:
            assert (iblank == 1).all()
        else:
            assert set(np.unique(iblank).tolist()) == {-5, -4, -3, -2, -1, 0, 1}
    again = demo.make("taper", tmp_path, scale=1, progress=False)
    assert again == (grid, solution) and [p.name for p in tmp_path.iterdir()] == [grid.parent.name]


def test_a_stopped_generator_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        demo.make("box", tmp_path, scale=1, progress=lambda phase, done, total: done < 3)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_without_room_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 99, 1))  # type: ignore[attr-defined]
    assert run(["demo", "--small", "--dir", str(tmp_path / "a" / "b")]) == 1
    assert "of disk space and there are 1 byte" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_commands_at_its_end_are_those_that_one_types(tmp_path: Path) -> None:
    commands = [_as_typed(words) for words in Story(tmp_path, print)._next(tmp_path / "taper.zarr")]
    assert commands[-1] == f"""python -c "import farfield as ff; print(ff.open('{tmp_path}/taper.zarr'))\""""
    for awkward in ("it's", "a \"b\" 'c'", "$HOME's", "back`tick's", "it's!"):
        assert shlex.split(_as_typed(["a", awkward])) == ["a", awkward]
        shown = subprocess.run(
            ["bash", "-c", f"printf %s {_as_typed([awkward])}"], capture_output=True, text=True, check=True
        )
        assert shown.stdout == awkward


def test_the_small_demo_is_a_sixtieth_of_the_other() -> None:
    small, large = (sum(math.prod(zone.dims) for zone in KINDS["taper"].zones(scale)) for scale in (1, SCALE))
    assert round(large / small, -1) == 60
