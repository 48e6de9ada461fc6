"""Texts as Go's package strconv and fmt write them."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Final

from pyscheduler.cel.limits import spend
from pyscheduler.cel.values import NANOSECONDS, NONE, CelMap, Duration, Optional, Timestamp, Value

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_EXPONENT_OF_G: Final = 6
"""From this exponent on the shortest form of `%g` has one; it has one below -4 too."""
_PRINTED: Final = frozenset("LMNPS")
"""First letters of the Unicode categories that Go's `strconv.IsPrint` accepts, besides the ASCII space."""


def quote(text: str) -> str:
    """Return the text of `%q`: in double quotes, with escapes for what is not printed."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    spend(len(text))
    return f'"{"".join(map(_quoted, text))}"'


def utf8(text: str) -> bytes:
    """Return the bytes of a text, which may hold bytes that are no UTF-8 (Python's "surrogateescape")."""
    return text.encode("utf-8", "surrogateescape")


def quote_bytes(data: bytes) -> str:
    """Return the text of `%q` for bytes, which may be invalid UTF-8."""
    return quote(data.decode("utf-8", "surrogateescape"))


def _quoted(character: str) -> str:
    escape = _ESCAPES.get(character)
    if escape is not None:
        return escape
    if is_printed(character):
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < ord(" ") or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def is_printed(character: str) -> bool:
    """Return True for letters, marks, numbers, punctuation, symbols and the ASCII space."""
    return character == " " or unicodedata.category(character)[0] in _PRINTED


def print_value(value: Value) -> str:
    """Return the text of `%v` for a value of CEL."""
    spend(1)
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "0"
    if isinstance(value, float):
        return print_float(value)
    if isinstance(value, bytes):
        return f"[{' '.join(map(str, value))}]"
    if isinstance(value, tuple):
        return f"[{', '.join(map(print_value, value))}]"
    if isinstance(value, CelMap):
        return f"{{{', '.join(f'{print_value(key)}: {print_value(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, Duration):
        return print_duration(value.nanoseconds)
    if isinstance(value, Timestamp):
        return print_time(value.nanoseconds)
    if isinstance(value, Optional):
        return "optional.none()" if value is NONE else f"optional({print_value(value.value)})"
    return str(int(value)) if isinstance(value, int) else str(value)


def print_float(number: float) -> str:
    """Return the shortest text that Go's `strconv.FormatFloat(x, 'g', -1, 64)` parses to the same number."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    mantissa, _, exponent = repr(number).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    if digits == "0":
        return f"{sign}0"
    if not -4 <= point - 1 < _EXPONENT_OF_G:
        head = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{head}e{point - 1:+03d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    text = digits[:point].ljust(point, "0")
    return f"{sign}{text}" + (f".{digits[point:]}" if len(digits) > point else "")


def print_duration(nanoseconds: int) -> str:
    """Return the text of Go's `Duration.String`: `1h2m3.5s`, `1.5ms`."""
    magnitude = abs(nanoseconds)
    sign = "-" if nanoseconds < 0 else ""
    if not magnitude:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if magnitude < size * 1000:
            return f"{sign}{_decimal(magnitude, size)}{unit}"
    minutes, rest = divmod(magnitude, 60 * NANOSECONDS)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, NANOSECONDS)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def print_time(nanoseconds: int) -> str:
    """Return the text of Go's `Time.String` in UTC."""
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{time.year:04d}-{time:%m-%d %H:%M:%S}{fraction} +0000 UTC"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
