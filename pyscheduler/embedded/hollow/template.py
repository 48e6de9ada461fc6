"""Node object of a hollow node: what a kubelet of that size would register."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

from pyscheduler.embedded.objects import Json, micro_timestamp, timestamp

KUBELET_VERSION = "v1.37.2"
EPHEMERAL_STORAGE = "100Gi"
RUNTIME = "hollow://1.0"
"""Container runtime of hollow nodes, by which they are recognized."""
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40

_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True)
class NodeTemplate:
    """Size, labels and taints of a node. Amounts are quantities; `extra` has other resources such as nvidia.com/gpu."""

    name: str
    cpu: str = "4"
    memory: str = "32Gi"
    pods: str = "110"
    extra: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Json] = ()

    @property
    def amounts(self) -> dict[str, str]:
        """Capacity of the node as a resource list."""
        sizes = {"cpu": self.cpu, "memory": self.memory, "ephemeral-storage": EPHEMERAL_STORAGE, "pods": self.pods}
        return {**sizes, **self.extra}


def node_templates(
    count: int,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    zones: Sequence[str] = (),
    prefix: str = "node-",
) -> list[NodeTemplate]:
    """Return `count` templates of one size, named node-1, node-2 and so on, in `zones` round robin."""
    labels: list[dict[str, str]] = [{"topology.kubernetes.io/zone": zone} for zone in zones] or [{}]
    return [
        NodeTemplate(f"{prefix}{number}", cpu, memory, pods, labels=zoned)
        for number, zoned in enumerate(islice(cycle(labels), count), 1)
    ]


def node_object(template: NodeTemplate, address: str, now: float) -> Json:
    """Return the Node as the kubelet first registers it. `address` "" is assigned when the node is adopted."""
    labels = {
        "kubernetes.io/hostname": template.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "type": "hollow",
        **template.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": template.name, "labels": labels},
        "spec": {"taints": [dict(taint) for taint in template.taints]} if template.taints else {},
        "status": node_status(template, address, now),
    }


def node_status(template: NodeTemplate, address: str, now: float) -> Json:
    """Return the status of a ready and healthy node."""
    return {
        "capacity": template.amounts,
        "allocatable": template.amounts,
        "conditions": heartbeat(now, changed=True),
        "addresses": _addresses(template.name, address),
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Hollow node (no containers)",
            "kernelVersion": "6.1.0-hollow",
            "containerRuntimeVersion": RUNTIME,
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "machineID": template.name,
            "systemUUID": template.name,
            "bootID": template.name,
        },
    }


def adoption_status(name: str, address: str, *, has_address: bool) -> Json:
    """Return the status patch that makes a Node of another origin a hollow one."""
    status: Json = {"nodeInfo": {"containerRuntimeVersion": RUNTIME}}
    return status if has_address else status | {"addresses": _addresses(name, address)}


def _addresses(name: str, address: str) -> list[Json]:
    internal = [{"type": "InternalIP", "address": address}] if address else []
    return [*internal, {"type": "Hostname", "address": name}]


def heartbeat(now: float, *, changed: bool) -> list[Json]:
    """Return the conditions of a healthy node. `changed` also sets lastTransitionTime."""
    at = timestamp(now)
    stamp = {"lastHeartbeatTime": at} | ({"lastTransitionTime": at} if changed else {})
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, **stamp}
        for kind, status, reason, message in _HEALTHY
    ]


def lease_object(name: str, uid: str, now: float) -> Json:
    """Return the node's Lease, owned by the Node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_timestamp(now)},
    }


def lease_renewal(now: float) -> Json:
    """Return the patch that renews a Lease."""
    return {"spec": {"renewTime": micro_timestamp(now)}}
