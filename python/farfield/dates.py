"""Dates of times that are counted from a date, as CF has them: "days since 1990-01-01", in any of its calendars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SECONDS = {
    "second": 1, "sec": 1, "s": 1, "millisecond": 1e-3, "ms": 1e-3, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "h": 3600,
    "day": 86400, "d": 86400, "week": 7 * 86400,
}  # fmt: skip
_UNITS = re.compile(
    r"\s*(\w+?)s?\s+since\s+([+-]?\d{1,6})-(\d{1,2})-(\d{1,2})(?:[T\s]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{1,2}:?\d{0,2})?\s*(?:\((\w+)\))?\s*",
    re.IGNORECASE,
)
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_STANDARD = ("standard", "gregorian", "proleptic_gregorian", "")


def date_of(time: float, units: str) -> str | None:
    """The date of a time, as ISO 8601 has it, to the second; None where the units count from no date. A calendar that is none of
    everyday use stands in brackets behind the units.

    >>> date_of(0.5, "days since 1990-01-01"), date_of(59, "days since 2001-01-01 (noleap)"), date_of(1, "s")
    ('1990-01-01T12:00:00', '2001-03-01T00:00:00', None)
    >>> date_of(59, "days since 2001-01-01 (360_day)"), date_of(1e9, "seconds since 1970-01-01 00:00:00")
    ('2001-02-30T00:00:00', '2001-09-09T01:46:40')
    """
    found = _UNITS.fullmatch(units)
    if found is None:
        return None
    word, year, month, day, hour, minute, second, part, zone, calendar = found.groups()
    word = word.lower()
    each = _SECONDS.get(word) or _SECONDS.get(word + "s")
    if each is None:
        return None
    kind = (calendar or "").lower()
    days = _day_number(int(year), int(month), int(day), kind)
    if days is None:
        return None
    seconds = 3600 * int(hour or 0) + 60 * int(minute or 0) + int(second or 0) + float(f"0.{part or 0}") - _offset(zone)
    whole = days * 86400 + round(seconds + time * each)
    y, m, d = _date(whole // 86400, kind)
    rest = whole % 86400
    return f"{y:04d}-{m:02d}-{d:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def moment_of(info: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Which of several time steps that is, by what `info` says of a source: its number, its time, and its date where times count
    from one. Nothing where there is one step.

    >>> moment_of({"times": [0.0, 5.0], "time_units": "seconds since 2020-01-31 23:59:58"}, 1)["date"]
    '2020-02-01T00:00:03'
    """
    times = info.get("times") or []
    if len(times) < 2:
        return {}
    units = info.get("time_units") or "1"
    counted = bool(info.get("times_counted"))
    found: dict[str, Any] = {"step": step, "time": None if counted else times[step], "time_units": units}
    date = None if counted else date_of(times[step], units)
    return found if date is None else {**found, "date": date}


def moment_text(found: Mapping[str, Any]) -> str:
    """The same for people; nothing where there is one step.

    >>> moment_text({"step": 1, "time": 0.5, "time_units": "s"}), moment_text({"step": 2, "time": None, "time_units": "1"})
    ('step 1, at 0.5 s', 'step 2')
    """
    if "step" not in found:
        return ""
    if found["time"] is None:
        return f"step {found['step']}"
    unit = "" if found["time_units"] == "1" else f" {found['time_units']}"
    date = f"{found['date']}, " if "date" in found else ""
    return f"step {found['step']}, at {date}{found['time']:.9g}{unit}"


def _offset(zone: str | None) -> int:
    """Seconds that a zone is ahead of UTC."""
    found = re.fullmatch(r"([+-])(\d{1,2}):?(\d{0,2})", zone or "")
    if found is None:
        return 0
    return (1 if found[1] == "+" else -1) * (3600 * int(found[2]) + 60 * int(found[3] or 0))


def _is_leap(year: int, calendar: str) -> bool:
    if calendar in ("noleap", "365_day"):
        return False
    if calendar in ("all_leap", "366_day"):
        return True
    if calendar == "julian":
        return year % 4 == 0
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _lengths(year: int, calendar: str) -> list[int]:
    if calendar == "360_day":
        return [30] * 12
    return [n + (1 if m == 1 and _is_leap(year, calendar) else 0) for m, n in enumerate(_MONTHS)]


def _before(year: int, calendar: str) -> int:
    """Days from the beginning of year 0 to that of another."""
    if calendar == "360_day":
        return 360 * year
    if calendar in ("noleap", "365_day"):
        return 365 * year
    if calendar in ("all_leap", "366_day"):
        return 366 * year
    # Leap years before it, of which year 0 is one.
    last = year - 1
    leaps = last // 4 + 1 if calendar == "julian" else last // 4 - last // 100 + last // 400 + 1
    return 365 * year + leaps


def _day_number(year: int, month: int, day: int, calendar: str) -> int | None:
    known = (*_STANDARD, "noleap", "365_day", "all_leap", "366_day", "360_day", "julian")
    if calendar not in known or not 1 <= month <= 12:
        return None
    lengths = _lengths(year, calendar)
    if not 1 <= day <= lengths[month - 1]:
        return None
    return _before(year, calendar) + sum(lengths[: month - 1]) + day - 1


def _date(number: int, calendar: str) -> tuple[int, int, int]:
    year = number // 366
    while _before(year + 1, calendar) <= number:
        # Years are of one length but for a day: this ends after a few steps.
        year += max(1, (number - _before(year + 1, calendar)) // 366)
    rest = number - _before(year, calendar)
    for month, length in enumerate(_lengths(year, calendar)):
        if rest < length:
            return year, month + 1, rest + 1
        rest -= length
    return year, 12, 31
