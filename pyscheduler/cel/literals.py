"""Values of the literals of numbers, strings and bytes (cel-go's `unescape.go`)."""

from __future__ import annotations

import re
from typing import Final

from pyscheduler.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE: Final = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)


class LiteralError(Exception):
    """A literal without a value; the text is cel-go's."""


def parse_int(text: str) -> int:
    """Return the value of an int literal, with its sign."""
    value = _number(text)
    if not INT_MIN <= value <= INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def parse_uint(text: str) -> Uint:
    """Return the value of a uint literal."""
    value = _number(text[:-1])
    if value > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(value)


def parse_double(text: str) -> float:
    """Return the value of a double literal, with its sign."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise LiteralError("invalid double literal")
    return value


def _number(text: str) -> int:
    digits = text.lstrip("-")
    if digits.startswith("0x"):
        value = int(digits, 16)
    else:
        # Python refuses to convert thousands of digits; 20 significant ones are too large in any case.
        digits = digits.lstrip("0") or "0"
        value = int(digits) if len(digits) <= 20 else 10**20
    return -value if text.startswith("-") else value


def parse_string(text: str) -> str:
    """Return the value of a string literal with its quotes."""
    body, is_raw = _body(text)
    if is_raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_string_escape, body)


def parse_bytes(text: str) -> bytes:
    """Return the value of a bytes literal with its prefix and quotes; escapes are bytes, other characters UTF-8."""
    body, is_raw = _body(text[1:])
    if is_raw:
        return body.encode()
    result = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        result += body[position : match.start()].encode()
        result += _bytes_escape(match)
        position = match.end()
    return bytes(result + body[position:].encode())


def _body(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    if is_raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text.startswith(('"""', "'''")) else 1
    return text[quotes:-quotes], is_raw


def _string_escape(match: re.Match[str]) -> str:
    two, four, eight, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    code = int(octal, 8) if octal is not None else int(two or four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _bytes_escape(match: re.Match[str]) -> bytes:
    two, four, eight, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple).encode()
    if four is not None or eight is not None:
        raise LiteralError("unable to unescape string")
    return bytes((int(octal, 8) if octal is not None else int(two, 16),))
