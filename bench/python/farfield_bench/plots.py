"""The plots of docs/benchmarks.md: their data in a result, and their files.

A `Spec` selects the rows of a result for a plot: arms, claims or one of the tables. It also selects the parts of a
row's name that distinguish rows, and the figures. So plots use the same JSON as the tables, also in old results, and no figure is
recorded twice. `plotted.PLOTS` has the plots of each experiment; `drawing` draws them.

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
"""Sources of rows, beside tables."""
MIB = 1 << 20
_FILE = re.compile(r"(.+)-\d+\.svg")
"""Name of a plot's file, with the experiment's name."""


@dataclass(frozen=True)
class Spec:
    """Data and appearance of a plot.

    Rows of arms have the column `arm`, their settings and the medians of their quantities. Rows of claims have `text`,
    `value` and `bound`; rows of tables those of the table. An expression must match the whole cell, or the row is left
    out. Its groups `x`, `series` and `panel` place the row (`series2` follows `series`). A column of bytes is drawn in
    MiB.
    """

    title: str
    rows: Mapping[str, str]
    """Expression for the cells of each column."""
    y: Mapping[str, str]
    """Columns of figures and their names: the label of the axis if there is one."""
    kind: Literal["bars", "dots", "marks", "lines", "points"] = "bars"
    """Bars and dots are horizontal, each after its name; dots may have a logarithmic axis. Marks are dots without
    figures; those of one name share a row. Lines join the points of a series.
    """
    table: str = ARMS
    """Arms, claims, or the beginning of a table's title."""
    x: str = ""
    """A column of numbers for the x axis of lines and points; otherwise the x axis has the group's words, as numbers if
    all are.
    """
    each: Literal["series", "panel", "x"] = "series"
    """Role of the names of several columns in `y`."""
    x_label: str = ""
    y_label: str = ""
    log: Literal["", "x", "y", "xy"] = ""
    """Logarithmic axes; y is the axis of the figures, also for horizontal bars."""
    bound: str = ""
    """Expression for the claims with drawn bounds."""
    level: Mapping[str, str] = field(default_factory=dict)
    """Rows drawn as a line through their panel, selected like `rows`."""
    level_label: str = ""
    line: tuple[float, str] | None = None
    """A reference value and its label."""
    diagonal: str = ""
    """Label of the diagonal x = y, drawn as a line."""
    band: float = 0.0
    """Half-width of the shaded band around the diagonal, as a share of the value."""
    factor: float = 1.0
    times_x: bool = False
    """Figures are multiplied by x: pages a second by the size of a page."""
    ours: str = r"Farfield|ours"
    """Expression for Farfield's bars in one series. They have its colour if there are others."""
    dashed: str = ""
    """Expression for dashed series. They have the colours of the others, in the same order."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other words for series, panels and names."""


@dataclass(frozen=True)
class Point:
    """One figure of a plot."""

    panel: str
    series: str
    x: str
    at: float | None
    """Position, if x is a number."""
    y: float
    low: float
    high: float
    """The smallest and the largest over the runs."""
    stop: Stop | None = None
    """Why it has no figure. Then y is NaN, or the time of its stop."""


@dataclass(frozen=True)
class Image:
    """A plot that was drawn."""

    path: str
    """Path from the page's folder."""
    alt: str
    """Description as text."""


@dataclass(frozen=True)
class _Row:
    cells: Mapping[str, str | float | int]
    spans: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    stop: Stop | None = None


def points(spec: Spec, result: Result) -> list[Point]:
    """Points of a plot from a result, in the result's order; empty without data."""
    return list(_points(spec, result, spec.rows))


def levels(spec: Spec, result: Result) -> dict[str, float]:
    """Reference line of each panel."""
    if not spec.level:
        return {}
    return {point.panel: point.y for point in _points(spec, result, spec.level) if point.stop is None}


def bounds(spec: Spec, result: Result) -> list[tuple[float, str]]:
    """Bounds in a plot, and their texts."""
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
                    # The first of two columns of the same name.
                    yield _Row(dict(reversed(list(zip(one.columns, row, strict=False)))))


def _match(rows: Mapping[str, str], row: _Row) -> dict[str, str] | None:
    """Panel, series and x of a row; None if the plot leaves it out."""
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
    """Draws the plots of results into a folder beside their page (`page/plots/NAME-N.svg`). Returns those of each
    experiment.

    Earlier files stay, since a page may still show them: see `clear`.

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
    """Removes plots of experiments beside a page that are not among those drawn for it; other files stay.

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
    """Alternative text of a plot."""
    figures = spec.y_label or ", ".join(dict.fromkeys(spec.y.values()))
    if spec.each == "x" and not spec.y_label:
        figures = ""
    by = f" by {spec.x_label}" if spec.x_label else ""
    # Brackets would end the text.
    return f"{spec.title}{f': {figures}{by}' if figures else ''}".replace("[", "(").replace("]", ")")
