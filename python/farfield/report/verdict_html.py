"""A verdict as HTML, for notebooks and pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from farfield.report.amounts import percent
from farfield.report.plots import COLOURS

if TYPE_CHECKING:
    from farfield.report.verdict import Part, Verdict

LEAST_SHOWN = 0.001
"""Smallest visible part of a bar."""
SHADES = {
    "compute_s": "green",
    "wait_reads_s": "orange",
    "wait_memory_s": "red",
    "wait_other_s": "line",
    "decode_s": "sky",
    "derive_s": "purple",
    "other_s": "grey",
    "rest": "line",
}
SPAN_SHADES = ("blue", "green", "orange", "purple", "sky", "red", "grey")
"""Colours of phases, in rotation."""


def fragment(said: Verdict) -> str:
    """The verdict as HTML for notebooks, which inherits their style."""
    light = {name: pair[0] for name, pair in COLOURS.items()}
    rows = "".join(f"<li>{prose(line)}</li>" for line in said.lines)
    bar = "".join(
        f'<span style="width:{100 * part.share:.2f}%;background:{light[shade]}"></span>'
        for part, shade in shaded(said.where)
        if part.share >= LEAST_SHOWN
    )
    key = " &nbsp; ".join(
        f'<span style="color:{light[shade]}">&#9632;</span> {escaped(part.what)} {percent(part.share)}'
        for part, shade in shaded(said.where)
        if part.time_s > 0.0
    )
    bar = f'<div style="display:flex;height:18px;max-width:800px">{bar}</div><div>{key}</div>' if bar else ""
    return f"<div><b>{escaped(said.title)}</b>{bar}<ul>{rows}</ul></div>"


def escaped(text: object) -> str:
    """Text with escapes for HTML."""
    return escape(str(text), quote=True)


def prose(text: str) -> str:
    """A sentence with numbers bound to their units, and options in the style of code."""
    bound = re.sub(r"(?<=\d) (?=(?:%|[KMGT]iB|bytes|m?s|h)(?!\w))", "\u00a0", text)
    return re.sub(r"(?<!\S)(--[a-z-]+ [^\s:;,]+)", r"<code>\1</code>", escaped(bound))


def shaded(parts: Sequence[Part]) -> list[tuple[Part, str]]:
    """Parts of a time, each with the name of its colour."""
    return [(part, SHADES.get(part.key) or SPAN_SHADES[n % len(SPAN_SHADES)]) for n, part in enumerate(parts)]
