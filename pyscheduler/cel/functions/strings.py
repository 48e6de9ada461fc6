"""cel-go's extension for strings, version 2. Indices and sizes count code points."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.functions.costs import (
    actual_size,
    traversal,
    traverse_first,
    traverse_first_twice,
    traverse_result_twice,
    traverse_tree,
)
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.functions.string_format import format_string
from pyscheduler.cel.go_text import print_value
from pyscheduler.cel.limits import check_size
from pyscheduler.cel.types import DYN, INT, STRING, list_of
from pyscheduler.cel.values import CelError, Value

_STRINGS: Final = list_of(STRING)
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" + (
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Go's unicode.IsSpace; Python's strip() takes further characters."""
_UPPER: Final = {lower: lower - 32 for lower in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_QUOTED: Final = str.maketrans(
    {
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
)


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str | CelError:
    return text[index : index + 1] if 0 <= index <= len(text) else _out_of_range(index)


def _index_of(text: str, part: str, offset: int = 0) -> int | CelError:
    if offset < 0:
        return _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int | CelError:
    return text.rfind(part)


def _last_index_of_offset(text: str, part: str, offset: int) -> int | CelError:
    if offset < 0:
        return _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _split(text: str, separator: str, count: int = -1) -> tuple[str, ...]:
    if not count:
        return ()
    if separator:
        return tuple(text.split(separator, count - 1 if count > 0 else -1))
    if count < 0 or count >= len(text):
        return tuple(text)
    return (*text[: count - 1], text[count - 1 :])


def _substring(text: str, start: int) -> str | CelError:
    return text[start:] if 0 <= start <= len(text) else _out_of_range(start)


def _substring_range(text: str, start: int, end: int) -> str | CelError:
    if start > end:
        return CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            return _out_of_range(index)
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = len(text) + 1 if not old else text.count(old)
    check_size(len(text) + (found if count < 0 else min(found, count)) * len(new))
    return text.replace(old, new, count)


def _join(parts: tuple[Value, ...], separator: str = "") -> str | CelError:
    for part in parts:
        if not isinstance(part, str):
            return CelError(f"join: invalid input: {print_value(part)}")
    check_size(sum(map(len, parts)) + len(separator) * len(parts))  # type: ignore[arg-type]
    return separator.join(parts)  # type: ignore[arg-type]


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _traverse(arguments: tuple[Value, ...], _result: Value) -> int:
    return traversal(actual_size(arguments[0]))


STRINGS_LIBRARY: Final = {
    "charAt": (Overload("string_char_at_int", (STRING, INT), STRING, _char_at, True),),
    "indexOf": (
        Overload("string_index_of_string", (STRING, STRING), INT, _index_of, True, traverse_tree),
        Overload("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of, True, traverse_tree),
    ),
    "lastIndexOf": (
        Overload("string_last_index_of_string", (STRING, STRING), INT, _last_index_of, True, traverse_tree),
        Overload(
            "string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of_offset, True, traverse_tree
        ),
    ),
    "lowerAscii": (
        Overload("string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER), True, traverse_first),
    ),
    "replace": (
        Overload(
            "string_replace_string_string", (STRING, STRING, STRING), STRING, _replace, True, traverse_first_twice
        ),
        Overload(
            "string_replace_string_string_int",
            (STRING, STRING, STRING, INT),
            STRING,
            _replace,
            True,
            traverse_first_twice,
        ),
    ),
    "split": (
        Overload("string_split_string", (STRING, STRING), _STRINGS, _split, True, traverse_first_twice),
        Overload("string_split_string_int", (STRING, STRING, INT), _STRINGS, _split, True, traverse_first_twice),
    ),
    "substring": (
        Overload("string_substring_int", (STRING, INT), STRING, _substring, True, traverse_first),
        Overload("string_substring_int_int", (STRING, INT, INT), STRING, _substring_range, True, traverse_first),
    ),
    "trim": (Overload("string_trim", (STRING,), STRING, lambda text: text.strip(_SPACE), True, traverse_first),),
    "upperAscii": (
        Overload("string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER), True, traverse_first),
    ),
    "format": (Overload("string_format", (STRING, list_of(DYN)), STRING, format_string, True, _traverse),),
    "strings.quote": (Overload("strings_quote", (STRING,), STRING, _quote, cost=_traverse),),
    "join": (
        Overload("list_join", (_STRINGS,), STRING, _join, True, traverse_result_twice),
        Overload("list_join_string", (_STRINGS, STRING), STRING, _join, True, traverse_result_twice),
    ),
}
