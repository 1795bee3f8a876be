"""The experiments after papers, on small data; what a result says of arms that were stopped and of what is not there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from farfield.errors import AccessError, DataError
from farfield_bench import Recorder, arms, cli, kin, readers, registry, rights
from farfield_bench.compare import compare, lines
from farfield_bench.papers import Paper
from farfield_bench.report import report
from farfield_bench.result import Result, read_result, write_result


@pytest.fixture(autouse=True)
def quick_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))  # which the experiments set as well
    monkeypatch.setattr(arms, "_most_ready", 0)


def measured(name: str, work: Path) -> Result:
    experiment = registry.find(name)
    recorder = Recorder(name, experiment.title, about=experiment.about, runs=1, quick=True, work=work)
    experiment.measure(recorder)
    result = recorder.result()
    # How long a real server takes depends on what else runs here.
    timed = ("page server", "network memory")
    held = [claim for claim in result.claims if claim.right or not any(arm in claim.text for arm in timed)]
    assert held and all(claim.holds for claim in held), held
    return result


def no_cgroup() -> rights.Right:
    return rights.Right("memory cgroup", False, "no rights in this test")


def test_paging_is_measured_by_all_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = kin.kin
    monkeypatch.setattr(
        "farfield_bench.suites.paging_1997.kin", lambda recorder: (k for k in every(recorder) if k.name == "cylinder")
    )
    monkeypatch.setattr(kin, "_steady", lambda *_: kin.Kin("", "", "", None, "", {}, []))  # type: ignore[arg-type]
    monkeypatch.setattr(kin.data, "single", lambda *_, **__: None)
    monkeypatch.setattr(rights, "_make_swap", lambda *_: "no swap in this test")
    result = measured("paging-1997", tmp_path)
    names = [arm.name for arm in result.arms]
    conditions = {c.what: c.here for c in result.conditions}
    assert not conditions["a second machine"] and not conditions["the real tapered cylinder"]
    assert {f"tapered cylinder, 1/4: {where}, cubed 16" for where in ("remote", "server")} <= set(names)
    if conditions["memory cgroup"]:
        assert "tapered cylinder, 1/4: mmap" in names and "tapered cylinder, all: in place" in names
    assert ("tapered cylinder, all: load everything" in names) == (
        conditions["memory cgroup"] and conditions["swap space"]
    )
    page = next(arm for arm in result.arms if arm.name == "tapered cylinder, all: remote, cubed 16").settings["page"]
    assert "13 x 16 x 16, 13,312 B a component" in page
    shares = next(table for table in result.tables if table.title.startswith("Pages of 16 points touched")).rows[0]
    assert all(0 < float(share) < 100 for share in shares[1:])
    assert any("Beside Cox and Ellsworth" in table.title for table in result.tables)


def test_without_a_cgroup_arms_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = registry.find("network-memory-2003").measure.__globals__
    monkeypatch.setitem(module, "FAULTS", {"0.3 ms": 0.3e-3, "11.6 ms": 1e-3})
    monkeypatch.setattr(rights, "memory_cgroup", no_cgroup)
    result = measured("network-memory-2003", tmp_path)
    assert not any("local disk" in arm.name for arm in result.arms)
    assert any(
        c.what == "memory cgroup" and not c.here and c.why == "no rights in this test" for c in result.conditions
    )
    assert any("memory cgroup (no rights in this test)" in note for note in result.notes)
    assert all(arm.settings["cgroup"] == "no" for arm in result.arms if "ms" in arm.name)


def test_threads_and_overlap_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = registry.find("threads-2001").measure.__globals__
    monkeypatch.setitem(threads, "LATENCY_S", 0.0005)
    monkeypatch.setattr(threads["common"], "SMALL", (49, 49, 33))
    result = measured("threads-2001", tmp_path)
    reads = {arm.name: arm.median["reads"] for arm in result.arms}
    assert reads["disk: serial"] == reads["5 ms: serial"] > 0 and reads["resident, 1 core: 1 tasks"] == 0
    assert reads["server: serial"] > 0 and reads["server, 1 core: 64 tasks a core"] > 0
    assert {arm.median["read_bytes"] for arm in result.arms if "resident" not in arm.name} != {0}
    overlap = registry.find("overlap-2000").measure.__globals__
    monkeypatch.setitem(overlap, "DEVICES", {"disk": (None, 16)})
    result = measured("overlap-2000", tmp_path)
    formulas = next(table for table in result.tables if table.title == "Beside the formulas")
    for _, n, load, compute, _, in_turn, _, at_once, _ in formulas.rows:
        assert n == 10
        assert in_turn == pytest.approx(10 * (float(load) + float(compute)))
        assert at_once == pytest.approx(10 * max(float(load), float(compute)) + min(float(load), float(compute)))


def test_peers_that_are_not_there_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "PARCELS", tmp_path / "none")
    monkeypatch.setattr(readers, "LIBRARIES", {"h5py": ("h5py_pages", {}), "nobody": ("no_such_reader", {})})
    result = measured("peers", tmp_path)
    here = {c.what: c.here for c in result.conditions}
    assert not here["Parcels"] and not here["nobody"] and here["h5py"]
    assert not any("nobody" in arm.name for arm in result.arms)
    assert {"a box: mmap, cold", "random pages: h5py, warm", "lines: Farfield"} <= {arm.name for arm in result.arms}


def stopped() -> Recorder:
    recorder = Recorder("example", "An example", runs=1)
    recorder.run("paged", wall_s=1.0, peak_bytes=2**20)
    recorder.run("paged", wall_s=1.2, peak_bytes=2**20)
    recorder.stop("everything", "over", "over 10x", after_s=11.0, settings={"memory": "1 MiB"})
    recorder.condition("swap space", False, "needs root")
    recorder.condition("memory cgroup", True)
    recorder.version("vtk", "9.5")
    return recorder


def test_stopped_arms_versions_and_conditions_are_kept(tmp_path: Path) -> None:
    recorder = stopped()
    assert recorder.stopped("everything") and not recorder.stopped("paged")
    assert recorder.measured("paged", "wall_s") and not recorder.measured("everything", "wall_s")
    result = recorder.result()
    path = write_result(result, tmp_path)
    assert read_result(path) == result
    assert result.versions["vtk"] == "9.5" and {"farfield", "python", "numpy", "linux"} <= set(result.versions)
    page = report([result])
    for words in (
        "| everything | 1 MiB | **over 10x**, after 11 s |",
        "| swap space | **no** | needs root |",
        "vtk 9.5",
    ):
        assert words in page, words
    # Results that are older than these fields are read as they were.
    old = json.loads(path.read_text())
    del old["versions"], old["conditions"]
    for arm in old["arms"]:
        del arm["stop"]
    path.write_text(json.dumps(old))
    assert read_result(path).conditions == []


def test_two_results_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = stopped(), stopped()
    second.run("paged", wall_s=2.4, peak_bytes=2**20)
    second.run("paged", wall_s=2.4, peak_bytes=2**20)
    second.run("new", wall_s=1.0)
    second.condition("swap space", True)
    second.version("vtk", "9.6")
    found = compare(first.result(), second.result())
    wall = next(pair for pair in found.pairs if pair.quantity == "wall_s")
    assert (wall.arm, wall.first, wall.second) == ("paged", 1.1, pytest.approx(1.8))
    assert wall.ratio == pytest.approx(1.8 / 1.1) and wall.apart is False  # 1.4 from smallest to largest
    assert found.only_first == ["everything (over 10x)"] and found.only_second == ["everything (over 10x)", "new"]
    assert "the version of vtk differs: 9.5, 9.6" in found.warnings
    assert "a condition differs: swap space: not here, here" in found.warnings
    assert any("~1.64" in line for line in lines(found, ("a", "b")))
    paths = []
    for name, recorder in (("a", first), ("b", second)):
        paths.append(str(write_result(recorder.result(), tmp_path / name)))
    assert cli.run(["compare", *paths]) == 0
    out = capsys.readouterr().out
    assert "warning: the version of vtk differs" in out and "only in B: new" in out
    assert cli.run(["compare", *paths, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pairs"][0]["ratio"] == pytest.approx(1.8 / 1.1) and said["only_second"][-1] == "new"
    (tmp_path / "no.json").write_text("{}")
    assert cli.run(["compare", paths[0], str(tmp_path / "no.json")]) == 1
    assert "not a benchmark result" in capsys.readouterr().err


def test_equal_results_give_no_warning() -> None:
    result = stopped().result()
    assert compare(result, result).warnings == []
    other = result.model_copy(update={"machine": result.machine.model_copy(update={"cores": 77}), "quick": True})
    warnings = compare(result, other).warnings
    assert len(warnings) == 2 and "the machine's cores differs" in warnings[1] and "quick" in warnings[0]


def test_an_arm_is_marked_by_how_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from farfield_bench.suites import paging_1997

    one = kin.Kin("x", "set", "", None, "", {}, [])  # type: ignore[arg-type]
    way = paging_1997._Way("mmap", {"arm": "mmap"}, [], paged=False)
    recorder = Recorder("x", "x", work=tmp_path)
    of_set = paging_1997._Set(recorder, one, [way], tmp_path, True)

    def ends(**how: Any) -> None:
        done = {"cpu_s": 0.0, "resident_peak_bytes": 0, "read_bytes": 0, "stdout": "", "stderr": "", **how}
        monkeypatch.setattr(arms, "run", lambda *_, **__: arms.Run(**done))

    for arm, text, how in (
        ("late", "over 10x", {"code": -9, "wall_s": 10.1}),
        ("large", "killed by its memory limit", {"code": -9, "wall_s": 3.0}),
        (
            "none",
            "the limit is too small for it",
            {"code": 1, "wall_s": 1.0, "stderr": "the memory limit ... is too small"},
        ),
    ):
        ends(**how)
        assert of_set._once(way, arm, 4, 1 << 20, timeout_s=10.0, first=1.0) is None
        stop = next(a.stop for a in recorder.result().arms if a.name == arm)
        assert stop is not None and stop.text == text
    ends(code=1, wall_s=1.0, stderr="something else")
    with pytest.raises(DataError, match="something else"):
        of_set._once(way, "failed", 4, 1 << 20, timeout_s=10.0, first=1.0)


def test_rights_say_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AccessError("cannot make a memory cgroup; run as root")

    monkeypatch.setattr(arms, "memory_group", refused)
    assert rights.memory_cgroup() == rights.Right("memory cgroup", False, "cannot make a memory cgroup; run as root")
    monkeypatch.setattr(rights, "DROP_CACHES", tmp_path / "none")
    assert "there is no" in rights.drop_caches().why
    assert rights.eviction(tmp_path).what and not (tmp_path / ".evict-probe").exists()
    swaps = tmp_path / "swaps"
    monkeypatch.setattr(rights, "SWAPS", swaps)
    with rights.swap(tmp_path, 1 << 20) as right:
        assert not right.here and right.why == "this kernel has none"
    swaps.write_text("Filename Type Size Used Priority\n/dev/x partition 2048 0 -2\n")
    with rights.swap(tmp_path, 1 << 20) as right:
        assert right.here and "2.0 MiB" in right.why
    swaps.write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr(rights.os, "geteuid", lambda: 1000)
    with rights.swap(tmp_path, 1 << 20) as right:
        assert not right.here and "needs root" in right.why
    monkeypatch.setattr(rights.os, "geteuid", lambda: 0)
    monkeypatch.setattr(rights.shutil, "which", lambda tool: tool)
    fails = subprocess.CompletedProcess([], 1, "", "not permitted")
    monkeypatch.setattr(rights.subprocess, "run", lambda *_, **__: fails)
    with rights.swap(tmp_path, 1 << 20) as right:
        assert not right.here and "mkswap fails: not permitted" in right.why
    assert not (tmp_path / "swap-space").exists()


def test_a_paper_is_agreed_with_by_numbers() -> None:
    recorder = Recorder("x", "x")
    paper = Paper("A. Nobody")
    assert paper.ratio("twice", 2.0, 1.5) and not paper.ratio("more", 9.0, 3.0)
    assert paper.span("between", 5.0, 2.0, 17.0) and not paper.span("below", 1.0, 2.0, 17.0)
    assert paper.side("faster", 3.0, 1.2) and not paper.side("slower", 0.9, 1.2)
    paper.missing("stopped", "12", "see the arm")
    paper.record(recorder)
    result = recorder.result()
    assert [row[-1] for row in result.tables[0].rows] == [
        "agrees", "more here", "agrees", "less here", "the same way", "the other way", "see the arm",
    ]  # fmt: skip
    assert result.notes == [
        "Agrees with A. Nobody: twice; between; faster; does not: more (9 here, 3 there); below (1 here, 2 to 17 there); "
        "slower (0.9 here, 1.2 there)."
    ]
