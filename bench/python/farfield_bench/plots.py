"""The plots of docs/benchmarks.md: what is read from a result for one, and the files.

A `Spec` says which rows of a result a plot is of (its arms, its claims or one of its tables), what of a row's name sets the rows
apart, and which figures are drawn. So plots are made of the same JSON as the tables, of old results as well, and nothing is
recorded twice. `plotted.PLOTS` has those of each experiment, `drawing` draws.

>>> from farfield_bench.result import Recorder
>>> recorder = Recorder("demo", "A demonstration")
>>> for seconds in (1.0, 1.5, 1.1):
...     recorder.run("1/4: paged", wall_s=seconds)
>>> spec = Spec("Time by memory", {"arm": "(?P<x>.*): (?P<series>.*)"}, {"wall_s": "wall time [s]"})
>>> [(p.x, p.series, p.y, p.low, p.high) for p in points(spec, recorder.result())]
[('1/4', 'paged', 1.1, 1.0, 1.5)]
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from farfield.errors import DataError
from farfield_bench.result import Result, Stop

ARMS, CLAIMS = "arms", "claims"
"""What rows are taken of, beside tables."""
MIB = 1 << 20
_FILE = re.compile(r"(.+)-\d+\.svg")
"""Whose plot a file is."""


@dataclass(frozen=True)
class Spec:
    """What a plot is of and how it is drawn.

    Rows have columns: of arms `arm`, their settings and the medians of their quantities; of claims `text`, `value` and `bound`;
    of tables those of the table. An expression must match all of a cell, or the row is left out; its groups `x`, `series` and
    `panel` say where the row goes (`series2` is put after `series`). A column that names a quantity in bytes is drawn in MiB.
    """

    title: str
    rows: Mapping[str, str]
    """By column, the expression that its cells must match."""
    y: Mapping[str, str]
    """Columns of figures, and what each is called: the label of the axis if there is one."""
    kind: Literal["bars", "dots", "marks", "lines", "points"] = "bars"
    """Bars and dots lie, a name before each, and dots may have a logarithmic axis; marks are dots of which all of a name share a
    row, without figures; lines join the points of a series.
    """
    table: str = ARMS
    """Arms, claims, or how the title of a table begins."""
    x: str = ""
    """A column of numbers for the x axis of lines and points; otherwise it has the group's words, as numbers if all are."""
    each: Literal["series", "panel", "x"] = "series"
    """What the names of several columns in `y` are."""
    x_label: str = ""
    y_label: str = ""
    log: Literal["", "x", "y", "xy"] = ""
    """Axes that are logarithmic; y is that of the figures, also where bars lie."""
    bound: str = ""
    """Claims whose bounds are drawn, by an expression."""
    level: Mapping[str, str] = field(default_factory=dict)
    """Rows that are drawn as a line through their panel, chosen as `rows` are."""
    level_label: str = ""
    line: tuple[float, str] | None = None
    """A value to compare with, and what it is."""
    diagonal: str = ""
    """What it means that x and y are equal; a line is drawn there."""
    band: float = 0.0
    """The share of a value by which it may lie beside the diagonal, shaded."""
    factor: float = 1.0
    times_x: bool = False
    """Figures are multiplied by x: pages a second by the size of a page."""
    ours: str = r"Farfield|ours"
    """Bars of one series that are Farfield's, which have its colour if there are others."""
    dashed: str = ""
    """Series that are dashed, with the colours of those that are not, in the same order."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other words for series, panels and names."""


@dataclass(frozen=True)
class Point:
    """One figure of a plot."""

    panel: str
    series: str
    x: str
    at: float | None
    """Where it lies, if x is a number."""
    y: float
    low: float
    high: float
    """The smallest and the largest over the runs."""
    stop: Stop | None = None
    """Why it has no figure: y is then not a number, or the time after which it was stopped."""


@dataclass(frozen=True)
class Image:
    """A plot that was drawn."""

    path: str
    """From the page's folder."""
    alt: str
    """In words."""


@dataclass(frozen=True)
class _Row:
    cells: Mapping[str, str | float | int]
    spans: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    stop: Stop | None = None


def points(spec: Spec, result: Result) -> list[Point]:
    """What a plot draws of a result, in the result's order; nothing if it has none of it."""
    return list(_points(spec, result, spec.rows))


def levels(spec: Spec, result: Result) -> dict[str, float]:
    """By panel, where a line goes through it to compare with."""
    if not spec.level:
        return {}
    return {point.panel: point.y for point in _points(spec, result, spec.level) if point.stop is None}


def bounds(spec: Spec, result: Result) -> list[tuple[float, str]]:
    """The bounds that a plot shows, and what they are."""
    if not spec.bound:
        return []
    words = {"<=": "at most", ">=": "at least", "==": "just"}
    found = {
        (claim.bound, f"bound: {words[claim.relation]} {claim.bound:.3g}{f' {claim.unit}' if claim.unit else ''}")
        for claim in result.claims
        if re.fullmatch(spec.bound, claim.text)
    }
    return sorted(found)


