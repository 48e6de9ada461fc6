"""DynamicResources: kube-scheduler's results for pods without ResourceClaims. Devices are not allocated (KEP-4381)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from pyscheduler.api import (
    NODE,
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    Diagnosis,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    ResourceKind,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
)
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree.volumes.objects import text

DEVICE_CLASS = ResourceKind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, optional=True)
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource name by which a container may request a device of any class."""
NOT_ALLOCATED = Rejection("pod has resource claims, which this scheduler does not allocate yet", resolvable=False)
NO_CLAIMS = Rejection()
"""No claims to deallocate; since 1.37 kube-scheduler gives no reason for that."""

_PRE_FILTER_RAN: StateKey[bool] = StateKey("DynamicResources PreFilter")
"""Set once PreFilter has run as far as this plugin."""

Seconds = Annotated[float, "duration"]


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """kubescheduler.config.k8s.io/v1 DynamicResourcesArgs: timeouts of one node's allocation and of a binding."""

    filter_timeout: Seconds = 10.0
    binding_timeout: Seconds = 600.0

    def __post_init__(self) -> None:
        problems = []
        if self.filter_timeout < 0:
            problems.append(invalid("filterTimeout", _shown(self.filter_timeout), "must be zero or positive"))
        if self.binding_timeout < 1:
            problems.append(invalid("bindingTimeout", _shown(self.binding_timeout), "must be at least 1 second"))
        raise_for_problems(problems)


class DynamicResources(PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin):
    """Reject pods that need devices allocated; return kube-scheduler's messages and scores for all others."""

    name = "DynamicResources"
    Args = DynamicResourcesArgs
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    watches = (DEVICE_CLASS,)
    is_repeatable = True

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        requests = [(name, amount) for name, amount in group.requests.real.items() if "/" in name]
        return bool(group.spec.resource_claims), tuple(requests)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            ClusterEventWithHint(NODE, nodes, _may_help),
            ClusterEventWithHint(DEVICE_CLASS.kind, Action.ADD | Action.UPDATE | Action.DELETE, _may_help),
        )

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Admit every pod, so that one with claims gets an event with the reason."""
        return None

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip:
        # Cacheable by signature: if a device class is created later, NodeResourcesFit rejects the pod in any case.
        cycle[_PRE_FILTER_RAN] = True
        return NOT_ALLOCATED if pod.spec.resource_claims or self._needs_devices(pod, nodes) else SKIP

    def _needs_devices(self, pod: Pod, nodes: NodeTable) -> bool:
        """Return True if the pod requests a resource that maps to a device class and that no node has allocatable."""
        for name, amount in pod.requests.real.items():
            if amount and "/" in name and self._has_class(name) and not nodes.allocatable(name).any():
                return True
        return False

    def _has_class(self, resource: str) -> bool:
        classes = self.handle.objects[DEVICE_CLASS]
        if resource.startswith(CLASS_PREFIX):
            return ("", resource.removeprefix(CLASS_PREFIX)) in classes
        return any(text(c, "spec", "extendedResourceName") == resource for c in classes.values())

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        return NodeToStatus(len(nodes))

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Rejection:
        if _PRE_FILTER_RAN not in cycle:
            # An earlier plugin ended PreFilter. Kube-scheduler then misses its cycle state and fails with this text.
            raise StatusError("not found")
        return NO_CLAIMS

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """Return 0: kube-scheduler scores which alternative of a claim was allocated, and nothing is allocated here."""
        return 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return np.zeros(len(nodes), np.int64)


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if 0 < abs(seconds) < 1 else f"{seconds:g}s"


def _may_help(pod: Pod, _: ClusterEvent) -> QueueingHint:
    """Return SKIP for a pod with claims, QUEUE for one that requests a device as an extended resource."""
    return queue_if(not pod.spec.resource_claims)
