"""Cron expressions as kube-controller-manager parses them (robfig/cron v3, ParseStandard), and their next times.

Five fields (minute, hour, day of month, month, day of week) with `*`, `?`, lists, ranges, steps and English names, or
one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`, `@every 1h30m`. If neither day field is `*`, a day matches
if one of them matches. In a time zone with daylight saving, a time that is skipped is dropped, and one that occurs
twice counts twice. All times are seconds since 1970.

cronsim computes the times. Its parser follows Debian's cron: `*/2` as day of month must match together with the day of
week, Sunday is also 7, `?` is an error, `L` is not, and a skipped time is made up for. So the fields are parsed here,
and cronsim gets lists of numbers, with seconds: it applies Debian's daylight saving rules to five fields only. Of
20,000 schedules started within 8 hours before a clock change, robfig/cron v3.0.1 gives other times for 4.5 %, all in
zones that change the clock at midnight or by half an hour.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MINUTE, HOUR = 60, 3600
HORIZON_YEARS = 5
"""Search limit: a schedule without a match until the end of the fifth year from now never matches."""

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
_is_number = re.compile(r"\+?[0-9]+").fullmatch
_ITEM = re.compile(r"(?P<first>[^-/]+)(?:-(?P<last>[^-/]+))?(?:/(?P<step>[^-/]+))?")


class ScheduleError(ValueError):
    """The schedule or its time zone is invalid; the text is the cause."""


class Schedule(Protocol):
    """A recurring time."""

    def next_after(self, at: float) -> float:
        """Return the first time after `at`, math.inf if there is none within the horizon."""


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
    """Six fields for cronsim, second first, matched in a time zone."""

    fields: str
    zone: tzinfo

    def next_after(self, at: float) -> float:
        start = datetime.fromtimestamp(at, self.zone)
        try:
            found = next(CronSim(self.fields, start), None)
        except CronSimError:
            return math.inf  # no month has such a day
        if found is None or found.year > start.year + HORIZON_YEARS:
            return math.inf
        if found != found.astimezone(UTC).astimezone(self.zone):  # cronsim returns a midnight that is skipped
            return self.next_after(found.timestamp() - 1)
        return found.timestamp()


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
    return Cron(" ".join(("0", *map(_field, parts, _RANGES))), time_zone(zone))


def _field(text: str, bounds: _Range) -> str:
    """Return a field as `*` or as a list of numbers; a step makes it a list."""
    items = [(item, _numbers(item, bounds)) for item in text.split(",") if item]
    if not items:
        raise ScheduleError(f"{bounds.name}: {text!r} is empty")
    if any(item[0] in "*?" and numbers.step == 1 for item, numbers in items):
        return "*"
    return ",".join(map(str, sorted(set().union(*(numbers for _, numbers in items)))))


def _numbers(item: str, bounds: _Range) -> range:
    """Return the values of one item of a list."""
    found = _ITEM.fullmatch(item)
    if found is None:
        raise ScheduleError(f"{bounds.name}: {item!r} is not a number, a range or a step")
    first, last, step_text = found.group("first", "last", "step")
    step = 1 if step_text is None else _number(step_text, {}, bounds)
    if first in ("*", "?"):
        low, high = bounds.low, bounds.high
    else:
        low = _number(first, bounds.words, bounds)
        high = _number(last, bounds.words, bounds) if last else bounds.high if step_text else low
    if step == 0 or not bounds.low <= low <= high <= bounds.high:
        allowed = f"{bounds.low}-{bounds.high}"
        raise ScheduleError(f"{bounds.name}: {item} is not within {allowed}, or steps by 0, or ends before it begins")
    return range(low, high + 1, step)


def _number(text: str, words: dict[str, int], bounds: _Range) -> int:
    number = words.get(text.lower())
    if number is None and not _is_number(text):
        raise ScheduleError(f"{bounds.name}: {text!r} is not a number")
    return int(text) if number is None else number


def _duration(text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ScheduleError(f"{text!r} is not a duration such as 1h30m")
    return max(1, int(sum(float(number) * _UNITS[unit] for number, unit in parts)))
