"""States and quotas of queues: closed queues, and amounts to the milli-unit and of extended resources."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import ANNOTATIONS, VOLCANO, Gang, Manifest, gang, in_queue, node, pod, queue


def job(name: str, queue_name: str, size: int) -> Gang:
    return gang(name, size, api=VOLCANO, queue=queue_name)


@pytest.mark.parametrize("state", ["Closed", "Closing"])
def test_closed_queue_starts_no_group_and_leaves_its_room_to_others(state: str) -> None:
    cluster = Cluster(node("n1", 6), queue("q", weight=1), queue("other", weight=1))
    running, later = job("a", "q", 2), job("b", "q", 2)
    cluster.submit(running)
    cluster.apply(queue("q", weight=1, state=state))
    cluster.submit(later)
    cluster.submit(job("c", "other", 4))
    cluster.advance_to(60)
    assert (cluster.members(running), cluster.members(later), cluster.members("c")) == (2, 0, 4)
    assert cluster.evictions == []
    assert "queue q" in cluster.message("b0")
    assert "clos" in cluster.message("b0").lower()


def test_group_starts_when_its_queue_is_opened_again() -> None:
    cluster = Cluster(node("n1", 6), queue("q", weight=1, state="Closed"))
    group = job("a", "q", 2)
    cluster.submit(group)
    assert cluster.members(group) == 0
    cluster.submit(queue("q", weight=1))
    assert cluster.members(group) == 2


@pytest.mark.parametrize(("cpu", "expected"), [("833m", 3), ("834m", 2)])
def test_quota_counts_millicores(cpu: str, expected: int) -> None:
    cluster = Cluster(node("n1", 10), queue("q", capability={"cpu": "2500m"}))
    cluster.submit(gang("a", 1, [pod(f"a{i}", cpu) for i in range(3)], api=VOLCANO, queue="q"))
    cluster.advance_to(60)
    assert cluster.members("a") == expected


def test_quota_of_gpus_does_not_hold_back_pods_without_gpus() -> None:
    cluster = Cluster(node("n1", 10, gpu=8), queue("q", capability={"gpu": 3}))
    cluster.submit(gang("a", 1, [pod(f"a{i}", gpu=1) for i in range(4)], api=VOLCANO, queue="q"))
    cluster.submit(gang("b", 1, api=VOLCANO, queue="q"))
    cluster.advance_to(60)
    assert (cluster.members("a"), cluster.members("b")) == (3, 1)


@pytest.mark.parametrize("name", ["pyscheduler.io/pod-group-queue", "scheduling.volcano.sh/queue-name"])
@pytest.mark.parametrize("is_group", [False, True])
def test_pods_with_and_without_a_group_name_their_queue_by_the_same_annotations(name: str, is_group: bool) -> None:
    cluster = Cluster(node("n", 9), queue("q", capability={"cpu": 2}), queue("other"))
    pods = gang("a", 2, api=ANNOTATIONS).pods if is_group else [pod("a0"), pod("a1")]
    for each in (*pods, pod("b")):
        each["metadata"]["annotations"][name] = "q"
        cluster.submit(each)
    assert (cluster.members("a"), cluster.members("b")) == (2, 0)
    assert "queue q would exceed its capability of 2 cpu by 1 cpu" in cluster.message("b")
    moved = cluster.pods["default/b"].manifest
    moved["metadata"]["annotations"][name] = "other"
    cluster.submit(moved)
    cluster.advance(20)
    assert cluster.members("b") == 1


def test_different_queues_of_the_pods_of_a_group_are_reported() -> None:
    first, second = gang("a", 2, api=ANNOTATIONS).pods
    cluster = Cluster(node("n", 9), queue("q"), in_queue("q", first), in_queue("default", second))
    cluster.advance(5)
    text = 'different annotations scheduling.volcano.sh/queue-name: "q" and "default"'
    assert text in cluster.message("a0")


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], "queue q does not exist"),
        ([queue("q", state="Closed")], "queue q is Closed"),
        ([queue("q"), queue("below", parent="q")], "queue q has child queues; jobs belong into one of them"),
        ([queue("q", weight=-1)], "queue q: spec.weight: Invalid value: -1: must be an integer from 0 to 65535"),
    ],
    ids=["missing", "closed", "parent", "invalid"],
)
def test_gated_job_has_the_reason_in_events_and_in_its_pod_group(objects: list[Manifest], message: str) -> None:
    """`kubectl describe` shows no messages of conditions of pods."""
    cluster = Cluster(node("n", 3), *objects)
    cluster.submit(job("a", "q", 2))
    cluster.advance(5)
    assert cluster.events("a0") == cluster.events("a1") == [("FailedScheduling", message)]
    condition = cluster.condition(f"PodGroup.{VOLCANO.partition('/')[0]}", "default/a", "Unschedulable") or {}
    assert (condition.get("status"), condition.get("message")) == ("True", message)
    cluster.submit(queue("q"))
    if len(objects) == 2:
        cluster.delete("Queue", "below")
    cluster.advance(5)
    assert cluster.members("a") == 2


def test_status_of_a_queue_starts_no_attempts() -> None:
    """A controller writes how much a queue has allocated whenever a pod starts or ends."""
    cluster = Cluster(node("n", 3), queue("q", weight=1), queue("other", weight=1, capability={"cpu": 1}))
    cluster.submit(job("a", "q", 4))
    cluster.submit(job("b", "other", 2))
    cluster.advance(60)
    before = cluster.attempts.count
    for running in range(5):
        written = queue("other", weight=1, capability={"cpu": 1})
        cluster.submit({**written, "status": {"state": "Open", "running": running}})
        cluster.advance(20)
    assert cluster.attempts.count == before
    cluster.submit(queue("other", weight=1))
    cluster.advance(20)
    assert cluster.attempts.count > before


def test_pod_of_a_full_queue_preempts_pods_of_its_queue_only() -> None:
    cluster = Cluster(node("n", 4), queue("q", capability={"cpu": 2}), queue("other"))
    cluster.submit(in_queue("other", pod("theirs")), in_queue("q", pod("low0")), in_queue("q", pod("low1")))
    assert len(cluster.bindings) == 3
    cluster.submit(in_queue("q", pod("high", priority=10)))
    cluster.advance(30)
    assert len(cluster.evictions) == 1
    assert cluster.evicted_names[0].startswith("low")
    assert {"default/high", "default/theirs"} <= cluster.bindings.keys()


def test_pod_of_a_full_queue_preempts_nobody_of_its_priority() -> None:
    cluster = Cluster(node("n", 4), queue("q", capability={"cpu": 2}))
    cluster.submit(*(in_queue("q", pod(name)) for name in "abc"))
    cluster.advance(30)
    assert (len(cluster.bindings), cluster.evictions) == (2, [])


def test_group_that_its_quota_never_admits_evicts_nobody() -> None:
    cluster = Cluster(node("n", 8), queue("q", capability={"cpu": 2}))
    cluster.submit(in_queue("q", pod("low")))
    cluster.submit(gang("big", 3, [pod(f"big{i}", priority=10) for i in range(3)], api=VOLCANO, queue="q"))
    cluster.advance(60)
    assert cluster.evictions == []
