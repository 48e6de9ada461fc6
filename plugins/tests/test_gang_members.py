"""Pods that count as members of a gang, and changes that end the wait of members."""

from __future__ import annotations

import pytest

from pyscheduler.testing import PodBuilder, node, pod
from pyscheduler_plugins.pod_group import POD_GROUP
from tests.scenarios.devices import claim, device_class, exactly, resource_slice
from tests.scenarios.gangs import Cluster, elsewhere, member, slot


def two_waiting(slots: int = 3) -> Cluster:
    """Return a cluster in which two of three members wait; the third belongs to another scheduler."""
    cluster = Cluster(slots=slots)
    one, two, three = cluster.gang("a", of=3, scheduleTimeoutSeconds=600)
    cluster.add(one, two, elsewhere(three))
    cluster.run()
    assert cluster.waiting == {"a0", "a1"}
    return cluster


# -- members that have ended -------------------------------------------------------------------------------------------


def test_replacement_of_a_failed_member_is_bound_beside_succeeded_members() -> None:
    cluster = Cluster(slots=3)
    cluster.add(*cluster.gang("a", of=3))
    cluster.run()
    cluster.end("a0")
    cluster.end("a1", "Failed")
    cluster.delete_pod("a1")
    cluster.add(member("a3", "a"))
    cluster.run()
    assert "a3" in cluster.assignments


def test_job_with_more_completions_than_parallelism_completes() -> None:
    cluster = Cluster(slots=4)
    cluster.add(*cluster.gang("a", of=4))
    cluster.run()
    for i in range(4):
        cluster.end(f"a{i}")
    cluster.add(member("a4", "a"), member("a5", "a"))
    cluster.run()
    assert {"a4", "a5"} <= set(cluster.assignments)


def test_failed_members_do_not_count() -> None:
    cluster = Cluster(slots=3)
    cluster.add(*cluster.gang("a", of=3))
    cluster.run()
    cluster.end("a0", "Failed")
    cluster.end("a1", "Failed")
    cluster.add(member("a3", "a"))
    cluster.advance(60)
    assert "a3" not in cluster.assignments


def test_succeeded_members_stop_counting_when_deleted() -> None:
    cluster = Cluster(slots=3)
    cluster.add(*cluster.gang("a", of=2))
    cluster.run()
    for name in ("a0", "a1"):
        cluster.end(name)
        cluster.delete_pod(name)
    cluster.add(member("a2", "a"))
    cluster.advance(60)
    assert "a2" not in cluster.assignments


def test_members_that_succeeded_before_the_start_count() -> None:
    cluster = Cluster(slots=2)
    one, two, three = cluster.gang("a", of=3)
    cluster.add(one.on("slot0").phase("Succeeded"), two.on("slot1").phase("Succeeded"), three)
    cluster.run()
    assert "a2" in cluster.assignments


# -- changes while members wait ----------------------------------------------------------------------------------------


def test_waiting_members_are_bound_when_min_member_is_lowered() -> None:
    cluster = two_waiting()
    cluster.group("a", 2, scheduleTimeoutSeconds=600)
    cluster.run()
    assert cluster.members("a") == 2


def test_members_keep_waiting_when_min_member_is_raised() -> None:
    cluster = two_waiting(slots=4)
    cluster.group("a", 4, scheduleTimeoutSeconds=600)
    cluster.add(member("a3", "a"))
    cluster.advance(5)
    assert cluster.waiting == {"a0", "a1", "a3"}


def test_waiting_members_are_rejected_when_the_pod_group_is_deleted() -> None:
    cluster = two_waiting()
    cluster.remove_object(POD_GROUP, "a")
    cluster.add(*(pod(f"single{i}").requests(cpu="1") for i in range(3)))
    cluster.run()
    assert cluster.waiting == set()
    assert cluster.members("single") == 3


def test_member_bound_by_another_scheduler_completes_the_gang() -> None:
    cluster = two_waiting()
    (free,) = {"slot0", "slot1", "slot2"} - {w.node_name for w in cluster.handle.waiting_pods}
    cluster.add(elsewhere(member("a2", "a")).on(free))
    cluster.run()
    assert cluster.members("a") == 3


def test_member_of_another_scheduler_that_succeeds_completes_the_gang() -> None:
    cluster = two_waiting()
    cluster.add(elsewhere(member("a2", "a")).on("gone").phase("Succeeded"))
    cluster.run()
    assert {"a0", "a1"} <= set(cluster.assignments)


def test_waiting_pod_is_bound_when_it_loses_the_label() -> None:
    cluster = two_waiting()
    cluster.add(pod("a0").requests(cpu="1"))
    cluster.run()
    assert set(cluster.assignments) == {"a0"}
    assert cluster.waiting == {"a1"}


def test_gated_pod_that_gains_the_label_completes_the_gang() -> None:
    cluster = Cluster(slots=3)
    one, two, three = cluster.gang("a", of=3)
    cluster.add(one, two, pod("a2").requests(cpu="1").gate("x"))
    cluster.add(three.gate("x"))
    cluster.run()
    assert cluster.assignments == {}
    cluster.add(three)
    cluster.advance(5)
    assert cluster.members("a") == 3


def test_pending_pod_that_gains_the_label_completes_the_gang() -> None:
    cluster = Cluster(slots=2)
    one, two, _ = cluster.gang("a", of=3)
    cluster.add(one, two, pod("a2").requests(cpu="4"))
    cluster.run()
    cluster.add(member("a2", "a", cpu="4"))
    cluster.run()
    assert cluster.reason("a0") == "Unschedulable", "the gang is complete but does not fit"
    cluster.add(node("big", cpu="4"))
    cluster.advance(30)
    assert cluster.members("a") == 3


