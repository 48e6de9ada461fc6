"""Groups with members on nodes that are deleted, before the pod garbage collector deletes the pods."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import APIS, COSCHEDULING, VOLCANO, annotated, gang, node, pod, queue, slots


def node_of(cluster: Cluster, name: str) -> str:
    return cluster.bindings[f"default/{name}"]


@pytest.mark.parametrize("api", APIS)
def test_surplus_replaces_a_member_on_a_deleted_node(api: str) -> None:
    """Surplus does not preempt, but a pod that the group needs does."""
    cluster = Cluster(*slots(4))
    cluster.submit(pod("filler"))
    group = gang("a", 3, [pod(f"a{i}", priority=10) for i in range(4)], api=api)
    cluster.submit(group)
    cluster.advance_to(60)
    assert (cluster.members(group), cluster.evicted_names) == (3, [])
    cluster.exempt(group)
    cluster.delete("Node", node_of(cluster, "a0"))
    cluster.advance_to(120)
    assert cluster.evicted_names == ["filler"]
    assert "default/a3" in cluster.bindings


CONDITIONS = {
    VOLCANO: {"Scheduled": "False", "Unschedulable": "True"},
    COSCHEDULING: {"Scheduled": "False"},
}


@pytest.mark.parametrize("api", CONDITIONS)
@pytest.mark.parametrize("returned", [1, 2], ids=["minimum lacks a pod", "no room"])
def test_condition_of_a_group_that_lost_members_is_not_scheduled(api: str, returned: int) -> None:
    cluster = Cluster(*slots(4))
    group = gang("a", 4, api=api)
    cluster.submit(group)
    cluster.exempt(group)
    cluster.advance(1)
    for name in ("a0", "a1"):
        cluster.delete("Node", node_of(cluster, name))
        cluster.delete("Pod", name)
    cluster.submit(*group.pods[:returned])
    cluster.advance(60)
    found = {type: cluster.condition(f"PodGroup.{api.split('/')[0]}", "default/a", type) for type in CONDITIONS[api]}
    assert {type: each and each["status"] for type, each in found.items()} == CONDITIONS[api]


def test_members_that_are_left_are_evicted_one_by_one() -> None:
    """They are of no use any more, so a single pod does not evict all of them, nor a useful pod beside them."""
    cluster = Cluster(*slots(4))
    group = gang("a", 3)
    cluster.submit(group)
    cluster.submit(pod("other"))
    cluster.exempt(group)
    cluster.delete("Node", node_of(cluster, "a0"))
    cluster.submit(pod("urgent", priority=10))
    cluster.advance_to(0.5)
    [evicted] = cluster.evicted_names
    assert evicted in {"a1", "a2"}


@pytest.mark.parametrize("api", APIS)
def test_members_count_again_if_their_node_returns(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 2, 3, api=api)
    cluster.apply_all(*group.objects)
    cluster.submit(*group.pods[:2])
    lost = node_of(cluster, "a0")
    cluster.exempt(group)
    cluster.delete("Node", lost)
    cluster.advance(5)
    cluster.submit(node(lost))
    cluster.submit(group.pods[2])
    cluster.advance(5)
    assert cluster.members(group) == 3
    cluster.submit(pod("urgent", priority=10))
    cluster.advance(0.5)
    assert cluster.evicted_names == ["a2"], "the third is surplus, not in place of the first"


@pytest.mark.parametrize("rebuild", [Cluster.restart, lambda cluster: cluster.reconfigure(CONFIG)])
def test_members_on_deleted_nodes_do_not_count_in_rebuilt_groups(rebuild: Callable[[Cluster], object]) -> None:
    cluster = Cluster(*slots(4))
    group = gang("a", 3)
    cluster.submit(group)
    cluster.exempt(group)
    cluster.delete("Node", node_of(cluster, "a0"))
    rebuild(cluster)
    cluster.submit(pod("filler"))
    cluster.submit(pod("urgent", priority=10))
    cluster.advance(0.5)
    [evicted] = cluster.evicted_names
    assert evicted in {"a1", "a2"}, "pods of a group below its minimum go first"


def test_queue_may_use_what_its_lost_pods_had() -> None:
    cluster = Cluster(*slots(3), queue("q", capability={"cpu": 2}))
    members = [
        annotated(pod(f"a{i}"), pod_group=f"g{i}", pod_group_min_count="1", pod_group_queue="q") for i in range(3)
    ]
    cluster.submit(*members)
    cluster.advance_to(10)
    assert cluster.members("a") == 2
    cluster.delete("Node", node_of(cluster, "a0"))
    cluster.advance_to(30)
    assert cluster.members("a") == 3


def test_members_that_are_listed_before_their_nodes_count() -> None:
    cluster = Cluster()
    group = gang("a", 3)
    cluster.exempt(group)
    for i, each in enumerate(group.pods[:2]):
        cluster.apply({**each, "spec": {**each["spec"], "nodeName": f"slot{i}"}})
    cluster.submit(*group.objects, group.pods[2])
    cluster.submit(*slots(3))
    cluster.advance_to(10)
    assert cluster.bindings["default/a2"] == "slot2"
