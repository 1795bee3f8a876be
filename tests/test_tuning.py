"""What is proposed for a kind of run, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farfield.errors import DataError, MemoryLimitError, UsageError
from farfield.tuning import CODECS, PAGES, READERS, Choice, table, tune
from plot3d_files import box, source_of, write
from running import NO_PROCESSES, Json


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured runs here; test_a_proposal_is_the_best_of_what_was_measured has it in processes."""
    monkeypatch.setattr("farfield.tuning.subprocess", NO_PROCESSES)


def test_a_proposal_is_the_best_of_what_was_measured(flow: str, ff_json: Json, tmp_path: Path) -> None:
    like = f"trace {flow} --seeds random:20:1 --memory-limit 16MiB"
    found = ff_json("tune", flow, "--like", like, "--runs", "1", "--scratch", tmp_path)
    measured = found["measured"]
    # One thing at a time: pages, a layout, codecs, readers.
    assert len(measured) == len(PAGES) + 1 + len(CODECS) - 1 + len(READERS)
    least = min(row["wall_s"] for row in measured)
    own = [r for r in measured if all(r[k] == found[k] for k in ("page", "layout", "codec", "readers"))]
    assert len(own) == 1 and found["wall_s"] == own[0]["wall_s"] >= least > 0
    assert found["default_wall_s"] == measured[0]["wall_s"] and measured[0]["page"] == Choice().page
    assert f"--page {found['page']} --layout {found['layout']} --codec {found['codec']}" in found["convert"]
    assert os.listdir(tmp_path) == [], "stores are left"


@pytest.mark.parametrize(
    ("like", "what"),
    [
        ("convert SRC x.zarr", "begins with one of trace"),
        ("trace other.xyz --seeds random:2:1", "does not name"),
        ("trace SRC --seeds random:2:1 -o l.vtp", "leave out -o"),
        ("", "is no run"),
    ],
)
def test_what_is_no_run_to_be_like(flow: str, like: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        tune(flow, like.replace("SRC", flow), progress=False)


@pytest.mark.usefixtures("in_this_process")
def test_pages_that_do_not_fit_the_limit_are_passed_over(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    flow = source_of(*write(tmp_path, [box(65, 65, 65)]))
    like = f"trace {flow} --seeds random:20:1 --max-length 0.5 --memory-limit"
    found = tune(flow, f"{like} 6MiB", runs=1, scratch=scratch, progress=False)
    refused = [row for row in found["measured"] if row["wall_s"] is None]
    assert [row["page"] for row in refused] == [32] and "--memory-limit" in refused[0]["refused"]
    assert found["page"] < 32 and "over the limit" in "\n".join(table(found))
    with pytest.raises(MemoryLimitError, match="too small"):
        tune(flow, f"{like} 1MiB", runs=1, scratch=scratch, progress=False)
    assert os.listdir(scratch) == []


@pytest.mark.usefixtures("in_this_process")
def test_a_run_that_fails_is_said(flow: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no field named"):
        tune(flow, f"trace {flow} --seeds random:2:1 --scalars nothing", runs=1, scratch=tmp_path, progress=False)
    assert os.listdir(tmp_path) == []
