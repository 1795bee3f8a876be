"""The style of a report's figures, and their conversion to SVG and PNG.

Matplotlib takes a quarter of a second to import, so only drawing imports it. Its global state stays unchanged:
figures use no pyplot, and settings are restored. Text in SVG stays text in the page's font. Matplotlib measures it in
DejaVu, which is wider than usual fonts, so that texts do not overlap. Colours are CSS variables, so that figures
follow the page's light or dark setting.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farfield.report.amounts import Summary, plain, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import FigureBase

COLOURS = {
    "ink": ("#24292f", "#e6e8ea"),
    "muted": ("#6a737d", "#9aa4ae"),
    "line": ("#d8dde2", "#3a424b"),
    "blue": ("#0072b2", "#4ba3dd"),
    "sky": ("#56b4e9", "#8ccbf0"),
    "orange": ("#e69f00", "#f0b43c"),
    "red": ("#d55e00", "#f07f35"),
    "green": ("#009e73", "#2fc49a"),
    "purple": ("#cc79a7", "#dd9cc0"),
    "grey": ("#9aa0a6", "#747c85"),
}
"""Colours on light and on dark pages. Those of data are Okabe and Ito's, which are safe for colour-blind readers."""
ROLES = {"grid": "blue", "solution": "red", "derived": "purple", "index": "grey"}
"""Colours of arrays by their role."""
NARROW, WIDE = 6.0, 12.4
"""Widths in inches. Two narrow figures fit side by side on a page."""
HEIGHT = 3.1
NEAR_LIMIT = 3.0
"""Largest ratio of limit to use at which the limit is drawn; a larger one would flatten the curve and is given as
text."""
PNG_DPI = 110
RASTER_DPI = 160
"""Resolution of parts that are drawn as pixels."""


@dataclass(frozen=True)
class Plot:
    """A figure with data."""

    name: str
    title: str
    caption: str
    """A sentence that describes the figure."""
    draw: Callable[[FigureBase], None]
    width: float = NARROW
    height: float = HEIGHT

    @property
    def is_wide(self) -> bool:
        """Whether the figure has the whole width of a page."""
        return self.width > NARROW


@dataclass(frozen=True)
class Missing:
    """A figure without data."""

    title: str
    why: str
    """The missing data, as text after "no"."""


def colour(name: str) -> str:
    """The colour on light pages; dark pages replace it."""
    return COLOURS[name][0]


@contextmanager
def style(salt: str) -> Iterator[None]:
    """Settings for making and drawing figures. Equal summaries give equal bytes."""
    import matplotlib

    ink, muted, line = colour("ink"), colour("muted"), colour("line")
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "path.simplify": True,
        "text.parse_math": False,  # names may contain dollar signs
        "text.color": ink,
        "font.family": ["DejaVu Sans"],
        "font.size": 9.5,
        "axes.titlesize": 9.5,
        "axes.labelcolor": ink,
        "axes.edgecolor": muted,
        "axes.facecolor": "none",
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": False,
        "grid.color": line,
        "grid.linewidth": 0.6,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "legend.frameon": False,
        "legend.fontsize": 9.0,
        "figure.facecolor": "none",
        "figure.constrained_layout.w_pad": 0.08,
        "figure.constrained_layout.h_pad": 0.06,
        "lines.linewidth": 1.4,
    }
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        # A box replaces characters that the font lacks; a warning on stderr would not help.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        yield


def svg(plot: Plot) -> str:
    """A figure as an `svg` element of a page."""
    from matplotlib.figure import Figure

    with style(plot.name):
        figure = Figure(figsize=(plot.width, plot.height), layout="constrained")
        plot.draw(figure)
        out = io.StringIO()
        nothing = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        figure.savefig(out, format="svg", facecolor="none", dpi=RASTER_DPI, metadata=nothing)
    return _inlined(out.getvalue(), plot)


def _inlined(text: str, plot: Plot) -> str:
    """The part of an SVG file that a page needs: no header, unique names, colours of the page."""
    from html import escape

    view = re.search(r'viewBox="([^"]*)"', text)
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style\b.*?</style>", "", body, flags=re.DOTALL)
    # Only within tags, since names from the log may look like any of these.
    body = re.sub(r"<[^>]*>", lambda tag: _page_tag(tag[0], plot.name), body)
    label = escape(f"{plot.title}. {plot.caption}", quote=True)
    box = view[1] if view else "0 0 1 1"
    return f'<svg viewBox="{box}" role="img" aria-label="{label}">{body.strip()}</svg>'


