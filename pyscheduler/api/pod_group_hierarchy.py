"""Trees of PodGroups and CompositePodGroups of Kubernetes (scheduling.k8s.io), as kube-scheduler's HierarchyTracker.

PodGroups and CompositePodGroups name their parents. They may be created in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.handle import Handle
from pyscheduler.api.pod_group import PodGroupKey

POD_GROUP_API: Final = "scheduling.k8s.io"
COMPOSITE_API: Final = f"{POD_GROUP_API}/CompositePodGroup"
"""API in the key of a CompositePodGroup: a PodGroup may have the same name."""
COMPOSITE_POD_GROUP: Final = ResourceKind(
    POD_GROUP_API, "v1alpha3", "compositepodgroups", "CompositePodGroup", optional=True
)
MAX_DEPTH: Final = 4
"""Levels of CompositePodGroups in a tree, as in Kubernetes 1.37."""
Object = Mapping[str, Any]
"""An API object as decoded JSON."""


class PodGroupHierarchy:
    """The trees of the cluster."""

    def __init__(self, handle: Handle, pod_groups: Sequence[ResourceKind]) -> None:
        """`pod_groups` are the versions of PodGroups that are read, the newest first."""
        self._handle = handle
        self._pod_groups = pod_groups
        self._parents: dict[PodGroupKey, str] = {}
        """Name of the parent of each PodGroup and CompositePodGroup that has one."""
        self._children: dict[tuple[str, str], dict[PodGroupKey, None]] = {}
        """Children by namespace and name of the parent."""
        self._versions: dict[ResourceKind, int] = {}

    # -- one group ---------------------------------------------------------------------------------------------------

    def find(self, key: PodGroupKey) -> tuple[ResourceKind, Object] | None:
        """Return the object of a PodGroup or CompositePodGroup with its kind, None if there is none."""
        for kind in (COMPOSITE_POD_GROUP,) if key.api == COMPOSITE_API else self._pod_groups:
            if (obj := self._handle.objects[kind].get((key.namespace, key.name))) is not None:
                return kind, obj
        return None

    def object_of(self, key: PodGroupKey) -> Object | None:
        """Return the object of a PodGroup or CompositePodGroup, None if there is none."""
        found = self.find(key)
        return None if found is None else found[1]

    def root_of(self, key: PodGroupKey) -> PodGroupKey:
        """Return the root of the tree of a PodGroup; the PodGroup itself if it has no parent, or no root is found."""
        root = self._root_above(key.namespace, parent_name(self.object_of(key)))
        return key if root is None else root

    def path_above(self, namespace: str, obj: Object | None) -> list[PodGroupKey]:
        """Return the parent of an object, its parent and so on: existing or not, and at most one too many."""
        return [*self._path(namespace, parent_name(obj))]

    def _root_above(self, namespace: str, parent: str) -> PodGroupKey | None:
        """Return the root above an object with this parent; None if there is none or it is not found."""
        path = [*self._path(namespace, parent)]
        is_complete = bool(path) and len(path) <= MAX_DEPTH and not parent_name(self.object_of(path[-1]))
        return path[-1] if is_complete and self.object_of(path[-1]) is not None else None

    def _path(self, namespace: str, parent: str) -> Iterator[PodGroupKey]:
        for _ in range(MAX_DEPTH + 1):
            if not parent:
                return
            key = PodGroupKey(namespace, parent, COMPOSITE_API)
            yield key
            parent = parent_name(self.object_of(key))

    # -- trees -------------------------------------------------------------------------------------------------------

    def children(self, key: PodGroupKey) -> list[PodGroupKey]:
        """Return the PodGroups and CompositePodGroups directly below a CompositePodGroup, in their order."""
        self._update()
        return sorted(self._children.get((key.namespace, key.name), ()))

    def changed_with(self, namespace: str, name: str, old: Object | None, new: Object | None) -> set[PodGroupKey]:
        """Return the groups that a changed CompositePodGroup gives other members or requirements."""
        changed = {PodGroupKey(namespace, name, COMPOSITE_API), *self.roots_above(namespace, old, new)}
        pending, seen = [PodGroupKey(namespace, name, COMPOSITE_API)], set[PodGroupKey]()
        while pending:
            parent = pending.pop()
            if parent in seen:
                continue
            seen.add(parent)
            for child in self.children(parent):
                (pending.append if child.api == COMPOSITE_API else changed.add)(child)
        return changed

    def roots_above(self, namespace: str, *versions: Object | None) -> set[PodGroupKey]:
        """Return the roots above an object, given its versions."""
        roots = {self._root_above(namespace, parent_name(obj)) for obj in versions}
        return {root for root in roots if root is not None}

    # -- changes -----------------------------------------------------------------------------------------------------

    def _update(self) -> None:
        """Read the parents of the objects that have changed since the last call."""
        for kind in (COMPOSITE_POD_GROUP, *self._pod_groups):
            version = self._handle.objects.version(kind)
            if version == self._versions.get(kind):
                continue
            api = COMPOSITE_API if kind == COMPOSITE_POD_GROUP else POD_GROUP_API
            changed = self._handle.objects.changed_since(kind, self._versions.get(kind, -1))
            if changed is None:
                known = ((key.namespace, key.name) for key in self._parents if key.api == api)
                changed = {*self._handle.objects[kind], *known}
            self._versions[kind] = version
            for namespace, name in changed:
                self._set_parent(PodGroupKey(namespace, name, api))

    def _set_parent(self, key: PodGroupKey) -> None:
        parent, before = parent_name(self.object_of(key)), self._parents.pop(key, "")
        if before and before != parent:
            siblings = self._children[key.namespace, before]
            del siblings[key]
            if not siblings:
                del self._children[key.namespace, before]
        if parent:
            self._parents[key] = parent
            self._children.setdefault((key.namespace, parent), {})[key] = None


def parent_name(obj: Object | None) -> str:
    """Return spec.parentCompositePodGroupName of an object, "" if it has none."""
    spec = (obj or {}).get("spec")
    name = spec.get("parentCompositePodGroupName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""
