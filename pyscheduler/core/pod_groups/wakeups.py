"""Pod groups that the end of a pod cannot help, since all nodes together still lack room for their minimum.

The queueing hints are about single pods: any pod that ends would start an attempt of every group that waits for room.
"""

from __future__ import annotations

from collections.abc import Collection

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.backfill import may_reserve
from pyscheduler.core.pod_groups.eviction_units import has_lower_priority
from pyscheduler.core.pod_groups.room import insufficient_resources, least_requests, most_members
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.failure import Failure

_Least = tuple[tuple[str, int], ...]


def set_insufficient(queued: QueuedPodGroup, failures: Collection[Failure]) -> None:
    """Record what each member requests at least of the resources that were insufficient; nothing if none was."""
    queued.insufficient = ()
    if not failures:
        return
    least = least_requests(queued.pods)
    named = insufficient_resources(failures, least)
    queued.insufficient = tuple((resource, amount) for resource, amount in least.items() if resource in named)


class GroupWakeups:
    """Whether pods that have just ended may help groups; for one event."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rooms: dict[_Least, int] = {}
        self._evictions: dict[tuple[int, str, str], bool] = {}

    def may_help(self, queued: QueuedPod) -> bool:
        """Return False for a group that has too little room with certainty, and could not preempt or reserve any."""
        if not isinstance(queued, QueuedPodGroup) or not queued.insufficient:
            return True
        groups = self._context.groups
        group = groups.requirements(queued.key)
        if not isinstance(group, PodGroup) or self._room(queued.insufficient) >= groups.needed_count(group):
            return True
        return may_reserve(self._context, queued) or (group.may_preempt and self._may_evict(queued, group))

    def _room(self, least: _Least) -> int:
        room = self._rooms.get(least)
        if room is None:
            room = self._rooms[least] = most_members(self._context.state.table(), dict(least))
        return room

    def _may_evict(self, queued: QueuedPodGroup, group: PodGroup) -> bool:
        """Return True if there are pods that the group could preempt or reclaim, or that are terminating."""
        key = queued.pod.priority, group.queue, group.key.namespace
        may_evict = self._evictions.get(key)
        if may_evict is None:
            context = self._context
            may_evict = self._evictions[key] = (
                has_lower_priority(context, queued.pod.priority)
                or context.groups.has_reclaim_candidates(group)
                or bool(context.state.placed.nodes_with_terminating_pods())
            )
        return may_evict
