"""Reads at servers: where their time went, and the course of some of them here and there, like NetLogger's lifelines.

A read's parts add up to its time. The server says how long a request waited and how long it worked on it, so clocks of
two machines are never compared: the rest of the round trip is the line's, and is drawn half before and half after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield.report.amounts import Summary, listed, number, plain, seconds
from farfield.report.plots import WIDE, Missing, Plot, clock, colour, legend, ticks
from farfield.runtime.sizes import count, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

PARTS = {
    "waiting": ("waiting here", "grey"),
    "again": ("earlier attempts", "red"),
    "line": ("on the line", "sky"),
    "queue": ("in the server's queue", "orange"),
    "service": ("at work in the server", "green"),
    "receiving": ("receiving", "blue"),
}
"""Words and colours of the parts of a read, in their order."""
QUANTILES = {"p50_us": "half at most", "p90_us": "90 % at most", "p99_us": "99 % at most"}
MOST_SERVERS = 8
"""Servers drawn; tables have more."""
LEAST_US = 0.5
"""Parts below it are left out of sentences."""


def rows(summary: Summary) -> list[dict[str, Any]]:
    """The servers as JSON: counts, and the mean and quantiles of each part in seconds."""

    def times(found: Mapping[str, Any] | None) -> dict[str, float] | None:
        if found is None:
            return None
        names = ("total_s", *(key for key in ("mean_us", *QUANTILES)))
        return {name.replace("_us", "_s"): found[name] * (1.0 if name == "total_s" else 1e-6) for name in names}

    counts = ("reads", "bytes", "unanswered", "connections", "retried", "hedged", "withdrawn")
    return [
        {
            "server": server["name"],
            **{name: server[name] for name in counts},
            "time": times(server["took"]),
            "parts": {key: times(found) for key, found in server["parts"].items()},
        }
        for server in summary["servers"]
    ]


def sentences(summary: Summary) -> Iterator[str]:
    """What the time of reads at each server was."""
    for server in summary["servers"][:MOST_SERVERS]:
        name, took = plain(server["name"], 60), server["took"]
        if took is None:
            yield f"{name} answered no read."
            continue
        parts = [
            f"{seconds(found['mean_us'] * 1e-6)} {PARTS[key][0]}"
            for key, found in server["parts"].items()
            if found is not None and found["mean_us"] >= LEAST_US
        ]
        text = f"{name} answered {count(server['reads'], 'read')} of {format_bytes(server['bytes'])}"
        text += f", each in {seconds(took['mean_us'] * 1e-6)} on average"
        if parts:
            text += f": {listed(parts)}"
        trouble = [
            f"{number(server[key])} {words}"
            for key, words in (
                ("retried", "tried again"),
                ("hedged", "also asked elsewhere"),
                ("withdrawn", "withdrawn"),
            )
            if server[key]
        ]
        yield text + (f"; {listed(trouble)}" if trouble else "") + "."


def tables(summary: Summary) -> list[tuple[str, list[str], list[list[str]]]]:
    """Titles, heads and rows of the tables: counts, and times of the parts. The first column is a name."""
    servers = summary["servers"]
    if not servers:
        return []
    heads = [
        "server",
        "reads",
        "bytes",
        "connections",
        "tried again",
        "also asked elsewhere",
        "withdrawn",
        "not answered",
    ]
    keys = ("connections", "retried", "hedged", "withdrawn", "unanswered")
    counts = [
        [
            plain(s["name"], 100),
            number(s["reads"]),
            format_bytes(s["bytes"]),
            *(number(s[key]) if key != "connections" or s[key] else "not told" for key in keys),
        ]
        for s in servers
    ]
    parts = []
    for server in servers:
        if server["took"] is None:
            continue
        for key, (words, _) in {**PARTS, "took": ("the whole read", "")}.items():
            found = server["took"] if key == "took" else server["parts"][key]
            times = [seconds(found[name] * 1e-6) for name in ("mean_us", *QUANTILES)]
            parts.append([plain(server["name"], 100) if key == "waiting" else "", words, *times])
    return [
        ("Servers", heads, counts),
        ("Time of a read at each server", ["server", "part", "mean", *QUANTILES.values()], parts),
    ]


def parts(summary: Summary) -> Plot | Missing:
    """The mean time of a read at each server, by its parts."""
    title = "Time of a read at each server"
    servers = [s for s in summary["servers"] if s["took"] is not None][:MOST_SERVERS]
    if not servers:
        return Missing(title, "reads at servers")
    longest = max(servers, key=lambda s: s["took"]["mean_us"])
    most = max(PARTS, key=lambda key: longest["parts"][key]["mean_us"])
    caption = (
        f"Means; the parts add up to the whole. A read at {plain(longest['name'], 40)} took "
        f"{seconds(longest['took']['mean_us'] * 1e-6)}, most of it {PARTS[most][0]}."
    )

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        whole = max(s["took"]["mean_us"] for s in servers) * 1e-6
        factor, label = clock(whole)
        for place, server in enumerate(servers):
            at = 0.0
            for key, (words, shade) in PARTS.items():
                time_s = server["parts"][key]["mean_us"] * 1e-6 * factor
                axes.barh([place], [time_s], left=at, height=0.6, color=colour(shade), label=None if place else words)
                at += time_s
            axes.annotate(seconds(at / factor), (at, place), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(servers)), [plain(s["name"], 24) for s in servers])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(max(len(servers), 3) - 0.5, -0.5)
        axes.set_xlim(0, whole * factor * 1.18)
        axes.set_xlabel(label.replace("time", "time of a read"))
        axes.grid(axis="x")
        ticks(axes.xaxis, 6)
        legend(axes, 3)

    return Plot("servers", title, caption, draw)


def lifelines(summary: Summary) -> Plot | Missing:
    """The course of reads here and at their servers: each is one line through its steps."""
    title = "Reads here and at their servers"
    reads = summary["server_reads"]["reads"]
    if not reads:
        return Missing(title, "reads at servers")
    names = list(dict.fromkeys(read["server"] for read in reads))[:MOST_SERVERS]
    reads = [read for read in reads if read["server"] in names]
    begin_s = min(read["begin_s"] for read in reads)
    end_s = max(read["begin_s"] + sum(read["parts_s"]) for read in reads)
    caption = (
        f"{count(len(reads), 'read')} from {seconds(begin_s)} on, a line each. Below: asked for, sent, first byte, all here. "
        "Above: arrived at the server, taken up, answered. How long a server took is its own word; half of the rest of the "
        "round trip is drawn on either way."
    )
    height = 2.6 + 0.9 * len(names)

    def draw(figure: FigureBase) -> None:
        axes = figure.add_subplot()
        factor, label = clock(end_s - begin_s)
        # Lanes from below: this machine's four steps, then three of each server.
        lanes = {"asked for": 0.0, "sent": 0.5, "first byte": 1.0, "all here": 1.5}
        base = {name: 2.6 + 1.7 * n for n, name in enumerate(names)}
        for read in reads:
            _line(axes, read, begin_s, factor, base[read["server"]])
        for words, shade in PARTS.values():
            axes.plot([], [], color=colour(shade), linewidth=2.4, label=words)
        places = [(place, step) for step, place in lanes.items()]
        for name, place in base.items():
            places += [(place, "arrived"), (place + 0.5, "taken up"), (place + 1.0, "answered")]
            axes.axhline(place - 0.35, color=colour("line"), linewidth=0.8)
            axes.annotate(
                plain(name, 40), (0.004, place + 1.08), xycoords=("axes fraction", "data"), fontsize=8.5, weight="bold"
            )
        axes.annotate("here", (0.004, 1.62), xycoords=("axes fraction", "data"), fontsize=8.5, weight="bold")
        axes.set_yticks([place for place, _ in places], [step for _, step in places], fontsize=8.5)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.25, max(base.values()) + 1.45)
        axes.set_xlim(0, (end_s - begin_s) * factor * 1.01)
        axes.set_xlabel(label.replace("time", f"time since {seconds(begin_s)}"))
        axes.grid(axis="x")
        legend(axes, 6)

    return Plot("server-lifelines", title, caption, draw, WIDE, height)


def _line(axes: Axes, read: Mapping[str, Any], begin_s: float, factor: float, base: float) -> None:
    """One read through its steps, each piece in the colour of its part."""
    waiting, again, line, queue, service, receiving = read["parts_s"]
    at = read["begin_s"] - begin_s
    steps: Sequence[tuple[str, float, float]] = [
        ("waiting", waiting, 0.5),
        ("again", again, 0.5),
        ("line", line / 2, base),
        ("queue", queue, base + 0.5),
        ("service", service, base + 1.0),
        ("line", line / 2, 1.0),
        ("receiving", receiving, 1.5),
    ]
    place = 0.0
    for part, time_s, to in steps:
        if part == "again" and time_s == 0.0:
            continue
        axes.plot(
            [at * factor, (at + time_s) * factor], [place, to], color=colour(PARTS[part][1]), linewidth=1.0, alpha=0.85
        )
        at, place = at + time_s, to
