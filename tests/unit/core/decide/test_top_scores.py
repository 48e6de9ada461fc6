"""The best rows, known without looking at all of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.decide import top_scores
from pyscheduler.core.decide.top_scores import TopScores
from tests.properties.profiles import assert_caught, quick

ROWS = 9
Change = tuple[int, int, int]
"""A row, its new total, and the chance of the pick that follows."""
ROW = st.integers(0, ROWS - 1)
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=40)


def prove(changes: list[Change]) -> None:
    totals = np.ones(ROWS, np.int64)
    kept = TopScores()
    kept.reset(totals)
    for row, total, chance in changes:
        before, totals[row] = int(totals[row]), total
        kept.update(row, before, total)
        best = np.flatnonzero(totals == totals.max())
        assert kept.pick(partial(int, chance)) == best[chance % len(best)]


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows are so many that they are left in an array, and two may have left it."""
    monkeypatch.setattr(top_scores, "_LISTED", 2)
    monkeypatch.setattr(top_scores, "_GONE", 2)


def test_the_pick_is_that_of_a_look_at_all_rows() -> None:
    quick(200)(given(CHANGES)(prove))()


@pytest.mark.usefixtures("many")
def test_so_it_is_of_many() -> None:
    quick(200)(given(CHANGES)(prove))()


@pytest.mark.usefixtures("many")
def test_one_of_many_that_leads_no_more_but_is_picked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_scores, "insort", lambda *_: None)
    assert_caught(prove, CHANGES, AssertionError)


def test_a_row_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = TopScores.update

    def forgetful(self: TopScores, row: int, before: int, now: int) -> None:
        if now != self._top:
            changed(self, row, before, now)

    monkeypatch.setattr(TopScores, "update", forgetful)
    assert_caught(prove, CHANGES, AssertionError)


def test_chance_is_asked_only_between_equals() -> None:
    kept = TopScores()
    kept.reset(np.array([1, 5, 2]))

    def chance() -> int:
        raise AssertionError("there is one best row")

    assert kept.pick(chance) == 1
