"""The verdict on a run: what it waited for, in sentences and numbers.

>>> print(Verdict("run.events", ["The run took 2.0 s."], [], [], []))
run.events
<BLANKLINE>
  The run took 2.0 s.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farfield.report import servers
from farfield.report.amounts import Summary, command_of, listed, number, percent, plain, seconds, times
from farfield.report.verdict_html import fragment
from farfield.runtime.sizes import count, format_bytes

PARTS = {
    "compute_s": "computing",
    "wait_reads_s": "waiting for reads",
    "wait_memory_s": "waiting for memory",
    "wait_other_s": "waiting for something else",
    "decode_s": "decoding",
    "derive_s": "making derived pages",
    "other_s": "other work",
}
"""Activities of worker threads, by keys of a summary, in display order."""
BOUND_BY = {
    "compute_s": "computing",
    "wait_reads_s": "reading",
    "wait_memory_s": "memory",
    "decode_s": "decoding",
    "derive_s": "making derived pages",
}
LEAST_SHARE = 0.0095
"""Smallest share of the threads' time that sentences mention; it rounds to 1 %."""
BOUND_SHARE = 0.5
"""Smallest share of the threads' time that makes an activity the bound of a run."""
AGAIN_SHARE = 0.1
"""Share of pages read again from which sentences mention them."""
TIGHT_SHARE = 0.05
"""Share of the threads' time spent waiting for memory from which sentences mention it."""
TRUST_SHARE = 0.25
"""Relative error of the model from which a sentence warns of it."""
COVERS_SHARE = 0.95
"""Share of the log below which a sentence says how much of it the model covers."""
COVERED_SHARE = 0.7
"""Share of the run below which the worker threads' activity does not represent it."""
MOST_ADVICE = 3
"""Largest number of changes in sentences."""


@dataclass(frozen=True)
class Part:
    """A part of a time, with its share."""

    key: str
    what: str
    time_s: float
    share: float

    def as_dict(self) -> dict[str, Any]:
        """The form for JSON."""
        return {"what": self.what, "seconds": self.time_s, "share": self.share}


