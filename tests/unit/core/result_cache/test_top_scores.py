"""TopScores: the rows with the best total, found without scanning all rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.result_cache import row_scores
from pyscheduler.core.result_cache.row_scores import TopScores
from tests.properties.profiles import assert_caught, quick

ROWS = 9
Change = tuple[int, int, int]
"""A row, its new total, and the random bits of the pick that follows."""
ROW = st.integers(0, ROWS - 1)
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=40)


def check_against_full_scan(changes: list[Change]) -> None:
    totals = np.ones(ROWS, np.int64)
    top = TopScores()
    top.reset(totals)
    for row, total, bits in changes:
        before, totals[row] = int(totals[row]), total
        top.update(row, before, total)
        best = np.flatnonzero(totals == totals.max())
        assert top.pick(partial(int, bits)) == best[bits % len(best)]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that three rows stay in an array from which at most two are removed."""
    monkeypatch.setattr(row_scores, "_MAX_LISTED", 2)
    monkeypatch.setattr(row_scores, "_MAX_REMOVED", 2)


def test_pick_equals_full_scan() -> None:
    quick(200)(given(CHANGES)(check_against_full_scan))()


@pytest.mark.usefixtures("small_limits")
def test_pick_equals_full_scan_with_array_of_rows() -> None:
    quick(200)(given(CHANGES)(check_against_full_scan))()


@pytest.mark.usefixtures("small_limits")
def test_property_catches_a_lost_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_scores, "insort", lambda *_: None)
    assert_caught(check_against_full_scan, CHANGES, AssertionError)


def test_property_catches_ignored_update(monkeypatch: pytest.MonkeyPatch) -> None:
    update = TopScores.update

    def ignore_lower_totals(self: TopScores, row: int, before: int, now: int) -> None:
        if now != self._top:
            update(self, row, before, now)

    monkeypatch.setattr(TopScores, "update", ignore_lower_totals)
    assert_caught(check_against_full_scan, CHANGES, AssertionError)


def test_random_bits_are_not_used_for_a_single_best_row() -> None:
    top = TopScores()
    top.reset(np.array([1, 5, 2]))

    def bits() -> int:
        raise AssertionError("there is one best row")

    assert top.pick(bits) == 1
