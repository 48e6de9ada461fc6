"""Backoff queue: pods that wait some seconds after a failed attempt before they are retried.

Expiries are whole seconds and pods leave in whole-second batches: within a batch they are sorted as in the active
queue, so that the order does not depend on the millisecond of the failure (KEP-5142). Pods that a plugin rejected may
be popped early while the active queue is empty; pods with an error may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.pod import LARGE
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.ordered import OrderedPods, by_priority_and_time, report_sort_failure

EARLY_POP_DELAY = 0.1
"""Seconds between a failed attempt of a pod and its earliest early pop.

kube-scheduler has no such pause: two pods that wake each other by their failures keep it in a busy loop.
"""
EARLY_POP_PAUSE = 0.01
"""Seconds without early pops after any failed attempt, unless an event requeues a pod meanwhile.

If thousands of pods wait for the same node, each pod that ends there requeues all of them: one gets the freed
resources, and the attempts of all others would fail and take CPU time from the API server.
"""
RETRIED_PODS = 100.0
"""Pods a second, and at once, that may be retried without their backoff: each event might cause an attempt."""
_MOST_DOUBLINGS = 64
"""Limit of the exponent, which keeps the power within a float; any backoff reaches its maximum before."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff in seconds (podInitialBackoffSeconds, podMaxBackoffSeconds).

    1, 2, 4, 8, 10, 10 … by default. A maximum of 0 disables it. A large pod waits one more second per LARGE bytes:
    an attempt for 2 MB takes up to 0.4 s of CPU, and any event may requeue the pod.
    """

    initial: float = 1.0
    maximum: float = 10.0

    def seconds(self, queued: QueuedPod) -> float:
        """Return the backoff after the last attempt; consecutive errors are counted separately from rejections."""
        failures = queued.error_count or queued.unschedulable_count
        if not failures:
            return 0.0
        backoff = _exponential(self.initial, self.maximum, failures)
        return backoff + queued.pod.size // LARGE if queued.pod.is_large else backoff

    def count_failure(self, queued: QueuedPod) -> None:
        """Count a failed attempt, without rejecting plugins an error, and begin the backoff."""
        if queued.unschedulable_plugins or queued.pending_plugins:
            queued.unschedulable_count, queued.error_count = queued.unschedulable_count + 1, 0
        else:
            queued.error_count += 1
        queued.backoff_expiry = self.expiry(queued)

    def expiry(self, queued: QueuedPod) -> float:
        """Return the last whole second of the backoff; the pod leaves at the start of the next one."""
        return float(math.floor(queued.timestamp + self.seconds(queued)))

    def is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        """Return True if the pod is still backing off; a pod without a failed attempt never is."""
        if self.maximum <= 0 or not (queued.error_count or queued.unschedulable_count):
            return False
        return queued.backoff_expiry >= math.floor(now)


class RetryBudget:
    """Token bucket of retries without backoff, one token for each pod of an attempt."""

    def __init__(self) -> None:
        self._tokens = RETRIED_PODS
        self._at = 0.0

    def take(self, pods: int, now: float) -> bool:
        """Take tokens if any is left, maybe more than are left; returns False otherwise."""
        self._tokens = min(RETRIED_PODS, self._tokens + (now - self._at) * RETRIED_PODS)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= pods
        return True


@lru_cache(1024)
def _exponential(initial: float, maximum: float, failures: int) -> float:
    return min(math.ldexp(initial, min(failures - 1, _MOST_DOUBLINGS)), maximum)


class BackoffQueue:
    """kube-scheduler's backoffQ: separate queues for rejected pods and for pods with an error."""

    def __init__(self, sort: QueueSortPlugin, instrument: Instrument, index: TierIndex) -> None:
        failed = report_sort_failure(sort, instrument)
        self._rejected = _Batches(lambda: OrderedPods(sort.sort_key, by_priority_and_time, failed, index))
        self._errors = _Batches(self._rejected.new_batch)
        self._no_early_pop_until = 0.0
        self._newest_event = 0  # when an attempt failed last

    def __len__(self) -> int:
        return len(self._rejected) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected
        yield from self._errors

    def add(self, queued: QueuedPod) -> None:
        """Add a pod with its `backoff_expiry` set; a pod without rejectors had an error.

        A large pod is queued with those: it must not be popped early.
        """
        rejected = queued.unschedulable_plugins or queued.pending_plugins
        batches = self._rejected if rejected and not queued.pod.is_large else self._errors
        batches.of(queued.backoff_expiry).add(queued)

    def pop(self) -> QueuedPod | None:
        """Remove and return any pod, or return None if the queue is empty."""
        return self._rejected.pop() or self._errors.pop()

    def pop_early(self, now: float) -> QueuedPod | None:
        """Remove and return the first rejected pod before its backoff ends; None if there is none or too early."""
        ready = self.next_early()
        return None if ready is None or now < ready else self._rejected.pop()

    def next_early(self) -> float | None:
        """Return the time from which `pop_early` returns a pod, or None."""
        head = self._rejected.first()
        return None if head is None else max(head.timestamp + EARLY_POP_DELAY, self._no_early_pop_until)

    def delay_early_pops(self, now: float, newest_event: int) -> None:
        """Pause early pops after a failed attempt, with the number of the newest event: the next would fail as well."""
        self._no_early_pop_until = now + EARLY_POP_PAUSE
        self._newest_event = newest_event

    def allow_early_pops(self, event: float = math.inf) -> None:
        """End the pause of early pops after an event that may help a pod, unless it is older than the last failure."""
        if event > self._newest_event:
            self._no_early_pop_until = 0.0

    def expired(self, now: float) -> OrderedPods | None:
        """Return pods with an expired backoff, rejected pods before those with an error, or None."""
        second = math.floor(now)
        for batches in (self._rejected, self._errors):
            expiry = batches.first_expiry()
            if expiry is not None and expiry < second:
                return batches.by_expiry[expiry]
        return None

    def next_release(self) -> float | None:
        """Return the time from which `expired` returns pods, or None."""
        expiries = (self._rejected.first_expiry(), self._errors.first_expiry())
        return min((expiry + 1 for expiry in expiries if expiry is not None), default=None)


