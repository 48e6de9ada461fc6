"""The compiled kernels give what the NumPy ones give, to the last number, and refuse what would read too far."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.kernels import BY_SHAPE, LEAST, MOST, Ints, Rows, numpy_form

compiled = pytest.importorskip("pyscheduler.kernels.compiled", reason="there is no compiler here")

MOST_RATED = MAX_INT64 // 100
NODES = 8


def numbers(most: int) -> st.SearchStrategy[int]:
    """Numbers where arithmetic breaks: none, few, beside each other, more than a float can tell apart, the largest."""
    telling = [number for number in (0, 1, 2, 999, 1000, 1001, 2**53 + 1, most - 1, most) if number <= most]
    return st.one_of(st.sampled_from(telling), st.integers(0, most))


def columns(most: int) -> st.SearchStrategy[Ints]:
    return st.lists(numbers(most), min_size=NODES, max_size=NODES).map(lambda cells: np.array(cells, np.int64))


def asked(most: int, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """What a pod asks of up to four resources: an amount, `parts`, and two columns of each."""
    return st.lists(st.tuples(numbers(most), *parts, columns(most), columns(most)), max_size=4).map(tuple)


def written(function: Callable[..., None], *arguments: Any) -> list[int]:
    out = np.full(NODES, -7, np.int64)
    function(out, *arguments)
    cells: list[int] = out.tolist()
    return cells


@given(columns(3), columns(3), asked(MAX_INT64))
def test_room(counts: Ints, allowed: Ints, wanted: tuple[Any, ...]) -> None:
    assert compiled.has_room(counts, allowed, wanted) is numpy_form.has_room(counts, allowed, wanted)


@given(columns(3), asked(1000))
def test_room_that_is_just_enough(counts: Ints, wanted: tuple[Any, ...]) -> None:
    for form in (compiled, numpy_form):
        assert form.has_room(counts, counts + 1, tuple((amount, used + amount, used) for amount, _, used in wanted))
        for amount, _, used in wanted:
            assert not form.has_room(counts, counts + 1, ((amount + 1, used + amount, used),))


@given(asked(MOST_RATED, st.integers(1, 100)), st.sampled_from([LEAST, MOST]))
def test_scores_by_allocation(wanted: tuple[Any, ...], strategy: int) -> None:
    arguments = (wanted, strategy, np.empty(0, np.int64))
    assert written(compiled.allocation_scores, *arguments) == written(numpy_form.allocation_scores, *arguments)


@given(
    asked(MOST_RATED, st.integers(1, 100)),
    st.lists(st.sampled_from([0, 1, 50, 99, 100]), min_size=101, max_size=101),
)
def test_scores_by_a_shape(wanted: tuple[Any, ...], shape: list[int]) -> None:
    arguments = (wanted, BY_SHAPE, np.array(shape, np.int64))
    assert written(compiled.allocation_scores, *arguments) == written(numpy_form.allocation_scores, *arguments)


@given(asked(MAX_INT64))
def test_scores_by_balance(wanted: tuple[Any, ...]) -> None:
    assert written(compiled.balance_scores, wanted) == written(numpy_form.balance_scores, wanted)


@given(asked(64))
def test_scores_by_balance_where_nodes_are_alike(wanted: tuple[Any, ...]) -> None:
    assert written(compiled.balance_scores, wanted) == written(numpy_form.balance_scores, wanted)


ROWS = st.none() | st.lists(st.integers(0, NODES - 1), min_size=1).map(lambda rows: np.array(rows, np.intp))
"""Some rows, one at least, or None for all of them."""


@given(columns(20), st.integers(-3, 3), columns(100), ROWS)
def test_looking_up(places: Ints, least: int, finals: Ints, rows: Rows | None) -> None:
    finals = np.resize(finals, 21)
    arguments = (places + least, least, finals, rows)
    assert written(compiled.look_up, *arguments) == written(numpy_form.look_up, *arguments)


@given(columns(MAX_INT64), st.booleans(), ROWS)
def test_extremes(cells: Ints, below: bool, rows: Rows | None) -> None:
    cells = -cells if below else cells
    assert compiled.extremes(cells, rows) == numpy_form.extremes(cells, rows)


@given(columns(4), st.none() | columns(NODES - 1))
def test_the_first_of_each(places: Ints, rows: Rows | None) -> None:
    assert written(compiled.first_of, places, rows) == written(numpy_form.first_of, places, rows)


@given(columns(MAX_INT64), st.sets(st.integers(0, NODES - 1)))
def test_putting(cells: Ints, rows: set[int]) -> None:
    arguments = (np.array(sorted(rows), np.intp), cells[: len(rows)])
    assert written(compiled.put, *arguments) == written(numpy_form.put, *arguments)


@given(st.integers(1, 4), st.data())
def test_adding_up(count: int, data: st.DataObject) -> None:
    nodes = data.draw(st.sampled_from([0, 1, 1023, 1024, 1025, 2500]))
    of = tuple(np.arange(nodes) * data.draw(st.integers(-(2**40), 2**40)) for _ in range(count))
    found = []
    for form in (compiled, numpy_form):
        out = np.full(nodes, -7, np.int64)
        form.add_up(out, of)
        found.append(out.tolist())
    assert found[0] == found[1]


@given(st.lists(columns(MAX_INT64), max_size=3).map(tuple), columns(NODES - 1))
def test_gathering(of: tuple[Ints, ...], rows: Ints) -> None:
    found = []
    for form in (compiled, numpy_form):
        out = np.full(len(of) * NODES, -7, np.int64)
        form.gather(out, of, rows)
        found.append(out.tolist())
    assert found[0] == found[1]


CELLS, SHORT = np.arange(NODES), np.arange(NODES - 1)
ASKED = ((1, CELLS, CELLS),)
WEIGHTED = ((1, 1, CELLS, CELLS),)
NOTHING = np.empty(0, np.int64)


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        ("has_room", (CELLS, SHORT, ASKED), ValueError),
        ("has_room", (CELLS, CELLS, ((1, CELLS, SHORT),)), ValueError),
        ("has_room", (CELLS, CELLS, ((1, CELLS),)), IndexError),
        ("has_room", (CELLS, CELLS, (1,)), TypeError),
        ("has_room", (CELLS, CELLS, [(1, CELLS, CELLS)]), TypeError),
        ("has_room", (CELLS, CELLS, ((1 << 63, CELLS, CELLS),)), OverflowError),
        ("has_room", (CELLS, CELLS), TypeError),
        ("has_room", (CELLS.astype(np.float64), CELLS, ASKED), ValueError),
        ("has_room", (CELLS.astype(np.int32), CELLS, ASKED), ValueError),
        ("has_room", (np.arange(2 * NODES)[::2], CELLS, ASKED), ValueError),
        ("has_room", (None, CELLS, ASKED), TypeError),
        ("allocation_scores", (SHORT, WEIGHTED, LEAST, NOTHING), ValueError),
        ("allocation_scores", (CELLS, WEIGHTED, BY_SHAPE, SHORT), ValueError),
        ("allocation_scores", (CELLS, WEIGHTED, "LeastAllocated", NOTHING), TypeError),
        ("allocation_scores", (CELLS, ASKED, LEAST, NOTHING), TypeError),
        ("balance_scores", (SHORT, ASKED), ValueError),
        ("look_up", (CELLS, CELLS, 1, CELLS, None), IndexError),
        ("look_up", (CELLS, CELLS, 0, SHORT, None), IndexError),
        ("look_up", (CELLS, CELLS - 1, 0, CELLS, None), IndexError),
        ("look_up", (CELLS, CELLS, 0, SHORT, CELLS), IndexError),
        ("look_up", (SHORT, SHORT, 0, SHORT, CELLS), IndexError),
        ("look_up", (CELLS, CELLS, 0, CELLS, CELLS - 1), IndexError),
        ("look_up", (CELLS, SHORT, 0, CELLS, CELLS), ValueError),
        ("look_up", (CELLS, CELLS, 0, CELLS), TypeError),
        ("extremes", (NOTHING, None), ValueError),
        ("extremes", (CELLS, NOTHING), ValueError),
        ("extremes", (SHORT, CELLS), IndexError),
        ("extremes", (CELLS, CELLS - 1), IndexError),
        ("extremes", (CELLS, [1, 2]), TypeError),
        ("first_of", (SHORT, CELLS, None), IndexError),
        ("first_of", (CELLS, SHORT, CELLS), IndexError),
        ("first_of", (CELLS, CELLS - 1, None), IndexError),
        ("first_of", (CELLS, CELLS, CELLS - 1), IndexError),
        ("first_of", (CELLS, CELLS, [1, 2]), TypeError),
        ("put", (CELLS, CELLS, SHORT), ValueError),
        ("put", (SHORT, CELLS, CELLS), IndexError),
        ("put", (CELLS, CELLS - 1, CELLS), IndexError),
        ("add_up", (CELLS, (CELLS, SHORT)), ValueError),
        ("add_up", (SHORT, (CELLS,)), ValueError),
        ("add_up", (CELLS, [CELLS]), TypeError),
        ("add_up", (CELLS, ()), IndexError),
        ("gather", (SHORT, (CELLS,), CELLS), ValueError),
        ("gather", (np.arange(NODES), (SHORT,), CELLS), IndexError),
        ("gather", (np.arange(NODES), (CELLS,), CELLS - 1), IndexError),
    ],
)
def test_what_does_not_match_is_refused_and_given_back(
    function: str, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    held = sys.getrefcount(CELLS), sys.getrefcount(SHORT)
    with pytest.raises(error):
        getattr(compiled, function)(*arguments)
    assert (sys.getrefcount(CELLS), sys.getrefcount(SHORT)) == held


def test_what_may_only_be_read_is_not_written() -> None:
    out = np.zeros(NODES, np.int64)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled.balance_scores(out, ASKED)
