"""Scenarios of gangs with the scheduler core in virtual time: all-or-nothing scheduling without deadlocks."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ClusterEvent, Pod, QueueingHint
from pyscheduler.testing import node, pod
from pyscheduler_plugins.gang import Gang
from pyscheduler_plugins.pod_group import POD_GROUP_LABEL, group_of
from tests.scenarios.gangs import Cluster, elsewhere, slot


def test_gang_of_eight_binds_none_on_seven_slots_and_all_on_eight() -> None:
    cluster = Cluster(slots=7)
    cluster.add(*cluster.gang("a", of=8))
    cluster.run()
    assert cluster.assignments == {}
    # All were created at once: the member that completes the gang is scheduled first, the one before it last.
    assert "pod group default/a does not fit as a whole: no place for a6" in cluster.pending_message("a0")
    assert "7 Insufficient cpu" in cluster.pending_message("a6")
    cluster.add(slot(7))
    cluster.advance(2)
    assert cluster.members("a") == 8


def test_gang_that_does_not_fit_is_not_retried_endlessly() -> None:
    cluster = Cluster(slots=7)
    cluster.add(*cluster.gang("a", of=8))
    cluster.advance(120)
    assert cluster.attempts < 20
    assert cluster.machine.context.handle.waiting_pods.by_uid == {}


def test_two_gangs_that_do_not_fit_do_not_requeue_each_other_endlessly() -> None:
    cluster = Cluster(slots=3)
    a, b = cluster.gang("a", of=4), cluster.gang("b", of=4)
    cluster.add(*(each for pair in zip(a, b, strict=True) for each in pair))
    cluster.advance(120)
    assert cluster.assignments == {}
    assert cluster.attempts < 60


def test_reservations_of_a_gang_that_did_not_fit_are_released() -> None:
    cluster = Cluster(slots=7)
    cluster.add(*cluster.gang("a", of=8), *(pod(f"single{i}").requests(cpu="1") for i in range(7)))
    cluster.advance(2)
    assert cluster.members("single") == 7


def test_two_gangs_that_each_reserve_half_do_not_deadlock() -> None:
    cluster = Cluster(slots=8)
    a, b = cluster.gang("a", of=8), cluster.gang("b", of=8)
    cluster.add(*(each for pair in zip(a, b, strict=True) for each in pair))
    cluster.advance(5)
    assert sorted((cluster.members("a"), cluster.members("b"))) == [0, 8]
    first = "a" if cluster.members("a") else "b"
    for i in range(8):
        cluster.delete_pod(f"{first}{i}")
    cluster.advance(15)
    assert cluster.members("a") + cluster.members("b") == 8


def test_unschedulable_member_releases_all_reservations() -> None:
    cluster = Cluster(slots=4)
    members = cluster.gang("a", of=3, scheduleTimeoutSeconds=30)
    cluster.add(*members[:2], members[2].spec(nodeSelector={"gpu": "yes"}).priority(-1))
    # The third is created last and does not fit, so the wait ends at once.
    cluster.run()
    assert cluster.assignments == {}
    cluster.add(node("gpu").label("gpu", "yes"))
    cluster.advance(2)
    assert cluster.members("a") == 3


def test_wait_for_a_member_of_another_scheduler_times_out() -> None:
    cluster = Cluster(slots=2)
    one, two = cluster.gang("a", of=2, scheduleTimeoutSeconds=30)
    cluster.add(one, two.scheduler("another-scheduler"))
    cluster.run()
    assert len(cluster.machine.context.handle.waiting_pods.by_uid) == 1
    cluster.advance(29)
    assert len(cluster.machine.context.handle.waiting_pods.by_uid) == 1
    cluster.advance(2)
    assert cluster.machine.context.handle.waiting_pods.by_uid == {}
    assert "rejected due to timeout after waiting 30s at plugin Gang" in cluster.pending_message("a0")
    # The other scheduler binds the missing member.
    cluster.add(two.scheduler("another-scheduler").on("slot1"))
    cluster.advance(2)
    assert cluster.members("a") == 2


def test_gang_starts_with_min_member_members() -> None:
    cluster = Cluster(slots=3)
    cluster.add(*cluster.gang("a", of=5, min_member=3))
    cluster.run()
    assert cluster.members("a") == 3
    cluster.add(slot(3))
    cluster.advance(2)
    assert cluster.members("a") == 4


def test_gang_starts_when_the_last_member_is_created() -> None:
    cluster = Cluster(slots=3)
    *early, late = cluster.gang("a", of=3)
    cluster.add(*early)
    cluster.run()
    assert cluster.assignments == {}
    assert "pod group default/a has fewer than the 3 pods that it needs" in cluster.pending_message("a0")
    cluster.add(late)
    cluster.advance(2)
    assert cluster.members("a") == 3


def test_members_wait_for_a_pod_group_that_is_created_later() -> None:
    cluster = Cluster(slots=2)
    cluster.add(*(pod(f"a{i}").label(POD_GROUP_LABEL, "a").requests(cpu="1") for i in range(2)))
    cluster.run()
    assert "pod group default/a does not exist" in cluster.pending_message("a0")
    cluster.gang("a", of=2)
    cluster.advance(2)
    assert cluster.members("a") == 2


def test_replacement_member_of_a_running_gang_is_bound() -> None:
    cluster = Cluster(slots=3)
    cluster.add(*cluster.gang("a", of=3))
    cluster.run()
    cluster.delete_pod("a1")
    cluster.add(pod("anew").label(POD_GROUP_LABEL, "a").requests(cpu="1"))
    cluster.run()
    assert cluster.members("a") == 3


def test_deletion_of_a_waiting_member_rejects_the_others() -> None:
    cluster = Cluster(slots=3)
    one, two, three = cluster.gang("a", of=3, scheduleTimeoutSeconds=300)
    cluster.add(one, two, three.scheduler("another-scheduler"))
    cluster.run()
    assert len(cluster.machine.context.handle.waiting_pods.by_uid) == 2
    cluster.delete_pod("a0")
    cluster.run()
    assert cluster.machine.context.handle.waiting_pods.by_uid == {}


def test_member_is_retried_when_its_binding_fails() -> None:
    cluster = Cluster(slots=3)
    failures: list[str] = []

    def fail_once(of: Any, _node: str) -> str:
        if of.name == "a1" and not failures:
            failures.append(of.name)
            return "the server is busy"
        return ""

    cluster.binding_error = fail_once
    cluster.add(*cluster.gang("a", of=3))
    cluster.run()
    cluster.advance(15)
    assert failures == ["a1"]
    assert cluster.members("a") == 3


def test_equal_scenarios_produce_equal_events() -> None:
    def run() -> list[tuple[str, str]]:
        cluster = Cluster(slots=5)
        a, b = cluster.gang("a", of=4), cluster.gang("b", of=4)
        cluster.add(*(each for pair in zip(a, b, strict=True) for each in pair))
        cluster.advance(30)
        return [event for name in ("a0", "a3", "b0", "b3") for event in cluster.events(name)]

    assert run() == run()


def test_gangs_that_fail_one_after_the_other_are_not_evaluated_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    of_others: list[str] = []

    def counted(self: Gang, pod: Pod, event: ClusterEvent) -> QueueingHint:
        if group_of(event.old) != group_of(pod):
            of_others.append(pod.name)
        return on_capacity_freed(self, pod, event)

    on_capacity_freed = Gang._on_capacity_freed
    monkeypatch.setattr(Gang, "_on_capacity_freed", counted)
    cluster = Cluster(slots=3)
    for i in range(20):
        cluster.add(*cluster.gang(f"gang{i}-", of=4))
    cluster.run()

    # Each has reserved three nodes and released them, which leaves the gangs before it the room that they lacked.
    assert not of_others
    assert cluster.attempts == 20 * 4


def test_gang_is_retried_when_a_pod_ends_that_another_scheduler_bound_after_a_reservation_here() -> None:
    cluster = Cluster(slots=3)
    first, second = cluster.gang("a", of=2, scheduleTimeoutSeconds=5)
    cluster.add(first, elsewhere(second))
    cluster.advance(5.5)
    assert cluster.waiting == set()
    cluster.add(elsewhere(first).on("slot0"), *cluster.gang("b", of=3))
    cluster.advance(10)
    assert cluster.members("b") == 0, "two of three slots are free"
    cluster.delete("Pod", "a0")
    cluster.advance(30)
    assert cluster.members("b") == 3


def test_gang_is_retried_when_another_releases_the_room_that_it_lacked() -> None:
    cluster = Cluster(slots=3)
    first, *rest = cluster.gang("a", of=3, scheduleTimeoutSeconds=5)
    cluster.add(first, *(elsewhere(each) for each in rest), *cluster.gang("b", of=3))
    cluster.run()
    assert cluster.waiting == {
        "a0"
    }  # the members of another scheduler do not come, and two of b have no room meanwhile
    cluster.advance(10)
    assert cluster.members("b") == 3
