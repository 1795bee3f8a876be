"""Pathlines against analytic flows and peers, by the experiment that says so, on small data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from farfield_bench import Recorder, registry


def test_what_is_said_of_unsteady_flows_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))  # which the experiment sets as well
    experiment = registry.find("unsteady")
    recorder = Recorder(experiment.name, experiment.title, quick=True, work=tmp_path)
    experiment.measure(recorder)
    result = recorder.result()
    missed = [f"{claim.text}: {claim.value}" for claim in result.claims if not claim.holds]
    assert not missed and len(result.claims) >= 17
    shutil.rmtree(tmp_path)


def test_an_experiment_says_what_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from farfield_bench import arms
    from farfield_bench.suites import tracers, unsteady

    monkeypatch.delenv("FARFIELD_DATA", raising=False)
    monkeypatch.setattr(arms, "PARCELS", tmp_path / "none")
    recorder = Recorder("left-out", "Left out", quick=True, work=tmp_path)
    unsteady._cylinder(recorder)
    tracers._beside_parcels(recorder, (9, 9, 9), 3, 10, [])
    notes = recorder.result().notes
    assert "FARFIELD_DATA" in notes[0] and "make bench-setup" in notes[1]
