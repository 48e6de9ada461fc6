"""Pods with PersistentVolumeClaims: volumes are bound before the pod, and each to one claim."""

from __future__ import annotations

from typing import Any

from pyscheduler.api import ResourceKind
from pyscheduler.core.commands import Bind
from pyscheduler.testing import Harness, PodBuilder, node, pod

VOLUME = ResourceKind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIM = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
STORAGE_CLASS = ResourceKind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


def with_storage(provisioner: str) -> Harness:
    """Return a cluster with two nodes in two zones and a WaitForFirstConsumer StorageClass."""
    harness = Harness()
    harness.add(node("a").zone("z1"), node("b").zone("z2"))
    late = {"metadata": {"name": "late"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    harness.add_object(STORAGE_CLASS, late)
    return harness


def claim(name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "0"}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": meta, "spec": {**wanted, "storageClassName": "late"}, "status": {"phase": "Pending"}}


def volume(name: str, zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"metadata": {"name": name, "resourceVersion": "0"}, "spec": spec, "status": {"phase": "Available"}}


def using(name: str, claim_name: str) -> PodBuilder:
    return pod(name).spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


def finish(harness: Harness, claim_name: str, volume_name: str) -> None:
    """Bind a claim to its volume, as the persistent volume controller does."""
    current = harness.handle.objects[CLAIM]["default", claim_name]
    annotations = {**current["metadata"].get("annotations", {}), "pv.kubernetes.io/bind-completed": "yes"}
    meta = {**current["metadata"], "annotations": annotations, "resourceVersion": "1000"}
    harness.add_object(CLAIM, {**current, "metadata": meta, "spec": {**current["spec"], "volumeName": volume_name}})


def test_pod_is_bound_after_its_claim_is_provisioned_for_the_chosen_node() -> None:
    harness = with_storage("maker")
    harness.add_object(CLAIM, claim("data"))
    harness.add(using("web", "data").spec(nodeSelector={ZONE: "z2"}))
    harness.run()
    current = harness.handle.objects[CLAIM]["default", "data"]
    assert current["metadata"]["annotations"] == {SELECTED: "b"}
    harness.advance(5)
    assert harness.assignments == {}
    provisioned = volume("made", "z2")
    harness.add_object(
        VOLUME, {**provisioned, "spec": {**provisioned["spec"], "claimRef": {"name": "data", "uid": "data"}}}
    )
    finish(harness, "data", "made")
    harness.advance(1)
    assert harness.assignments == {"web": "b"}


def test_other_pods_are_scheduled_while_a_pod_waits_for_its_volume() -> None:
    harness = with_storage("maker")
    harness.add_object(CLAIM, claim("data"))
    harness.add(using("slow", "data").requests(cpu="4").spec(nodeSelector={ZONE: "z1"}))
    harness.run()
    harness.add(pod("quick"), pod("same-node").requests(cpu="4").spec(nodeSelector={ZONE: "z1"}))
    harness.run()
    assert harness.assignments["quick"] in ("a", "b")
    assert "1 Insufficient cpu" in harness.pending_message("same-node")
    harness.add_object(VOLUME, volume("made", "z1"))
    finish(harness, "data", "made")
    harness.advance(1)
    assert harness.assignments["slow"] == "a"
    assert "same-node" not in harness.assignments


def test_two_pods_that_fit_the_same_volume_get_different_volumes() -> None:
    harness = with_storage("kubernetes.io/no-provisioner")
    for name, zone in (("pv-a", "z1"), ("pv-b", "z2")):
        harness.add_object(VOLUME, volume(name, zone))
    for name in ("x", "y"):
        harness.add_object(CLAIM, claim(name))
        harness.add(using(name, name))
    harness.run()
    bindings = {c.pod.name: c.node_name for c in harness.commands if isinstance(c, Bind)}
    assert sorted(bindings.values()) == ["a", "b"]
    owners = {v["metadata"]["name"]: v["spec"]["claimRef"]["name"] for v in harness.handle.objects[VOLUME].values()}
    volume_of = {owner: name for name, owner in owners.items()}
    for name in ("x", "y"):
        assert volume_of[name] == f"pv-{bindings[name]}"
        finish(harness, name, volume_of[name])
    harness.advance(1)
    assert harness.assignments == bindings


def test_pod_is_unschedulable_until_a_free_volume_is_added() -> None:
    harness = with_storage("kubernetes.io/no-provisioner")
    harness.add_object(VOLUME, volume("pv-a", "z1"))
    for name in ("x", "y"):
        harness.add_object(CLAIM, claim(name))
        harness.add(using(name, name))
    harness.run()
    assert [c.pod.name for c in harness.commands if isinstance(c, Bind)] == ["x"]
    unmatched = "2 node(s) didn't find available persistent volumes to bind"
    assert harness.pending_message("y").startswith(f"0/2 nodes are available: {unmatched}")
    harness.add_object(VOLUME, volume("pv-b", "z2"))
    harness.advance(2)
    finish(harness, "y", "pv-b")
    harness.advance(1)
    assert harness.assignments == {"y": "b"}


def test_pod_is_rescheduled_when_the_provisioner_resets_the_selected_node() -> None:
    harness = with_storage("maker")
    harness.add_object(CLAIM, claim("data"))
    harness.add(using("web", "data"))
    harness.run()
    current = harness.handle.objects[CLAIM]["default", "data"]
    harness.add_object(CLAIM, {**current, "metadata": {**claim("data")["metadata"], "resourceVersion": "900"}})
    harness.advance(1)
    problem = 'binding volumes: selectedNode annotation reset for PVC "data"'
    assert harness.pending_message("web") == f'running PreBind plugin "VolumeBinding": {problem}'
    harness.advance(10)
    assert SELECTED in harness.handle.objects[CLAIM]["default", "data"]["metadata"]["annotations"]
    harness.add_object(VOLUME, {**volume("made", "z1"), "spec": {}})
    finish(harness, "data", "made")
    harness.advance(1)
    assert list(harness.assignments) == ["web"]


def test_volume_of_a_pod_deleted_during_binding_is_free_again() -> None:
    harness = with_storage("maker")
    harness.complete_bindings = False
    harness.add_object(CLAIM, claim("data"))
    harness.add(using("web", "data").spec(nodeSelector={ZONE: "z1"}))
    harness.run()
    harness.delete_pod("web")
    # Nothing was written yet, so the claim may go to any node again.
    harness.complete_bindings = True
    harness.add(using("other", "data").spec(nodeSelector={ZONE: "z2"}))
    harness.run()
    assert harness.handle.objects[CLAIM]["default", "data"]["metadata"]["annotations"] == {SELECTED: "b"}


def test_storage_class_without_binding_mode_gives_kube_schedulers_message() -> None:
    harness = with_storage("maker")
    harness.add_object(STORAGE_CLASS, {"metadata": {"name": "late"}, "provisioner": "maker"})
    harness.add_object(CLAIM, claim("data"))
    harness.add(using("web", "data"))
    harness.run()
    problem = 'VolumeBindingMode not set for StorageClass "late"'
    assert harness.pending_message("web") == f'running PreFilter plugin "VolumeBinding": {problem}'


def test_invalid_selector_of_a_claim_fails_filter() -> None:
    harness = with_storage("kubernetes.io/no-provisioner")
    wrong = claim("data")
    wrong["spec"]["selector"] = {"matchExpressions": [{"key": "disk", "operator": "Near"}]}
    harness.add_object(CLAIM, wrong)
    harness.add(using("web", "data"))
    harness.run()
    problem = 'error creating internal label selector for claim: default/data: "Near" is not a valid label selector'
    assert harness.pending_message("web") == f'running "VolumeBinding" filter plugin: {problem} operator'
