"""Strict parsing of HTTP header values from untrusted servers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

LONGEST_WAIT: Final = 30.0
"""Maximum delay before a retry, in seconds."""
_DATES: Final = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
"""Formats of an HTTP-date (RFC 9110, 5.6.7)."""


def retry_after(value: str, wall: float) -> float | None:
    """Return the delay of a Retry-After header at time `wall`, in seconds up to LONGEST_WAIT; None if it is malformed.

    The value is a number of seconds in ASCII digits or a date (RFC 9110, 10.2.3); `wall` is in seconds since 1970.
    """
    value = value.strip(" \t")
    if not value.isascii():
        return None
    if value.isdigit():
        return bounded_wait(float(value))  # float accepts any number of digits
    for form in _DATES:
        try:
            at = datetime.strptime(value, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return bounded_wait(at.timestamp() - wall)
    return None


def bounded_wait(seconds: float) -> float:
    """Return `seconds` limited to 0..LONGEST_WAIT."""
    return min(max(seconds, 0.0), LONGEST_WAIT)


__all__ = ["LONGEST_WAIT", "bounded_wait", "retry_after"]
