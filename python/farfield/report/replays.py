"""Replays of a recorded run's pages with other limits, policies and page sizes, without its data.

All results are estimates in a fixed order: replays use pages in the order of the recorded run. A real run would
continue with resident pages.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from farfield import _core
from farfield.errors import DataError, UsageError
from farfield.results import outputs
from farfield.results.text_tables import aligned
from farfield.runtime.progress import Report, reporting
from farfield.runtime.sizes import format_bytes, resolve_limit

Path = str | os.PathLike[str]
PICTURES = (".png", ".svg")
LOGS = (".json", ".parquet", ".events")
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_seconds(text: str) -> float:
    """Seconds from `5ms`, `300us` or `0.1s`.

    Raises:
        UsageError: if it is not a duration, or is negative.

    >>> parse_seconds("5ms"), parse_seconds("0.25 s")
    (0.005, 0.25)
    """
    word = text.strip()
    unit = next((u for u in ("us", "µs", "ms", "s") if word.endswith(u)), None)
    try:
        value = float(word.removesuffix(unit or "")) * _UNITS[unit or "s"]
    except ValueError:
        value = -1.0
    if unit is None or not 0 <= value < 1e6:
        raise UsageError(f"'{text}' is not a time; write it like 5ms, 300us or 0.1s")
    return value


def replay(
    events: Path,
    *,
    limits: Iterable[str | int] = (),
    policies: Sequence[str] = (),
    coarser: Sequence[int] = (),
    latencies_s: Sequence[float] = (),
    readers: Sequence[int] = (),
    workers: Sequence[int] = (),
    output: Path | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Replays the pages of a log; returns the JSON of `replay --json`.

    Args:
        events: The log of `--events`.
        limits: Memory limits, as in `farfield.open`; none: from all touched pages down to 1/32 of them.
        policies: Names of policies, or `optimum` (Belady's); none: all. `+executor` adds the hints of the executor
            (finished segments, pages without tasks), `+waiting` also the pages that parked tasks wait for.
        coarser: Numbers of pages along each axis that are merged into one.
        latencies_s: Seconds per read in the model of times.
        readers: Numbers of reads in flight in this model.
        workers: Numbers of computing threads in this model.
        output: A `.png` or `.svg` file for the curves.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the log cannot be read.
        UsageError: if a policy does not exist, or an option is invalid.
    """
    if any(n < 2 for n in coarser):
        raise UsageError("a page can only be made of two others or more along each axis: --page-factor 2,4")
    target = None
    if output is not None:
        target = outputs.output_path(output, PICTURES, "curves")
        outputs.check([target], [events])
    options = {
        "limits": [resolve_limit(limit) for limit in limits],
        "policies": list(policies),
        "coarser": list(coarser),
        "latencies_s": list(latencies_s),
        "readers": list(readers),
        "workers": list(workers),
    }
    with reporting(progress) as report, log_named(events):
        text = _core.replay_events(os.fspath(events), options=json.dumps(options), progress=report)
    found: dict[str, Any] = json.loads(text)
    found["warnings"] = unsound(found, events)
    if target is not None:
        draw_curves(found, target)
        found["output"] = target
    return found


def export(events: Path, output: Path, *, progress: bool | Report | None = None) -> dict[str, Any]:
    """Converts a log: `.json` is a Chrome trace for Perfetto, `.parquet` a table, `.events` the log's own form.

    Raises:
        DataError: if the log cannot be read or the file cannot be written.
        UsageError: if the file is the log, or has a wrong ending.
    """
    target = outputs.output_path(output, LOGS, "logs")
    outputs.check([target], [events])
    with reporting(progress) as report, log_named(events):
        found: dict[str, Any] = json.loads(
            _core.export_events(os.fspath(events), target, progress=report),
        )
    return {**found, "warnings": unsound(found, events)}


@contextlib.contextmanager
def log_named(events: Path) -> Iterator[None]:
    """Rewrites errors of a log: they name the log and give advice, instead of a library's words.

    >>> with log_named("none.events"):
    ...     pass
    Traceback (most recent call last):
    farfield.errors.DataError: none.events: there is no such file or folder; check the path ...

    Raises:
        DataError: if the log does not exist or is damaged.
    """
    name = os.fspath(events)
    if not os.path.lexists(name):
        raise outputs.not_there(name)
    try:
        yield
    except DataError as error:
        text = str(error)
        head, _, reason = text.partition(": Parquet error: ")
        if reason and head == name:
            reason = reason.removeprefix("Invalid Parquet file. ")
            raise DataError(f"{name}: {_DAMAGED} ({reason}); {_AGAIN}") from error
        if text == f"{name}: the head of this log of events is damaged":
            raise DataError(f"{text}; {_AGAIN}") from error
        raise


_DAMAGED = "this log of events is damaged"
_AGAIN = "copy it again from where the run wrote it"


