"""CompositePodGroups of Kubernetes (scheduling.k8s.io): trees of PodGroups that are scheduled as one group.

The pods of all PodGroups in a tree are members of one group, that of the root. PodGroups and CompositePodGroups name
their parents. They may be created in any order, so until a tree is complete up to its root, its pods wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyscheduler.api import Handle, Pod, PodGroup, PodGroupKey, Rejection, ResourceKind
from pyscheduler.api.objects import ApiObject
from pyscheduler_plugins.pod_groups import native
from pyscheduler_plugins.pod_groups.declared import (
    COMPOSITE,
    Count,
    Declared,
    Metadata,
    Object,
    decode,
    described,
    invalid,
)

KIND: Final = ResourceKind(native.GROUP, "v1alpha3", "compositepodgroups", "CompositePodGroup", optional=True)
MAX_DEPTH: Final = 4
"""Levels of CompositePodGroups in a tree, as in Kubernetes 1.37."""
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
    decoded = decode(obj, _CompositePodGroup, COMPOSITE)
    if isinstance(decoded, Rejection):
        return decoded
    key, spec = decoded.metadata.key(COMPOSITE), decoded.spec
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
        kind=KIND,
        condition_type=_CONDITION_TYPE,
    )
    return Declared(group, "" if spec.priority is not None else spec.priority_class_name or "")


def _subgroup_of(pod: Pod) -> PodGroupKey | None:
    name = native.API.name_of(pod)
    return PodGroupKey(pod.namespace, name, native.GROUP) if name else None


class CompositePodGroups:
    """The trees of the cluster."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._parents: dict[PodGroupKey, str] = {}
        """Name of the parent of each PodGroup and CompositePodGroup that has one."""
        self._children: dict[tuple[str, str], dict[PodGroupKey, None]] = {}
        """Children by namespace and name of the parent."""
        self._versions: dict[ResourceKind, int] = {}

    # -- one group ---------------------------------------------------------------------------------------------------

    def root_of(self, key: PodGroupKey) -> PodGroupKey:
        """Return the root of the tree of a PodGroup; the PodGroup itself if it has no parent, or no root is found."""
        root = self._root_above(key.namespace, _parent_name(self.object_of(key)))
        return key if root is None else root

    def object_of(self, key: PodGroupKey) -> Object | None:
        """Return the object of a PodGroup or CompositePodGroup of Kubernetes, None if there is none."""
        kinds = (KIND,) if key.api == COMPOSITE else native.KINDS
        found = (self._handle.objects[kind].get((key.namespace, key.name)) for kind in kinds)
        return next((obj for obj in found if obj is not None), None)

    def _root_above(self, namespace: str, parent: str) -> PodGroupKey | None:
        """Return the root above an object with this parent; None if there is none or it is not found."""
        path = [*self._path(namespace, parent)]
        is_complete = bool(path) and len(path) <= MAX_DEPTH and not _parent_name(self.object_of(path[-1]))
        return path[-1] if is_complete and self.object_of(path[-1]) is not None else None

    def _path(self, namespace: str, parent: str) -> Iterator[PodGroupKey]:
        """Yield the parent, its parent and so on, at most one too many."""
        for _ in range(MAX_DEPTH + 1):
            if not parent:
                return
            key = PodGroupKey(namespace, parent, COMPOSITE)
            yield key
            parent = _parent_name(self.object_of(key))

    def rejection(self, key: PodGroupKey, obj: Object) -> Rejection | None:
        """Return why a PodGroup with a parent is not in the group of a root; None for one without."""
        path = [*self._path(key.namespace, _parent_name(obj))]
        if not path:
            return None
        if self.object_of(path[-1]) is None:
            return Rejection(f"waiting for {described(path[-1])} to appear", resolvable=False)
        if len(set(path)) < len(path):
            return invalid(path[0], _PARENT, "the parents form a cycle")
        return _too_deep(key)

    # -- trees -------------------------------------------------------------------------------------------------------

    def tree(self, root: PodGroupKey) -> Declared | Rejection:
        """Return the requirements of the group of a root, or the first reason why they cannot be met."""
        self._update()
        return self._tree(root, 1)

    def _tree(self, key: PodGroupKey, depth: int) -> Declared | Rejection:
        obj = self.object_of(key)
        if obj is None:
            return Rejection(f"waiting for {described(key)} to appear", resolvable=False)
        subgroups: list[PodGroup] = []
        for child in sorted(self._children.get((key.namespace, key.name), ())):
            if child.api == COMPOSITE and depth == MAX_DEPTH:
                return _too_deep(child)
            found = self._tree(child, depth + 1) if child.api == COMPOSITE else self._leaf(child)
            if isinstance(found, Rejection):
                return found
            subgroups.append(found.group)
        return read(obj, tuple(subgroups))

    def _leaf(self, key: PodGroupKey) -> Declared | Rejection:
        for kind in native.KINDS:
            if (obj := self._handle.objects[kind].get((key.namespace, key.name))) is not None:
                return native.read_version(kind, obj)
        return Rejection(f"waiting for {described(key)} to appear", resolvable=False)

    # -- changes -----------------------------------------------------------------------------------------------------

    def changed_with(self, namespace: str, name: str, old: Object | None, new: Object | None) -> set[PodGroupKey]:
        """Return the groups that a changed CompositePodGroup gives other members or requirements."""
        self._update()
        changed = {PodGroupKey(namespace, name, COMPOSITE), *self.roots_above(namespace, old, new)}
        pending, seen = [(namespace, name)], set[tuple[str, str]]()
        while pending:
            parent = pending.pop()
            if parent in seen:
                continue
            seen.add(parent)
            for child in self._children.get(parent, ()):
                if child.api == COMPOSITE:
                    pending.append((child.namespace, child.name))
                else:
                    changed.add(child)
        return changed

    def roots_above(self, namespace: str, *versions: Object | None) -> Iterable[PodGroupKey]:
        """Return the roots above an object, given its versions."""
        roots = {self._root_above(namespace, _parent_name(obj)) for obj in versions}
        return {root for root in roots if root is not None}

    def with_class(self, priority_class: str) -> list[PodGroupKey]:
        """Return the CompositePodGroups of a PriorityClass."""
        return [
            PodGroupKey(namespace, name, COMPOSITE)
            for (namespace, name), obj in self._handle.objects[KIND].items()
            if (obj.get("spec") or {}).get("priorityClassName") == priority_class
        ]

    def _update(self) -> None:
        """Read the parents of the objects that have changed since the last call."""
        for kind in (KIND, *native.KINDS):
            version = self._handle.objects.version(kind)
            if version == self._versions.get(kind):
                continue
            api = COMPOSITE if kind == KIND else native.GROUP
            changed = self._handle.objects.changed_since(kind, self._versions.get(kind, -1))
            if changed is None:
                known = ((key.namespace, key.name) for key in self._parents if key.api == api)
                changed = {*self._handle.objects[kind], *known}
            self._versions[kind] = version
            for namespace, name in changed:
                self._set_parent(PodGroupKey(namespace, name, api))

    def _set_parent(self, key: PodGroupKey) -> None:
        parent, before = _parent_name(self.object_of(key)), self._parents.pop(key, "")
        if before and before != parent:
            siblings = self._children[key.namespace, before]
            del siblings[key]
            if not siblings:
                del self._children[key.namespace, before]
        if parent:
            self._parents[key] = parent
            self._children.setdefault((key.namespace, parent), {})[key] = None


def _parent_name(obj: Mapping[str, Any] | None) -> str:
    spec = (obj or {}).get("spec")
    name = spec.get("parentCompositePodGroupName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def _too_deep(key: PodGroupKey) -> Rejection:
    return invalid(key, _PARENT, f"the tree has more than {MAX_DEPTH} levels of CompositePodGroups")
