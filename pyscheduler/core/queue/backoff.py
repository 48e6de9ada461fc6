"""Pods that have to wait before they are tried again, so that a hopeless pod does not eat the scheduler's time.

Expiries are whole seconds and pods leave in whole-second batches: within a batch they are sorted as in the active
queue, so that a pod's place does not depend on the millisecond in which it failed (KEP-5142). Pods that a plugin
rejected may be taken early when nothing else is to be done; pods whose attempt ended in an error may not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.pod import LARGE, Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.active import QUEUE_SORT, by_priority_and_time
from pyscheduler.core.queue.ordered import OrderedPods

EARLY_POP_DELAY = 0.1
"""Seconds that a pod is left alone after a failed attempt even if nothing else is to be done.

kube-scheduler has no such pause: two pods whose failures wake each other keep it spinning as fast as it can decide.
"""
EARLY_POP_PAUSE = 0.01
"""Seconds in which no pod is taken early after an attempt has failed, unless an event wakes somebody meanwhile.

Where thousands wait for the same room, each pod that leaves wakes them all, one of them gets its place, and all others
would be tried in vain; the API server needs the core for the next one that leaves.
"""
_MOST_DOUBLINGS = 64
"""Beyond this any initial backoff has reached any maximum; it keeps the power within a float."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a pod waits after a failed attempt, in seconds (podInitialBackoffSeconds, podMaxBackoffSeconds).

    1, 2, 4, 8, 10, 10 … by default. A maximum of 0 switches backing off off. A large pod waits for another second for
    each LARGE bytes of it: an attempt of 2 MB costs up to 0.4 s of CPU, and any event may requeue it.
    """

    initial: float = 1.0
    maximum: float = 10.0

    def seconds(self, queued: QueuedPod) -> float:
        """The wait after the last attempt; errors in a row are counted apart from rejections."""
        failures = queued.error_count or queued.unschedulable_count
        if not failures:
            return 0.0
        return (
            min(math.ldexp(self.initial, min(failures - 1, _MOST_DOUBLINGS)), self.maximum) + queued.pod.size // LARGE
        )

    def expiry(self, queued: QueuedPod) -> float:
        """The whole second up to which the pod has to wait; it may go when a later second has begun."""
        return float(math.floor(queued.timestamp + self.seconds(queued)))

    def holds(self, queued: QueuedPod, now: float) -> bool:
        """Whether the pod is still backing off; a pod that has not been tried yet never is."""
        if self.maximum <= 0 or not (queued.error_count or queued.unschedulable_count):
            return False
        return queued.backoff_expiry >= math.floor(now)


class BackoffQueue:
    """kube-scheduler's backoffQ: one order for rejected pods, another for pods that met an error."""

    def __init__(self, sort: QueueSortPlugin, instrument: Instrument) -> None:
        self._rejected = OrderedPods(
            key=lambda queued: (queued.backoff_expiry, sort.sort_key(queued)),
            stand_in=lambda queued: (queued.backoff_expiry, *by_priority_and_time(queued)),
            failed=lambda error: instrument.plugin_failed(sort.name, QUEUE_SORT, error),
        )
        self._errors = OrderedPods(key=_expiry, stand_in=_expiry, failed=lambda _: None)
        self._no_early_pop_until = 0.0

    def __len__(self) -> int:
        return len(self._rejected) + len(self._errors)

    def __contains__(self, uid: str) -> bool:
        return uid in self._rejected or uid in self._errors

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected
        yield from self._errors

    def get(self, uid: str) -> QueuedPod | None:
        return self._rejected.get(uid) or self._errors.get(uid)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod with its `backoff_expiry` set; one without rejectors has met an error.

        A large pod is not taken early either.
        """
        rejected = queued.unschedulable_plugins or queued.pending_plugins
        (self._rejected if rejected and not queued.pod.is_large else self._errors).add(queued)

    def replace(self, pod: Pod) -> bool:
        """Take a new version of a pod in; False if it is not there."""
        return self._rejected.replace(pod) or self._errors.replace(pod)

    def remove(self, uid: str) -> QueuedPod | None:
        """Take the pod out; None if it is not there."""
        return self._rejected.remove(uid) or self._errors.remove(uid)

    def pop(self) -> QueuedPod | None:
        """Take out any pod; None if there is none."""
        return self._rejected.pop() or self._errors.pop()

    def pop_early(self, now: float) -> QueuedPod | None:
        """The rejected pod that would be the next to leave, before its time; None if there is none to be had."""
        ready = self.next_early()
        return None if ready is None or now < ready else self._rejected.pop()

    def next_early(self) -> float | None:
        """When `pop_early` will next have something to give, if nothing happens before."""
        head = self._rejected.first()
        return None if head is None else max(head.timestamp + EARLY_POP_DELAY, self._no_early_pop_until)

    def delay_early_pops(self, now: float) -> None:
        """An attempt has failed: the next pod would hardly fare better."""
        self._no_early_pop_until = now + EARLY_POP_PAUSE

    def allow_early_pops(self) -> None:
        """Something has happened since that may help a pod."""
        self._no_early_pop_until = 0.0

    def release(self, now: float) -> QueuedPod | None:
        """Take out a pod with an expired backoff: rejected pods first, then those of errors. None if there is none."""
        second = math.floor(now)
        for pods in (self._rejected, self._errors):
            head = pods.first()
            if head is not None and head.backoff_expiry < second:
                return pods.pop()
        return None

    def next_release(self) -> float | None:
        """When `release` will next have something to give."""
        heads = (pods.first() for pods in (self._rejected, self._errors))
        return min((head.backoff_expiry + 1 for head in heads if head is not None), default=None)


def _expiry(queued: QueuedPod) -> float:
    return queued.backoff_expiry
