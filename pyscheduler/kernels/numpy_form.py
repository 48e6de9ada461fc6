"""The arithmetic of the hot path on columns: one int64 or float64 per node. What each function means stands here.

`out` is written to, and as long as every other column. Amounts, capacities, rows and places are not negative, and a
hundred times a capacity that is scored is an int64; whoever calls sees to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

_BEST = 100
LEAST, MOST, BY_SHAPE = 0, 1, 2
"""How `allocation_scores` rates: the emptier the better, the fuller the better, or by a shape."""


def has_room(pod_counts: Ints, allowed_pods: Ints, requests: Sequence[tuple[int, Ints, Ints]]) -> bool:
    """Whether every node has room for one more pod and all it asks: an amount of what is allocatable less requested."""
    full = pod_counts >= allowed_pods
    if full.any():
        return False
    for amount, allocatable, requested in requests:
        free = allocatable - requested
        if len(free) and free[free.argmin()] < amount:  # several times as quick as min()
            return False
    return True


def allocation_scores(out: Ints, requests: Sequence[tuple[int, int, Ints, Ints]], strategy: int, shape: Ints) -> None:
    """NodeResourcesFit's score: how full the nodes would be, each resource rated from 0 to 100 and weighted.

    `requests`: an amount, its weight, the capacity and what is used of it; nodes without capacity leave it out.
    `shape`: the score at 0, 1, … 100 percent. By a shape, what rates 0 is left out, and the mean is rounded, not cut.
    """
    if not requests:
        out.fill(0)
        return
    amounts, weight = (np.array([[each[place]] for each in requests], np.int64) for place in (0, 1))
    capacity, free = np.array([each[2] for each in requests]), np.array([each[3] for each in requests])
    np.subtract(capacity, free, out=free)
    # The greater of both first, so that no number leaves int64.
    np.maximum(free, amounts, out=free)
    free -= amounts
    np.minimum(free, capacity, out=free)
    everywhere = (capacity > 0).all()
    whole = capacity if everywhere else np.maximum(capacity, 1)
    rated = free if strategy == LEAST else capacity - free
    rated *= _BEST
    rated //= whole
    if strategy == BY_SHAPE:
        rated = shape[rated]
    if everywhere and strategy != BY_SHAPE:  # then all count
        np.floor_divide((rated * weight).sum(axis=0), weight.sum(), out=out)
        return
    weights = ((capacity > 0) & ((rated > 0) | (strategy != BY_SHAPE))) * weight
    total, all_weights = (rated * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1)
    if strategy == BY_SHAPE:
        total, all_weights = 2 * total + all_weights, 2 * all_weights
    np.floor_divide(total, all_weights, out=out)


def balance_scores(out: Ints, requests: Sequence[tuple[int, Ints, Ints]]) -> None:
    """NodeResourcesBalancedAllocation's score: how much more evenly resources would be used with the pod than without.

    `requests`: an amount, the capacity and what is requested of it; nodes without capacity leave it out.
    """
    if not requests:
        out.fill(_BEST // 2 + _BEST // 4)
        return
    capacity, requested = np.array([each[1] for each in requests]), np.array([each[2] for each in requests])
    amounts = np.array([[each[0]] for each in requests], np.int64)
    # Before and after, this in an order in which no amount leaves int64.
    used = np.array([requested, np.minimum(requested, capacity - amounts) + amounts])
    np.minimum(used, capacity, out=used)
    if (capacity > 0).all():
        even = _evenness(used / capacity.astype(np.float64), None)
    else:
        even = _evenness(used / np.maximum(capacity, 1), capacity > 0)
    gain = even[1] - even[0]
    gain += _BEST + _BEST // 2
    np.right_shift(gain, 1, out=out)  # halves, rounded down: neither is below 50, so that Go cuts off the same


def _evenness(shares: Floats, counted: NDArray[np.bool_] | None) -> Ints:
    """100 if all shares are equal, less the further they lie apart: before and after, by resource and node.

    `counted` says which nodes have which resource; None: all have all.
    """
    if shares.shape[1] == 2:
        deviation = shares[:, 0] - shares[:, 1]
        deviation /= 2
        np.absolute(deviation, out=deviation)
        if counted is not None:
            deviation *= counted[0] & counted[1]
    else:
        counts = np.ones(shares.shape[1:], np.bool_) if counted is None else counted
        deviation = np.array([_deviation(each, counts) for each in shares])
    np.subtract(1.0, deviation, out=deviation)
    deviation *= _BEST
    return deviation.astype(np.int64)


def _deviation(shares: Floats, counted: NDArray[np.bool_]) -> Floats:
    n = np.maximum(np.count_nonzero(counted, axis=0), 1)
    total = np.zeros(len(n))
    # One after the other, which is how Go sums.
    for share in np.where(counted, shares, 0.0):
        total += share
    mean = total / n
    squares = np.zeros(len(n))
    for share, counts in zip(shares, counted, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    deviation: Floats = np.sqrt(squares / n)
    lowest = np.minimum.reduce(np.where(counted, shares, np.inf))
    highest = np.maximum.reduce(np.where(counted, shares, -np.inf))
    # Where only two are left, halving their difference rounds otherwise than the square root does.
    return np.where(n == 2, (highest - lowest) / 2, deviation)


def look_up(out: Ints, raw: Ints, least: int, finals: Ints, rows: Rows | None) -> None:
    """`finals` has what each raw score from `least` on comes to. `rows`: None for all. IndexError for what it lacks."""
    if rows is None:
        finals.take(raw - least, out=out)
    else:
        out[rows] = finals.take(raw.take(rows) - least)


def extremes(numbers: Ints, rows: Rows | None) -> tuple[int, int]:
    """The least and the greatest number of some rows, None for all of them. ValueError if there are none."""
    if rows is not None:
        numbers = numbers.take(rows)
    # By place, which is several times as quick as min() and max().
    return int(numbers[numbers.argmin()]), int(numbers[numbers.argmax()])


def put(out: Ints, rows: Rows, cells: Ints) -> None:
    """Write the cells of some rows, one each. IndexError for a row beyond the column."""
    if len(rows) != len(cells):
        raise ValueError("there is a cell for each row")
    out[rows] = cells


def first_of(out: Ints, places: Ints, rows: Rows | None) -> None:
    """The first of some rows, None for all of them, at each place; -1 where none is. IndexError for a place beyond."""
    if rows is None:
        rows = np.arange(len(places))
    out.fill(-1)
    # Of several written to a place the last one stays.
    out[places.take(rows)[::-1]] = rows[::-1]


def add_up(out: Ints, columns: Sequence[Ints]) -> None:
    """The sum of one column or more."""
    np.copyto(out, columns[0])
    for column in columns[1:]:
        out += column


def gather(out: Ints, columns: Sequence[Ints], rows: Rows) -> None:
    """The cells of some rows, column after column. IndexError for a row beyond a column."""
    for part, column in zip(out.reshape(len(columns), len(rows)), columns, strict=True):
        column.take(rows, out=part)
