"""Figures of pages: times of faults, pages per time step, and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield.report.amounts import Summary, number, percent, plain
from farfield.report.plots import NEAR_LIMIT, ROLES, WIDE, Missing, Plot, colour, edges, legend, over_time, ticks
from farfield.report.verdict import peak_of, total
from farfield.runtime.sizes import count, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

MOST_BARS = 14
"""Largest number of arrays and sources with bars of their own."""
LABEL_ROWS = 11
"""Rows of the history per name beside it."""
FAINTEST = 0.35
"""Smallest opacity, which shows a single fault on light and dark pages."""
MOST_STEP_BARS = 60
"""Number of time steps from which the figure is a line."""


def history(summary: Summary) -> Plot | Missing:
    """The pages faulted in over time."""
    title = "Page-fault history"
    faults = sum(map(sum, summary["history"]["counts"]))
    if not faults:
        return Missing(title, "page faults")
    roles = [role for role in ROLES if any(a["role"] == role and a["faults"] for a in summary["arrays"])]
    many = len(summary["arrays"])
    caption = (
        f"Each spot is one or more of {count(faults, 'page fault')}: when, and in which of the "
        f"{number(summary['history']['pages'])} pages of {count(many, 'array')}, of whatever time step; the denser, the more."
    )

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        at, label = edges(summary)
        counts = summary["history"]["counts"]
        rows = len(counts)
        axes.imshow(
            _densities(counts, _roles_of_rows(summary["arrays"], rows)),
            extent=(at[0], at[-1], 0, rows),
            aspect="auto",
            origin="lower",
            interpolation="none",
        )
        axes.set_xlabel(label)
        _name_rows(axes, summary, rows)
        for role in roles:
            axes.scatter([], [], marker="s", color=colour(ROLES[role]), label=_ROLE_WORDS[role])
        legend(axes, handletextpad=0.3)

    return Plot("history", title, caption, draw, WIDE, 4.4)


_ROLE_WORDS = {"grid": "grid", "solution": "solution", "derived": "derived", "index": "tables of the store"}


def _roles_of_rows(arrays: Sequence[Mapping[str, Any]], rows: int) -> list[str]:
    """The colour of each row: that of the array with most of its pages."""
    owners: list[tuple[float, str]] = [(0.0, "grid")] * rows
    for n, array in enumerate(arrays):
        end = arrays[n + 1]["first"] if n + 1 < len(arrays) else rows
        # A row may contain several small arrays; the one with most pages names it.
        for row in range(array["first"], max(end, array["first"] + 1)):
            if row < rows and array["pages"] > owners[row][0]:
                owners[row] = (array["pages"], array["role"])
    return [role for _, role in owners]


def _densities(counts: Sequence[Sequence[int]], roles: Sequence[str]) -> Any:
    """The picture: colour by array, and opacity by the number of faults, for pages of any colour."""
    import numpy as np
    from matplotlib.colors import to_rgb

    faults = np.asarray(counts, dtype=float)
    most = max(2.0, float(faults.max()))
    picture = np.empty((*faults.shape, 4))
    picture[..., :3] = np.array([to_rgb(colour(ROLES.get(role, "grey"))) for role in roles])[:, None, :]
    picture[..., 3] = np.where(faults > 0, FAINTEST + (1 - FAINTEST) * np.log1p(faults) / math.log1p(most), 0.0)
    return picture


def _name_rows(axes: Axes, summary: Summary, rows: int) -> None:
    """Names of arrays or zones if they fit; else numbers of pages."""
    from matplotlib.ticker import MaxNLocator

    arrays, pages = summary["arrays"], summary["history"]["pages"]
    by_array = _spans([a["name"] for a in arrays], [a["first"] for a in arrays], rows)
    by_zone = _spans([a["zone"] for a in arrays], [a["first"] for a in arrays], rows)
    for spans, what in ((by_array, "array"), (by_zone, "zone")):
        shown = [s for s in spans if s[2] - s[1] >= LABEL_ROWS * rows / 256]
        if sum(to - start for _, start, to in shown) >= 0.6 * rows:
            axes.set_yticks([(start + to) / 2 for _, start, to in shown], [plain(name, 26) for name, _, _ in shown])
            axes.tick_params(axis="y", length=0)
            axes.set_ylabel(f"pages, by {what}")
            for _, start, _ in spans:
                if start and len(spans) <= 64:
                    axes.axhline(start, color=colour("line"), linewidth=0.6, zorder=0)
            return
    round_pages = [n for n in MaxNLocator(nbins=5, integer=True).tick_values(0, pages) if n <= pages]
    axes.set_yticks([n * rows / max(1, pages) for n in round_pages], [f"{n:,.0f}" for n in round_pages])
    axes.set_ylabel("page")


def _spans(names: Sequence[str], firsts: Sequence[int], rows: int) -> list[tuple[str, int, int]]:
    """Neighbouring rows of one name: name, first row, end row (exclusive)."""
    spans: list[tuple[str, int, int]] = []
    for n, (name, first) in enumerate(zip(names, firsts, strict=True)):
        end = firsts[n + 1] if n + 1 < len(firsts) else rows
        if spans and spans[-1][0] == name:
            spans[-1] = (name, spans[-1][1], end)
        else:
            spans.append((name, first, end))
    return spans


def rate(summary: Summary) -> Plot | Missing:
    """Rates of faults and related events per second."""
    title = "Fault rate"
    faults = total(summary, "faults")
    if not faults:
        return Missing(title, "page faults")
    series, width_s = summary["series"], summary["bins"]["width_s"]
    # Bins of long runs are shorter than a second; merge some so that each bin has a second.
    group = min(max(1, round(1.0 / width_s)), max(1, summary["bins"]["count"] // 20))
    others = [
        (name, what, shade)
        for name, what, shade in (("evictions", "evictions", "red"), ("prefetched", "pages read ahead", "green"))
        if total(summary, name)
    ]
    mean = faults / summary["wall_s"] if summary["wall_s"] else 0.0
    caption = f"Pages that were waited for and were absent, by second: {number(mean)} a second on average."

    def per_second(name: str) -> list[float]:
        sums = [sum(series[name][n : n + group]) for n in range(0, len(series[name]), group)]
        return [s / (group * width_s) for s in sums]

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        at = over_time(axes, summary, "a second")
        ends = [*at[:-1:group], at[-1]]
        values = per_second("faults")
        axes.stairs(values, ends, fill=True, color=colour("blue"), alpha=0.75, label="faults")
        for name, what, shade in others:
            axes.stairs(per_second(name), ends, color=colour(shade), linewidth=1.4, label=what)
        axes.set_ylim(bottom=0)
        legend(axes)

    return Plot("rate", title, caption, draw)


def memory(summary: Summary) -> Plot | Missing:
    """Bytes in the ledger over time."""
    title = "Memory"
    used, limits = summary["series"]["used_bytes"], summary["series"]["limit_bytes"]
    if not any(used):
        return Missing(title, "memory in the log")
    peak, limit = peak_of(summary)
    most = max(filter(None, used))
    near = any(limits) and max(limits) <= NEAR_LIMIT * most
    of = f" of a limit of {format_bytes(limit)}" if limit else ""
    far = ", which is far above the picture" if limit and not near else ""
    caption = f"The most bytes in the ledger in each moment: {format_bytes(most)} at most{of}{far}"
    # The log has the memory at page events; only the run itself knows the other charges.
    caption += f"; between those moments up to {format_bytes(peak)}." if peak > 1.02 * most else "."

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        top = max(most, *limits) if near else most
        scale, unit = unit_of(top)
        at = over_time(axes, summary, f"memory [{unit}]")
        values = [math.nan if u is None else u / scale for u in used]
        axes.stairs(values, at, fill=True, color=colour("sky"), alpha=0.7, label="in use")
        if near:
            bounds = [b / scale if b else math.nan for b in limits]
            axes.stairs(bounds, at, baseline=None, color=colour("red"), linewidth=1.6, label="limit")
        axes.set_ylim(0, top / scale * 1.08)
        legend(axes)

    return Plot("memory", title, caption, draw)


def working_set(summary: Summary) -> Plot | Missing:
    """Pages used by each time step, for grid and solution."""
    title = "Working set of a time step"
    steps = [s for s in summary["steps"] if s["grid_touched"] or s["solution_touched"]]
    if not steps:
        return Missing(title, "touched pages of a grid or a solution")
    # A fixed grid counts in the first step and is used in all.
    still = len(steps) > 1 and all(not s["grid_touched"] for s in steps[1:])
    caption = _working_set_caption(steps, still)

    def draw(figure: FigureBase) -> None:
        left, right = figure.subplots(1, 2)
        for axes, key, scale in ((left, "touched", 1.0), (right, "share", 100.0)):
            for kind in ("grid", "solution"):
                values = [s[f"{kind}_{key}"] * scale for s in steps]
                if any(values):
                    _by_step(axes, steps, values, kind, still)
            axes.set_ylim(bottom=0)
            axes.grid(axis="y")
            axes.set_ylabel("pages touched" if key == "touched" else "share of pages [%]")
            ticks(axes.yaxis, 6)
            if len(steps) > 1:
                axes.set_xlabel("time step")
                ticks(axes.xaxis, 5, whole=True)
            else:
                axes.set_xlim(-0.8, 1.8)
        if len(steps) > 1:
            legend(left)

    return Plot("working-set", title, caption, draw)


def _working_set_caption(steps: Sequence[Mapping[str, Any]], still: bool) -> str:
    solution = [s["solution_touched"] for s in steps if s["solution_touched"]]
    grid = [s["grid_touched"] for s in steps if s["grid_touched"]]
    if len(steps) == 1:
        step = steps[0]
        grid_words = f"{count(step['grid_touched'], 'page')} of the grid ({percent(step['grid_share'])})"
        solution_words = f"{number(step['solution_touched'])} of the solution ({percent(step['solution_share'])})"
        return f"Of time step {step['step']} the run touched {grid_words} and {solution_words}."
    parts = []
    if solution:
        parts.append(f"{number(sum(solution) / len(solution))} pages of the solution a time step on average")
    if grid:
        parts.append(
            f"{count(grid[0], 'page')} of a grid at rest" if still else f"{number(sum(grid) / len(grid))} of the grid"
        )
    return f"Touched in {len(steps):,} time steps: {' and '.join(parts)}."


def _by_step(axes: Axes, steps: Sequence[Mapping[str, Any]], values: Sequence[float], kind: str, still: bool) -> None:
    shade = colour(ROLES[kind])
    numbers = [s["step"] for s in steps]
    if len(steps) == 1:
        place = 0 if kind == "grid" else 1
        axes.bar([place], values, width=0.6, color=shade)
        axes.set_xticks([0, 1], ["grid", "solution"])
    elif still and kind == "grid":
        axes.axhline(values[0], color=shade, linestyle="--", label="grid, at rest")
    elif len(steps) <= MOST_STEP_BARS:
        shift, width = (0.0, 0.8) if still else (-0.2 if kind == "grid" else 0.2, 0.4)
        axes.bar([n + shift for n in numbers], values, width=width, color=shade, label=kind)
    else:
        axes.plot(numbers, values, color=shade, label=kind)


def by_array(summary: Summary) -> Plot | Missing:
    """The touched share of each array."""
    title = "Pages touched by array"
    touched = sorted((a for a in summary["arrays"] if a["touched"]), key=lambda a: -a["touched_bytes"])
    if not touched:
        return Missing(title, "touched pages")
    shown, rest = touched[:MOST_BARS], touched[MOST_BARS:]
    caption = f"Bytes of different pages that were touched, of {count(len(touched), 'array')}; beside it, how many of their pages."
    bars = [(plain(a["name"], 28), a["touched_bytes"], _of_its_pages(a), ROLES.get(a["role"], "grey")) for a in shown]
    caption += add_others(bars, len(rest), sum(a["touched_bytes"] for a in rest), "")
    roles = {r: _ROLE_WORDS[r] for r in ROLES if any(a["role"] == r for a in shown)}

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        bars_of(axes, bars, "touched")
        for role, words in roles.items():
            axes.scatter([], [], marker="s", color=colour(ROLES[role]), label=words)
        legend(axes, handletextpad=0.3)

    return Plot("arrays", title, caption, draw, height=bars_height(len(bars)))


def _of_its_pages(array: Mapping[str, Any]) -> str:
    pages = max(1, array["pages"] * array["steps"])
    return f"{number(array['touched'])} of {number(pages)} ({percent(array['touched'] / pages)})"


def unit_of(most: float) -> tuple[float, str]:
    """The unit for amounts of memory up to `most`, and its size in bytes."""
    return next(
        (2.0**n, u) for n, u in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes")) if most >= 2.0**n or not n
    )


def bars_height(bars: int) -> float:
    """Height in inches of a figure with this number of bars."""
    return max(1.6, 0.9 + 0.21 * bars)


def add_others(bars: list[tuple[str, float, str, str]], others: int, total_bytes: int, words: str) -> str:
    """Adds a bar for all remaining items; if it would dwarf the others, a sentence for the caption instead."""
    if not others:
        return ""
    if total_bytes > NEAR_LIMIT * bars[0][1]:
        return f" {count(others, 'other')} with {format_bytes(total_bytes)} together {'has' if others == 1 else 'have'} no bar."
    bars.append((count(others, "other"), total_bytes, words, "grey"))
    return ""


def bars_of(axes: Axes, bars: Sequence[tuple[str, float, str, str]], what: str) -> None:
    """Horizontal bars of bytes from the top, each followed by its text."""
    most = max(max(value for _, value, _, _ in bars), 1)
    scale, unit = unit_of(most)
    places = range(len(bars))
    axes.barh(places, [v / scale for _, v, _, _ in bars], height=0.7, color=[colour(shade) for _, _, _, shade in bars])
    for place, (_, value, words, _) in zip(places, bars, strict=True):
        axes.annotate(words, (value / scale, place), (4, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.set_yticks(places, [name for name, _, _, _ in bars])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    # Leave room for the text behind the longest bar.
    axes.set_xlim(0, most / scale * (1.0 + 0.032 * max((len(w) for _, _, w, _ in bars), default=0)))
    axes.set_xlabel(f"{what} [{unit}]")
    ticks(axes.xaxis, 5)
    axes.grid(axis="x")
