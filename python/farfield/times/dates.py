"""Dates of times in CF units such as "days since 1990-01-01", in any of CF's calendars.

Unlike in CF, months and years are those of the calendar.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from typing import Any

_SECONDS = {
    "second": 1, "sec": 1, "s": 1, "millisecond": 1e-3, "ms": 1e-3, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "h": 3600,
    "day": 86400, "d": 86400, "week": 7 * 86400, "microsecond": 1e-6, "us": 1e-6, "nanosecond": 1e-9, "ns": 1e-9,
    "common_year": 365 * 86400,
}  # fmt: skip
_IN_MONTHS = {"month": 1, "mon": 1, "year": 12, "yr": 12}
"""Units counted by the calendar: a month or year has its length there. In CF a year always has 365.2425 days and a
month a twelfth of it. Monthly steps would then miss the first of the month."""
_UNITS = re.compile(
    r"\s*(\w+?)s?\s+since\s+([+-]?\d{1,6})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:(?:T|\s+)(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{1,2}:?\d{0,2})?\s*(?:\((\w+)\))?\s*",
    re.IGNORECASE,
)
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_STANDARD = ("standard", "gregorian", "")
"""Names of the civil calendar: Julian up to 1582-10-04, Gregorian from the next day, 1582-10-15."""
_PROLEPTIC, _JULIAN = "proleptic_gregorian", "julian"
_REFORM = (1582, 10, 15)
_LEAP = 366
"""Days of year 0, from whose beginning days count; Python counts from year 1, beginning at 1."""


def date_of(time: float, units: str, digits: int = 0) -> str | None:
    """The date of a time in ISO 8601, to the second or to `digits` of a second; None for units without a date. Units
    give a calendar other than the civil one in brackets.

    >>> date_of(0.5, "days since 1990-01-01"), date_of(59, "days since 2001-01-01 (noleap)"), date_of(1, "s")
    ('1990-01-01T12:00:00', '2001-03-01T00:00:00', None)
    >>> date_of(59, "days since 2001-01-01 (360_day)"), date_of(1e9, "seconds since 1970-01-01 00:00:00")
    ('2001-02-30T00:00:00', '2001-09-09T01:46:40')
    >>> date_of(13, "months since 2000-01-31"), date_of(1.5, "months since 2000-01-01 (360_day)")
    ('2001-02-28T00:00:00', '2000-02-16T00:00:00')
    >>> date_of(31, "days since 1582-10-01"), date_of(31, "days since 1582-10-01 (proleptic_gregorian)")
    ('1582-11-11T00:00:00', '1582-11-01T00:00:00')
    >>> date_of(math.nan, "days since 1990-01-01"), date_of(math.inf, "months since 1990-01-01")
    (None, None)
    >>> date_of(59.96, "seconds since 2001-01-01", 1), date_of(59.94, "seconds since 2001-01-01", 1)
    ('2001-01-01T00:01:00.0', '2001-01-01T00:00:59.9')
    """
    start = _start_of(units)
    if start is None or not math.isfinite(time * max(start.each, start.months) * 10.0**digits):
        return None
    days, each = start.days, start.each
    if start.months:
        exact = _after_months(*start.date, time * start.months, start.calendar)
        if exact is None:
            return None
        days, time = math.floor(exact), exact % 1
    parts = 10**digits
    # Rounding half upward keeps times a second apart that are a second apart.
    count = math.floor((start.seconds + time * each) * parts + 0.5)
    whole, part = days * 86400 + count // parts, f".{count % parts:0{digits}d}" if digits else ""
    y, m, d = _date(whole // 86400, start.calendar)
    rest = whole % 86400
    return f"{y:04d}-{m:02d}-{d:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}{part}"


_MOST_DIGITS = 9
_LATEST = 1e15
"""Seconds beyond which double precision has no fractions."""
_FINE = 100
"""Resolution of dates in parts of a step, if times are not decimal numbers."""


def dates_of(times: Sequence[float], units: str) -> list[str | None]:
    """The dates of times, with fractions of a second if steps are shorter.

    >>> dates_of([0, 0.5, 1], "seconds since 2001-01-01"), dates_of([0, 60], "seconds since 2001-01-01")
    (['2001-01-01T00:00:00.0', '2001-01-01T00:00:00.5', '2001-01-01T00:00:01.0'], ['2001-01-01T00:00:00', '2001-01-01T00:01:00'])
    >>> dates_of([0, 1 / 3], "seconds since 2001-01-01")
    ['2001-01-01T00:00:00.000', '2001-01-01T00:00:00.333']
    """
    digits = _digits(times, units)
    return [date_of(time, units, digits) for time in times]


def _digits(times: Sequence[float], units: str) -> int:
    """Number of digits of a second that distinguish the times."""
    start = _start_of(units)
    if start is None or start.months:
        return 0
    seconds = [start.seconds + time * start.each for time in times if abs(time * start.each) < _LATEST]
    steps = [abs(b - a) for a, b in itertools.pairwise(seconds) if a != b]
    least = min(steps, default=1.0)
    # Rounding errors are no fractions of a second.
    if least > 1 - 1e-6:
        return 0
    for digits in range(1, _MOST_DIGITS):
        parts = 10**digits
        if least * parts >= _FINE or all(abs(s * parts - round(s * parts)) < 1e-2 for s in seconds):
            return digits
    return _MOST_DIGITS


@dataclass(frozen=True)
class _Start:
    """The reference date and unit of times."""

    date: tuple[int, int, int]
    days: int
    """Number of the date's day."""
    seconds: float
    """Seconds of that day at the reference time."""
    each: float
    """Seconds per unit of time."""
    months: int
    """Months per unit of time, if the calendar counts; else 0."""
    calendar: str


