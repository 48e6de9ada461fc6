"""The compiled kernels return exactly what the NumPy ones return, and reject arguments that would be read out of
bounds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.kernels import BLOCK, BY_SHAPE, LEAST, MOST, Classes, Ints, Rows, numpy_form

compiled = pytest.importorskip("pyscheduler.kernels.compiled", reason="there is no compiler here")

MOST_RATED = MAX_INT64 // 100
NODES = 8
DTYPES = st.sampled_from([np.int16, np.int64])
"""Types of totals."""
CLASS_DTYPES = st.sampled_from([np.int16, np.int32])
"""Types of class numbers."""


def numbers(most: int) -> st.SearchStrategy[int]:
    """Numbers where arithmetic breaks: zero, small, adjacent, too close for a float, and the largest."""
    edge_cases = [number for number in (0, 1, 2, 999, 1000, 1001, 2**53 + 1, most - 1, most) if number <= most]
    return st.one_of(st.sampled_from(edge_cases), st.integers(0, most))


def columns(most: int) -> st.SearchStrategy[Ints]:
    return st.lists(numbers(most), min_size=NODES, max_size=NODES).map(lambda cells: np.array(cells, np.int64))


def classes_of_nodes() -> st.SearchStrategy[Classes]:
    return st.builds(lambda cells, dtype: cells.astype(dtype), columns(NODES - 1), CLASS_DTYPES)


def requests(most: int, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Requests for up to four resources: an amount, `parts`, and two columns each."""
    return st.lists(st.tuples(numbers(most), *parts, columns(most), columns(most)), max_size=4).map(tuple)


def output(function: Callable[..., object], *arguments: Any) -> list[int]:
    out = np.full(NODES, -7, np.int64)
    function(out, *arguments)
    cells: list[int] = out.tolist()
    return cells


@given(columns(3), columns(3), requests(MAX_INT64))
def test_has_room(counts: Ints, allowed: Ints, requested: tuple[Any, ...]) -> None:
    assert compiled.has_room(counts, allowed, requested) is numpy_form.has_room(counts, allowed, requested)


@given(columns(3), requests(1000))
def test_has_room_at_the_limit(counts: Ints, requested: tuple[Any, ...]) -> None:
    for form in (compiled, numpy_form):
        assert form.has_room(counts, counts + 1, tuple((amount, used + amount, used) for amount, _, used in requested))
        for amount, _, used in requested:
            assert not form.has_room(counts, counts + 1, ((amount + 1, used + amount, used),))


@given(columns(3), columns(3), requests(MAX_INT64))
def test_missing_room(counts: Ints, allowed: Ints, requested: tuple[Any, ...]) -> None:
    missing = output(compiled.missing_room, counts, allowed, requested)
    assert missing == output(numpy_form.missing_room, counts, allowed, requested)
    assert any(missing) is not compiled.has_room(counts, allowed, requested)


@given(requests(MOST_RATED, st.integers(1, 100)), st.sampled_from([LEAST, MOST]))
def test_allocation_scores(requested: tuple[Any, ...], strategy: int) -> None:
    arguments = (requested, strategy, np.empty(0, np.int64))
    assert output(compiled.allocation_scores, *arguments) == output(numpy_form.allocation_scores, *arguments)


@given(
    requests(MOST_RATED, st.integers(1, 100)),
    st.lists(st.sampled_from([0, 1, 50, 99, 100]), min_size=101, max_size=101),
)
def test_allocation_scores_by_shape(requested: tuple[Any, ...], shape: list[int]) -> None:
    arguments = (requested, BY_SHAPE, np.array(shape, np.int64))
    assert output(compiled.allocation_scores, *arguments) == output(numpy_form.allocation_scores, *arguments)


@given(requests(MAX_INT64))
def test_balance_scores(requested: tuple[Any, ...]) -> None:
    assert output(compiled.balance_scores, requested) == output(numpy_form.balance_scores, requested)


@given(requests(64))
def test_balance_scores_of_small_amounts(requested: tuple[Any, ...]) -> None:
    assert output(compiled.balance_scores, requested) == output(numpy_form.balance_scores, requested)


USUAL = 2**46
"""Upper bound of the cells of columns that are computed by vectorised loops; capacities must not be zero."""


