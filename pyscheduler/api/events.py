"""What happens in a cluster, and how a plugin says which of it may turn its "no" into a "yes".

Names and numbers follow kube-scheduler's ClusterEvent and ActionType (k8s.io/kube-scheduler/framework, KEP-4247).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import msgspec

from pyscheduler.api.pod import Pod


class Action(enum.IntFlag):
    """Kinds of change of an object; the bits are in kube-scheduler's order, ours after them."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    UPDATE_OTHER = enum.auto()
    UPDATE_POD_TERMINATING = enum.auto()
    """The deletion of a pod begins; kube-scheduler has a plain update for it."""
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
        | UPDATE_POD_TERMINATING
    )
    ALL = ADD | DELETE | UPDATE


NODE = "Node"
POD = "Pod"
"""In a registration: pods in any state. Events themselves say AssignedPod or UnschedulablePod."""
ASSIGNED_POD = "AssignedPod"
UNSCHEDULABLE_POD = "UnschedulablePod"
SUCCEEDED_POD = "SucceededPod"
"""A pod has run to its end with success, and some plugin `counts_succeeded` pods. The event is an ADD with `new`."""
ANY_RESOURCE = "*"


class ResourceKind(msgspec.Struct, frozen=True):
    """An API resource that the scheduler lists and watches for a plugin.

    `plural` is the name in URLs. Objects of kinds outside the scheduler's own arrive as plain dicts.
    `optional` lets the scheduler start where it may not list the kind: it then knows of no such objects, until it may.
    Leave it out where decisions made without them would be wrong.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    optional: bool = False


class ClusterEvent(msgspec.Struct, frozen=True):
    """Something that happened: `resource` is a kind (Node, AssignedPod, PodGroup …), `old` and `new` its two sides.

    Pods come as `Pod`, nodes as `NodeObject`, other kinds as plain dicts; `old` is None for ADD and `new` for DELETE.
    """

    resource: str
    action: Action
    old: Any = None
    new: Any = None
    label: str = ""
    """How metrics and logs name it, e.g. `AssignedPodDelete`."""


class QueueingHint(enum.Enum):
    """A plugin's answer to "may this event help that pod?"."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


QueueingHintFn = Callable[[Pod, ClusterEvent], QueueingHint]


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """Events that may help a pod which this plugin rejected; without a `hint` every one of them does."""

    resource: str
    actions: Action
    hint: QueueingHintFn | None = None

    def covers(self, event: ClusterEvent) -> bool:
        """Whether this registration is about the event (kube-scheduler's ClusterEvent match).

        The event must be as specific as the registration, or more so: a plain update, which no specific bit describes,
        is nothing to a plugin that wants label updates only.
        """
        if self.resource == ANY_RESOURCE and self.actions == Action.ALL:
            return True
        same = self.resource in (ANY_RESOURCE, event.resource)
        pods = self.resource == POD and event.resource in (ASSIGNED_POD, UNSCHEDULABLE_POD)
        specific = event.action.value <= self.actions.value
        return (same or pods) and specific and bool(self.actions & event.action)


ANYTHING = ClusterEventWithHint(ANY_RESOURCE, Action.ALL)
"""The registration of a plugin that cannot tell what would help."""
