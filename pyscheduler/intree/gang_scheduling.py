"""GangScheduling: hold the pods of a PodGroup until enough of them can start together (KEP-4671, GenericWorkload)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from pyscheduler.api import (
    POD,
    SUCCEEDED_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    Diagnosis,
    Handle,
    NodeInfo,
    Nominate,
    PermitPlugin,
    Pod,
    PreEnqueuePlugin,
    QueueingHint,
    Rejection,
    ResourceKind,
    StatusError,
    Wait,
    WaitingPod,
)
from pyscheduler.intree._hints import queue_if

POD_GROUPS = tuple(
    ResourceKind("scheduling.k8s.io", version, "podgroups", "PodGroup", optional=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""PodGroups in the versions that Kubernetes 1.37 and 1.36 (v1alpha2) serve; the fields read here are the same."""
PERMIT_TIMEOUT = 5 * 60.0
"""Seconds that a member waits in Permit for the others."""


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """Start the pods of a group (spec.schedulingGroup) once spec.schedulingPolicy.gang.minCount of them have a node.

    PreEnqueue gates members until their PodGroup and minCount members exist. Permit makes each member wait, its node
    reserved, until minCount members are reserved. Pods of groups with the basic policy are scheduled as any other pod.

    Members are scheduled one by one. Kube-scheduler's pod group cycle, topology placement and preemption for pod groups
    are not implemented: a group that fits only in part holds its reservations until the first member has waited for 5
    minutes, and two such groups can block each other for that long.

    Differences to kube-scheduler: succeeded members count (kubernetes#142330), waiting members are rejected when
    their PodGroup is deleted, and no pod is evicted for a member before minCount members can start.
    """

    name = "GangScheduling"
    watches = POD_GROUPS
    counts_succeeded = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._unschedulable: dict[tuple[str, str], set[str]] = {}
        """Members found unschedulable since a member of their group last reached Permit."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # The group of a pod is immutable; minCount of a PodGroup may be lowered.
        return (
            ClusterEventWithHint(POD, Action.ADD, self._member_added),
            ClusterEventWithHint(SUCCEEDED_POD, Action.ADD, self._member_added),
            ClusterEventWithHint(
                POD_GROUPS[0].kind, Action.ADD | Action.UPDATE | Action.DELETE, self._pod_group_changed
            ),
        )

    def _member_added(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        group = _group_of(pod)
        return queue_if(group is not None and group == _group_of(event.new))

    def _pod_group_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        meta = _mapping(event.new or event.old, "metadata")
        return queue_if(_group_of(pod) == (meta.get("namespace", ""), meta.get("name", "")))

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        group = _group_of(pod)
        if group is None:
            return None
        pod_group = self._pod_group(group)
        if pod_group is None:
            text = f'waiting for pods\'s pod group "{group[1]}" to appear in scheduling queue'
            return Rejection(text, resolvable=False)
        min_count = _min_count(pod_group)
        if min_count is not None and len(self.handle.pods.by_pod_group(*group)) < min_count:
            text = "waiting for minCount pods from a gang to appear in scheduling queue"
            return Rejection(text, resolvable=False)
        return None

    def gate_key(self, pod: Pod) -> tuple[str, str] | None:
        return _group_of(pod)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | None:
        """Return Wait until minCount members are reserved; the last of them allows all waiting members."""
        group = _group_of(pod)
        if group is None:
            return None
        pod_group = self._pod_group(group)
        if pod_group is None:
            namespace, name = group
            # The error requeues the pod soon; by then PreEnqueue gates it, or the PodGroup exists again.
            missing = f'podgroup.{POD_GROUPS[0].group} "{name}" not found'
            for waiting in self._waiting(group):
                waiting.reject(self.name, missing)
            raise StatusError(f"failed to get podGroup {namespace}/{name}: {missing}")
        min_count = _min_count(pod_group)
        if min_count is None:
            return None
        self._unschedulable.pop(group, None)
        placed = self._placed(group)
        if len(placed) < min_count:
            self._activate(group, placed)
            return Wait(PERMIT_TIMEOUT, "waiting for minCount pods from a gang to be scheduled")
        for waiting in self._waiting(group):
            waiting.allow(self.name)
        return None

    def handle_unschedulable(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, nominated: Nominate | None
    ) -> Rejection | None:
        """Allow preemption for a member once minCount members have a node or a nomination."""
        group = _group_of(pod)
        pod_group = None if group is None else self._pod_group(group)
        min_count = None if pod_group is None else _min_count(pod_group)
        if group is None or min_count is None:
            return None
        if nominated is None:
            self._clear_nominations_if_unstartable(group, min_count, pod)
            return None
        members, startable = self.handle.pods.by_pod_group(*group), self._placed(group) | {pod.uid}
        startable |= {uid for uid, member in members.items() if self.handle.nominator.nominated_node(member)}
        if len(startable) < min_count:
            self._activate(group, startable)
            return Rejection("waiting for minCount pods from a gang to find room before pods are evicted")
        # Members nominated in memory only, without a nominated node in their status, have yet to preempt.
        self.handle.activate(
            m for uid, m in members.items() if uid in startable - {pod.uid} and not m.nominated_node_name
        )
        return None

    def _clear_nominations_if_unstartable(self, group: tuple[str, str], min_count: int, pod: Pod) -> None:
        """Record the pod as unschedulable; clear the group's nominations if too few members can still start."""
        members = self.handle.pods.by_pod_group(*group)
        unschedulable = self._unschedulable.setdefault(group, set())
        unschedulable.add(pod.uid)
        if len(members.keys() - unschedulable) < min_count:
            del self._unschedulable[group]
            self.handle.nominator.clear(members.values())

    def _pod_group(self, group: tuple[str, str]) -> Mapping[str, Any] | None:
        """Return the PodGroup in the newest version that the API server has it in; None if there is none."""
        found = (self.handle.objects[kind].get(group) for kind in POD_GROUPS)
        return next((pod_group for pod_group in found if pod_group is not None), None)

    def _placed(self, group: tuple[str, str]) -> set[str]:
        """Return the members that count as started: bound, assumed or succeeded."""
        members = self.handle.pods.by_pod_group(*group)
        return {
            uid
            for uid, member in members.items()
            if member.phase == "Succeeded" or self.handle.pods.is_assigned_or_assumed(uid)
        }

    def _activate(self, group: tuple[str, str], placed: Set[str]) -> None:
        self.handle.activate(m for uid, m in self.handle.pods.by_pod_group(*group).items() if uid not in placed)

    def _waiting(self, group: tuple[str, str]) -> list[WaitingPod]:
        found = (self.handle.waiting_pods.get(uid) for uid in self.handle.pods.by_pod_group(*group))
        return [waiting for waiting in found if waiting is not None]

    def affected_pods(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> Sequence[WaitingPod]:
        """Return one member of the event's group: running `permit` for it decides for all of them."""
        return list(super().affected_pods(event, waiting))[:1]


def _group_of(pod: Pod) -> tuple[str, str] | None:
    """Return (namespace, name) of the pod's PodGroup, None if it has none."""
    group = pod.spec.scheduling_group
    return None if group is None or not group.pod_group_name else (pod.namespace, group.pod_group_name)


def _min_count(pod_group: Mapping[str, Any]) -> int | None:
    """Return minCount of a gang; None for a group with another policy."""
    policy = _mapping(_mapping(pod_group, "spec"), "schedulingPolicy")
    if not isinstance(policy.get("gang"), Mapping):
        return None
    min_count = policy["gang"].get("minCount")
    return min_count if isinstance(min_count, int) else 0


def _mapping(obj: Any, key: str) -> Mapping[str, Any]:
    """Return the mapping at a key, {} if there is none."""
    value = obj.get(key) if isinstance(obj, Mapping) else None
    return value if isinstance(value, Mapping) else {}
