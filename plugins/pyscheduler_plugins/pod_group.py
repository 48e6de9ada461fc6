"""What a gang is: the PodGroup object, and the label by which pods join it.

Kept apart from the Gang plugin so that every reader of PodGroups reads them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyscheduler.api import Pod, ResourceKind
from pyscheduler.api.resources import Amounts, amounts

POD_GROUP = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", optional=True)
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

_SUCCEEDED = "Succeeded"
_ENDED = (_SUCCEEDED, "Failed")


class GroupKey(NamedTuple):
    """Which gang: pods and their PodGroup share a namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodGroupSpec(NamedTuple):
    """Requirements of a PodGroup."""

    min_member: int
    """Least number of members."""
    timeout: float
    """Seconds for which they may wait for each other."""
    min_resources: Amounts
    """Amounts that must be free before the first of them is placed; empty for none."""


def group_of(pod: Pod) -> GroupKey | None:
    """The gang that the pod is a member of, None if of none."""
    name = pod.labels.get(POD_GROUP_LABEL)
    return GroupKey(pod.namespace, name) if name else None


def group_key(pod_group: Mapping[str, Any]) -> GroupKey:
    """The gang that a PodGroup object describes."""
    meta = pod_group.get("metadata", {})
    return GroupKey(meta.get("namespace", ""), meta.get("name", ""))


def pod_group_spec(pod_group: Mapping[str, Any], default_timeout: float) -> PodGroupSpec | str:
    """The terms of a PodGroup object, or the field of it that cannot be read."""
    spec = pod_group.get("spec")
    if not isinstance(spec, Mapping):
        return "spec"
    least: Any = spec.get("minMember")
    timeout: Any = spec.get("scheduleTimeoutSeconds")
    if not _is_count(least):
        return "spec.minMember"
    try:
        resources = amounts(spec.get("minResources"))
    except (AttributeError, TypeError, ValueError):
        return "spec.minResources"
    return PodGroupSpec(least, float(timeout) if _is_count(timeout) else default_timeout, resources)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def is_live(pod: Pod) -> bool:
    """Return True if the pod is neither being deleted nor ended."""
    return not pod.deleting and pod.phase not in _ENDED


def has_succeeded(pod: Pod) -> bool:
    """Return True if the pod has run to its end: it goes on counting, since the gang had started."""
    return bool(pod.phase == _SUCCEEDED)


def is_ready(pod: Pod) -> bool:
    """Return True if the pod counts towards a whole gang: it has run, has a node, or could be given one."""
    return has_succeeded(pod) or (is_live(pod) and (bool(pod.node_name) or not pod.spec.scheduling_gates))