@dataclass(frozen=True)
class Verdict:
    """What a run waited for. It prints as text, and as a small table in notebooks."""

    title: str
    lines: list[str]
    """Sentences, most important first."""
    where: list[Part]
    """Parts of the worker threads' time; for a run without workers, of the time of its phases."""
    phases: list[Part]
    """Phases of the run, as shares of its time; phases may overlap."""
    advice: list[Mapping[str, Any]]
    """Changes that would save at least 2 %, best first: `advice` of the summary."""

    def __str__(self) -> str:
        lines = [self.title, ""]
        for sentence in self.lines:
            lines += textwrap.wrap(sentence, 100, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
        lines += _table("time of the worker threads" if self.where != self.phases else "time of the run", self.where)
        if self.phases and self.where != self.phases:
            lines += _table("phases of the run", self.phases)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return fragment(self)


def _table(title: str, parts: Sequence[Part]) -> list[str]:
    rows = [f"  {percent(p.share):>11}  {seconds(p.time_s):>8}  {p.what}" for p in parts if p.time_s > 0.0]
    return ["", f"  {title}", *rows] if rows else []


def verdict(summary: Summary) -> Verdict:
    """The verdict on a run."""
    phases = _phases(summary)
    where = _where(summary) or phases
    lines = [
        *_cut_off(summary),
        *_headline(summary, where, phases),
        *_advice(summary, where),
        *_reading(summary),
        *servers.sentences(summary),
        *_overlap(summary),
        *_memory(summary, where),
        *_read_ahead(summary),
        *_again(summary),
        *_trouble(summary),
    ]
    command = command_of(summary["run"])
    title = plain(str(summary["file"])) + (f": {command}" if command else "")
    return Verdict(title, lines, where, phases, list(summary["advice"]))


def workers_of(summary: Summary) -> int:
    """Number of threads that step tasks."""
    return sum(bool(thread["worker"]) for thread in summary["threads"])


def total(summary: Summary, name: str) -> int:
    """The sum of a series of counts."""
    return int(sum(summary["series"].get(name) or ()))


def peak_of(summary: Summary) -> tuple[int, int]:
    """The most bytes in the ledger, and the limit at that time; 0 if unknown.

    The run's own final count takes precedence, since the log samples memory at some moments only.
    """
    stats, series = summary["stats"] or {}, summary["series"]
    seen = [used for used in series.get("used_bytes") or () if used]
    limits = [limit for limit in series.get("limit_bytes") or () if limit]
    peak = stats.get("peak_bytes") or max(seen, default=0)
    limit = max(limits, default=0) or stats.get("limit_bytes") or (summary["run"] or {}).get("memory_limit") or 0
    return int(peak), int(limit)


def _where(summary: Summary) -> list[Part]:
    """Parts of the worker threads' time; empty if there was none."""
    where = summary["where"]
    times_s = {key: max(0.0, where.get(key) or 0.0) for key in PARTS}
    whole_s = max(where.get("thread_s") or 0.0, sum(times_s.values()))
    if whole_s <= 0.0:
        return []
    return [Part(key, what, times_s[key], times_s[key] / whole_s) for key, what in PARTS.items()]


def _phases(summary: Summary) -> list[Part]:
    """Named spans as shares of the run's time; if they overlap, of their sum."""
    spans = {name: time_s for name, time_s in (summary["where"].get("spans") or {}).items() if time_s > 0.0}
    named_s, wall_s = sum(spans.values()), summary["wall_s"] or 0.0
    if named_s <= 0.0:
        return []
    whole_s = max(named_s, wall_s)
    longest_first = sorted(spans.items(), key=lambda item: -item[1])
    parts = [Part("span", plain(name, 60), time_s, time_s / whole_s) for name, time_s in longest_first]
    rest_s = whole_s - named_s
    return parts + ([Part("rest", "nothing that has a name", rest_s, rest_s / whole_s)] if rest_s > 0.0 else [])


def _cut_off(summary: Summary) -> Iterator[str]:
    if summary["damaged"]:
        yield "The log is damaged: a checksum is wrong. Copy it again from where the run wrote it."
    elif not summary["whole"]:
        yield f"The run was killed or is still going on: this is what it did up to {seconds(summary['wall_s'] or 0.0)}."
    if summary["lost_bytes"]:
        yield f"{format_bytes(summary['lost_bytes'])} of the log could not be read and are left out."


def _headline(summary: Summary, where: Sequence[Part], phases: Sequence[Part]) -> Iterator[str]:
    wall_s = summary["wall_s"] or 0.0
    if not summary["events"] or wall_s <= 0.0:
        yield "The log holds nothing that took time."
        return
    took = f"The run took {seconds(wall_s)}" if summary["whole"] else f"The log covers {seconds(wall_s)}"
    if not where:
        yield f"{took}; no thread told what it did, so that nothing can be said of where its time went."
        return
    named = [part for part in phases if part.key == "span" and part.share >= LEAST_SHARE]
    if named:
        together = ", some of it at the same time" if sum(part.time_s for part in phases) > 1.01 * wall_s else ""
        without = ", without worker threads" if where is phases else ""
        yield f"{took}{without}: {listed([f'{p.what} {seconds(p.time_s)}' for p in named])}{together}."
    if where is phases:
        return
    workers, thread_s = max(1, workers_of(summary)), sum(part.time_s for part in where)
    its = f"its {count(workers, 'worker thread')}" if workers > 1 else "its worker thread"
    told = sorted((part for part in where if part.share >= LEAST_SHARE), key=lambda part: -part.share)
    parts = listed([f"{percent(p.share)}{' went' if n == 0 else ''} into {p.what}" for n, p in enumerate(told)])
    if _covers(summary, where):
        yield f"{'' if named else took + '. '}Of the time of {its} ({seconds(thread_s)}) {parts}."
        return
    if not named:
        yield f"{took}; opening, writing and what other threads did is most of it."
    were = "was" if workers == 1 else "were"
    yield f"{its[0].upper() + its[1:]} {were} at work for about {seconds(thread_s / workers)} of that: {parts}."


def _covers(summary: Summary, where: Sequence[Part]) -> bool:
    """Whether the worker threads' activity represents the run."""
    return sum(part.time_s for part in where) >= COVERED_SHARE * max(1, workers_of(summary)) * (
        summary["wall_s"] or 0.0
    )


def _advice(summary: Summary, where: Sequence[Part]) -> Iterator[str]:
    model, advice = summary["model"], summary["advice"]
    measured_s = (model or {}).get("measured_s") or summary["wall_s"] or 0.0
    for n, change in enumerate(advice[:MOST_ADVICE]):
        would = "would save" if n == 0 else "alone would save"
        yield (
            f"{change['change']} {would} about {seconds(change['saving_s'])} of {seconds(measured_s)} "
            f"({percent(change['saving_share'])}): {change['why']}."
        )
    if model is None:
        if where and any(part.key in PARTS for part in where):
            yield "What other resources would change cannot be said: the log does not tell the turns of tasks."
        return
    if not advice and measured_s > 0.0:
        tried = "no change of readers, workers or memory that was tried on the model would save 2 % of it"
        yield f"{_bound(where, _covers(summary, where))} {tried}."
    predicted_s = model.get("predicted_s") or 0.0
    if advice and measured_s > 0.0 and abs(predicted_s - measured_s) > TRUST_SHARE * measured_s:
        yield (
            f"These are hints more than figures: of the run as it was the model says {seconds(predicted_s)}, and it took "
            f"{seconds(measured_s)}."
        )
    covers = model.get("covers")
    if covers is not None and covers < COVERS_SHARE:
        yield f"The model rests on the first {percent(covers)} of the log."


def _bound(where: Sequence[Part], covers: bool) -> str:
    what = "the run" if covers else "the worker threads"
    most = max(where, key=lambda part: part.share, default=None)
    if most is None or most.share < BOUND_SHARE or most.key not in BOUND_BY:
        return f"No single thing held {what} up:"
    were = "The run was" if covers else "The worker threads were"
    whose = "of its threads' time" if covers else "of their time"
    return f"{were} bound by {BOUND_BY[most.key]}, {percent(most.share)} {whose}:"


def _reading(summary: Summary) -> Iterator[str]:
    reads = total(summary, "reads")
    if not reads:
        yield "The log has no reads."
        return
    depth, latency = summary["depth"], summary["latency"]["all"]
    text = f"{count(reads, 'read')} brought {format_bytes(total(summary, 'bytes'))}"
    if latency is not None:
        text += f"; a read took {seconds(latency['mean_us'] * 1e-6)} on average"
        if latency["count"] >= 10:
            text += f", nine in ten at most {seconds(latency['p90_us'] * 1e-6)}"
    if depth["max"]:
        text += f"; {number(depth['mean'])} were under way on average while any was, {number(depth['max'])} at most"
        if depth["limit"]:
            text += f" of {number(depth['limit'])} that may be"
    if depth["share_at_limit"] >= LEAST_SHARE:
        text += f" (so many {percent(depth['share_at_limit'])} of the time)"
    yield text + "."


def _overlap(summary: Summary) -> Iterator[str]:
    overlap = summary["overlap"]
    reading_s, compute_s = overlap["reading_s"] or 0.0, overlap["compute_s"] or 0.0
    if reading_s > 0.0 and compute_s > 0.0:
        hidden = min(1.0, (overlap["both_s"] or 0.0) / reading_s)
        yield f"Reads were under way for {seconds(reading_s)}; up to {percent(hidden)} of that was hidden behind computing."


def _memory(summary: Summary, where: Sequence[Part]) -> Iterator[str]:
    peak, limit = peak_of(summary)
    if peak and limit:
        text = f"Memory: at most {format_bytes(peak)} of the limit of {format_bytes(limit)} ({percent(peak / limit)})"
        evicted = total(summary, "evictions")
        if evicted:
            text += f"; {count(evicted, 'page')} had to make room for others"
        else:
            text += "; no page had to make room for others"
        yield text + "."
    starved = next((part for part in where if part.key == "wait_memory_s"), None)
    if starved is not None and starved.share >= TIGHT_SHARE:
        room = f"the limit of {format_bytes(limit)} is" if limit else "memory is"
        yield (
            f"Threads had nothing to do for {seconds(starved.time_s)} while pages waited for memory: {room} tight for what "
            "is under way at a time."
        )


def _read_ahead(summary: Summary) -> Iterator[str]:
    used, wasted = total(summary, "prefetch_used"), total(summary, "prefetch_wasted")
    if wasted > used:
        yield (
            f"Reading ahead did not pay: {count(wasted, 'page')} that came ahead went unused, {number(used)} "
            f"{'was' if used == 1 else 'were'} used."
        )


def _again(summary: Summary) -> Iterator[str]:
    read = [array for array in summary["arrays"] if array["role"] != "derived"]
    again, published = sum(a["read_again"] for a in read), sum(a["published"] for a in read)
    if not published or again < AGAIN_SHARE * published:
        return
    text = (
        f"{count(again, 'page')} of {number(published)} that came ({percent(again / published)}) had been here before"
    )
    limit = peak_of(summary)[1]
    if total(summary, "evictions"):
        of = f" of {format_bytes(limit)}" if limit else ""
        yield f"{text}: the memory limit{of} is smaller than what the run works on at a time."
    else:
        yield f"{text}: they had been given back, and were wanted again."


def _trouble(summary: Summary) -> Iterator[str]:
    failed_reads, failed = total(summary, "retries_failed"), int(summary["kinds"].get("failed") or 0)
    if failed_reads:
        yield f"Reads failed {times(failed_reads)}: look at the source, or at what lies between."
    if failed:
        were = "page could not be read" if failed == 1 else "pages could not be read"
        yield f"{number(failed)} {were}: results that need {'it' if failed == 1 else 'them'} are partial."
    if summary["unknown"]:
        kind = "is of a kind" if summary["unknown"] == 1 else "are of kinds"
        yield f"{count(summary['unknown'], 'event')} {kind} that this version of Farfield does not know, and left out."
