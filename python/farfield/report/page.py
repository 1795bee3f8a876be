"""The report as a single page of HTML without network, script or fonts.

It follows the light or dark setting of the system; figures take their colours from the page (`plots.COLOURS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from farfield.report import servers
from farfield.report.amounts import Summary, command_of, number, percent, plain, seconds
from farfield.report.figures import plots
from farfield.report.plots import COLOURS, Missing, Plot, svg
from farfield.report.verdict import Part, Verdict, peak_of, total, verdict, workers_of
from farfield.report.verdict_html import LEAST_SHOWN, escaped, prose, shaded
from farfield.runtime.sizes import count, format_bytes

MOST_ROWS = 300
"""Largest number of rows of a table; a dataset of a thousand zones has thousands of arrays."""
FOLDED_ROWS = 24
"""Number of rows from which tables are initially folded."""
LONGEST_NAME = 200
LONGEST_COMMAND = 2000


_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--card:#f6f8fa;LIGHT;
--sans:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--card:#1c2229;DARK}svg image{filter:brightness(1.45)}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 var(--sans)}
main{max-width:1200px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:20px;margin:40px 0 12px}
h3{font-size:16px;margin:0 0 2px}
p{margin:0 0 8px}
code{font:14px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.after{margin-top:12px}
.muted,figcaption{color:var(--muted)}
.verdict{background:var(--card);border-left:4px solid var(--blue);border-radius:6px;padding:16px 20px;margin:20px 0}
.verdict ul{margin:0;padding-left:20px}.verdict li{margin:4px 0}.verdict li:first-child{font-weight:600}
.bar{display:flex;height:30px;border-radius:4px;overflow:hidden;margin:6px 0 8px;background:var(--line)}
.bar span{display:block;min-width:1px}
.key{display:flex;flex-wrap:wrap;gap:4px 20px;margin:0 0 16px;padding:0;list-style:none;font-size:14.5px}
.key i,.sw{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;vertical-align:-1px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14.5px}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--muted);font-weight:500}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.name{overflow-wrap:anywhere;min-width:150px}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 40px;align-items:start}
.figures{display:grid;grid-template-columns:1fr 1fr;gap:20px}
figure{margin:0;padding:14px 16px;background:var(--card);border-radius:6px;min-width:0}
figure.wide{grid-column:1/-1}
figcaption{font-size:14px;line-height:1.4;margin-bottom:8px}
figure svg{display:block;width:100%;height:auto}svg *{stroke-linejoin:round;stroke-linecap:butt}
summary{cursor:pointer;color:var(--muted);padding:6px 0}
@media (max-width:860px){.figures,.pair{grid-template-columns:minmax(0,1fr)}main{padding:16px 12px 40px}
h1{font-size:21px}.verdict{padding:12px 14px}figure{padding:12px 10px}
figure.wide svg{min-width:760px}th,td{padding-right:10px}}
@media print{figure,.verdict{break-inside:avoid}}
"""


def page(summary: Summary, said: Verdict | None = None, figures: Iterable[tuple[Plot, str]] | None = None) -> str:
    """The page. `figures` are finished figures, each with its SVG; None draws them here."""
    said = said or verdict(summary)
    found = plots(summary)
    drawn = list(figures) if figures is not None else [(plot, svg(plot)) for plot in found if isinstance(plot, Plot)]
    missing = [plot for plot in found if isinstance(plot, Missing)]
    file, command = plain(str(summary["file"]), LONGEST_NAME), command_of(summary["run"])
    body = [
        f"<h1>What {escaped(file)} waited for</h1>",
        f'<p class="muted"><code>{escaped(plain(command, LONGEST_COMMAND))}</code></p>' if command else "",
        _verdict(said),
        _advice(summary),
        "<h2>In numbers</h2>",
        _numbers(summary),
        "<h2>Figures</h2>" if drawn else "",
        f'<div class="figures">{"".join(_figure(plot, text) for plot, text in drawn)}</div>' if drawn else "",
        _not_shown(missing),
        _arrays(summary["arrays"]),
        _sources(summary["sources"]),
        *_servers(summary),
        _conditions(summary),
    ]
    colours = [";".join(f"--{name}:{pair[n]}" for name, pair in COLOURS.items()) for n in (0, 1)]
    look = _STYLE.replace("LIGHT", colours[0]).replace("DARK", colours[1]).strip()
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(file)}: Farfield report</title><style>{look}</style></head>\n<body><main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main></body></html>\n"
    )


