"""PodGroups: the pod groups of Kubernetes, Volcano and scheduler-plugins, and those that annotations declare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from pyscheduler.api import (
    COMPOSITE_API,
    COMPOSITE_POD_GROUP,
    ClusterEvent,
    Handle,
    Pod,
    PodGroup,
    PodGroupKey,
    PodGroupPlugin,
    PodSignature,
    Rejection,
    ResourceKind,
)
from pyscheduler_plugins.pod_groups import membership, native, pod_annotations
from pyscheduler_plugins.pod_groups.composite import CompositePodGroups
from pyscheduler_plugins.pod_groups.declared import Declared, PodGroupApi, described, invalid
from pyscheduler_plugins.pod_groups.hyper_nodes import HYPER_NODE, HyperNodes, NetworkTopology
from pyscheduler_plugins.pod_groups.stale_grace import STALE_GRACE, PodGroupsArgs, annotation_of, stale_grace
from pyscheduler_plugins.pod_groups.sub_group_policy import with_subgroups

PRIORITY_CLASS: Final = ResourceKind(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, optional=True
)
_REQUIREMENTS: Final = (*pod_annotations.REQUIREMENTS, STALE_GRACE)
"""Annotations of pods with requirements of their group."""
_API_BY_GROUP: Final[Mapping[str, PodGroupApi]] = {api.group: api for api in membership.APIS}


class PodGroups(PodGroupPlugin):
    """Declares pod groups. A pod with an invalid or unsupported declaration is rejected, never scheduled by itself.

    Members are found by spec.schedulingGroup, Volcano's annotation, the label of scheduling.x-k8s.io, or the
    annotations of `pod_annotations.py`.
    """

    name = "PodGroups"
    Args = PodGroupsArgs
    watches = (
        *(kind for api in membership.APIS for kind in api.kinds),
        COMPOSITE_POD_GROUP,
        PRIORITY_CLASS,
        HYPER_NODE,
    )
    counts_succeeded = True

    def __init__(self, args: PodGroupsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._stale_grace = args.stale_grace_period_seconds
        self._hyper_nodes = HyperNodes(handle)
        self._composites = CompositePodGroups(handle)
        self._signature: PodSignature | None = None
        self._key: PodGroupKey | None = None
        """Group that pods of this signature declare: members mostly come one after the other."""

    def group_of(self, pod: Pod) -> PodGroupKey | None:
        signature = pod.signature
        if signature is not self._signature:
            self._key, self._signature = membership.group_of(pod), signature
        key = self._key
        if key is None:
            return None
        if key.api == membership.INVALID:
            return PodGroupKey(pod.namespace, pod.name, membership.INVALID)
        return self._composites.root_of(key) if key.api == native.GROUP else key

    def role_of(self, pod: Pod) -> str:
        return membership.role_of(pod)

    def pod_group(self, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
        # The members of a group may be thousands, but most of them are equal.
        distinct = pod_annotations.first_of_signatures(members) if len(members) > 1 else members
        declaring = pod_annotations.declaring_pods(members, distinct, _REQUIREMENTS) if len(distinct) > 1 else distinct
        found = _mixed_schedulers(members) or self._declared(key, distinct, declaring)
        if isinstance(found, PodGroup):
            found = pod_annotations.with_annotations(found, declaring)
        if isinstance(found, PodGroup):
            found = self._with_stale_grace(found, distinct, declaring)
        if isinstance(found, PodGroup) and "Never" in {pod.spec.preemption_policy for pod in distinct}:
            return replace(found, may_preempt=False)
        return found

    def changed_groups(self, event: ClusterEvent) -> Iterable[PodGroupKey]:
        obj: Mapping[str, Any] = event.new or event.old
        meta = obj["metadata"]
        if event.resource == PRIORITY_CLASS.kind:
            return [*self._groups_with("priorityClassName", meta["name"]), *self._composites.with_class(meta["name"])]
        if event.resource == HYPER_NODE.kind:
            return [*self._groups_with("networkTopology"), *self._groups_with("subGroupPolicy")]
        if event.old and event.new and _unchanged(event.old, event.new):
            return ()
        namespace = meta.get("namespace", "")
        if event.resource == COMPOSITE_POD_GROUP.kind:
            return self._composites.changed_with(namespace, meta["name"], event.old, event.new)
        # Events do not have the API group, and three of them have a kind PodGroup.
        keys = [PodGroupKey(namespace, meta["name"], api.group) for api in membership.APIS]
        return [*keys, *self._composites.roots_above(namespace, event.old, event.new)]

    def _declared(self, key: PodGroupKey, members: Collection[Pod], declaring: Collection[Pod]) -> PodGroup | Rejection:
        """Return the requirements of a group, or the reason why they are missing or invalid."""
        if key.api == membership.INVALID:
            return membership.rejection(next(iter(members)))
        if key.api == COMPOSITE_API:
            tree = self._composites.tree(key)
            return tree if isinstance(tree, Rejection) else self._with_priority(tree)
        api = _API_BY_GROUP.get(key.api)
        if api is None:
            return pod_annotations.read(key, declaring)
        kind, obj = self._object(key)
        if api is native.API and kind is not None and (rejection := self._composites.rejection(key, obj)) is not None:
            return rejection
        if kind is not None:
            return self._read(api, kind, obj, members)
        return Rejection(f"waiting for {described(key)} to appear", resolvable=False)

    def _object(self, key: PodGroupKey) -> tuple[ResourceKind | None, Mapping[str, Any]]:
        """Return the newest version of the group's object that has it: servers serve all objects in each version."""
        api = _API_BY_GROUP.get(key.api)
        for kind in (COMPOSITE_POD_GROUP,) if key.api == COMPOSITE_API else api.kinds if api is not None else ():
            if (obj := self.handle.objects[kind].get((key.namespace, key.name))) is not None:
                return kind, obj
        return None, {"metadata": {}}

    def _with_stale_grace(
        self, group: PodGroup, members: Collection[Pod], declaring: Collection[Pod]
    ) -> PodGroup | Rejection:
        """Return the group with its grace period, or a Rejection of an invalid one.

        The default is for groups of which a controller owns every pod: nothing would replace others.
        """
        is_of_controllers = all(pod.signature.owner is not None for pod in members)
        default = self._stale_grace if is_of_controllers else -1
        grace = stale_grace(group, annotation_of(self._object(group.key)[1]), declaring, default)
        if isinstance(grace, Rejection):
            return grace
        return group if grace is None else replace(group, stale_grace_seconds=grace)

    def _read(
        self, api: PodGroupApi, kind: ResourceKind, obj: Mapping[str, Any], members: Collection[Pod]
    ) -> PodGroup | Rejection:
        declared = api.read(obj)
        if isinstance(declared, Rejection):
            return declared
        group = self._with_priority(declared)
        if isinstance(group, PodGroup) and declared.network_topology is not None:
            group = self._with_topology(group, declared.network_topology)
        if isinstance(group, PodGroup) and declared.sub_group_policies:
            group = with_subgroups(group, declared.sub_group_policies, members, self._hyper_nodes.constraints)
        if isinstance(group, Rejection):
            return group
        type_ = api.condition_types.get(kind.version, "Scheduled")
        return replace(group, kind=kind, condition_type=type_, failure_condition_type=api.failure_condition_type)

    def _with_priority(self, declared: Declared) -> PodGroup | Rejection:
        """Return the requirements with the value of the PriorityClass."""
        name = declared.priority_class
        if not name:
            return declared.group
        priority_class = self.handle.objects[PRIORITY_CLASS].get(("", name))
        if priority_class is None:
            return invalid(declared.group.key, "spec.priorityClassName", f'no PriorityClass "{name}" was found')
        return replace(declared.group, priority=priority_class["value"])

    def _with_topology(self, group: PodGroup, wanted: NetworkTopology) -> PodGroup | Rejection:
        topology = self._hyper_nodes.constraints(wanted)
        if isinstance(topology, str):
            return invalid(group.key, "spec.networkTopology", topology)
        return replace(group, topology=topology)

    def _groups_with(self, field: str, value: str | None = None) -> list[PodGroupKey]:
        """Return the groups of PodGroups with a field in their spec, or with a value of it."""
        return [
            PodGroupKey(namespace, group, api.group)
            for api in membership.APIS
            for kind in api.kinds
            for (namespace, group), obj in self.handle.objects[kind].items()
            if (found := (obj.get("spec") or {}).get(field)) is not None and value in (None, found)
        ]


def _mixed_schedulers(members: Collection[Pod]) -> Rejection | None:
    """Return the Rejection of a group whose pods without a node have several schedulers."""
    found = {pod.scheduler_name for pod in members if not pod.node_name}
    if len(found) < 2:
        return None
    names = sorted(found)
    # kube-scheduler's text.
    text = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
    return Rejection(text + " and ".join(f'"{name}"' for name in names[:2]), resolvable=False)


def _unchanged(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return True if only the status or other metadata changed, as it does all the time."""
    is_same_object = old["metadata"].get("uid") == new["metadata"].get("uid")
    return bool(is_same_object and old.get("spec") == new.get("spec") and annotation_of(old) == annotation_of(new))
