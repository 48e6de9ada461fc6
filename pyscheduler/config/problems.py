"""Errors of a configuration, each with its position.

All steps write to one `Report`, so that users see all errors of a file at once.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping

import msgspec

_LAST_STEP = re.compile(r"(\.[^.\[\]]+|\[[^\]]*\]|[^.\[\]]+|.)\Z")


class Problem(msgspec.Struct, frozen=True):
    """One error: YAML path such as `profiles[0].schedulerName` ("" is the file), message, line from 1."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(Exception):
    """Invalid configuration. `str()` has one line for each of its `problems`, in the order of the file."""

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.line or 0, p.path)))
        self.source = source
        super().__init__("\n".join(f"{self._place(p)}{p}" for p in self.problems))

    def _place(self, problem: Problem) -> str:
        place = ":".join(str(part) for part in (self.source, problem.line) if part)
        if not place:
            return ""
        return f"{place}: " if self.source else f"line {place}: "


class Report:
    """Problems and warnings of one document, with the lines of its YAML paths."""

    def __init__(self, lines: Mapping[str, int] | None = None) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self._lines = lines or {}

    def add(self, path: str, message: str) -> None:
        """Add a problem. Its line is the one of the path or of the nearest parent in the file."""
        problem = Problem(path, " ".join(message.split()), self._line(path))
        if problem not in self.problems:
            self.problems.append(problem)

    def warn(self, message: str) -> None:
        """Add a warning about accepted input without the expected effect; duplicates are dropped."""
        if message not in self.warnings:
            self.warnings.append(message)

    def has_problems(self, path: str) -> bool:
        """Return True if there is a problem at or below a path."""
        return any(_is_below(p.path, path) for p in self.problems)

    def has_related_problem(self, path: str) -> bool:
        """Return True if there is a problem at, below or above a path, so that others there may be its consequences."""
        return self.has_problems(path) or any(_is_below(path, p.path) for p in self.problems)

    def _line(self, path: str) -> int | None:
        while path and path not in self._lines:
            path = _LAST_STEP.sub("", path)
        return self._lines.get(path)


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith((f"{above}.", f"{above}["))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "x"?` if a known word is similar, otherwise ""."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f'; did you mean "{by_lower[close[0]]}"?' if close else ""


def shown(value: object) -> str:
    """Return a YAML value as quoted in errors, shortened."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def under(path: str, step: str) -> str:
    """Return the path of a key below a path."""
    return f"{path}.{step}" if path else step
