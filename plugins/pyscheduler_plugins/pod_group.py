"""What a gang is: the PodGroup object, and the label by which pods join it.

Kept apart from the Gang plugin so that whoever reads PodGroups reads them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyscheduler.api import Pod, ResourceKind

POD_GROUP = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", optional=True)
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

_ENDED = ("Succeeded", "Failed")


class GroupKey(NamedTuple):
    """Which gang: pods and their PodGroup share a namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Terms(NamedTuple):
    """What a PodGroup asks for: how many members at least, and how long they may wait for each other (seconds)."""

    min_member: int
    timeout: float


def group_of(pod: Pod) -> GroupKey | None:
    """The gang that the pod is a member of, None if of none."""
    name = pod.labels.get(POD_GROUP_LABEL)
    return GroupKey(pod.namespace, name) if name else None


def terms_of(pod_group: Mapping[str, Any], default_timeout: float) -> Terms | None:
    """The terms of a PodGroup object; None if its spec.minMember cannot be read."""
    spec = pod_group.get("spec")
    if not isinstance(spec, Mapping):
        return None
    least: Any = spec.get("minMember")
    timeout: Any = spec.get("scheduleTimeoutSeconds")
    if not _is_count(least):
        return None
    return Terms(least, float(timeout) if _is_count(timeout) else default_timeout)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def is_live(pod: Pod) -> bool:
    """Whether the pod still counts as a member: not being deleted and not ended."""
    return not pod.deleting and pod.phase not in _ENDED


def is_ready(pod: Pod) -> bool:
    """Whether the pod is on a node or could be put on one: a live member without scheduling gates."""
    return is_live(pod) and (bool(pod.node_name) or not pod.spec.scheduling_gates)
