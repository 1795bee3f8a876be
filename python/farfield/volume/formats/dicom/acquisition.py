"""What tells images of one place apart: their times, or the echo, the weighting or the segment that they are of."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from farfield.volume.formats.dicom.elements import number_of

Moments = Mapping[str, float]
"""What an image says of when it is, and of what else may tell it apart, by the name of the element."""

_TIMES = {
    "TriggerTime": 1e-3, "NominalCardiacTriggerDelayTime": 1e-3, "FrameReferenceTime": 1e-3, "TemporalPositionTimeOffset": 1.0,
}  # fmt: skip
"""Seconds of the unit of elements that say a time."""
_COUNTS = ("TemporalPositionIdentifier", "TemporalPositionIndex")
_OTHERS = {
    "EchoTime": " ms", "EffectiveEchoTime": " ms", "InversionTime": " ms", "DiffusionBValue": " s/mm2", "RepetitionTime": " ms",
    "FlipAngle": " degrees", "ReferencedSegmentNumber": "",
}  # fmt: skip
"""Elements that say no time, with their units."""
_DATES = ("FrameAcquisitionDateTime", "FrameReferenceDateTime", "AcquisitionDateTime", "AcquisitionTime", "ContentTime")
_OF_DAY = {"AcquisitionTime": "AcquisitionDate", "ContentTime": "ContentDate"}
"""Times of a day, and where its date stands: it is beside them where it could be read."""
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


def moments_of(header: Any) -> dict[str, float]:
    """What the header of a file says."""
    found = {key: number for key in (*_TIMES, *_COUNTS, *_OTHERS) if (number := number_of(header.get(key))) is not None}
    zone = zone_of(header)
    said = seconds_of(str(header.get("AcquisitionDateTime") or ""), dated=True, zone=zone)
    if said is not None:
        found["AcquisitionDateTime"] = said
    for key, date in _OF_DAY.items():
        day, time = (str(header.get(tag) or "").strip() for tag in (date, key))
        said = seconds_of(day + time, dated=bool(day), zone=zone) if time else None
        if said is not None:
            found[key] = said
            if day:
                found[date] = said
    return found


def zone_of(header: Any) -> str:
    """What dates of a file are in that do not say it themselves, as in "+0200"; nothing where it does not say so."""
    return str(header.get("TimezoneOffsetFromUTC") or "").strip()


def moments_of_frame(group: Any, zone: str = "") -> dict[str, float]:
    """What the functional groups of a frame say; `zone` as in `zone_of`."""
    found: dict[str, float] = {}
    for key, sequence in _GROUPS.items():
        inside = group.get(sequence)
        value = inside[0].get(key) if inside else None
        said = seconds_of(str(value or ""), dated=True, zone=zone) if key in _DATES else number_of(value)
        if said is not None:
            found[key] = said
    return found


def seconds_of(text: str, *, dated: bool = False, zone: str = "") -> float | None:
    """Seconds since 1970 of a date and time as DICOM writes them; of a time alone those of its day. `zone`: what a date without
    one of its own is in.

    >>> seconds_of("20010909014640.5"), seconds_of("014640"), seconds_of("20010909034640+0200"), seconds_of("noon")
    (1000000000.5, 6400.0, 1000000000.0, None)
    """
    plain = text.strip().replace(":", "")
    found = re.fullmatch(r"(\d{8})?(\d{2})(\d{2})?(\d{2})?(\.\d{1,6})?([+-]\d{4})?", plain)
    if found is None or (dated and found[1] is None):
        return None
    day, hour, minute, second, part, own = found.groups()
    seconds = 3600.0 * int(hour) + 60 * int(minute or 0) + int(second or 0) + float(part or 0)
    zone = own or (zone if day is not None and re.fullmatch(r"[+-]\d{4}", zone) else "")
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
    dated: bool = False
    """Whether the values are seconds since 1970, and not those of a day."""

    @property
    def times(self) -> list[float]:
        """When the steps are; empty where they are only counted."""
        if self.key in _TIMES:
            return [v * _TIMES[self.key or ""] for v in self.values]
        if self.key in _COUNTS and self.resolution:
            return [(v - self.values[0]) * self.resolution for v in self.values]
        if self.key in _DATES:
            first = self.values[0] if self.dated else 0.0
            return [v - first for v in self.values]
        return []

    @property
    def units(self) -> str:
        """Of `times`: those of dates count from the first one."""
        if self.dated:
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
        over = " across midnight" if self.key in _OF_DAY and not self.dated and self.values[-1] >= _DAY else ""
        return begin + f"in the order of their {self.key}{over}"


def key_of(places: Iterable[Sequence[Moments]]) -> str | None:
    """The element by which all images of each place differ; None where there is none.

    >>> key_of([[{"EchoTime": 2.0, "AcquisitionTime": 5.0}, {"EchoTime": 4.0, "AcquisitionTime": 5.0}]])
    'EchoTime'
    """
    held = [list(place) for place in places]

    def differs(key: str) -> bool:
        # Times of a day say nothing beside dates.
        return (
            all(all(key in m for m in place) and len({m[key] for m in place}) == len(place) for place in held)
            and len({_is_dated(key, m) for place in held for m in place}) == 1
        )

    return next(filter(differs, _ORDER), None)


def _is_dated(key: str, moments: Moments) -> bool:
    """Whether an element of an image is a moment with its date."""
    return key in _DATES and (key not in _OF_DAY or _OF_DAY[key] in moments)


def order_of(
    key: str | None,
    first: Sequence[Moments],
    moment: Callable[[Moments], float],
    resolution: float | None = None,
) -> Order:
    """The order of steps of which these are those of the first place, sorted by `moment`."""
    if key is None:
        return Order(None, (), resolution)
    return Order(key, tuple(map(moment, first)), resolution, _is_dated(key, first[0]))


def sorter(key: str | None, places: Iterable[Sequence[Moments]]) -> Callable[[Moments], float]:
    """By what images of a place are sorted. Times without dates that lie on both sides of midnight go on after it.

    >>> found = sorter("ContentTime", [[{"ContentTime": 86390.0}, {"ContentTime": 10.0}]])
    >>> found({"ContentTime": 86390.0}), found({"ContentTime": 10.0})
    (86390.0, 86410.0)
    """
    if key is None:
        return lambda moments: 0.0
    held = [m for place in places for m in place]
    times = sorted({m[key] for m in held}) if key in _OF_DAY and not any(_is_dated(key, m) for m in held) else []
    gap, after = max(((b - a, b) for a, b in itertools.pairwise(times)), default=(0.0, 0.0))
    evening = after if gap > _DAY / 2 else -math.inf
    return lambda moments: moments[key] + (_DAY if moments[key] < evening else 0.0)
