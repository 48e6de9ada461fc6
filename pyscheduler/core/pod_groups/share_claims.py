"""Groups without a claim to the share of their queue: what is kept for them would be idle.

would_not_start    a group that would not fit even if nothing else ran
cannot_be_helped   a group that lacks something else than room, and that no pods may be evicted for
"""

from __future__ import annotations

from collections.abc import Mapping

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.min_resources import missing_resources
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.pod_groups.preemption import GroupPreemptionSearch, depends_on_other_nodes
from pyscheduler.core.pod_groups.room import (
    fits_empty_nodes,
    insufficient_resources,
    usable_amounts,
    without_delegated,
)
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.failure import UNSCHEDULABLE, Failure


def would_not_start(context: Context, group: PodGroup, queued: QueuedPodGroup, search: PlacementSearch) -> bool:
    """Return True if the group would not fit into an empty cluster or a limit of its users, after its attempt."""
    if group.accounts and context.groups.exceeded_limit(group, context.groups.needed(group, queued.pods)):
        return True
    return _is_too_large(context, group, queued) or _is_unresolvable(context, group, queued, search)


def _is_unresolvable(context: Context, group: PodGroup, queued: QueuedPodGroup, search: PlacementSearch) -> bool:
    """Return True if evictions would not help enough members, of which a node selector matches no node for example."""
    stuck = {uid for uid, failure in search.failures.items() if failure.is_unresolvable}
    others = [pod for pod in queued.pods if pod.uid not in stuck]
    return bool(stuck) and bool(context.groups.shortage(group, others))


def _is_too_large(context: Context, group: PodGroup, queued: QueuedPodGroup) -> bool:
    """Return True if the group lacks resources that it would lack even if nothing else ran."""
    nodes, least = context.state.table(), dict(queued.insufficient)
    required = without_delegated(context.handle, group.min_resources)
    usable = usable_amounts(nodes, required)
    if any(amount > usable[resource] for resource, amount in required.items()):
        return True
    return bool(least) and not fits_empty_nodes(nodes, least, context.groups.needed_count(group))


def cannot_be_helped(
    context: Context, group: PodGroup, queued: QueuedPodGroup, failures: Mapping[str, Failure], now: float
) -> Steps[bool]:
    """Return True if the group lacks a device, a port or the like, which evictions would not give it.

    Called after an attempt that evicts nothing. A group that lacks room only keeps its claim: running pods end.
    """
    groups, pods = context.groups, queued.pods
    if group.topology or group.subgroups or not any(map(_needs_more_than_room, pods)):
        return False
    lacks_room = all(failure.reason == UNSCHEDULABLE for failure in failures.values())
    if not lacks_room or not groups.shortage(group, ()) or missing_resources(context, group, queued.pod.priority):
        return False
    if context.quota_waits.is_timed(queued) or any(map(context.queue.nominator.nominated_node, pods)):
        return False  # evictions help later
    if not queued.insufficient:
        return True
    members = list(queued.members.values())
    search = GroupPreemptionSearch(context, group, queued.pod.priority, members, now, queued.insufficient)
    missing = yield from search.failures_without_candidates(list(failures.values()))
    return bool(missing) and not insufficient_resources(missing, dict(queued.insufficient))


def _needs_more_than_room(pod: Pod) -> bool:
    return bool(pod.signature.host_ports) or depends_on_other_nodes(pod)
