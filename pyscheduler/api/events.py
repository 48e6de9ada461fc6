"""Cluster events, and the registrations by which they requeue the pods that a plugin rejected.

Names and numbers follow kube-scheduler's ClusterEvent and ActionType (k8s.io/kube-scheduler/framework, KEP-4247).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from types import NoneType
from typing import Any

import msgspec

from pyscheduler.api.argument_checks import check_argument
from pyscheduler.api.pod import Pod


class Action(enum.IntFlag):
    """Kinds of object changes, as bits in kube-scheduler's order (ActionType), followed by our own."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_NODE_PREEMPTION_POLICY = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_SCALE_UP = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    UPDATE_OTHER = enum.auto()
    UPDATE_POD_TERMINATING = enum.auto()
    """A pod got a deletionTimestamp. kube-scheduler reports this as a plain update."""
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_NODE_PREEMPTION_POLICY
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
        | UPDATE_POD_TERMINATING
    )
    ALL = ADD | DELETE | UPDATE


NODE = "Node"
POD = "Pod"
"""Pods in any state, for registrations only. Events carry AssignedPod, UnscheduledPod or TargetPod."""
ASSIGNED_POD = "AssignedPod"
"""Pods with spec.nodeName."""
UNSCHEDULED_POD = "UnscheduledPod"
"""Pods without a node other than the one that is rejected."""
TARGET_POD = "TargetPod"
"""The rejected pod itself: an update of a pod without a node."""
SUCCEEDED_POD = "SucceededPod"
"""Phase Succeeded, sent only if a plugin sets `counts_succeeded`. The event has action ADD and sets `new`."""
TIME = "Time"
"""Passage of time that has changed the decisions of a TimedPlugin. The events have action UPDATE_OTHER, no objects."""
ANY_RESOURCE = "*"
"""Every resource, for registrations only."""


class ResourceKind(msgspec.Struct, frozen=True):
    """API resource that the scheduler lists and watches for a plugin.

    `plural` is the name in URLs. Objects of kinds that the scheduler itself does not watch are plain dicts. With
    `optional` the scheduler starts without permission to list the kind and sees no objects of it until the permission
    is granted. Leave `optional` off if decisions would be wrong without the objects.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    optional: bool = False


class ClusterEvent(msgspec.Struct, frozen=True):
    """Change of one object. `resource` is a kind (Node, AssignedPod, PodGroup …), `old` and `new` are its two versions.

    Pods are `Pod`, nodes `NodeObject`, other kinds plain dicts. `old` is None for ADD, `new` is None for DELETE.
    """

    resource: str
    action: Action
    old: Any = None
    new: Any = None
    label: str = ""
    """Name in metrics and logs, such as `AssignedPodDelete`."""


class QueueingHint(enum.Enum):
    """Result of a queueing hint (KEP-4247): requeue the pod or skip the event."""

    QUEUE = "Queue"
    """The event may make the pod schedulable."""
    SKIP = "QueueSkip"
    """The event does not help the pod, which stays in the unschedulable pool."""


QueueingHintFn = Callable[[Pod, ClusterEvent], QueueingHint]


class PreQueueingHint(msgspec.Struct, frozen=True):
    """Narrows events to the pods that use their object: the hint is called for no other pod.

    For objects that one pod or a few use, such as claims, while thousands of pods wait for an event (kube-scheduler's
    PreQueueingHintFn). No pod uses another pod: an event of a pod concerns all, or none.
    """

    objects_of: Callable[[Pod], Collection[tuple[str, str]]]
    """Returns namespace and name of the objects that a pod uses, existing or not.

    It must read no more of the pod than the hint may.
    """
    concerns_all: Callable[[ClusterEvent], bool]
    """Returns True for an event that may help pods that do not use its object."""


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """Registration of events that may make pods schedulable which the plugin rejected.

    Without a `hint`, every event of the resource and the actions requeues the pod (kube-scheduler's
    ClusterEventWithHint). The hint must return SKIP for what a `pre_hint` leaves out.
    """

    resource: str
    actions: Action
    hint: QueueingHintFn | None = None
    pre_hint: PreQueueingHint | None = None

    def __post_init__(self) -> None:
        owner = "ClusterEventWithHint"
        check_argument(owner, "resource", self.resource, str, "a kind such as POD, or `kind` of a ResourceKind")
        check_argument(owner, "actions", self.actions, Action, "an Action")
        check_argument(owner, "hint", self.hint, (NoneType, Callable), "a function or None")  # type: ignore[arg-type]
        check_argument(owner, "pre_hint", self.pre_hint, (NoneType, PreQueueingHint), "a PreQueueingHint or None")

    def covers(self, event: ClusterEvent) -> bool:
        """Return True if the registration matches the event (kube-scheduler's ClusterEvent match).

        The event must be at least as specific as the registration: a plain update without a specific bit does not match
        a registration for label updates.
        """
        if self.resource == ANY_RESOURCE and self.actions == Action.ALL:
            return True
        same = self.resource in (ANY_RESOURCE, event.resource)
        pods = self.resource == POD and event.resource in (ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD)
        specific = event.action.value <= self.actions.value
        return (same or pods) and specific and bool(self.actions & event.action)


ANYTHING = ClusterEventWithHint(ANY_RESOURCE, Action.ALL)
"""Registration for all events, for plugins that cannot be more specific."""
