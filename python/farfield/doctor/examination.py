"""An examination: its steps until the first that fails, the measured line, and a verdict in words."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from farfield import _core
from farfield.doctor import steps
from farfield.doctor.steps import Step
from farfield.errors import AccessError, DataError
from farfield.sources import places

_DOCUMENTS = ("zarr.json", ".zmetadata", ".zarray", ".zgroup", ".zattrs")
_PAGE = 32 << 10
"""Bytes of a measured read: those of a page of 20^3 floats."""
_DEPTHS = (1, 64)
"""Reads at the same time."""
_SLOW_SPREAD = 4.0
"""A 99th percentile so many times the median is a queue or a loss."""


@dataclass
class Examination:
    """What was found."""

    url: str
    steps: list[Step] = field(default_factory=list)
    verdict: str = ""

    @property
    def ok(self) -> bool:
        """Whether every step succeeded."""
        return all(step.ok for step in self.steps)

    def json(self) -> dict[str, Any]:
        """The outcome for programs."""
        return {
            "url": self.url,
            "ok": self.ok,
            "verdict": self.verdict,
            "steps": [
                {"name": s.name, "ok": s.ok, "said": s.said, "advice": s.advice or None, **s.found} for s in self.steps
            ],
        }


def examine(url: str, *, seconds: float = 2.0, told: Callable[[Step], None] = lambda step: None) -> Examination:
    """Examines the way to a dataset. `told` gets each step as it ends; each measurement takes `seconds`.

    Raises:
        UsageError: if the URL has no server.
    """
    each = steps.addresses_of_each(url)
    if each:
        return _examine_each(url, each, seconds, told)
    found = Examination(url)

    def add(step: Step) -> bool:
        found.steps.append(step)
        told(step)
        return step.ok

    address = steps.address_of(url)
    add(steps.proxies(address))
    if not add(steps.resolve(address)):
        return _with_verdict(found)
    step, made = steps.connect(address)
    if not add(step) or made is None:
        return _with_verdict(found)
    with made:
        if address.scheme == "https" and not add(steps.agree_tls(address, made)):
            return _with_verdict(found)
    file = _open(url, add)
    if file is not None and add(_latency(file)):
        add(_rate(file, seconds))
        add(_compression(file))
    if address.scheme == "farfield" and found.ok:
        add(_server(url))
    return _with_verdict(found)


def _examine_each(url: str, each: list[tuple[str, str]], seconds: float, told: Callable[[Step], None]) -> Examination:
    """Each of several servers, then all together. A server without a copy of the dataset is sound."""
    found = Examination(url)
    verdicts = []
    for server, alone in each:

        def add(step: Step, server: str = server) -> None:
            if step.missing:
                step = Step(step.name, True, "it has no copy of this")
            step = replace(step, said=f"{server}: {step.said}", found={"of": server, **step.found})
            found.steps.append(step)
            told(step)

        one = examine(alone, seconds=seconds, told=add)
        verdicts.append(f"{server}: {'It has no copy of this.' if one.steps[-1].missing else one.verdict}")

    def add_last(step: Step) -> bool:
        found.steps.append(step)
        told(step)
        return step.ok

    if found.ok and _open(url, add_last) is not None:
        verdicts.append("Together: their copies agree.")
    elif "of" not in found.steps[-1].found:
        last = found.steps[-1]
        verdicts.append(f"Together: {last.said}. {_sentence(last.advice)}")
    found.verdict = " ".join(verdicts)
    return found


def _open(url: str, add: Callable[[Step], bool]) -> str | None:
    """A file of the dataset to be read; None if there is none."""
    names = [url, *(places.join(url, name) for name in _DOCUMENTS)]
    try:
        with places.opening():
            stats = _core.stat_files(names)
    except (AccessError, DataError) as error:
        add(Step("open", False, str(error), "check token, keys and permissions: --help of 'farfield info' names them"))
        return None
    files = [(name, stat) for name, stat in zip(names, stats, strict=True) if stat is not None and stat[0] == "file"]
    if not files:
        known = stats[0] is not None
        said = "the folder is there, but no store is in it" if known else "the server has no such file or store"
        advice = "check the spelling; give a file of the dataset to measure the line"
        add(Step("open", False, f"{url}: {said}", advice, missing=True))
        return None
    name, (_, size, version, _) = files[0]
    weak = not version or version.startswith("modified ")
    said = f"{name}: {size:,} bytes, version {version or 'unknown'}"
    said += " (a time alone: a change within a second is not seen)" if weak else ""
    add(Step("open", True, said, found={"bytes": size, "version": version, "weak_version": weak}))
    return name


def _timed(file: str, *, size: int, count: int, depth: int, seconds: float) -> tuple[list[float], float, int] | str:
    try:
        return _core.time_reads(file, size, count, depth, seconds)
    except (AccessError, DataError) as error:
        return str(error)


def _latency(file: str) -> Step:
    timed = _timed(file, size=512, count=40, depth=1, seconds=3.0)
    if isinstance(timed, str):
        return Step("reads", False, timed, "the server must answer ranges (206 Partial Content); a proxy may drop them")
    each = sorted(timed[0])
    median, slowest = each[len(each) // 2], each[min(len(each) - 1, math.ceil(len(each) * 0.99) - 1)]
    said = f"a small read takes {median * 1e3:.1f} ms, 99 of 100 at most {slowest * 1e3:.1f} ms"
    found = {"read_p50_ms": median * 1e3, "read_p99_ms": slowest * 1e3, "reads": len(each)}
    return Step("reads", True, said, found=found)


def _rate(file: str, seconds: float) -> Step:
    found: dict[str, Any] = {}
    said = []
    for depth in _DEPTHS:
        timed = _timed(file, size=_PAGE, count=1 << 20, depth=depth, seconds=seconds)
        if isinstance(timed, str):
            return Step("rate", False, timed, "the server ends reads under load; its log says why")
        each, wall, size = timed
        rate = size / wall
        found |= {f"depth_{depth}_bytes_per_s": rate, f"depth_{depth}_reads_per_s": len(each) / wall}
        each_kib = size / max(1, len(each)) / 1024
        said.append(
            f"{_rate_words(rate)} ({len(each) / wall:,.0f} reads of {each_kib:.0f} KiB a second) with {depth} at a time"
        )
    return Step("rate", True, "; ".join(said), found=found)


def _rate_words(rate: float) -> str:
    """A rate as lines are sold.

    >>> _rate_words(12.5e6), _rate_words(1.3e9)
    ('100 Mbit/s', '10.4 Gbit/s')
    """
    bits = rate * 8
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"


def _compression(file: str) -> Step:
    """What a fast codec would save of the file's begin."""
    try:
        bytes_ = _core.FileReader(file).read_at(0, 1 << 20)
    except (AccessError, DataError) as error:
        return Step("compression", False, str(error))
    ratio = len(bytes_) / max(1, len(zlib.compress(bytes_, 1)))
    said = f"deflate makes the first {len(bytes_):,} bytes {ratio:.2f} times smaller"
    return Step("compression", True, said, found={"ratio": ratio})