def _points(spec: Spec, result: Result, rows: Mapping[str, str]) -> Iterator[Point]:
    for row in _rows(spec.table, result):
        found = _match(rows, row)
        if found is None:
            continue
        for key, label in spec.y.items():
            roles = dict(found)
            if len(spec.y) > 1:
                roles[spec.each] = ", ".join(part for part in (roles.get(spec.each, ""), label) if part)
            x = roles.get("x", next(iter(row.cells.values()), "") if not spec.x else "")
            panel, series, x = (spec.names.get(text, text) for text in (roles["panel"], roles["series"], str(x)))
            at = _number(row.cells.get(spec.x) if spec.x else x)
            if spec.x and at is None:
                continue
            scale = spec.factor * (at if spec.times_x and at is not None else 1.0)
            scale = scale / MIB if key.endswith("_bytes") else scale
            at = at / MIB if at is not None and spec.x.endswith("_bytes") else at
            y = _number(row.cells.get(key))
            if y is not None:
                low, high = row.spans.get(key, (y, y))
                yield Point(panel, series, x, at, y * scale, low * scale, high * scale)
            elif row.stop is not None:
                after = row.stop.after_s if key == "wall_s" and row.stop.after_s is not None else math.nan
                yield Point(panel, series, x, at, after * scale, math.nan, math.nan, row.stop)


def _rows(table: str, result: Result) -> Iterator[_Row]:
    if table == ARMS:
        for arm in result.arms:
            values = {key: [run[key] for run in arm.runs if key in run] for key in arm.median}
            spans = {key: (min(v), max(v)) for key, v in values.items()}
            yield _Row({"arm": arm.name, **arm.settings, **arm.median}, spans, arm.stop)
    elif table == CLAIMS:
        for claim in result.claims:
            yield _Row({"text": claim.text, "value": claim.value, "bound": claim.bound})
    else:
        for one in result.tables:
            if one.title.startswith(table):
                for row in one.rows:
                    # Of two columns of the same name the first.
                    yield _Row(dict(reversed(list(zip(one.columns, row, strict=False)))))


def _match(rows: Mapping[str, str], row: _Row) -> dict[str, str] | None:
    """Which panel, series and x a row belongs to; None if it is none of the plot's."""
    roles = {"panel": "", "series": ""}
    for column, expression in rows.items():
        match = re.fullmatch(expression, str(row.cells[column])) if column in row.cells else None
        if match is None:
            return None
        roles |= {name: text or "" for name, text in match.groupdict().items()}
    roles["series"] += roles.pop("series2", "")
    return roles


def _number(cell: str | float | int | None) -> float | None:
    try:
        value = float(cell) if cell is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def write(results: Sequence[Result], page: Path) -> dict[str, list[Image]]:
    """Draws the plots of results into a folder beside their page (`page/plots/NAME-N.svg`); those of each experiment.

    What is there from before stays, so that a page that still shows it is whole: see `clear`.

    Raises:
        DataError: if the files cannot be written.
    """
    from farfield_bench.drawing import svg
    from farfield_bench.plotted import PLOTS

    folder = page.with_suffix("") / "plots"
    drawn: dict[str, list[Image]] = {}
    texts: dict[str, str] = {}
    for result in results:
        for n, spec in enumerate(PLOTS.get(result.name, []), 1):
            name = f"{result.name}-{n}.svg"
            text = svg(spec, result, salt=name)
            if text is not None:
                texts[name] = text
                where = f"{page.with_suffix('').name}/plots/{name}"
                drawn.setdefault(result.name, []).append(Image(where, _alt(spec)))
    try:
        if texts:
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{error.filename or folder}: cannot write the plots: {error.strerror or error}") from error
    return drawn


def clear(drawn: Mapping[str, Sequence[Image]], page: Path) -> None:
    """Removes the plots of experiments beside a page that are none of those that were drawn for it; other files stay.

    Raises:
        DataError: if a file cannot be removed.
    """
    from farfield_bench.plotted import PLOTS
    from farfield_bench.registry import load

    folder = page.with_suffix("") / "plots"
    shown = {Path(image.path).name for images in drawn.values() for image in images}
    ours = {*load(), *PLOTS}
    try:
        for path in sorted(folder.glob("*.svg")):
            match = _FILE.fullmatch(path.name)
            if match is not None and match[1] in ours and path.name not in shown:
                path.unlink()
    except OSError as error:
        raise DataError(f"{error.filename or folder}: cannot remove old plots: {error.strerror or error}") from error


def _alt(spec: Spec) -> str:
    """What a plot shows, for those who do not see it."""
    figures = spec.y_label or ", ".join(dict.fromkeys(spec.y.values()))
    if spec.each == "x" and not spec.y_label:
        figures = ""
    by = f" by {spec.x_label}" if spec.x_label else ""
    # Brackets would end the text.
    return f"{spec.title}{f': {figures}{by}' if figures else ''}".replace("[", "(").replace("]", ")")
