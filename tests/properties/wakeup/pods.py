"""Pod events: creation, updates, binding, nomination, termination and deletion."""

from __future__ import annotations

from tests.conformance.generator import base
from tests.conformance.generator.case import new_pod
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.generator.ports import without_ports
from tests.properties.wakeup.cluster import Cluster

_MOST_PENDING = 8
_AMOUNTS: tuple[Manifest, ...] = ({"cpu": "100m"}, {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, {"memory": "64Mi"}, {})


def _one(cluster: Cluster, assigned: bool | None = None) -> Manifest | None:
    """Return a pod that has not terminated, None if there is none."""
    pods = [pod for pod in cluster.pods(assigned) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return cluster.generated.one(*pods) if pods else None


def create_pending(cluster: Cluster) -> str:
    """Create a pending pod; the objects that it refers to appear before or after it."""
    generated = cluster.generated
    pending = cluster.pods(assigned=False)
    if len(pending) >= _MOST_PENDING:
        return ""
    name = f"p{generated.serial()}-new"
    if pending and generated.chance(0.3):
        made = generated.twin(generated.one(*pending), name)
    else:
        made = new_pod(generated, name, cluster.groups)
    made["spec"]["schedulerName"] = generated.one(*cluster.context.profiles)
    return _shown(cluster, made)


def create_assigned(cluster: Cluster) -> str:
    """Create a pod placed by another scheduler, possibly on a deleted node."""
    generated, name = cluster.generated, cluster.generated.one(*cluster.nodes, "n-gone")
    serial = generated.serial()
    if generated.chance(0.3) and (pending := cluster.pods(assigned=False)):
        made = generated.twin(generated.one(*pending), f"a{serial}-new")
        without_ports(made)
        made["spec"]["nodeName"] = name
        made["spec"].pop("schedulingGates", None)
    else:
        made = new_pod(generated, f"a{serial}-new", cluster.groups, name)
    return _shown(cluster, made)


def _shown(cluster: Cluster, pod: Manifest) -> str:
    if cluster.generated.chance(0.7):
        cluster.show_drawn()
        return cluster.show_pod(pod)
    title = cluster.show_pod(pod)
    cluster.show_drawn()
    return title


def delete(cluster: Cluster) -> str:
    pod = _one(cluster)
    return cluster.delete_pod(pod) if pod else ""


def delete_assigned(cluster: Cluster) -> str:
    pod = _one(cluster, assigned=True)
    return cluster.delete_pod(pod) if pod else ""


def delete_terminating(cluster: Cluster) -> str:
    """Complete the deletion of a terminating pod, often a preemption victim."""
    pods = [pod for pod in cluster.pods() if "deletionTimestamp" in pod["metadata"]]
    return cluster.delete_pod(cluster.generated.one(*pods)) if pods else ""


def begin_terminating(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    base.delete(cluster.generated, pod)
    if cluster.generated.chance(0.2):
        pod["metadata"]["labels"] = base.pod_labels(cluster.generated)
    return f"{cluster.show_pod(pod)} begins to terminate"


def end(cluster: Cluster) -> str:
    pod = _one(cluster, assigned=True)
    if pod is None:
        return ""
    pod["status"]["phase"] = cluster.generated.one("Succeeded", "Failed")
    return f"{cluster.show_pod(pod)} ends"


def relabel(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    pod["metadata"]["labels"] = base.pod_labels(cluster.generated)
    return f"{cluster.show_pod(pod)} relabelled to {pod['metadata']['labels']}"


def resize(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    amounts = cluster.generated.one(*_AMOUNTS)
    resources = cluster.generated.one(*pod["spec"]["containers"]).setdefault("resources", {})
    resources["requests"] = {**resources.get("requests", {}), **amounts} if amounts else {}
    return f"{cluster.show_pod(pod)} resized to {amounts}"


def finish_resize(cluster: Cluster) -> str:
    """Complete a resize in the kubelet, or mark it as infeasible."""
    pods = [pod for pod in cluster.pods(assigned=True) if pod["status"].get("containerStatuses")]
    if not pods:
        return ""
    pod = cluster.generated.one(*pods)
    if cluster.generated.chance(0.5):
        del pod["status"]["containerStatuses"]
        return f"{cluster.show_pod(pod)}: resize finished"
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pod["status"].setdefault("conditions", []).append(condition)
    return f"{cluster.show_pod(pod)}: resize infeasible"


def tolerate(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    pod["spec"].setdefault("tolerations", []).append(cluster.generated.one({"operator": "Exists"}, *_TOLERATIONS))
    return f"{cluster.show_pod(pod)} tolerates {pod['spec']['tolerations'][-1]}"


_TOLERATIONS = tuple(
    {"key": key, "operator": "Exists"}
    for key in ("dedicated", "example.com/maintenance", "node.kubernetes.io/unschedulable")
)


def lift_gates(cluster: Cluster) -> str:
    pods = [pod for pod in cluster.pods(assigned=False) if pod["spec"].get("schedulingGates")]
    if not pods:
        return ""
    pod = cluster.generated.one(*pods)
    if cluster.generated.chance(0.3):
        pod["spec"]["nodeSelector"] = {"disk": cluster.generated.one("ssd", "hdd")}
    if cluster.generated.chance(0.7):
        del pod["spec"]["schedulingGates"]
    return f"{cluster.show_pod(pod)}: gates {pod['spec'].get('schedulingGates', 'lifted')}"


def nominate(cluster: Cluster) -> str:
    """Nominate a pod by another component, or clear the nomination."""
    pod = _one(cluster, assigned=False)
    if pod is None:
        return ""
    current = pod["status"].get("nominatedNodeName", "")
    pod["status"]["nominatedNodeName"] = "" if current and cluster.generated.chance(0.5) else _node(cluster)
    return f"{cluster.show_pod(pod)} nominated to {pod['status']['nominatedNodeName']!r}"


def change_nominated(cluster: Cluster) -> str:
    """Change or delete a nominated pod."""
    pods = [pod for pod in cluster.pods(assigned=False) if pod["status"].get("nominatedNodeName")]
    if not pods:
        return ""
    pod = cluster.generated.one(*pods)
    what = cluster.generated.one("relabelled", "resized", "deleted", "un-nominated")
    if what == "deleted":
        return cluster.delete_pod(pod)
    if what == "relabelled":
        pod["metadata"]["labels"] = base.pod_labels(cluster.generated)
    elif what == "resized":
        for container in pod["spec"]["containers"]:
            container["resources"] = {}
    else:
        pod["status"]["nominatedNodeName"] = ""
    return f"nominated {cluster.show_pod(pod)} {what}"


def bind(cluster: Cluster) -> str:
    """Bind a pending pod by another scheduler."""
    pod = _one(cluster, assigned=False)
    if pod is None:
        return ""
    pod["spec"].pop("schedulingGates", None)
    pod["spec"]["nodeName"] = _node(cluster)
    pod["status"].update(phase="Running", startTime=cluster.generated.start_time())
    return f"{cluster.show_pod(pod)} bound to {pod['spec']['nodeName']} by another scheduler"


def adopt(cluster: Cluster) -> str:
    """Add or remove a controller reference."""
    pod, owners = _one(cluster), [*cluster.objects("ReplicaSet"), *cluster.objects("StatefulSet")]
    if pod is None or not owners:
        return ""
    owner = cluster.generated.one(*owners)
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": owner["metadata"]["name"], "uid": "o"}
    pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}] if cluster.generated.chance(0.7) else []
    return f"{cluster.show_pod(pod)} owned by {pod['metadata']['ownerReferences']}"


def touch(cluster: Cluster) -> str:
    """Update the status without any effect on scheduling."""
    pod = _one(cluster)
    return f"{cluster.show_pod(pod)} touched" if pod else ""


def _node(cluster: Cluster) -> str:
    return cluster.generated.one(*cluster.nodes, "n-gone") if cluster.nodes else "n-gone"
