"""GangScheduling: start the pods of a PodGroup together (KEP-4671, feature gate GenericWorkload)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from pyscheduler.api import (
    POD,
    POD_GROUP_API,
    SUCCEEDED_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    DisruptionMode,
    NodeInfo,
    PermitPlugin,
    Pod,
    PodGroup,
    PodGroupKey,
    PodGroupPlugin,
    PreEnqueuePlugin,
    QueueingHint,
    Rejection,
    ResourceKind,
    StatusError,
    TopologyConstraint,
    Wait,
    WaitingPod,
)
from pyscheduler.intree._hints import queue_if

POD_GROUPS = tuple(
    ResourceKind(POD_GROUP_API, version, "podgroups", "PodGroup", optional=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""PodGroups in the versions that Kubernetes 1.37 and 1.36 (v1alpha2) serve; the fields read here are the same."""
_PREEMPT, _NEVER = "PreemptLowerPriority", "Never"
PERMIT_TIMEOUT = 5 * 60.0
"""Seconds that a member waits in Permit for the others."""


class GangScheduling(PreEnqueuePlugin, PermitPlugin, PodGroupPlugin):
    """Schedule the pods of a PodGroup (spec.schedulingGroup) in one cycle, according to its schedulingPolicy.

    PreEnqueue gates members until their PodGroup and spec.schedulingPolicy.gang.minCount members exist. The group is
    scheduled once minCount of them fit; a group with the basic policy once one of them fits. Permit holds members that
    are fewer, because another plugin has rejected some.

    Differences to kube-scheduler: succeeded members count (kubernetes#142330), and waiting members are rejected when
    their PodGroup is deleted.
    """

    name = "GangScheduling"
    watches = POD_GROUPS
    counts_succeeded = True
    has_preemption_policy: ClassVar[bool] = False
    """True if spec.preemptionPolicy of a PodGroup counts, which its pods must have then."""

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
        group = group_key_of(pod)
        return queue_if(group is not None and group == group_key_of(event.new))

    def _pod_group_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        meta = mapping(event.new or event.old, "metadata")
        return queue_if(group_key_of(pod) == (meta.get("namespace", ""), meta.get("name", "")))

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        group = group_key_of(pod)
        if group is None:
            return None
        pod_group = self._pod_group(group)
        if pod_group is None:
            return missing_pod_group(group[1])
        min_count = min_count_of(pod_group)
        if min_count is not None and len(self.handle.pods.by_pod_group(*group)) < min_count:
            text = "waiting for minCount pods from a gang to appear in scheduling queue"
            return Rejection(text, resolvable=False)
        return None

    def gate_key(self, pod: Pod) -> Hashable | None:
        return group_key_of(pod)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | None:
        """Return Wait until minCount members are reserved; the last of them allows all waiting members."""
        group = group_key_of(pod)
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
        min_count = min_count_of(pod_group)
        if min_count is None:
            return None
        if self._placed_count(group) < min_count:
            return Wait(PERMIT_TIMEOUT, "waiting for minCount pods from a gang to be scheduled")
        for waiting in self._waiting(group):
            waiting.allow(self.name)
        return None

    # -- requirements ------------------------------------------------------------------------------------------------

    def group_of(self, pod: Pod) -> PodGroupKey | None:
        group = group_key_of(pod)
        return None if group is None else PodGroupKey(*group, POD_GROUP_API)

    def pod_group(self, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
        kind = next((k for k in POD_GROUPS if self.handle.objects[k].get((key.namespace, key.name)) is not None), None)
        if kind is None:
            return missing_pod_group(key.name)
        obj = self.handle.objects[kind][key.namespace, key.name]
        group = declared_group(key, kind, obj)
        return group if isinstance(group, Rejection) else self._with_members(group, obj, members)

    def _with_members(self, group: PodGroup, obj: Mapping[str, Any], members: Collection[Pod]) -> PodGroup:
        """Return the requirements with what depends on the members of the group."""
        policy = mapping(obj, "spec").get("preemptionPolicy") or _PREEMPT if self.has_preemption_policy else ""
        # All members have the same policy, otherwise there is an error.
        may_preempt = policy != _NEVER if policy else all(_preemption_policy(pod) != _NEVER for pod in members)
        return replace(group, may_preempt=may_preempt, error=_mismatch(members, group.priority or 0, policy))

    def changed_groups(self, event: ClusterEvent) -> Iterable[PodGroupKey]:
        meta = mapping(event.new or event.old, "metadata")
        old, new = event.old, event.new
        if old and new and old.get("spec") == new.get("spec") and _uid(old) == _uid(new):
            return ()
        return (PodGroupKey(meta.get("namespace", ""), meta.get("name", ""), POD_GROUP_API),)

    def _pod_group(self, group: tuple[str, str]) -> Mapping[str, Any] | None:
        """Return the PodGroup in the newest version that the API server has it in; None if there is none."""
        found = (self.handle.objects[kind].get(group) for kind in POD_GROUPS)
        return next((pod_group for pod_group in found if pod_group is not None), None)

    def _placed_count(self, group: tuple[str, str]) -> int:
        """Return the number of members that count as started: bound, assumed or succeeded."""
        members = self.handle.pods.by_pod_group(*group)
        is_placed = self.handle.pods.is_assigned_or_assumed
        return sum(member.phase == "Succeeded" or is_placed(uid) for uid, member in members.items())

    def _waiting(self, group: tuple[str, str]) -> list[WaitingPod]:
        found = (self.handle.waiting_pods.get(uid) for uid in self.handle.pods.by_pod_group(*group))
        return [waiting for waiting in found if waiting is not None]

    def affected_pods(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> Sequence[WaitingPod]:
        """Return one member of the event's group: running `permit` for it decides for all of them."""
        return list(super().affected_pods(event, waiting))[:1]


class GangSchedulingByGroupPolicy(GangScheduling):
    """GangScheduling with the feature gate PodGroupPreemptionPolicy."""

    has_preemption_policy = True


def declared_group(key: PodGroupKey, kind: ResourceKind, obj: Mapping[str, Any]) -> PodGroup | Rejection:
    """Return the requirements in a PodGroup, or in a CompositePodGroup without those of its children."""
    spec, meta = mapping(obj, "spec"), mapping(obj, "metadata")
    priority, min_count = spec.get("priority") or 0, min_count_of(obj)
    topology = mapping(spec, "schedulingConstraints").get("topology") or ()
    if not isinstance(priority, int):
        return _invalid(key, "priority", priority)
    if not isinstance(topology, Sequence) or not all(_has_key(each) for each in topology):
        return _invalid(key, "schedulingConstraints.topology", topology)
    return PodGroup(
        key=key,
        min_count=1 if min_count is None else max(1, min_count),
        priority=priority,
        disruption_mode=_disruption_mode(spec.get("disruptionMode")),
        topology=tuple(TopologyConstraint(each["key"]) for each in topology),
        created=meta.get("creationTimestamp") or "",
        uid=meta.get("uid") or "",
        kind=kind,
        has_kubernetes_messages=True,
        condition_type="PodGroupScheduled" if kind.version == "v1alpha2" else f"{kind.kind}InitiallyScheduled",
    )


def group_key_of(pod: Pod) -> tuple[str, str] | None:
    """Return (namespace, name) of the pod's PodGroup, None if it has none."""
    group = pod.spec.scheduling_group
    return None if group is None or not group.pod_group_name else (pod.namespace, group.pod_group_name)


def missing_pod_group(name: str) -> Rejection:
    """Return the Rejection of the pods of a PodGroup that does not exist, in kube-scheduler's words."""
    return Rejection(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue', resolvable=False)


def _invalid(key: PodGroupKey, field: str, value: object) -> Rejection:
    """Return the Rejection of a PodGroup that the API server of Kubernetes would not have accepted."""
    return Rejection(f"PodGroup {key}: spec.{field}: Invalid value: {str(value)[:100]}", resolvable=False)


def _has_key(constraint: object) -> bool:
    return isinstance(constraint, Mapping) and isinstance(constraint.get("key"), str)


def _mismatch(members: Collection[Pod], priority: int, policy: str) -> str:
    """Return how the pods of a group differ from each other or from it, as validatePodGroup reports it; "" if not.

    `policy` is the preemption policy of the group; "" if it has none of its own.
    """
    same = "all pods in a single pod group should have the same"
    first = next(iter(members))
    for pod in members:
        if pod.scheduler_name != first.scheduler_name:
            return f'{same} .spec.schedulerName set, got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
        if pod.priority != priority:
            return f"{same} priority as the pod group's priority, got {pod.priority} and {priority}"
        own = _preemption_policy(pod)
        if policy and own != policy:
            return f"{same} preemption policy as the pod group's preemption policy, got {own} and {policy}"
        if own != _preemption_policy(first):
            return f"{same} preemption policy, got {own} and {_preemption_policy(first)}"
    return ""


def _preemption_policy(pod: Pod) -> str:
    return pod.spec.preemption_policy or _PREEMPT


def _disruption_mode(value: object) -> DisruptionMode:
    """Return the disruption mode: an object with one field, in v1alpha2 an enum."""
    is_all = value == "PodGroup" if isinstance(value, str) else isinstance(value, Mapping) and "all" in value
    return DisruptionMode.ALL if is_all else DisruptionMode.POD


def _uid(obj: Mapping[str, Any]) -> object:
    return mapping(obj, "metadata").get("uid")


def min_count_of(pod_group: Mapping[str, Any]) -> int | None:
    """Return minCount of a gang; None for a group with another policy."""
    policy = mapping(mapping(pod_group, "spec"), "schedulingPolicy")
    if not isinstance(policy.get("gang"), Mapping):
        return None
    min_count = policy["gang"].get("minCount")
    return min_count if isinstance(min_count, int) else 0


def mapping(obj: Any, key: str) -> Mapping[str, Any]:
    """Return the mapping at a key, {} if there is none."""
    value = obj.get(key) if isinstance(obj, Mapping) else None
    return value if isinstance(value, Mapping) else {}
