"""Reservations: which group has one, which others wait for it, and when it ends."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pyscheduler.core.pod_groups.reservation import Reservation
from pyscheduler.core.pod_groups.run_times import UNKNOWN
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, gang, node, pod, queue


def slots(count: int, first: int = 0) -> list[Manifest]:
    return [node(f"slot{first + i}") for i in range(count)]


def owned(manifest: Manifest, kind: str) -> Manifest:
    """Return the pod as one of a controller."""
    manifest["metadata"]["ownerReferences"] = [{"kind": kind, "name": "x", "uid": "x", "controller": True}]
    return manifest


def job(name: str, size: int, seconds: int = 0, priority: int = 0, **spec: Any) -> Gang:
    pods = [pod(f"{name}{i}", runs=seconds, priority=priority) for i in range(size)]
    return gang(name, size, pods, api=VOLCANO, **spec)


def running(*nodes: Manifest, seconds: int = 100, actual: int = 0, size: int = 3) -> Cluster:
    """Return a cluster in which a job has run for a second."""
    cluster = Cluster(*nodes)
    cluster.submit(job("r", size, seconds), runs=actual or seconds)
    cluster.advance_to(1)
    return cluster


def reservation(cluster: Cluster) -> Reservation:
    current = cluster.machine.context.reservations.current
    assert current is not None
    return current


def is_reserved(cluster: Cluster) -> bool:
    return cluster.machine.context.reservations.current is not None


def test_head_has_the_earliest_time_at_which_it_fits() -> None:
    cluster = running(*slots(6), seconds=100, size=2)
    cluster.submit(job("late", 2, 300), runs=300)
    cluster.submit(job("h", 4))
    assert reservation(cluster).time - cluster.epoch == 100
    assert reservation(cluster).head.key.name == "h"


def test_room_that_is_free_already_is_not_reserved_if_the_head_fits_without_it() -> None:
    cluster = running(*slots(5))
    busy = {cluster.bindings[f"default/r{i}"] for i in range(3)}
    cluster.submit(job("h", 3))
    assert reservation(cluster).nodes == busy
    cluster.submit(pod("single"))
    assert "default/single" in cluster.bindings


def test_pod_without_a_run_time_gets_another_node_than_the_reserved_ones() -> None:
    cluster = running(node("a", 4), size=3)
    cluster.submit(job("h", 4))
    assert reservation(cluster).nodes == {"a"}
    cluster.submit(pod("waits"))
    assert "default/waits" not in cluster.bindings
    cluster.submit(node("b", 1))
    cluster.advance(15)
    assert cluster.bindings["default/waits"] == "b"


def test_message_of_a_pod_that_would_delay_the_head() -> None:
    cluster = running(*slots(4))
    cluster.submit(job("h", 4))
    cluster.submit(pod("single"))
    assert cluster.reason("single") == "RoomReserved"
    assert cluster.message("single").splitlines()[0] == (
        "would delay pod group default/h, which starts at the latest in 120 s"
    )


def test_without_declared_ends_the_reservation_has_no_time() -> None:
    cluster = Cluster(*slots(4))
    cluster.submit(job("r", 3))
    cluster.submit(job("h", 4))
    assert reservation(cluster).time == UNKNOWN
    cluster.submit(pod("single"))
    assert "which starts when pods have ended that declare no run time" in cluster.message("single")


def test_pod_that_requests_nothing_of_what_the_head_needs_is_not_delayed() -> None:
    cluster = running(*slots(4))
    cluster.submit(job("h", 4))
    cluster.submit(pod("single", "0"))
    assert "default/single" in cluster.bindings


def test_group_that_does_not_fit_later_either_is_tried_again_after_a_while() -> None:
    cluster = running(*slots(4), seconds=300)
    cluster.submit(owned(pod("service"), "ReplicaSet"))
    cluster.submit(job("h", 4))
    cluster.submit(node("other", 1))
    cluster.advance_to(50)
    assert not is_reserved(cluster)
    cluster.advance_to(61)
    cluster.submit(node("later"))
    cluster.advance_to(75)
    assert is_reserved(cluster)


def test_single_pod_can_be_the_head() -> None:
    cluster = running(node("a", 4))
    cluster.submit(pod("h", 4))
    cluster.submit(pod("single"))
    assert "would delay pod default/h" in cluster.message("single")


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"])
def test_nothing_is_reserved_for_a_group_that_waits_for_services(kind: str) -> None:
    cluster = Cluster(*slots(4))
    cluster.submit(*(owned(pod(f"s{i}"), kind) for i in range(2)))
    cluster.submit(job("h", 4))
    assert not is_reserved(cluster)
    cluster.submit(pod("single"))
    assert "default/single" in cluster.bindings


def test_nothing_is_reserved_for_a_group_that_its_quota_holds_back() -> None:
    cluster = Cluster(*slots(4), queue("q", capability={"cpu": 2}))
    cluster.submit(job("h", 3, queue="q"))
    assert not is_reserved(cluster)


def test_nothing_is_reserved_for_a_group_that_preempts() -> None:
    cluster = running(*slots(4))
    cluster.submit(job("h", 4, priority=10))
    assert len(cluster.evicted_names) == 3
    assert not is_reserved(cluster)


def test_group_of_a_higher_priority_is_not_delayed_and_the_reservation_follows() -> None:
    cluster = running(*slots(4))
    cluster.submit(job("h", 4, 10))
    cluster.advance_to(2)
    cluster.submit(pod("urgent", priority=10, runs=200), runs=200)
    assert "default/urgent" in cluster.bindings
    assert reservation(cluster).time - cluster.epoch == 202


def test_group_before_the_head_takes_its_place() -> None:
    cluster = running(*slots(4))
    cluster.submit(job("h", 4))
    first = job("urgent", 4, priority=10)
    for each in first.pods:
        each["spec"]["preemptionPolicy"] = "Never"
    cluster.submit(first)
    assert reservation(cluster).head.key.name == "urgent"


def test_group_that_would_delay_the_head_does_not_preempt() -> None:
    cluster = running(*slots(4), size=2)
    cluster.submit(pod("low", priority=-10, runs=50), runs=50)
    cluster.submit(job("h", 4))
    assert reservation(cluster).time - cluster.epoch == 100
    cluster.submit(pod("single"))
    assert cluster.reason("single") == "RoomReserved"
    assert cluster.evicted_names == []


@pytest.mark.parametrize("how", ["deleted", "held"])
def test_waiting_groups_start_when_the_head_is_gone(how: str) -> None:
    cluster = running(*slots(4))
    head = job("h", 4)
    cluster.submit(head)
    cluster.submit(pod("single"))
    assert "default/single" not in cluster.bindings
    if how == "deleted":
        cluster.delete_all(head)
    else:
        cluster.delete("Pod", "h0")
    cluster.advance(15)
    assert "default/single" in cluster.bindings
    assert not is_reserved(cluster)


def test_next_group_that_lacks_room_is_the_head_once_the_first_has_started() -> None:
    cluster = running(*slots(4))
    first, second = job("h", 4, 50), job("i", 4, 50)
    cluster.submit(first, runs=50)
    cluster.advance_to(2)
    cluster.submit(second, runs=50)
    for time in range(3, 195, 6):
        cluster.advance_to(time)
        cluster.submit(pod(f"single{time}", runs=20), runs=20)
    assert {cluster.started[key] for key in first.keys} == {100}
    assert {cluster.started[key] for key in second.keys} == {150}


def test_pod_that_runs_too_long_is_named_and_the_reservation_is_kept() -> None:
    cluster = running(*slots(4), seconds=100, actual=130)
    head = job("h", 4)
    cluster.submit(head)
    cluster.submit(pod("single", runs=10), runs=10)
    cluster.advance_to(120)
    cluster.submit(pod("short", runs=1), runs=1)
    assert "default/short" not in cluster.bindings
    cluster.submit(node("other", 1))
    cluster.advance_to(129)
    assert " runs longer than the 100 s that it declares." in cluster.message("h0")
    cluster.advance_to(131)
    assert {cluster.started[key] for key in head.keys} == {130}


def test_restart_does_not_change_when_pods_end() -> None:
    cluster = running(*slots(4), seconds=100)
    cluster.advance_to(60)
    cluster.restart()
    cluster.submit(job("h", 4))
    assert reservation(cluster).time - cluster.epoch == 100


def test_deadline_of_a_pod_is_its_run_time() -> None:
    cluster = Cluster(*slots(4))
    running_job = job("r", 3)
    for each in running_job.pods:
        each["spec"]["activeDeadlineSeconds"] = 70
    cluster.submit(running_job, job("h", 4))
    assert reservation(cluster).time - cluster.epoch == 70


def test_nothing_is_reserved_without_queues() -> None:
    config = yaml.safe_load(CONFIG.read_text())
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"] = [{"name": "PodGroups"}]
    cluster = Cluster(*slots(4), config=yaml.safe_dump(config))
    cluster.submit(job("r", 3, 100))
    cluster.submit(job("h", 4))
    cluster.submit(pod("single"))
    assert "default/single" in cluster.bindings
