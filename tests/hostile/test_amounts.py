"""Requests, usage and capacity are added up without overflow: no pod fits because of a number that became too large."""

from __future__ import annotations

import pytest

from tests.conformance import ours
from tests.hostile.amounts import cases


@pytest.mark.parametrize("limit", [ours.PLAIN, ours.NUMPY], ids=["plain", "numpy"])
def test_extreme_amounts_fit_only_with_enough_room(limit: int) -> None:
    wrong = []
    for case in cases():
        (answer,) = ours.evaluate(case.document, limit)
        verdict = answer["nodes"]["n1"]
        if verdict["feasible"] is not case.fits:
            wrong.append(f"{case.name}: {verdict}")
        scores = [score for nodes in answer.get("scores", {}).values() for score in nodes.values()]
        if any(not 0 <= score <= 300 for score in scores):
            wrong.append(f"{case.name}: {answer['scores']}")
    assert wrong == []
