"""`string.format` of cel-go's extension for strings before version 4, in the locale en_US."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from pyscheduler.cel.functions.conversions import to_string
from pyscheduler.cel.go_text import quote, quote_bytes, utf8
from pyscheduler.cel.limits import check_size, spend
from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import INT_MAX, CelError, CelMap, Duration, Timestamp, Uint, Value, type_of

_DEFAULT_PRECISION: Final = 6
_DIGITS_OF_DOUBLE: Final = 1100
"""No double has more digits after the point."""
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NUMBERS_AS_TEXT: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class FormatError(Exception):
    """A clause or argument is invalid; the text is upstream's."""


class Clause(msgspec.Struct, frozen=True):
    """A clause of a format: its letter, and its precision if it states one."""

    letter: str
    precision: int | None = None


Formatter: TypeAlias = Callable[[Clause, int], str]
"""Returns the text of the argument with a number."""


def format_string(text: str, arguments: tuple[Value, ...]) -> str | CelError:
    """Return the text with each clause replaced by its argument."""

    def formatter(clause: Clause, index: int) -> str:
        return _CLAUSES[clause.letter](arguments[index], clause)

    try:
        return interpolate(text, len(arguments), formatter)
    except FormatError as error:
        return CelError(str(error))


def interpolate(text: str, count: int, formatter: Formatter) -> str:
    """Return the text with the clauses replaced; `count` arguments are available. FormatError for an invalid clause."""
    result: list[str] = []
    position = index = 0
    while (start := text.find("%", position)) >= 0:
        result.append(text[position:start])
        position = start + 1
        if text[position : position + 1] == "%":
            result.append("%")
            position += 1
            continue
        if index >= count:
            raise FormatError(f"index {index} out of range")
        if position >= len(text):
            raise FormatError("unexpected end of string")
        clause, position = _parse_clause(text, position)
        try:
            result.append(formatter(clause, index))
        except FormatError as error:
            raise FormatError(f"error during formatting: {error}") from error
        index += 1
    result.append(text[position:])
    return "".join(result)


def _parse_clause(text: str, position: int) -> tuple[Clause, int]:
    precision = None
    if text[position] == ".":
        end = position + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if end == len(text):
            raise _parse_error("error while parsing precision: could not find end of precision specifier")
        precision = _parse_precision(text[position + 1 : end])
        position = end
    letter = text[position]
    if letter not in _CLAUSES:
        # Upstream reads one byte.
        raise _parse_error(f'unrecognized formatting clause "{chr(utf8(letter)[0])}"')
    return Clause(letter, precision), position + 1


def _parse_precision(digits: str) -> int:
    problem = "invalid syntax" if not digits else "value out of range"
    if digits and len(digits.lstrip("0")) <= 19 and int(digits) <= INT_MAX:
        return int(digits)
    raise _parse_error(
        "error while parsing precision: error while converting precision to integer:"
        f" strconv.Atoi: parsing {quote(digits)}: {problem}"
    )


def _parse_error(text: str) -> FormatError:
    return FormatError(f"could not parse formatting clause: {text}")


def _string(value: Value, _clause: Clause) -> str:
    if isinstance(value, tuple):
        return _list(value)
    if isinstance(value, CelMap):
        return _map(value)
    if value is None:
        return "null"
    if type(value) not in _STRINGS:
        raise clause_error("s", type_of(value).name)
    text = to_string(value)
    if isinstance(text, CelError):
        raise FormatError(f"could not convert argument {quote(text.message)} to string")
    return text


def _decimal(value: Value, _clause: Clause) -> str:
    if type(value) not in (int, Uint):
        raise clause_error("d", type_of(value).name)
    return str(int(value))  # type: ignore[call-overload]


def _fixed(value: Value, clause: Clause) -> str:
    number = _number(value, clause)
    if not math.isfinite(number):
        return _not_finite(number)
    precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    # golang.org/x/text keeps the least number of digits in 8 bits, the largest in 16.
    least, largest = precision % 256, precision % 65536
    if largest >= 32768:
        largest = least
    text = f"{abs(number):,.{min(largest, _DIGITS_OF_DOUBLE)}f}"
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0").ljust(least, "0")
    return f"{'-' if number < 0 else ''}{whole}" + (f".{fraction}" if fraction else "")


def _scientific(value: Value, clause: Clause) -> str:
    number = _number(value, clause)
    width = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    # A precision is a width here: the text may be longer than the memory.
    check_size(width)
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    mantissa, _, exponent = f"{abs(number):.6e}".partition("e")
    power = f"{int(exponent):03d}" if exponent[0] == "-" else f"{int(exponent):02d}"
    return f"{'-' if number < 0 else ''}{mantissa}×10{power.translate(_SUPERSCRIPT)}".rjust(width)


def _number(value: Value, clause: Clause) -> float:
    number = _NUMBERS_AS_TEXT.get(value) if isinstance(value, str) else value
    if not isinstance(number, float):
        raise clause_error(clause.letter, type_of(value).name)
    return number


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _binary(value: Value, _clause: Clause) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return _integer(value, "b")


def _octal(value: Value, _clause: Clause) -> str:
    return _integer(value, "o")


def _hex(value: Value, clause: Clause) -> str:
    if isinstance(value, str | bytes):
        data = (utf8(value) if isinstance(value, str) else value).hex()
        return data.upper() if clause.letter == "X" else data
    return _integer(value, clause.letter)


def _integer(value: Value, letter: str) -> str:
    if type(value) not in (int, Uint):
        raise clause_error(letter, type_of(value).name)
    return format(int(value), letter)  # type: ignore[call-overload]


_CLAUSES: Final[dict[str, Callable[[Value, Clause], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": _hex,
    "o": _octal,
}
_STRINGS: Final = frozenset((int, Uint, float, bool, str, Timestamp, bytes, Duration, CelType))
_ERRORS: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations,"
    " and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


def clause_error(letter: str, type_name: str) -> FormatError:
    """Return the error of a clause for an argument of a type that it does not accept."""
    return FormatError(f"{_ERRORS[letter.lower()]}, was given {type_name}")


def _list(values: tuple[Value, ...]) -> str:
    return f"[{', '.join(map(_literal, values))}]"


def _map(values: CelMap) -> str:
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        if type(key) not in (str, bool, int, Uint):
            raise FormatError(f"no formatting function for map key of type {type_of(key).name}")
        pairs.append((_literal(key), _literal(value)))
    # Go compares bytes, Python code points: UTF-8 has the same order.
    return f"{{{', '.join(f'{key}:{value}' for key, value in sorted(pairs, key=lambda pair: pair[0]))}}}"


def _literal(value: Value) -> str:
    """Return an element of a list or map as a literal of CEL."""
    spend(1)
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value:.6f}"
        return '"NaN"' if math.isnan(value) else '"+Inf"' if value > 0 else '"-Inf"'
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        _string(value, Clause("s"))
        return f"b{quote_bytes(value)}"
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({quote(str(to_string(value)))})"
    if value is None or isinstance(value, tuple | CelMap) or type(value) in _STRINGS:
        return _string(value, Clause("s"))
    raise FormatError(f"no formatting function for {type_of(value).name}")