def _server(url: str) -> Step:
    try:
        status = json.loads(_core.server_status(url))
    except (AccessError, DataError) as error:
        return Step("server", False, str(error))
    said = f"up {status['seconds']:,.0f} s, {status['connections']} connections, {'TLS' if status['tls'] else 'no TLS'}"
    return Step("server", True, said, found={"status": status})


def _with_verdict(found: Examination) -> Examination:
    failed = next((step for step in found.steps if not step.ok), None)
    if failed is not None:
        found.verdict = f"It fails at '{failed.name}': {failed.said}." + (
            f" {_sentence(failed.advice)}" if failed.advice else ""
        )
        return found
    numbers = {key: value for step in found.steps for key, value in step.found.items()}
    if "depth_64_bytes_per_s" not in numbers:
        return found
    latency, rate = numbers["read_p50_ms"], numbers["depth_64_bytes_per_s"]
    gain = numbers["depth_64_reads_per_s"] / max(numbers["depth_1_reads_per_s"], 1e-9)
    words = [f"It works: {_rate_words(rate)} with {latency:.1f} ms a read."]
    if gain > 3:
        words.append(f"Reads at the same time give {gain:.0f} times as much as one after another, which Farfield uses.")
    if numbers["read_p99_ms"] > _SLOW_SPREAD * latency and numbers["read_p99_ms"] > 5:
        words.append("Some reads take much longer than most: the line loses packets, or the server is busy.")
    if numbers.get("ratio", 1.0) > 1.5 and rate < 25e6:
        words.append("The data would compress well: a store converted with --codec zstd is faster over this line.")
    if numbers.get("weak_version"):
        words.append("The server names no versions, so a change of the data may pass unseen.")
    found.verdict = " ".join(words)
    return found


def _sentence(text: str) -> str:
    """A text with a capital letter and a full stop.

    >>> _sentence("check the clock")
    'Check the clock.'
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
