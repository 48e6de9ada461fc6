"""Pods that are being attempted, and the events that happened meanwhile.

An event that would have woken a pod must not be missed because the pod was just being tried against the older state of
the cluster: it is recorded, and replayed when the pod comes back unschedulable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.labels import POD_POPPED, label_of


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

    def events_since_start(self, uid: str) -> Sequence[ClusterEvent] | None:
        """What happened since the pod was popped; None if it is not in flight."""
        if uid not in self._pods:
            return None
        start, _ = self._pods[uid]
        return self._events[start - self._forgotten :]

    def done(self, uid: str) -> None:
        """The attempt is over; events that only this pod could have needed are dropped."""
        if self._pods.pop(uid, None) is None or not self._events:
            return
        oldest, _ = next(iter(self._pods.values()), (self._forgotten + len(self._events), None))
        del self._events[: oldest - self._forgotten]
        self._forgotten = oldest
