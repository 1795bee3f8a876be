"""Reports: that the verdict's numbers are right, that the page needs nothing else, and that nothing in a log breaks it."""

from __future__ import annotations

import html.parser
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import summaries
from farfield import cli, report
from farfield.errors import AccessError, DataError, Interrupted, UsageError
from farfield.report import servers
from farfield.report.figures import plots
from farfield.report.page import page
from farfield.report.plots import Missing, Plot, png, svg
from farfield.report.verdict import verdict
from running import Command

VOID = {"meta", "br", "img", "hr", "input", "link"}
# Attributes that make a browser fetch something.
FETCHING = {"src", "href", "xlink:href", "srcset", "data", "poster", "action", "background"}
HOSTILE = [
    '<script>alert("1")</script>',
    "$\\frac{a}{b}$ \x00\x1b[2J\n",
    "z" * 4000,
    "</svg><!-- & \"'",
    "zone \U0001f600 \u202e",
]


class Page(html.parser.HTMLParser):
    """Holds that tags are closed in order, and keeps what a browser would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in FETCHING]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        assert not any(name.startswith("on") for name, _ in attrs), attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def self_contained(text: str) -> Page:
    """The page, once it is sure that it is one and needs nothing else."""
    assert len(text.encode()) < 3_000_000
    parsed = Page(text)
    assert not {"script", "link", "iframe", "object", "img"} & set(parsed.tags)
    assert all(f.startswith(("#", "data:image/png;base64,")) for f in parsed.fetched), parsed.fetched
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {f[1:] for f in parsed.fetched if f.startswith("#")} <= set(parsed.ids)
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert not re.search(r"\b(nan|NaN|inf|None)\b", " ".join(parsed.text))
    return parsed


def changed(**more: Any) -> summaries.Summary:
    return {**summaries.summary(steps=3, bins=40), **more}


def lines(summary: summaries.Summary) -> list[str]:
    return verdict(summary).lines


@pytest.fixture(scope="module")
def whole() -> str:
    return page(summaries.summary())


# The verdict.


def test_the_verdict_says_where_time_went_and_what_would_help() -> None:
    said = verdict(summaries.summary())
    assert said.lines[:3] == [
        # 61.2, 19.8, 5.4, 1.8, 0.9 and 0.9 of 90 s
        "The run took 45.0 s. Of the time of its 2 worker threads (90.0 s) 68 % went into waiting for reads, 22 % into computing, "
        "6 % into decoding, 2 % into waiting for memory, 1 % into making derived pages and 1 % into other work.",
        "--readers 16 would save about 21.0 s of 45.0 s (47 %): as many reads were in flight as may be (4).",
        "--memory-limit 512MiB alone would save about 5.4 s of 45.0 s (12 %): pages that were dropped had to be read again.",
    ]
    assert (
        "9,000 reads brought 640.0 MiB; a read took 24 ms on average, nine in ten at most 43 ms; 3.8 were under way on average "
        "while any was, 4 at most of 4 that may be (so many 92 % of the time)." in said.lines
    )
    assert "Reads were under way for 40.0 s; up to 22 % of that was hidden behind computing." in said.lines
    assert (
        "Memory: at most 120.0 MiB of the limit of 128.0 MiB (94 %); 2,500 pages had to make room for others."
        in said.lines
    )
    shares = {part.key: part.share for part in said.where}
    assert shares["wait_reads_s"] == pytest.approx(0.68) and sum(shares.values()) == pytest.approx(1.0)
    assert [change["change"] for change in said.advice] == ["--readers 16", "--memory-limit 512MiB"]
    assert str(said).splitlines()[0] == "run.events: farfield trace wing.zarr --kind pathline"
    assert re.search(r"^ +68 % +61\.2 s  waiting for reads$", str(said), re.MULTILINE)
    Page(said._repr_html_())


def test_the_waits_of_reads_at_servers_stand_side_by_side(whole: str) -> None:
    summary = summaries.summary()
    (line,) = [line for line in verdict(summary).lines if line.startswith("a.example:7207")]
    assert "4,500 reads of 320.0 MiB, each in 17 ms on average" in line
    assert "2.0 ms waiting here" in line and "10 ms on the line, 3.1 ms in the server's queue" in line
    assert "40 also asked elsewhere and 41 withdrawn" in line
    for row in servers.rows(summary):
        assert sum(part["total_s"] for part in row["parts"].values()) == pytest.approx(row["time"]["total_s"])
        assert list(row["parts"]) == list(servers.PARTS)
    for words in ("Time of a read at each server", "Reads here and at their servers", "90 % at most", "not answered"):
        assert words in whole
    # A server that only failed, and one that does not tell its connections.
    first, second = summary["servers"]
    second.update(reads=0, took=None, parts=dict.fromkeys(second["parts"]), connections=0)
    first["connections"] = 0
    assert any(line == "b.example:7207 answered no read." for line in verdict(summary).lines)
    text = page(summary)
    assert "not told" in text and servers.rows(summary)[1]["time"] is None


def test_nothing_would_help() -> None:
    where = {
        **summaries.summary()["where"],
        "compute_s": 85.0,
        "wait_reads_s": 2.0,
        "wait_memory_s": 0.0,
        "decode_s": 1.2,
    }
    assert (
        "The run was bound by computing, 94 % of its threads' time: no change of readers, workers or memory that was tried on the "
        "model would save 2 % of it." in lines(changed(advice=[], where=where))
    )
    even = {**where, "compute_s": 40.0, "wait_reads_s": 40.0, "other_s": 8.8}
    assert any(line.startswith("No single thing held the run up:") for line in lines(changed(advice=[], where=even)))
    unknown = lines(changed(advice=[], model=None))
    assert any(line.startswith("What other resources would change cannot be said") for line in unknown)
    assert not any("bound by" in line for line in unknown)


def test_a_model_that_is_off_is_not_taken_for_the_truth() -> None:
    said = lines(changed(model={"predicted_s": 20.0, "measured_s": 45.0, "covers": 0.63}))
    assert any("the model says 20.0 s, and it took 45.0 s" in line for line in said)
    assert "The model rests on the first 63 % of the log." in said
    assert not any("hints more than figures" in line for line in lines(changed()))


@pytest.mark.parametrize(
    ("series", "arrays", "more", "sentence"),
    [
        ({"prefetch_used": [40], "prefetch_wasted": [100, 20]}, None, {}, "Reading ahead did not pay: 120 pages that came ahead "
         "went unused, 40 were used."),
        ({"prefetch_used": [1], "prefetch_wasted": [2]}, None, {}, "Reading ahead did not pay: 2 pages that came ahead "
         "went unused, 1 was used."),
        ({}, (3_500, 1_190), {}, "1,190 pages of 3,500 that came (34 %) had been here before: the memory limit of 128.0 MiB is "
         "smaller than what the run works on at a time."),
        ({"evictions": [0]}, (3_500, 1_190), {}, "1,190 pages of 3,500 that came (34 %) had been here before: they had been given "
         "back, and were wanted again."),
        ({"retries_failed": [1, 2]}, None, {}, "Reads failed 3 times: look at the source, or at what lies between."),
        ({}, None, {"kinds": {"failed": 2}}, "2 pages could not be read: results that need them are partial."),
        ({}, None, {"unknown": 12}, "12 events are of kinds that this version of Farfield does not know, and left out."),
        ({}, None, {"whole": False, "wall_s": 12.34}, "The run was killed or is still going on: this is what it did up to 12.3 s."),
        ({}, None, {"whole": False, "lost_bytes": 4096}, "4.0 KiB of the log could not be read and are left out."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    series: dict[str, list[int]], arrays: tuple[int, int] | None, more: dict[str, Any], sentence: str
) -> None:
    summary = changed(**more)
    assert sentence not in lines(changed())
    summary["series"] |= series
    if arrays is not None:
        summary["arrays"] = [{**summary["arrays"][1], "published": arrays[0], "read_again": arrays[1]}]
    assert sentence in lines(summary)


def test_memory_that_is_tight() -> None:
    where = {**summaries.summary()["where"], "wait_memory_s": 18.0, "wait_reads_s": 45.0}
    assert (
        "Threads had nothing to do for 18.0 s while pages waited for memory: the limit of 128.0 MiB is tight for what is under way "
        "at a time." in lines(changed(where=where))
    )


def test_a_run_without_worker_threads() -> None:
    said = verdict(summaries.converted())
    # 6 and 3 of 12 s
    assert said.lines == [
        "The run took 12.0 s, without worker threads: reading 6.0 s and writing 3.0 s.",
        "The log has no reads.",
    ]
    assert [(part.what, part.share) for part in said.where] == [
        ("reading", 0.5), ("writing", 0.25), ("nothing that has a name", 0.25),
    ]  # fmt: skip
    silent = {**summaries.converted(), "where": summaries.empty()["where"], "threads": []}
    assert "no thread told what it did" in lines(silent)[0]


def test_worker_threads_that_were_a_small_part_of_the_run() -> None:
    where = {
        **summaries.empty()["where"],
        "thread_s": 10.0,
        "compute_s": 9.0,
        "other_s": 1.0,
        "spans": {"draw": 30.0, "gather": 20.0},
    }
    said = lines(changed(where=where, advice=[]))
    assert said[:2] == [
        "The run took 45.0 s: draw 30.0 s and gather 20.0 s, some of it at the same time.",
        "Its 2 worker threads were at work for about 5.0 s of that: 90 % went into computing and 10 % into other work.",
    ]
    assert any(line.startswith("The worker threads were bound by computing, 90 % of their time:") for line in said)


def test_an_empty_log() -> None:
    said = verdict(summaries.empty())
    assert said.lines == ["The log holds nothing that took time.", "The log has no reads."] and said.where == []
    assert str(said).startswith("none.events\n")


# The page.


def test_the_page_needs_nothing_else(whole: str) -> None:
    parsed = self_contained(whole)
    text = " ".join(" ".join(parsed.text).split())
    assert parsed.tags.count("svg") == len(plots(summaries.summary())) == 14
    assert "Not shown" not in text
    for words in ("What run.events waited for", "farfield trace wing.zarr --kind pathline", "48,000 of 640,000 (8 %)"):
        assert words in text
    assert "var(--orange)" in whole and "prefers-color-scheme:dark" in whole
    # Shares of the bar above, to a hundredth of a percent.
    assert [float(w) for w in re.findall(r"width:([\d.]+)%;background", whole)] == [22.0, 68.0, 2.0, 6.0, 1.0, 1.0]


def test_the_same_summary_gives_the_same_bytes() -> None:
    summary = summaries.summary(steps=3, bins=40)
    drawn = [[svg(plot) for plot in plots(summary)[:3] if isinstance(plot, Plot)] for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("make", [summaries.empty, summaries.converted])
def test_what_has_no_data_is_left_out(make: Callable[[], summaries.Summary]) -> None:
    assert all(isinstance(plot, Missing) for plot in plots(make()))
    parsed = self_contained(page(make()))
    assert "svg" not in parsed.tags
    text = " ".join(parsed.text)
    assert "Not shown:" in text and "Page-fault history, Fault rate (no page faults)" in text


def test_names_cannot_do_harm() -> None:
    summary = summaries.summary(steps=1, zones=len(HOSTILE), bins=40)
    run = summary["run"]
    summary |= {"file": HOSTILE[0], "run": {**run, "command": [HOSTILE[2], *HOSTILE], "version": HOSTILE[0]}}
    for array in summary["arrays"]:
        array["name"] = array["zone"] = HOSTILE[int(array["zone"][4:]) - 1]
    summary["sources"] = [{"name": name, "reads": 1, "bytes": 10, "mean_us": 1.0} for name in HOSTILE]
    for n, name in enumerate(HOSTILE):
        summary["lifelines"]["tasks"][n]["name"] = name
        summary["lifelines"]["threads"].append({"name": name, "spans": [[21.5, 22.0, name]]})
        summary["where"]["spans"][name] = 1.0
    summary["advice"][0] |= {"change": HOSTILE[0], "why": HOSTILE[3]}
    parsed = self_contained(page(summary))
    assert 'alert("1")' in " ".join(parsed.text)
    assert HOSTILE[2] not in "".join(parsed.text)
    Page(verdict(summary)._repr_html_())


def test_a_run_of_thousands_of_steps_and_arrays(whole: str) -> None:
    summary = summaries.summary(steps=5_000, zones=200)
    summary["lifelines"]["readers"] = [[n % 128, 21.5 + n * 4e-4, 21.5 + n * 4e-4 + 0.02, 4096] for n in range(4_000)]
    spans = [[21.5 + n * 5e-4, 21.5 + n * 5e-4 + 2e-4, ("run", "wait")[n % 2]] for n in range(4_000)]
    summary["lifelines"]["tasks"] = [{"task": n, "name": f"task {n}", "spans": spans} for n in range(24)]
    text = page(summary)
    parsed = self_contained(text)
    assert len(text) < 2.5 * len(whole)
    assert "900 arrays" in " ".join(parsed.text)  # 1,200, of which a table shows 300


def test_a_run_of_an_instant() -> None:
    summary = summaries.summary(steps=1, bins=1)
    summary |= {"wall_s": 1e-6, "bins": {"width_s": 1e-4, "count": 1}}
    for key in ("latency", "waiting"):
        summary[key] = {
            **summary[key],
            "all": {**summaries.distribution(1, 0.0)},
            "seconds": [],
            "histogram": [[0, 1, 1]],
        }
    found = [
        plot
        for plot in plots(summary)
        if isinstance(plot, Plot) and plot.name in ("history", "rate", "memory", "latency", "use")
    ]
    assert len(found) == 5 and all("<svg" in svg(plot) for plot in found)


def test_the_sheet_of_figures_is_a_picture() -> None:
    summary = summaries.summary(steps=3, bins=40)
    found = [plot for plot in plots(summary) if isinstance(plot, Plot)][:4]
    content = png(found, "run.events " * 40, verdict(summary).lines)
    width, height = struct.unpack(">II", content[16:24])
    assert content[:8] == b"\x89PNG\r\n\x1a\n" and 1200 <= width <= 1500 and height > 1000


# Files and the command.


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log whose summary is that of a conversion, which has no figures: they are tested above and take their time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "_summary", lambda events, progress: {**summaries.converted(), "file": str(events)})
    path = tmp_path / "run.events"
    path.write_bytes(b"events")
    return path


def test_a_report_is_written(log: Path) -> None:
    result = report.report(log)
    assert result["output"] == str(log) + ".html" and result["png"] is None and result["wall_s"] == 12.0
    assert result["verdict"][0].startswith("The run took 12.0 s") and result["where"][0] == {
        "what": "reading", "seconds": 6.0, "share": 0.5,
    }  # fmt: skip
    self_contained(Path(result["output"]).read_text())
    assert sorted(p.name for p in log.parent.iterdir()) == ["run.events", "run.events.html"]


def test_the_command_says_the_verdict(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", "run.events", "-o", "r.html", "--png", "r.png"]) == 0
    out = capsys.readouterr().out
    assert "The run took 12.0 s" in out and out.rstrip().endswith("wrote r.html, r.png")
    assert cli.run(["report", "run.events", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["output"] == "run.events.html" and found["advice"] == [] and Path("r.png").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-o", "r.pdf"], "end the name in this"),
        (["-o", "r.html", "--png", "r.jpg"], "end the name in this"),
        (["-o", "none/r.html"], "there is no folder none"),
        (["-o", "link.html"], "is an input of this run"),
    ],
)
def test_outputs_that_cannot_be(log: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.html").symlink_to(log)
    assert cli.run(["report", "run.events", *words]) == 2
    assert says in capsys.readouterr().err and log.read_bytes() == b"events"


def test_an_older_report_stays_until_the_new_one_is_whole(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = log.with_name("r.html")
    old.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(DataError, match="No space left on device; name another output"):
        report.report(log, old)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    with pytest.raises(AccessError):
        report.report(log, old)
    assert old.read_text() == "old" and sorted(p.name for p in log.parent.iterdir()) == ["r.html", "run.events"]
    monkeypatch.undo()


def test_a_report_can_be_cancelled(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_summary", lambda events, progress: summaries.summary(steps=1, bins=10))
    with pytest.raises(Interrupted):
        report.report(log, progress=lambda phase, done, total: phase != "drawing")
    assert [p.name for p in log.parent.iterdir()] == ["run.events"]


def test_the_report_of_a_real_run(flow: str, ff: Command, tmp_path: Path) -> None:
    log = tmp_path / "run.events"
    ff("trace", flow, "--seeds", "random:200:1", "-o", tmp_path / "l.npz", "--events", log, "--workers", 2)
    said, result = report.write(log, tmp_path / "r.html", progress=False)
    parsed = self_contained((tmp_path / "r.html").read_text())
    assert "Page-fault history" in " ".join(parsed.text) and "2 worker threads" in " ".join(said.lines)
    assert sum(part["share"] for part in result["where"]) == pytest.approx(1.0)
    assert report.explain(log).lines == said.lines
    with pytest.raises(UsageError):
        report.report(log, tmp_path / "r.txt")
    (tmp_path / "no.events").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError):
        report.explain(tmp_path / "no.events")
