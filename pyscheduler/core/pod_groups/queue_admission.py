"""Admission of gated members: once their quota admits them, their gate is removed, and the quota is kept for them.

admitted_members    members whose gates are to be removed now
admit               remove them; the group is held until the watch shows that they are gone
reserve_admitted    after an attempt without room: keep the quota of those that were admitted
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.commands import CallApi
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.queue_gate import has_only_queue_gate, is_admitted, remove_gate
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.failure import QUOTA_EXCEEDED, Failure


def gated_members(queued: QueuedPodGroup) -> list[Pod]:
    """Return the pending members that wait for their queue to remove their gate."""
    return [member.pod for member in queued.members.values() if has_only_queue_gate(member.pod)]


def admitted_members(context: Context, group: PodGroup, pods: Sequence[Pod], gated: Sequence[Pod]) -> Sequence[Pod]:
    """Return those of the gated members that the quota admits together with the other pending `pods`.

    The quota admits what the minimum needs. Of a group with roles or subgroups, it then admits all members: which of
    them the minimum needs is known once they are placed.
    """
    groups, total = context.groups, _requests(pods)
    if not groups.exceeded(group, total):
        return gated
    needed = groups.needed_count(group) if groups.shortage(group, ()) else 0
    if needed and (group.min_count_by_role or group.subgroups):
        return gated
    needed -= len(pods) - len(gated)
    total.subtract(_requests(gated))
    admitted: list[Pod] = []
    refused: list[Mapping[str, int]] = []
    for pod in sorted(gated, key=lambda pod: sum(pod.requests.effective.values())):
        request = pod.requests.effective
        if request in refused:
            continue  # thousands of equal pods may be above the minimum
        more = total + Counter(request)
        if len(admitted) < needed or not groups.exceeded(group, more):
            admitted.append(pod)
            total = more
        else:
            refused.append(request)
    return admitted


def admit(
    context: Context, group: PodGroup, queued: QueuedPodGroup, admitted: Sequence[Pod], now: float
) -> list[CallApi]:
    """Remove the gates of these members, and end the attempt of their group."""
    groups, uids = context.groups, {pod.uid for pod in admitted}
    groups.gate_removals.start(group.key, admitted)
    groups.reserve(group.key, [pod for pod in queued.pods if pod.uid in uids or not has_only_queue_gate(pod)])
    context.quota_waits.end_placed(queued)
    context.queue.end_admission(queued, now)
    return [CallApi(groups.quota_name, partial(remove_gate, pod), retries=True) for pod in admitted]


def reserve_admitted(context: Context, queued: QueuedPodGroup, failures: Mapping[str, Failure]) -> None:
    """Keep the quota of admitted members that have no node, unless it has been exceeded since."""
    failed = [(queued.members[uid].pod, failure) for uid, failure in failures.items()]
    kept = [(pod, failure) for pod, failure in failed if failure.reason != QUOTA_EXCEEDED]
    if any(is_admitted(pod) for pod, _ in kept):
        pods = [pod for pod, failure in kept if is_admitted(pod) or failure.nominate]
        context.groups.reserve(queued.key, pods)


def _requests(pods: Sequence[Pod]) -> Counter[str]:
    total = Counter[str]()
    for pod in pods:
        total.update(pod.requests.effective)
    return total
