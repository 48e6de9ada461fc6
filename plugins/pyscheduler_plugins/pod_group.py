"""PodGroup objects and their members.

Separate from the Gang plugin so that all readers of PodGroups interpret them in one way.
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
    """Namespace and name of a PodGroup."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodGroupSpec(NamedTuple):
    """Requirements of a PodGroup."""

    min_member: int
    """Minimum number of members."""
    timeout: float
    """Seconds for which members wait for each other."""
    min_resources: Amounts
    """Resources that must be free before the first member is reserved; empty for none."""


def group_of(pod: Pod) -> GroupKey | None:
    """Return the group of the pod, or None."""
    name = pod.labels.get(POD_GROUP_LABEL)
    return GroupKey(pod.namespace, name) if name else None


def group_key(pod_group: Mapping[str, Any]) -> GroupKey:
    """Return the key of a PodGroup object."""
    meta = pod_group.get("metadata", {})
    return GroupKey(meta.get("namespace", ""), meta.get("name", ""))


def pod_group_spec(pod_group: Mapping[str, Any], default_timeout: float) -> PodGroupSpec | str:
    """Return the requirements of a PodGroup object, or the name of an invalid field."""
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
    if (negative := negative_resource(resources)) is not None:
        return f"spec.minResources[{negative}]"
    return PodGroupSpec(least, float(timeout) if _is_count(timeout) else default_timeout, resources)


def negative_resource(resources: Mapping[str, int]) -> str | None:
    """Return the first resource of which the amount is negative, None if there is none."""
    return next((resource for resource, amount in resources.items() if amount < 0), None)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def is_live(pod: Pod) -> bool:
    """Return True if the pod is neither terminating nor terminated."""
    return not pod.deleting and pod.phase not in _ENDED


def has_succeeded(pod: Pod) -> bool:
    """Return True if the pod has succeeded. Such members still count, because the gang has started."""
    return bool(pod.phase == _SUCCEEDED)


def is_ready(pod: Pod) -> bool:
    """Return True if the pod counts towards minMember: it has succeeded, is assigned, or is not gated."""
    return has_succeeded(pod) or (is_live(pod) and (bool(pod.node_name) or not pod.spec.scheduling_gates))
