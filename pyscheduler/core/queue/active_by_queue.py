"""Active queue with a part for each queue of the Quota plugin, which chooses the queue that is served next.

Within a queue the QueueSort plugin sorts, as in the active queue without quotas. What is in no queue comes before or
after the chosen queue by priority and time: pods of profiles without queues, and critical pods, which no queue delays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.ordered import ActiveQueue, OrderedPods, by_priority_and_time
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup

CRITICAL_PRIORITY = 2_000_000_000
"""Priority of system-cluster-critical."""
_NO_QUEUE = ""


class ActiveByQueue:
    """Active pods of several queues."""

    def __init__(
        self, sort: QueueSortPlugin, instrument: Instrument, index: TierIndex, groups: PodGroupManager
    ) -> None:
        self._sort = sort
        self._instrument = instrument
        self._index = index
        self._groups = groups
        self.entries: dict[str, str] = {}
        """Name of the queue of every pod by UID."""
        self._by_queue: dict[str, ActiveQueue] = {}
        """Queues that are not empty."""

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods queue by queue, each in its order."""
        for pods in self._by_queue.values():
            yield from pods

    def get(self, uid: str) -> QueuedPod | None:
        return self._by_queue[self.entries[uid]].get(uid) if uid in self.entries else None

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not in yet, as the latest arrival of its queue."""
        queue, uid = self._queue_of(queued), queued.pod.uid
        if queue not in self._by_queue:
            first = _by_share if self._groups.orders_groups else None
            self._by_queue[queue] = ActiveQueue(self._sort, self._instrument, {}, first)
        if isinstance(queued, QueuedPodGroup) and self._groups.orders_groups:
            queued.share = self._groups.group_share(queued.key)
        self._by_queue[queue].add(queued)
        self.entries[uid] = queue
        self._index[uid] = self

    def replace(self, pod: Pod) -> None:
        """Replace a pod that is in by its new version with the same arrival."""
        self._by_queue[self.entries[pod.uid]].replace(pod)

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a pod that is in."""
        return self._removed(self._by_queue[self.entries[uid]].remove(uid))

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod of the queue that is next; None if there is none."""
        if not self.entries:
            return None
        queued = self._by_queue[self._next_queue()].pop()
        assert queued is not None, "no queue is empty"
        return self._removed(queued)

    def take(self, others: OrderedPods) -> Iterator[QueuedPod]:
        """Move all pods of a queue with the same sort key here, one by one and in their order."""
        while (queued := others.pop()) is not None:
            self.add(queued)
            yield queued

    def _removed(self, queued: QueuedPod) -> QueuedPod:
        uid = queued.pod.uid
        queue = self.entries.pop(uid)
        del self._index[uid]
        if not self._by_queue[queue]:
            del self._by_queue[queue]
        return queued

    def _queue_of(self, queued: QueuedPod) -> str:
        if not isinstance(queued, QueuedPodGroup) or queued.pod.priority >= CRITICAL_PRIORITY:
            return _NO_QUEUE
        return self._groups.queue_of_key(queued.key)

    def _next_queue(self) -> str:
        queues = self._by_queue
        named = [queue for queue in queues if queue != _NO_QUEUE]
        chosen = self._groups.next_queue(_FirstRequests(named, self._request)) if len(named) > 1 else "".join(named)
        if chosen not in queues:
            return min(queues, key=self._first_key)  # the plugin failed
        return min((_NO_QUEUE, chosen), key=self._first_key) if _NO_QUEUE in queues else chosen

    def _request(self, queue: str) -> dict[str, int]:
        """Return what the minimum of the queue's first group needs."""
        first = self._by_queue[queue].first()
        group = self._groups.requirements(first.key) if isinstance(first, QueuedPodGroup) else None
        if not isinstance(first, QueuedPodGroup) or not isinstance(group, PodGroup):
            return {}
        return dict(self._groups.needed(group, first.pods))

    def _first_key(self, queue: str) -> tuple[int, float]:
        first = self._by_queue[queue].first()
        assert first is not None, "no queue is empty"
        return by_priority_and_time(first)


def _by_share(queued: QueuedPod) -> tuple[int, float]:
    """Return the sort key that precedes that of QueueSort."""
    if not isinstance(queued, QueuedPodGroup):
        return -queued.pod.priority, 0.0
    return -queued.pod.priority, -1.0 if queued.is_incomplete else queued.share


class _FirstRequests(Mapping[str, dict[str, int]]):
    """What the first group of each queue requests, computed when it is read."""

    def __init__(self, queues: Sequence[str], request: Callable[[str], dict[str, int]]) -> None:
        self._queues = dict.fromkeys(queues)
        self._request = request

    def __getitem__(self, queue: str) -> dict[str, int]:
        return self._request(queue)

    def __contains__(self, queue: object) -> bool:
        return queue in self._queues

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)
