"""Times that the queues of a tree allow before their pods are evicted."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pyscheduler_plugins.queues.delays import NO_DELAYS, Delays
from pyscheduler_plugins.queues.tree import QueueTree


class QueueDelays:
    """Times of all queues, with those of the queues above and the defaults."""

    def __init__(self, tree: QueueTree, defaults: Delays) -> None:
        self._tree, self._defaults = tree, defaults.or_else(NO_DELAYS)
        self._resolved: dict[str, Delays] = {}
        self.has_min_run = False
        """True if pods of some queue have a minimum run time."""
        self.evicting: tuple[str, ...] = ()
        """Queues from which pods are evicted while they are over their quotas, each after its parent."""

    def set_queues(self) -> None:
        """Read the times of all queues of the tree."""
        self._resolved = resolved = dict[str, Delays]()
        for name in self._tree:
            queue = self._tree.queue(name)
            resolved[name] = queue.delays.or_else(resolved.get(queue.parent, self._defaults))
        self.has_min_run = any(each.reclaim_min_run or each.preempt_min_run for each in resolved.values())
        self.evicting = tuple(
            name
            for name, each in resolved.items()
            if each.quota_eviction not in (None, math.inf) and self._tree.queue(name).capability
        )

    def of(self, queue: str) -> Delays:
        """Return the times of a queue, all of which are set."""
        return self._resolved.get(queue, self._defaults)

    def min_run_seconds(self, queue: str, others: Iterable[str]) -> list[float]:
        """Return how long pods of the other queues have run before a job of this queue may evict them."""
        delays = ((self.of(each), each == queue) for each in others)
        return [(each.preempt_min_run if is_own else each.reclaim_min_run) or 0.0 for each, is_own in delays]
