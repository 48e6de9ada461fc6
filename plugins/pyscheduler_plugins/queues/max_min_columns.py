"""NumPy form of `max_min`: shares of one resource for a thousand claims in a fraction of a millisecond.

Products of amounts and weights may exceed 64 bits: a petabyte is 2^50 bytes, and weights sum to 2^26. So a product is
never formed: with `a, b = divmod(room, total)`, the exact share `room * weight / total` is `a * weight`, at most the
room, plus `b * weight / total`, of which both factors are small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from pyscheduler_plugins.queues.max_min import move_units

Ints = NDArray[np.int64]
MAX_AMOUNT = 2**62
"""Larger amounts are stored as this one: the form returns None for a capacity that is not below it."""
_FAR = 2
"""Distance from the exact share from which on shares are not told apart when units are moved."""


class ClaimColumns(Struct, frozen=True):
    """Claims to one resource: the fields of `Claim` in columns, at most MAX_AMOUNT each."""

    weights: Ints
    limits: Ints
    guarantees: Ints
    deserved: Ints


def max_min_columns(capacity: int, claims: ClaimColumns) -> Ints | None:
    """Return the shares that `max_min` returns; None for what only that computes.

    That is a capacity of 2^62 or more, and guarantees or deserved amounts above the capacity, which are weights then.
    """
    if not 0 <= capacity < MAX_AMOUNT:
        return None
    limits = np.minimum(claims.limits, capacity)  # no share is larger
    if exact_sum(limits) <= capacity:
        return limits
    least = np.minimum(np.maximum(claims.guarantees, claims.deserved), capacity)
    if exact_sum(least) > capacity:
        return None
    shares = _fill(capacity, claims.weights, least, limits)
    if exact_sum(shares) < capacity:
        shares = _fill(capacity, (claims.weights == 0).astype(np.int64), shares, limits)
    return shares


def exact_sum(amounts: Ints) -> int:
    """Return the sum, which may exceed 64 bits."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFF_FFFF).sum())


def _fill(capacity: int, weights: Ints, least: Ints, most: Ints) -> Ints:
    """Return what `max_min.fill` returns. The arguments are not changed."""
    shares = least.copy()
    every = ((weights > 0) & (most > least)).nonzero()[0]
    of_every = weights, least, most = weights[every], least[every], most[every]
    room = whole_room = capacity - exact_sum(shares) + exact_sum(least)
    if exact_sum(most) <= room:
        shares[every] = most
        return shares
    while True:
        level = _Level(room, int(weights.sum()), weights)
        low = level.whole < least
        high = (level.whole > most) | ((level.whole == most) & (level.rest > 0))
        raised = level.total * int((least - level.whole)[low].sum()) - int(level.rest[low].sum())
        lowered = level.total * int((level.whole - most)[high].sum()) + int(level.rest[high].sum())
        if raised == lowered:
            break
        frozen, bound = (low, least) if raised > lowered else (high, most)
        room -= exact_sum(bound[frozen])
        left = ~frozen
        weights, least, most = weights[left], least[left], most[left]
    shares[every] = _Level(room, level.total, of_every[0]).round(whole_room, *of_every[1:])
    return shares


class _Level:
    """The exact shares without limits, at the level of a room and a total weight: `whole` plus `rest` of `total`."""

    def __init__(self, room: int, total: int, weights: Ints) -> None:
        self._weights = weights
        self.total = total
        each, remainder = divmod(room, total) if total else (0, 0)
        parts = remainder * weights
        quotients = parts // max(1, total)
        self.whole = np.where(weights > MAX_AMOUNT // max(1, each), MAX_AMOUNT, each * weights) + quotients
        self.rest = parts - quotients * self.total
        # Levels differ by at least the inverse of the product of two weights.
        self._bits = 2 * int(weights.max(initial=1)).bit_length()

    def round(self, room: int, least: Ints, most: Ints) -> Ints:
        """Return integral shares within the bounds that sum to the room, each near the exact one (Webster's method)."""
        shares: Ints = np.clip(self.whole + (2 * self.rest >= self.total), least, most)
        units = room - exact_sum(shares)
        if units:
            moved = self._moved(units, shares, least, most)
            if moved is None:
                # A heavy claim gets or loses several units before others one.
                every, as_list = range(len(shares)), shares.tolist()
                move_units(units, every, as_list, self._weights.tolist(), (least.tolist(), most.tolist()))
                return np.array(as_list, np.int64)
            shares[moved] += 1 if units > 0 else -1
        return shares

    def _moved(self, units: int, shares: Ints, least: Ints, most: Ints) -> Sequence[int] | Ints | None:
        """Return the positions of the shares that get or lose a unit; None if one of them would get two."""
        step, count = (1, units) if units > 0 else (-1, -units)
        open_at = (shares < most if step > 0 else shares > least).nonzero()[0]
        if len(open_at) < count or ((2 * _FAR + 5) * self.total) << self._bits >= MAX_AMOUNT:
            return None
        distance = np.clip(shares - self.whole, -_FAR, _FAR)[open_at]
        first = self._order(2 * distance + step, open_at)
        order = np.argsort(first, kind="stable")
        moved = order[:count] if step > 0 else order[-count:]
        last = first[moved[-1]] if step > 0 else first[moved[0]]
        again = self._order(2 * distance[moved] + 3 * step, open_at[moved])
        if (abs(distance[moved]) == _FAR).any() or (step * again <= step * last).any():
            return None
        return open_at[moved]

    def _order(self, halves: Ints, at: Ints) -> Ints:
        """Return keys that sort these half units above the exact shares by their levels, as `move_units` does."""
        return ((halves * self.total - 2 * self.rest[at]) << self._bits) // self._weights[at]
