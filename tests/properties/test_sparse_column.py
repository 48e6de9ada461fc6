"""A sparse column has the numbers of a dictionary, as one itself and after it has become an array."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.state.sparse_column import SparseColumn
from tests.properties.profiles import assert_caught, quick

SIZE = 12
AMOUNTS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(-2, 2)), min_size=1, max_size=5)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "add all", "array"]), AMOUNTS), max_size=12)


def check_steps(steps: list[tuple[str, list[tuple[int, int]]]]) -> None:
    column, expected = SparseColumn(SIZE // 2), Counter[int]()
    for step, amounts in steps:
        if step == "array":
            column.array()
            continue
        if step == "add all":
            changes = np.array(amounts, np.int64)
            column.add_all(changes[:, 0].astype(np.intp), changes[:, 1])
        else:
            for index, amount in amounts:
                column.add(index, amount)
        for index, amount in amounts:
            expected[index] += amount
        nonzero = {index: number for index, number in expected.items() if number}
        assert column.nonzero_count == len(nonzero)
        assert [column.item(index) for index in range(SIZE)] == [expected[index] for index in range(SIZE)]
        found, numbers = column.nonzero(SIZE)
        assert dict(zip(found.tolist(), numbers.tolist(), strict=True)) == nonzero


def test_numbers_are_those_of_a_dictionary() -> None:
    quick(200)(given(STEPS)(check_steps))()


@pytest.mark.parametrize("method", ["add", "add_all"])
def test_property_catches_a_count_that_does_not_follow(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(SparseColumn, method)

    def keep_count(self: SparseColumn, *change: Any) -> None:
        count = self._nonzero_count
        original(self, *change)
        self._nonzero_count = count

    monkeypatch.setattr(SparseColumn, method, keep_count)
    assert_caught(check_steps, STEPS, AssertionError)
