"""The appearance of the plots in docs/benchmarks.md: drawing of points by matplotlib.

Paper is white in light and dark themes alike, since an image cannot follow a page. The same result gives the same
bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield.report.plots import colour, style
from farfield_bench.plots import Point, Spec, bounds, levels, points
from farfield_bench.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.4
"""Inches of a plot that GitHub shows without scaling."""
BAR, GAP, AXIS = 0.19, 0.55, 0.5
"""Inches a bar; bars between two groups; inches for an axis below."""
TITLE, ENTRY = 0.3, 0.185
"""Inches for the title, and for a line of the legend below it."""
TALL = 2.7
"""Inches of a panel of lines."""
PALETTE = ("blue", "red", "green", "purple", "orange", "sky", "ink", "grey")
MARKERS = "osD^vPX*"
LYING = ("bars", "dots", "marks")
LABELS = 100
"""Letters of a legend in one line."""


def svg(spec: Spec, result: Result, salt: str) -> str | None:
    """A plot as an SVG file; None if the result has no data for it."""
    with style(salt):
        drawn = figure(spec, result)
        if drawn is None:
            return None
        out = io.StringIO()
        nothing = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        drawn.savefig(out, format="svg", facecolor="white", metadata=nothing)
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), out.getvalue())
    # Without DejaVu, a browser would fall back to serifs.
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def figure(spec: Spec, result: Result) -> Figure | None:
    """A plot, under the present settings (`farfield.report.plots.style`); None without data."""
    found = points(spec, result)
    if "y" in spec.log:
        found = [p for p in found if p.stop is not None or p.y > 0]
    if not any(p.stop is None for p in found):
        return None
    panels = {panel: [p for p in found if p.panel == panel] for panel in dict.fromkeys(p.panel for p in found)}
    looks = _looks(spec, list(dict.fromkeys(p.series for p in found)))
    if spec.kind in LYING:
        drawn, places = _lying(spec, panels)
        for axes, of_panel in zip(places, panels.values(), strict=True):
            _bars(axes, spec, of_panel, looks)
    else:
        drawn, places = _standing(len(panels))
        for axes, of_panel in zip(places, panels.values(), strict=True):
            _lines(axes, spec, of_panel, looks)
    lies = spec.kind in LYING
    compared = levels(spec, result)
    for axes, panel in zip(places, panels, strict=True):
        if panel:
            axes.set_title(panel, loc="left", fontsize=9.5)
        for value, label in bounds(spec, result):
            _across(axes, value, label, lies, "red")
        if spec.line is not None:
            _across(axes, *spec.line, lies, "muted")
        if panel in compared:
            _across(axes, compared[panel], spec.level_label, lies, "ink")
    _head(drawn, places, spec.title)
    return drawn


def _looks(spec: Spec, series: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of each series."""
    looks: dict[str, dict[str, Any]] = {}
    counts = {True: 0, False: 0}
    for name in series:
        dashed = bool(spec.dashed and re.search(spec.dashed, name))
        n = counts[dashed]
        counts[dashed] += 1
        dashes = "--" if dashed or n >= len(PALETTE) else "-"
        looks[name] = {
            "color": colour(PALETTE[n % len(PALETTE)]),
            "marker": MARKERS[n % len(MARKERS)],
            "linestyle": dashes,
        }
    return looks


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")


def _groups(of_panel: Sequence[Point]) -> dict[str, list[Point]]:
    return {x: [p for p in of_panel if p.x == x] for x in dict.fromkeys(p.x for p in of_panel)}


def _gap(spec: Spec, of_panel: Sequence[Point]) -> float:
    """Room between two groups of bars, if there are groups."""
    many = spec.kind == "marks" or any(len(group) > 1 for group in _groups(of_panel).values())
    return GAP if many else 0.0


def _rows(spec: Spec, of_panel: Sequence[Point]) -> float:
    groups = len(_groups(of_panel))
    return (groups if spec.kind == "marks" else len(of_panel)) + _gap(spec, of_panel) * (groups - 1)


def _lying(spec: Spec, panels: dict[str, list[Point]]) -> tuple[Figure, list[Axes]]:
    """Panels for bars: beside each other if the names before them are the same, else below each other."""
    shapes = [
        [(x, spec.kind == "marks" or len(group)) for x, group in _groups(of_panel).items()]
        for of_panel in panels.values()
    ]
    beside = all(shape == shapes[0] for shape in shapes) and len(panels) <= 3
    heights = [_rows(spec, of_panel) * BAR + (0.7 if len(panels) > 1 else 0.3) for of_panel in panels.values()]
    drawn = _figure((heights[0] if beside else sum(heights)) + AXIS)
    if beside:
        places = [drawn.add_subplot(1, len(panels), n + 1) for n in range(len(panels))]
        for axes in places[1:]:
            axes.tick_params(labelleft=False)
    else:
        grid = drawn.add_gridspec(len(panels), 1, height_ratios=heights)
        places = [drawn.add_subplot(grid[n, 0]) for n in range(len(panels))]
    return drawn, places


