"""NumPy form of the column arithmetic, which specifies the C form. Columns are int64 or float64, one entry per node;
the class of each node is int32, a total int16 or int64.

`out` receives the result and has the length of all other columns. The caller guarantees that amounts, capacities, rows
and indices are not negative and that 100 times a scored capacity fits into int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Kinds = NDArray[np.int32]
Classes = NDArray[np.signedinteger]
Masks = NDArray[np.bool_]
Totals = NDArray[np.signedinteger]

BLOCK = 64
"""Rows of a block of `refresh_tops`."""
_BEST = 100
_CRITERIA = 5
LEAST, MOST, BY_SHAPE = 0, 1, 2
"""Strategies of `allocation_scores`: least allocated, most allocated, or RequestedToCapacityRatio by a shape."""


def has_room(pod_counts: Ints, allowed_pods: Ints, requests: Sequence[tuple[int, Ints, Ints]]) -> bool:
    """Return True if every node fits one more pod with these requests: (amount, allocatable, requested)."""
    full = pod_counts >= allowed_pods
    if full.any():
        return False
    for amount, allocatable, requested in requests:
        free = allocatable - requested
        if len(free) and free[free.argmin()] < amount:  # several times faster than min()
            return False
    return True


def missing_room(out: Ints, pod_counts: Ints, allowed_pods: Ints, requests: Sequence[tuple[int, Ints, Ints]]) -> None:
    """Compute a bit set per node, 0 if it fits one more pod with these requests: (amount, allocatable, requested).

    Bit 1: it has as many pods as allowed. Bit 2 + i: request i does not fit. Bit 0: some request is larger than the
    allocatable amount.
    """
    np.left_shift(pod_counts >= allowed_pods, 1, out=out)
    for bit, (amount, allocatable, requested) in enumerate(requests, 2):
        out |= (allocatable - requested < amount).astype(np.int64) << bit
        out |= allocatable < amount


def allocation_scores(out: Ints, requests: Sequence[tuple[int, int, Ints, Ints]], strategy: int, shape: Ints) -> None:
    """Compute NodeResourcesFit's score: utilization after placement, rated 0..100 per resource and averaged by weight.

    `requests`: amount, weight, capacity and used amount; resources without capacity are skipped per node. `shape`:
    score at 0, 1, … 100 percent. With a shape, resources rated 0 are skipped and the mean is rounded, not truncated.
    """
    if not requests:
        out.fill(0)
        return
    amounts, weight = (np.array([[each[place]] for each in requests], np.int64) for place in (0, 1))
    capacity, free = np.array([each[2] for each in requests]), np.array([each[3] for each in requests])
    np.subtract(capacity, free, out=free)
    # Take the maximum first, so that no number overflows int64.
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
    if everywhere and strategy != BY_SHAPE:  # no resource is skipped
        np.floor_divide((rated * weight).sum(axis=0), weight.sum(), out=out)
        return
    weights = ((capacity > 0) & ((rated > 0) | (strategy != BY_SHAPE))) * weight
    total, all_weights = (rated * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1)
    if strategy == BY_SHAPE:
        total, all_weights = 2 * total + all_weights, 2 * all_weights
    np.floor_divide(total, all_weights, out=out)


def balance_scores(out: Ints, requests: Sequence[tuple[int, Ints, Ints]]) -> None:
    """Compute NodeResourcesBalancedAllocation's score: the gain in balance of resource utilization by the pod.

    `requests`: amount, capacity and requested amount; resources without capacity are skipped per node.
    """
    if not requests:
        out.fill(_BEST // 2 + _BEST // 4)
        return
    capacity, requested = np.array([each[1] for each in requests]), np.array([each[2] for each in requests])
    amounts = np.array([[each[0]] for each in requests], np.int64)
    # Before and after, computed in an order that does not overflow int64.
    used = np.array([requested, np.minimum(requested, capacity - amounts) + amounts])
    np.minimum(used, capacity, out=used)
    if (capacity > 0).all():
        even = _evenness(used / capacity.astype(np.float64), None)
    else:
        even = _evenness(used / np.maximum(capacity, 1), capacity > 0)
    gain = even[1] - even[0]
    gain += _BEST + _BEST // 2
    np.right_shift(gain, 1, out=out)  # halved, rounded down; never negative, so it equals Go's truncation


def _evenness(shares: Floats, counted: NDArray[np.bool_] | None) -> Ints:
    """Return 100 for equal shares, less with their deviation: before and after, by resource and node.

    `counted` is a mask of the resources that each node has; None if all nodes have all.
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
    # Summed in order, as Go does.
    for share in np.where(counted, shares, 0.0):
        total += share
    mean = total / n
    squares = np.zeros(len(n))
    for share, counts in zip(shares, counted, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    deviation: Floats = np.sqrt(squares / n)
    lowest = np.minimum.reduce(np.where(counted, shares, np.inf))
    highest = np.maximum.reduce(np.where(counted, shares, -np.inf))
    # For two shares Go halves their difference, which rounds differently from the square root.
    return np.where(n == 2, (highest - lowest) / 2, deviation)


def rounded_sums(out: Ints, terms: Sequence[tuple[float, int, Ints, Rows | None]]) -> None:
    """Compute the rounded sum of the terms, which are summed as floats in order and rounded half up; none is negative.

    A term is a weight, an addend, a number for each node, and a column that is 0 where the term does not apply, or
    None if it applies everywhere: number times weight plus addend.
    """
    sums = np.zeros(len(out))
    for weight, addend, column, applies in terms:
        term = column * weight + addend
        sums += term if applies is None else np.where(applies != 0, term, 0.0)
    whole = np.floor(sums)
    sums -= whole
    whole += sums >= 0.5
    out[:] = whole


def add_scores(totals: Totals, scores: Ints, weight: int, most: int) -> bool:
    """Add the weighted score of each row to its total. Return True if all scores are within 0..most.

    Otherwise the totals are undefined. The caller guarantees that they hold the sums of scores within the range.
    """
    if not len(scores):
        return True
    least, greatest = extremes(scores, None)
    np.add(totals, scores * weight, out=totals, casting="unsafe")
    return least >= 0 and greatest <= most


def extremes(numbers: Ints, rows: Rows | None) -> tuple[int, int]:
    """Return the minimum and the maximum over some rows, None for all. ValueError if there are none."""
    if rows is not None:
        numbers = numbers.take(rows)
    # argmin and argmax are several times faster than min and max.
    return int(numbers[numbers.argmin()]), int(numbers[numbers.argmax()])


def count_equal(numbers: Ints, value: int) -> int:
    """Return how many of the numbers equal the value."""
    return int(np.count_nonzero(numbers == value))


def refresh_tops(totals: Totals, tops: Ints, rows: list[int] | None) -> None:
    """Compute the greatest total of each block of rows, then how many rows of each block have it.

    Only of the blocks with these rows; None for all. IndexError for a row beyond the totals.
    """
    blocks = _blocks_of(totals, tops)
    if rows is None and blocks:
        starts = np.arange(0, len(totals), BLOCK)
        np.maximum.reduceat(totals, starts, out=tops[:blocks])
        has_best = totals == tops[:blocks].repeat(BLOCK)[: len(totals)]
        np.add.reduceat(has_best, starts, out=tops[blocks:], dtype=np.int64)
    for row in rows or ():
        if not 0 <= row < len(totals):
            raise IndexError("a row is out of range")
        block = row // BLOCK
        cells = totals[block * BLOCK : (block + 1) * BLOCK]
        tops[block] = best = cells[cells.argmax()]
        tops[blocks + block] = np.count_nonzero(cells == best)


def pick_top(totals: Totals, tops: Ints, random_bits: Callable[[], int]) -> int:
    """Return one of the rows with the greatest total: number `random_bits()` modulo their count, in row order.

    Random bits are not drawn for a single row. `tops` are those of `refresh_tops`. ValueError if there are no rows.
    """
    blocks = _blocks_of(totals, tops)
    bests = np.flatnonzero(tops[:blocks] == tops[tops[:blocks].argmax()])
    ends = tops[blocks + bests].cumsum()
    n = random_bits() % int(ends[-1]) if ends[-1] > 1 else 0
    place = int(ends.searchsorted(n, "right"))
    block = int(bests[place])
    before = int(ends[place - 1]) if place else 0
    cells = totals[block * BLOCK : (block + 1) * BLOCK]
    return block * BLOCK + int(np.flatnonzero(cells == tops[block])[n - before])


def _blocks_of(totals: Totals, tops: Ints) -> int:
    blocks = -(-len(totals) // BLOCK)
    if len(tops) != 2 * blocks:
        raise ValueError("there must be two numbers for each block")
    return blocks


def put(out: Ints, rows: Rows, cells: Ints) -> None:
    """Write one cell for each of these rows. IndexError for a row beyond the column."""
    if len(rows) != len(cells):
        raise ValueError("rows and cells differ in length")
    out[rows] = cells


def count_by_class(out: Ints, classes: Classes, rows: Rows | None) -> None:
    """Count these rows (None for all) by the class of each. IndexError for a class beyond `out`."""
    chosen = classes if rows is None else classes.take(rows)
    if len(chosen) and not 0 <= chosen[chosen.argmin()] <= chosen[chosen.argmax()] < len(out):
        raise IndexError("there is no such class")
    out[:] = np.bincount(chosen, minlength=len(out))


def add_by_class(out: Ints, totals: Totals, classes: Classes, sums: Ints) -> None:
    """Compute the total of each row plus the sum of its class. IndexError for a class beyond `sums`."""
    if len(classes) and classes[classes.argmin()] < 0:
        raise IndexError("there is no such class")
    np.add(totals, sums.take(classes), out=out)


def pick_by_class(totals: Totals, classes: Classes, sums: Ints, random_bits: int) -> int:
    """Return one of the rows with the greatest total plus sum of its class: number `random_bits` modulo their count.

    IndexError for a class beyond `sums`, ValueError if there are no rows.
    """
    cells = np.empty(len(totals), np.int64)
    add_by_class(cells, totals, classes, sums)
    best = np.flatnonzero(cells == cells[cells.argmax()])
    return int(best[random_bits % len(best)])


def gather(out: Ints, columns: Sequence[Ints], rows: Rows) -> None:
    """Write the cells of these rows, column after column. IndexError for a row beyond a column."""
    for part, column in zip(out.reshape(len(columns), len(rows)), columns, strict=True):
        column.take(rows, out=part)


def reprieve(stays: Masks, kinds: Kinds, resources: Sequence[tuple[Ints, Ints]]) -> None:
    """Add pods to nodes one after the other, each if it fits; `stays` receives a True for those.

    `kinds` has the first pod of every node, then the second one of every node, and so on; -1 where there is none.
    `resources`, at least one: what is free on each node, which is reduced, and what a pod of each kind takes, with one
    more number at the end.
    """
    nodes = len(resources[0][0])
    if not nodes:
        return
    for pods, fits in zip(kinds.reshape(-1, nodes), stays.reshape(-1, nodes), strict=True):
        np.greater_equal(pods, 0, out=fits)
        for free, amounts in resources:
            fits &= free >= amounts[pods]
        for free, amounts in resources:
            free -= amounts[pods] * fits


def victim_losses(
    out: Floats, stays: Masks, kinds: Kinds, violating: Masks, started: Floats, priorities: Ints, offset: int
) -> None:
    """Compute the losses of nodes by the criteria of preemption: one criterion of all nodes, then the next one.

    These are the number of violating victims, the highest priority, the sum of priorities, each increased by `offset`,
    the number of victims and the negated earliest start of those of the highest priority; all are infinite for a node
    without victims. `stays`, `kinds`, `violating` and `started` have the first pod of every node, then the
    second one, and so on. `priorities` are those of the kinds, with one more number at the end.
    """
    losses = out.reshape(_CRITERIA, -1)
    if not losses.size:
        return
    losses[:] = np.inf
    if not len(kinds):
        return
    shape = (-1, losses.shape[1])
    kinds, violating, started = kinds.reshape(shape), violating.reshape(shape), started.reshape(shape)
    victims, priority = (kinds >= 0) & ~stays.reshape(shape), priorities[kinds]
    highest = np.where(victims, priority, -offset).max(0)
    earliest = np.where(victims & (priority == highest), started, np.inf).min(0)
    total = np.where(victims, priority + offset, 0).sum(0)
    number = victims.sum(0)
    for criterion, values in zip(
        losses, ((victims & violating).sum(0), highest, total, number, -earliest), strict=True
    ):
        np.copyto(criterion, values, where=number > 0)
