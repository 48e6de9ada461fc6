"""Gangs and preemption: pods are evicted only for a gang that can start."""

from __future__ import annotations

from pyscheduler.core.commands import PatchStatus
from pyscheduler.testing import PodBuilder, node, pod
from tests.scenarios.gangs import Cluster, member, slot


def low(i: int, priority: int = 0) -> PodBuilder:
    return pod(f"low{i}").requests(cpu="1").priority(priority)


def full(slots: int, priority: int = 0) -> Cluster:
    """Return a cluster with one evictable pod on each node."""
    cluster = Cluster(slots=slots)
    cluster.add(*(low(i, priority) for i in range(slots)))
    cluster.run()
    assert len(cluster.assignments) == slots
    return cluster


def urgent(cluster: Cluster, of: int) -> list[PodBuilder]:
    return [each.priority(100) for each in cluster.gang("a", of=of)]


def test_no_pod_is_evicted_for_a_gang_that_cannot_start() -> None:
    cluster = full(2)
    cluster.add(*urgent(cluster, of=3))
    cluster.run()
    cluster.replace_victims(low(0), low(1), seconds=3600)
    assert cluster.evicted() == []
    assert set(cluster.assignments) == {"low0", "low1"}
    assert all(cluster.nominated(f"a{i}") == "" for i in range(3))


def test_nominations_of_a_gang_that_cannot_start_are_cleared() -> None:
    cluster = Cluster()
    cluster.add(node("n1", cpu="3"), node("n2", cpu="1"), pod("low").requests(cpu="2").on("n1"))
    cluster.group("a", 3)
    cluster.add(*(each.requests(cpu="2").priority(100) for each in cluster.gang("a", of=3)))
    cluster.run()
    assert len(cluster.machine.context.queue.nominator) == 0
    cluster.add(pod("other").requests(cpu="1"), pod("another").requests(cpu="1"))
    cluster.advance(5)
    assert {"other", "another"} <= set(cluster.assignments)


def test_no_member_is_nominated_in_status_before_the_gang_can_start() -> None:
    cluster = full(2)
    cluster.add(*urgent(cluster, of=3))
    cluster.run()
    cluster.advance(60)
    assert not [c for c in cluster.commands if isinstance(c, PatchStatus) and c.nominated_node_name]


def test_only_the_missing_capacity_is_preempted_after_a_node_is_added() -> None:
    cluster = full(2)
    cluster.add(*urgent(cluster, of=3))
    cluster.run()
    cluster.advance(60)
    cluster.add(slot(2))
    cluster.run()
    cluster.advance(30)
    assert sorted(cluster.evicted()) == ["low0", "low1"]
    assert cluster.members("a") == 3


def test_gang_starts_when_every_member_needs_an_eviction() -> None:
    cluster = full(3)
    cluster.add(*urgent(cluster, of=3))
    cluster.run()
    cluster.advance(15)
    assert sorted(cluster.evicted()) == ["low0", "low1", "low2"]
    assert cluster.members("a") == 3


def test_pods_are_evicted_once_min_member_members_can_start() -> None:
    cluster = full(2)
    cluster.add(*(each.priority(100) for each in cluster.gang("a", of=4, min_member=2)))
    cluster.run()
    cluster.advance(60)
    assert sorted(cluster.evicted()) == ["low0", "low1"]
    assert cluster.members("a") == 2


def test_high_priority_member_does_not_evict_while_the_others_cannot_preempt() -> None:
    cluster = full(3, priority=50)
    launcher, *workers = cluster.gang("a", of=3)
    cluster.add(launcher.priority(100), *workers)
    cluster.run()
    cluster.advance(600)
    assert cluster.evicted() == []
    assert set(cluster.assignments) == {"low0", "low1", "low2"}


def test_replacement_member_of_a_running_gang_preempts() -> None:
    cluster = Cluster(slots=2)
    cluster.add(*urgent(cluster, of=2))
    cluster.run()
    cluster.delete_pod("a1")
    cluster.add(low(0))
    cluster.run()
    assert "low0" in cluster.assignments
    cluster.add(member("a2", "a").priority(100))
    cluster.run()
    cluster.advance(15)
    assert cluster.evicted() == ["low0"]
    assert cluster.members("a") == 2


def waiting_for_victims() -> Cluster:
    """Return a cluster in which one member waits in Permit and two wait for terminating victims."""
    cluster = Cluster(slots=3)
    cluster.graceful = True
    cluster.add(low(0), low(1))
    cluster.run()
    cluster.add(*urgent(cluster, of=3))
    cluster.run()
    assert sorted(cluster.evicted()) == ["low0", "low1"]
    assert len(cluster.waiting) == 1
    return cluster


def test_members_wait_for_victims_beyond_their_timeout() -> None:
    cluster = waiting_for_victims()
    cluster.add(pod("filler").requests(cpu="1").priority(50))
    cluster.advance(90)
    assert "filler" not in cluster.assignments
    cluster.delete_pod("low0")
    cluster.delete_pod("low1")
    cluster.advance(2)
    assert cluster.members("a") == 3
    assert sorted(cluster.evicted()) == ["low0", "low1"]


def test_attempts_while_victims_terminate_do_not_reject_the_gang() -> None:
    cluster = waiting_for_victims()
    cluster.add(node("other", cpu="1"))
    for i in range(10):
        cluster.add(pod(f"passing{i}").requests(cpu="1").priority(1000).on("other"))
        cluster.advance(9)
        cluster.delete_pod(f"passing{i}")
        cluster.add(node("other", cpu="0"))
        cluster.run()
    assert len(cluster.waiting) == 1
    cluster.delete_pod("low0")
    cluster.delete_pod("low1")
    cluster.advance(2)
    assert cluster.members("a") == 3
    assert sorted(cluster.evicted()) == ["low0", "low1"]