def _standing(count: int) -> tuple[Figure, list[Axes]]:
    """Panels for lines, two beside each other."""
    columns = min(count, 2)
    rows = math.ceil(count / columns)
    drawn = _figure(rows * TALL)
    return drawn, [drawn.add_subplot(rows, columns, n + 1) for n in range(count)]


def _bars(axes: Axes, spec: Spec, of_panel: Sequence[Point], looks: dict[str, dict[str, Any]]) -> None:
    """Bars or dots with whiskers from the smallest to the largest value, a name before each group and a figure after each."""
    from matplotlib.transforms import blended_transform_factory

    edge = blended_transform_factory(axes.transAxes, axes.transData)
    alone = len(looks) == 1 and any(re.search(spec.ours, p.x) for p in of_panel)
    at, names, ticks = 0.0, [], []
    gap = _gap(spec, of_panel)
    for x, group in _groups(of_panel).items():
        first = at
        for n, p in enumerate(group):
            shade = colour("grey") if alone and not re.search(spec.ours, x) else looks[p.series]["color"]
            # Marks of one name are in one row, slightly apart so that all are visible.
            y = at + (n / max(len(group) - 1, 1) - 0.5) * 0.7 if spec.kind == "marks" else at
            if p.stop is None:
                _bar(axes, spec.kind, p, y, {**looks[p.series], "color": shade})
            else:
                axes.text(0.01, y, p.stop.text, transform=edge, va="center", fontsize=8, color=colour("red"))
            at += 0.0 if spec.kind == "marks" else 1.0
        at += 1.0 if spec.kind == "marks" else 0.0
        names.append(x)
        ticks.append((first + at - 1.0) / 2)
        at += gap
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(at - gap - 0.3, -0.7)
    axes.set_xlabel(spec.y_label or (next(iter(spec.y.values())) if len(spec.y) == 1 else ""))
    _value_limits(axes, spec, of_panel)
    axes.grid(axis="x")


def _bar(axes: Axes, kind: str, p: Point, at: float, look: dict[str, Any]) -> None:
    """One bar, dot or mark."""
    if kind == "bars":
        axes.barh(at, p.y, height=0.84, color=look["color"], label=p.series or None)
    else:
        axes.plot([p.y], [at], look["marker"], color=look["color"], markersize=5.0, label=p.series or None)
    if p.high > p.low:
        axes.plot([p.low, p.high], [at, at], color=colour("ink"), linewidth=0.9, solid_capstyle="butt")
    if kind != "marks":
        axes.annotate(
            _short(p.y),
            (max(p.high, 0.0), at),
            (5, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
        )


def _value_limits(axes: Axes, spec: Spec, of_panel: Sequence[Point]) -> None:
    """Room for the figures beside bars and dots."""
    measured = [p for p in of_panel if p.stop is None]
    low, high = min((p.low for p in measured), default=0.0), max((p.high for p in measured), default=1.0)
    if "y" in spec.log:
        axes.set_xscale("log")
        span = (high / low) if low > 0 else 10.0
        # The figure's text takes a part of the width, which is a power of the span.
        room = 1.1 if spec.kind == "marks" else max(1.6, span**0.22)
        axes.set_xlim(low / (1.1 if spec.kind == "marks" else max(1.3, span**0.06)), high * room)
        _log_ticks(axes, "x")
    elif spec.kind == "bars":
        axes.set_xlim(min(0.0, low * 1.15), high * 1.15 if high > 0 else 1.0)
    else:
        values = [low, high, *([spec.line[0]] if spec.line else [])]
        room = 0.14 * (max(values) - min(values) or 1.0)
        axes.set_xlim(min(values) - room / 2, max(values) + room * 1.6)


def _lines(axes: Axes, spec: Spec, of_panel: Sequence[Point], looks: dict[str, dict[str, Any]]) -> None:
    """Lines or points over numbers, or over names in the order in which they come."""
    numbers = all(p.at is not None for p in of_panel)
    words = list(dict.fromkeys(p.x for p in of_panel))
    for series in dict.fromkeys(p.series for p in of_panel):
        look = {**looks[series], **({"linestyle": "none"} if spec.kind == "points" else {})}
        own = [p for p in of_panel if p.series == series and p.stop is None]
        pairs = sorted(((_place(p, numbers, words), p) for p in own), key=lambda pair: pair[0])
        xs, ys = [x for x, _ in pairs], [p.y for _, p in pairs]
        if own:
            axes.plot(xs, ys, **look, markersize=4.5, label=series or None)
        for x, p in pairs:
            if p.high > p.low:
                axes.plot([x, x], [p.low, p.high], color=look["color"], linewidth=0.9)
    _scales(axes, spec, numbers, words, of_panel)
    _stopped(axes, of_panel, looks, numbers, words)
    axes.set_xlabel(spec.x_label)
    one = len(spec.y) == 1 or spec.each != "panel"
    axes.set_ylabel(spec.y_label or (next(iter(spec.y.values())) if one else ""))
    if spec.diagonal:
        _diagonal(axes, spec)


def _place(p: Point, numbers: bool, words: Sequence[str]) -> float:
    return p.at if numbers and p.at is not None else float(words.index(p.x))


def _scales(axes: Axes, spec: Spec, numbers: bool, words: Sequence[str], of_panel: Sequence[Point]) -> None:
    """Logarithms, labels and grid."""
    if "y" in spec.log:
        axes.set_yscale("log")
        _log_ticks(axes, "y")
    elif axes.get_ylim()[0] > 0 and spec.kind == "lines":
        axes.set_ylim(bottom=0.0)
    if not numbers:
        axes.set_xticks(range(len(words)), words)
        axes.set_xlim(-0.4, len(words) - 0.6)
    elif "x" in spec.log:
        axes.set_xscale("log")
        at = sorted({p.at for p in of_panel if p.at is not None})
        if spec.x or len(at) > 8:
            _log_ticks(axes, "x")
        else:
            axes.set_xticks(at, [f"{value:g}" for value in at])
            axes.set_xticks([], minor=True)
    axes.grid()


def _stopped(
    axes: Axes, of_panel: Sequence[Point], looks: dict[str, dict[str, Any]], numbers: bool, words: Sequence[str]
) -> None:
    """Arms without figures: at their stop, since they take longer; or at the top without a time."""
    for p in of_panel:
        if p.stop is None:
            continue
        x, shade = _place(p, numbers, words), looks[p.series]["color"]
        if math.isfinite(p.y):
            label = f"stopped then: {p.stop.text}"
            axes.plot([x], [p.y], "^", markersize=8, markerfacecolor="none", color=shade, label=label)
        else:
            edge = axes.get_xaxis_transform()
            axes.plot([x], [0.96], "x", transform=edge, markersize=7, color=shade, label=f"no figure: {p.stop.text}")


def _diagonal(axes: Axes, spec: Spec) -> None:
    """The diagonal x = y, and the band around it."""
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    limits = axes.get_xlim(), axes.get_ylim()
    if spec.band:
        lows, highs = ([value * (1 + side * spec.band) for value in (low, high)] for side in (-1, 1))
        axes.fill_between([low, high], lows, highs, color=colour("line"), alpha=0.6, linewidth=0, zorder=0)
    axes.plot([low, high], [low, high], color=colour("muted"), linewidth=1.0, linestyle=":", label=spec.diagonal)
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])


