"""GangScheduling with the feature gate CompositePodGroup: trees of PodGroups that are scheduled as one group."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pyscheduler.api import (
    COMPOSITE_API,
    COMPOSITE_POD_GROUP,
    POD_GROUP_API,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Handle,
    Pod,
    PodGroup,
    PodGroupHierarchy,
    PodGroupKey,
    QueueingHint,
    Rejection,
)
from pyscheduler.api.pod_group_hierarchy import MAX_DEPTH
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree.gang_scheduling import (
    POD_GROUPS,
    GangScheduling,
    declared_group,
    group_key_of,
    mapping,
    min_count_of,
    missing_pod_group,
)


class GangSchedulingOfTrees(GangScheduling):
    """GangScheduling that schedules the PodGroups below one CompositePodGroup as parts of one group.

    PreEnqueue gates the pods of a tree until minGroupCount groups below its root have their pods. Each PodGroup gets
    its minCount or no pod; of the groups below a CompositePodGroup minGroupCount, or none.
    """

    watches = (*POD_GROUPS, COMPOSITE_POD_GROUP)

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hierarchy = PodGroupHierarchy(handle, POD_GROUPS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changes = Action.ADD | Action.UPDATE | Action.DELETE
        composite = ClusterEventWithHint(COMPOSITE_POD_GROUP.kind, changes, self._composite_changed)
        return (*super().events_to_register(), composite)

    def _member_added(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        root = self.group_of(pod)
        return queue_if(root is not None and root == self.group_of(event.new))

    def _pod_group_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        if super()._pod_group_changed(pod, event) is QueueingHint.QUEUE:
            return QueueingHint.QUEUE
        namespace = mapping(event.new or event.old, "metadata").get("namespace", "")
        return queue_if(self.group_of(pod) in self._hierarchy.roots_above(namespace, event.old, event.new))

    def _composite_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the pod is in a tree in the namespace of the CompositePodGroup."""
        group = group_key_of(pod)
        namespace = mapping(event.new or event.old, "metadata").get("namespace", "")
        return queue_if(group is not None and group[0] == namespace and bool(self._parents_of(group)))

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        group = group_key_of(pod)
        parents = [] if group is None else self._parents_of(group)
        if group is None or not parents:
            return super().pre_enqueue(pod)
        root = self._hierarchy.root_of(_key(group))
        if root.api != COMPOSITE_API:
            return _waiting(parents[-1].name)
        return None if self._is_ready(root, 1) else _waiting(root.name)

    def gate_key(self, pod: Pod) -> Hashable | None:
        return self.group_of(pod)

    def _parents_of(self, group: tuple[str, str]) -> list[PodGroupKey]:
        return self._hierarchy.path_above(group[0], self._hierarchy.object_of(_key(group)))

    def _is_ready(self, key: PodGroupKey, depth: int) -> bool:
        """Return True if a group has its minimum of pods, bound or not, or of groups that are ready."""
        obj = self._object_of(key)
        if not obj or depth > MAX_DEPTH + 1:
            return False
        if key.api != COMPOSITE_API:
            return len(self.handle.pods.by_pod_group(key.namespace, key.name)) >= (min_count_of(obj) or 1)
        ready = sum(self._is_ready(child, depth + 1) for child in self._hierarchy.children(key))
        return ready >= _min_group_count(obj)

    def _object_of(self, key: PodGroupKey) -> Mapping[str, Any]:
        return self._hierarchy.object_of(key) or {}

    # -- requirements ------------------------------------------------------------------------------------------------

    def group_of(self, pod: Pod) -> PodGroupKey | None:
        group = group_key_of(pod)
        return None if group is None else self._hierarchy.root_of(_key(group))

    def pod_group(self, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
        if key.api != COMPOSITE_API:
            parents = self._parents_of((key.namespace, key.name))
            return _waiting(parents[-1].name) if parents else super().pod_group(key, members)
        tree = self._tree(key, 1)
        return tree if isinstance(tree, Rejection) else self._with_members(tree, self._object_of(key), members)

    def _tree(self, key: PodGroupKey, depth: int) -> PodGroup | Rejection:
        """Return the requirements of a PodGroup, or of a CompositePodGroup with all groups below it."""
        found = self._hierarchy.find(key)
        if found is None:
            return missing_pod_group(key.name)
        if depth > MAX_DEPTH + (key.api != COMPOSITE_API):
            return _waiting(key.name)
        kind, obj = found
        group = declared_group(key, kind, obj)
        if isinstance(group, Rejection) or key.api != COMPOSITE_API:
            return group
        subgroups: list[PodGroup] = []
        for child in self._hierarchy.children(key):
            part = self._tree(child, depth + 1)
            if isinstance(part, Rejection):
                return part
            subgroups.append(part)
        needed = _min_group_count(obj)
        return replace(
            group,
            min_count=max(1, sum(sorted(each.min_count for each in subgroups)[:needed])),
            subgroups=tuple(subgroups),
            min_subgroups=needed,
            subgroup_of=_subgroup_of,
            has_kubernetes_messages=False,
        )

    def changed_groups(self, event: ClusterEvent) -> Iterable[PodGroupKey]:
        meta = mapping(event.new or event.old, "metadata")
        namespace = meta.get("namespace", "")
        if event.resource == COMPOSITE_POD_GROUP.kind:
            return self._hierarchy.changed_with(namespace, meta.get("name", ""), event.old, event.new)
        keys = [*super().changed_groups(event)]
        return [*keys, *self._hierarchy.roots_above(namespace, event.old, event.new)] if keys else ()


class GangSchedulingOfTreesByGroupPolicy(GangSchedulingOfTrees):
    """The plugin with the feature gate PodGroupPreemptionPolicy, too: the policy of the root counts."""

    has_preemption_policy = True


def _key(group: tuple[str, str]) -> PodGroupKey:
    return PodGroupKey(*group, POD_GROUP_API)


def _subgroup_of(pod: Pod) -> PodGroupKey | None:
    group = group_key_of(pod)
    return None if group is None else _key(group)


def _waiting(name: str) -> Rejection:
    """Return the Rejection of the pods of a tree that is not complete, in kube-scheduler's words."""
    return Rejection(f'waiting for composite pod group "{name}" tree to meet quorum', resolvable=False)


def _min_group_count(composite: Mapping[str, Any]) -> int:
    """Return the number of groups that a CompositePodGroup needs; 1 with the basic policy."""
    gang = mapping(mapping(mapping(composite, "spec"), "schedulingPolicy"), "gang")
    count = gang.get("minGroupCount")
    return count if isinstance(count, int) else 1
