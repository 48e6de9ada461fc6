"""Pods that are being attempted, and the events that happened meanwhile.

An event that would have woken a pod must not be missed because the pod was just being tried against the older state of
the cluster: it is recorded, and replayed when the pod comes back unschedulable. A pod that Permit lets wait may miss
hundreds of thousands: so many are not kept, and it is tried again as if one of them had helped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.labels import POD_POPPED, label_of

MOST_EVENTS = 1 << 11
"""Events that are kept. To weigh more of them, for each of a thousand pods that come back together, would hold up
everybody else; an attempt in vain costs less."""


class InFlight:
    """Popped pods that are not done, with one list of events that they share.

    Each pod remembers how many events had been recorded when it was popped. Pods are kept in the order in which they
    were popped, so the first one tells which events nobody needs any more.
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[int, QueuedPod]] = {}
        self._events: list[ClusterEvent] = []
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, queued in self._pods.values())

    @property
    def recorded(self) -> int:
        """How many events are kept."""
        return len(self._events)

    def counts(self) -> Mapping[str, int]:
        """Events kept, by label, and pods that are being attempted, as kube-scheduler counts them in one list."""
        return {POD_POPPED: len(self._pods), **Counter(map(label_of, self._events))}

    def start(self, queued: QueuedPod) -> None:
        """An attempt begins."""
        self._pods[queued.pod.uid] = (self._forgotten + len(self._events), queued)

    def record(self, event: ClusterEvent) -> None:
        """Keep an event for the pods that are being attempted; without any, it is not needed."""
        if self._pods:
            self._events.append(event)
            if len(self._events) > MOST_EVENTS:
                self._forget(MOST_EVENTS // 2)

    def events_since_start(self, uid: str) -> Sequence[ClusterEvent] | None:
        """What happened since the pod was popped; None if it is not in flight, or too much has happened."""
        start, _ = self._pods.get(uid, (-1, None))
        return None if start < self._forgotten else self._events[start - self._forgotten :]

    def done(self, uid: str) -> None:
        """The attempt is over; events that only this pod could have needed are dropped."""
        if self._pods.pop(uid, None) is None or not self._events:
            return
        oldest, _ = next(iter(self._pods.values()), (self._forgotten + len(self._events), None))
        self._forget(max(oldest - self._forgotten, 0))

    def _forget(self, events: int) -> None:
        """Drop the oldest."""
        del self._events[:events]
        self._forgotten += events
