"""What tells images of one place apart: their times, or the echo, the weighting or the segment that they are of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Moments = Mapping[str, float]
"""What an image says of when it is, and of what else may tell it apart, by the name of the element."""

_TIMES = {
    "TriggerTime": 1e-3, "NominalCardiacTriggerDelayTime": 1e-3, "FrameReferenceTime": 1e-3, "TemporalPositionTimeOffset": 1.0,
}  # fmt: skip
"""Seconds of the unit of elements that say a time."""
_COUNTS = ("TemporalPositionIdentifier", "TemporalPositionIndex")
_OTHERS = {
    "EchoTime": " ms", "EffectiveEchoTime": " ms", "InversionTime": " ms", "DiffusionBValue": " s/mm2", "RepetitionTime": " ms",
    "FlipAngle": " degrees", "EnergyWindowNumber": "", "ReferencedSegmentNumber": "",
}  # fmt: skip
"""Elements that say no time, with their units."""
_DATES = ("FrameAcquisitionDateTime", "FrameReferenceDateTime", "AcquisitionDateTime", "AcquisitionTime", "ContentTime")
_ORDER = (*_TIMES, *_COUNTS, *_OTHERS, *_DATES)
_GROUPS = {
    "TemporalPositionTimeOffset": "TemporalPositionSequence", "TemporalPositionIndex": "FrameContentSequence",
    "NominalCardiacTriggerDelayTime": "CardiacSynchronizationSequence", "EffectiveEchoTime": "MREchoSequence",
    "DiffusionBValue": "MRDiffusionSequence", "ReferencedSegmentNumber": "SegmentIdentificationSequence",
    "FrameAcquisitionDateTime": "FrameContentSequence", "FrameReferenceDateTime": "FrameContentSequence",
}  # fmt: skip
"""Functional groups of frames that hold these elements."""
TAGS = (
    "TriggerTime", "FrameReferenceTime", "TemporalPositionIdentifier", "TemporalResolution", "EchoTime", "InversionTime",
    "DiffusionBValue", "RepetitionTime", "FlipAngle", "AcquisitionDateTime", "AcquisitionDate", "AcquisitionTime", "ContentDate",
    "ContentTime", "TimezoneOffsetFromUTC",
)  # fmt: skip
"""Elements of a header that are needed here."""
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86400.0
_DATED = 10 * 365 * _DAY
"""Seconds from which on a moment is a date: those of a day alone are less."""


def moments_of(header: Any) -> dict[str, float]:
    """What the header of a file says."""
    found = {key: number for key in (*_TIMES, *_COUNTS, *_OTHERS) if (number := _number(header.get(key))) is not None}
    for key, date, time in (
        ("AcquisitionDateTime", "", "AcquisitionDateTime"),
        ("AcquisitionTime", "AcquisitionDate", "AcquisitionTime"),
        ("ContentTime", "ContentDate", "ContentTime"),
    ):
        said = moment_of(f"{(header.get(date) or '') if date else ''}{header.get(time) or ''}", dated=not date)
        if said is not None and header.get(time):
            found[key] = said
    return found


def moments_of_frame(group: Any) -> dict[str, float]:
    """What the functional groups of a frame say."""
    found: dict[str, float] = {}
    for key, sequence in _GROUPS.items():
        inside = group.get(sequence)
        value = inside[0].get(key) if inside else None
        said = moment_of(str(value or ""), dated=True) if key in _DATES else _number(value)
        if said is not None:
            found[key] = said
    return found


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):  # not there, several, or text
        return None
    return found if math.isfinite(found) else None


def moment_of(text: str, *, dated: bool = False) -> float | None:
    """Seconds since 1970 of a date and time as DICOM writes them; of a time alone those of its day.

    >>> moment_of("20010909014640.5"), moment_of("014640"), moment_of("20010909034640+0200"), moment_of("noon")
    (1000000000.5, 6400.0, 1000000000.0, None)
    """
    plain = text.strip().replace(":", "")
    found = re.fullmatch(r"(\d{8})?(\d{2})(\d{2})?(\d{2})?(\.\d{1,6})?([+-]\d{4})?", plain)
    if found is None or (dated and found[1] is None):
        return None
    day, hour, minute, second, part, zone = found.groups()
    seconds = 3600.0 * int(hour) + 60 * int(minute or 0) + int(second or 0) + float(part or 0)
    if zone:
        seconds -= (1 if zone[0] == "+" else -1) * (3600 * int(zone[1:3]) + 60 * int(zone[3:5]))
    if day is None:
        return seconds
    try:
        return (datetime.strptime(day + "+0000", "%Y%m%d%z") - _BEGIN).total_seconds() + seconds
    except ValueError:  # no day of the calendar
        return None


@dataclass(frozen=True)
class Order:
    """In which order images of one place are steps, and when the steps are."""

    key: str | None
    """The element that tells them apart; None where only the numbers of files or frames do."""
    values: tuple[float, ...] = ()
    """Of the steps, by the first place."""
    resolution: float | None = None
    """Seconds between counted steps."""

    @property
    def times(self) -> list[float]:
        """When the steps are; empty where they are only counted."""
        if self.key in _TIMES:
            return [v * _TIMES[self.key or ""] for v in self.values]
        if self.key in _COUNTS and self.resolution:
            return [(v - self.values[0]) * self.resolution for v in self.values]
        if self.key in _DATES:
            first = self.values[0] if self.values[0] > _DATED else 0.0
            return [v - first for v in self.values]
        return []

    @property
    def units(self) -> str:
        """Of `times`: those of dates count from the first one."""
        if self.key in _DATES and self.values[0] > _DATED:
            begin = _BEGIN + timedelta(seconds=self.values[0])
            return f"seconds since {begin:%Y-%m-%d %H:%M:%S}" + (f".{begin:%f}" if begin.microsecond else "")
        return "s" if self.times else "1"

    def said(self, count: int, what: str) -> str:
        """That so many images of each place are steps."""
        begin = f"each position has {count} {what}: they are taken as time steps, "
        if self.key is None:
            return begin + "in the order of their numbers"
        if self.key in _OTHERS:
            listed = ", ".join(f"{v:g}" for v in self.values[:6]) + (", ..." if len(self.values) > 6 else "")
            return begin + f"though they differ in {self.key}: {listed}{_OTHERS[self.key]}"
        return begin + f"in the order of their {self.key}"


def key_of(places: Iterable[Sequence[Moments]]) -> str | None:
    """The element by which all images of each place differ; None where there is none.

    >>> key_of([[{"EchoTime": 2.0, "AcquisitionTime": 5.0}, {"EchoTime": 4.0, "AcquisitionTime": 5.0}]])
    'EchoTime'
    """
    held = [list(place) for place in places]

    def differs(key: str) -> bool:
        return all(all(key in m for m in place) and len({m[key] for m in place}) == len(place) for place in held)

    return next(filter(differs, _ORDER), None)


def order_of(key: str | None, first: Sequence[Moments], resolution: float | None = None) -> Order:
    """The order of steps of which these are those of the first place, sorted."""
    values = tuple(m[key] for m in first) if key is not None else ()
    return Order(key, values, resolution)


def sorter(key: str | None) -> Callable[[Moments], float]:
    """By what images of a place are sorted."""
    return lambda moments: 0.0 if key is None else moments[key]
