"""Cron expressions as kube-controller-manager parses them (robfig/cron v3, ParseStandard), and their next times.

Five fields (minute, hour, day of month, month, day of week) with `*`, `?`, lists, ranges, steps and English names, or
one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`, `@every 1h30m`. If neither day field is `*`, a day matches
if one of them matches. In a time zone with daylight saving, a time that is skipped is dropped, and one that occurs
twice counts twice. All times are seconds since 1970.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

MINUTE, HOUR = 60, 3600
HORIZON_SECONDS = 5 * 366 * 24 * HOUR
"""Search limit: a schedule without a match in five years never matches."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|m|s)")
_UNITS = {"h": HOUR, "m": MINUTE, "s": 1}


class ScheduleError(ValueError):
    """The schedule or its time zone is invalid; the text is the cause."""


class Schedule(Protocol):
    """A recurring time."""

    def next_after(self, at: float) -> float:
        """Return the first time after `at`, math.inf if there is none within the horizon."""


class _Field(NamedTuple):
    values: frozenset[int]
    star: bool


class _Range(NamedTuple):
    name: str
    low: int
    high: int
    words: dict[str, int]


_RANGES = (
    _Range("minute", 0, 59, {}),
    _Range("hour", 0, 23, {}),
    _Range("day of month", 1, 31, {}),
    _Range("month", 1, 12, {word: number for number, word in enumerate(_MONTHS, 1)}),
    _Range("day of week", 0, 6, {word: number for number, word in enumerate(_DAYS)}),
)


@dataclass(frozen=True)
class Every:
    """A fixed interval, aligned to whole seconds."""

    seconds: int

    def next_after(self, at: float) -> float:
        return math.floor(at) + self.seconds


@dataclass(frozen=True)
class Cron:
    """The five fields, matched in a time zone."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: _Field
    months: frozenset[int]
    weekdays: _Field
    zone: tzinfo

    def next_after(self, at: float) -> float:
        moment = (math.floor(at / MINUTE) + 1) * MINUTE
        while moment <= at + HORIZON_SECONDS:
            local = datetime.fromtimestamp(moment, self.zone)
            if local.month not in self.months:
                following = (local.replace(day=1) + timedelta(days=32)).replace(day=1)
                moment = max(moment + MINUTE, self._midnight(following))
            elif not self._day_matches(local):
                moment = max(moment + MINUTE, self._midnight(local + timedelta(days=1)))
            elif local.hour not in self.hours:
                moment += HOUR - local.minute * MINUTE
            elif local.minute not in self.minutes:
                moment += MINUTE
            else:
                return float(moment)
        return math.inf

    def _day_matches(self, local: datetime) -> bool:
        by_month = local.day in self.days.values
        by_week = local.isoweekday() % 7 in self.weekdays.values
        return (by_month and by_week) if self.days.star or self.weekdays.star else (by_month or by_week)

    def _midnight(self, local: datetime) -> int:
        return int(datetime(local.year, local.month, local.day, tzinfo=self.zone).timestamp())


def time_zone(name: str) -> tzinfo:
    """Return the zone of that name in the IANA database; "" is UTC. ScheduleError if it does not exist."""
    if name in ("", "UTC", "Etc/UTC"):
        return UTC  # works without an installed database too
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def parse(text: str, zone: str = "") -> Schedule:
    """Return a schedule in a time zone. ScheduleError names the invalid field."""
    if "TZ" in text:
        raise ScheduleError("set the time zone in timeZone, not in the schedule")
    if text.startswith("@every "):
        return Every(_duration(text.removeprefix("@every ")))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    parts = _DESCRIPTORS.get(text, text).split()
    if len(parts) != len(_RANGES):
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{text}]")
    minute, hour, day, month, weekday = map(_field, parts, _RANGES)
    return Cron(minute.values, hour.values, day, month.values, weekday, time_zone(zone))


def _field(text: str, bounds: _Range) -> _Field:
    values: set[int] = set()
    star = False
    for part in text.split(","):
        found, any_value = _part(part, bounds)
        values |= found
        star = star or any_value
    return _Field(frozenset(values), star)


def _part(text: str, bounds: _Range) -> tuple[set[int], bool]:
    span, slash, step_text = text.partition("/")
    step = _number(step_text, bounds, {}) if slash else 1
    first, dash, last = span.partition("-")
    star = first in ("*", "?")
    if star and not dash:
        low, high = bounds.low, bounds.high
    else:
        low = _number(first, bounds, bounds.words)
        high = _number(last, bounds, bounds.words) if dash else bounds.high if slash else low
    if step == 0 or not bounds.low <= low <= high <= bounds.high:
        allowed = f"{bounds.low}-{bounds.high}"
        raise ScheduleError(f"{bounds.name}: {text} is not within {allowed}, or steps by 0, or ends before it begins")
    return set(range(low, high + 1, step)), star and step == 1


def _number(text: str, bounds: _Range, words: dict[str, int]) -> int:
    number = words.get(text.lower())
    if number is None and not (text.isascii() and text.isdecimal()):
        raise ScheduleError(f"{bounds.name}: {text!r} is not a number")
    return int(text) if number is None else number


def _duration(text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ScheduleError(f"{text!r} is not a duration such as 1h30m")
    return max(1, int(sum(float(number) * _UNITS[unit] for number, unit in parts)))
