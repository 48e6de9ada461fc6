"""Conversions between types: `int(x)`, `string(x)`, `timestamp(x)` (cel-go's `ConvertToType`, Go's strconv and time)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from pyscheduler.cel.functions.operators import (
    INT_OVERFLOW,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    TIMESTAMP_OVERFLOW,
    UINT_OVERFLOW,
)
from pyscheduler.cel.go_text import print_float
from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import (
    INT_MAX,
    INT_MIN,
    NANOSECONDS,
    UINT_MAX,
    CelError,
    Duration,
    Timestamp,
    Uint,
    Value,
    type_of,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT: Final = re.compile(r"[0-9]+", re.ASCII)
_D: Final = r"[0-9]+(?:_[0-9]+)*"
_H: Final = r"[0-9a-f]+(?:_[0-9a-f]+)*"
_DOUBLE: Final = re.compile(
    rf"[+-]?(?:{_D}(?:\.(?:{_D})?)?|\.{_D})(?:e[+-]?{_D})?|[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE
)
_HEX_DOUBLE: Final = re.compile(
    rf"[+-]?0x(?:_?{_H}(?:\.(?:{_H})?)?|\.{_H})p[+-]?{_D}", re.ASCII | re.IGNORECASE
)
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_MAX_DIGITS: Final = 400
"""More digits than any double or integer has a use for: Python refuses to convert thousands of them."""


def _failed(value: Value, to: str) -> CelError:
    return CelError(f"type conversion error from '{type_of(value)}' to '{to}'")


def to_bool(value: Value) -> Value:
    """Return the bool of a string, or of a bool."""
    if isinstance(value, bool):
        return value
    if value in _TRUE:
        return True
    return False if value in _FALSE else _failed(value, "bool")


def to_bytes(value: Value) -> Value:
    """Return the UTF-8 of a string."""
    return value.encode() if isinstance(value, str) else value


def to_int(value: Value) -> Value:
    """Return the int of a number, of a string, of a duration in nanoseconds or of a timestamp in seconds."""
    if isinstance(value, float):
        return int(value) if -(2.0**63) < value < 2.0**63 else INT_OVERFLOW
    if isinstance(value, Uint):
        return int(value) if value <= INT_MAX else INT_OVERFLOW
    if isinstance(value, Duration):
        return value.nanoseconds
    if isinstance(value, Timestamp):
        return value.nanoseconds // NANOSECONDS
    if isinstance(value, str):
        number = _parse_integer(value, _INT)
        return number if number is not None and INT_MIN <= number <= INT_MAX else _failed(value, "int")
    return value


def to_uint(value: Value) -> Value:
    """Return the uint of a number or a string."""
    if isinstance(value, Uint):
        return value
    if isinstance(value, float):
        return Uint(value) if 0 <= value < 2.0**64 else UINT_OVERFLOW
    if isinstance(value, int):
        return Uint(value) if value >= 0 else UINT_OVERFLOW
    assert isinstance(value, str)
    number = _parse_integer(value, _UINT)
    return Uint(number) if number is not None and number <= UINT_MAX else _failed(value, "uint")


def _parse_integer(text: str, pattern: re.Pattern[str]) -> int | None:
    if not pattern.fullmatch(text):
        return None
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").lstrip("0") or "0"
    return sign * int(digits) if len(digits) <= 20 else sign * 10**20


def to_double(value: Value) -> Value:
    """Return the double of a number or a string."""
    if isinstance(value, int):
        return float(value)
    if not isinstance(value, str):
        return value
    if _DOUBLE.fullmatch(value):
        number = float(value)
    elif _HEX_DOUBLE.fullmatch(value) and len(value) < _MAX_DIGITS:
        try:
            number = float.fromhex(value.replace("_", ""))
        except OverflowError:
            return _failed(value, "double")
    else:
        return _failed(value, "double")
    # Go reports a number beyond the range, Python returns infinity.
    is_overflow = number in (float("inf"), float("-inf")) and "i" not in value.lower()
    return _failed(value, "double") if is_overflow else number


def to_string(value: Value) -> str | CelError:
    """Return the text of a value, or an error for a type without one."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return print_float(value)
    if value is None:
        return "null"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return CelError("invalid UTF-8 in bytes, cannot convert to string")
    if isinstance(value, Duration):
        return f"{_seconds_text(value)}s"
    if isinstance(value, Timestamp):
        return _timestamp_text(value)
    return value.name if isinstance(value, CelType) else _failed(value, "string")


