"""Exit codes of hollow containers, read from the annotation `pyscheduler.io/exits`.

The annotation is a list of rules, separated by semicolons; the first rule that matches a run sets its exit code:

    attempt 0: 1; 0                    the first run fails, all later ones succeed
        index 2,5-6: 42; 0                 these completion indexes of a Job exit with 42, the others succeed
    index 3 attempt 0-1: 137; 0        index 3 is killed twice, then succeeds

Attempts count from 0: restarts of the container, and before them the failed pods of the same owner and index, as long
as these still exist. A run that no rule matches exits with 0.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

EXITS_ANNOTATION = "pyscheduler.io/exits"
MAX_CODE = 255

_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)

Spans = tuple[tuple[int, int], ...]
_ANY: Spans = ((-1, 10**9),)


class ExitCodesError(ValueError):
    """The annotation is malformed; the message contains the invalid part."""


class ExitRule(NamedTuple):
    """An exit code, and the indexes and attempts to which it applies."""

    code: int
    indexes: Spans = _ANY
    attempts: Spans = _ANY

    def fits(self, index: int, attempt: int) -> bool:
        """Return True if the rule applies to this run. `index` is -1 for a pod without one."""
        return _within(index, self.indexes) and _within(attempt, self.attempts)


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[ExitRule, ...]:
    """Return the rules of an annotation. ExitCodesError if it is malformed."""
    return tuple(_rule(part.strip()) for part in text.split(";") if part.strip())


def code_of(rules: tuple[ExitRule, ...], index: int, attempt: int) -> int:
    """Return the exit code of a run, 0 if no rule applies."""
    return next((rule.code for rule in rules if rule.fits(index, attempt)), 0)


def _rule(text: str) -> ExitRule:
    conditions, _, code = text.rpartition(":")
    words = conditions.split()
    named = dict(zip(words[::2], words[1::2], strict=False))
    number = _SPAN.fullmatch(code.strip())
    invalid = number is None or number[2] or int(number[1]) > MAX_CODE
    if invalid or len(words) != 2 * len(named) or not named.keys() <= {"index", "attempt"}:
        example = f"'index 2 attempt 0-1: 42', with a code of 0 to {MAX_CODE}"
        raise ExitCodesError(f"{text!r} is not a rule such as {example}")
    spans = {word: _spans(numbers) for word, numbers in named.items()}
    return ExitRule(int(code), spans.get("index", _ANY), spans.get("attempt", _ANY))


def _spans(text: str) -> Spans:
    found = [_SPAN.fullmatch(part) for part in text.split(",")]
    spans = tuple((int(span[1]), int(span[2] or span[1])) for span in found if span is not None)
    if len(spans) < len(found):
        raise ExitCodesError(f"{text!r} is not a list of numbers such as 0,2-4")
    return spans


def _within(number: int, spans: Spans) -> bool:
    return any(first <= number <= last for first, last in spans)
