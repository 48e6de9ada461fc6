"""Node events: creation, deletion, and changes of everything that a pod may be rejected for."""

from __future__ import annotations

from tests.conformance.generator import taints
from tests.conformance.generator.case import new_node
from tests.conformance.generator.generated_cluster import HOSTNAME, RACK, REGION, ZONE, Manifest
from tests.conformance.generator.resources import FPGA, GPU
from tests.properties.wakeup.cluster import Cluster

_MOST_NODES = 8
_VALUES = {
    ZONE: ("z1", "z2", "z3", "z4"),
    REGION: ("r1", "r2"),
    "disk": ("ssd", "hdd"),
    RACK: ("a", "b"),
    "rank": ("1", "10"),
    HOSTNAME: ("n0", "n1", "host-x"),
    "failure-domain.beta.kubernetes.io/zone": ("z1", "z2"),
    "topology.ebs.csi.aws.com/zone": ("z1", "z2"),
}


def _one(cluster: Cluster) -> Manifest | None:
    if not cluster.nodes:
        return None
    # A copy: the cluster's own object must stay as shown.
    made: Manifest = _copy(cluster.nodes[cluster.generated.one(*cluster.nodes)])
    return made


def _copy(part: Manifest) -> Manifest:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in part.items()}


def create(cluster: Cluster) -> str:
    """Create a node, mostly with a name that was used before or that other objects refer to."""
    names = [f"n{number}" for number in range(_MOST_NODES) if f"n{number}" not in cluster.nodes]
    if not names:
        return ""
    name = cluster.generated.one(*names)
    made = new_node(cluster.generated, int(name.removeprefix("n")), cluster.groups)
    before = cluster.generated.chance(0.5)
    if before:
        cluster.show_drawn()  # the CSINode may come first
    title = cluster.show_node(made)
    cluster.show_drawn()
    return f"{title} created with labels {made['metadata']['labels']}"


def delete(cluster: Cluster) -> str:
    return cluster.delete_node(cluster.generated.one(*cluster.nodes)) if cluster.nodes else ""


def redraw(cluster: Cluster) -> str:
    """Replace the node by a new one of the same name: several changes in one event."""
    if not cluster.nodes:
        return ""
    name = cluster.generated.one(*cluster.nodes)
    number = int(name.removeprefix("n")) if name.removeprefix("n").isdigit() else 0
    made = new_node(cluster.generated, number, cluster.groups)
    made["metadata"]["name"] = name
    cluster.show_drawn()
    return f"{cluster.show_node(made)} redrawn with labels {made['metadata']['labels']}"


def relabel(cluster: Cluster) -> str:
    node = _one(cluster)
    if node is None:
        return ""
    key = cluster.generated.one(*_VALUES, ZONE, HOSTNAME, REGION)
    value = cluster.generated.one(None, *_VALUES[key])
    labels = node["metadata"].setdefault("labels", {})
    labels.pop(key, None)
    if value is not None:
        labels[key] = value
    return f"{cluster.show_node(node)}: label {key}={value}"


def taint(cluster: Cluster) -> str:
    node = _one(cluster)
    if node is None:
        return ""
    node["spec"].pop("taints", None)
    node["spec"].pop("unschedulable", None)
    if cluster.generated.chance(0.5):
        taints.on_node(cluster.generated, node)
    return f"{cluster.show_node(node)}: spec {node['spec']}"


def cordon(cluster: Cluster) -> str:
    node = _one(cluster)
    if node is None:
        return ""
    unschedulable = not node["spec"].get("unschedulable", False)
    node["spec"]["unschedulable"] = unschedulable
    return f"{cluster.show_node(node)}: unschedulable {unschedulable}"


def resize(cluster: Cluster) -> str:
    """Increase or decrease one resource."""
    node = _one(cluster)
    if node is None:
        return ""
    resource, amounts = cluster.generated.one(
        ("cpu", ("0", "1", "2", "4", "16")),
        ("memory", ("0", "1Gi", "8Gi", "32Gi")),
        ("pods", ("0", "2", "4", "8", "110")),
        ("ephemeral-storage", ("1Gi", "50Gi")),
        (GPU, ("0", "1", "4")),
        (FPGA, ("0", "2")),
        ("hugepages-2Mi", ("0", "512Mi")),
    )
    amount = cluster.generated.one(*amounts)
    node["status"]["allocatable"][resource] = amount
    return f"{cluster.show_node(node)}: allocatable {resource}={amount}"


def declare(cluster: Cluster) -> str:
    node = _one(cluster)
    if node is None:
        return ""
    node["status"]["declaredFeatures"] = cluster.generated.some(_FEATURES)
    return f"{cluster.show_node(node)}: features {node['status']['declaredFeatures']}"


def report(cluster: Cluster) -> str:
    """Update a condition or an annotation, as a kubelet heartbeat does."""
    node = _one(cluster)
    if node is None:
        return ""
    node["status"]["conditions"] = [{"type": "Ready", "status": cluster.generated.one("True", "False", "Unknown")}]
    if cluster.generated.chance(0.3):
        node["metadata"]["annotations"] = {"seen": str(cluster.generated.serial())}
    return f"{cluster.show_node(node)} reports"


_FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
