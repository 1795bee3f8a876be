"""Reports on what a run waited for, from the log of `--events`.

`explain` gives sentences and numbers. `report` writes a page of HTML with figures, and a picture of all figures. The
extension summarises the log in bounded memory; Matplotlib draws the figures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from farfield import _core
from farfield.errors import Interrupted
from farfield.report import servers
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
    """The default name of a log's report. It keeps the log's ending, so that no other log has the same report.

    >>> default_output("run.events")
    'run.events.html'
    """
    return os.fspath(events) + ".html"


def explain(events: Path | Mapping[str, Any], progress: bool | Report | None = None) -> Verdict:
    """Explains what a run waited for, and what would help. Prints as text, and as a small table in notebooks.

    Args:
        events: The log of `--events` in any of its forms, or its summary by the extension's `summarise`.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the log cannot be read.
        Interrupted: if `progress` returns False.
    """
    return verdict(events if isinstance(events, Mapping) else _summary(events, progress))


def report(
    events: Path, output: Path | None = None, png: Path | None = None, progress: bool | Report | None = None
) -> dict[str, Any]:
    """Writes a page about a run: what waited for what, and what would help; returns the JSON of `farfield report
    --json`.

    Args:
        events: The log of `--events` in any of its forms.
        output: The page, such as `"run.html"`; None for the log's name followed by `.html`. It needs no other files and
            no network.
        png: A picture of all figures; None for none.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the log cannot be read, or an output cannot be written.
        UsageError: if an output has a wrong ending, or is the log.
        Interrupted: if `progress` returns False.
    """
    return write(events, output, png, progress)[1]


def write(
    events: Path, output: Path | None = None, png: Path | None = None, progress: bool | Report | None = None
) -> tuple[Verdict, dict[str, Any]]:
    """As `report`, but returns the verdict, too.

    Raises:
        FarfieldError: as in `report`.
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
    # The sheet takes about as long as all single figures.
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
        "servers": servers.rows(summary),
        "wall_s": summary["wall_s"],
        "whole": summary["whole"],
        "damaged": summary["damaged"],
        "warnings": unsound(summary, events),
    }


def _tell(told: Report | None, done: int, total: int) -> None:
    if told is not None and not told("drawing", done, total):
        raise Interrupted("interrupted")
