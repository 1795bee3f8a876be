from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from farfield.errors import AccessError, DataError, Interrupted, MemoryLimitError, UsageError
from farfield.runtime.page_cache import evict
from farfield_bench import Recorder, cli, load, registry
from farfield_bench.arms import run
from farfield_bench.machine import commit, describe_machine
from farfield_bench.report import report
from farfield_bench.result import read_results, write_result
from farfield_bench.suites import eventlog

ROOT = Path(__file__).resolve().parent.parent


def recorded(name: str = "example") -> Recorder:
    recorder = Recorder(name, "An example", about="What it shows.", runs=3)
    for seconds, peak in ((1.0, 100), (3.0, 100), (1.5, 100)):
        recorder.run("farfield", settings={"layout": "cubed"}, wall_s=seconds, peak_bytes=peak * 2**20)
    recorder.run("peer", wall_s=10.0)
    recorder.claim("times faster", recorder.median("peer", "wall_s") / recorder.median("farfield", "wall_s"), ">=", 8)
    recorder.table("By zone", ["zone", "pages"], [["zone1", 12], ["zone2", 3.25]])
    recorder.note("A note.")
    return recorder


def test_medians_spreads_and_claims() -> None:
    result = recorded().result()
    farfield = result.arms[0]
    assert farfield.median == {"wall_s": 1.5, "peak_bytes": 100 * 2**20}
    assert farfield.spread["wall_s"] == pytest.approx(2 / 1.5) and farfield.spread["peak_bytes"] == 0
    assert not result.claims[0].holds
    with pytest.raises(UsageError):
        recorded().median("peer", "cpu_s")


def test_results_survive_their_file_and_make_a_page(tmp_path: Path) -> None:
    result = recorded().result()
    write_result(result, tmp_path / "deep")
    assert read_results(tmp_path / "deep") == [result]
    page = report([result])
    for words in ("## An example", "make bench-example", "**missed**", "100.0 MiB", "| zone2 | 3.25 |", "- A note."):
        assert words in page, words
    (tmp_path / "deep" / "x.json").write_text("{}")
    with pytest.raises(DataError, match=r"x\.json"):
        read_results(tmp_path / "deep")


