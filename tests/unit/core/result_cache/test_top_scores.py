"""TopScores: the rows with the best total, found without scanning all rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.result_cache import row_scores
from pyscheduler.core.result_cache.row_scores import TopScores
from pyscheduler.kernels import BLOCK
from tests.properties.profiles import assert_caught, quick

ROWS = 2 * BLOCK + 9
Change = tuple[int, int, int | None]
"""A row, its new total, and the random bits of the pick that follows, if any."""
ROW = st.sampled_from([0, 1, 63, 64, 65, 127, 128, ROWS - 1])
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 3), st.none() | st.integers(0, ROWS)), min_size=1, max_size=40)


def check_against_full_scan(changes: list[Change]) -> None:
    totals = np.ones(ROWS, np.int64)
    top = TopScores()
    top.reset(totals)
    for row, total, bits in changes:
        totals[row] = total
        top.update(row)
        best = np.flatnonzero(totals == totals.max())
        if bits is not None:
            assert top.pick(partial(int, bits)) == best[bits % len(best)]


def test_pick_equals_full_scan() -> None:
    quick(200)(given(CHANGES)(check_against_full_scan))()


def test_pick_equals_full_scan_with_a_short_list_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_scores, "_MAX_CHANGES", 2)
    quick(200)(given(CHANGES)(check_against_full_scan))()


def test_property_catches_changes_that_are_dropped_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_scores, "_MAX_CHANGES", 2)
    refresh = TopScores._refresh

    def refresh_in_pick_only(self: TopScores) -> None:
        if len(self.changes) < 2:
            refresh(self)

    monkeypatch.setattr(TopScores, "_refresh", refresh_in_pick_only)
    assert_caught(check_against_full_scan, CHANGES, AssertionError, IndexError, ValueError)


def test_property_catches_ignored_update(monkeypatch: pytest.MonkeyPatch) -> None:
    update = TopScores.update

    def ignore_last_block(self: TopScores, row: int) -> None:
        if row < 2 * BLOCK:
            update(self, row)

    monkeypatch.setattr(TopScores, "update", ignore_last_block)
    assert_caught(check_against_full_scan, CHANGES, AssertionError, IndexError)


def test_random_bits_are_not_used_for_a_single_best_row() -> None:
    top = TopScores()
    top.reset(np.array([1, 5, 2]))

    def bits() -> int:
        raise AssertionError("there is one best row")

    assert top.pick(bits) == 1
