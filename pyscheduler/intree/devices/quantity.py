"""Quantities with the precision, the text and the identity of resource.Quantity (k8s.io/apimachinery).

`pyscheduler.api.quantity` rounds to whole units or thousandths. Capacities of devices are compared exactly and are
written back to the API, so the format in which they were given matters.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from pyscheduler.api.quantity import MAX_INT64, QuantityError

BINARY_SI = "BinarySI"
DECIMAL_SI = "DecimalSI"
DECIMAL_EXPONENT = "DecimalExponent"
NANO = 10**9
MILLI = 10**6
"""Billionths in one thousandth."""

_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE]?)\Z", re.ASCII)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_INT64_DIGITS = 18
_MAX_LENGTH = 64
_MAX_EXPONENT = 64

Identity = tuple[int, int, str, str]


class DeviceQuantity(msgspec.Struct, frozen=True, gc=False):
    """Amount in billionths, with its format."""

    nano: int
    format: str = DECIMAL_SI
    written: str = ""
    """Text as it was given, if that is the canonical form."""
    identity: Identity | None = None
    """Fields of Go's struct, or None if a copy of that is never equal (`==`) to the original."""

    @property
    def is_whole(self) -> bool:
        """True if the amount is an integer."""
        return self.nano % NANO == 0

    def is_same(self, other: DeviceQuantity) -> bool:
        """Return True if Go's `==` does: not only the amounts but also their representations are equal."""
        return self.identity is not None and self.identity == other.identity

    def milli(self) -> int | None:
        """Return the amount in thousandths, or None if that is not exact or no int64."""
        milli, rest = divmod(self.nano, MILLI)
        return milli if not rest and -MAX_INT64 - 1 <= milli <= MAX_INT64 else None

    def __str__(self) -> str:
        return self.written or _canonical(self.nano, self.format)


def whole(amount: int, format_: str) -> DeviceQuantity:
    """Return a quantity of whole units (NewQuantity)."""
    return DeviceQuantity(amount * NANO, format_, "", (amount, 0, "", format_))


def thousandths(amount: int, format_: str) -> DeviceQuantity:
    """Return a quantity of thousandths (NewMilliQuantity)."""
    return DeviceQuantity(amount * MILLI, format_, "", (amount, -3, "", format_))


def parse(given: str | int | float) -> DeviceQuantity:
    """Return the quantity as ParseQuantity does: rounded up to billionths. QuantityError if it is invalid."""
    return _parse(str(given).strip())


@lru_cache(maxsize=4096)
def _parse(text: str) -> DeviceQuantity:
    if text == "0":
        return DeviceQuantity(0, DECIMAL_SI, text, (0, 0, text, DECIMAL_SI))
    match = _QUANTITY.match(text) if len(text) <= _MAX_LENGTH else None
    if not match or not (match[2] or match[3]):
        raise QuantityError(f"{text[:_MAX_LENGTH]!r} is not a quantity such as 500m, 2 or 1.5Gi")
    sign, whole_digits, fraction = -1 if match[1] == "-" else 1, match[2].lstrip("0") or "0", match[3] or ""
    format_, exponent, factor = _suffix(text, match[4])
    fast = _fast(text, (sign, whole_digits, fraction), (format_, exponent, factor))
    if fast:
        return fast
    numerator, denominator = int(whole_digits + fraction) * factor * NANO, 10 ** len(fraction)
    if exponent >= 0:
        numerator *= 10**exponent
    else:
        denominator *= 10**-exponent
    nano = -(-numerator // denominator)
    if format_ == BINARY_SI:
        nano = min(nano, MAX_INT64 * NANO)
        format_ = DECIMAL_SI if 0 < nano < NANO else format_
    return DeviceQuantity(sign * nano, format_)


def _suffix(text: str, suffix: str) -> tuple[str, int, int]:
    """Return format, decimal exponent and binary factor."""
    if suffix in _BINARY:
        return BINARY_SI, 0, 1 << _BINARY[suffix]
    if suffix in _DECIMAL:
        return DECIMAL_SI, _DECIMAL[suffix], 1
    if abs(int(suffix[1:])) > _MAX_EXPONENT:
        raise QuantityError(f"{text!r} has an exponent outside of ±{_MAX_EXPONENT}")
    return DECIMAL_EXPONENT, int(suffix[1:]), 1


def _fast(text: str, number: tuple[int, str, str], unit: tuple[str, int, int]) -> DeviceQuantity | None:
    """Return the int64 form, or None where ParseQuantity takes arbitrary precision instead."""
    sign, digits, fraction = number
    format_, exponent, factor = unit
    if format_ == BINARY_SI:
        bits = factor.bit_length() - 1
        precision = 15 - len(digits) - bits * 3 // 10 - 1 if not fraction else -1
        scale = 0
    else:
        precision = _MAX_INT64_DIGITS - len(digits) - len(fraction)
        scale = exponent - len(fraction)
    shifted = digits + fraction
    amount = int(shifted) * factor
    if precision < 0 or scale < -9 or amount > MAX_INT64:
        return None
    if format_ == BINARY_SI:
        is_canonical = int(shifted) & 7 != 0
    else:
        is_canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    written = text if is_canonical else ""
    amount *= sign
    nano = amount * 10 ** (scale + 9)
    return DeviceQuantity(nano, format_, written, (amount, scale, written, format_))


def _canonical(nano: int, format_: str) -> str:
    if nano == 0:
        return "0"
    sign, magnitude = "-" if nano < 0 else "", abs(nano)
    if format_ == BINARY_SI and magnitude >= 1024 * NANO and magnitude % NANO == 0:
        number, power = magnitude // NANO, 0
        while number % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
            number, power = number // 1024, power + 1
        return f"{sign}{number}{_BINARY_SUFFIX[power]}"
    number, exponent = magnitude, -9
    while number % 1000 == 0:
        number, exponent = number // 1000, exponent + 3
    if format_ == DECIMAL_EXPONENT:
        return f"{sign}{number}e{exponent}" if exponent else f"{sign}{number}"
    return f"{sign}{number}{_DECIMAL_SUFFIX.get(exponent, '')}"