def usual_requests(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Requests for up to three resources of nodes that have them all, some amounts at the limit."""
    capacity = columns(USUAL - 2).map(lambda cells: cells + 1)
    return st.lists(st.tuples(numbers(USUAL - 1), *parts, capacity, columns(USUAL - 1)), min_size=1, max_size=3).map(
        tuple
    )


@given(usual_requests(st.integers(1, 100)), st.sampled_from([LEAST, MOST]))
def test_allocation_scores_of_usual_columns(requested: tuple[Any, ...], strategy: int) -> None:
    arguments = (requested, strategy, np.empty(0, np.int64))
    assert output(compiled.allocation_scores, *arguments) == output(numpy_form.allocation_scores, *arguments)


@given(usual_requests())
def test_balance_scores_of_usual_columns(requested: tuple[Any, ...]) -> None:
    assert output(compiled.balance_scores, requested) == output(numpy_form.balance_scores, requested)


@given(
    st.sampled_from([0, 1023, 1024, 2047, 2048, 2499]), st.sampled_from([0, 1 << 56]), st.sampled_from([LEAST, MOST])
)
def test_scores_of_long_columns_with_one_unusual_capacity(row: int, unusual: int, strategy: int) -> None:
    used, out = np.arange(2500) * 7 % 1000, np.empty((2, 2500), np.int64)
    capacity = used + np.arange(2500) % 13 + 1
    capacity[row] = unusual
    requested = ((3, capacity, used), (5, used + 1, used))
    weighted = tuple((amount, 2, *columns) for amount, *columns in requested)
    for form, scores in zip((compiled, numpy_form), out, strict=True):
        form.allocation_scores(scores, weighted, strategy, np.empty(0, np.int64))
    assert out[0].tolist() == out[1].tolist()
    for form, scores in zip((compiled, numpy_form), out, strict=True):
        form.balance_scores(scores, requested)
    assert out[0].tolist() == out[1].tolist()


@given(st.integers(1, 100), st.lists(st.tuples(st.integers(1, USUAL - 1), st.integers(0, 100)), min_size=1))
def test_ratings_next_to_a_whole_percent_are_truncated(weight: int, nodes: list[tuple[int, int]]) -> None:
    capacity = np.array([whole for whole, _ in nodes], np.int64)
    for shift in (-1, 0, 1):
        used = np.array([min(max(whole * n // 100 + shift, 0), whole) for whole, n in nodes], np.int64)
        out = np.empty(len(nodes), np.int64)
        compiled.allocation_scores(out, ((0, weight, capacity, used),), MOST, np.empty(0, np.int64))
        assert out.tolist() == [
            100 * part // whole for part, whole in zip(used.tolist(), capacity.tolist(), strict=True)
        ]


@given(st.sampled_from([0, 1, 8, 1023, 1024, 1025, 2500]), st.integers(1, 5), st.integers(0, 4))
def test_count_equal(length: int, period: int, value: int) -> None:
    cells = np.arange(length) % period
    assert compiled.count_equal(cells, value) == numpy_form.count_equal(cells, value)


@given(
    st.sampled_from([1, 15, 63, 64, 65, 200, 1000]),
    st.integers(1, 4),
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 999), max_size=5),
    DTYPES,
    st.randoms(use_true_random=False),
)
def test_pick_top(length: int, values: int, random_bits: int, changed: list[int], dtype: type[Any], drawn: Any) -> None:
    infeasible = -(1 << 15) if dtype is np.int16 else -(1 << 61)
    totals = np.array(drawn.choices([infeasible, *range(values)], k=length), dtype)
    tops = [np.full(2 * -(-length // BLOCK), -7, np.int64) for _ in range(2)]
    rows = [row % length for row in changed]
    for form, of_blocks in zip((compiled, numpy_form), tops, strict=True):
        form.refresh_tops(totals, of_blocks, None)
    totals[rows] = drawn.choices(range(values + 1), k=len(rows))
    for form, of_blocks in zip((compiled, numpy_form), tops, strict=True):
        form.refresh_tops(totals, of_blocks, rows)
        picked = form.pick_top(totals, of_blocks, lambda: random_bits)
        best = totals == totals.max()
        assert best[picked]
        assert np.count_nonzero(best[:picked]) == random_bits % int(np.count_nonzero(best))
    assert tops[0].tolist() == tops[1].tolist()


ROWS = st.none() | st.lists(st.integers(0, NODES - 1), min_size=1).map(lambda rows: np.array(rows, np.intp))
"""At least one row, or None for all."""


@given(
    st.sampled_from([1, 15, 64, 1023, 1024, 1025, 2500]),
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(0, 2499), st.sampled_from([-1, 101, 1 << 62])), max_size=1),
    DTYPES,
)
def test_add_scores(
    length: int, weight: int, out_of_range: list[tuple[int, int]], dtype: type[np.signedinteger[Any]]
) -> None:
    scores, before = np.arange(length) % 101, (np.arange(length) * 7 % 300).astype(dtype)
    for row, score in out_of_range:
        scores[row % length] = score
    for form in (compiled, numpy_form):
        totals = before.copy()
        assert form.add_scores(totals, scores, weight, 100) is (not out_of_range)
        assert out_of_range or totals.tolist() == (before + scores * weight).tolist()


@given(columns(MAX_INT64), st.booleans(), ROWS)
def test_extremes(cells: Ints, below: bool, rows: Rows | None) -> None:
    cells = -cells if below else cells
    assert compiled.extremes(cells, rows) == numpy_form.extremes(cells, rows)


@given(st.integers(1, 100), st.booleans(), st.randoms(use_true_random=False))
def test_extremes_of_long_columns(length: int, all_rows: bool, drawn: Any) -> None:
    cells = np.array([drawn.randrange(-(10**6), 10**6) for _ in range(length)], np.int64)
    rows = None if all_rows else np.array(drawn.choices(range(length), k=drawn.randint(1, 100)), np.intp)
    assert compiled.extremes(cells, rows) == numpy_form.extremes(cells, rows)


@given(classes_of_nodes(), st.none() | columns(NODES - 1))
def test_count_by_class(classes: Classes, rows: Rows | None) -> None:
    assert output(compiled.count_by_class, classes, rows) == output(numpy_form.count_by_class, classes, rows)


@given(columns(9), DTYPES, classes_of_nodes(), columns(9))
def test_add_by_class(totals: Ints, dtype: type[Any], classes: Classes, sums: Ints) -> None:
    arguments = ((totals - 5).astype(dtype), classes, sums - 5)
    assert output(compiled.add_by_class, *arguments) == output(numpy_form.add_by_class, *arguments)


@given(st.integers(0, 40), st.integers(1, 4), st.integers(0, 2**64 - 1), DTYPES, CLASS_DTYPES, st.integers(0, 2**32))
def test_pick_by_class(
    hundreds: int, values: int, random_bits: int, dtype: type[Any], class_dtype: type[Any], seed: int
) -> None:
    drawn = np.random.default_rng(seed)  # drawing each cell from Hypothesis takes a hundred times as long
    rows = 1 + hundreds * 100 + int(drawn.integers(100))  # up to four blocks
    totals, classes = (drawn.integers(values, size=rows).astype(each) for each in (dtype, class_dtype))
    sums = drawn.choice(np.array((-(1 << 60), 0, 1, 2), np.int64), values)
    arguments = (totals - 1, classes, sums, random_bits)
    picked = compiled.pick_by_class(*arguments)
    assert picked == numpy_form.pick_by_class(*arguments)
    cells = (totals - 1 + sums[classes]).tolist()
    assert cells[picked] == max(cells)
    assert cells[:picked].count(max(cells)) == random_bits % cells.count(max(cells))


@given(
    st.lists(st.tuples(st.floats(0.6, 12), st.integers(0, 100), columns(1000), st.none() | columns(2)), max_size=3).map(
        tuple
    )
)
def test_rounded_sums(terms: tuple[Any, ...]) -> None:
    sums = output(compiled.rounded_sums, terms)
    assert sums == output(numpy_form.rounded_sums, terms)
    for i, rounded in enumerate(sums):
        exact = sum(
            int(cells[i]) * weight + addend for weight, addend, cells, applies in terms if applies is None or applies[i]
        )
        assert rounded == math.floor(exact) + (exact - math.floor(exact) >= 0.5)


@given(columns(MAX_INT64), st.sets(st.integers(0, NODES - 1)))
def test_put(cells: Ints, rows: set[int]) -> None:
    arguments = (np.array(sorted(rows), np.intp), cells[: len(rows)])
    assert output(compiled.put, *arguments) == output(numpy_form.put, *arguments)


@given(st.lists(columns(MAX_INT64), max_size=3).map(tuple), columns(NODES - 1))
def test_gather(of: tuple[Ints, ...], rows: Ints) -> None:
    results = []
    for form in (compiled, numpy_form):
        out = np.full(len(of) * NODES, -7, np.int64)
        form.gather(out, of, rows)
        results.append(out.tolist())
    assert results[0] == results[1]


CELLS, SHORT = np.arange(NODES), np.arange(NODES - 1)
CLASSES = np.arange(NODES, dtype=np.int32)
REQUESTS = ((1, CELLS, CELLS),)
WEIGHTED = ((1, 1, CELLS, CELLS),)
NOTHING = np.empty(0, np.int64)


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        ("has_room", (CELLS, SHORT, REQUESTS), ValueError),
        ("has_room", (CELLS, CELLS, ((1, CELLS, SHORT),)), ValueError),
        ("has_room", (CELLS, CELLS, ((1, CELLS),)), IndexError),
        ("has_room", (CELLS, CELLS, (1,)), TypeError),
        ("has_room", (CELLS, CELLS, [(1, CELLS, CELLS)]), TypeError),
        ("has_room", (CELLS, CELLS, ((1 << 63, CELLS, CELLS),)), OverflowError),
        ("has_room", (CELLS, CELLS), TypeError),
        ("has_room", (CELLS.astype(np.float64), CELLS, REQUESTS), ValueError),
        ("has_room", (CELLS.astype(np.int32), CELLS, REQUESTS), ValueError),
        ("has_room", (np.arange(2 * NODES)[::2], CELLS, REQUESTS), ValueError),
        ("has_room", (None, CELLS, REQUESTS), TypeError),
        ("missing_room", (SHORT, CELLS, CELLS, REQUESTS), ValueError),
        ("missing_room", (CELLS, CELLS, SHORT, REQUESTS), ValueError),
        ("missing_room", (CELLS, CELLS, CELLS, 61 * REQUESTS), ValueError),
        ("missing_room", (CELLS, CELLS, REQUESTS), TypeError),
        ("allocation_scores", (SHORT, WEIGHTED, LEAST, NOTHING), ValueError),
        ("allocation_scores", (CELLS, WEIGHTED, BY_SHAPE, SHORT), ValueError),
        ("allocation_scores", (CELLS, WEIGHTED, "LeastAllocated", NOTHING), TypeError),
        ("allocation_scores", (CELLS, REQUESTS, LEAST, NOTHING), TypeError),
        ("balance_scores", (SHORT, REQUESTS), ValueError),
        ("add_scores", (CELLS.copy(), SHORT, 1, 100), ValueError),
        ("add_scores", (CELLS.astype(np.int32), CELLS, 1, 100), ValueError),
        ("add_scores", (CELLS.copy(), CELLS.astype(np.int32), 1, 100), ValueError),
        ("add_scores", (CELLS.copy(), CELLS, None, 100), TypeError),
        ("add_scores", (CELLS.copy(), CELLS, 1, None), TypeError),
        ("extremes", (NOTHING, None), ValueError),
        ("extremes", (CELLS, NOTHING), ValueError),
        ("extremes", (SHORT, CELLS), IndexError),
        ("extremes", (CELLS, CELLS - 1), IndexError),
        ("extremes", (CELLS, [1, 2]), TypeError),
        ("count_by_class", (SHORT, CLASSES, None), IndexError),
        ("count_by_class", (np.arange(NODES), CLASSES[1:], CELLS), IndexError),
        ("count_by_class", (np.arange(NODES), CLASSES - 1, None), IndexError),
        ("count_by_class", (np.arange(NODES), CLASSES.astype(np.int16) - 1, None), IndexError),
        ("count_by_class", (np.arange(NODES), CLASSES.astype(np.int8), None), ValueError),
        ("count_by_class", (np.arange(NODES), CLASSES, [1, 2]), TypeError),
        ("count_by_class", (np.arange(NODES), CELLS, None), ValueError),
        ("add_by_class", (SHORT.copy(), CELLS, CLASSES, CELLS), ValueError),
        ("add_by_class", (np.arange(NODES), SHORT, CLASSES, CELLS), ValueError),
        ("add_by_class", (np.arange(NODES), CELLS, CLASSES[1:], CELLS), ValueError),
        ("add_by_class", (np.arange(NODES), CELLS, CELLS, CELLS), ValueError),
        ("add_by_class", (np.arange(NODES), CELLS, CLASSES, SHORT), IndexError),
        ("add_by_class", (np.arange(NODES), CELLS, CLASSES - 1, CELLS), IndexError),
        ("pick_by_class", (CELLS, CLASSES[1:], CELLS, 0), ValueError),
        ("pick_by_class", (SHORT[:0], CLASSES[:0], CELLS, 0), ValueError),
        ("pick_by_class", (CELLS, CELLS, CELLS, 0), ValueError),
        ("pick_by_class", (CELLS, CLASSES, CELLS, 1.5), TypeError),
        ("pick_by_class", (CELLS, CLASSES, SHORT, 0), IndexError),
        ("pick_by_class", (CELLS, CLASSES - 1, CELLS, 0), IndexError),
        ("pick_by_class", (CELLS, CLASSES.astype(np.int16) - 1, CELLS, 0), IndexError),
        ("rounded_sums", (np.arange(NODES), [(1.0, 1, CELLS, None)]), TypeError),
        ("rounded_sums", (np.arange(NODES), ((None, 1, CELLS, None),)), TypeError),
        ("rounded_sums", (np.arange(NODES), ((1.0, 1, SHORT, None),)), ValueError),
        ("rounded_sums", (np.arange(NODES), ((1.0, 1, CELLS, SHORT),)), ValueError),
        ("rounded_sums", (np.arange(NODES), ((1.0, 1, CELLS),)), IndexError),
        ("count_equal", (None, 1), TypeError),
        ("count_equal", (CELLS, 1 << 63), OverflowError),
        ("refresh_tops", (CELLS, SHORT, None), ValueError),
        ("refresh_tops", (CELLS.astype(np.int32), np.arange(2), None), ValueError),
        ("refresh_tops", (CELLS.astype(np.float32), np.arange(2), None), ValueError),
        ("refresh_tops", (CELLS, np.arange(2), (1,)), TypeError),
        ("refresh_tops", (CELLS, np.arange(2), [NODES]), IndexError),
        ("refresh_tops", (CELLS, np.arange(2), [-1]), IndexError),
        ("refresh_tops", (CELLS, np.arange(2), [None]), TypeError),
        ("pick_top", (CELLS, SHORT, int), ValueError),
        ("pick_top", (NOTHING, NOTHING, int), ValueError),
        ("pick_top", (CELLS, np.array([7, 2]), None), TypeError),
        ("pick_top", (CELLS, np.array([7, 2]), lambda: -1), OverflowError),
        ("pick_top", (CELLS, np.array([7, 0]), int), IndexError),
        ("put", (CELLS, CELLS, SHORT), ValueError),
        ("put", (SHORT, CELLS, CELLS), IndexError),
        ("put", (CELLS, CELLS - 1, CELLS), IndexError),
        ("gather", (SHORT, (CELLS,), CELLS), ValueError),
        ("gather", (np.arange(NODES), (SHORT,), CELLS), IndexError),
        ("gather", (np.arange(NODES), (CELLS,), CELLS - 1), IndexError),
    ],
)
def test_invalid_arguments_are_rejected_and_released(
    function: str, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    counts = sys.getrefcount(CELLS), sys.getrefcount(SHORT)
    with pytest.raises(error):
        getattr(compiled, function)(*arguments)
    assert (sys.getrefcount(CELLS), sys.getrefcount(SHORT)) == counts


def test_read_only_output_is_rejected() -> None:
    out = np.zeros(NODES, np.int64)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled.balance_scores(out, REQUESTS)


@st.composite
def reprieves(draw: st.DrawFn) -> tuple[Classes, tuple[tuple[Ints, Ints], ...]]:
    """Kinds of up to four pods of each node, and one to three resources with what is free and what a kind takes."""
    kinds = draw(
        st.lists(st.integers(-1, 2), max_size=4 * NODES).map(lambda cells: cells[: len(cells) // NODES * NODES])
    )
    amounts = st.lists(numbers(1000), min_size=3, max_size=3).map(lambda cells: np.array([*cells, 0], np.int64))
    resources = draw(st.lists(st.tuples(columns(3000), amounts), min_size=1, max_size=3))
    return np.array(kinds, np.int32), tuple(resources)


def reprieved(
    form: Any, kinds: Classes, resources: tuple[tuple[Ints, Ints], ...]
) -> tuple[list[bool], list[list[int]]]:
    """Return the pods that stay, and what is free then."""
    stays, free = np.ones(len(kinds), np.bool_), tuple((free.copy(), amounts) for free, amounts in resources)
    form.reprieve(stays, kinds, free)
    return stays.tolist(), [each.tolist() for each, _ in free]


@given(reprieves())
def test_reprieve(arguments: tuple[Classes, tuple[tuple[Ints, Ints], ...]]) -> None:
    assert reprieved(compiled, *arguments) == reprieved(numpy_form, *arguments)


def test_reprieved_pods_take_room_from_those_after_them() -> None:
    kinds = np.array([0, 0, 1, 0, 1, -1, 2, 2], np.int32)  # four pods of each of two nodes
    resources = ((np.array([5, 2]), np.array([3, 2, 0, 0])), (np.array([2, 9]), np.array([1, 1, 0, 0])))
    for form in (compiled, numpy_form):
        stays, free = reprieved(form, kinds, resources)
        assert stays == [True, False, True, False, False, False, True, True]
        assert free == [[0, 2], [0, 9]]


@pytest.mark.parametrize(
    ("stays", "kinds", "amounts", "error"),
    [
        pytest.param(8, [0] * 7, [1, 0], ValueError, id="fewer kinds than results"),
        pytest.param(7, [0] * 7, [1, 0], ValueError, id="fewer pods than nodes"),
        pytest.param(8, [1] * 8, [1, 0], IndexError, id="a kind without an amount"),
        pytest.param(8, [-2] * 8, [1, 0], IndexError, id="a negative kind"),
        pytest.param(8, [-1] * 8, [], ValueError, id="no amounts"),
    ],
)
def test_reprieve_rejects_pods_out_of_bounds(
    stays: int, kinds: list[int], amounts: list[int], error: type[Exception]
) -> None:
    resources = ((np.zeros(NODES, np.int64), np.array(amounts, np.int64)),)
    with pytest.raises(error):
        compiled.reprieve(np.zeros(stays, np.bool_), np.array(kinds, np.int32), resources)


@given(reprieves(), st.data())
def test_victim_losses(arguments: tuple[Classes, tuple[tuple[Ints, Ints], ...]], data: st.DataObject) -> None:
    kinds, ((_, priorities), *_) = arguments
    stays, violating = (np.array([data.draw(st.booleans()) for _ in kinds], np.bool_) for _ in range(2))
    started = np.array([data.draw(st.sampled_from([0.0, 1.5, math.inf])) for _ in kinds], np.float64)
    of_compiled, of_numpy = np.zeros(5 * NODES), np.ones(5 * NODES)
    for form, out in ((compiled, of_compiled), (numpy_form, of_numpy)):
        form.victim_losses(out, stays, kinds, violating, started, priorities - 500, 1 << 31)
    assert of_compiled.tolist() == of_numpy.tolist()


@pytest.mark.parametrize(
    ("losses", "stays", "kind", "error"),
    [
        pytest.param(5 * NODES - 1, NODES, 0, ValueError, id="no five criteria"),
        pytest.param(5 * NODES, NODES - 1, 0, ValueError, id="fewer results than pods"),
        pytest.param(5 * NODES, NODES, 1, IndexError, id="a kind without a priority"),
    ],
)
def test_victim_losses_rejects_pods_out_of_bounds(losses: int, stays: int, kind: int, error: type[Exception]) -> None:
    kinds, mask, started = np.full(NODES, kind, np.int32), np.zeros(NODES, np.bool_), np.zeros(NODES)
    with pytest.raises(error):
        compiled.victim_losses(np.zeros(losses), mask[:stays], kinds, mask, started, np.zeros(2, np.int64), 0)
