"""PodGroups of Kubernetes itself (scheduling.k8s.io, KEP-4671): pods refer to them by spec.schedulingGroup."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from pyscheduler.api import DisruptionMode, Pod, PodGroup, Rejection, ResourceKind, TopologyConstraint
from pyscheduler.api.objects import ApiObject
from pyscheduler_plugins.pod_groups.declared import (
    Count,
    Declared,
    Metadata,
    Object,
    PodGroupApi,
    decode,
    invalid,
)

GROUP: Final = "scheduling.k8s.io"
KINDS: Final = tuple(
    ResourceKind(GROUP, version, "podgroups", "PodGroup", optional=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""Kubernetes 1.36 serves v1alpha2; 1.37 has replaced it by v1alpha3 and v1beta1."""

_DISRUPTION_MODES: Final = {
    "single": DisruptionMode.SINGLE,
    "all": DisruptionMode.ALL,
    # v1alpha2 has an enum.
    "Pod": DisruptionMode.SINGLE,
    "PodGroup": DisruptionMode.ALL,
}


class _Gang(ApiObject, frozen=True):
    min_count: Count


class _SchedulingPolicy(ApiObject, frozen=True):
    basic: dict[str, Any] | None = None
    gang: _Gang | None = None


class _TopologyConstraint(ApiObject, frozen=True):
    key: str


class SchedulingConstraints(ApiObject, frozen=True):
    """spec.schedulingConstraints."""

    topology: tuple[_TopologyConstraint, ...] | None = None


class _Spec(ApiObject, frozen=True):
    scheduling_policy: _SchedulingPolicy
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: dict[str, Any] | str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class _PodGroup(ApiObject, frozen=True):
    metadata: Metadata
    spec: _Spec


def _name_of(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def read(obj: Object) -> Declared | Rejection:
    """Return the requirements in a PodGroup of any version, or the reason why they cannot be met."""
    decoded = decode(obj, _PodGroup, GROUP)
    if isinstance(decoded, Rejection):
        return decoded
    key, spec = decoded.metadata.key(GROUP), decoded.spec
    policy = spec.scheduling_policy
    if (policy.gang is None) == (policy.basic is None):
        return invalid(key, "spec.schedulingPolicy", "exactly one of basic and gang must be set")
    mode = disruption_mode(spec.disruption_mode)
    if mode is None:
        return invalid(key, "spec.disruptionMode", "expected single or all")
    group = PodGroup(
        key=key,
        # Pods of a group with the basic policy start as soon as one of them fits.
        min_count=policy.gang.min_count if policy.gang else 1,
        priority=spec.priority,
        may_preempt=spec.preemption_policy != "Never",
        disruption_mode=mode,
        topology=topology(spec.scheduling_constraints),
        created=decoded.metadata.creation_timestamp or "",
        uid=decoded.metadata.uid or "",
    )
    # The Priority admission plugin resolves the class, but not for PodGroups of a CustomResourceDefinition.
    return Declared(group, "" if spec.priority is not None else spec.priority_class_name or "")


def read_version(kind: ResourceKind, obj: Object) -> Declared | Rejection:
    """Return the requirements in a PodGroup of one version with the condition that is written to it."""
    found = read(obj)
    if isinstance(found, Rejection):
        return found
    condition = _CONDITION_TYPES[kind.version]
    return found._replace(group=replace(found.group, kind=kind, condition_type=condition))


def topology(constraints: SchedulingConstraints | None) -> tuple[TopologyConstraint, ...]:
    """Return the topologies in spec.schedulingConstraints."""
    return tuple(TopologyConstraint(each.key) for each in (constraints and constraints.topology) or ())


def disruption_mode(value: dict[str, Any] | str | None) -> DisruptionMode | None:
    """Return the disruption mode, None if it is invalid. An object has one field, with the name of the mode."""
    if not value:
        return DisruptionMode.SINGLE
    names = [value] if isinstance(value, str) else [name for name, mode in value.items() if mode is not None]
    return _DISRUPTION_MODES.get(names[0]) if len(names) == 1 else None


_CONDITION_TYPES: Final = {
    "v1beta1": "PodGroupInitiallyScheduled",
    "v1alpha3": "PodGroupInitiallyScheduled",
    "v1alpha2": "PodGroupScheduled",
}
API: Final = PodGroupApi(GROUP, KINDS, _name_of, read, _CONDITION_TYPES)
