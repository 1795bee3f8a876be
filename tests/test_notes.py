"""What a run says on stderr about what it took for granted, and what its help offers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from plot3d_files import box, source_of, write
from running import Command


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
