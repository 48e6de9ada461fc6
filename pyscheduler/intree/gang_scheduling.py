"""GangScheduling: the pods of a PodGroup are held back until enough of them can start together (KEP-4671, alpha)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyscheduler.api import (
    POD,
    Action,
    ClusterEvent,
    Cycle,
    Hint,
    Interest,
    NodeInfo,
    PermitPlugin,
    Pod,
    PreEnqueuePlugin,
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
    """

    name = "GangScheduling"
    watches = (POD_GROUP,)

    def interests(self) -> Sequence[Interest]:
        # Neither the group of a pod nor the policy of a PodGroup can change.
        return (
            Interest(POD, Action.ADD, self._member_came),
            Interest(POD_GROUP.kind, Action.ADD, self._own_group_came),
        )

    def _member_came(self, pod: Pod, event: ClusterEvent) -> Hint:
        group = _group_of(pod)
        return queue_if(group is not None and group == _group_of(event.new))

    def _own_group_came(self, pod: Pod, event: ClusterEvent) -> Hint:
        meta = _mapping(event.new, "metadata")
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
        if least is not None and len(self.handle.pods_grouped(*group)) < least:
            text = "waiting for minCount pods from a gang to appear in scheduling queue"
            return Rejection(text, resolvable=False)
        return None

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
            raise StatusError(f"failed to get podGroup {namespace}/{name}: {missing}")
        least = _min_count(pod_group)
        if least is None:
            return None
        members = self.handle.pods_grouped(*group)
        placed = {uid for uid in members if self.handle.has_place(uid)}
        if len(placed) < least:
            self.handle.activate([member for uid, member in members.items() if uid not in placed])
            return Wait(PERMIT_TIMEOUT, "waiting for minCount pods from a gang to be scheduled")
        for uid in members:
            waiting = self.handle.waiting_pod(uid)
            if waiting is not None:
                waiting.allow(self.name)
        return None

    def affected(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> Sequence[WaitingPod]:
        """Return one member of the event's group: a run of `permit` for it decides for all of them."""
        return list(super().affected(event, waiting))[:1]


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