@lru_cache(maxsize=64)
def _start_of(units: str) -> _Start | None:
    """Parses units; None without a valid date."""
    found = _UNITS.fullmatch(units)
    if found is None:
        return None
    word, year, month, day, hour, minute, second, part, zone, calendar = found.groups()
    word, kind = word.lower(), (calendar or "").lower()
    start = int(year), int(month or 1), int(day or 1)
    months = _IN_MONTHS.get(word, 0)
    each = 86400 if months else _SECONDS.get(word) or _SECONDS.get(word + "s")
    days = _day_number(*start, kind)
    if days is None or each is None:
        return None
    seconds = 3600 * int(hour or 0) + 60 * int(minute or 0) + int(second or 0) + float(f"0.{part or 0}") - _offset(zone)
    return _Start(start, days, seconds, each, months, kind)


def moment_of(info: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Number, time and date of one of several time steps, from the `info` of a source. The date is absent if times have
    none. Empty for a single step.

    >>> moment_of({"times": [0.0, 5.0], "time_units": "seconds since 2020-01-31 23:59:58"}, 1)["date"]
    '2020-02-01T00:00:03'
    """
    times = info.get("times") or []
    if len(times) < 2:
        return {}
    units = info.get("time_units") or "1"
    counted = bool(info.get("times_counted"))
    found: dict[str, Any] = {"step": step, "time": None if counted else times[step], "time_units": units}
    date = None if counted else date_of(times[step], units, _digits(times, units))
    return found if date is None else {**found, "date": date}


def moments_of(info: Mapping[str, Any]) -> list[str]:
    """The text of each step's time in a picture, for dates or numbered steps; else empty.

    >>> moments_of({"times": [0.0, 86400.0], "time_units": "seconds since 2020-01-31 12:00:00"})
    ['2020-01-31 12:00:00', '2020-02-01 12:00:00']
    >>> moments_of({"times": [0.0, 1.0], "time_units": "s"}), moments_of({"times": [0.0, 1.0], "times_counted": True})
    ([], ['step 0', 'step 1'])
    """
    times = info.get("times") or []
    if info.get("times_counted"):
        return [f"step {n}" for n in range(len(times))]
    dates = dates_of(times, info.get("time_units") or "1")
    return [date.replace("T", " ") for date in dates if date is not None] if all(dates) else []


def moment_text(found: Mapping[str, Any]) -> str:
    """The text of a moment; empty for a single step.

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
    """Seconds by which a time zone is ahead of UTC."""
    found = re.fullmatch(r"([+-])(\d{1,2}):?(\d{0,2})", zone or "")
    if found is None:
        return 0
    return (1 if found[1] == "+" else -1) * (3600 * int(found[2]) + 60 * int(found[3] or 0))


def _is_leap(year: int, calendar: str) -> bool:
    if calendar in ("noleap", "365_day"):
        return False
    if calendar in ("all_leap", "366_day"):
        return True
    if calendar == _JULIAN or (calendar in _STANDARD and year < _REFORM[0]):
        return year % 4 == 0
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _lengths(year: int, calendar: str) -> list[int]:
    if calendar == "360_day":
        return [30] * 12
    return [n + (1 if m == 1 and _is_leap(year, calendar) else 0) for m, n in enumerate(_MONTHS)]


def _after_months(year: int, month: int, day: int, months: float, calendar: str) -> float | None:
    """The number of the day some months after a date: the same day of the month, or the last one of a shorter month.
    Fractions count as fractions of that month's length."""
    if _day_number(year, month, day, calendar) is None:
        return None
    whole = math.floor(months)

    def at(count: int) -> int:
        y, m = divmod(12 * year + month - 1 + count, 12)
        found = _day_number(y, m + 1, min(day, _lengths(y, calendar)[m]), calendar)
        # Ten days of October 1582 do not exist.
        return found if found is not None else _number(*_REFORM, _PROLEPTIC)

    return at(whole) + (months - whole) * (at(whole + 1) - at(whole))


def _before(year: int, calendar: str) -> int:
    """Days from the beginning of year 0 to that of another year."""
    if calendar == "360_day":
        return 360 * year
    if calendar in ("noleap", "365_day"):
        return 365 * year
    if calendar in ("all_leap", "366_day"):
        return 366 * year
    # Number of earlier leap years, including year 0.
    last = year - 1
    leaps = last // 4 + 1 if calendar == _JULIAN else last // 4 - last // 100 + last // 400 + 1
    return 365 * year + leaps


def _day_number(year: int, month: int, day: int, calendar: str) -> int | None:
    known = (*_STANDARD, _PROLEPTIC, "noleap", "365_day", "all_leap", "366_day", "360_day", _JULIAN)
    if calendar not in known or not 1 <= month <= 12:
        return None
    lengths = _lengths(year, calendar)
    if not 1 <= day <= lengths[month - 1]:
        return None
    if calendar not in _STANDARD:
        return _number(year, month, day, calendar)
    if (year, month, day) >= _REFORM:
        return _number(year, month, day, _PROLEPTIC)
    # The last day of the Julian calendar precedes the first of the Gregorian.
    found = _number(year, month, day, _JULIAN) + _shift()
    return found if found < _first_gregorian() else None


@cache
def _first_gregorian() -> int:
    return _number(*_REFORM, _PROLEPTIC)


@cache
def _shift() -> int:
    """Offset of day numbers between the Julian and the Gregorian calendar at the reform."""
    return _first_gregorian() - _number(1582, 10, 5, _JULIAN)


def _number(year: int, month: int, day: int, calendar: str) -> int:
    return _before(year, calendar) + sum(_lengths(year, calendar)[: month - 1]) + day - 1


def _date(number: int, calendar: str) -> tuple[int, int, int]:
    if calendar in _STANDARD:
        late = number >= _first_gregorian()
        return _date(number, _PROLEPTIC) if late else _date(number - _shift(), _JULIAN)
    if calendar == _PROLEPTIC and 0 <= number - _LEAP < date.max.toordinal():
        found = date.fromordinal(number - _LEAP + 1)
        return found.year, found.month, found.day
    # Years have 360 to 366 days, so this year is not too late.
    year = number // (366 if number >= 0 else 360) - 1
    while _before(year + 1, calendar) <= number:
        # Lengths of years differ by a day, so few steps suffice.
        year += max(1, (number - _before(year + 1, calendar)) // 366)
    rest = number - _before(year, calendar)
    for month, length in enumerate(_lengths(year, calendar)):
        if rest < length:
            return year, month + 1, rest + 1
        rest -= length
    return year, 12, 31
