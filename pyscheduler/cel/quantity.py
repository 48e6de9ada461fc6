"""Quantities as k8s.io/apimachinery's resource.Quantity holds them.

Values are exact, but a quantity has one of two representations there, and callers see which one: only the one in 64
bits converts to an integer. `100Ti` is in the other one, because `ParseQuantity` estimates the digits.
"""

from __future__ import annotations

import math
import re
from typing import ClassVar, Final

from pyscheduler.cel import limits
from pyscheduler.cel.types import CelType, opaque
from pyscheduler.cel.values import INT_MAX, INT_MIN, NO_SUCH_OVERLOAD, CelError, Opaque, Value

QUANTITY: Final = opaque("kubernetes.Quantity")
DECIMAL_EXPONENT: Final = "DecimalExponent"
DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
_NANO: Final = -9
_DIGITS_OF_INT64: Final = 18
_MAX_EXPONENT: Final = 10_000
"""Beyond it arithmetic is refused: cel-go computes numbers of a billion digits. No device has such a capacity."""
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}
_TEXT: Final = re.compile(
    r"(?P<value>[+-]?0*(?P<whole>[0-9]*)(?P<point>\.(?P<fraction>[0-9]*))?)"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)\Z"
)
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+\Z")
_WRONG_FORMAT: Final = CelError(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_NUMBER: Final = CelError("unable to parse numeric part of quantity")
_WRONG_SUFFIX: Final = CelError("unable to parse quantity's suffix")
OUT_OF_RANGE: Final = CelError("quantity out of range")
"""Not upstream's: a quantity with an exponent that no computer can add."""


class Quantity(Opaque):
    """An amount of `unscaled * 10**scale`.

    `is_decimal` is True for the representation without limits. As upstream, a comparison with such an amount changes
    the left one to it, for the rest of the evaluation: a device's capacity is given to the next one as it was.
    """

    __slots__ = ("_changed_in", "_is_decimal", "format", "is_reference", "scale", "unscaled")
    TYPE: ClassVar[CelType] = QUANTITY

    def __init__(
        self, unscaled: int, scale: int, format: str, is_decimal: bool = False, is_reference: bool = False
    ) -> None:
        self.unscaled = unscaled
        self.scale = scale
        self.format = format
        self._is_decimal = is_decimal
        self._changed_in = -1
        self.is_reference = is_reference
        """True for results of add and sub: upstream returns a pointer, which no quantity is equal to."""

    @property
    def is_decimal(self) -> bool:
        """Return True for the representation without limits."""
        return self._is_decimal or self._changed_in == limits.evaluation()

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1."""
        if self.is_decimal or other.is_decimal:
            self._changed_in = limits.evaluation()
        if self.sign() != other.sign() or not self.unscaled:
            return (self.sign() > other.sign()) - (self.sign() < other.sign())
        # Digits before the point decide unless they are as many: exponents may be billions.
        magnitude, other_magnitude = _magnitude(self), _magnitude(other)
        if magnitude != other_magnitude:
            return self.sign() if magnitude > other_magnitude else -self.sign()
        scale = min(self.scale, other.scale)
        a, b = _shift(self.unscaled, self.scale - scale), _shift(other.unscaled, other.scale - scale)
        return (a > b) - (a < b)

    def equal(self, other: Value) -> bool | CelError:
        """Return True for an equal amount; an error for a value of another type, and for the result of add or sub."""
        if not isinstance(other, Quantity) or other.is_reference:
            return NO_SUCH_OVERLOAD
        return self.compare(other) == 0

    def as_integer(self) -> int | None:
        """Return the amount if it is in 64 bits without a fraction, as upstream represents it."""
        if self.is_decimal or self.scale < 0:
            return None
        if self.scale > _DIGITS_OF_INT64:
            return 0 if not self.unscaled else None
        scaled = _shift(self.unscaled, self.scale)
        return scaled if _fits(scaled) and (self.unscaled != INT_MIN or not self.scale) else None

    def as_float(self) -> float:
        """Return upstream's approximation: both factors are rounded before they are multiplied."""
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = math.copysign(math.inf, self.unscaled)
        return base if not self.scale else base * _power_of_ten(self.scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __hash__(self) -> int:
        unscaled, scale = _without_factors(self.unscaled, 10)
        return hash((unscaled, scale + self.scale if unscaled else 0))

    def __repr__(self) -> str:
        return _canonical(self)


def parse_quantity(text: str) -> Quantity | CelError:
    """Return the quantity that a text states."""
    found = _TEXT.match(text)
    if not text or not found:
        return _WRONG_FORMAT
    whole, fraction, suffix = found["whole"] or "0", found["fraction"] or "", found["suffix"]
    base, exponent, form = _interpret(suffix)
    if not base:
        return _WRONG_SUFFIX
    is_bare = not suffix and found["point"] is None and not found["whole"]
    if is_bare:
        return Quantity(0, 0, DECIMAL_SI)
    negative = text[0] == "-"
    digits = len(whole) + len(fraction)
    if base == 10:
        fits, factor, scale = digits <= _DIGITS_OF_INT64, 1, exponent - len(fraction)
    else:
        fits = not fraction and 14 - len(whole) - exponent * 3 // 10 >= 0
        factor, scale = 1 << exponent, 0
    if fits and scale >= _NANO:
        unscaled = int(whole + fraction) * factor
        if unscaled <= INT_MAX:
            return Quantity(-unscaled if negative else unscaled, scale, form)
    if not (found["whole"] or fraction or "0" in found["value"]):
        return _WRONG_NUMBER
    return _decimal(negative, whole + fraction, -len(fraction), (base, exponent, form))


def _interpret(suffix: str) -> tuple[int, int, str]:
    """Return base, exponent and format; a base of 0 for an unknown suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], BINARY_SI
    if not _EXPONENT.match(suffix) or len(suffix.lstrip("eE+-0")) > 19:
        return 0, 0, DECIMAL_EXPONENT
    exponent = int(suffix[1:2].strip("0123456789") + (suffix[1:].lstrip("+-0") or "0"))
    if not _fits(exponent):
        return 0, 0, DECIMAL_EXPONENT
    return 10, (exponent + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT


def _decimal(negative: bool, digits: str, scale: int, suffix: tuple[int, int, str]) -> Quantity | CelError:
    """Return a quantity without limits, rounded up to billionths."""
    base, exponent, form = suffix
    # Python refuses to convert thousands of digits at once.
    unscaled = _to_int(digits)
    if base == 10:
        scale += exponent
    else:
        unscaled <<= exponent
    if not unscaled:
        return Quantity(0, scale, form, is_decimal=True)
    if scale > _MAX_EXPONENT:
        return OUT_OF_RANGE
    if scale >= _NANO:
        unscaled *= 10 ** (scale - _NANO)
    elif _NANO - scale > len(digits) + 40:
        unscaled = 1
    else:
        unscaled = -(-unscaled // 10 ** (_NANO - scale))
    scale = _NANO
    if form == BINARY_SI:
        if unscaled > INT_MAX * 10**9:
            unscaled, scale = INT_MAX, 0
        elif unscaled < 10**9:
            form = DECIMAL_SI
    return Quantity(-unscaled if negative else unscaled, scale, form, is_decimal=True)


def add(a: Quantity, b: Quantity) -> Quantity | CelError:
    """Return the sum. If `a` is zero, the result has the format of `b`."""
    return _sum(a, b, b.unscaled)


def subtract(a: Quantity, b: Quantity) -> Quantity | CelError:
    """Return the difference. If `a` is zero, the result has the format of `b`."""
    # Upstream negates in 64 bits, where the most negative number stays negative.
    negated = -b.unscaled if a.is_decimal or b.is_decimal or b.unscaled != INT_MIN else b.unscaled
    total = _sum(a, b, negated)
    if negated == INT_MIN == b.unscaled and isinstance(total, Quantity) and total.is_decimal:
        return _sum(a, b, -b.unscaled)
    return total


def _sum(a: Quantity, b: Quantity, addend: int) -> Quantity | CelError:
    form = a.format if a.unscaled else b.format
    if not (a.is_decimal or b.is_decimal):
        if not addend:
            return Quantity(a.unscaled, a.scale, form, is_reference=True)
        if not a.unscaled:
            return Quantity(addend, b.scale, form, is_reference=True)
    scale = min(a.scale, b.scale)
    if max(a.scale, b.scale) - scale > _MAX_EXPONENT:
        return OUT_OF_RANGE
    left, right = _shift(a.unscaled, a.scale - scale), _shift(addend, b.scale - scale)
    total = left + right
    # Upstream's check of a product refuses the most negative number, unless nothing is multiplied.
    fits = all(map(_fits, (left, right, total))) and not (a.unscaled == INT_MIN and a.scale != scale)
    is_decimal = a.is_decimal or b.is_decimal or not fits
    return Quantity(total, scale, form, is_decimal, is_reference=True)


def _fits(number: int) -> bool:
    return INT_MIN <= number <= INT_MAX


def _to_int(digits: str) -> int:
    number = 0
    for start in range(0, len(digits), 4000):
        part = digits[start : start + 4000]
        number = number * 10 ** len(part) + int(part)
    return number


def _shift(number: int, exponent: int) -> int:
    """Return `number * 10**exponent`."""
    shifted: int = number * 10**exponent
    return shifted


def _magnitude(quantity: Quantity) -> int:
    return _count_digits(abs(quantity.unscaled)) + quantity.scale


def _count_digits(number: int) -> int:
    estimate = int((number.bit_length() - 1) * math.log10(2))
    return estimate + 1 + (number >= _shift(1, estimate + 1))


def _power_of_ten(exponent: int) -> float:
    """Return Go's `math.Pow10`: the product or quotient of two entries of a table."""
    if exponent > 308:
        return math.inf
    if exponent < -323:
        return 0.0
    tens, units = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{32 * tens}") * float(f"1e{units}")
    return float(f"1e-{32 * tens}") / float(f"1e{units}")


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    times = 0
    while number and number % factor == 0:
        number //= factor
        times += 1
    return number, times


def _canonical(quantity: Quantity) -> str:
    """Return the text of upstream's `CanonicalizeBytes`."""
    if not quantity.unscaled:
        return "0"
    form = quantity.format
    if form == BINARY_SI:
        whole = _whole(quantity)
        if whole is None or abs(whole) < 1024:
            form = DECIMAL_SI
        else:
            amount, times = _without_factors(whole, 1024)
            return f"{_text(amount)}{_BINARY_SUFFIX.get(times * 10, '')}"
    amount, times = _without_factors(quantity.unscaled, 10)
    exponent = times + quantity.scale
    amount *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if form == DECIMAL_SI:
        return f"{_text(amount)}{_DECIMAL_SUFFIX.get(exponent, '')}"
    return f"{_text(amount)}e{exponent}" if exponent else _text(amount)


def _whole(quantity: Quantity) -> int | None:
    if quantity.scale >= 0:
        return _shift(quantity.unscaled, min(quantity.scale, _MAX_EXPONENT))
    whole, rest = divmod(abs(quantity.unscaled), _shift(1, -quantity.scale))
    return None if rest else whole * quantity.sign()


def _text(number: int) -> str:
    if abs(number) < 10**4000:
        return str(number)
    high, low = divmod(abs(number), 10**4000)
    return f"{'-' if number < 0 else ''}{_text(high)}{low:04000d}"
