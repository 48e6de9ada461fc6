"""CompositePodGroups of Kubernetes (scheduling.k8s.io): trees of PodGroups that are scheduled as one group.

The pods of all PodGroups in a tree are members of one group, that of the root. PodGroups and CompositePodGroups name
their parents. They may be created in any order, so until a tree is complete up to its root, its pods wait.
"""

from __future__ import annotations

from typing import Any, Final

from pyscheduler.api import (
    COMPOSITE_API,
    COMPOSITE_POD_GROUP,
    Handle,
    Pod,
    PodGroup,
    PodGroupHierarchy,
    PodGroupKey,
    Rejection,
)
from pyscheduler.api.objects import ApiObject
from pyscheduler.api.pod_group_hierarchy import MAX_DEPTH
from pyscheduler_plugins.pod_groups import native
from pyscheduler_plugins.pod_groups.declared import (
    Count,
    Declared,
    Metadata,
    Object,
    decode,
    described,
    invalid,
)

_CONDITION_TYPE: Final = "CompositePodGroupInitiallyScheduled"
_PARENT: Final = "spec.parentCompositePodGroupName"


class _Gang(ApiObject, frozen=True):
    min_group_count: Count


class _SchedulingPolicy(ApiObject, frozen=True):
    basic: dict[str, Any] | None = None
    gang: _Gang | None = None


class _Spec(ApiObject, frozen=True):
    scheduling_policy: _SchedulingPolicy
    scheduling_constraints: native.SchedulingConstraints | None = None
    disruption_mode: dict[str, Any] | str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class _CompositePodGroup(ApiObject, frozen=True):
    metadata: Metadata
    spec: _Spec


def read(obj: Object, subgroups: tuple[PodGroup, ...]) -> Declared | Rejection:
    """Return the requirements in a CompositePodGroup with these children, or the reason why they cannot be met."""
    decoded = decode(obj, _CompositePodGroup, COMPOSITE_API)
    if isinstance(decoded, Rejection):
        return decoded
    key, spec = decoded.metadata.key(COMPOSITE_API), decoded.spec
    policy = spec.scheduling_policy
    if (policy.gang is None) == (policy.basic is None):
        return invalid(key, "spec.schedulingPolicy", "exactly one of basic and gang must be set")
    mode = native.disruption_mode(spec.disruption_mode)
    if mode is None:
        return invalid(key, "spec.disruptionMode", "expected single or all")
    # The groups of one with the basic policy start as soon as one of them fits.
    min_subgroups = policy.gang.min_group_count if policy.gang else 1
    group = PodGroup(
        key=key,
        min_count=max(1, sum(sorted(each.min_count for each in subgroups)[:min_subgroups])),
        subgroups=subgroups,
        min_subgroups=min_subgroups,
        subgroup_of=_subgroup_of,
        priority=spec.priority,
        may_preempt=spec.preemption_policy != "Never",
        disruption_mode=mode,
        topology=native.topology(spec.scheduling_constraints),
        created=decoded.metadata.creation_timestamp or "",
        uid=decoded.metadata.uid or "",
        kind=COMPOSITE_POD_GROUP,
        condition_type=_CONDITION_TYPE,
    )
    return Declared(group, "" if spec.priority is not None else spec.priority_class_name or "")


def _subgroup_of(pod: Pod) -> PodGroupKey | None:
    name = native.API.name_of(pod)
    return PodGroupKey(pod.namespace, name, native.GROUP) if name else None


class CompositePodGroups(PodGroupHierarchy):
    """The trees of the cluster."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, native.KINDS)

    def rejection(self, key: PodGroupKey, obj: Object) -> Rejection | None:
        """Return why a PodGroup with a parent is not in the group of a root; None for one without."""
        path = self.path_above(key.namespace, obj)
        if not path:
            return None
        if self.object_of(path[-1]) is None:
            return Rejection(f"waiting for {described(path[-1])} to appear", resolvable=False)
        if len(set(path)) < len(path):
            return invalid(path[0], _PARENT, "the parents form a cycle")
        return _too_deep(key)

    def tree(self, root: PodGroupKey) -> Declared | Rejection:
        """Return the requirements of the group of a root, or the first reason why they cannot be met."""
        return self._tree(root, 1)

    def _tree(self, key: PodGroupKey, depth: int) -> Declared | Rejection:
        obj = self.object_of(key)
        if obj is None:
            return Rejection(f"waiting for {described(key)} to appear", resolvable=False)
        subgroups: list[PodGroup] = []
        for child in self.children(key):
            if child.api == COMPOSITE_API and depth == MAX_DEPTH:
                return _too_deep(child)
            found = self._tree(child, depth + 1) if child.api == COMPOSITE_API else self._leaf(child)
            if isinstance(found, Rejection):
                return found
            subgroups.append(found.group)
        return read(obj, tuple(subgroups))

    def _leaf(self, key: PodGroupKey) -> Declared | Rejection:
        found = self.find(key)
        if found is None:
            return Rejection(f"waiting for {described(key)} to appear", resolvable=False)
        return native.read_version(*found)

    def with_class(self, priority_class: str) -> list[PodGroupKey]:
        """Return the CompositePodGroups of a PriorityClass."""
        return [
            PodGroupKey(namespace, name, COMPOSITE_API)
            for (namespace, name), obj in self._handle.objects[COMPOSITE_POD_GROUP].items()
            if (obj.get("spec") or {}).get("priorityClassName") == priority_class
        ]


def _too_deep(key: PodGroupKey) -> Rejection:
    return invalid(key, _PARENT, f"the tree has more than {MAX_DEPTH} levels of CompositePodGroups")
