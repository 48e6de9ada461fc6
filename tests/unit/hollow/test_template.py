"""Node objects of hollow nodes."""

from __future__ import annotations

from pyscheduler.embedded.hollow import NodeTemplate, node_templates
from pyscheduler.embedded.hollow.template import heartbeat, lease_object, node_object


def test_nodes_are_numbered_and_distributed_over_zones() -> None:
    nodes = node_templates(3, cpu="8", zones=["a", "b"])
    assert [(n.name, n.labels["topology.kubernetes.io/zone"]) for n in nodes] == [
        ("node-1", "a"), ("node-2", "b"), ("node-3", "a"),
    ]  # fmt: skip


def test_node_without_zones_has_no_zone_label() -> None:
    assert dict(node_templates(1)[0].labels) == {}


def test_node_status_has_what_kubectl_prints() -> None:
    node = node_object(NodeTemplate("n", cpu="2", extra={"nvidia.com/gpu": "4"}), "10.64.0.1", 0.0)
    assert node["status"]["allocatable"] == {
        "cpu": "2",
        "memory": "32Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
        "nvidia.com/gpu": "4",
    }
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.64.0.1"}
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.37")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"


def test_node_can_have_taints() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    assert node_object(NodeTemplate("n", taints=[taint]), "10.64.0.1", 0.0)["spec"] == {"taints": [taint]}


def test_heartbeat_sets_transition_time_only_after_a_change() -> None:
    assert all("lastTransitionTime" in c for c in heartbeat(0.0, changed=True))
    assert not any("lastTransitionTime" in c for c in heartbeat(0.0, changed=False))


def test_lease_is_owned_by_its_node() -> None:
    lease = lease_object("n", "uid-1", 1.5)
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert lease["spec"]["renewTime"] == "1970-01-01T00:00:01.500000Z"
