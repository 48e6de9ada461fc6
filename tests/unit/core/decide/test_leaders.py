"""The best rows, known without looking at all of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.decide.leaders import Leaders
from tests.properties.profiles import assert_caught, quick

ROWS = 9
Change = tuple[int, int, int]
"""A row, its new total, and the chance of the pick that follows."""
ROW = st.integers(0, ROWS - 1)
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=40)


def prove(changes: list[Change]) -> None:
    totals = np.ones(ROWS, np.int64)
    leaders = Leaders()
    leaders.follow(totals)
    for row, total, chance in changes:
        before, totals[row] = int(totals[row]), total
        leaders.changed(row, before, total)
        best = np.flatnonzero(totals == totals.max())
        assert leaders.pick(partial(int, chance)) == best[chance % len(best)]


def test_the_pick_is_that_of_a_look_at_all_rows() -> None:
    quick(200)(given(CHANGES)(prove))()


def test_a_row_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Leaders.changed

    def forgetful(self: Leaders, row: int, before: int, now: int) -> None:
        if now != self._top:
            changed(self, row, before, now)

    monkeypatch.setattr(Leaders, "changed", forgetful)
    assert_caught(prove, CHANGES, AssertionError)


def test_chance_is_asked_only_between_equals() -> None:
    leaders = Leaders()
    leaders.follow(np.array([1, 5, 2]))

    def chance() -> int:
        raise AssertionError("there is one best row")

    assert leaders.pick(chance) == 1
