"""What a run says on stderr about what it took for granted, and what its help offers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import farfield
from plot3d_files import box, source_of, write
from running import Command, Json
from test_pathlines import TIMES
from test_tracks import written


@pytest.fixture(scope="module")
def unclear(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Plain binary files with so few points that their values do not tell WHOLE from PLANES."""
    return source_of(*write(tmp_path_factory.mktemp("unclear"), [box(3, 3, 3)], form="binary"))


RUNS = (
    "trace {} --seeds point:0.5,0.5,0.5 -o l.npz",
    "extract grid-surface {} --surface zone1:k=1 -o s.vtp",
    "probe {} 0.5 0.5 0.5",
    "render {} -o p.png --size 60x40",
    "convert {} c.zarr --overwrite",
)


@pytest.mark.parametrize("words", RUNS)
def test_an_order_that_was_only_assumed(words: str, unclear: str, flow: str, ff: Command, tmp_path: Path) -> None:
    said = ff(*words.format(unclear).split(), cwd=tmp_path).stderr
    assert said.count("\n") == 1 and said.startswith("farfield: note: "), said
    assert "flow.xyz and flow.q" in said and "--plot3d-order planes" in said
    for silent in (
        [*words.format(unclear).split(), "-q"],
        [*words.format(unclear).split(), "--plot3d-order", "whole"],
        words.format(flow).split(),
    ):
        assert ff(*silent, cwd=tmp_path).stderr == "", silent


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("series"), range(len(TIMES)))


NOTHING = ("--define", "nothing = velocity / 0", "--field", "nothing")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--kind", "streakline", "--stop", "x > 0.0"), "stopped"),
        (("--kind", "timeline", "--max-steps", 1), "steps"),
        (("--kind", "timeline", "--stop", "x > 0.0"), "stopped"),
        (("--kind", "pathline", *NOTHING), "hole"),
        (("--kind", "streakline", *NOTHING), "hole"),
    ],
)
def test_lines_without_points_are_not_all_outside(
    words: tuple[object, ...], why: str, series: str, ff: Command, ff_json: Json, tmp_path: Path
) -> None:
    run = ("trace", series, "--seeds", "point:0.7,0.5,0.3", *words, "-o", tmp_path / "l.npz")
    found = ff_json(*run)
    assert (found["points"], found["outside"], found["empty"]) == (0, 0, {why: 1}), found
    said = ff(*run).stdout
    assert f"ended by: 1 {why}" in said and "outside" not in said


@pytest.mark.parametrize("kind", ["streamline", "pathline", "streakline", "timeline"])
def test_seeds_that_are_outside(kind: str, series: str, ff_json: Json, tmp_path: Path) -> None:
    found = ff_json("trace", series, "--seeds", "point:9,9,9", "--kind", kind, "-o", tmp_path / "l.npz")
    assert (found["points"], found["outside"], found["empty"]) == (0, 1, {}), found


def test_a_state_remembers_what_was_outside(series: str, tmp_path: Path) -> None:
    with farfield.open(series) as ds:
        for method in (ds.pathlines, ds.streaklines):
            how = {"seeds": [(0.7, 0.5, 0.3), (9.0, 9.0, 9.0)], "stop": "x > 0.0"}
            method(**how, t1=TIMES[2], save_state=tmp_path / "a")
            one, two = method(**how).summary, method(**how, resume=tmp_path / "a").summary
            assert (one["outside"], one["empty"]) == (two["outside"], two["empty"]) and one["outside"] == 1


def test_info_says_it_once(unclear: str, ff: Command) -> None:
    done = ff("info", unclear)
    assert done.stderr == "" and done.stdout.count("WHOLE order assumed") == 2


def test_help_offers_every_integrator(store: Path, ff: Command, tmp_path: Path) -> None:
    refused = ff("trace", store, "--seeds", "random:1:1", "-o", tmp_path / "l.npz", "--integrator", "none", ok=(2,))
    (listed,) = re.findall(r"there are: (.*)", refused.stderr)
    assert len(listed.split(", ")) >= 4
    shown = " ".join(ff("trace", "--help", env={"COLUMNS": "200"}).stdout.split())
    (offered,) = re.findall(r"--integrator \S+ (.*?) \[default", shown)
    assert re.split(", | or ", offered) == listed.split(", ")
    for name in listed.split(", "):
        ff("trace", store, "--seeds", "point:0.7,0.5,0.3", "-o", tmp_path / "l.npz", "--integrator", name, "-q")
        assert len(np.load(tmp_path / "l.npz")["points"]) > 2