def test_a_result_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = write_result(recorded().result(), tmp_path / "kept")
    before = kept.read_bytes()

    def full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[: len(text) // 2].encode(encoding))
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    for folder in (tmp_path / "kept", kept):
        with pytest.raises(DataError, match="cannot write the result"):
            write_result(recorded().result(), folder)
    assert list(kept.parent.iterdir()) == [kept] and kept.read_bytes() == before


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine.cores >= 1 and machine.memory_bytes > 2**20 and machine.cpu
    assert commit(Path("/")) is None


def test_every_experiment_says_what_it_shows() -> None:
    for found in load().values():
        assert found.title and found.about and "|" not in found.about, found.name


def test_an_experiment_that_is_not_there_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["run", "no_such"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("farfield: error: ") and err.count("\n") == 1 and "no_such" in err and out == ""
    assert cli.run([]) == 0 and "compare" in capsys.readouterr().out


def test_quick_runs_leave_the_kept_results_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of small data are none to quote: they go beside the data, unless someone says where to."""
    monkeypatch.chdir(tmp_path)
    tiny = registry.Experiment("tiny", "Tiny", "Next to nothing.", lambda r: r.run("farfield", wall_s=1.0))
    monkeypatch.setitem(registry._FOUND, "tiny", tiny)
    for more, path in (
        (["--quick"], "bench-data/quick-results/tiny.json"),
        (["--quick", "--work", "w"], "w/quick-results/tiny.json"),
        (["--quick", "--results", "r"], "r/tiny.json"),
        ([], "docs/benchmarks/tiny.json"),
    ):
        before = set(tmp_path.rglob("*.json"))
        assert cli.run(["run", "tiny", "-q", *more]) == 0
        assert set(tmp_path.rglob("*.json")) - before == {tmp_path / path}
    assert not read_results(tmp_path / "docs/benchmarks")[0].quick


def test_all_experiments_run_whatever_becomes_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that fails is told of in the end. Of small data bounds say nothing, and wrong results as much as ever."""

    def broken(_: Recorder) -> None:
        raise DataError("an arm failed")

    def defect(_: Recorder) -> None:
        raise KeyError("wall_s")

    def slow(r: Recorder) -> None:
        r.claim("fast", 2.0, "<=", 1.0)
        r.claim("near enough", 0.0, "<=", 1.0, right=True)

    def wrong(r: Recorder) -> None:
        r.claim("results that differ", 1, "==", 0, right=True)
        r.claim("particles that the other lost", 1, "==", 0)

    monkeypatch.chdir(tmp_path)
    for measure in (broken, defect, slow, wrong):
        made = registry.Experiment(measure.__name__, "An experiment", "", measure)
        monkeypatch.setitem(registry._FOUND, made.name, made)
    assert cli.run(["run", "slow", "--quick"]) == 0
    out, err = capsys.readouterr()
    assert "  missed fast" in out and "not all is well" not in err
    assert cli.run(["run", "slow"]) == 1
    out, err = capsys.readouterr()
    assert "  MISSED fast" in out and err.endswith("not all is well:\n  slow: missed: fast\n")
    assert cli.run(["run", "broken", "defect", "slow", "wrong", "--quick"]) == 1
    out, err = capsys.readouterr()
    assert "  MISSED results that differ" in out and "  missed particles that the other lost" in out
    ends = ("broken failed: an arm failed", "defect failed: KeyError('wall_s')", "wrong: missed: results that differ")
    assert [line.strip() for line in err.splitlines()[-3:]] == list(ends)
    assert {r.name for r in read_results(Path("bench-data/quick-results"))} == {"slow", "wrong"}


def test_a_failure_is_told_with_what_is_left_of_earlier_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old result still lies there. One experiment alone ends as its error does."""
    raised: BaseException | None = None

    def fickle(r: Recorder) -> None:
        r.run("farfield", wall_s=1.0)
        if raised is not None:
            raise raised

    def stopped(_: Recorder) -> None:
        raise Interrupted("interrupted")

    monkeypatch.chdir(tmp_path)
    for measure in (fickle, stopped):
        made = registry.Experiment(measure.__name__, "An experiment", "", measure)
        monkeypatch.setitem(registry._FOUND, made.name, made)
    raised = AccessError("no network")
    assert cli.run(["run", "fickle"]) == 5
    assert capsys.readouterr().err.endswith("not all is well:\n  fickle failed: no network\n")
    raised = None
    assert cli.run(["run", "fickle"]) == 0
    written = Path("docs/benchmarks/fickle.json").read_bytes()
    capsys.readouterr()
    for raised, code in (
        (MemoryLimitError("too small"), 4),
        (UsageError("no"), 2),
        (DataError("no"), 1),
        (PermissionError("no"), 5),
        (KeyError("no"), 1),
    ):
        assert cli.run(["run", "fickle", "--json"]) == code
        out, err = capsys.readouterr()
        said = str(raised) if code != 1 or isinstance(raised, DataError) else repr(raised)
        assert err.endswith(f"  fickle failed: {said}; docs/benchmarks/fickle.json is of an earlier run\n")
        assert json.loads(out) == {"fickle": {"name": "fickle", "title": "An experiment", "error": said}}
    assert cli.run(["run", "fickle", "fickle"]) == 1
    capsys.readouterr()
    assert cli.run(["run", "fickle", "stopped", "fickle"]) == 130
    err = capsys.readouterr().err
    assert err.index("not all is well:\n  fickle failed") < err.index("farfield: error: interrupted")
    assert [path.name for path in Path("docs/benchmarks").iterdir()] == ["fickle.json"]
    assert Path("docs/benchmarks/fickle.json").read_bytes() == written


def test_nothing_but_right_results_is_asked_of_small_data() -> None:
    """Which relation a claim has says nothing of what it is about."""
    recorder = Recorder("demo", "A demonstration", quick=True)
    recorder.claim("pages read again", 1, "==", 0)
    recorder.claim("results that differ", 1, "==", 0, right=True)
    recorder.claim("peak less the limit", 1, "<=", 0, right=True)
    assert [claim.text for claim in recorder.result().missed] == ["results that differ", "peak less the limit"]


def test_events_that_are_counted_are_known_by_those_names() -> None:
    """A kind that a run may do without would count as none under another name."""
    source = (ROOT / "crates" / "pager" / "src" / "event.rs").read_text(encoding="utf-8")
    kinds = set(re.findall(r'^    \w+ = "([^"]+)" \{', source, re.MULTILINE))
    assert "fault" in kinds and {*eventlog.ALWAYS, *eventlog.PERHAPS} <= kinds


def test_results_from_before_claims_said_what_they_are_about_are_read(tmp_path: Path) -> None:
    write_result(recorded().result(), tmp_path)
    document = json.loads((tmp_path / "example.json").read_text())
    del document["claims"][0]["right"]
    (tmp_path / "example.json").write_text(json.dumps(document))
    assert [claim.text for claim in read_results(tmp_path)[0].missed] == ["times faster"]


def test_arms_are_measured(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(10**6))
    evict([tmp_path])
    done = run([sys.executable, "-c", "x = bytearray(50 << 20); print(len(x))"], cold=[data])
    assert done.code == 0 and done.stdout == f"{50 << 20}\n" and done.resident_peak_bytes > 50 << 20
    assert 0 < done.cpu_s <= done.wall_s * 4 and not done.killed
    slow = run([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.5)
    assert slow.killed and slow.wall_s < 10
