"""Events of pods: created, changed, bound, nominated, ended and deleted."""

from __future__ import annotations

from tests.conformance.generator import base
from tests.conformance.generator.case import new_pod
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.generator.ports import without_ports
from tests.properties.wakeup.cluster import Cluster

_MOST_PENDING = 8
_AMOUNTS: tuple[Manifest, ...] = ({"cpu": "100m"}, {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, {"memory": "64Mi"}, {})


def _one(cluster: Cluster, assigned: bool | None = None) -> Manifest | None:
    """A pod that has not ended."""
    pods = [pod for pod in cluster.pods(assigned) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return cluster.world.one(*pods) if pods else None


def create_pending(cluster: Cluster) -> str:
    """Objects that the pod refers to appear before it or after it."""
    world = cluster.world
    pending = cluster.pods(assigned=False)
    if len(pending) >= _MOST_PENDING:
        return ""
    name = f"p{world.serial()}-new"
    if pending and world.chance(0.3):
        made = world.twin(world.one(*pending), name)
    else:
        made = new_pod(world, name, cluster.groups)
    made["spec"]["schedulerName"] = world.one(*cluster.context.profiles)
    return _shown(cluster, made)


def create_assigned(cluster: Cluster) -> str:
    """Another scheduler has placed a pod, maybe on a node that is gone."""
    world, name = cluster.world, cluster.world.one(*cluster.nodes, "n-gone")
    serial = world.serial()
    if world.chance(0.3) and (pending := cluster.pods(assigned=False)):
        made = world.twin(world.one(*pending), f"a{serial}-new")
        without_ports(made)
        made["spec"]["nodeName"] = name
        made["spec"].pop("schedulingGates", None)
    else:
        made = new_pod(world, f"a{serial}-new", cluster.groups, name)
    return _shown(cluster, made)


def _shown(cluster: Cluster, pod: Manifest) -> str:
    if cluster.world.chance(0.7):
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
    """A pod that was being deleted, often the victim of a preemption, is gone."""
    pods = [pod for pod in cluster.pods() if "deletionTimestamp" in pod["metadata"]]
    return cluster.delete_pod(cluster.world.one(*pods)) if pods else ""


def begin_terminating(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    base.delete(cluster.world, pod)
    if cluster.world.chance(0.2):
        pod["metadata"]["labels"] = base.pod_labels(cluster.world)
    return f"{cluster.show_pod(pod)} begins to terminate"


def end(cluster: Cluster) -> str:
    pod = _one(cluster, assigned=True)
    if pod is None:
        return ""
    pod["status"]["phase"] = cluster.world.one("Succeeded", "Failed")
    return f"{cluster.show_pod(pod)} ends"


def relabel(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    pod["metadata"]["labels"] = base.pod_labels(cluster.world)
    return f"{cluster.show_pod(pod)} relabelled to {pod['metadata']['labels']}"


def resize(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    amounts = cluster.world.one(*_AMOUNTS)
    resources = cluster.world.one(*pod["spec"]["containers"]).setdefault("resources", {})
    resources["requests"] = {**resources.get("requests", {}), **amounts} if amounts else {}
    return f"{cluster.show_pod(pod)} resized to {amounts}"


def finish_resize(cluster: Cluster) -> str:
    """The kubelet has carried a resize out, or it never can."""
    pods = [pod for pod in cluster.pods(assigned=True) if pod["status"].get("containerStatuses")]
    if not pods:
        return ""
    pod = cluster.world.one(*pods)
    if cluster.world.chance(0.5):
        del pod["status"]["containerStatuses"]
        return f"{cluster.show_pod(pod)}: resize finished"
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pod["status"].setdefault("conditions", []).append(condition)
    return f"{cluster.show_pod(pod)}: resize infeasible"


def tolerate(cluster: Cluster) -> str:
    pod = _one(cluster)
    if pod is None:
        return ""
    pod["spec"].setdefault("tolerations", []).append(cluster.world.one({"operator": "Exists"}, *_TOLERATIONS))
    return f"{cluster.show_pod(pod)} tolerates {pod['spec']['tolerations'][-1]}"


_TOLERATIONS = tuple(
    {"key": key, "operator": "Exists"}
    for key in ("dedicated", "example.com/maintenance", "node.kubernetes.io/unschedulable")
)


def lift_gates(cluster: Cluster) -> str:
    pods = [pod for pod in cluster.pods(assigned=False) if pod["spec"].get("schedulingGates")]
    if not pods:
        return ""
    pod = cluster.world.one(*pods)
    if cluster.world.chance(0.3):
        pod["spec"]["nodeSelector"] = {"disk": cluster.world.one("ssd", "hdd")}
    if cluster.world.chance(0.7):
        del pod["spec"]["schedulingGates"]
    return f"{cluster.show_pod(pod)}: gates {pod['spec'].get('schedulingGates', 'lifted')}"


def nominate(cluster: Cluster) -> str:
    """Another component nominates a pod, or takes a nomination back."""
    pod = _one(cluster, assigned=False)
    if pod is None:
        return ""
    current = pod["status"].get("nominatedNodeName", "")
    pod["status"]["nominatedNodeName"] = "" if current and cluster.world.chance(0.5) else _node(cluster)
    return f"{cluster.show_pod(pod)} nominated to {pod['status']['nominatedNodeName']!r}"


def change_nominated(cluster: Cluster) -> str:
    """A pod that is nominated somewhere changes, or goes."""
    pods = [pod for pod in cluster.pods(assigned=False) if pod["status"].get("nominatedNodeName")]
    if not pods:
        return ""
    pod = cluster.world.one(*pods)
    what = cluster.world.one("relabelled", "resized", "deleted", "un-nominated")
    if what == "deleted":
        return cluster.delete_pod(pod)
    if what == "relabelled":
        pod["metadata"]["labels"] = base.pod_labels(cluster.world)
    elif what == "resized":
        for container in pod["spec"]["containers"]:
            container["resources"] = {}
    else:
        pod["status"]["nominatedNodeName"] = ""
    return f"nominated {cluster.show_pod(pod)} {what}"


def bind(cluster: Cluster) -> str:
    """Another scheduler binds a pod that waits here."""
    pod = _one(cluster, assigned=False)
    if pod is None:
        return ""
    pod["spec"].pop("schedulingGates", None)
    pod["spec"]["nodeName"] = _node(cluster)
    pod["status"].update(phase="Running", startTime=cluster.world.start_time())
    return f"{cluster.show_pod(pod)} bound to {pod['spec']['nodeName']} by another scheduler"


def adopt(cluster: Cluster) -> str:
    """A controller adopts a pod, or lets it go."""
    pod, owners = _one(cluster), [*cluster.objects("ReplicaSet"), *cluster.objects("StatefulSet")]
    if pod is None or not owners:
        return ""
    owner = cluster.world.one(*owners)
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": owner["metadata"]["name"], "uid": "o"}
    pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}] if cluster.world.chance(0.7) else []
    return f"{cluster.show_pod(pod)} owned by {pod['metadata']['ownerReferences']}"


def touch(cluster: Cluster) -> str:
    """A status update that changes nothing for scheduling."""
    pod = _one(cluster)
    return f"{cluster.show_pod(pod)} touched" if pod else ""


def _node(cluster: Cluster) -> str:
    return cluster.world.one(*cluster.nodes, "n-gone") if cluster.nodes else "n-gone"
