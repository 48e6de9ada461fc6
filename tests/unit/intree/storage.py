"""Storage objects for tests, and a handle that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyscheduler.api import ResourceKind
from pyscheduler.core.framework.handle import build_handle
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.testing import NodeBuilder, PodBuilder, pod

Manifest = dict[str, Any]
KINDS: dict[str, ResourceKind] = {
    kind.kind: kind
    for kind in (
        kinds.VOLUME,
        kinds.CLAIM,
        kinds.STORAGE_CLASS,
        kinds.CSI_NODE,
        kinds.CSI_DRIVER,
        kinds.CSI_STORAGE_CAPACITY,
        kinds.VOLUME_ATTACHMENT,
    )
}
ZONE = "topology.kubernetes.io/zone"


class Cluster:
    """Storage objects, nodes and pods, with the handle to read them."""

    def __init__(self, *objects: Manifest, nodes: Sequence[NodeBuilder] = (), pods: Sequence[PodBuilder] = ()) -> None:
        self.state = ClusterState()
        self.handle = build_handle(self.state, Nominator(), {}, pending_pod=lambda _: None)
        for node in nodes:
            self.state.set_node(node.build())
        for running in pods:
            self.state.add_pod(running.build())
        self.show(*objects)

    def show(self, *objects: Manifest) -> None:
        """Add or update the objects, as the watch would."""
        for obj in objects:
            self.handle.objects.set(KINDS[obj["kind"]], obj)

    def hide(self, obj: Manifest) -> None:
        """Delete the object, as the watch would."""
        self.handle.objects.remove(KINDS[obj["kind"]], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def obj(kind: str, name: str, **fields: Any) -> Manifest:
    return {"kind": kind, "metadata": {"name": name, "resourceVersion": "1"}, **fields}


def meta(of: Manifest, **fields: Any) -> Manifest:
    """Return the object with these metadata fields, in the API's names."""
    return {**of, "metadata": {**of["metadata"], **fields}}


def spec(of: Manifest, **fields: Any) -> Manifest:
    """Return the object with these spec fields, in the API's names."""
    return {**of, "spec": {**of["spec"], **fields}}


def claim(name: str = "data", size: str = "1Gi", storage_class: str = "late", **fields: Any) -> Manifest:
    """Return an unbound claim."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    made = obj("PersistentVolumeClaim", name, spec={**wanted, "storageClassName": storage_class, **fields})
    return meta(made, namespace="default", uid=f"uid-{name}")


def bound(to: str, name: str = "data") -> Manifest:
    """Return a claim that is bound to a volume."""
    return meta(claim(name, volumeName=to), annotations={"pv.kubernetes.io/bind-completed": "yes"})


def volume(name: str = "pv", size: str = "1Gi", storage_class: str = "late", **fields: Any) -> Manifest:
    """Return a volume that is available."""
    given = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    return obj("PersistentVolume", name, spec={**given, **fields}, status={"phase": "Available"})


def within(*zones: str, key: str = ZONE) -> Manifest:
    """Return the node affinity of a volume in these zones."""
    expression = {"key": key, "operator": "In", "values": list(zones)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def storage_class(
    name: str = "late", mode: str | None = "WaitForFirstConsumer", provisioner: str = "maker", **fields: Any
) -> Manifest:
    made = obj("StorageClass", name, provisioner=provisioner, **fields)
    return {**made, "volumeBindingMode": mode} if mode else made


def using(*claims: str, name: str = "pod") -> PodBuilder:
    """Return a pod that uses these claims."""
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
    return pod(name).spec(volumes=volumes)


def ephemeral(volume_name: str = "scratch", name: str = "pod") -> PodBuilder:
    """Return a pod with an ephemeral claim."""
    return pod(name).spec(volumes=[{"name": volume_name, "ephemeral": {"volumeClaimTemplate": {}}}])