def _seconds_text(duration: Duration) -> str:
    """Return the seconds as Go's `FormatFloat(d.Seconds(), 'f', -1, 64)` writes them."""
    sign = -1 if duration.nanoseconds < 0 else 1
    seconds, rest = divmod(abs(duration.nanoseconds), NANOSECONDS)
    number = sign * (float(seconds) + rest / 1e9)
    text = format(Decimal(repr(number)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _timestamp_text(time: Timestamp) -> str:
    seconds, rest = divmod(time.nanoseconds, NANOSECONDS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    year, month, day, remainder = civil(seconds + time.offset)
    hours, minutes = divmod(remainder // 60, 60)
    sign, offset = ("-", -time.offset) if time.offset < 0 else ("+", time.offset)
    zone = f"{sign}{offset // 3600:02d}:{offset % 3600 // 60:02d}" if offset else "Z"
    return f"{year:04d}-{month:02d}-{day:02d}T{hours:02d}:{minutes:02d}:{remainder % 60:02d}{fraction}{zone}"


def civil(seconds: int) -> tuple[int, int, int, int]:
    """Return year, month, day and the seconds of the day. An offset may lead out of the years that `datetime` has."""
    days, remainder = divmod(seconds, 86400)
    shift = 0
    # A cycle of the calendar is 400 years, which have 146097 days.
    if not -719162 <= days <= 2932896:
        shift = 400 if days < 0 else -400
        days += 146097 * (shift // 400)
    date = _EPOCH + timedelta(days=days)
    return date.year - shift, date.month, date.day, remainder


def to_duration(value: Value) -> Value:
    """Return the duration of a text like `1h30m`, or of a duration."""
    if not isinstance(value, str):
        return value
    nanoseconds = parse_duration(value)
    return _failed(value, "google.protobuf.Duration") if nanoseconds is None else Duration(nanoseconds)


def parse_duration(text: str) -> int | None:
    """Return nanoseconds as Go's `time.ParseDuration`, or None."""
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    total = 0
    position = 0
    while position < len(rest):
        match = _DURATION.match(rest, position)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        if len(match[1].lstrip("0")) > 20:
            return None
        total += int(match[1][-20:] or "0") * unit + _fraction(match[2] or "", unit)
        if total > 2**63:
            return None
        position = match.end()
    if not rest or (sign > 0 and total > INT_MAX):
        return None
    return sign * total


def _fraction(digits: str, unit: int) -> int:
    """Return the part of a unit: Go drops the digits that do not fit into 63 bits, and multiplies as a double."""
    number, scale = 0, 1.0
    for digit in digits:
        following = number * 10 + int(digit)
        if number > INT_MAX // 10 or following > INT_MAX:
            break
        number = following
        scale *= 10
    return int(float(number) * (float(unit) / scale)) if number else 0


def to_timestamp(value: Value) -> Value:
    """Return the timestamp of a text in RFC 3339, of seconds, or of a timestamp."""
    if isinstance(value, int):
        nanoseconds = value * NANOSECONDS
        return Timestamp(nanoseconds) if MIN_TIMESTAMP <= nanoseconds <= MAX_TIMESTAMP else TIMESTAMP_OVERFLOW
    return _parse_timestamp(value) if isinstance(value, str) else value


def _parse_timestamp(text: str) -> Value:
    match = _RFC3339.fullmatch(text)
    failed = _failed(text, "google.protobuf.Timestamp")
    if match is None:
        return failed
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    # Year 0 is a leap year like 400; the timestamp is out of range then.
    try:
        date = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return failed
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            return failed
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    seconds = (date - _EPOCH) // timedelta(seconds=1) - (0 if year else 146097 * 86400) - offset
    nanoseconds = seconds * NANOSECONDS + int((match[7] or "0")[:9].ljust(9, "0"))
    return Timestamp(nanoseconds, offset) if MIN_TIMESTAMP <= nanoseconds <= MAX_TIMESTAMP else TIMESTAMP_OVERFLOW
