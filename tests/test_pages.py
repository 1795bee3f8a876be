"""The examples of README.md and docs/*.md do what the pages say, on files of the names that they use.

Every fenced block counts. `sh` blocks are command lines, which run in this process; `python` blocks share the names of their page;
a `text` block is what the block before it prints, where `...` stands for anything. A comment of HTML on the line before a block
says what else is to be done with it: `<!-- file: NAME -->` writes it to a file, `<!-- not run: REASON -->` passes it over.
`# exit code N` behind a command says how it ends, `# exit code N or M` where that depends on the machine.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import page_files
from farfield import cli
from farfield.runtime.settings import REPLACEMENT

ROOT = Path(__file__).resolve().parent.parent
PAGES = {p.relative_to(ROOT).as_posix(): p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
MADE = ("docs/benchmarks.md",)
"""Pages that are made elsewhere; the rest are written by hand, or of the parser."""
EXECUTED = [name for name in PAGES if name not in MADE]


@dataclass
class Told:
    """What became of a page: its folder, the names of its Python, and what each of its commands printed."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    passed_over: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def tell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    """Runs a page from its beginning to its end, once."""
    files = tmp_path_factory.mktemp("files")
    page_files.make(files)

    @cache
    def told(name: str) -> Told:
        folder = tmp_path_factory.mktemp(Path(name).stem) / "here"
        shutil.copytree(files, folder)
        here = Told(folder)
        with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
            patch.setenv("FARFIELD_SIZE", "320x180")  # what pictures of full size show, sooner
            _run(name, here)
        return here

    return told


def _run(name: str, told: Told) -> None:
    """Runs the blocks of a page in the working folder."""
    printed = ""
    for block in page_files.blocks(PAGES[name]):
        where = f"{name}:{block.line}"
        what, _, rest = block.comment.partition(": ")
        if what == "not run":
            assert rest, f"{where}: say why it is not run"
            told.passed_over.append(where)
        elif what == "file":
            Path(rest).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            printed = "".join(_command(f"{name}:{n}", line, told) for n, line in page_files.commands(block))
        elif block.language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), told.names)
            printed = out.getvalue()
        elif block.language == "text":
            _is_printed(where, block.text, printed)
        else:
            raise AssertionError(f"{where}: a block in '{block.language}' is neither run nor written to a file")


def _command(where: str, line: str, told: Told) -> str:
    """Runs one command line in this process; what it prints."""
    program, *words = shlex.split(line, comments=True)
    assert program == "farfield", f"{where}: '{program}' is not run here; mark the block"
    ends = {int(n) for n in re.findall(r"\d+", line.partition("# exit code ")[2])} or {0}
    lacks_ffmpeg = any(word.endswith(".mp4") for word in words) and shutil.which("ffmpeg") is None
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(words)
    if lacks_ffmpeg:
        assert code == 2 and "ffmpeg" in err.getvalue(), where
        return ""
    assert code in ends, f"{where}: exit code {code} of {line}\n{err.getvalue()}"
    assert "Traceback" not in err.getvalue() and "panicked" not in err.getvalue(), f"{where}: {err.getvalue()}"
    told.printed[" ".join(words)] = out.getvalue()
    return out.getvalue() + err.getvalue()


def _is_printed(where: str, expected: str, printed: str) -> None:
    """Each line of a page's output is one that was printed, in that order."""
    lines = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in filter(None, (" ".join(line.split()) for line in expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        assert any(pattern.fullmatch(found) for found in lines), f"{where}: '{line}' is not printed:\n{printed}"


@pytest.mark.parametrize("name", EXECUTED)
def test_examples(name: str, tell: Callable[[str], Told]) -> None:
    tell(name)


def test_few_examples_are_passed_over(tell: Callable[[str], Told]) -> None:
    assert sum(len(tell(name).passed_over) for name in EXECUTED) <= 5


def test_python(tell: Callable[[str], Told]) -> None:
    here = tell("docs/python.md")
    said = here.names
    assert said["ds"].stats()["limit_bytes"] == 2 << 30
    assert len(said["lines"]) == 50 and len(said["lines"]["density"]) == len(said["lines"].points) > 50
    assert (here.folder / "lines.vtp").stat().st_size > 1000
    assert len(said["paths"]) == 50 and said["paths"].time.max() == 2.0
    picture = (here.folder / "wing.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert np.shape(said["ds"].zones["zone2"]["pressure"][:, 5, 10:20]) == (7, 10)
    assert (here.folder / "map.zarr" / "residence_time" / "zarr.json").exists()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("README.md", "lines.vtp paths.vtp wing.png bone.ply rake.vtp"),
        ("docs/flows.md", "lines.vtp body.vtp vortices.ply cut.vtp cut.png cores.vtp wing.zarr few.zarr"),
        ("docs/time.md", "paths.vtp fronts.pvd smoke.pvd run.state flow.zarr map.zarr/residence_time/zarr.json"),
        ("docs/volumes.md", "scan.png bone.ply cut.png axial.tif axial.npy scan.zarr fog.png wind.vtp"),
        ("docs/pictures-and-scenes.md", "wing.png scene.json first.json by-hand.png around_0003.png"),
        ("docs/events-and-reports.md", "run.events report.html report.png run.json run.parquet curves.png"),
    ],
)
def test_examples_write_their_files(name: str, files: str, tell: Callable[[str], Told]) -> None:
    here = tell(name)
    assert [file for file in files.split() if not (here.folder / file).exists()] == []


def test_pictures_of_time_steps(tell: Callable[[str], Told]) -> None:
    here = tell("docs/pictures-and-scenes.md")
    (resumed,) = [out for words, out in here.printed.items() if "--resume" in words]
    # "keeps those that are there": all of them, for the scene has the time steps, the camera and the ranges.
    assert "2 were there" in resumed and "redrawn" not in resumed, resumed
    assert sorted(p.name for p in here.folder.glob("wing_*.png")) == [f"wing_{n:04}.png" for n in (0, 2)]


def _help(command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.run([*command.split(), "--help"]) == 0
    return out.getvalue()


def test_options_of_every_run() -> None:
    """The page of memory names the commands that have --replacement; what it says of every run holds for the others too."""
    text = PAGES["docs/memory-and-performance.md"].read_text(encoding="utf-8")
    (everywhere,) = re.findall(r"Every run that reads data takes these options:\n\n(.*?)\n\n", text, re.DOTALL)
    (paging,) = re.findall(r"\n(`info`.*may come back to a page\.\n.*`--replacement .*)\n", text)
    assert "--memory-limit" in everywhere and f"--replacement {'|'.join(REPLACEMENT)}`" in paging
    for command in (
        "info",
        "convert",
        "validate",
        "probe",
        "trace",
        "extract grid-surface",
        "flowmap",
        "render",
        "scene",
    ):
        said = _help(command)
        for option in re.findall(r"\| `(--[a-z-]+)", everywhere):
            assert option in said, (command, option)
        assert ("--replacement" in said) == (f"`{command.split()[0]}`" in paging), command


def test_command_line_page() -> None:
    from farfield.cli.page import WRITE, page

    assert PAGES["docs/command-line.md"].read_text(encoding="utf-8") == page(), (
        f"docs/command-line.md is not what the parser says; this writes it anew: {WRITE}"
    )


def test_options_are_on_the_pages_of_their_topics() -> None:
    """Every option of the parser is on a page that is written by hand."""
    by_hand = "\n".join(PAGES[name].read_text(encoding="utf-8") for name in EXECUTED if name != "docs/command-line.md")
    known = re.findall(
        r"^\| `(--[a-z0-9-]+|-., --[a-z0-9-]+)", PAGES["docs/command-line.md"].read_text("utf-8"), re.MULTILINE
    )
    missing = {flag.split()[-1] for flag in known} - set(re.findall(r"--[a-z0-9-]+", by_hand))
    assert sorted(missing - IN_SHORT) == []


IN_SHORT = {"--output", "--verbose", "--quiet"}
"""The pages call them -o, -v and -q."""


def _anchors(text: str) -> set[str]:
    """Where links into a page may go, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [*EXECUTED, "ARCHITECTURE.md"])
def test_links(name: str) -> None:
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in _anchors(there.read_text(encoding="utf-8")), f"{name}: {target}"


def test_the_first_page_is_short() -> None:
    assert len(PAGES["README.md"].read_text(encoding="utf-8").splitlines()) <= 110
