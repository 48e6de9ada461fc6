"""GangScheduling: the pods of a PodGroup are held back until enough of them can start together (KEP-4671, alpha)."""

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

POD_GROUP = ResourceKind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", optional=True)
PERMIT_TIMEOUT = 5 * 60.0
"""Seconds for which a member waits for the others."""


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """Starts the pods of a group (spec.schedulingGroup) once spec.schedulingPolicy.gang.minCount of them have a place.

    PreEnqueue keeps members out of the active queue until their PodGroup and minCount of them are there; Permit lets
    each wait with its place held until minCount hold one. Pods of groups with the basic policy are placed as any pod.

    Members are tried one by one. Kube-scheduler's cycle for whole pod groups, its placement by topology and its
    preemption for pod groups are not there: a group that finds room for a part of its pods only holds that room until
    the first of them has waited for 5 minutes, and two such groups may be in each other's way for that long.

    Beyond kube-scheduler 1.36, members that have succeeded count (kubernetes#142330), members stop waiting when their
    PodGroup is deleted, and no pod is evicted for a member before minCount members can start.
    """

    name = "GangScheduling"
    watches = (POD_GROUP,)
    counts_succeeded = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._unfit: dict[tuple[str, str], set[str]] = {}
        """The members that have found no place since one of their group last did."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Neither the group of a pod nor the policy of a PodGroup can change.
        return (
            ClusterEventWithHint(POD, Action.ADD, self._member_added),
            ClusterEventWithHint(SUCCEEDED_POD, Action.ADD, self._member_added),
            ClusterEventWithHint(POD_GROUP.kind, Action.ADD | Action.DELETE, self._pod_group_changed),
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
        pod_group = self.handle.objects(POD_GROUP).get(group)
        if pod_group is None:
            text = f'waiting for pods\'s pod group "{group[1]}" to appear in scheduling queue'
            return Rejection(text, resolvable=False)
        least = _min_count(pod_group)
        if least is not None and len(self.handle.pods_by_pod_group(*group)) < least:
            text = "waiting for minCount pods from a gang to appear in scheduling queue"
            return Rejection(text, resolvable=False)
        return None

    def gate_key(self, pod: Pod) -> tuple[str, str] | None:
        return _group_of(pod)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | None:
        """Wait until minCount members have a place; the one that makes them so many lets all go."""
        group = _group_of(pod)
        if group is None:
            return None
        pod_group = self.handle.objects(POD_GROUP).get(group)
        if pod_group is None:
            namespace, name = group
            # Tried again soon: by then PreEnqueue will find it missing, or it is there again.
            missing = f'podgroup.{POD_GROUP.group} "{name}" not found'
            for waiting in self._waiting(group):
                waiting.reject(self.name, missing)
            raise StatusError(f"failed to get podGroup {namespace}/{name}: {missing}")
        least = _min_count(pod_group)
        if least is None:
            return None
        self._unfit.pop(group, None)
        placed = self._placed(group)
        if len(placed) < least:
            self._activate(group, placed)
            return Wait(PERMIT_TIMEOUT, "waiting for minCount pods from a gang to be scheduled")
        for waiting in self._waiting(group):
            waiting.allow(self.name)
        return None

    def handle_unschedulable(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, nominated: Nominate | None
    ) -> Rejection | None:
        """Let pods be evicted for a member once minCount members have a place or would have one by evictions."""
        group = _group_of(pod)
        pod_group = None if group is None else self.handle.objects(POD_GROUP).get(group)
        least = None if pod_group is None else _min_count(pod_group)
        if group is None or least is None:
            return None
        if nominated is None:
            self._clear_nominations_if_too_few_left(group, least, pod)
            return None
        members, able = self.handle.pods_by_pod_group(*group), self._placed(group) | {pod.uid}
        able |= {uid for uid, member in members.items() if self.handle.nominated_node(member)}
        if len(able) < least:
            self._activate(group, able)
            return Rejection("waiting for minCount pods from a gang to find room before pods are evicted")
        # Those that hold room in memory only are to evict as well: their status does not mention a node yet.
        self.handle.activate(m for uid, m in members.items() if uid in able - {pod.uid} and not m.nominated_node_name)
        return None

    def _clear_nominations_if_too_few_left(self, group: tuple[str, str], least: int, pod: Pod) -> None:
        """A member has found no place: where too few others are left, the room that they hold in memory is freed."""
        members = self.handle.pods_by_pod_group(*group)
        unfit = self._unfit.setdefault(group, set())
        unfit.add(pod.uid)
        if len(members.keys() - unfit) < least:
            del self._unfit[group]
            self.handle.clear_nominations(members.values())

    def _placed(self, group: tuple[str, str]) -> set[str]:
        """The members that count as started: on a node, on their way there, or run to their end."""
        members = self.handle.pods_by_pod_group(*group)
        return {
            uid
            for uid, member in members.items()
            if member.phase == "Succeeded" or self.handle.is_assigned_or_assumed(uid)
        }

    def _activate(self, group: tuple[str, str], placed: Set[str]) -> None:
        self.handle.activate(m for uid, m in self.handle.pods_by_pod_group(*group).items() if uid not in placed)

    def _waiting(self, group: tuple[str, str]) -> list[WaitingPod]:
        found = (self.handle.waiting_pod(uid) for uid in self.handle.pods_by_pod_group(*group))
        return [waiting for waiting in found if waiting is not None]

    def affected_pods(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> Sequence[WaitingPod]:
        """Return one member of the event's group: a run of `permit` for it decides for all of them."""
        return list(super().affected_pods(event, waiting))[:1]


def _group_of(pod: Pod) -> tuple[str, str] | None:
    """Namespace and name of the PodGroup that the pod belongs to, None if to none."""
    group = pod.spec.scheduling_group
    return None if group is None or not group.pod_group_name else (pod.namespace, group.pod_group_name)


def _min_count(pod_group: Mapping[str, Any]) -> int | None:
    """How many members a gang needs at least; None for a group that is no gang."""
    policy = _mapping(_mapping(pod_group, "spec"), "schedulingPolicy")
    if not isinstance(policy.get("gang"), Mapping):
        return None
    least = policy["gang"].get("minCount")
    return least if isinstance(least, int) else 0


def _mapping(obj: Any, key: str) -> Mapping[str, Any]:
    """The mapping at a key, empty where there is none."""
    value = obj.get(key) if isinstance(obj, Mapping) else None
    return value if isinstance(value, Mapping) else {}
