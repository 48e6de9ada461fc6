"""Canonical form of quantities: "1000m" becomes "1", 2 becomes "2", "1.5Gi" becomes "1536Mi"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.status import Cause, bad_request, invalid_value

_FORM = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(|[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})\Z")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_UNITS_AT = 3  # index of "" in _DECIMAL


@lru_cache(maxsize=8192)
def canonical(quantity: str | int | float) -> str:
    """Return the canonical form (resource.Quantity.CanonicalizeBytes). ValueError if it is not a quantity."""
    found = _FORM.match(str(quantity))
    if found is None:
        raise ValueError(f"{quantity!r} is not a quantity such as 500m, 2 or 1.5Gi")
    sign, digits, suffix = found.groups()
    number = Fraction(digits if not digits.endswith(".") else digits[:-1])
    if suffix in _BINARY[1:]:
        number *= 1024 ** _BINARY.index(suffix)
        text = _binary(number) if number >= 1024 else _decimal(number)
    elif suffix in _DECIMAL:
        text = _decimal(number * Fraction(1000) ** (_DECIMAL.index(suffix) - _UNITS_AT))
    else:
        text = _exponent(number * Fraction(10) ** int(suffix[1:]))
    return ("-" if sign == "-" and text != "0" else "") + text


def _binary(number: Fraction) -> str:
    whole, power = -(-number.numerator // number.denominator), 0
    while whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


def _scaled(number: Fraction) -> tuple[int, int]:
    """Return the number as (whole, power of 1000), rounded up to nano, without trailing thousands."""
    nano = number * 10**9
    whole, power = -(-nano.numerator // nano.denominator), -3
    while whole and whole % 1000 == 0 and power < 6:
        whole, power = whole // 1000, power + 1
    return whole, power


def _decimal(number: Fraction) -> str:
    whole, power = _scaled(number)
    return f"{whole}{_DECIMAL[power + _UNITS_AT]}" if whole else "0"


def _exponent(number: Fraction) -> str:
    whole, power = _scaled(number)
    return f"{whole}e{power * 3}" if whole and power else str(whole)


def canonicalize_quantities(owner: Json, *fields: str, at: str = "") -> None:
    """Convert the quantities of the maps `owner[field]` to canonical form, in place.

    ApiError 400 if one is malformed; `at` is the path of the owner.
    """
    for field in fields:
        quantities = owner.get(field)
        if quantities:
            owner[field] = _canonicalized(quantities, f"{at}.{field}" if at else field)


def _canonicalized(quantities: Mapping[str, Any], field: str) -> dict[str, str]:
    result = {}
    for name, quantity in quantities.items():
        try:
            result[name] = canonical(quantity)
        except ValueError as error:
            raise bad_request(f"{field}[{name}]: {error}") from None
    return result


def negative(quantities: Mapping[str, str] | None, path: str) -> list[Cause]:
    """Return a cause for each negative quantity of a map in canonical form."""
    return [
        invalid_value(f"{path}[{name}]", quantity, "must be greater than or equal to 0")
        for name, quantity in (quantities or {}).items()
        if quantity.startswith("-")
    ]
