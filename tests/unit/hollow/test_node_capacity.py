"""A kubelet refuses what its node has no room for."""

from __future__ import annotations

from pyscheduler.embedded.hollow.node_capacity import NodeCapacity


def asks(**amounts: int) -> dict[str, int]:
    return amounts


def room() -> NodeCapacity:
    return NodeCapacity({"cpu": 4000, "memory": 1000, "pods": 3})


def test_pods_are_let_in_until_the_node_is_full_to_the_brim() -> None:
    node = room()
    assert node.admit("a", asks(cpu=3000)) is None
    assert node.admit("b", asks(cpu=1000)) is None


def test_one_more_is_refused_in_the_kubelets_words() -> None:
    node = room()
    node.admit("a", asks(cpu=3000))
    refusal = node.admit("b", asks(cpu=1001))
    assert refusal is not None
    assert refusal.reason == "OutOfcpu"
    assert refusal.message.endswith("resource: cpu, requested: 1001, used: 3000, capacity: 4000")


def test_a_resource_that_the_node_does_not_have_is_out() -> None:
    refusal = room().admit("a", asks(**{"nvidia.com/gpu": 1}))
    assert refusal is not None
    assert refusal.reason == "OutOfnvidia.com/gpu"


def test_asking_for_nothing_of_a_full_resource_is_fine() -> None:
    node = room()
    node.hold("a", asks(cpu=9999))
    assert node.admit("b", asks(cpu=0, memory=1)) is None


def test_the_number_of_pods_is_a_resource_too() -> None:
    node = room()
    for uid in "abc":
        assert node.admit(uid, asks()) is None
    refusal = node.admit("d", asks())
    assert refusal is not None
    assert refusal.reason == "OutOfpods"


def test_a_refused_pod_takes_no_room() -> None:
    node = room()
    node.admit("a", asks(cpu=5000))
    assert node.used == {}


def test_a_pod_that_is_in_stays_in() -> None:
    node = room()
    node.admit("a", asks(cpu=4000))
    assert node.admit("a", asks(cpu=4000)) is None
    assert node.used["cpu"] == 4000


def test_room_comes_back_once() -> None:
    node = room()
    node.admit("a", asks(cpu=4000))
    node.release("a")
    node.release("a")
    assert node.used["cpu"] == 0
    assert node.admit("b", asks(cpu=4000)) is None
