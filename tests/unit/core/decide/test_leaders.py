"""The best rows, known without looking at all of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.decide.leaders import BLOCK, Leaders
from tests.properties.profiles import assert_caught, quick

ROWS = 2 * BLOCK + 7
Change = tuple[int, int, int]
"""A row, its new total, and the chance of the pick that follows."""
ROW = st.sampled_from([0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, ROWS - 1])
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=40)


def prove(changes: list[Change]) -> None:
    totals = np.full(Leaders.room(ROWS), -1, np.int64)
    totals[:ROWS] = 1
    leaders = Leaders()
    leaders.follow(totals)
    for row, total, chance in changes:
        before, totals[row] = int(totals[row]), total
        leaders.changed(row, before, total)
        best = np.flatnonzero(totals == totals.max())
        assert leaders.pick(partial(int, chance)) == best[chance % len(best)]


def test_the_pick_is_that_of_a_look_at_all_rows() -> None:
    quick(200)(given(CHANGES)(prove))()


@pytest.mark.parametrize("off", [-1, 1])
def test_a_miscount_is_noticed(off: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Leaders.changed

    def miscounted(self: Leaders, row: int, before: int, now: int) -> None:
        changed(self, row, before, now)
        if self._many[row // BLOCK] > 1:
            self._many[row // BLOCK] += off

    monkeypatch.setattr(Leaders, "changed", miscounted)
    assert_caught(prove, CHANGES, AssertionError, IndexError)


def test_chance_is_asked_only_between_equals() -> None:
    totals = np.full(Leaders.room(3), -1, np.int64)
    totals[:3] = (1, 5, 2)
    leaders = Leaders()
    leaders.follow(totals)

    def chance() -> int:
        raise AssertionError("there is one best row")

    assert leaders.pick(chance) == 1
