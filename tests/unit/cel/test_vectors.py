"""Recorded outcomes of Kubernetes 1.37.2: values, error texts, costs. `python -m tests.cel --record 500` renews them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.cel.functions import costs
from pyscheduler.cel.functions.semver import Semver
from pyscheduler.cel.quantity import Quantity
from pyscheduler.cel.regex import Regex
from tests.cel.compare import Difference, compare
from tests.cel.vectors import read


def _first_difference(*, has_limits: bool = True) -> Difference | None:
    """Return the first difference; those near the cost limit take long, and are left out for planted bugs."""
    cases = ((case, theirs) for case, theirs in read() if has_limits or "lists.range" not in case.expression)
    return next((found for case, theirs in cases if (found := compare(case, theirs))), None)


def test_recorded_outcomes_are_kubernetes_outcomes() -> None:
    assert not _first_difference()


@pytest.mark.parametrize(
    ("owner", "name", "planted"),
    [
        pytest.param(Quantity, "compare", lambda _self, _other: 0, id="quantities compare equal"),
        pytest.param(Quantity, "as_integer", lambda self: self.unscaled, id="quantities ignore their scale"),
        pytest.param(Semver, "compare", lambda _self, _other: 1, id="versions are greater"),
        pytest.param(Regex, "search", lambda _self, _text: True, id="patterns match always"),
        pytest.param(costs, "traversal", lambda size: size // 10, id="costs are rounded down"),
    ],
)
def test_planted_bug_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, planted: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert _first_difference(has_limits=False)
