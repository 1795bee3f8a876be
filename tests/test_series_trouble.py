"""Series that are not as they should be: each says which file it is and what to do, or what was done is noted."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import farfield
from plot3d_files import Block, box, write
from running import Command, Json


def step(folder: Path, number: int, *, when: float, block: Block | None = None, name: str | None = None) -> Path:
    return write(folder, [block or box(15, 13, 11)], stem=name or f"s_{number:04d}", time=when)[1]


def source(folder: Path) -> str:
    return f"{folder}/s_0001.xyz+q={folder}/s_*.q"


def test_steps_that_are_missing(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    for n in (1, 2, 3, 5, 6):
        step(tmp_path, n, when=0.5 * n)
    found = ff_json("info", source(tmp_path))
    assert found["times_gaps"] == [2] and found["times_step"] is None
    assert "gaps: 1.5 to 2.5" in ff("info", source(tmp_path)).stdout
    # Counted by --dt, the gap is one of names alone: it is said.
    found = ff_json("info", source(tmp_path), "--dt", "0.5")
    assert found["times"] == [0, 0.5, 1, 1.5, 2]
    noted = [s for s in found["guessed"] if "leave some out" in s]
    assert len(noted) == 1 and "s_0005.q follows s_0003.q" in noted[0] and "--dt" in noted[0]


def test_names_and_headers_in_another_order(ff_json: Json, tmp_path: Path) -> None:
    for n, when in ((1, 1.5), (2, 0.5), (3, 1.0)):
        step(tmp_path, n, when=when)
    found = ff_json("info", source(tmp_path))
    assert found["times"] == [0.5, 1, 1.5] and found["times_step"] == 0.5
    assert any("sorted by the times" in s and "s_0003.q" in s and "s_0001.q" in s for s in found["guessed"])


def test_steps_of_the_same_time(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    for n, when in ((1, 1.0), (2, 2.0), (3, 2.0)):
        step(tmp_path, n, when=when)
    found = ff_json("info", source(tmp_path))
    assert found["times_counted"] and found["times"] == [0, 1, 2]
    assert any("s_0002.q and s_0003.q both have 2" in s and "--dt" in s for s in found["guessed"])
    said = ff(
        "trace", source(tmp_path), "--kind", "pathline", "--seeds", "point:.5,.5,.5", "-o", tmp_path / "l.npz", ok=(2,)
    )
    assert "--dt" in said.stderr


def test_a_step_of_other_dimensions(ff: Command, tmp_path: Path) -> None:
    step(tmp_path, 1, when=1)
    step(tmp_path, 2, when=2)
    step(tmp_path, 3, when=3, block=box(15, 13, 12))
    said = ff("info", source(tmp_path), ok=(1,)).stderr
    assert "s_0003.q" in said and "15" in said and "12" in said
    said = ff("info", f"{tmp_path}/s_*.xyz+q={tmp_path}/s_*.q", ok=(1,)).stderr
    assert "s_0003.xyz" in said


def test_a_step_that_is_cut_off(ff: Command, tmp_path: Path) -> None:
    """As a file that is being written is: the last one, or another."""
    for n in (1, 2, 3):
        step(tmp_path, n, when=n)
    for n in (3, 2):
        path = tmp_path / f"s_{n:04d}.q"
        whole = path.read_bytes()
        for size in (0, 100, len(whole) // 2, len(whole) - 4):
            path.write_bytes(whole[:size])
            said = ff("info", source(tmp_path), ok=(1,)).stderr
            assert path.name in said and "Wait" in said and "leave" in said, said
        path.write_bytes(whole)
    ff("info", source(tmp_path))


def test_a_step_with_numbers_that_are_none(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """`info --ranges` counts them; a particle that meets them ends in a hole, at the step that has them and not before."""
    for n in (1, 2, 3):
        block = box(15, 13, 11)
        if n == 3:
            for q in block.q:
                q[:, :, 7:] = np.nan
        step(tmp_path, n, when=0.5 * n, block=block)
    found = ff_json("info", source(tmp_path), "--ranges")
    range_of = {f["name"]: f["range"] for f in found["fields"]}
    assert range_of["density"] == pytest.approx([1.2, 1.2])
    counts = {f["name"]: f["not_numbers"] for f in found["fields"] if not f["derived"]}
    assert counts["density"] == 8 * 13 * 11 and counts["momentum"] == 8 * 13 * 11
    said = ff("info", source(tmp_path), "--ranges").stdout
    assert f"{8 * 13 * 11:,} points are no numbers, at step 2 ({tmp_path}" in said, said
    steps = {f["name"]: f["not_numbers_steps"] for f in found["fields"] if not f["derived"]}
    assert steps["density"] == [2, 2] and steps["momentum"] == [2, 2]
    with farfield.open(source(tmp_path)) as dataset:
        lines = dataset.pathlines(seeds=[(0.75, 0.5, 0.5)])
        assert lines.reason.tolist() == ["hole"] and 0.95 < lines.time[-1] <= 1.0
        held = dataset.isel(time=slice(0, 2)).pathlines(seeds=[(0.75, 0.5, 0.5)])
        assert held.time[-1] == 1.0


def test_times_outside(ff: Command, tmp_path: Path) -> None:
    for n in (1, 2, 3):
        step(tmp_path, n, when=0.5 * n)
    for words in (("--t0", "5"), ("--t0", "1", "--t1", "7"), ("--t0", "0.25")):
        said = ff(
            "trace",
            source(tmp_path),
            "--kind",
            "pathline",
            "--seeds",
            "point:.5,.5,.5",
            *words,
            "-o",
            tmp_path / "l.npz",
            ok=(2,),
        ).stderr
        assert "0.5 to 1.5" in said, said
    said = ff("probe", source(tmp_path), 0.5, 0.5, 0.5, "--step", 3, ok=(2,)).stderr
    assert "no time step 3" in said and "there are 3" in said


def test_a_pattern_that_matches_nothing(ff: Command, tmp_path: Path) -> None:
    step(tmp_path, 1, when=1)
    said = ff("info", f"{tmp_path}/s_0001.xyz+q={tmp_path}/none_*.q", ok=(1,)).stderr
    assert "none_*.q" in said and "no file matches" in said


def test_grids_and_solutions_with_unlike_numbers(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    for n in (1, 2, 3):
        step(tmp_path, n, when=0.5 * n, name=f"g_{n}")
    for n, other in ((1, 1), (2, 2), (3, 4)):
        (tmp_path / f"g_{n}.q").rename(tmp_path / f"sol_{other:03d}.q")
    said = ff("info", f"{tmp_path}/g_*.xyz+q={tmp_path}/sol_*.q", ok=(2,)).stderr
    assert "g_3.xyz" in said and "sol_004.q" in said and "number" in said
    (tmp_path / "sol_004.q").rename(tmp_path / "sol_003.q")
    assert ff_json("info", f"{tmp_path}/g_*.xyz+q={tmp_path}/sol_*.q")["times"] == [0.5, 1, 1.5]
    (tmp_path / "g_2.xyz").unlink()
    said = ff("info", f"{tmp_path}/g_*.xyz+q={tmp_path}/sol_*.q", ok=(2,)).stderr
    assert "sol_002.q has no partner" in said
    # One by one they are taken in their order.
    q = [tmp_path / f"sol_00{n}.q" for n in (1, 2)]
    with farfield.open(f"{tmp_path}/g_*.xyz", q=q) as dataset:
        assert dataset.times.tolist() == [0.5, 1]


def test_a_series_that_grows_while_it_is_read(tmp_path: Path) -> None:
    """The files are those that were there when it was opened; a file that was cut off since fails, and is named."""
    for n in (1, 2):
        step(tmp_path, n, when=0.5 * n)
    with farfield.open(source(tmp_path)) as dataset:
        step(tmp_path, 3, when=1.5)
        assert dataset.times.tolist() == [0.5, 1]
        dataset.isel(time=1)["density"][:]
        with pytest.raises(farfield.UsageError):
            dataset.isel(time=2)
    with farfield.open(source(tmp_path)) as dataset:
        assert dataset.times.tolist() == [0.5, 1, 1.5]
        os.truncate(tmp_path / "s_0002.q", 5000)
        dataset.isel(time=2)["density"][:]
        with pytest.raises(farfield.FarfieldError, match=r"s_0002\.q"):
            dataset.isel(time=1)["energy"][:]
