"""Backfill: reservations for large groups, small jobs that end before them, and no starvation."""

from __future__ import annotations

import copy

import pytest

from pyscheduler.core.pod_groups.utc_minutes import utc_minute
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import NATIVE, RUN_SECONDS, VOLCANO, Gang, gang, node, pod, queue, slots


def job(name: str, size: int, seconds: int) -> Gang:
    """Return a group that declares its run time."""
    return gang(name, size, [pod(f"{name}-{i}", runs=seconds) for i in range(size)], api=VOLCANO)


def undeclared(group: Gang) -> Gang:
    """Return the group without its run time."""
    pods = copy.deepcopy(group.pods)
    for each in pods:
        del each["metadata"]["annotations"][RUN_SECONDS]
    return Gang(group.name, group.minimum, pods, group.objects)


def eight_slots(head: Gang) -> Cluster:
    """Return a cluster in which six of eight slots are taken until 100, and `head` is pending since 1."""
    cluster = Cluster(*(node(f"slot{i}") for i in range(8)))
    cluster.submit(job("r", 6, 100), runs=100)
    cluster.advance_to(1)
    cluster.submit(head, runs=50)
    cluster.advance_to(2)
    return cluster


def start_of(cluster: Cluster, group: Gang) -> float | None:
    """Return the time at which all pods of a group were bound, None if some are not."""
    times = {cluster.started.get(key) for key in group.keys}
    assert len(times) == 1, "pods of a group start together"
    return times.pop()


def test_job_that_ends_before_the_reservation_is_backfilled() -> None:
    head = job("h", 8, 50)
    cluster = eight_slots(head)
    first, second, third = job("b1", 2, 90), job("b2", 1, 60), job("b3", 2, 120)
    for group, seconds in ((first, 90), (second, 60), (third, 120)):
        cluster.apply_all(group, runs=seconds)
    cluster.run()
    assert (start_of(cluster, first), start_of(cluster, second), start_of(cluster, third)) == (2, None, None)
    cluster.advance_to(99)
    assert (start_of(cluster, head), start_of(cluster, second), start_of(cluster, third)) == (None, None, None)
    cluster.advance_to(101)
    assert start_of(cluster, head) == 100
    cluster.advance_to(200)
    assert (start_of(cluster, second), start_of(cluster, third)) == (150, 150)


def test_head_has_the_time_at_which_it_starts() -> None:
    cluster = eight_slots(head := job("h", 8, 50))
    start = utc_minute(cluster.epoch + 100 + cluster.machine.context.settings.epoch)
    assert f"Nodes are reserved for it, and it starts by {start}." in cluster.message(head.pods[0]["metadata"]["name"])


def test_long_job_is_backfilled_into_slots_that_the_reservation_leaves() -> None:
    head = job("h", 6, 50)
    cluster = eight_slots(head)
    second, third = job("b2", 1, 60), job("b3", 2, 120)
    cluster.apply_all(third, runs=120)
    cluster.apply_all(second, runs=60)
    cluster.run()
    assert (start_of(cluster, third), start_of(cluster, second)) == (2, None)
    cluster.advance_to(101)
    assert start_of(cluster, head) == 100


def test_job_without_declared_run_time_is_not_backfilled() -> None:
    head = job("h", 8, 50)
    cluster = eight_slots(head)
    small = undeclared(job("b", 1, 10))
    cluster.submit(small, runs=10)
    cluster.advance_to(99)
    assert start_of(cluster, small) is None
    cluster.advance_to(200)
    assert start_of(cluster, head) == 100
    assert start_of(cluster, small) == 150


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
@pytest.mark.parametrize("declared", [False, True])
def test_large_group_is_not_starved_by_small_pods(api: str, declared: bool) -> None:
    cluster = Cluster(*(node(f"slot{i}") for i in range(8)))
    group = gang("g", 8, api=api)
    for time in range(0, 300, 6):
        for moment in sorted({time, 100} if time < 100 < time + 6 else {time}):
            cluster.advance_to(moment)
            if moment == 100:
                cluster.submit(group, runs=60)
            else:
                cluster.submit(pod(f"single{time}", runs=30 if declared else 0), runs=30)
    started = start_of(cluster, group)
    assert started is not None
    assert 126 <= started <= 127
    later = [cluster.started[f"default/single{time}"] for time in range(102, 240, 6)]
    assert min(later) >= started


@pytest.mark.parametrize("endless", range(3))
def test_nodes_with_pods_that_do_not_end_are_not_reserved_for_ever(endless: int) -> None:
    cluster = Cluster(*[node(f"n{i}", 2, {"index": str(i)}) for i in range(3)])
    for name in ("long0", "long1"):
        long = pod(name)
        long["spec"]["nodeSelector"] = {"index": str(endless)}
        cluster.submit(long)
    large, count = gang("large", 4), 0
    while cluster.time < 200 and not cluster.members(large):
        for _ in range(8 - count + cluster.members("small")):
            cluster.apply_all(pod(f"small{count}"), runs=20 - count % 7)
            count += 1
        cluster.run()
        if cluster.time == 10:
            cluster.submit(large)
        cluster.advance(5)
    assert cluster.members(large) == 4


def test_group_within_its_share_does_not_wait_for_one_above_the_share_of_another_queue() -> None:
    cluster = Cluster(*(node(f"slot{i}") for i in range(2)), queue("a", weight=1), queue("b", weight=1))
    cluster.submit(gang("r", 1, [pod("r0")], api=VOLCANO, queue="a"))
    cluster.submit(gang("head", 2, api=VOLCANO, queue="a"))
    assert cluster.machine.context.reservations.current is not None
    cluster.submit(gang("b", 1, api=VOLCANO, queue="b"))
    assert cluster.members("b") == 1


@pytest.mark.parametrize("priority", [0, 10])
def test_group_gets_the_nodes_of_a_pod_with_requests_beyond_all_nodes(priority: int) -> None:
    """A pod that was bound past the scheduler requests more in all than a column holds."""
    cluster = Cluster(*slots(2), pod("running"))
    cluster.run()
    huge = pod("huge", str(2**63 // 1000))
    huge["spec"]["containers"] *= 3
    huge["spec"]["nodeName"] = "slot1"
    waiting = gang("g", 2, [pod(f"g{i}", priority=priority) for i in range(2)], api=VOLCANO)
    cluster.submit(huge)
    cluster.submit(waiting)
    if priority:
        assert sorted(cluster.evicted_names) == ["huge", "running"]
    else:
        assert cluster.reason("g0") == "Unschedulable"
        cluster.end("running")
        cluster.end("huge")
    cluster.advance(30)
    assert cluster.members(waiting) == 2


def test_reservation_is_kept_over_a_restart() -> None:
    """The job behind the head is listed, and attempted, first then."""
    cluster = eight_slots(head := job("h", 8, 50))
    cluster.advance_to(20)
    cluster.submit(small := job("b", 1, 120), runs=120)
    cluster.restart()
    cluster.advance_to(200)
    assert start_of(cluster, head) == 100
    assert start_of(cluster, small) == 150


def test_head_is_the_same_after_a_restart() -> None:
    """The group that is pending for longer is the head, whichever is listed and attempted first."""
    cluster = eight_slots(head := job("h", 8, 50))
    cluster.advance_to(20)
    later = job("a", 8, 50)
    cluster.submit(later, runs=50)
    cluster.restart()
    cluster.advance_to(300)
    assert (start_of(cluster, head), start_of(cluster, later)) == (100, 150)
