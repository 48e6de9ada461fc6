"""Manifests of batch scenarios: nodes, pods, queues, and pod groups as each API declares them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]
Amounts = Mapping[str, str | int]

NATIVE: Final = "scheduling.k8s.io/v1beta1"
NATIVE_ALPHA: Final = "scheduling.k8s.io/v1alpha3"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
COSCHEDULING: Final = "scheduling.x-k8s.io/v1alpha1"
ANNOTATIONS: Final = "annotations"
APIS: Final = (NATIVE, NATIVE_ALPHA, VOLCANO, COSCHEDULING, ANNOTATIONS)
WITH_OBJECT: Final = (NATIVE, VOLCANO, COSCHEDULING)
"""APIs that declare a group by an object, of one version each."""

RACK: Final = "example.com/rack"
BLOCK: Final = "example.com/block"
PREFERRED_TOPOLOGY: Final = "pyscheduler.io/pod-group-preferred-topology"
"""Annotation of pods: node labels, the narrowest first, whose domains the group should share."""
RUN_SECONDS: Final = "pyscheduler.io/run-seconds"
"""Annotation of pods: declared run time."""
ENDS_AFTER: Final = "pyscheduler.io/ends-after"


def node(name: str, cpu: str | int = 1, labels: Mapping[str, str] | None = None, **amounts: str | int) -> Manifest:
    """Return a node; `amounts` are further resources, `gpu` is nvidia.com/gpu."""
    allocatable = {"cpu": str(cpu), "memory": "1000Gi", "pods": "1000", **_named(amounts)}
    meta = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def slots(count: int) -> list[Manifest]:
    """Return nodes with room for one pod each."""
    return [node(f"slot{i}") for i in range(count)]


def pod(name: str, cpu: str | int = 1, *, priority: int = 0, runs: int = 0, **amounts: str | int) -> Manifest:
    """Return a pod; one with `runs` declares its run time."""
    requests = _named({"cpu": cpu, **amounts})
    resources = {"requests": {key: amount for key, amount in requests.items() if amount != "0"}}
    container = {"name": "main", "image": "app:1", "resources": resources}
    annotations = {RUN_SECONDS: str(runs)} if runs else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {}, "annotations": annotations},
        "spec": {"containers": [container], "priority": priority},
    }


def _named(amounts: Mapping[str, str | int]) -> dict[str, str]:
    return {"nvidia.com/gpu" if key == "gpu" else key: str(amount) for key, amount in amounts.items()}


def annotated(manifest: Manifest, **annotations: str) -> Manifest:
    """Return a manifest with annotations of pyscheduler.io; `_` in names stands for `-`."""
    changed = copy.deepcopy(manifest)
    added = {f"pyscheduler.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    changed["metadata"]["annotations"] = {**changed["metadata"].get("annotations", {}), **added}
    return changed


@dataclass(frozen=True)
class Gang:
    """Pod group with its objects."""

    name: str
    minimum: int
    pods: list[Manifest]
    """In the order of their creation."""
    objects: list[Manifest]
    """PodGroup and PriorityClass; empty for a group that annotations declare."""

    @property
    def keys(self) -> list[str]:
        """Keys of the pods, as in `Harness.bindings`."""
        return [f"default/{each['metadata']['name']}" for each in self.pods]

    @property
    def manifests(self) -> list[Manifest]:
        """All objects, in the order in which a controller creates them."""
        return [*self.objects, *self.pods]


def gang(
    name: str,
    minimum: int,
    pods: int | Iterable[Manifest] | None = None,
    api: str = NATIVE,
    queue: str = "",
    **spec: Any,
) -> Gang:
    """Return a group; `pods` is its size (by default the minimum, of one cpu each) or the pods.

    `spec` is `priority` (of the group, by a PriorityClass), `min_resources`, `disruption_mode`, `topology` (a node
    label), `parent` (a CompositePodGroup), `network_topology` or `timeout`, for the APIs that have such a field.
    """
    size = minimum if pods is None else pods
    members = [pod(f"{name}{i}") for i in range(size)] if isinstance(size, int) else list(size)
    priority = spec.get("priority")
    classes = [] if priority is None else [priority_class(priority)]
    fields = _SPECS[api](minimum, queue, spec)
    kind = {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name}}
    groups = [] if fields is None else [{**kind, "spec": fields}]
    joined = [_member(each, name, minimum, api, queue) for each in members]
    return Gang(name, minimum, joined, [*classes, *groups])


def priority_class(value: int) -> Manifest:
    """Return a PriorityClass with a value."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": f"priority-{value}"}, "value": value}


