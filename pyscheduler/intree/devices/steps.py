"""Limit of the work of one allocation, counted and not timed: decisions do not depend on the clock."""

from __future__ import annotations

from pyscheduler.intree.devices.errors import AllocationTimeoutError, SearchTooLongError


class Steps:
    """Devices and positions that a search tries, and devices that its checks consider: 1 to 3 µs each."""

    __slots__ = ("_left", "_limit", "used")

    def __init__(self, limit: int, left: int) -> None:
        """`limit` is that of any node, `left` is what other nodes have left of the limit for all nodes."""
        self._limit = limit
        self._left = left
        self.used = 0

    def take(self, number: int = 1) -> None:
        """Count steps. SearchTooLongError or AllocationTimeoutError if there are too many."""
        self.used += number
        if self.used > self._limit:
            raise SearchTooLongError
        if self.used > self._left:
            raise AllocationTimeoutError
