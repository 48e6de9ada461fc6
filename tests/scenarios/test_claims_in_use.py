"""ReadWriteOncePod claims, volume limits, and the message of a PreFilter that ends early."""

from __future__ import annotations

from typing import Any

from pyscheduler.intree.volumes.objects import CLAIM, CSI_NODE, VOLUME
from pyscheduler.testing import Harness, PodBuilder, node, pod

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
DRIVER = "csi.example.com"


def claim(name: str, mode: str = "ReadWriteOncePod") -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "annotations": BOUND}
    return {"metadata": meta, "spec": {"accessModes": [mode], "volumeName": name}, "status": {"phase": "Bound"}}


def volume(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"csi": {"driver": DRIVER, "volumeHandle": name}}}


def using(name: str, claim_name: str) -> PodBuilder:
    return pod(name).spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


def build_harness(*claims: dict[str, Any]) -> Harness:
    harness = Harness()
    harness.add(node("n1"), node("n2"))
    for one in claims:
        harness.add_object(CLAIM, one)
        harness.add_object(VOLUME, volume(one["metadata"]["name"]))
    return harness


def test_pod_is_scheduled_when_the_user_of_its_claim_is_deleted() -> None:
    harness = build_harness(claim("alone"))
    harness.add(using("first", "alone"))
    harness.run()
    harness.add(using("second", "alone"))
    harness.run()
    assert harness.pending_message("second").startswith(
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod. preemption: "
    )
    harness.delete_pod("first")
    harness.advance(3)
    assert set(harness.assignments) >= {"second"}


def test_user_of_a_claim_is_preempted_by_a_pod_of_higher_priority() -> None:
    harness = build_harness(claim("alone"))
    harness.add(using("user", "alone"))
    harness.run()
    harness.add(using("high", "alone").priority(10))
    harness.run()
    harness.advance(3)
    assert harness.evicted() == ["user"]
    assert "high" in harness.assignments


def test_message_of_a_missing_claim_is_kube_schedulers_each_time() -> None:
    """DynamicResources has no state if an earlier plugin ended PreFilter, even if the signature had some before."""
    missing = '0/2 nodes are available: persistentvolumeclaim "many" not found. not found'
    harness = build_harness()
    harness.add(using("a", "many"))
    harness.run()
    assert harness.pending_message("a") == missing
    harness.add_object(CLAIM, claim("many", "ReadWriteMany"))
    harness.add_object(VOLUME, volume("many"))
    harness.advance(3)
    assert set(harness.assignments) == {"a"}
    harness.remove_object(CLAIM, "many")
    harness.add(using("b", "many"))
    harness.run()
    assert harness.pending_message("b") == missing


def test_pod_fits_a_node_at_its_volume_limit_after_another_is_deleted() -> None:
    harness = build_harness(claim("one", "ReadWriteOnce"), claim("two", "ReadWriteOnce"))
    harness.delete_node("n2")
    drivers = [{"name": DRIVER, "allocatable": {"count": 1}}]
    harness.add_object(CSI_NODE, {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})
    harness.add(using("first", "one"))
    harness.run()
    harness.add(using("second", "two"))
    harness.run()
    assert harness.pending_message("second").startswith("0/1 nodes are available: 1 node(s) exceed max volume count. ")
    harness.delete_pod("first")
    harness.advance(3)
    assert "second" in harness.assignments
