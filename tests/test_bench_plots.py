"""The plots of docs/benchmarks.md: what they draw of a result, and their files."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from farfield.errors import DataError
from farfield.report.plots import style
from farfield_bench import Recorder, cli, load
from farfield_bench.drawing import figure, svg
from farfield_bench.plots import CLAIMS, Spec, bounds, levels, points, write
from farfield_bench.plotted import PLOTS
from farfield_bench.report import report
from farfield_bench.result import Result, read_results, write_result

DOCS = Path(__file__).resolve().parent.parent / "docs"
KEPT = {result.name: result for result in read_results(DOCS / "benchmarks")}
BARS = Spec("Bars", {"arm": "(?P<x>.*): (?P<series>.*)"}, {"wall_s": "wall time [s]"}, bound="a bound")


def recorded(name: str = "example") -> Result:
    recorder = Recorder(name, "An example", runs=3)
    for seconds in (1.0, 3.0, 1.5):
        recorder.run("1/4: paged", wall_s=seconds, read_bytes=5 * 2**20, slow_s=9.0)
        recorder.run("1/16: paged", wall_s=2 * seconds, read_bytes=7 * 2**20)
    recorder.stop("1/16: mmap", "over", "over 10x", after_s=30.0)
    recorder.stop("1/4: everything", "killed", "killed by its memory limit")
    recorder.claim("a bound", 1.0, "<=", 8.0, unit="s")
    recorder.table("Errors by step", ["step", "rk4", "euler"], [["1/2", 1e-3, 0.1], ["1/4", 1e-5, ""]])
    return recorder.result()


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_finds_its_data(name: str) -> None:
    """In the results that are kept: a column or an arm that is renamed must not lose its plot unseen."""
    assert name in load()
    if name not in KEPT:
        pytest.skip("no result of it is kept")
    for spec in PLOTS[name]:
        assert points(spec, KEPT[name]), spec.title
        assert not spec.bound or bounds(spec, KEPT[name]), spec.title
        assert not spec.level or levels(spec, KEPT[name]), spec.title
        for label in spec.y.values() if len(spec.y) > 1 else ():
            found = {label in (p.series, p.panel, p.x) for p in points(spec, KEPT[name])}
            assert True in found, (spec.title, label)


def test_every_kept_result_has_a_plot_and_the_page_shows_it() -> None:
    assert set(KEPT) <= set(PLOTS)
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page)
    files = {f"benchmarks/plots/{path.name}" for path in (DOCS / "benchmarks" / "plots").iterdir()}
    assert len(shown) == len(set(shown)) and set(shown) == files
    assert all((DOCS / path).stat().st_size < 150_000 for path in shown)


def test_bars_are_as_long_as_the_medians_say() -> None:
    result = KEPT["incore"]
    spec = PLOTS["incore"][0]
    medians = {arm.name: arm.median["step_us"] for arm in result.arms}
    with style("x"):
        drawn = figure(spec, result)
    assert drawn is not None
    # Panels beside each other have the names once.
    names = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert len(drawn.axes) == 2 and len(names) == 3
    for axes in drawn.axes:
        widths = [patch.get_width() for patch in axes.patches]  # type: ignore[attr-defined]
        assert dict(zip(names, widths, strict=True)) == {
            name: medians[f"{name}, {axes.get_title(loc='left')}"] for name in names
        }


def test_points_are_medians_between_the_smallest_and_the_largest() -> None:
    found = {(p.x, p.series): p for p in points(BARS, recorded())}
    assert (found["1/4", "paged"].low, found["1/4", "paged"].y, found["1/4", "paged"].high) == (1.0, 1.5, 3.0)
    late, killed = found["1/16", "mmap"], found["1/4", "everything"]
    assert late.y == 30.0 and late.stop is not None and late.stop.text == "over 10x"
    assert killed.y != killed.y and killed.stop is not None
    sizes = Spec("Bytes", {"arm": "(?P<x>.*): paged"}, {"read_bytes": "read [MiB]"})
    assert [p.y for p in points(sizes, recorded())] == [5.0, 7.0]
    assert bounds(BARS, recorded()) == [(8.0, "bound: at most 8 s")]


def test_tables_and_claims_are_drawn_as_well() -> None:
    table = Spec("Errors", {"step": "(?P<x>.*)"}, {"rk4": "rk4", "euler": "euler"}, table="Errors by")
    assert [(p.x, p.series, p.y) for p in points(table, recorded())] == [
        ("1/2", "rk4", 1e-3), ("1/2", "euler", 0.1), ("1/4", "rk4", 1e-5),
    ]  # fmt: skip
    across = Spec("Errors", {"step": "(?P<series>.*)"}, {"rk4": "rk4", "euler": "euler"}, table="Errors by", each="x")
    assert [(p.x, p.series) for p in points(across, recorded())][:2] == [("rk4", "1/2"), ("euler", "1/2")]
    assert [p.y for p in points(Spec("Claims", {"text": ".*"}, {"value": "v"}, table=CLAIMS), recorded())] == [1.0]


@pytest.mark.parametrize("kind", ["bars", "dots", "marks", "lines", "points"])
def test_what_was_stopped_is_said(kind: str) -> None:
    spec = Spec("Stopped", BARS.rows, BARS.y, kind=kind, log="" if kind == "bars" else "y")  # type: ignore[arg-type]
    text = svg(spec, recorded(), "x")
    assert text is not None and "over 10x" in text and "killed by its memory limit" in text


def test_a_plot_without_data_is_left_out() -> None:
    for rows, y in (
        ({"arm": "nothing"}, {"wall_s": "s"}),
        ({"no": ".*"}, {"wall_s": "s"}),
        ({"arm": ".*"}, {"no": "s"}),
    ):
        assert svg(Spec("None", rows, y), recorded(), "x") is None
    assert svg(Spec("Stopped alone", {"arm": ".*mmap"}, {"wall_s": "s"}), recorded(), "x") is None
    missing = Spec("A level that is not there", {"arm": ".*paged"}, {"wall_s": "s"}, level={"arm": "serial"})
    assert svg(missing, recorded(), "x") is not None


def test_the_same_results_give_the_same_files_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLOTS, "example", [BARS, Spec("None", {"arm": "nothing"}, {"wall_s": "s"})])
    write_result(recorded(), tmp_path / "results")
    folder = tmp_path / "page" / "plots"
    folder.mkdir(parents=True)
    for name in ("tax-7.svg", "example-2.svg", "not-ours-1.svg", "drawn by hand.svg", "notes.txt"):
        (folder / name).write_text("old")
    command = ["report", "-q", "--results", str(tmp_path / "results"), "-o", str(tmp_path / "page.md")]
    written = []
    for _ in range(2):
        assert cli.run(command) == 0
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {"example-1.svg", "not-ours-1.svg", "drawn by hand.svg", "notes.txt"}
    page = (tmp_path / "page.md").read_text()
    assert "![Bars: wall time (s)](page/plots/example-1.svg)" in page
    assert page.index("example-1.svg") < page.index("| must hold")
    assert b"<dc:date>" not in written[0]["example-1.svg"]


def test_a_page_that_cannot_be_written_keeps_its_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLOTS, "example", [BARS])
    write_result(recorded(), tmp_path / "results")
    folder = tmp_path / "my page" / "plots"
    folder.mkdir(parents=True)
    (folder / "example-2.svg").write_text("old")
    target = tmp_path / "my page.md"
    target.mkdir()
    command = ["report", "-q", "--results", str(tmp_path / "results"), "-o", str(target)]
    assert cli.run(command) == 1
    assert {path.name for path in folder.iterdir()} == {"example-1.svg", "example-2.svg"}
    target.rmdir()
    assert cli.run(command) == 0
    assert {path.name for path in folder.iterdir()} == {"example-1.svg"}
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", target.read_text())
    assert shown == ["my%20page/plots/example-1.svg"] and (tmp_path / unquote(shown[0])).exists()


def test_runs_under_each_policy_are_read_off_by_run() -> None:
    """Policies alone: marks of the default with what the executor knows would hide its own."""
    recorder = Recorder("policies", "Replacement")
    columns = ["run", "memory, of what is touched", "policy", "misses", "of them again", "over the optimum"]
    policies = ("clock", "lru", "clock + executor", "clock + waiting", "optimum")
    recorder.table(
        "Misses",
        columns,
        [
            [f"{run}, memory for {within}", share, policy, 2, 1, 2.0]
            for run in ("streamlines, a rake", "pathlines")
            for within, share in (("all", "1/4"), ("all", "1/16"), ("1/4", "1/4"), ("1/16", "1/16"))
            for policy in policies
        ],
    )
    for spec in PLOTS["policies"][1:]:
        found = points(spec, recorder.result())
        assert {p.x for p in found} == {"streamlines, a rake", "pathlines"} and len(found) == 8
        assert {p.series for p in found} == {"clock", "lru"} and len({p.panel for p in found}) == 2


def test_without_plots_the_page_is_as_before(tmp_path: Path) -> None:
    assert write([recorded("unknown")], tmp_path / "page.md") == {} and not (tmp_path / "page").exists()
    assert "![" not in report([recorded("unknown")])
    (tmp_path / "full").write_text("")
    with pytest.raises(DataError, match="cannot write the plots"):
        write([KEPT["tax"]], tmp_path / "full" / "page.md")
