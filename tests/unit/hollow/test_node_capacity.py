"""A kubelet rejects pods that its node has no room for."""

from __future__ import annotations

from pyscheduler.embedded.hollow.node_capacity import NodeCapacity


def requests(**amounts: int) -> dict[str, int]:
    return amounts


def empty_node() -> NodeCapacity:
    return NodeCapacity({"cpu": 4000, "memory": 1000, "pods": 3})


def test_pods_are_admitted_until_the_node_is_full() -> None:
    node = empty_node()
    assert node.admit("a", requests(cpu=3000)) is None
    assert node.admit("b", requests(cpu=1000)) is None


def test_pod_beyond_the_capacity_is_rejected_with_the_kubelets_message() -> None:
    node = empty_node()
    node.admit("a", requests(cpu=3000))
    failure = node.admit("b", requests(cpu=1001))
    assert failure is not None
    assert failure.reason == "OutOfcpu"
    assert failure.message.endswith("resource: cpu, requested: 1001, used: 3000, capacity: 4000")


def test_pod_that_requests_a_resource_the_node_lacks_is_rejected() -> None:
    failure = empty_node().admit("a", requests(**{"nvidia.com/gpu": 1}))
    assert failure is not None
    assert failure.reason == "OutOfnvidia.com/gpu"


def test_pod_that_requests_nothing_of_an_exhausted_resource_is_admitted() -> None:
    node = empty_node()
    node.hold("a", requests(cpu=9999))
    assert node.admit("b", requests(cpu=0, memory=1)) is None


def test_number_of_pods_is_limited() -> None:
    node = empty_node()
    for uid in "abc":
        assert node.admit(uid, requests()) is None
    failure = node.admit("d", requests())
    assert failure is not None
    assert failure.reason == "OutOfpods"


def test_rejected_pod_uses_no_resources() -> None:
    node = empty_node()
    node.admit("a", requests(cpu=5000))
    assert node.used == {}


def test_admitted_pod_is_admitted_again_without_double_counting() -> None:
    node = empty_node()
    node.admit("a", requests(cpu=4000))
    assert node.admit("a", requests(cpu=4000)) is None
    assert node.used["cpu"] == 4000


def test_resources_are_released_once() -> None:
    node = empty_node()
    node.admit("a", requests(cpu=4000))
    node.release("a")
    node.release("a")
    assert node.used["cpu"] == 0
    assert node.admit("b", requests(cpu=4000)) is None
