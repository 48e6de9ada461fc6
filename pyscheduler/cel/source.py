"""Positions in an expression, and the texts of its errors as cel-go prints them."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

NO_LOCATION: Final = -1
"""Offset of errors that concern the whole expression."""
MAX_ERRORS: Final = 100
_MAX_SNIPPET: Final = 16384
"""Bytes of the longest line that is printed with an error."""


class CelSyntaxError(Exception):
    """An expression that does not compile; the text is that of upstream's `CompileCELExpression`."""


class Issues:
    """Errors of one expression, found by the parser, the checker or a validator."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._errors: list[tuple[int, str]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._errors)

    def report(self, offset: int, message: str) -> None:
        """Add an error at an offset in characters. Those after the first MAX_ERRORS are only counted."""
        self._count += 1
        if self._count <= MAX_ERRORS:
            self._errors.append((offset, message))

    def __str__(self) -> str:
        """Return all errors by position, each with its line and a mark below the place."""
        ordered = sorted(self._errors, key=lambda error: error[0])
        texts = [self._display(offset, message) for offset, message in ordered]
        if self._count > MAX_ERRORS:
            texts.append(f"{self._count - MAX_ERRORS} more errors were truncated")
        return "\n".join(texts)

    def _display(self, offset: int, message: str) -> str:
        if offset == NO_LOCATION:
            return f"ERROR: <input>:-1:0: {message}"
        if self._lines == [""]:
            return f"ERROR: <input>:1:0: {message}"  # cel-go finds no place in an empty expression
        number = bisect_right(self._starts, offset, hi=len(self._lines)) - 1
        column = offset - self._starts[number]
        text = f"ERROR: <input>:{number + 1}:{column + 1}: {message}"
        line = self._lines[number].replace("\t", " ")
        if len(line.encode()) > _MAX_SNIPPET:
            return text
        # A character of several bytes gets a dot or a mark of double width.
        dots = "".join("．" if ord(char) > 127 else "." for char in line[:column])
        mark = "＾" if ord(line[column : column + 1] or " ") > 127 else "^"
        return f"{text}\n | {line}\n | {dots}{mark}"
