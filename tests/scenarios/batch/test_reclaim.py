"""Reclaim between queues: whole bundles, the fewest victims, never below a guarantee, and an end to it."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, in_queue, node, pod, queue

HOUR = 3600


def job(name: str, queue_name: str, minimum: int, size: int, cpu: int = 1) -> Gang:
    pods = [pod(f"{name}{i}", cpu) for i in range(size)]
    return gang(name, minimum, pods, api=VOLCANO, queue=queue_name)


def two_queues(running: Gang, guarantee: int = 0) -> tuple[Cluster, Gang]:
    """Return a cluster of 20 cpu in which queue b is 2 short of its deserved 10, and its pending group of 2."""
    deserved: Manifest = {"cpu": 10}
    queues = (queue("a", deserved=deserved, guarantee={"cpu": guarantee}), queue("b", deserved=deserved))
    cluster = Cluster(node("n1", 20), *queues)
    cluster.submit(running, job("k", "b", 8, 8))
    assert (cluster.members(running), cluster.members("k")) == (12, 8)
    pending = job("l", "b", 2, 2)
    cluster.submit(pending)
    cluster.advance_to(HOUR)
    return cluster, pending


def test_surplus_of_a_group_is_reclaimed() -> None:
    cluster, pending = two_queues(job("j", "a", 10, 12), guarantee=10)
    assert len(cluster.evictions) == 2
    assert (cluster.members("j"), cluster.members(pending)) == (10, 2)


def test_group_is_kept_that_would_leave_its_queue_below_the_guarantee() -> None:
    cluster, pending = two_queues(job("j", "a", 12, 12), guarantee=10)
    assert cluster.evictions == []
    assert cluster.members(pending) == 0
    victim = "its only victim is gang j of 12, which would leave a below its guarantee 10 cpu"
    text = f"queue a is 2 cpu over its deserved, {victim}"
    assert text in cluster.message("l0")


def test_group_without_surplus_is_reclaimed_as_a_whole() -> None:
    cluster, pending = two_queues(job("j", "a", 12, 12))
    assert len(cluster.evictions) == 12
    assert (cluster.members("j"), cluster.members(pending)) == (0, 2)
    text = "queue a would be 2 cpu over its deserved: 12 cpu requested, 10 cpu free, 0 cpu allocated, 10 cpu deserved"
    assert text in cluster.message("j0")


def test_two_queues_do_not_evict_each_other_in_turn() -> None:
    shares: Manifest = {"deserved": {"cpu": 5}, "capability": {"cpu": 10}}
    cluster = Cluster(node("n1", 11), queue("qa", **shares), queue("qb", **shares))
    first, second = job("a", "qa", 2, 5, cpu=2), job("b", "qb", 2, 5, cpu=2)
    cluster.submit(first)
    assert cluster.members(first) == 5
    cluster.submit(second)
    cluster.advance_to(HOUR)
    assert len(cluster.evictions) == 2
    assert (cluster.members(first), cluster.members(second)) == (3, 2)


@pytest.mark.parametrize("priority", [0, 10])
@pytest.mark.parametrize("grace", [0, 3])
def test_evicted_pod_does_not_take_the_reclaimed_room_again(priority: int, grace: int) -> None:
    cluster = Cluster(node("n1", 8), queue("q1", deserved={"cpu": 3}), queue("q2", deserved={"cpu": 5}))
    victim = annotated(pod("p0", 4, priority=priority), ends_after=str(grace))
    cluster.submit(gang("p", 1, [victim], api=VOLCANO, queue="q1"), job("r", "q2", 1, 1))
    assert len(cluster.bindings) == 2
    reclaimer = job("s", "q2", 1, 1, cpu=4)
    cluster.submit(reclaimer)
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == ["p0"]
    assert cluster.members(reclaimer) == 1
    assert "default/p0" in cluster.pods
    assert "default/p0" not in cluster.bindings


def test_no_more_is_reclaimed_than_is_requested() -> None:
    cluster = Cluster(node("n1", 12), queue("qa", deserved={"cpu": 6}), queue("qb", deserved={"cpu": 6}))
    running = job("v", "qa", 2, 12)
    cluster.submit(running)
    cluster.submit(job("w", "qb", 1, 1))
    cluster.advance_to(60)
    assert (len(cluster.evictions), cluster.members(running)) == (1, 11)
    cluster.submit(*(job(f"x{i}", "qb", 1, 1) for i in range(4)))
    cluster.advance_to(120)
    assert (len(cluster.evictions), cluster.members(running)) == (5, 7)
    cluster.submit(*(job(f"y{i}", "qb", 1, 1) for i in range(4)))
    cluster.advance_to(HOUR)
    assert (len(cluster.evictions), cluster.members(running)) == (6, 6)


def test_reason_of_a_pod_without_a_group_names_the_pod() -> None:
    cluster = Cluster(node("n1", 2, {"pool": "x"}), *map(queue, "abc"))
    cluster.submit(job("c", "c", 1, 1), job("a0", "a", 1, 1))
    cluster.submit(node("n2", 4))
    cluster.submit(*(job(f"a{i}", "a", 1, 1) for i in range(1, 5)))
    stuck = in_queue("b", pod("b", 2))
    stuck["spec"]["nodeSelector"] = {"pool": "x"}
    cluster.submit(stuck)
    cluster.advance(60)
    assert cluster.evictions == []
    assert "what may be reclaimed makes no room for pod default/b on a node" in cluster.message("b")


def test_group_that_the_claims_of_another_queue_would_hold_back_evicts_nobody() -> None:
    """Otherwise the room would be given to others, and evicted for again, without end."""
    cluster = Cluster(node("n1", 2, {"pool": "x"}), queue("a", weight=1), queue("b", weight=1))
    low, other = gang("low", 2, api=VOLCANO, queue="a"), gang("other", 1, api=VOLCANO, queue="b")
    cluster.submit(low)
    cluster.submit(node("n2", 3))
    cluster.submit(other)
    cluster.submit(node("n3", 1))
    more = pod("more", 2)
    more["spec"]["nodeSelector"] = {"pool": "x"}
    high = gang("high", 4, [pod(f"high{i}", priority=10) for i in range(4)], api=VOLCANO, queue="a")
    cluster.submit(gang("more", 1, [more], api=VOLCANO, queue="b"))
    cluster.submit(high)
    cluster.advance(600)
    assert cluster.evictions == []
    assert (cluster.members(low), cluster.members(other)) == (2, 1)


@pytest.mark.parametrize(
    "spec",
    [{"unschedulable": True}, {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}],
    ids=["cordoned", "not ready"],
)
@pytest.mark.parametrize("priority", [0, 10], ids=["reclaim", "preemption"])
def test_surplus_is_taken_where_it_makes_room(spec: Manifest, priority: int) -> None:
    """The newest pods of the job are on a node that no pod may use; its minimum is kept by these then."""
    cluster = Cluster(node("n1", 6), queue("a", deserved={"cpu": 6}), queue("b", deserved={"cpu": 4}))
    running = job("j", "a", 5, 10)
    cluster.submit(running)
    cluster.submit(node("n2", 4))
    cluster.advance(10)
    assert [cluster.bindings[f"default/j{i}"] for i in range(10)].count("n2") == 4
    cluster.submit({**node("n2", 4), "spec": spec})
    pods = [pod(f"l{i}", priority=priority) for i in range(2)]
    pending = gang("l", 2, pods, api=VOLCANO, queue="a" if priority else "b")
    cluster.submit(pending)
    cluster.advance(60)
    assert (len(cluster.evictions), cluster.members(pending)) == (2, 2)
    evicted = {name for name in cluster.evicted_names if f"default/{name}" in cluster.bindings}
    assert evicted == set(), "they wait, as the other node takes no pods"


def test_message_of_pods_above_the_minimum_has_the_reason_why_nothing_is_evicted() -> None:
    cluster = Cluster(node("n", 4), queue("a", weight=0), queue("b", weight=1))
    cluster.submit(gang("low", 1, 4, api=VOLCANO, queue="a"))
    cluster.submit(gang("high", 1, 3, api=VOLCANO, queue="b"))
    cluster.advance(30)
    assert (cluster.members("high"), len(cluster.evictions)) == (1, 1)
    [waiting, _] = [name for name in ("high0", "high1", "high2") if f"default/{name}" not in cluster.bindings]
    text = "The pod is above the minimum of 1 of pod group default/high, so nothing is evicted for it."
    assert text in cluster.message(waiting)
