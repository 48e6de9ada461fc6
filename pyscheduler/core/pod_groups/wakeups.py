"""Pod groups that the end of a pod cannot help, since all nodes together still lack room for their minimum.

The queueing hints are about single pods: any pod that ends would start an attempt of every group that waits for room.
"""

from __future__ import annotations

from collections.abc import Collection

from pyscheduler.api.handle import Handle
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.backfill import may_reserve
from pyscheduler.core.pod_groups.eviction_units import has_lower_priority, may_fit_without_lower_priority
from pyscheduler.core.pod_groups.room import insufficient_resources, least_requests, most_members, without_delegated
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.failure import Failure

_Least = tuple[tuple[str, int], ...]


def set_insufficient(handle: Handle, queued: QueuedPodGroup, failures: Collection[Failure]) -> None:
    """Record what each member requests at least of the resources that were insufficient; nothing if none was."""
    queued.insufficient = ()
    if not failures:
        return
    least = without_delegated(handle, least_requests(queued.pods))
    named = insufficient_resources(failures, least)
    queued.insufficient = tuple((resource, amount) for resource, amount in least.items() if resource in named)


class GroupWakeups:
    """Whether pods that have just ended may help groups; for one event."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rooms: dict[_Least, int] = {}
        self._others: dict[tuple[str, str], bool] = {}
        self._preemptions: dict[tuple[int, _Least, int], bool] = {}

    def may_help(self, queued: QueuedPod) -> bool:
        """Return False for a group that has too little room with certainty, and could not preempt or reserve any."""
        if not isinstance(queued, QueuedPodGroup) or not queued.insufficient:
            return True
        groups = self._context.groups
        group = groups.requirements(queued.key)
        if not isinstance(group, PodGroup) or self._room(queued.insufficient) >= groups.needed_count(group):
            return True
        profile = self._context.profiles[queued.pod.scheduler_name]
        if profile.may_make_room_for_groups or may_reserve(self._context, queued):
            return True
        return group.may_preempt and (self._may_take_from_others(group) or self._may_preempt(queued, group))

    def _room(self, least: _Least) -> int:
        room = self._rooms.get(least)
        if room is None:
            room = self._rooms[least] = most_members(self._context.state.table(), dict(least))
        return room

    def _may_take_from_others(self, group: PodGroup) -> bool:
        """Return True if the group might reclaim, or be nominated to nodes with terminating pods."""
        key = group.queue, group.key.namespace
        found = self._others.get(key)
        if found is None:
            terminating = self._context.state.placed.nodes_with_terminating_pods()
            found = self._others[key] = bool(terminating) or self._context.groups.has_reclaim_candidates(group)
        return found

    def _may_preempt(self, queued: QueuedPodGroup, group: PodGroup) -> bool:
        """Return True if the pods of a lower priority may leave enough room."""
        context, needed = self._context, self._context.groups.needed_count(group)
        key = queued.pod.priority, queued.insufficient, needed
        found = self._preemptions.get(key)
        if found is None:
            priority, least, _ = key
            found = self._preemptions[key] = has_lower_priority(context, priority) and may_fit_without_lower_priority(
                context, priority, dict(least), needed
            )
        return found
