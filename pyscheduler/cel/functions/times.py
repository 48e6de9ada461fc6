"""Parts of timestamps and durations: `getHours()`, with a time zone `getHours("Europe/Rome")`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyscheduler.cel.functions.conversions import civil
from pyscheduler.cel.functions.registry import Library, Overload
from pyscheduler.cel.types import DURATION, INT, STRING, TIMESTAMP
from pyscheduler.cel.values import NANOSECONDS, CelError, Duration, Timestamp, Value

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _day_of_year(seconds: int) -> int:
    year, month, day, _ = civil(seconds)
    # A cycle of the calendar is 400 years.
    cycle = 2000 + year % 400
    return (date(cycle, month, day) - date(cycle, 1, 1)).days


_PARTS: Final[dict[str, tuple[str, Callable[[int], int]]]] = {
    "getFullYear": ("year", lambda seconds: civil(seconds)[0]),
    "getMonth": ("month", lambda seconds: civil(seconds)[1] - 1),
    "getDayOfYear": ("day_of_year", _day_of_year),
    "getDayOfMonth": ("day_of_month", lambda seconds: civil(seconds)[2] - 1),
    "getDate": ("day_of_month_1_based", lambda seconds: civil(seconds)[2]),
    "getDayOfWeek": ("day_of_week", lambda seconds: (seconds // 86400 + 4) % 7),
    "getHours": ("hours", lambda seconds: seconds // 3600 % 24),
    "getMinutes": ("minutes", lambda seconds: seconds // 60 % 60),
    "getSeconds": ("seconds", lambda seconds: seconds % 60),
}
"""Part of a local time in seconds since 1970, by function; and the end of its overload's name."""


def _in_utc(part: Callable[[int], int]) -> Callable[[Timestamp], Value]:
    return lambda time: part(time.nanoseconds // NANOSECONDS)


def _in_zone(part: Callable[[int], int]) -> Callable[[Timestamp, str], Value]:
    def call(time: Timestamp, zone: str) -> Value:
        offset = _zone_offset(zone, time.nanoseconds // NANOSECONDS)
        return offset if isinstance(offset, CelError) else part(time.nanoseconds // NANOSECONDS + offset)

    return call


def _milliseconds(time: Timestamp, zone: str = "UTC") -> Value:
    offset = _zone_offset(zone, time.nanoseconds // NANOSECONDS)
    return offset if isinstance(offset, CelError) else time.nanoseconds % NANOSECONDS // 1_000_000


def _zone_offset(zone: str, seconds: int) -> int | CelError:
    """Return seconds east of UTC for `+01:30` or for the name of a zone at a time."""
    hours, colon, minutes = zone.partition(":")
    if not colon:
        return _named_offset(zone, seconds)
    for part in (hours, minutes):
        if not _INTEGER.fullmatch(part):
            return CelError(f'strconv.Atoi: parsing "{part}": invalid syntax')
    total = int(hours) * 60
    total += -int(minutes) if zone.startswith("-") else int(minutes)
    return total * 60


def _named_offset(zone: str, seconds: int) -> int | CelError:
    if zone in ("", "UTC", "Local"):
        return 0
    if ".." in zone or zone[0] in "/\\" or "\\" in zone:
        return CelError("time: invalid location name")
    # Imported with the first name: few expressions have one.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(ZoneInfo(zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return CelError(f"unknown time zone {zone}")
    assert offset is not None
    return offset // timedelta(seconds=1)


def _whole(unit: int) -> Callable[[Duration], Value]:
    """Return the function of whole units; Go computes them as a double, which rounds."""

    def call(duration: Duration) -> Value:
        sign = -1 if duration.nanoseconds < 0 else 1
        whole, rest = divmod(abs(duration.nanoseconds), unit)
        return int(sign * (float(whole) + rest / float(unit)))

    return call


def _duration_milliseconds(duration: Duration) -> Value:
    sign = -1 if duration.nanoseconds < 0 else 1
    return sign * (abs(duration.nanoseconds) // 1_000_000)


def _overloads(suffix: str, utc: Callable[..., Value], zoned: Callable[..., Value]) -> list[Overload]:
    name = f"timestamp_to_{suffix}"
    # cel-go's name of the overload of seconds lacks a word.
    zoned_name = "timestamp_to_seconds_tz" if suffix == "seconds" else f"{name}_with_tz"
    return [
        Overload(name, (TIMESTAMP,), INT, utc, is_member=True),
        Overload(zoned_name, (TIMESTAMP, STRING), INT, zoned, is_member=True),
    ]


def _library() -> Library:
    library = {name: _overloads(suffix, _in_utc(part), _in_zone(part)) for name, (suffix, part) in _PARTS.items()}
    library["getMilliseconds"] = _overloads("milliseconds", _milliseconds, _milliseconds)
    parts = {"Hours": 3600, "Minutes": 60, "Seconds": 1}
    for part, seconds in parts.items():
        call = _whole(seconds * NANOSECONDS)
        library[f"get{part}"].append(Overload(f"duration_to_{part.lower()}", (DURATION,), INT, call, is_member=True))
    milliseconds = Overload("duration_to_milliseconds", (DURATION,), INT, _duration_milliseconds, is_member=True)
    library["getMilliseconds"].append(milliseconds)
    return library


TIMES_LIBRARY: Final = _library()