# -- members that other plugins reject in PreFilter -------------------------------------------------------------------


@pytest.mark.parametrize(
    "needs",
    [
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
        {"resourceClaims": [{"name": "g", "resourceClaimName": "of-missing-class"}]},
    ],
    ids=["claim of a volume", "class of a resource claim"],
)
def test_no_member_waits_while_another_is_rejected_in_pre_filter(needs: dict[str, object]) -> None:
    cluster = Cluster(slots=3)
    cluster.apply(claim("of-missing-class", exactly("missing")))
    one, two, three = cluster.gang("a", of=3)
    cluster.add(one, two, three.spec(**needs))
    cluster.run()
    for _ in range(600):
        assert cluster.waiting == set()
        cluster.advance(1)


# -- members that share a claim ----------------------------------------------------------------------------------------


def test_members_that_share_a_claim_are_not_attempted_without_end() -> None:
    """The claim of the first member is allocated once all are: the others cannot use it before."""
    cluster = Cluster(slots=0)
    for each in (device_class(), resource_slice("big", "d"), claim("shared", exactly())):
        cluster.apply(each)
    cluster.add(node("big", cpu="4"))
    needs = [{"name": "g", "resourceClaimName": "shared"}]
    cluster.add(*(each.spec(resourceClaims=needs) for each in cluster.gang("a", of=3)))
    attempts = 0
    for _ in range(30):
        while (commands := cluster.machine.cycle(cluster.now)) is not None:
            cluster._execute(commands)
            attempts += 1
            assert attempts < 300
        cluster.advance(1)
    assert cluster.members("a") == 0
    cluster.add(pod("other").requests(cpu="1"))
    cluster.run()
    assert cluster.members("other") == 1


# -- members that other plugins gate in PreEnqueue --------------------------------------------------------------------


def needs_claim(of: PodBuilder, name: str = "missing") -> PodBuilder:
    """Return a member that DynamicResources gates until the claim exists."""
    return of.spec(resourceClaims=[{"name": "g", "resourceClaimName": name}])


def with_devices(slots: int, *nodes: str) -> Cluster:
    """Return a cluster with a device on each of `nodes`."""
    cluster = Cluster(slots=slots)
    for each in (device_class(), *(resource_slice(name, "d") for name in nodes)):
        cluster.apply(each)
    return cluster


def test_no_member_waits_for_one_without_its_claim() -> None:
    cluster = with_devices(3, "slot0", "slot1", "slot2")
    one, two, three = cluster.gang("a", of=3)
    cluster.add(one, two, needs_claim(three))
    cluster.run()
    for _ in range(200):
        assert cluster.waiting == set()
        cluster.advance(1)
    assert [cluster.reason(name) for name in ("a0", "a1")] == ["SchedulingGated"] * 2
    cluster.apply(claim("missing", exactly()))
    cluster.run()
    assert cluster.members("a") == 3


def test_members_start_when_the_last_of_several_missing_claims_exists() -> None:
    cluster = with_devices(3, "slot0", "slot1", "slot2")
    one, two, three = cluster.gang("a", of=3)
    cluster.add(one, needs_claim(two, "first"), needs_claim(three, "second"))
    cluster.apply(claim("first", exactly()))
    cluster.run()
    assert (cluster.waiting, cluster.members("a")) == (set(), 0)
    cluster.apply(claim("second", exactly()))
    cluster.run()
    assert cluster.members("a") == 3


def test_members_above_the_minimum_do_not_hold_back_the_others() -> None:
    cluster = Cluster(slots=3)
    one, two, three = cluster.gang("a", of=3, min_member=2)
    cluster.add(one, two, needs_claim(three))
    cluster.run()
    assert set(cluster.assignments) == {"a0", "a1"}


def test_members_lack_room_after_the_claim_exists_and_are_unschedulable() -> None:
    cluster = with_devices(2, "slot0", "slot1")
    one, two, three = cluster.gang("a", of=3)
    cluster.add(one, two, needs_claim(three))
    cluster.run()
    cluster.apply(claim("missing", exactly()))
    cluster.advance(60)
    assert [cluster.reason(f"a{i}") for i in range(3)] == ["Unschedulable"] * 3
    assert cluster.waiting == set()


# -- condition reasons for cluster-autoscaler ------------------------------------------------------------------------


def test_members_of_an_incomplete_gang_are_scheduling_gated() -> None:
    cluster = Cluster(slots=7)
    cluster.add(*cluster.gang("a", of=8)[:2])
    cluster.advance(60)
    assert [cluster.reason(f"a{i}") for i in range(2)] == ["SchedulingGated"] * 2
    assert cluster.events("a0") == []


def test_members_without_a_pod_group_are_scheduling_gated() -> None:
    cluster = Cluster(slots=1)
    cluster.add(member("a0", "a"))
    cluster.advance(60)
    assert cluster.reason("a0") == "SchedulingGated"
    assert cluster.pending_message("a0") == "pod group default/a does not exist"


def test_members_of_a_complete_gang_without_capacity_are_unschedulable() -> None:
    cluster = Cluster(slots=7)
    cluster.add(*cluster.gang("a", of=8))
    cluster.advance(60)
    assert [cluster.reason(f"a{i}") for i in range(8)] == ["Unschedulable"] * 8
    cluster.add(slot(7))
    cluster.advance(15)
    assert cluster.members("a") == 8


def test_condition_of_gated_members_is_patched_once() -> None:
    cluster = Cluster()
    cluster.add(*cluster.gang("a", of=50)[:49])
    cluster.advance(600)
    assert len(cluster.commands) == 49
