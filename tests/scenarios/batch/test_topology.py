"""Topology of groups: required and preferred domains, and the tightest fit."""

from __future__ import annotations

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import BLOCK, NATIVE, PREFERRED_TOPOLOGY, RACK, Manifest, gang, node, pod


def rack(name: str, slots: int, block: str = "") -> list[Manifest]:
    labels = {RACK: name, **({BLOCK: block} if block else {})}
    return [node(f"{name}-{i}", labels=labels) for i in range(slots)]


def racks_of(cluster: Cluster, prefix: str) -> set[str]:
    return {at.partition("-")[0] for key, at in cluster.bindings.items() if key.startswith(f"default/{prefix}")}


def test_group_goes_to_the_rack_that_it_leaves_the_least_room_in() -> None:
    cluster = Cluster(*rack("r1", 6), *rack("r2", 4), *rack("r3", 8))
    for size, expected in ((4, "r2"), (6, "r1"), (8, "r3")):
        cluster.submit(gang(f"g{size}", size, api=NATIVE, topology=RACK))
        assert cluster.members(f"g{size}") == size
        assert racks_of(cluster, f"g{size}") == {expected}


def test_group_is_not_spread_over_racks_if_one_is_required() -> None:
    cluster = Cluster(*rack("r1", 2), *rack("r2", 2))
    group = gang("a", 3, api=NATIVE, topology=RACK)
    cluster.submit(group)
    cluster.advance_to(60)
    assert cluster.members(group) == 0
    cluster.submit(*rack("r2", 3)[2:])
    cluster.advance_to(120)
    assert racks_of(cluster, "a") == {"r2"}


def test_small_pods_leave_the_large_hole_to_a_large_pod() -> None:
    cluster = Cluster(node("n2", 8, gpu=2), node("n1a", 8, gpu=1), node("n1b", 8, gpu=1))
    cluster.submit(gang("a", 2, [pod("a0", gpu=1), pod("a1", gpu=1)]))
    cluster.submit(gang("b", 1, [pod("b0", gpu=2)]))
    assert {cluster.bindings[f"default/a{i}"] for i in range(2)} == {"n1a", "n1b"}
    assert cluster.bindings["default/b0"] == "n2"


def test_preferred_racks_are_combined_within_one_block() -> None:
    cluster = Cluster(*rack("r1", 6, "b1"), *rack("r2", 4, "b1"), *rack("r3", 8, "b2"), *rack("r4", 8, "b2"))
    pods = [pod(f"g{i}") for i in range(10)]
    for each in pods:
        each["metadata"]["annotations"][PREFERRED_TOPOLOGY] = f"{RACK},{BLOCK}"
    cluster.submit(gang("g", 10, pods))
    assert cluster.members("g") == 10
    assert racks_of(cluster, "g") == {"r1", "r2"}
