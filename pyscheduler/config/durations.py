"""Durations in Go's format, which kube-scheduler's configuration files use (metav1.Duration)."""

from __future__ import annotations

import re

_UNITS = {"ns": 10**-9, "us": 10**-6, "µs": 10**-6, "μs": 10**-6, "ms": 10**-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SMALL = (("ms", 10**3), ("µs", 10**6), ("ns", 10**9))
_MOST = 2**63 / 10**9
"""Largest duration in seconds: Go stores nanoseconds in 64 bits."""
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+\Z")


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as `15s`, `1m30s` or `0`. ValueError if it is not a duration."""
    if text in ("0", "+0", "-0"):
        return 0.0
    if not _WHOLE.match(text):
        raise ValueError(f'"{text}" is not a duration such as 15s, 1m30s or 500ms')
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _MOST:
        raise ValueError(f'"{text}" exceeds the longest duration, 292 years')
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """Return a duration as Go prints it: `90` is `1m30s`, `3600` is `1h0m0s`, `0.5` is `500ms`."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    if 0 < rest < 1:
        unit, parts = next((small for small in _SMALL if rest * small[1] >= 1), _SMALL[-1])
        return f"{sign}{_decimal(rest * parts)}{unit}"
    minutes, remainder = divmod(rest, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{_decimal(remainder)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")
