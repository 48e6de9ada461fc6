"""How much may be used now: the limit that a budget sets, less what tasks hold."""

from __future__ import annotations

from typing import Protocol

import msgspec

from pyscheduler.backend.resources import Resources


class Offer(msgspec.Struct, frozen=True):
    """What may be used now; `free` None: as much as one likes. Resources that `free` does not name are not limited."""

    free: Resources | None = None

    def missing(self, wanted: Resources) -> Resources:
        """What the offer lacks of so much; nothing where it suffices."""
        return Resources() if self.free is None else wanted.missing(self.free)


class Budget(Protocol):
    """Where the limit comes from."""

    async def limit(self, ours: Resources) -> Resources | None:
        """The most that all tasks together may hold, None for no limit. Asked at start and now and then.

        `ours` is what the pods of our tasks take at the moment, for budgets that see it among what others take.
        ClusterProblem if it cannot be told; then the last answer holds.
        """
        ...


class FixedBudget:
    """A limit that is given once."""

    def __init__(self, limit: Resources) -> None:
        self._limit = limit

    async def limit(self, ours: Resources) -> Resources:  # noqa: ARG002  # nobody else has a part in it
        """As given."""
        return self._limit
