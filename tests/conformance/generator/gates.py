"""What holds a pod back or out of the way: scheduling gates, deletion, features that a node must declare."""

from __future__ import annotations

from tests.conformance.generator.base import delete
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, containers, is_assigned

_RESTART, _USERNS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def scheduling_gates(world: GeneratedCluster, pod: Manifest) -> None:
    if not is_assigned(pod) and world.chance(0.4):
        names = world.some(("example.com/quota", "example.com/review", "acme.io/a"), 1)
        pod["spec"]["schedulingGates"] = [{"name": name} for name in names]
        world.mark("gates:scheduling")


def terminating(world: GeneratedCluster, pod: Manifest) -> None:
    """Pods being deleted, also by a preemption that has happened; and some that have ended, which count for nothing."""
    if is_assigned(pod) and world.chance(0.1):
        pod["status"]["phase"] = world.one("Succeeded", "Failed")
        world.mark("terminating:ended")
    if is_assigned(pod) and world.chance(0.3):
        delete(world, pod)
        world.mark("terminating:pod")
        if world.chance(0.4):
            reason = world.one("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI")
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), condition]
            world.mark("terminating:disruption-target")


def declared_on_node(world: GeneratedCluster, node: Manifest) -> None:
    features = world.some((_RESTART, _USERNS))
    if features:
        node["status"]["declaredFeatures"] = features


def declared_in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    if world.chance(0.4):
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        owner = world.one(*containers(pod), *pod["spec"].get("initContainers", ()))
        owner.update({"restartPolicy": owner.get("restartPolicy", "Never"), "restartPolicyRules": [rule]})
        world.mark("declared:restart-all")
    if world.chance(0.3):
        pod["spec"].update({"hostNetwork": True, "hostUsers": world.one(False, False, True)})
        world.mark("declared:host-users")
