"""Admission of gated members: once their quota admits them, their gate is removed, and the quota is kept for them.

admitted_members    members that lose their gates now
admit               remove them; the group is held until the watch shows that they are gone
reserve_admitted    after an attempt without room: keep the quota of those that were admitted
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.commands import CallApi
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.claim_usage import sum_of
from pyscheduler.core.pod_groups.queue_gate import GateRemoval, has_only_queue_gate, is_admitted
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.failure import QUOTA_EXCEEDED, Failure


def gated_members(queued: QueuedPodGroup) -> list[Pod]:
    """Return the pending members that wait for their queue to remove their gate."""
    return [member.pod for member in queued.members.values() if has_only_queue_gate(member.pod)]


def admitted_members(context: Context, group: PodGroup, pods: Sequence[Pod], gated: Sequence[Pod]) -> Sequence[Pod]:
    """Return those of the gated members that the quota admits together with the other pending `pods`.

    Those that the minimum needs are admitted together or not at all, then those above it one by one.
    """
    groups = context.groups
    if not groups.exceeded(group, groups.requests_of(group, pods)):
        return gated
    ungated = [pod for pod in pods if not has_only_queue_gate(pod)]
    smallest_first = sorted(gated, key=groups.size_of)
    needed = _needed_members(context, group, ungated, smallest_first)
    if needed and groups.exceeded(group, groups.requests_of(group, (*ungated, *needed))):
        return ()
    chosen = {pod.uid for pod in needed}
    surplus = [pod for pod in smallest_first if pod.uid not in chosen]
    return [*needed, *_within_quota(context, group, (*ungated, *needed), surplus)]


def _needed_members(context: Context, group: PodGroup, ungated: Sequence[Pod], gated: Sequence[Pod]) -> Sequence[Pod]:
    """Return the gated members that the minimum needs besides the ungated ones: the first ones, roles considered."""
    groups = context.groups
    if not group.min_count_by_role and not group.subgroups:
        needed = groups.needed_count(group) if groups.shortage(group, ()) else 0
        return gated[: max(0, needed - len(ungated))]
    present = Counter(map(groups.role_of, ungated)) if group.min_count_by_role else Counter[str]()
    needed_roles, others = list[Pod](), list[Pod]()
    for pod in gated:
        role = groups.role_of(pod) if group.min_count_by_role else ""
        is_needed = present[role] < group.min_count_by_role.get(role, 0)
        present[role] += is_needed
        (needed_roles if is_needed else others).append(pod)
    ordered = [*needed_roles, *others]
    count = bisect_left(range(len(ordered)), True, key=lambda n: not groups.shortage(group, (*ungated, *ordered[:n])))
    return ordered[:count]


def _within_quota(context: Context, group: PodGroup, others: Sequence[Pod], pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that the quota admits one by one, in their order, besides the others."""
    groups, admitted = context.groups, list[Pod]()
    total = groups.requests_of(group, others)
    refused: list[Mapping[str, int]] = []
    for pod in pods:
        request = groups.requests_of(group, (pod,))
        if request in refused:
            continue  # thousands of equal pods may be above the minimum
        more = sum_of((total, request))  # claims that the pods share count again here, and once in the next attempt
        if groups.exceeded(group, more):
            refused.append(request)
        else:
            admitted.append(pod)
            total = more
    return admitted


def admit(
    context: Context, group: PodGroup, queued: QueuedPodGroup, admitted: Sequence[Pod], now: float
) -> list[CallApi]:
    """Remove the gates of these members, and end the attempt of their group."""
    groups, uids = context.groups, {pod.uid for pod in admitted}
    groups.gate_removals.start(group.key, admitted)
    groups.reserve(group.key, [pod for pod in queued.pods if pod.uid in uids or not has_only_queue_gate(pod)])
    context.quota_waits.end_placed(queued)
    context.queue.retry_group(queued, now)
    return [CallApi(groups.quota_name, GateRemoval(pod), retries=True) for pod in admitted]


def reserve_admitted(context: Context, queued: QueuedPodGroup, failures: Mapping[str, Failure]) -> None:
    """Keep the quota of admitted members that have no node, as far as it is not exceeded.

    A tenant may write the annotation of admitted pods: it reserves no more than the quota allows.
    """
    failed = [(queued.members[uid].pod, failure) for uid, failure in failures.items()]
    kept = [(pod, failure) for pod, failure in failed if failure.reason != QUOTA_EXCEEDED]
    if not any(is_admitted(pod) for pod, _ in kept):
        return
    group = context.groups.requirements(queued.key)
    nominated = [pod for pod, failure in kept if failure.nominate]
    admitted = [pod for pod, failure in kept if is_admitted(pod) and not failure.nominate]
    groups = context.groups
    if isinstance(group, PodGroup) and groups.exceeded(group, groups.requests_of(group, (*nominated, *admitted))):
        admitted = _within_quota(context, group, nominated, admitted)
    context.groups.reserve(queued.key, (*nominated, *admitted))


def failures_of_ungated(queued: QueuedPodGroup, failures: Mapping[str, Failure]) -> Mapping[str, Failure]:
    """Return the failures of members without a gate, if there are any: those above the minimum wait for their quota."""
    ungated = {uid: each for uid, each in failures.items() if not has_only_queue_gate(queued.members[uid].pod)}
    return ungated or failures
