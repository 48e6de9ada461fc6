"""Which queue is served next: by its share, by dominant resource fairness, or by its usage over time."""

from __future__ import annotations

import enum
import math
from collections.abc import Set

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.tree import QueueTree
from pyscheduler_plugins.queues.usage import DecayedUsage

_PRECISION = 1000
"""A key is computed anew after this fraction of the half-life, in which the average changes by 0.07 %."""


class QueueOrder(enum.StrEnum):
    """Order of queues (args.queueOrder)."""

    SHARE = "share"
    """The smallest ratio of allocated to deserved first."""
    DRF = "drf"
    """The smallest dominant share first."""
    USAGE = "usage"
    """The smallest usage over time first."""


class JobOrder(enum.StrEnum):
    """Order of the jobs of a queue that have one priority (args.jobOrder)."""

    TIME = "time"
    """By QueueSort: the time at which they became pending."""
    DRF = "drf"
    """The smallest dominant share first."""


class UsageOverTime:
    """Decayed usage of all queues."""

    def __init__(self, tree: QueueTree, half_life: float) -> None:
        self.now = 0.0
        """Seconds since 1970."""
        self._tree = tree
        self._half_life = half_life
        self._usages: dict[str, DecayedUsage] = {}
        self._keys: dict[str, tuple[float, float]] = {}
        """Sort key of a queue, and when it was computed."""

    def of(self, queue: str) -> DecayedUsage:
        """Return the usage of the queue and all queues below it, as of now."""
        return self._usages.get(queue, DecayedUsage(self.now)).advance(self.now, self._half_life)

    def record(self, queue: str) -> None:
        """Record that other amounts are allocated to the queue, and thereby to those above it, from now on."""
        for name in self._tree.path(queue) if queue in self._tree else ():
            self._usages[name] = self.of(name).record(self.now, self._tree.allocated(name), self._half_life)
            self._keys.pop(name, None)

    def add(self, queue: str, request: Amounts, seconds: float) -> None:
        """Add what a pod has used in the seconds before now."""
        part = -math.expm1(-math.log(2) * seconds / self._half_life)
        for name in self._tree.path(queue) if queue in self._tree else ():
            usage = self.of(name)
            average = {**usage.average}
            for resource, amount in request.items():
                average[resource] = average.get(resource, 0.0) + amount * part
            self._usages[name] = DecayedUsage(usage.at, average, usage.allocated)
            self._keys.pop(name, None)

    def next_queue(self, queues: Set[str]) -> str:
        """Return the one of these queues that is served next: the least usage for its weight, then the least share."""
        return self._tree.next_queue(queues, self._key)

    def _key(self, queue: str) -> float:
        at, key = self._keys.get(queue, (-math.inf, 0.0))
        if self.now - at > self._half_life / _PRECISION or self.now < at:
            weight = self._tree.queue(queue).weight
            share = self.of(queue).dominant_share(self._tree.capacity())
            at, key = self._keys[queue] = self.now, share / weight if weight else math.inf
        return key
