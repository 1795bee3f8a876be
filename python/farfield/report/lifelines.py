"""Figures of threads and tasks: their activities, the overlap of reading and computing, and lifelines like those of
NetLogger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield.report.amounts import Summary, listed, number, percent, plain, seconds
from farfield.report.plots import WIDE, Missing, Plot, clock, colour, legend, over_time
from farfield.report.verdict import workers_of
from farfield.runtime.sizes import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

READ, PICTURE = "a read", "a picture"
"""Names for the activity of readers and for pictures; threads have spans of other names."""
KINDS = {
    "run": ("computing", "green"),
    "compute": ("computing", "green"),
    "wait": ("waiting", "orange"),
    "turn": ("waiting for its turn", "grey"),
    "decode": ("decoding", "sky"),
    "derive": ("making derived pages", "purple"),
    READ: ("reading", "blue"),
    PICTURE: ("picture", "purple"),
}
"""Words and colours of known activities; all other names are spans."""
SPANS = ("red", "purple", "blue", "sky", "green", "orange")
"""Colours of other spans, unless a known activity uses them."""
OTHERS = ("other spans", "muted")
NEITHER_SHARE = 0.2
"""Share of a run without reading and computing that the caption mentions."""
MOST_THREADS = 24
READERS_INCHES = 1.7
"""Height that many readers share."""
ROW_INCHES = 0.155
PIXELS = 1800
"""Number of parts of the window: spans closer than one part are merged."""
MOST_RECTANGLES = 6000
"""Number of rectangles from which lines are drawn as pixels, which bounds the size of the figure."""

Span = tuple[float, float, str]
Row = tuple[str, list[Span]]


def use(summary: Summary) -> Plot | Missing:
    """The numbers of computing and waiting threads over time."""
    title = "What the worker threads did"
    computing, waiting = summary["series"]["computing"], summary["series"]["waiting"]
    if not any(computing) and not any(waiting):
        return Missing(title, "worker threads")
    workers = workers_of(summary) or int((summary["run"] or {}).get("workers") or 0)
    width_s, wall_s = summary["bins"]["width_s"], max(summary["wall_s"], 1e-9)
    caption = (
        f"Threads that computed, and on top of them those that had nothing to do: {number(sum(computing) * width_s / wall_s)} and "
        f"{number(sum(waiting) * width_s / wall_s)} of {number(workers)} on average; what is left is decoding and other work."
    )

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        at = over_time(axes, summary, "threads")
        both = [c + w for c, w in zip(computing, waiting, strict=True)]
        axes.stairs(computing, at, fill=True, color=colour("green"), alpha=0.85, label="computing")
        axes.stairs(both, at, baseline=computing, fill=True, color=colour("orange"), alpha=0.85, label="waiting")
        if workers:
            axes.axhline(workers, color=colour("ink"), linewidth=1.0, linestyle="--", label=count(workers, "worker"))
        axes.set_ylim(0, max(workers, *both) * 1.1)
        legend(axes)

    return Plot("use", title, caption, draw)


def overlap(summary: Summary) -> Plot | Missing:
    """The overlap of reading and computing."""
    title = "Overlap of reading and computing"
    found = summary["overlap"]
    reading_s, compute_s, wall_s = found["reading_s"], found["compute_s"], found["wall_s"]
    if not reading_s or not compute_s or not wall_s:
        return Missing(title, "reading" if not reading_s else "computing")
    several = found["units"] > 1
    best_s = found["ideal_s"] if several else max(reading_s, compute_s)
    at_best = "if each were read while the one before it is computed" if several else "for the longer of the two"
    of = f" of {number(found['units'])} {plain(found['unit'])}" if several else ""
    hidden = min(1.0, found["both_s"] / reading_s)
    caption = (
        f"Measured {seconds(wall_s)}{of}, against {seconds(found['serial_s'])} for reading and computing one after the other and "
        f"{seconds(best_s)} {at_best}; up to {percent(hidden)} of the reading was hidden"
    )

    both = min(found["both_s"], reading_s, compute_s)
    neither_s = max(0.0, wall_s - reading_s - compute_s + both)
    if neither_s > NEITHER_SHARE * wall_s:
        caption += f", and for {seconds(neither_s)} the run did neither"

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        factor, label = clock(max(wall_s, found["serial_s"]))
        parts = {
            "one after\nthe other": [("reading", reading_s), ("computing", compute_s)],
            "measured": [
                ("reading", reading_s - both),
                ("both", both),
                ("computing", compute_s - both),
                ("neither", neither_s),
            ],
            "at best": [("", best_s)],
        }
        shades = {"reading": "blue", "both": "purple", "computing": "green", "neither": "grey", "": "line"}
        seen = {""}
        for place, row in enumerate(parts.values()):
            at = 0.0
            for what, time_s in row:
                word = what if what not in seen else None
                seen.add(what)
                axes.barh(
                    [place], [time_s * factor], left=at * factor, height=0.6, color=colour(shades[what]), label=word
                )
                at += time_s
            axes.annotate(seconds(at), (at * factor, place), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(parts)), list(parts))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(parts) - 0.5, -0.5)
        axes.set_xlim(0, max(wall_s, found["serial_s"], best_s) * factor * 1.16)
        axes.set_xlabel(label)
        axes.grid(axis="x")
        legend(axes, 5)

    return Plot("overlap", title, caption + ".", draw)


def lifelines(summary: Summary) -> Plot | Missing:
    """The activities of all threads in a part of the run."""
    title = "Lifelines"
    found = summary["lifelines"]
    begin_s, end_s = found["window"]
    groups = [(name, rows) for name, rows in _groups(found) if any(spans for _, spans in rows)]
    if not groups or end_s <= begin_s:
        return Missing(title, "tasks, reads or spans of threads")
    whole = begin_s <= 0.0 and end_s >= summary["wall_s"]
    part = "the whole run" if whole else f"the {seconds(end_s - begin_s)} after {seconds(begin_s)}, where much happened"
    looks = _looks(rows for _, rows in groups)
    caption = f"What {listed([name for name, _ in groups])} did, a line each, in {part}."
    heights = {name: _row_inches(name, len(rows)) for name, rows in groups}
    height = 1.1 + sum(heights[name] * len(rows) + 0.15 for name, rows in groups)

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        factor, label = clock(end_s - begin_s if whole else summary["wall_s"])
        ticks: list[tuple[float, str]] = []
        boxes: dict[str, list[tuple[float, float, float, float]]] = {}
        kinds: dict[str, str] = {}
        top = 0.0
        for name, rows in groups:
            each = heights[name]
            if each < ROW_INCHES:
                ticks.append((top + each * len(rows) / 2, f"{len(rows)} {name}"))
            for words, spans in rows:
                if each >= ROW_INCHES:
                    ticks.append((top + each / 2, plain(words, 18)))
                for start, end, what in merged(spans, (end_s - begin_s) / PIXELS):
                    text, shade = looks.get(what, OTHERS)
                    kinds.setdefault(text, shade)
                    place = (start * factor, top + 0.1 * each, end * factor, top + 0.9 * each)
                    boxes.setdefault(shade, []).append(place)
                top += each
            top += 0.15
        raster = sum(map(len, boxes.values())) > MOST_RECTANGLES
        for shade, places in boxes.items():
            _fill(axes, places, shade, raster)
        for text, shade in kinds.items():
            axes.scatter([], [], marker="s", color=colour(shade), label=text)
        axes.set_yticks([place for place, _ in ticks], [words for _, words in ticks], fontsize=8.5)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(top - 0.1, -0.05)
        axes.set_xlim(begin_s * factor, end_s * factor)
        axes.set_xlabel(label)
        axes.grid(axis="x")
        legend(axes, 8, handletextpad=0.3)

    return Plot("lifelines", title, caption, draw, WIDE, height)


def _looks(groups: Iterable[list[Row]]) -> dict[str, tuple[str, str]]:
    """A word and a colour for each kind of span; of other names, the longest have one."""
    sums: dict[str, float] = {}
    for start, end, what in (span for rows in groups for _, spans in rows for span in spans):
        sums[what] = sums.get(what, 0.0) + end - start
    looks = {what: KINDS[what] for what in sums if what in KINDS}
    taken = {shade for _, shade in looks.values()}
    free = [shade for shade in SPANS if shade not in taken]
    named = sorted((what for what in sums if what not in KINDS), key=lambda what: -sums[what])
    return looks | {what: (plain(what, 24), shade) for what, shade in zip(named, free, strict=False)}


def _groups(found: Mapping[str, Any]) -> list[tuple[str, list[Row]]]:
    slots: dict[int, list[Span]] = {}
    for slot, start, end, _ in found["readers"]:
        slots.setdefault(slot, []).append((start, end, READ))
    pictures: list[Row] = []
    for frame, start, end in sorted(found["frames"], key=lambda f: f[1]):
        # Simultaneous pictures get rows of their own.
        free = next((row for row in pictures if row[1][-1][1] <= start), None)
        if free is None:
            free = (f"picture {frame}", [])
            pictures.append(free)
        free[1].append((start, end, PICTURE))
    if any(len(spans) > 1 for _, spans in pictures):
        pictures = [("pictures" if n == 0 else "", spans) for n, (_, spans) in enumerate(pictures)]
    return [
        ("pictures", pictures),
        ("tasks", [(task["name"], _spans(task)) for task in found["tasks"]]),
        ("threads", [(thread["name"], _spans(thread)) for thread in found["threads"][:MOST_THREADS]]),
        ("readers", [(f"reader {slot + 1}", spans) for slot, spans in sorted(slots.items())]),
    ]


def _spans(line: Mapping[str, Any]) -> list[Span]:
    return [(start, end, what) for start, end, what in line["spans"]]


def _row_inches(name: str, rows: int) -> float:
    return min(ROW_INCHES, READERS_INCHES / rows) if name == "readers" else ROW_INCHES


def merged(spans: Sequence[Span], pixel_s: float) -> list[Span]:
    """The spans of a line, with neighbours of a kind merged if they cannot be distinguished.

    >>> merged([(0.0, 1.0, "run"), (1.01, 2.0, "run"), (2.0, 3.0, "wait")], 0.1)
    [(0.0, 2.0, 'run'), (2.0, 3.0, 'wait')]
    """
    shown: list[Span] = []
    for start, end, what in sorted(spans):
        last = shown[-1] if shown else None
        if last is not None and last[2] == what and start - last[1] <= pixel_s:
            shown[-1] = (last[0], max(end, last[1]), what)
        else:
            shown.append((start, max(end, start + pixel_s / 2), what))
    return shown


def _fill(axes: Axes, boxes: Sequence[tuple[float, float, float, float]], shade: str, raster: bool) -> None:
    """Rectangles of one colour as a single shape: a page with thousands of elements scrolls badly."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points: list[tuple[float, float]] = []
    for left, top, right, bottom in boxes:
        points += [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(boxes)
    shape = Path(points, codes)
    # `add_patch` would compute limits from every corner, though they are set.
    axes.add_artist(PathPatch(shape, facecolor=colour(shade), edgecolor="none", rasterized=raster, antialiased=True))
