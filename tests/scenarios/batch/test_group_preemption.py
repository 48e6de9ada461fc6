"""Preemption by pod groups and of their pods: no eviction in vain, surplus first, groups as a whole."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import (
    APIS,
    COSCHEDULING,
    NATIVE,
    RACK,
    VOLCANO,
    Gang,
    annotated,
    gang,
    in_queue,
    node,
    pod,
    queue,
    slots,
)

HOUR = 3600


def full(count: int, priority: int = 0, **annotations: str) -> Cluster:
    """Return a cluster whose slots are all taken by single pods."""
    cluster = Cluster(*slots(count))
    cluster.submit(*(annotated(pod(f"low{i}", priority=priority), **annotations) for i in range(count)))
    assert len(cluster.bindings) == count
    return cluster


def with_priority(name: str, minimum: int, priority: int, api: str, size: int | None = None) -> Gang:
    """Return a group whose pods have a priority."""
    return gang(name, minimum, [pod(f"{name}{i}", priority=priority) for i in range(size or minimum)], api=api)


@pytest.mark.parametrize("api", APIS)
def test_nothing_is_evicted_for_a_group_that_cannot_start(api: str) -> None:
    cluster = full(2)
    group = with_priority("a", 3, 100, api)
    cluster.submit(group)
    cluster.advance_to(HOUR)
    assert cluster.evictions == []
    cluster.submit(node("slot2"))
    cluster.advance_to(HOUR + 30)
    assert sorted(cluster.evicted_names) == ["low0", "low1"]
    assert cluster.members(group) == 3


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_priority_of_a_group_is_the_least_of_its_pods(api: str) -> None:
    cluster = full(3, priority=50)
    pods = [pod("launcher", priority=100), pod("worker0"), pod("worker1")]
    cluster.submit(gang("a", 3, pods, api=api))
    cluster.advance_to(HOUR)
    assert cluster.evictions == []


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_priority_class_of_a_group_replaces_the_priorities_of_its_pods(api: str) -> None:
    cluster = full(3, priority=50)
    group = gang("a", 3, [pod("launcher", priority=100), pod("worker0"), pod("worker1")], api=api, priority=100)
    cluster.submit(group)
    cluster.advance_to(HOUR)
    assert sorted(cluster.evicted_names) == ["low0", "low1", "low2"]
    assert cluster.members(group) == 3


def test_room_that_is_being_freed_is_held_however_long_the_victims_take() -> None:
    cluster = Cluster(*slots(3))
    cluster.submit(*(annotated(pod(f"low{i}"), ends_after="90") for i in range(2)))
    pods = [pod(f"a{i}", priority=100) for i in range(3)]
    group = gang("a", 3, pods, api=COSCHEDULING, timeout=60)
    cluster.submit(group)
    cluster.advance_to(5)
    cluster.submit(pod("filler", priority=50))
    cluster.advance_to(89)
    assert cluster.members(group) == 0
    cluster.advance_to(91)
    assert cluster.members(group) == 3
    assert "default/filler" not in cluster.bindings
    assert sorted(cluster.evicted_names) == ["low0", "low1"]
    cluster.advance_to(HOUR)
    assert sorted(cluster.evicted_names) == ["low0", "low1"]


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_surplus_of_a_group_is_evicted_first_and_its_newest_pods_of_all(api: str) -> None:
    cluster = Cluster(*slots(12))
    elastic, core = gang("e", 4, 10, api=api), gang("c", 2, api=api)
    cluster.declare(elastic)
    cluster.submit(core, *elastic.objects, *elastic.pods[:4])
    for each in elastic.pods[4:]:
        cluster.advance(1)
        cluster.submit(each)
    assert len(cluster.bindings) == 12
    group = with_priority("p", 3, 10, api)
    cluster.submit(group)
    cluster.advance(30)
    assert sorted(cluster.evicted_names) == ["e7", "e8", "e9"]
    assert (cluster.members(elastic), cluster.members(core), cluster.members(group)) == (7, 2, 3)


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_single_pod_is_evicted_rather_than_a_pod_of_a_complete_group(api: str) -> None:
    cluster = Cluster(*slots(5))
    cluster.submit(pod("lone"))
    cluster.advance(10)
    group = gang("a", 4, api=api)
    cluster.submit(group)
    cluster.submit(pod("high", priority=100))
    cluster.advance(30)
    assert cluster.evicted_names == ["lone"]
    assert cluster.members(group) == 4


def test_group_that_is_disrupted_as_a_whole_is_evicted_as_a_whole() -> None:
    cluster = Cluster(*slots(4))
    cluster.submit(gang("a", 4, api=NATIVE, disruption_mode="all"))
    cluster.submit(pod("high", priority=100))
    cluster.advance(30)
    assert sorted(cluster.evicted_names) == ["a0", "a1", "a2", "a3"]
    assert "default/high" in cluster.bindings


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_surplus_pod_is_evicted_rather_than_one_of_a_complete_group(api: str) -> None:
    cluster = Cluster(*slots(7))
    elastic, core = gang("el", 3, 4, api=api), gang("core", 3, api=api)
    cluster.submit(core, elastic)
    cluster.submit(pod("high", priority=100))
    cluster.advance(30)
    assert [name[:2] for name in cluster.evicted_names] == ["el"]
    assert (cluster.members(elastic), cluster.members(core)) == (3, 3)


@pytest.mark.parametrize("spec", [{}, {"topology": RACK}], ids=["anywhere", "in one rack"])
def test_surplus_evicts_nobody(spec: dict[str, str]) -> None:
    cluster = Cluster(*(node(f"n{i}", labels={RACK: "r1"}) for i in range(2)))
    cluster.submit(pod("low"))
    cluster.submit(gang("high", 1, [pod(f"high{i}", priority=100) for i in range(2)], api=NATIVE, **spec))
    cluster.advance(60)
    assert cluster.evictions == []
    assert cluster.members("high") == 1


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_group_that_a_preemption_leaves_whole_loses_one_pod(api: str) -> None:
    cluster = Cluster(node("n1", 2), node("n2", 2))
    group = gang("a", 2, 3, api=api)
    cluster.submit(group)
    cluster.submit(pod("high", 2, priority=100))
    cluster.advance(30)
    assert (cluster.members(group), len(cluster.evictions)) == (2, 1)
    assert "default/high" in cluster.bindings


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_no_surplus_stays_of_a_group_that_loses_its_minimum(api: str) -> None:
    cluster = Cluster(node("n1", 2), node("n2"))
    cluster.submit(gang("a", 2, 3, api=api))
    cluster.submit(pod("high", 2, priority=100))
    cluster.advance(30)
    assert sorted(cluster.evicted_names) == ["a0", "a1", "a2"]
    assert "default/high" in cluster.bindings


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_group_that_lost_a_pod_while_its_victims_ended_holds_no_room(api: str) -> None:
    cluster = full(3, ends_after="20")
    group = with_priority("a", 3, 100, api)
    cluster.submit(group)
    cluster.advance(5)
    fillers = [pod(f"filler{i}", priority=50) for i in range(3)]
    cluster.submit(*fillers)
    cluster.delete("Pod", "a0")
    cluster.advance(30)
    assert cluster.members("filler") == 3
    assert {cluster.nominated(name) for name in ("a1", "a2")} == {""}


def test_group_of_unequal_pods_preempts_for_the_quota_of_its_queue() -> None:
    cluster = Cluster(node("n", 16), queue("q", capability={"cpu": 4}))
    cluster.submit(*(in_queue("q", pod(f"low{i}")) for i in range(4)))
    important = gang("a", 2, [pod("a0", 1, priority=10), pod("a1", 2, priority=10)], VOLCANO, "q")
    cluster.submit(important)
    cluster.advance(10)
    assert (len(cluster.evictions), cluster.members(important)) == (3, 2)


def test_group_that_preempts_on_each_node_is_not_placed_again_without_the_same_victims() -> None:
    count = 65
    cluster = full(count)
    before = cluster.machine.context.attempts
    cluster.apply_all(with_priority("a", count, 100, NATIVE))
    cluster.run()
    assert len(cluster.evictions) == count
    assert cluster.machine.context.attempts - before < 3 * count
