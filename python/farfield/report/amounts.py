"""Text of numbers, times and names in a report.

>>> seconds(45.02), seconds(8.314), seconds(0.34), seconds(0.0021), seconds(0.000045), seconds(0)
('45.0 s', '8.3 s', '340 ms', '2.1 ms', '0.045 ms', '0 s')
>>> seconds(1052.4), seconds(9000)
('1,052 s', '2.5 h')
>>> percent(0.683), percent(0.0042), percent(0.0004), percent(0)
('68 %', '0.4 %', 'below 0.1 %', '0 %')
>>> number(12_345), number(3.84), number(120.0)
('12,345', '3.8', '120')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

Summary = Mapping[str, Any]
"""The summary of a log by `farfield._native.summarise`; `_native.pyi` lists its keys."""

LONG_S = 7200.0
"""Length in seconds from which times are in hours."""


def seconds(time_s: float) -> str:
    """A duration, to two or three digits."""
    if time_s <= 0.0:
        return "0 s"
    if time_s >= LONG_S:
        return f"{time_s / 3600.0:,.1f} h"
    if time_s >= 99.95:
        return f"{time_s:,.0f} s"
    if time_s >= 0.9995:
        return f"{time_s:.1f} s"
    time_ms = time_s * 1e3
    if time_ms >= 9.95:
        return f"{time_ms:.0f} ms"
    return f"{time_ms:.1f} ms" if time_ms >= 0.95 else f"{time_ms:.2g} ms"


def percent(share: float) -> str:
    """A share in percent, with a fraction only if it is small."""
    value = 100.0 * share
    if value <= 0.0:
        return "0 %"
    if value < 0.1:
        return "below 0.1 %"
    return f"{value:.1f} %" if value < 0.95 else f"{value:.0f} %"


def number(value: float) -> str:
    """A count, or a mean of counts."""
    return f"{value:,.0f}" if value >= 99.95 or float(value).is_integer() else f"{value:.1f}"


def times(count: int) -> str:
    """A number of times, as a word or number.

    >>> times(1), times(3)
    ('once', '3 times')
    """
    return "once" if count == 1 else f"{count:,} times"


def listed(words: Sequence[str]) -> str:
    """Words as a list within a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def plain(text: str, most: int = 0) -> str:
    r"""A name from a log without unprintable characters. Beyond `most` characters, its middle is left out.

    >>> plain("zone\x001"), plain("a" * 10 + "b" * 10, 7)
    ('zone?1', 'aaa...b')
    """
    shown = "".join(c if c.isprintable() else "?" for c in text)
    if not most or len(shown) <= most:
        return shown
    tail = max(1, (most - 3) // 3)
    return shown[: most - 3 - tail] + "..." + shown[-tail:]


def command_of(run: Mapping[str, Any] | None) -> str:
    """The command line of a run, quoted for a shell; empty if unknown.

    >>> command_of({"command": ["/usr/bin/python3", "/usr/bin/farfield", "trace", "my flow.q"]})
    "farfield trace 'my flow.q'"
    >>> command_of({"command": ["/usr/bin/python3", "/lib/farfield/__main__.py", "info"]}), command_of(None)
    ('farfield info', '')
    """
    import shlex

    words = [plain(str(word)) for word in (run or {}).get("command") or []]
    if len(words) > 1 and PurePath(words[0]).name.startswith("python") and not words[1].startswith("-"):
        words = words[1:]
    if not words:
        return ""
    first = PurePath(words[0])
    words[0] = "farfield" if first.parts[-2:] == ("farfield", "__main__.py") else first.name
    return shlex.join(words)
