"""Turns: a job that needs more than the whole share of its queue borrows for a time what other queues deserve.

Such a job would wait for ever while others request their shares: what becomes free is theirs at once. So its queue
has a credit, in seconds: it grows by 1 a second while the queue has allocated nothing, and not at all at its share. At
`borrow_after` it is full, and the turn of the job begins: claims of other queues to their shares do not hold it back,
only their guarantees. What it has allocated above the share uses up the credit; until then, it is not reclaimed. So the
queue does not allocate more than its share on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pyscheduler.api.pod_group import PodGroupKey
from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.queue_delays import QueueDelays
from pyscheduler_plugins.queues.tree import QueueTree

_ROUNDING = 1e-3
"""Seconds that a full credit may lack."""


class Turns:
    """Credits of the queues with such jobs. Those of other queues are not known, and begin at 0."""

    def __init__(self, tree: QueueTree, delays: QueueDelays) -> None:
        self._tree, self._delays = tree, delays
        self._now = 0.0
        self._credits: dict[str, float] = {}
        self._minimums: dict[PodGroupKey, Amounts] = {}
        """Requests of the minimum of each job that waits for its turn or has had one."""

    def __bool__(self) -> bool:
        """Return True if the credit of a queue is counted."""
        return bool(self._credits)

    def advance(self, now: float) -> None:
        """Count the time until now, in which nothing has changed."""
        seconds, self._now = max(0.0, now - self._now), now
        for queue, credit in list(self._credits.items()):
            if queue not in self._tree or not self._is_needed(queue):
                del self._credits[queue]
                continue
            grown = credit + seconds * (1.0 - float(self._tree.share(queue)))
            self._credits[queue] = min(self._full(queue), max(0.0, grown))

    def _is_needed(self, queue: str) -> bool:
        """Return True while the queue has pending jobs, or more than its share."""
        allocated, requested = self._tree.allocated(queue), self._tree.requested(queue)
        return any(n > allocated.get(r, 0) for r, n in requested.items()) or bool(self._tree.over_deserved(queue))

    def _full(self, queue: str) -> float:
        return self._delays.of(queue).borrow_after or 0.0

    def seconds_until(self, key: PodGroupKey, queue: str, request: Mapping[str, int], now: float) -> float | None:
        """Return in how many seconds the turn of a job begins at the earliest; infinity for never, None for no need.

        The credit of its queue is counted from now on.
        """
        allocated, tree = self._tree.usage(key).allocated, self._tree
        minimum = {r: n + allocated.get(r, 0) for r, n in request.items()}
        queues = self._borrowing(queue, minimum)
        if not queues:
            return None
        shares = [tree.deserved(each).get(r, 0) for each in queues for r, n in request.items() if n > 0]
        is_possible = all(n <= tree.most_besides_guarantees(queue, r) for r, n in minimum.items() if n > 0)
        if not all(shares) or not is_possible or math.inf in map(self._full, queues):
            return math.inf
        if not self._credits:
            self._now = now
        self._minimums[key] = minimum
        return max(self._seconds_until_full(each) for each in queues)

    def _seconds_until_full(self, queue: str) -> float:
        self._credits.setdefault(queue, 0.0)
        missing, growth = self._missing(queue), 1.0 - float(self._tree.share(queue))
        if missing <= 0:
            return 0.0
        return missing / growth if growth > 0 else math.inf

    def _missing(self, queue: str) -> float:
        missing = self._full(queue) - self._credits.get(queue, 0.0)
        return missing if missing > _ROUNDING else 0.0

    def has_turn(self, key: PodGroupKey, queue: str, request: Mapping[str, int]) -> bool:
        """Return True if the job may borrow for the request now: for its minimum, not for pods above it."""
        minimum, allocated = self._minimums.get(key), self._tree.usage(key).allocated
        if minimum is None or any(n > 0 and allocated.get(r, 0) + n > minimum.get(r, 0) for r, n in request.items()):
            return False
        queues = self._borrowing(queue, minimum)
        return bool(queues) and not any(map(self._missing, queues))

    def seconds_left(self, queue: str, jobs: Iterable[tuple[PodGroupKey, str]]) -> Sequence[float]:
        """Return for how many seconds jobs, with their queues, are not reclaimed for one of another queue."""
        return [0.0 if theirs == queue else self._seconds_left(key, theirs) for key, theirs in jobs]

    def _seconds_left(self, key: PodGroupKey, queue: str) -> float:
        if key not in self._minimums:
            return 0.0
        credits = [self._credits_end(each) for each in self._borrowing(queue, self._tree.usage(key).allocated)]
        return min(credits, default=0.0)

    def _credits_end(self, queue: str) -> float:
        above = float(self._tree.share(queue)) - 1.0
        credit = self._credits.get(queue, 0.0)
        return credit / above if above > 0 else 0.0

    def _borrowing(self, queue: str, amounts: Mapping[str, int]) -> list[str]:
        """Return the queues from this one up that deserve less than the amounts of a single job."""
        above = self._tree.path(queue)[:-1] if queue in self._tree else ()
        return [q for q in above if any(n > self._tree.deserved(q).get(r, 0) for r, n in amounts.items() if n > 0)]

    def remove(self, key: PodGroupKey) -> None:
        """Drop a job that has no more pods."""
        self._minimums.pop(key, None)
