"""Pods that are not scheduled or limited to some nodes: scheduling gates, deletion, declared node features."""

from __future__ import annotations

from tests.conformance.generator.base import delete
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, containers, is_assigned

_RESTART, _USERNS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
_MOUNTS = "VolumeBindMountOptions"


def scheduling_gates(cluster: GeneratedCluster, pod: Manifest) -> None:
    if not is_assigned(pod) and cluster.chance(0.4):
        names = cluster.some(("example.com/quota", "example.com/review", "acme.io/a"), 1)
        pod["spec"]["schedulingGates"] = [{"name": name} for name in names]
        cluster.mark("gates:scheduling")


def terminating(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Make pods terminating, also by preemption, or completed, which no longer count."""
    if is_assigned(pod) and cluster.chance(0.1):
        pod["status"]["phase"] = cluster.one("Succeeded", "Failed")
        cluster.mark("terminating:ended")
    if is_assigned(pod) and cluster.chance(0.3):
        delete(cluster, pod)
        cluster.mark("terminating:pod")
        if cluster.chance(0.4):
            reason = cluster.one("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI")
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), condition]
            cluster.mark("terminating:disruption-target")


def declared_on_node(cluster: GeneratedCluster, node: Manifest) -> None:
    features = cluster.some((_RESTART, _USERNS, _MOUNTS))
    if features:
        node["status"]["declaredFeatures"] = features


def declared_in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    if cluster.chance(0.4):
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        owner = cluster.one(*containers(pod), *pod["spec"].get("initContainers", ()))
        owner.update({"restartPolicy": owner.get("restartPolicy", "Never"), "restartPolicyRules": [rule]})
        cluster.mark("declared:restart-all")
    if cluster.chance(0.3):
        pod["spec"].update({"hostNetwork": True, "hostUsers": cluster.one(False, False, True)})
        cluster.mark("declared:host-users")
    if cluster.chance(0.3):
        owner = cluster.one(*containers(pod), *pod["spec"].get("initContainers", ()))
        options = cluster.one({}, {"bindMountOptions": ["noexec"]}, {"bindMountOptions": ["noexec"]})
        mounts = [*owner.get("volumeMounts", ()), {"name": "scratch", "mountPath": "/scratch", **options}]
        owner["volumeMounts"] = mounts
        cluster.mark("declared:bind-mount-options")
