"""Groups that request an extended resource that devices provide: no node lists it, and DynamicResources decides."""

from __future__ import annotations

from typing import Final

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import (
    ANNOTATIONS,
    COSCHEDULING,
    PREFERRED_TOPOLOGY,
    RACK,
    VOLCANO,
    Manifest,
    gang,
    in_queue,
    node,
    pod,
    queue,
)
from tests.scenarios.devices import device_class, resource_slice

GPU: Final = "example.com/gpu"
DEVICE_NODES: Final = ("a", "b")


def cluster(*objects: Manifest, devices: int = 2, cpu: int = 8) -> Cluster:
    """Return a cluster with two nodes, each in a rack of its own, and devices that provide example.com/gpu."""
    made = Cluster(*objects)
    made.device_resources = frozenset({GPU})
    made.apply(device_class(extendedResourceName=GPU))
    for name in DEVICE_NODES:
        made.apply(node(name, cpu, {RACK: name}))
        made.apply(resource_slice(name, *(f"g{i}" for i in range(devices))))
    return made


def users(name: str, count: int, cpu: int = 1) -> list[Manifest]:
    """Return pods that request one device each."""
    return [pod(f"{name}{i}", cpu, **{GPU: 1}) for i in range(count)]


def test_gang_with_a_required_topology_gets_the_devices_of_one_rack() -> None:
    made, group = cluster(), gang("g", 2, users("g", 2), topology=RACK)
    made.submit(group)
    assert len({made.bindings[key] for key in group.keys}) == 1


def test_gang_with_a_preferred_topology_gets_the_devices_of_one_rack() -> None:
    made, members = cluster(), users("g", 2)
    for each in members:
        each["metadata"]["annotations"][PREFERRED_TOPOLOGY] = RACK
    group = gang("g", 2, members, api=ANNOTATIONS)
    made.submit(group)
    assert len({made.bindings[key] for key in group.keys}) == 1


@pytest.mark.parametrize("api", [VOLCANO, COSCHEDULING])
def test_gang_starts_although_no_node_lists_its_minimum_resources(api: str) -> None:
    made = cluster()
    made.submit(gang("g", 2, users("g", 2), api=api, min_resources={GPU: "2", "cpu": "2"}))
    assert made.members("g") == 2


def test_gang_is_retried_once_a_class_provides_its_minimum_resources() -> None:
    made = Cluster(node("a", 8))
    made.device_resources = frozenset({GPU})
    made.submit(gang("g", 2, users("g", 2), api=VOLCANO, min_resources={GPU: "2"}))
    assert made.members("g") == 0
    made.apply(resource_slice("a", "g0", "g1"))
    made.apply(device_class(extendedResourceName=GPU))
    made.advance(20)
    assert made.members("g") == 2


def with_a_device_plugin() -> Cluster:
    """Return a cluster in which nodes with devices lack cpu, and the node that lists the resource has none left."""
    made = cluster(cpu=1)
    made.submit(pod("busy-a"), pod("busy-b"))
    made.submit(node("listed", 8, {}, **{GPU: 1}), *users("first", 1))
    assert made.bindings["default/first0"] == "listed"
    return made


def test_gang_is_retried_once_pods_end_on_nodes_with_devices() -> None:
    made = with_a_device_plugin()
    made.submit(gang("g", 2, users("g", 2)))
    assert made.members("g") == 0
    made.end("busy-a")
    made.end("busy-b")
    made.advance(20)
    assert made.members("g") == 2


def test_gang_preempts_on_nodes_with_devices() -> None:
    made = with_a_device_plugin()
    made.submit(gang("g", 2, [{**each, "spec": {**each["spec"], "priority": 100}} for each in users("g", 2)]))
    made.advance(20)
    assert made.members("g") == 2


def test_gang_waits_for_cpu_on_nodes_with_devices_and_its_message_names_no_device() -> None:
    made = cluster(cpu=1)
    made.submit(pod("busy-a"), pod("busy-b"))
    made.submit(gang("g", 2, users("g", 2)))
    assert "cpu" in made.message("g0")
    assert GPU not in made.message("g0")


def test_gang_reclaims_cpu_on_nodes_with_free_devices() -> None:
    made = cluster(queue("lender", weight=1), queue("borrower", weight=1), cpu=2)
    made.submit(*(in_queue("borrower", pod(f"busy{i}")) for i in range(4)))
    made.submit(gang("g", 2, users("g", 2), api=VOLCANO, queue="lender"))
    made.advance(20)
    assert made.members("g") == 2
