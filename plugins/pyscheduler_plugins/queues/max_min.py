"""Weighted max-min fair shares (water filling) of one resource, exact and in integers.

All shares rise together, each in proportion to its weight, until it meets its limit or the capacity is used up. So the
shares sum to the capacity, or every request is met.

Amounts are milli-cores, bytes or counts, and never rounded to less than a unit. A unit that cannot be divided goes to
the share that it brings closest to its exact value (Webster's method, ties to the first claim). Unlike the method of
the largest remainder, a larger weight or capacity never makes a share smaller.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from msgspec import Struct


class Claim(Struct, frozen=True):
    """Claim of a queue to a resource, with 0 <= guarantee <= deserved <= limit."""

    weight: int
    """0: the queue gets only what no other claims."""
    limit: int
    """Smaller one of the request and the capability."""
    guarantee: int = 0
    deserved: int = 0
    """Deserved amount of the spec. It comes after all guarantees, before what is divided by weight."""


def max_min(capacity: int, claims: Sequence[Claim]) -> list[int]:
    """Return the share of each claim. They sum to the capacity, or each is at its limit.

    Guarantees that exceed the capacity are reduced in proportion, and so are deserved amounts.
    """
    limits = [claim.limit for claim in claims]
    if sum(limits) <= capacity:
        return limits
    shares = [0] * len(claims)
    guarantees = [claim.guarantee for claim in claims]
    if any(guarantees):
        shares = fill(capacity, guarantees, shares, guarantees)
    deserved = [claim.deserved for claim in claims]
    if any(deserved):
        shares = fill(capacity, deserved, shares, list(map(max, shares, deserved)))
    shares = fill(capacity, [claim.weight for claim in claims], shares, limits)
    if sum(shares) < capacity:
        shares = fill(capacity, [int(claim.weight == 0) for claim in claims], shares, limits)
    return shares


def fill(capacity: int, weights: Sequence[int], least: Sequence[int], most: Sequence[int]) -> list[int]:
    """Raise shares from `least` towards `most` in proportion to their weights, until they sum to the capacity.

    `least` sums to the capacity or less. Without a weight, a share stays at its least.
    """
    shares = list(least)
    active = [i for i, weight in enumerate(weights) if weight > 0 and most[i] > least[i]]
    every = active
    room = capacity - sum(least) + sum(least[i] for i in active)
    if sum(most[i] for i in active) <= room:
        for i in active:
            shares[i] = most[i]
        return shares
    # The algorithm of flexible lengths in CSS: at a level that is too high for the capacity, the claims that are below
    # their least stay there at the final level too; at a level that is too low, those above their most.
    while True:
        total = sum(weights[i] for i in active)
        low = [i for i in active if room * weights[i] < least[i] * total]
        high = [i for i in active if room * weights[i] > most[i] * total]
        raised = sum(least[i] * total - room * weights[i] for i in low)
        lowered = sum(room * weights[i] - most[i] * total for i in high)
        if raised == lowered:
            break
        frozen, bound = (low, least) if raised > lowered else (high, most)
        for i in frozen:
            shares[i] = bound[i]
        room -= sum(bound[i] for i in frozen)
        active = sorted(set(active).difference(frozen))
    for i in active:
        nearest = (2 * room * weights[i] + total) // (2 * total)
        shares[i] = min(max(nearest, least[i]), most[i])
    # Also at the expense of a claim at its most: the level of its last unit may be above that of others.
    move_units(room - sum(shares[i] for i in active), every, shares, weights, (least, most))
    return shares


def move_units(
    units: int,
    every: Sequence[int],
    shares: list[int],
    weights: Sequence[int],
    bounds: tuple[Sequence[int], Sequence[int]],
) -> None:
    """Add units to the shares, or subtract them if negative, so that rounding preserves the sum.

    The k-th unit of a share belongs to the level (k - 1/2) / weight. Units of the lowest levels are added, and those of
    the highest are removed.
    """
    if not units:
        return
    least, most = bounds
    step = 1 if units > 0 else -1

    # Levels differ by at least the inverse of the product of two weights, so with this many bits their order is exact.
    bits = 2 * max(weights[i] for i in every).bit_length()

    def entry(i: int) -> tuple[int, int]:
        level = ((2 * shares[i] + step) << bits) // weights[i]
        return step * level, step * i

    heap = [entry(i) for i in every if (shares[i] < most[i] if step > 0 else shares[i] > least[i])]
    heapq.heapify(heap)
    for _ in range(abs(units)):
        i = step * heap[0][1]
        shares[i] += step
        if shares[i] in (least[i], most[i]):
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, entry(i))
