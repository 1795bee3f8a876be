"""Logs of events: what they hold, their forms, runs that are killed, replays, and logs longer than memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import farfield
from farfield import _native
from farfield.cli import run
from farfield.errors import DataError, UsageError
from farfield.report.replays import export, parse_seconds, replay
from farfield_bench.suites.eventlog import repeat
from plot3d_files import box, cut, source_of, write
from running import Command, Json, begun, start

TIGHT = "6MiB"
"""Far below what the runs here touch, and enough for a step."""


@pytest.fixture(scope="module")
def large_store(ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some twenty megabytes in small pages."""
    folder = tmp_path_factory.mktemp("events")
    flow = source_of(*write(folder, cut(box(97, 61, 49), 2)))
    ff("convert", flow, folder / "s.zarr", "--page", 8)
    return folder / "s.zarr"


def traced(ff_json: Json, store: Path, log: Path, *more: str | Path) -> dict[str, Any]:
    words = ("trace", store, "--seeds", "random:300:1", "-o", log.with_suffix(".npz"), "--events", log)
    return ff_json(*words, *more)


@pytest.fixture(scope="module")
def tight(large_store: Path, ff_json: Json, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The log of a run whose pages do not fit, by one worker, and what the run printed."""
    log = tmp_path_factory.mktemp("tight") / "run.events"
    return log, traced(ff_json, large_store, log, "--memory-limit", TIGHT, "--workers", "1")


def summary(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_native.summarise(str(log)))
    return found


def test_a_log_agrees_with_the_run_s_own_numbers(tight: tuple[Path, dict[str, Any]]) -> None:
    log, run = tight
    s, pages = summary(log), run["pages"]
    assert s["whole"] and s["unknown"] == s["lost_bytes"] == 0
    assert s["kinds"]["fault"] == pages["faults"] and s["kinds"]["evict"] == pages["evictions"] > 1000
    assert s["kinds"]["read"] == s["kinds"]["read end"] == run["reads"] == s["latency"]["all"]["count"]
    assert sum(s["series"]["bytes"]) == sum(source["bytes"] for source in s["sources"]) == run["bytes_read"]
    assert sum(s["series"]["faults"]) == pages["faults"] == sum(map(sum, s["history"]["counts"]))
    assert max(u for u in s["series"]["used_bytes"] if u is not None) <= s["run"]["memory_limit"] == run["limit_bytes"]
    assert s["stats"]["pages"] == pages and s["run"]["workers"] == 1
    # Every page that was asked for is one of those that the log says were touched.
    assert sum(a["touched"] for a in s["arrays"]) == pages["touched"]
    assert sum(a["published"] - a["read_again"] for a in s["arrays"]) == pages["touched"]
    assert s["kinds"]["task"] >= 300
    where = s["where"]
    known = sum(v for k, v in where.items() if k not in ("thread_s", "spans"))
    assert known == pytest.approx(where["thread_s"], rel=0.02) and 0 < where["compute_s"] < run["wall_s"] * 1.05
    assert s["lifelines"]["tasks"] and s["lifelines"]["readers"] and s["lifelines"]["threads"]


def test_a_log_changes_no_result(
    tight: tuple[Path, dict[str, Any]], large_store: Path, ff: Command, tmp_path: Path
) -> None:
    """What is told of, and how often pages are looked up for it, is nothing to lines: equal bytes without a log."""
    words = ("--seeds", "random:300:1", "--memory-limit", TIGHT, "--workers", "1")
    ff("trace", large_store, *words, "-o", tmp_path / "l.npz")
    assert (tmp_path / "l.npz").read_bytes() == tight[0].with_suffix(".npz").read_bytes()


@pytest.mark.parametrize("name", ["run.events", "run.json"])
def test_two_runs_do_not_write_one_log(name: str, large_store: Path, ff: Command, tmp_path: Path) -> None:
    """The second ends before it does anything; the first one's log is none the worse, whatever is to be made of it."""
    log = tmp_path / name
    words = ("trace", large_store, "--seeds", "random:5:1", "-o", tmp_path / "l.npz", "--events", log)
    with farfield.open(large_store, events=log) as ds:
        ds.streamlines(seeds="random:50:1")
        said = ff(*words, ok=(1,)).stderr
        assert f"{log}: another run writes its events" in said and "name another file" in said
        with pytest.raises(DataError, match="another run"):
            farfield.open(large_store, events=log)
        reads = ds.stats()["reads"]
    s = summary(log)
    assert s["whole"] and s["kinds"]["read"] == reads and os.listdir(tmp_path) == [name]
    ff(*words)
    assert summary(log)["kinds"]["read"] < reads


def test_all_forms_say_the_same(tight: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """A log, the Chrome trace and the table made of it, and those made of these."""
    log, _ = tight
    chrome, table, again = tmp_path / "e.json", tmp_path / "e.parquet", tmp_path / "again.events"
    first = export(log, chrome)
    assert first["whole"] and export(chrome, table)["events"] == first["events"] == export(table, again)["events"]

    def rest(path: Path) -> dict[str, Any]:
        return {k: v for k, v in summary(path).items() if k not in ("file", "form")}

    wanted = rest(log)
    assert rest(chrome) == wanted and rest(table) == wanted and rest(again) == wanted
    assert [summary(p)["form"] for p in (log, chrome, table)] == ["log", "chrome", "parquet"]
    assert sorted(os.listdir(tmp_path)) == ["again.events", "e.json", "e.parquet"]


def test_a_chrome_trace_is_what_perfetto_reads(tight: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """By the trace event format: every phase has the keys that it needs, asynchronous spans are begun and ended."""
    export(tight[0], tmp_path / "e.json")
    rows = json.loads((tmp_path / "e.json").read_text())
    begun: dict[tuple[str, str], int] = {}
    for row in rows:
        assert row["ph"] in "MiXbeC" and isinstance(row["name"], str) and row["pid"] == 1
        if row["ph"] != "M":
            assert row["ts"] >= 0 and isinstance(row["tid"], int)
        if row["ph"] == "X":
            assert row["dur"] >= 0
        if row["ph"] in "be":
            key = (row["cat"], row["id"])
            begun[key] = begun.get(key, 0) + (1 if row["ph"] == "b" else -1)
        if row["ph"] == "C":
            assert row["args"]["bytes"] > 0
    assert begun and set(begun.values()) == {0}
    assert {r["args"]["name"] for r in rows if r["name"] == "thread_name"} >= {"farfield-0"}


def test_a_table_is_read_by_others(tight: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    log, run = tight
    export(log, tmp_path / "e.parquet")
    rows = parquet.read_table(tmp_path / "e.parquet").to_pandas()
    assert (rows.event == "fault").sum() == run["pages"]["faults"]
    assert rows[rows.event == "read"].bytes.sum() == run["bytes_read"]
    faults = rows[rows.event == "fault"]
    assert set(faults.array) <= set(rows[rows.event == "array"].text) and faults.at_us.ge(0).all()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_replay_comes_to_what_the_run_came_to(workers: int, large_store: Path, ff_json: Json, tmp_path: Path) -> None:
    for policy in ("clock", "lru"):
        words = ("--memory-limit", TIGHT, "--workers", str(workers), "--replacement", policy)
        run = traced(ff_json, large_store, tmp_path / "r.events", *words)
        found = replay(tmp_path / "r.events", policies=[policy])
        pages = run["pages"]
        assert (found["run"]["faults"], found["run"]["evictions"]) == (pages["faults"], pages["evictions"])
        assert found["mirror"]["faults"] == pytest.approx(pages["faults"], rel=0.02)
        assert found["mirror"]["evictions"] == pytest.approx(pages["evictions"], rel=0.02)


def test_no_policy_beats_the_optimum(tight: tuple[Path, dict[str, Any]]) -> None:
    found = replay(tight[0])
    best = {c["frame_bytes"]: c["misses"] for c in found["curves"] if c["policy"] == "optimum"}
    assert len(best) >= 6 and found["optimum"]
    for row in found["curves"]:
        assert row["misses"] >= best[row["frame_bytes"]] and row["misses"] - row["again"] == found["touched"]
        assert row["uses"] == found["uses"]
    # With room for all, each page is missed once, whatever decides.
    most = max(best)
    assert {c["misses"] for c in found["curves"] if c["frame_bytes"] == most} == {found["touched"]}
    # Less room is never better for the optimum.
    ordered = [best[room] for room in sorted(best)]
    assert ordered == sorted(ordered, reverse=True)


def test_a_dataset_explains_itself(large_store: Path, tmp_path: Path) -> None:
    """With a log, of what was done so far; without one, what is counted anyway."""
    log = tmp_path / "run.json"
    with farfield.open(large_store, events=log, memory_limit=TIGHT, workers=1) as ds:
        ds.streamlines(seeds="random:50:1")
        first = ds.explain()
        ds.streamlines(seeds="random:200:2")
        second = ds.explain()
        told = ds.stats()["reads"]
    assert sum(part.share for part in first.where) == pytest.approx(1.0, abs=0.02)
    assert sum(part.time_s for part in second.where) > sum(part.time_s for part in first.where)
    assert f"{told:,} reads" in " ".join(second.lines) and second._repr_html_().count("<") > 5
    # What was to be a Chrome trace is one when the dataset is closed, and no sooner.
    assert summary(log)["form"] == "chrome"
    with farfield.open(large_store) as ds:
        ds.streamlines(seeds="random:5:1")
        assert "events=FILE" in ds.explain().lines[-1]


def test_replays_on_the_command_line(tight: tuple[Path, dict[str, Any]], ff: Command, tmp_path: Path) -> None:
    log, picture = tight[0], tmp_path / "c.png"
    done = ff("replay", log, "--policies", "clock,lru+executor,optimum", "--limits", "8MiB,16MiB", "--page-factor", "2",
              "--latency", "1ms", "--readers", "4", "--workers", "2", "-o", picture)  # fmt: skip
    for word in ("lru + executor", "optimum", "1 ms a read", "4 readers", "2 workers", "2 times as long", "estimated"):
        assert word in done.stdout, word
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    for words, what in (
        (("--policies", "fifo"), "no replacement policy 'fifo'"),
        (("--latency", "fast"), "'fast' is not a time"),
        (("--page-factor", "1"), "two others or more"),
        (("--readers", "0"), "whole numbers above 0"),
        (("-o", "c.jpg"), "end the name in one of these"),
    ):
        assert what in ff("replay", log, *words, ok=(2,)).stderr
    assert "an input of this run" in ff("events", log, "-o", log, ok=(2,)).stderr


def test_what_is_no_log_is_said(ff: Command, tmp_path: Path) -> None:
    none, text = tmp_path / "none.events", tmp_path / "text.events"
    text.write_text("hello, this is no log")
    assert str(none) in ff("replay", none, ok=(1,)).stderr
    said = ff("events", text, "-o", tmp_path / "e.json", ok=(1,)).stderr
    assert str(text) in said and "--events FILE" in said
    assert sorted(os.listdir(tmp_path)) == ["text.events"]
    with pytest.raises(DataError, match="not a log"):
        replay(text)
    for wrong in ("5", "ms", "-1s", "1e9s"):
        with pytest.raises(UsageError):
            parse_seconds(wrong)


@pytest.mark.parametrize("ending", ["events", "json", "parquet"])
def test_what_is_said_of_a_damaged_log_names_it(
    ending: str, tight: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, whole = tmp_path / f"cut.{ending}", tmp_path / f"whole.{ending}"
    export(tight[0], whole)
    log.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    for words in (
        ["report", str(log), "-o", str(tmp_path / "a.html")],
        ["events", str(log), "-o", str(tmp_path / "e.json")],
    ):
        code = run(words)
        said = capsys.readouterr().err
        if code == 3:
            assert f"warning: {log}: the log " in said
        else:
            assert code == 1 and f"{log}: this log of events is damaged" in said and "copy it again" in said
            assert "Parquet error" not in said
    for words in (
        ["report", "none.events"],
        ["events", "none.events", "-o", str(tmp_path / "e.json")],
        ["replay", "none.events"],
    ):
        assert run(words) == 1
        assert "none.events: there is no such file or folder; check the path" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run.events", "run.json", "run.parquet"])
def test_the_log_of_a_killed_run_is_read_up_to_its_last_block(
    name: str, large_store: Path, ff: Command, tmp_path: Path
) -> None:
    """Whatever it was to become: what is in the file until then is the log."""
    log = tmp_path / name
    words = ("trace", large_store, "--seeds", "random:4000000:1", "-o", tmp_path / "l.npz", "--memory-limit", "24MiB")
    child = start(*words, "--events", log)
    begun(child, log, 1 << 20)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    # As a disk leaves it that was full, or a file system that lost the end.
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1000)
    s = summary(log)
    assert not s["whole"] and 0 < s["lost_bytes"] < 200_000 and s["stats"] is None
    assert s["kinds"]["fault"] > 100 and s["run"]["memory_limit"] == 24 << 20
    done = ff("events", log, "-o", tmp_path / "e.json", ok=(3,))
    assert "killed" in done.stderr and json.loads((tmp_path / "e.json").read_text())
    # What is made of a part does not pass for all.
    for other in ("e.json", "e.parquet", "e.events"):
        export(log, tmp_path / other)
        again = summary(tmp_path / other)
        assert not again["whole"] and again["lost_bytes"] == s["lost_bytes"] and again["kinds"] == s["kinds"], other
    assert replay(log, policies=["clock"])["run"]["faults"] == s["kinds"]["fault"]


def test_long_logs_are_summed_up_in_bounded_memory(tight: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Ten times the events, and no more memory than a reader's buffers and what a page shows."""
    code = (
        "import resource, sys; from farfield import _native; _native.summarise(sys.argv[1]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for events in (300_000, 3_000_000):
        count = repeat(tight[0], tmp_path / "long.events", events)
        assert count >= events
        done = subprocess.run([sys.executable, "-c", code, tmp_path / "long.events"], capture_output=True, check=True)
        peaks.append(int(done.stdout) * 1024)
    # The model keeps the turns of tasks, of which there are ten times as many; it stops at two million of them.
    assert peaks[1] - peaks[0] < 150 << 20, peaks
