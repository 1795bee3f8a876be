from __future__ import annotations

import io

import pytest

from farfield.runtime import progress


def test_nothing_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress.reporting() as report:
        assert report is None


def test_a_bar_after_a_second_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = progress.Bar()
    assert bar("reading", 1, 10)
    assert bar._progress is None
    now[0] = 2.0
    assert bar("reading", 5, 10) and bar("tracing", 1, 0)
    assert bar._progress is not None
    bar.close()
    assert bar._progress is None


def test_the_caller_may_have_its_own() -> None:
    seen = []

    def mine(phase: str, done: float, total: float) -> bool:
        seen.append(phase)
        return False

    with progress.reporting(mine) as report:
        assert report is mine