def _bar(title: str, parts: Sequence[Part]) -> str:
    """A bar of shares with a legend."""
    shown = [(part, shade) for part, shade in shaded(parts) if part.time_s > 0.0]
    if not shown:
        return ""
    label = ", ".join(f"{part.what} {percent(part.share)}" for part, _ in shown)
    spans = "".join(
        f'<span style="width:{100 * part.share:.2f}%;background:var(--{shade})" title="{escaped(part.what)}"></span>'
        for part, shade in shown
        if part.share >= LEAST_SHOWN
    )
    key = "".join(
        f'<li><i style="background:var(--{shade})"></i>{escaped(part.what)} <b>{percent(part.share)}</b> '
        f'<span class="muted">{seconds(part.time_s)}</span></li>'
        for part, shade in shown
    )
    bar = f'<div class="bar" role="img" aria-label="{escaped(label)}">{spans}</div>'
    return f'<h3>{escaped(title)}</h3>{bar}<ul class="key">{key}</ul>'


def _verdict(said: Verdict) -> str:
    lines = "".join(f"<li>{prose(line)}</li>" for line in said.lines)
    threads = said.where is not said.phases
    bars = _bar(
        "Where the time of the worker threads went" if threads else "Where the time of the run went", said.where
    )
    if threads:
        bars += _bar("Phases of the run", said.phases)
    return f'<section class="verdict"><ul>{lines}</ul></section>{bars}'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str]) -> str:
    """A table of cells in HTML; `kinds` gives the kind of each column, `name` or number (`n`)."""
    head = "".join(f'<th class="{kind}">{escaped(text)}</th>' for kind, text in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values in two columns, or one below the other on narrow pages."""
    half = (len(rows) + 1) // 2
    tables = [
        "<table><tbody>"
        + "".join(f'<tr><th>{escaped(name)}</th><td class="n">{value}</td></tr>' for name, value in part)
        + "</tbody></table>"
        for part in (rows[:half], rows[half:])
        if part
    ]
    return f'<div class="pair">{"".join(tables)}</div>'


def _advice(summary: Summary) -> str:
    rows = [
        [
            f"<code>{escaped(change['change'])}</code>",
            seconds(change["saving_s"]),
            percent(change["saving_share"]),
            seconds(change["predicted_s"]),
            escaped(change["why"]),
        ]
        for change in summary["advice"]
    ]
    if not rows:
        return ""
    note = "Each by itself, by a model that runs the log again with other resources; changes together do not simply add up."
    return (
        "<h2>What would help</h2>"
        + _table(["change", "saves", "of the run", "which would take", "why"], rows, ("name", "n", "n", "n", "name"))
        + f'<p class="muted after">{note}</p>'
    )


def _numbers(summary: Summary) -> str:
    stats, touched = summary["stats"] or {}, summary["touched"]
    pages = stats.get("pages") or {}
    peak, limit = peak_of(summary)
    rows = [("time", seconds(summary["wall_s"] or 0.0))]
    if "cpu_s" in stats:
        rows.append(("processor time", seconds(stats["cpu_s"])))
    rows += [
        ("bytes read", format_bytes(total(summary, "bytes"))),
        ("reads", number(total(summary, "reads"))),
        ("page faults", number(total(summary, "faults"))),
        ("pages evicted", number(total(summary, "evictions"))),
        ("pages given back", number(total(summary, "given_back"))),
    ]
    if total(summary, "prefetched"):
        ahead = [number(total(summary, name)) for name in ("prefetched", "prefetch_used", "prefetch_wasted")]
        rows.append(("pages read ahead", f"{ahead[0]}, {ahead[1]} used, {ahead[2]} unused"))
    if peak:
        rows.append(("memory, at most", format_bytes(peak)))
    if limit:
        rows.append(("memory limit", format_bytes(limit)))
    for kind in ("grid", "solution"):
        of = touched[kind]
        if of["total"]:
            share = f"{number(of['pages'])} of {number(of['total'])} ({percent(of['pages'] / of['total'])})"
            rows.append((f"pages touched, {kind}", share))
    if pages.get("failed"):
        rows.append(("pages failed", number(pages["failed"])))
    rows.append(("events", number(summary["events"])))
    return _pairs([(name, escaped(value)) for name, value in rows])


def _figure(plot: Plot, drawn: str) -> str:
    wide = ' class="wide"' if plot.is_wide else ""
    return (
        f"<figure{wide}><h3>{escaped(plot.title)}</h3><figcaption>{prose(plot.caption)}</figcaption>"
        f'<div class="scroll">{drawn}</div></figure>\n'
    )


def _not_shown(missing: Sequence[Missing]) -> str:
    if not missing:
        return ""
    whys: dict[str, list[str]] = {}
    for plot in missing:
        whys.setdefault(plot.why, []).append(plot.title)
    said = "; ".join(f"{', '.join(titles)} (no {why})" for why, titles in whys.items())
    return f'<p class="muted after">Not shown: {escaped(said)}.</p>'


def _folded(title: str, table: str, rows: int) -> str:
    if rows <= FOLDED_ROWS:
        return f"<h2>{escaped(title)}</h2>{table}"
    return f"<h2>{escaped(title)}</h2><details><summary>{count(rows, 'row')}</summary>{table}</details>"


def _arrays(arrays: Sequence[Mapping[str, Any]]) -> str:
    if not arrays:
        return ""
    largest = sorted(arrays, key=lambda a: -a["touched_bytes"])
    rows = []
    for a in largest[:MOST_ROWS]:
        pages = a["pages"] * max(1, a["steps"])
        rows.append(
            [
                escaped(plain(a["name"], LONGEST_NAME)),
                escaped(a["role"]),
                number(a["steps"]),
                number(a["touched"]),
                percent(a["touched"] / pages) if pages else "",
                format_bytes(a["touched_bytes"]),
                number(a["faults"]),
                number(a["published"]),
                number(a["read_again"]),
            ]
        )
    heads = [
        "array",
        "role",
        "steps",
        "pages touched",
        "share",
        "bytes touched",
        "faults",
        "pages that came",
        "came again",
    ]
    kinds = ["name" if head in ("array", "role") else "n" for head in heads]
    rest = len(largest) - len(rows)
    more = f'<p class="muted">And {count(rest, "array")} of which less was touched.</p>' if rest else ""
    return _folded("Arrays", _table(heads, rows, kinds) + more, len(rows))


def _sources(sources: Sequence[Mapping[str, Any]]) -> str:
    if not sources:
        return ""
    rows = [
        [
            escaped(plain(s["name"], LONGEST_NAME)),
            number(s["reads"]),
            format_bytes(s["bytes"]),
            seconds(s["mean_us"] * 1e-6),
        ]
        for s in sources[:MOST_ROWS]
    ]
    return _folded(
        "Sources", _table(["source", "reads", "bytes", "mean time of a read"], rows, ("name", "n", "n", "n")), len(rows)
    )


def _servers(summary: Summary) -> Iterator[str]:
    for title, heads, rows in servers.tables(summary):
        names = ("server", "part")
        cells = [[escaped(cell) for cell in row] for row in rows[:MOST_ROWS]]
        yield _folded(title, _table(heads, cells, ["name" if head in names else "n" for head in heads]), len(cells))


def _conditions(summary: Summary) -> str:
    run, stats = summary["run"] or {}, summary["stats"] or {}
    forms = {"log": "Farfield's own", "chrome": "Chrome trace", "parquet": "Parquet"}
    rows = [("version of Farfield", run.get("version")), ("cores of the machine", run.get("cores"))]
    rows += [("worker threads", run.get("workers") or workers_of(summary) or None), ("readers", run.get("readers"))]
    rows += [("replacement", run.get("replacement")), ("transport", stats.get("transport"))]
    limit = run.get("memory_limit")
    rows += [("memory limit", format_bytes(limit) if limit else None)]
    base = stats.get("base_bytes")
    rows += [("memory before the run", format_bytes(base) if base else None)]
    rows += [
        ("form of the log", forms.get(summary["form"], summary["form"])),
        ("log", plain(str(summary["file"]), LONGEST_NAME)),
    ]
    shown = [(name, escaped(plain(str(value)))) for name, value in rows if value is not None]
    return "<h2>Conditions</h2>" + _pairs(shown)
