"""Kubernetes quantities as integers: cpu in milli-cores, everything else in whole units, both rounded up.

Matches MilliValue and Value of resource.Quantity (k8s.io/apimachinery), which round up and saturate at int64.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_INT64 = 2**63 - 1
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL_EXPONENT = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MAX_DIGITS = 64
_MAX_EXPONENT = 64
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)\Z")


class QuantityError(ValueError):
    """Invalid Kubernetes quantity."""


def value(text: str | int | float) -> int:
    """Return the quantity in whole units, rounded up: `value("1.5")` is 2. QuantityError if it is invalid."""
    return whole_units(nano_value(text))


def milli_value(text: str | int | float) -> int:
    """Return the quantity in thousandths, rounded up: `milli_value("100.5m")` is 101. QuantityError if invalid."""
    return thousandths(nano_value(text))


def nano_value(text: str | int | float) -> int:
    """Return the quantity in billionths, the finest unit of Kubernetes, for exact sums. QuantityError if invalid."""
    return _nano(str(text))


def whole_units(nano: int) -> int:
    """Convert billionths to whole units, rounded up and saturating at int64."""
    return _rounded(nano, 10**9)


def thousandths(nano: int) -> int:
    """Convert billionths to thousandths, rounded up and saturating at int64."""
    return _rounded(nano, 10**6)


def _rounded(nano: int, divisor: int) -> int:
    # Go rounds away from zero, so the magnitude is rounded up for both signs.
    magnitude = min(-(-abs(nano) // divisor), MAX_INT64)
    return magnitude if nano >= 0 else -magnitude


@lru_cache(maxsize=8192)
def _nano(text: str) -> int:
    sign, digits, exponent, factor = _parse(text)
    numerator, denominator = digits * factor, 1
    exponent += 9
    if exponent >= 0:
        numerator *= 10**exponent
    else:
        denominator = 10**-exponent
    return sign * min(-(-numerator // denominator), MAX_INT64 * 10**9)


def _parse(text: str) -> tuple[int, int, int, int]:
    """Return sign, digits, decimal exponent and binary factor of a quantity."""
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    end = 0
    while end < len(body) and (body[end].isdigit() or body[end] == "."):
        end += 1
    number, suffix = body[:end], body[end:]
    whole, _, fraction = number.partition(".")
    digits = whole + fraction
    if not digits or not digits.isascii() or not digits.isdigit() or len(digits) > _MAX_DIGITS:
        raise QuantityError(f"{text!r} is not a quantity such as 500m, 2 or 1.5Gi")
    exponent, factor = _suffix(text, suffix)
    return sign, int(digits), exponent - len(fraction), factor


def _suffix(text: str, suffix: str) -> tuple[int, int]:
    if suffix in _DECIMAL_EXPONENT:
        return _DECIMAL_EXPONENT[suffix], 1
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    written = _EXPONENT.match(suffix[:_MAX_DIGITS])
    if written and abs(int(written[1])) <= _MAX_EXPONENT:
        return int(written[1]), 1
    raise QuantityError(f"{text!r} has the unknown unit {suffix!r}; use m, k, M, G, Ki, Mi, Gi and the like")
