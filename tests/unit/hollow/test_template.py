"""The Node objects that hollow nodes register."""

from __future__ import annotations

from pyscheduler.embedded.hollow import NodeTemplate, node_templates
from pyscheduler.embedded.hollow.template import heartbeat, lease_object, node_object


def test_nodes_are_numbered_and_dealt_out_over_zones() -> None:
    nodes = node_templates(3, cpu="8", zones=["a", "b"])
    assert [(n.name, n.labels["topology.kubernetes.io/zone"]) for n in nodes] == [
        ("node-1", "a"), ("node-2", "b"), ("node-3", "a"),
    ]  # fmt: skip


def test_without_zones_there_is_no_zone_label() -> None:
    assert dict(node_templates(1)[0].labels) == {}


def test_a_node_shows_all_that_kubectl_prints() -> None:
    node = node_object(NodeTemplate("n", cpu="2", extra={"nvidia.com/gpu": "4"}), "10.64.0.1", 0.0)
    assert node["status"]["allocatable"] == {"cpu": "2", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "4"}
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.64.0.1"}
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"


def test_a_node_can_be_tainted_from_the_start() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    assert node_object(NodeTemplate("n", taints=[taint]), "10.64.0.1", 0.0)["spec"] == {"taints": [taint]}


def test_a_heartbeat_moves_the_transition_only_after_a_change() -> None:
    assert all("lastTransitionTime" in c for c in heartbeat(0.0, changed=True))
    assert not any("lastTransitionTime" in c for c in heartbeat(0.0, changed=False))


def test_a_lease_goes_with_its_node() -> None:
    lease = lease_object("n", "uid-1", 1.5)
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert lease["spec"]["renewTime"] == "1970-01-01T00:00:01.500000Z"
