"""Figures of reads: durations, waits of tasks, reads in flight, and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield.report.amounts import Summary, number, percent, plain, seconds
from farfield.report.paging import MOST_BARS, add_others, bars_height, bars_of
from farfield.report.plots import NEAR_LIMIT, Missing, Plot, clock, colour, legend, log_times, over_time, ticks
from farfield.runtime.sizes import count, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SHOWN = {
    "p99_us": ("99 %", "red", "-"),
    "p90_us": ("90 %", "orange", "-"),
    "mean_us": ("mean", "ink", "--"),
    "p50_us": ("50 %", "blue", "-"),
    "min_us": ("shortest", "sky", ":"),
}
"""Percentiles of a distribution that are drawn, from the longest time to the shortest."""
LEAST_US = 0.5
"""Value in microseconds for times of 0, which a logarithmic axis cannot show."""
FEW_SECONDS = 3
"""Shortest run in seconds whose course is shown."""


def latency(summary: Summary) -> Plot | Missing:
    """Durations of reads."""
    return _times(summary, "latency", "Service time of reads", "reads", "reads")


def waiting(summary: Summary) -> Plot | Missing:
    """Times that tasks waited for pages."""
    return _times(summary, "waiting", "Waiting time of tasks", "waits of tasks", "waits")


def _times(summary: Summary, key: str, title: str, what: str, unit: str) -> Plot | Missing:
    found = summary[key]
    whole: Mapping[str, Any] | None = found["all"]
    if whole is None or not found["histogram"]:
        return Missing(title, what)
    caption = (
        f"Of {number(whole['count'])} {what} half took at most {seconds(whole['p50_us'] * 1e-6)}, 99 % at most "
        f"{seconds(whole['p99_us'] * 1e-6)}; the longest {seconds(whole['max_us'] * 1e-6)}."
    )
    rows = found["seconds"]

    def draw(figure: FigureBase) -> None:
        low = max(whole["min_us"], LEAST_US) * 1e-6
        high = max(whole["max_us"], LEAST_US) * 1e-6
        if len(rows) < FEW_SECONDS:
            axes = figure.add_subplot()
            _histogram(axes, found["histogram"], unit, upright=True)
            log_times(axes, low, high, "x")
            for name, (words, shade, line) in SHOWN.items():
                axes.axvline(max(whole[name], LEAST_US) * 1e-6, color=colour(shade), linestyle=line, label=words)
            axes.set_xlabel("time")
            legend(axes, 5)
            return
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3.2, 1.0))
        factor, label = clock(summary["wall_s"])
        at = [row["t_s"] * factor for row in rows]
        for name, (words, shade, line) in SHOWN.items():
            values = [max(row[name], LEAST_US) * 1e-6 for row in rows]
            left.plot(at, values, color=colour(shade), linestyle=line, label=words)
        log_times(left, low, high)
        left.set_xlim(0, max(at[-1], summary["wall_s"] * factor))
        left.set_xlabel(label)
        left.set_ylabel("time of each second's " + unit)
        legend(left, 5)
        _histogram(right, found["histogram"], unit, upright=False)
        right.tick_params(axis="y", which="both", left=False, labelleft=False)
        right.grid(axis="y")

    return Plot(key, title, caption, draw)


def _histogram(axes: Axes, histogram: list[list[float]], unit: str, *, upright: bool) -> None:
    lows = [max(low, LEAST_US) * 1e-6 for low, _, _ in histogram]
    widths = [max(high * 1e-6 - low, low * 0.01) for low, (_, high, _) in zip(lows, histogram, strict=True)]
    counts = [n for _, _, n in histogram]
    # Outlines would show seams between neighbours.
    if upright:
        axes.bar(lows, counts, widths, align="edge", color=colour("grey"), alpha=0.7)
        axes.set_ylabel(unit)
        ticks(axes.yaxis, 6, whole=True)
    else:
        axes.barh(lows, counts, widths, align="edge", color=colour("grey"), alpha=0.7)
        axes.set_xlabel(unit)
        ticks(axes.xaxis, 2, whole=True)


def depth(summary: Summary) -> Plot | Missing:
    """Reads in flight over time."""
    title = "Reads under way"
    found, values = summary["depth"], summary["series"]["depth_mean"]
    if not any(values):
        return Missing(title, "reads")
    limit = found["limit"] or 0
    near = limit and limit <= NEAR_LIMIT * max(values)
    text = f"{number(found['mean'])} on average while any was, {number(found['max'])} at most"
    if limit:
        text += f"; {number(limit)} may be" + ("" if near else ", which is far above the picture")
    if limit and found["share_at_limit"]:
        text += f", and were for {percent(found['share_at_limit'])} of the reading time"

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        at = over_time(axes, summary, "reads under way")
        axes.stairs(values, at, fill=True, color=colour("blue"), alpha=0.75, label="mean")
        if near:
            axes.axhline(limit, color=colour("red"), linewidth=1.6, label="readers")
        axes.set_ylim(0, max(limit if near else 0, max(values)) * 1.1)
        legend(axes)

    return Plot("depth", title, text[0].upper() + text[1:] + ".", draw)


def by_source(summary: Summary) -> Plot | Missing:
    """Bytes read from each source."""
    title = "Bytes by source"
    sources = sorted((s for s in summary["sources"] if s["bytes"]), key=lambda s: -s["bytes"])
    if not sources:
        return Missing(title, "reads")
    shown, rest = sources[:MOST_BARS], sources[MOST_BARS:]
    whole = sum(s["bytes"] for s in sources)
    caption = f"{format_bytes(whole)} from {count(len(sources), 'source')}, beside how many reads that took and their mean time."
    # A common beginning distinguishes no names.
    common = _folder([s["name"] for s in sources])
    if common:
        caption += f" All names begin with {plain(common, 60)}."
    names = [plain(s["name"].removeprefix(common), 30) for s in shown]
    bars = [(name, s["bytes"], _words(s["reads"], s["mean_us"]), "blue") for name, s in zip(names, shown, strict=True)]
    reads = sum(s["reads"] for s in rest)
    mean_us = sum(s["mean_us"] * s["reads"] for s in rest) / max(1, reads)
    caption += add_others(bars, len(rest), sum(s["bytes"] for s in rest), _words(reads, mean_us))

    def draw(figure: FigureBase) -> None:
        bars_of(figure.add_subplot(), bars, "read")

    return Plot("sources", title, caption, draw, height=bars_height(len(bars)))


def _folder(names: Sequence[str]) -> str:
    """The common folder of several names. They may be addresses, which are no paths.

    >>> _folder(["a/b/c1", "a/b/c2"]), _folder(["a/b"]), _folder(["x1", "x2"])
    ('a/b/', '', '')
    """
    if len(names) < 2:
        return ""
    low, high = min(names), max(names)
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[: low.rfind("/", 0, same) + 1]


def _words(reads: int, mean_us: float) -> str:
    return f"{number(reads)} x {seconds(mean_us * 1e-6)}"
