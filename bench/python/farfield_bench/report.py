"""docs/benchmarks.md, made from results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from farfield.runtime.sizes import format_bytes
from farfield_bench.plots import Image
from farfield_bench.result import Arm, Result


def report(results: Sequence[Result], images: Mapping[str, Sequence[Image]] | None = None) -> str:
    """The whole page, with the plots of each experiment.

    >>> report([]).splitlines()[0]
    '# Benchmarks'
    """
    lines = [
        "# Benchmarks",
        "",
        "Made by `farfield-bench report` from the JSON files in `docs/benchmarks/`; run one again with `make bench-NAME`, all with",
        "`make bench`. Figures are medians over the runs; ± is half of the largest less the smallest value, as a share of the",
        "median. Arms of one table were measured side by side in one run. Times are of wall clock or of processor (CPU), and of",
        "the whole process unless the text says otherwise. *Evicted* files are not in the page cache when a run begins.",
        "Before each run as much memory as it may take is touched and freed: a virtual machine may have given free memory back",
        "to its host, and then the first touch costs seconds a GiB, which would fall on whichever arm comes first. What must",
        "hold is stated with its bound; what does not is marked as missed. The machine stands below each section. Plots are of the",
        "same figures; their thin lines go from the smallest to the largest value over the runs.",
        "",
    ]
    lines += _summary(results)
    for result in results:
        lines += _section(result, (images or {}).get(result.name, []))
    return "\n".join(lines).rstrip() + "\n"


def _summary(results: Sequence[Result]) -> list[str]:
    """One row per experiment: the number of its claims that hold."""
    if not results:
        return []
    lines = ["| experiment | hold | missed |", "|---|---|---|"]
    for result in results:
        missed = sum(not claim.holds for claim in result.claims)
        anchor = "".join(c for c in result.title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        quick = " (quick run)" if result.quick else ""
        bad = f"**{missed}**" if missed else "0"
        lines.append(f"| [{result.title}](#{anchor}){quick} | {len(result.claims) - missed} | {bad} |")
    return [*lines, ""]


def _section(result: Result, images: Sequence[Image]) -> list[str]:
    m = result.machine
    lines = [f"## {result.title}", "", f"`make bench-{result.name}`", ""]
    if result.about:
        lines += [result.about, ""]
    if result.quick:
        lines += ["**A quick run on small data: not figures to quote.**", ""]
    for image in images:
        # A space or a bracket would end the address.
        lines += [f"![{image.alt}]({quote(image.path)})", ""]
    if result.claims:
        lines += ["| must hold | measured | bound | |", "|---|---|---|---|"]
        for claim in result.claims:
            unit = f" {claim.unit}" if claim.unit else ""
            verdict = "holds" if claim.holds else "**missed**"
            lines.append(
                f"| {claim.text} | {_number(claim.value)}{unit} | {claim.relation} {_number(claim.bound)}{unit} | {verdict} |"
            )
        lines.append("")
    if result.conditions:
        lines += ["| condition | here | |", "|---|---|---|"]
        lines += [f"| {c.what} | {'yes' if c.here else '**no**'} | {c.why} |" for c in result.conditions] + [""]
    lines += _arms(result.arms)
    for table in result.tables:
        lines += [f"{table.title}", "", "| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
        lines += ["| " + " | ".join(v if isinstance(v, str) else _number(v) for v in row) + " |" for row in table.rows]
        lines.append("")
    lines += [f"- {note}" for note in result.notes] + ([""] if result.notes else [])
    others = {of: version for of, version in result.versions.items() if of not in ("farfield", "linux", "python")}
    with_others = "".join(f", {of} {version}" for of, version in others.items())
    lines += [
        f"<sub>{result.started}, commit {result.commit or 'unknown'}, {result.seconds:.0f} s; {m.cpu}, {m.cores} cores, "
        f"{format_bytes(m.memory_bytes)}, {m.disk}, Linux {m.kernel}, Python {m.python}{with_others}</sub>",
        "",
    ]
    return lines


def _arms(arms: Sequence[Arm]) -> list[str]:
    if not arms:
        return []
    settings = list(dict.fromkeys(key for arm in arms for key in arm.settings))
    keys = list(dict.fromkeys(key for arm in arms for key in arm.median))
    stops = ["stopped"] if any(arm.stop for arm in arms) else []
    lines = [
        "| " + " | ".join(["arm", *settings, *stops, *map(_heading, keys), "runs"]) + " |",
        "|" + "---|" * (len(settings) + len(stops) + len(keys) + 2),
    ]
    for arm in arms:
        cells = [arm.name, *(arm.settings.get(key, "") for key in settings)]
        cells += [_stopped(arm) for _ in stops]
        for key in keys:
            cells.append(_quantity(key, arm.median[key], arm.spread[key]) if key in arm.median else "")
        lines.append("| " + " | ".join([*cells, str(len(arm.runs))]) + " |")
    return [*lines, ""]


def _stopped(arm: Arm) -> str:
    """Why an arm has no figures: `over 10x, after 12 s`."""
    if arm.stop is None:
        return ""
    after = "" if arm.stop.after_s is None else f", after {_number(arm.stop.after_s)} s"
    return f"**{arm.stop.text}**{after}"


def _heading(key: str) -> str:
    """A quantity's name for people; sizes carry their unit in the cell."""
    words = key.removesuffix("_bytes").replace("cpu", "CPU").split("_")
    if words[-1] in ("s", "us") and "a" not in words[-2:-1]:
        words[-1] = f"({words[-1]})"
    return " ".join(words)


def _quantity(key: str, value: float, spread: float) -> str:
    text = format_bytes(value) if key.endswith("_bytes") else _number(value)
    return f"{text} ± {50 * spread:.0f} %" if spread >= 0.01 else text


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