def _native(minimum: int, queue: str, spec: Mapping[str, Any]) -> Manifest:
    assert not queue
    fields: Manifest = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if "priority" in spec:
        fields["priorityClassName"] = f"priority-{spec['priority']}"
    if "disruption_mode" in spec:
        fields["disruptionMode"] = {spec["disruption_mode"]: {}}
    if "topology" in spec:
        fields["schedulingConstraints"] = {"topology": [{"key": spec["topology"]}]}
    if "parent" in spec:
        fields["parentCompositePodGroupName"] = spec["parent"]
    return fields


def composite(name: str, min_groups: int = 0, parent: str = "", **spec: Any) -> Manifest:
    """Return a CompositePodGroup; without `min_groups`, its policy is basic. `spec` as for `gang`."""
    policy: Manifest = {"gang": {"minGroupCount": min_groups}} if min_groups else {"basic": {}}
    fields = {**_native(1, "", {**spec, **({"parent": parent} if parent else {})}), "schedulingPolicy": policy}
    kind = {"apiVersion": NATIVE_ALPHA, "kind": "CompositePodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": fields}


def _volcano(minimum: int, queue: str, spec: Mapping[str, Any]) -> Manifest:
    fields: Manifest = {"minMember": minimum, **({"queue": queue} if queue else {})}
    if "priority" in spec:
        fields["priorityClassName"] = f"priority-{spec['priority']}"
    if "network_topology" in spec:
        fields["networkTopology"] = spec["network_topology"]
    return fields | _min_resources(spec)


def _coscheduling(minimum: int, queue: str, spec: Mapping[str, Any]) -> Manifest:
    assert not queue
    timeout = {"scheduleTimeoutSeconds": spec["timeout"]} if "timeout" in spec else {}
    return {"minMember": minimum, **timeout, **_min_resources(spec)}


def _min_resources(spec: Mapping[str, Any]) -> Manifest:
    return {"minResources": spec["min_resources"]} if "min_resources" in spec else {}


def _without_object(minimum: int, queue: str, spec: Mapping[str, Any]) -> None:
    return None


_SPECS: Final = {
    NATIVE: _native,
    NATIVE_ALPHA: _native,
    VOLCANO: _volcano,
    COSCHEDULING: _coscheduling,
    ANNOTATIONS: _without_object,
}


def _member(manifest: Manifest, group: str, minimum: int, api: str, queue: str) -> Manifest:
    """Return a pod as a member of a group."""
    changed = copy.deepcopy(manifest)
    meta = changed["metadata"]
    if api in (NATIVE, NATIVE_ALPHA):
        changed["spec"]["schedulingGroup"] = {"podGroupName": group}
    elif api == VOLCANO:
        meta["annotations"]["scheduling.k8s.io/group-name"] = group
    elif api == COSCHEDULING:
        meta["labels"]["scheduling.x-k8s.io/pod-group"] = group
    else:
        declared = {"pod_group": group, "pod_group_min_count": str(minimum)}
        return annotated(changed, **declared, **({"pod_group_queue": queue} if queue else {}))
    return changed


def in_queue(name: str, manifest: Manifest) -> Manifest:
    """Return a pod without a group that names its queue."""
    changed = copy.deepcopy(manifest)
    changed["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = name
    return changed


def in_namespace(namespace: str, manifest: Manifest) -> Manifest:
    """Return a pod in a namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def queue(name: str, *, parent: str = "", state: str = "Open", **spec: Any) -> Manifest:
    """Return a Volcano Queue; `spec` is weight, capability, deserved, guarantee (amounts), reclaimable."""
    fields = {key: _named(value) if isinstance(value, Mapping) else value for key, value in spec.items()}
    if "guarantee" in fields:
        fields["guarantee"] = {"resource": fields["guarantee"]}
    if parent:
        fields["parent"] = parent
    kind = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}}
    return {**kind, "spec": fields, "status": {"state": state}}


def elastic_quota(namespace: str, least: Amounts, most: Amounts) -> Manifest:
    """Return the ElasticQuota of a namespace."""
    kind = {"apiVersion": COSCHEDULING, "kind": "ElasticQuota"}
    meta = {"name": "quota", "namespace": namespace}
    return {**kind, "metadata": meta, "spec": {"min": _named(least), "max": _named(most)}}
