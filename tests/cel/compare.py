"""Comparison of our outcome of a case with the oracle's."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.cel.case import Case
from tests.cel.outcome import evaluate

_SYNTAX_ERROR = "Syntax error"
"""What ANTLR's parser reports after a syntax error depends on how it guesses to go on; that is not compared."""
_CANCELLED = "operation cancelled: actual cost limit exceeded"
"""The cost of a cancelled evaluation is not shown, and depends on the step that notices."""


class Difference(msgspec.Struct, frozen=True):
    """A case with outcomes that differ."""

    case: Case
    ours: dict[str, Any]
    theirs: dict[str, Any]

    def __str__(self) -> str:
        """Return the case and what differs, one item a line."""
        names = sorted(name for name in {*self.ours, *self.theirs} if self.ours.get(name) != self.theirs.get(name))
        lines = [f"{name}: {self.ours.get(name)!r} instead of {self.theirs.get(name)!r}" for name in names]
        return "\n  ".join([self.case.expression, str(self.case.device), *lines])


def compare(case: Case, theirs: dict[str, Any]) -> Difference | None:
    """Return the difference of a case, None if the outcomes are equal."""
    ours = evaluate(case)
    if all(_SYNTAX_ERROR in outcome.get("compileError", "") for outcome in (ours, theirs)):
        return None
    if ours.get("error") == theirs.get("error") == _CANCELLED:
        ours, theirs = ours | {"cost": 0}, theirs | {"cost": 0}
    return None if ours == theirs else Difference(case, ours, theirs)
