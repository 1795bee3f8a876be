"""What a run waited for: reports from the log that `--events` writes.

`explain` says it in sentences and numbers, `report` writes a page of HTML, with figures, and a picture of all figures. The log is
summed up by the extension, in bounded memory; figures are Matplotlib's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from farfield import _core
from farfield.errors import Interrupted
from farfield.report.figures import plots
from farfield.report.page import page
from farfield.report.plots import Plot, png, svg
from farfield.report.replays import log_named, unsound
from farfield.report.verdict import verdict
from farfield.results import outputs
from farfield.results.image_files import PNG
from farfield.runtime.progress import Report, reporting

if TYPE_CHECKING:
    from farfield.report.verdict import Verdict

Path = str | os.PathLike[str]
PAGES = (".html",)

__all__ = ["PAGES", "default_output", "explain", "report", "write"]


def default_output(events: Path) -> str:
    """The name of a log's report where none is given. Nothing else has it: the log's own ending stays in it.

    >>> default_output("run.events")
    'run.events.html'
    """
    return os.fspath(events) + ".html"


def explain(events: Path | Mapping[str, Any], progress: bool | Report | None = None) -> Verdict:
    """What a run waited for, and what would help: printed, it is text; in a notebook it is a small table.

    Args:
        events: The log that `--events` wrote, in any of its forms, or what the extension's `summarise` made of it.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the log cannot be read.
        Interrupted: if `progress` says so.
    """
    return verdict(events if isinstance(events, Mapping) else _summary(events, progress))


def report(
    events: Path, output: Path | None = None, png: Path | None = None, progress: bool | Report | None = None
) -> dict[str, Any]:
    """Writes a page about a run: what waited for what, and what would help; returns what `farfield report --json` prints.

    Args:
        events: The log that `--events` wrote, in any of its forms.
        output: The page, such as `"run.html"`; None for the log's name with `.html` behind it. It needs neither other files nor
            a network.
        png: A picture of all figures, if one is wanted.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the log cannot be read, or an output cannot be written.
        UsageError: if an output's name ends otherwise, or it is the log itself.
        Interrupted: if `progress` says so.
    """
    return write(events, output, png, progress)[1]


def write(
    events: Path, output: Path | None = None, png: Path | None = None, progress: bool | Report | None = None
) -> tuple[Verdict, dict[str, Any]]:
    """`report`, and the verdict beside what it returns.

    Raises:
        FarfieldError: as `report` does.
    """
    target = outputs.output_path(default_output(events) if output is None else output, PAGES, "reports")
    picture = None if png is None else outputs.output_path(png, PNG, "pictures")
    outputs.check([target, picture], [events])
    with reporting(progress) as told:
        return _write(events, _summary(events, told or False), target, picture, told)


def _summary(events: Path, progress: bool | Report | None) -> dict[str, Any]:

    with reporting(progress) as told, log_named(events):
        found: dict[str, Any] = json.loads(_core.summarise(os.fspath(events), progress=told))
    return found


def _write(
    events: Path, summary: Mapping[str, Any], target: str, picture: str | None, told: Report | None
) -> tuple[Verdict, dict[str, Any]]:

    said = verdict(summary)
    found = [plot for plot in plots(summary) if isinstance(plot, Plot)]
    # The sheet takes about as long as all figures one by one.
    work = len(found) * (2 if picture else 1)
    figures = []
    for n, plot in enumerate(found):
        _tell(told, n, work)
        figures.append((plot, svg(plot)))
    _tell(told, len(found), work)
    files = {target: page(summary, said, figures).encode("utf-8", "replace")}
    if picture is not None:
        files[picture] = png(found, said.title, said.lines)
    for name, content in files.items():
        with outputs.replacing(name) as file:
            file.write(content)
    return said, {
        "output": target,
        "png": picture,
        "verdict": said.lines,
        "where": [part.as_dict() for part in said.where],
        "phases": [part.as_dict() for part in said.phases],
        "advice": said.advice,
        "wall_s": summary["wall_s"],
        "whole": summary["whole"],
        "damaged": summary["damaged"],
        "warnings": unsound(summary, events),
    }


def _tell(told: Report | None, done: int, total: int) -> None:
    if told is not None and not told("drawing", done, total):
        raise Interrupted("interrupted")
