"""Comparison of our outcome of a case with the oracle's."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.cel.case import Case
from tests.cel.outcome import evaluate


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
    return None if ours == theirs else Difference(case, ours, theirs)
