"""Elements that distinguish images at one position: times, echo, weighting or segment."""

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
"""Times of an image and other distinguishing values, by the name of the element."""

_TIMES = {
    "TriggerTime": 1e-3, "NominalCardiacTriggerDelayTime": 1e-3, "FrameReferenceTime": 1e-3, "TemporalPositionTimeOffset": 1.0,
}  # fmt: skip
"""Unit of each time element in seconds."""
_COUNTS = ("TemporalPositionIdentifier", "TemporalPositionIndex")
_OTHERS = {
    "EchoTime": " ms", "EffectiveEchoTime": " ms", "InversionTime": " ms", "DiffusionBValue": " s/mm2", "RepetitionTime": " ms",
    "FlipAngle": " degrees", "ReferencedSegmentNumber": "",
}  # fmt: skip
"""Distinguishing elements other than times, with their units."""
_DATES = ("FrameAcquisitionDateTime", "FrameReferenceDateTime", "AcquisitionDateTime", "AcquisitionTime", "ContentTime")
_OF_DAY = {"AcquisitionTime": "AcquisitionDate", "ContentTime": "ContentDate"}
"""Times of day with the element of their date. A readable date is stored under its own name."""
_ORDER = (*_TIMES, *_COUNTS, *_OTHERS, *_DATES)
_GROUPS = {
    "TemporalPositionTimeOffset": "TemporalPositionSequence", "TemporalPositionIndex": "FrameContentSequence",
    "NominalCardiacTriggerDelayTime": "CardiacSynchronizationSequence", "EffectiveEchoTime": "MREchoSequence",
    "DiffusionBValue": "MRDiffusionSequence", "ReferencedSegmentNumber": "SegmentIdentificationSequence",
    "FrameAcquisitionDateTime": "FrameContentSequence", "FrameReferenceDateTime": "FrameContentSequence",
}  # fmt: skip
"""Functional groups of frames that contain these elements."""
TAGS = (
    "TriggerTime", "FrameReferenceTime", "TemporalPositionIdentifier", "TemporalResolution", "EchoTime", "InversionTime",
    "DiffusionBValue", "RepetitionTime", "FlipAngle", "AcquisitionDateTime", "AcquisitionDate", "AcquisitionTime", "ContentDate",
    "ContentTime", "TimezoneOffsetFromUTC",
)  # fmt: skip
"""Header elements that this module needs."""
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86400.0


def moments_of(header: Any) -> dict[str, float]:
    """The distinguishing values in the header of a file."""
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
    """The offset of dates without one in a file, as in "+0200"; empty if the file gives none."""
    return str(header.get("TimezoneOffsetFromUTC") or "").strip()


def moments_of_frame(group: Any, zone: str = "") -> dict[str, float]:
    """The distinguishing values in the functional groups of a frame; `zone` as in `zone_of`."""
    found: dict[str, float] = {}
    for key, sequence in _GROUPS.items():
        inside = group.get(sequence)
        value = inside[0].get(key) if inside else None
        said = seconds_of(str(value or ""), dated=True, zone=zone) if key in _DATES else number_of(value)
        if said is not None:
            found[key] = said
    return found


def seconds_of(text: str, *, dated: bool = False, zone: str = "") -> float | None:
    """Seconds since 1970 of a date and time in DICOM's form, or seconds of the day for a time alone. `zone`: the offset
    of a date without its own.

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
    except ValueError:  # not a valid date
        return None


@dataclass(frozen=True)
class Order:
    """The order of time steps at one position, and their times."""

    key: str | None
    """The element that distinguishes the images; None if only numbers of files or frames do."""
    values: tuple[float, ...] = ()
    """Values of the steps, from the first position."""
    resolution: float | None = None
    """Seconds between counted steps."""
    dated: bool = False
    """Whether the values are seconds since 1970, not seconds of a day."""

    @property
    def times(self) -> list[float]:
        """Times of the steps; empty if steps are only counted."""
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
        """Unit of `times`; those of dates count from the first one."""
        if self.dated:
            begin = _BEGIN + timedelta(seconds=self.values[0])
            return f"seconds since {begin:%Y-%m-%d %H:%M:%S}" + (f".{begin:%f}" if begin.microsecond else "")
        return "s" if self.times else "1"

    def said(self, count: int, what: str) -> str:
        """The note that images at each position are time steps."""
        begin = f"each position has {count} {what}: they are taken as time steps, "
        if self.key is None:
            return begin + "in the order of their numbers"
        if self.key in _OTHERS:
            listed = ", ".join(f"{v:g}" for v in self.values[:6]) + (", ..." if len(self.values) > 6 else "")
            return begin + f"though they differ in {self.key}: {listed}{_OTHERS[self.key]}"
        over = " across midnight" if self.key in _OF_DAY and not self.dated and self.values[-1] >= _DAY else ""
        return begin + f"in the order of their {self.key}{over}"


def key_of(places: Iterable[Sequence[Moments]]) -> str | None:
    """An element in which all images of each position differ; None if there is none.

    >>> key_of([[{"EchoTime": 2.0, "AcquisitionTime": 5.0}, {"EchoTime": 4.0, "AcquisitionTime": 5.0}]])
    'EchoTime'
    """
    held = [list(place) for place in places]

    def differs(key: str) -> bool:
        # A time of day without a date does not compare with a date.
        return (
            all(all(key in m for m in place) and len({m[key] for m in place}) == len(place) for place in held)
            and len({_is_dated(key, m) for place in held for m in place}) == 1
        )

    return next(filter(differs, _ORDER), None)


def _is_dated(key: str, moments: Moments) -> bool:
    """Whether an element of an image is a time with a date."""
    return key in _DATES and (key not in _OF_DAY or _OF_DAY[key] in moments)


def order_of(
    key: str | None,
    first: Sequence[Moments],
    moment: Callable[[Moments], float],
    resolution: float | None = None,
) -> Order:
    """The order of steps, from the values at the first position sorted by `moment`."""
    if key is None:
        return Order(None, (), resolution)
    return Order(key, tuple(map(moment, first)), resolution, _is_dated(key, first[0]))


def sorter(key: str | None, places: Iterable[Sequence[Moments]]) -> Callable[[Moments], float]:
    """The sort key of images at a position. Times of day that cross midnight continue after 24 h.

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