def _page_tag(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = (
        tag.replace("url(#", f"url(#{name}-")
        .replace('xlink:href="#', f'href="#{name}-')
        .replace("xlink:href=", "href=")
    )
    for shade, (light, _) in COLOURS.items():
        tag = tag.replace(light, f"var(--{shade})")
    tag = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--sans)", tag)
    # A hundredth of a point is invisible, and saves two thirds of the bytes.
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), tag)


def png(found: Sequence[Plot], title: str, lines: Sequence[str]) -> bytes:
    """All figures on one sheet, below a title and sentences."""
    import textwrap

    from matplotlib.figure import Figure

    rows: list[list[Plot]] = []
    for plot in found:
        beside = rows and not plot.is_wide and len(rows[-1]) == 1 and not rows[-1][0].is_wide
        rows[-1].append(plot) if beside else rows.append([plot])
    words = [part for line in lines for part in textwrap.wrap(line, 150, subsequent_indent="   ")]
    heights = [0.5 + 0.19 * len(words), *(max(plot.height for plot in row) + 0.35 for row in rows)]
    with style("sheet"):
        sheet = Figure(figsize=(WIDE + 0.2, sum(heights)), layout="constrained", facecolor="white")
        parts = sheet.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        parts[0].text(0.008, 1.0 - 0.1 / heights[0], plain(title, 120), fontsize=13, weight="bold", va="top")
        below = 1.0 - 0.42 / heights[0]
        parts[0].text(0.008, below, "\n".join(words), fontsize=9.5, va="top", linespacing=1.35)
        for row, part in zip(rows, parts[1:], strict=True):
            wide = row[0].is_wide
            for plot, place in zip(row, [part] if wide else part.subfigures(1, 2), strict=False):
                left = 0.1 / (WIDE if wide else NARROW)
                place.suptitle(plot.title, x=left, ha="left", fontsize=11, weight="bold")
                plot.draw(place)
        out = io.BytesIO()
        sheet.savefig(out, format="png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})
    return out.getvalue()


# Parts that figures share.


def clock(wall_s: float) -> tuple[float, str]:
    """The factor and the label of an axis of times.

    >>> clock(0.2), clock(45.0), clock(10_000.0)
    ((1000.0, 'time [ms]'), (1.0, 'time [s]'), (0.016666666666666666, 'time [min]'))
    """
    if wall_s < 1.0:
        return 1e3, "time [ms]"
    return (1.0, "time [s]") if wall_s < 3600.0 else (1.0 / 60.0, "time [min]")


def edges(summary: Summary) -> tuple[list[float], str]:
    """Edges of the bins of time on an axis, and its label. The last edge is the end of the run."""
    bins, wall_s = summary["bins"], summary["wall_s"]
    factor, label = clock(wall_s)
    at = [n * bins["width_s"] for n in range(bins["count"])]
    return [t * factor for t in [*at, max(wall_s, at[-1] + 1e-9)]], label


def over_time(axes: Axes, summary: Summary, label: str) -> list[float]:
    """Sets up the x axis as time and labels the y axis; returns the edges of the bins."""
    at, text = edges(summary)
    axes.set_xlim(at[0], at[-1])
    axes.set_xlabel(text)
    axes.set_ylabel(label)
    axes.grid(axis="y")
    return at


def legend(axes: Axes, columns: int = 4, **more: Any) -> None:
    """A legend above the axes, where it hides no data."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
        **more,
    )


def ticks(axis: Axis, most: int, whole: bool = False) -> None:
    """At most `most` intervals between labels; `whole` for integers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10], integer=whole))


def log_times(axes: Axes, low_s: float, high_s: float, which: str = "y") -> None:
    """A logarithmic axis of times in seconds, with units in its labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axes.set_yscale if which == "y" else axes.set_xscale)("log")
    (axes.set_ylim if which == "y" else axes.set_xlim)(low_s / 1.3, high_s * 1.3)
    axis = axes.yaxis if which == "y" else axes.xaxis
    near = high_s < 60.0 * low_s
    axis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0) if near else (1.0,), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value).replace(".0 ", " ")))
    axis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y" if which == "y" else "x")
