"""UUIDs of claims that an attempt creates."""

from __future__ import annotations

from uuid import UUID

from pyscheduler.api import Cycle


class RandomUuids:
    """Random UUIDs that depend on the attempt only, so that a replayed attempt gives the same."""

    def __init__(self, cycle: Cycle, first: int = 0) -> None:
        """Begin with UUID number `first`."""
        self._rng = cycle.rng()
        for _ in range(first):
            self.next()

    def next(self) -> str:
        """Return the next UUID."""
        return str(UUID(int=self._rng.getrandbits(128), version=4))