def unsound(found: Mapping[str, Any], events: Path) -> list[str]:
    """Warnings about an incomplete or damaged log.

    >>> unsound({"whole": False, "damaged": True, "lost_bytes": 2048}, "a.json")
    ['a.json: the log is damaged: a checksum is wrong, and 2.0 KiB are left out; copy it again from where the run wrote it']
    """
    name = os.fspath(events)
    if found["whole"]:
        return []
    lost = format_bytes(found["lost_bytes"])
    if found["damaged"]:
        out = f"and {lost} are left out" if found["lost_bytes"] else "so that any number in it may be"
        return [f"{name}: the log is damaged: a checksum is wrong, {out}; {_AGAIN}"]
    return [
        f"{name}: the log ends before its run did: the run was killed, or goes on; {lost} behind its last whole block are left out"
    ]


def by_policy(found: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The curves of a replay by policy, from the largest limit to the smallest."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(found["curves"], key=lambda r: -r["frame_bytes"]):
        curves.setdefault(row["policy"], []).append(row)
    return curves


def table(found: Mapping[str, Any]) -> list[str]:
    """The results of a replay as text: the run, its reproduction, misses by policy and limit, and the times of the
    model."""
    run, mirror = found["run"], found["mirror"]
    lines = [
        f"run      {run['faults']:,} faults, {run['evictions']:,} evictions; replayed with its own policy "
        f"({found['policy']}) and limit: {mirror['faults']:,} and {mirror['evictions']:,}",
        f"pages    {found['uses']:,} uses of {found['touched']:,} pages, {format_bytes(found['touched_bytes'])}",
        "",
        "misses (of them pages read again), estimated in the order of this run",
    ]
    curves = by_policy(found)
    rooms = sorted({row["frame_bytes"] for row in found["curves"]}, reverse=True)
    best = {row["frame_bytes"]: row["misses"] for row in curves.get("optimum", [])}
    rows = [["policy", *(format_bytes(room) for room in rooms)]]
    for policy, points in curves.items():
        of = {p["frame_bytes"]: p for p in points}
        cells = []
        for room in rooms:
            point = of.get(room)
            if point is None:
                cells.append("")
                continue
            over = f" x{point['misses'] / best[room]:.2f}" if best.get(room) and policy != "optimum" else ""
            cells.append(f"{point['misses']:,} ({point['again']:,}){over}")
        rows.append([policy, *cells])
    lines += aligned(rows, left=1)
    if not found["optimum"]:
        lines.append("the optimum is left out: the log is too long for it")
    for size in found["page_sizes"]:
        cells = [f"{format_bytes(r['frame_bytes'])}: {r['misses']:,}" for r in size["rows"]]
        lines.append(
            f"pages {size['coarser']} times as long along each axis: {size['touched']:,} touched, "
            f"{format_bytes(size['touched_bytes'])}; misses {', '.join(cells)}"
        )
    if found["times"]:
        model = found["model"]
        lines += ["", f"time     {model['measured_s']:.2f} s measured, {model['predicted_s']:.2f} s by the model"]
        for row in found["times"]:
            lines.append(f"  {_change(row)}: {row['predicted_s']:.2f} s")
    return lines


def _change(row: Mapping[str, Any]) -> str:
    """Readers, workers and latency of a predicted time.

    >>> _change({"of": "latency_s", "to": 0.005}), _change({"of": "readers", "to": 16})
    ('5 ms a read', '16 readers')
    """
    if row["of"] == "latency_s":
        return f"{1e3 * row['to']:.3g} ms a read"
    if row["of"] == "memory_limit":
        return f"a memory limit of {format_bytes(row['to'])}"
    return f"{row['to']} {row['of']}"


def draw_curves(found: Mapping[str, Any], target: str) -> None:
    """Misses over the memory for frames, a line per policy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31"]
    for n, (policy, points) in enumerate(by_policy(found).items()):
        optimum = policy == "optimum"
        x, y = [p["frame_bytes"] for p in points], [p["misses"] for p in points]
        colour = "#000000" if optimum else colours[n % len(colours)]
        style = "--" if optimum else "-"
        name = "optimum (Belady)" if optimum else policy
        axes.plot(x, y, style, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: format_bytes(v)))
    plain = FuncFormatter(lambda v, _: f"{v:,.0f}")
    axes.yaxis.set_major_formatter(plain)
    # On axes of little more than a decade, minor ticks have labels, too; on longer ones they would be too many.
    lowest, highest = axes.get_ylim()
    axes.yaxis.set_minor_formatter(plain if highest < 20 * lowest else NullFormatter())
    axes.set_xlabel("memory for frames")
    axes.set_ylabel("misses (pages)")
    axes.grid(True, which="major", alpha=0.25)
    axes.axvline(found["touched_bytes"], color="#888888", linewidth=0.8)
    axes.annotate(
        "all that was touched",
        (found["touched_bytes"], 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -4),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="top",
        fontsize=8,
        color="#666666",
    )
    axes.legend(frameon=False, fontsize=9)
    axes.set_title(
        f"{os.path.basename(str(found['file']))}: estimates in the order of the recorded run", fontsize=10, loc="left"
    )
    figure.savefig(target, dpi=150)
