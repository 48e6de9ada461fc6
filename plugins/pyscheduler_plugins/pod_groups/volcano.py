"""PodGroups of Volcano (scheduling.volcano.sh): pods refer to them by an annotation."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from pyscheduler.api import Pod, PodGroup, Rejection, ResourceKind
from pyscheduler.api.objects import ApiObject, Quantity
from pyscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Amounts, amounts, is_scalar
from pyscheduler_plugins.pod_group import negative_resource
from pyscheduler_plugins.pod_groups.declared import (
    Declared,
    Metadata,
    Object,
    PodGroupApi,
    SubGroupPolicy,
    decode,
    invalid,
)
from pyscheduler_plugins.pod_groups.hyper_nodes import NetworkTopology

GROUP: Final = "scheduling.volcano.sh"
KIND: Final = ResourceKind(GROUP, "v1beta1", "podgroups", "PodGroup", optional=True)
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
OTHER_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
TASK: Final = "volcano.sh/task-spec"
"""Annotation with the name of the pod's task, its role in minTaskMember."""

_NODE_RESOURCES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})
_NonNegative = Annotated[int, msgspec.Meta(ge=0)]


class _Spec(ApiObject, frozen=True):
    min_member: _NonNegative | None = None
    min_task_member: dict[str, _NonNegative] | None = None
    min_resources: dict[str, Quantity] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] | None = None


class _PodGroup(ApiObject, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()


def _name_of(pod: Pod) -> str:
    return pod.annotations.get(GROUP_NAME) or pod.annotations.get(OTHER_GROUP_NAME) or ""


def read(obj: Object) -> Declared | Rejection:
    """Return the requirements in a PodGroup, or the reason why they cannot be met."""
    decoded = decode(obj, _PodGroup, GROUP)
    if isinstance(decoded, Rejection):
        return decoded
    key, spec = decoded.metadata.key(GROUP), decoded.spec
    try:
        min_resources = amounts(spec.min_resources)
    except ValueError as error:
        return invalid(key, "spec.minResources", str(error))
    if (negative := negative_resource(min_resources)) is not None:
        return invalid(key, f"spec.minResources[{negative}]", "Invalid value: must be greater than or equal to 0")
    min_count = max(1, spec.min_member or 0)
    group = PodGroup(
        key=key,
        min_count=min_count,
        min_count_by_role=_min_count_by_role(spec.min_task_member or {}, min_count),
        min_resources=_of_nodes(min_resources),
        queue=spec.queue or "",
        created=decoded.metadata.creation_timestamp or "",
        uid=decoded.metadata.uid or "",
    )
    return Declared(group, spec.priority_class_name or "", spec.network_topology, spec.sub_group_policy or ())


def _min_count_by_role(min_task_member: dict[str, int], min_count: int) -> dict[str, int]:
    """Return the minimum of each task. Volcano ignores them all if minMember is less than their sum."""
    if min_count < sum(min_task_member.values()):
        return {}
    return {task: least for task, least in min_task_member.items() if least}


def _of_nodes(resources: Amounts) -> Amounts:
    """Return the resources that nodes have.

    Volcano's controllers write all that ResourceQuotas count, such as `limits.cpu` and `count/pods`.
    """
    return {
        name: amount
        for name, amount in resources.items()
        if name in _NODE_RESOURCES or (is_scalar(name) and not name.startswith(("count/", "limits.")))
    }


API: Final = PodGroupApi(GROUP, (KIND,), _name_of, read, failure_condition_type="Unschedulable")