class _Batches:
    """Pods by the last second of their backoff: there are a dozen of these, and pods are sorted within one of them."""

    def __init__(self, new_batch: Callable[[], OrderedPods]) -> None:
        self.new_batch = new_batch
        self.by_expiry: dict[float, OrderedPods] = {}
        self._expiries: list[float] = []
        """Heap of the keys of `by_expiry`: every attempt reads the first one several times."""

    def __len__(self) -> int:
        return sum(map(len, self.by_expiry.values()))

    def __iter__(self) -> Iterator[QueuedPod]:
        for _, batch in sorted(self.by_expiry.items()):
            yield from batch

    def of(self, expiry: float) -> OrderedPods:
        """Return the batch of an expiry for adding pods."""
        batch = self.by_expiry.get(expiry)
        if batch is None:
            batch = self.by_expiry[expiry] = self.new_batch()
            heappush(self._expiries, expiry)
        return batch

    def first_expiry(self) -> float | None:
        """Return the expiry of the batch that is released first, or None without pods."""
        while self._expiries:
            expiry = self._expiries[0]
            if self.by_expiry[expiry].entries:
                return expiry
            del self.by_expiry[heappop(self._expiries)]
        return None

    def first(self) -> QueuedPod | None:
        """Return the pod that `pop` would return, or None."""
        expiry = self.first_expiry()
        return None if expiry is None else self.by_expiry[expiry].first()

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod of the first batch, or return None."""
        expiry = self.first_expiry()
        return None if expiry is None else self.by_expiry[expiry].pop()
