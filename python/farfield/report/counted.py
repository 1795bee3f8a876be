"""A verdict from the counters alone, which exist without a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.report.amounts import percent, seconds
from farfield.report.verdict import Part, Verdict
from farfield.runtime.sizes import count, format_bytes


def counted(title: str, stats: Mapping[str, Any]) -> Verdict:
    """The verdict on a dataset since it was opened, from its `stats`: shares of processor time and waiting. Advice
    needs a log.

    >>> pages = {"faults": 2, "evictions": 0, "prefetched": 0}
    >>> stats = {"cpu_s": 3.0, "wait_s": 0.5, "workers": 2, "reads": 2, "bytes_read": 4096, "peak_bytes": 1024,
    ...          "limit_bytes": 4096, "pages": pages}
    >>> counted("wing.xyz", stats).lines[0]
    'Of the time of its threads since it was opened (4.0 s) 75 % went into computing, reading and keeping books, 25 % into waiting.'
    """
    waited_s = stats["wait_s"] * max(1, stats["workers"])
    whole_s = stats["cpu_s"] + waited_s
    parts = [
        Part("compute_s", "computing, reading and keeping books", stats["cpu_s"], stats["cpu_s"] / max(whole_s, 1e-9)),
        Part("wait_other_s", "waiting", waited_s, waited_s / max(whole_s, 1e-9)),
    ]
    pages = stats["pages"]
    lines = ["Nothing that took time was done since it was opened."]
    if whole_s > 0.0:
        told = ", ".join(f"{percent(p.share)}{' went' * (n == 0)} into {p.what}" for n, p in enumerate(parts))
        lines = [f"Of the time of its threads since it was opened ({seconds(whole_s)}) {told}."]
    lines += [
        f"{count(stats['reads'], 'read')} brought {format_bytes(stats['bytes_read'])}; {count(pages['faults'], 'page')} "
        f"had to be waited for, {count(pages['evictions'], 'page')} made room for others.",
        f"Memory: at most {format_bytes(stats['peak_bytes'])} of the limit of {format_bytes(stats['limit_bytes'])} "
        f"({percent(stats['peak_bytes'] / max(1, stats['limit_bytes']))}).",
        "What waited for what, and which change would save how much, is known where a log is kept: open it with events=FILE.",
    ]
    return Verdict(title, lines, parts if whole_s > 0.0 else [], [], [])
