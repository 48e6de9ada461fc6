"""Cluster events of an update, from the old and the new version of an object.

Matches kube-scheduler's event handlers (pkg/scheduler/eventhandlers.go): one event per kind of change, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.api.events import ASSIGNED_POD, NODE, UNSCHEDULED_POD, Action, ClusterEvent
from pyscheduler.api.objects import NodeCondition, NodeObject
from pyscheduler.api.pod import Pod
from pyscheduler.core.pod_groups.queue_gate import has_other_gates


def node_events(old: NodeObject, new: NodeObject) -> list[ClusterEvent]:
    """Return one event per change of a node that scheduling depends on; none for a heartbeat."""
    return [ClusterEvent(NODE, action, old, new, f"Node{_LABELS[action]}") for action in _node_actions(old, new)]


def _node_actions(old: NodeObject, new: NodeObject) -> Iterator[Action]:
    if old.status.allocatable != new.status.allocatable:
        yield Action.UPDATE_NODE_ALLOCATABLE
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        yield Action.UPDATE_NODE_LABEL
    uncordoned = old.spec.unschedulable and not new.spec.unschedulable
    if (old.spec.taints or ()) != (new.spec.taints or ()) or uncordoned:
        yield Action.UPDATE_NODE_TAINT
    if _statuses(old.status.conditions) != _statuses(new.status.conditions):
        yield Action.UPDATE_NODE_CONDITION
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        yield Action.UPDATE_NODE_ANNOTATION
    if old.spec.pod_preemption_policy != new.spec.pod_preemption_policy:
        yield Action.UPDATE_NODE_PREEMPTION_POLICY
    if (old.status.declared_features or ()) != (new.status.declared_features or ()):
        yield Action.UPDATE_NODE_DECLARED_FEATURE


def may_fit_other_pods(old: NodeObject, new: NodeObject) -> bool:
    """Return True if the update may change which pods fit the node; a heartbeat does not."""
    status = (old.status.allocatable, old.status.declared_features) != (
        new.status.allocatable,
        new.status.declared_features,
    )
    return status or old.metadata.labels != new.metadata.labels or old.spec != new.spec


def pod_events(old: Pod, new: Pod, unassigned: str = UNSCHEDULED_POD) -> list[ClusterEvent]:
    """Return one event per change of a pod that scheduling depends on, or a single UPDATE_OTHER.

    `unassigned` is the resource for a pod without a node: for the pod itself, it is TARGET_POD.
    """
    resource = ASSIGNED_POD if new.node_name else unassigned
    actions = list(_pod_actions(old, new)) or [Action.UPDATE_OTHER]
    return [ClusterEvent(resource, action, old, new, f"{resource}{_LABELS[action]}") for action in actions]


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    if old.labels != new.labels:
        yield Action.UPDATE_POD_LABEL
    if _scaled_down(old, new):
        yield Action.UPDATE_POD_SCALE_DOWN
    if _scaled_down(new, old):
        yield Action.UPDATE_POD_SCALE_UP
    if old.spec.scheduling_gates and (
        not new.spec.scheduling_gates or (has_other_gates(old) and not has_other_gates(new))
    ):
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if old.claim_statuses != new.claim_statuses:
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    if len(old.signature.tolerations) != len(new.signature.tolerations):
        yield Action.UPDATE_POD_TOLERATION
    if new.deleting and not old.deleting:
        yield Action.UPDATE_POD_TERMINATING


def _scaled_down(old: Pod, new: Pod) -> bool:
    after = new.requests.effective
    return any(after.get(resource, 0) < n for resource, n in old.requests.effective.items())


def pod_placed(pod: Pod) -> ClusterEvent:
    """Return the event of a pod that was assigned to a node."""
    return ClusterEvent(ASSIGNED_POD, Action.ADD, None, pod, "AssignedPodAdd")


def pod_deleted(pod: Pod) -> ClusterEvent:
    """Return the event of an assigned pod that was deleted or forgotten."""
    return ClusterEvent(ASSIGNED_POD, Action.DELETE, pod, None, "AssignedPodDelete")


def _statuses(conditions: tuple[NodeCondition, ...] | None) -> dict[str, str]:
    return {c.type: c.status for c in conditions or ()}


_LABELS = {
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_NODE_PREEMPTION_POLICY: "UpdateNodePreemptionPolicy",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE_POD_TERMINATING: "UpdatePodTerminating",
    Action.UPDATE_OTHER: "Update",
}
