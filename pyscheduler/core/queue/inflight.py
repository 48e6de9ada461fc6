"""In-flight pods, and the events that happened during their attempts.

An event that would have requeued a pod must not be lost because the pod was in an attempt on an older state: it is
recorded, and replayed when the pod returns as unschedulable. While a pod waits in Permit there may be hundreds of
thousands of events: beyond a limit they are dropped, and the pod is retried as if one of them had helped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.labels import POD_POPPED, label_of

MOST_EVENTS = 1 << 11
"""Maximum number of recorded events. To evaluate more of them for each of a thousand pods that return together would
delay all other pods; a needless attempt costs less."""


class InFlight:
    """Popped pods that are not done, with one shared list of events.

    Pods are in the order in which they were popped, so events before the first pod's number can be dropped.
    """

    def __init__(self) -> None:
        self.pods: dict[str, tuple[int, QueuedPod]] = {}
        """Pods by UID, each with the number of events recorded before it was popped."""
        self._events: list[ClusterEvent] = []
        self._forgotten = 0

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, queued in self.pods.values())

    @property
    def recorded(self) -> int:
        """Number of recorded events."""
        return len(self._events)

    def counts(self) -> Mapping[str, int]:
        """Return the recorded events by label, and the in-flight pods, which kube-scheduler counts in the same list."""
        return {POD_POPPED: len(self.pods), **Counter(map(label_of, self._events))}

    def start(self, queued: QueuedPod) -> None:
        """Add a popped pod."""
        self.pods[queued.pod.uid] = (self._forgotten + len(self._events), queued)

    def record(self, event: ClusterEvent) -> None:
        """Record an event if any pod is in flight."""
        if self.pods:
            self._events.append(event)
            if len(self._events) > MOST_EVENTS:
                self._forget(MOST_EVENTS // 2)

    def events_since_start(self, uid: str) -> Sequence[ClusterEvent] | None:
        """Return the events since the pod was popped; None if it is not in flight, or some were dropped."""
        start, _ = self.pods.get(uid, (-1, None))
        if start < self._forgotten:
            return None
        return self._events[start - self._forgotten :] if self._events else ()

    def done(self, uid: str) -> None:
        """End the attempt of a pod, and drop the events that only this pod needed."""
        if self.pods.pop(uid, None) is None or not self._events:
            return
        oldest, _ = next(iter(self.pods.values()), (self._forgotten + len(self._events), None))
        self._forget(max(oldest - self._forgotten, 0))

    def _forget(self, events: int) -> None:
        """Drop the oldest events."""
        del self._events[:events]
        self._forgotten += events