def _across(axes: Axes, value: float, label: str, lies: bool, shade: str) -> None:
    """A reference value. The axis grows if needed."""
    draw, limits, widen = (
        (axes.axvline, axes.get_xlim(), axes.set_xlim) if lies else (axes.axhline, axes.get_ylim(), axes.set_ylim)
    )
    if value > limits[1]:
        widen(limits[0], value * 1.06)
    elif value < limits[0]:
        widen(value / 1.1 if value > 0 else value * 1.1, limits[1])
    draw(value, color=colour(shade), linewidth=1.1, linestyle=(0, (4, 2)), label=label or None)


def _log_ticks(axes: Axes, which: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    decades = math.log10(high / low)
    if decades < 0.5:  # the axis may have a single round number
        locator: Any = MaxNLocator(nbins=5)
    else:
        locator = LogLocator(base=10.0, subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=8)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    """Three digits.

    >>> _short(0.1234), _short(12.0), _short(8543.2), _short(1.21e-07)
    ('0.123', '12', '8,543', '1.21e-7')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else re.sub(r"e([+-])0+", r"e\1", f"{value:.3g}")


def _head(drawn: Figure, places: Sequence[Axes], title: str) -> None:
    """The title, and below it one legend for all panels. The figure grows by them. Stopped arms have the colours of
    their series.
    """
    handles: dict[str, Any] = {}
    for axes in places:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    widest = max(map(len, handles), default=0) + 6
    columns = max(1, min(len(handles), LABELS // widest))
    body = drawn.get_figheight()
    head = TITLE + ENTRY * math.ceil(len(handles) / columns)
    drawn.set_figheight(body + head)
    engine = drawn.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0.0, 0.0, 1.0, body / (body + head)))  # type: ignore[call-arg] # of the one engine in use
    drawn.text(0.012, 1.0 - 0.06 / (body + head), title, ha="left", va="top", fontsize=11, weight="bold")
    if handles:
        drawn.legend(
            list(handles.values()),
            list(handles),
            loc="upper left",
            bbox_to_anchor=(0.004, 1.0 - (TITLE - 0.02) / (body + head)),
            ncols=columns,
            fontsize=8.5,
            handlelength=2.0,
            columnspacing=1.4,
            labelspacing=0.3,
            borderaxespad=0.0,
        )
