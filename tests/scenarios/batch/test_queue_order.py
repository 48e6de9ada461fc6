"""Order of queues and of the groups in a queue, and groups that wait for their queue."""

from __future__ import annotations

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, gang, node, pod, queue

_SOON = 30
"""Seconds within which a group is retried; groups that nothing wakes are retried after 300."""


def job(name: str, queue_name: str, size: int, cpu: str | int = 1, priority: int = 0) -> Gang:
    pods = [pod(f"{name}-{i}", cpu, priority=priority) for i in range(size)]
    return gang(name, size, pods, api=VOLCANO, queue=queue_name)


# -- groups that wait for their queue ----------------------------------------------------------------------------------


def test_group_starts_when_the_claim_of_another_queue_is_deleted() -> None:
    cluster = Cluster(node("n1", 5), node("n2", 5), queue("a", weight=1), queue("b", weight=1))
    borrowing, claim = job("more", "a", 2), job("big", "b", 2, cpu=6)
    cluster.submit(job("first", "a", 5))
    cluster.submit(claim)
    cluster.submit(borrowing)
    assert cluster.reason("more-0") == "QuotaExceeded"
    cluster.delete_all(claim)
    cluster.advance(_SOON)
    assert cluster.members(borrowing) == 2


def test_group_reclaims_when_the_demand_of_a_third_queue_shrinks() -> None:
    cluster = Cluster(node("n1", 6), node("n2", 6), *(queue(name, weight=1) for name in "abc"))
    reclaiming, third = job("a", "a", 6), job("c", "c", 2, cpu=6)
    cluster.submit(gang("b", 1, [pod(f"b{i}") for i in range(12)], api=VOLCANO, queue="b"))
    cluster.submit(third)
    cluster.submit(reclaiming)
    cluster.advance(_SOON)
    assert "over its deserved" in cluster.message("a-0")
    cluster.delete_all(third)
    cluster.advance(_SOON)
    assert cluster.members(reclaiming) == 6


def test_next_group_is_retried_if_the_first_one_needs_something_else() -> None:
    cluster = Cluster(node("n1", 4), queue("q", capability={"cpu": 2}))
    running, elsewhere, later = job("r", "q", 2), job("x", "q", 2), job("y", "q", 2)
    for each in elsewhere.pods:
        each["spec"]["nodeSelector"] = {"zone": "z"}
    for group in (running, elsewhere, later):
        cluster.submit(group)
    assert cluster.reason("x-0") == cluster.reason("y-0") == "QuotaExceeded"
    for i in range(2):
        cluster.end(f"r-{i}")
    cluster.advance(_SOON)
    assert cluster.reason("x-0") == "Unschedulable"
    assert cluster.members(later) == 2


def test_one_of_many_groups_that_wait_for_the_same_is_tried_at_a_time() -> None:
    cluster = Cluster(node("n1", 100), queue("q", capability={"cpu": 1}))
    jobs = [job(f"j{i:02}", "q", 1) for i in range(20)]
    for each in jobs:
        cluster.submit(each)
    cluster.advance(_SOON)
    before = cluster.attempts.count
    cluster.end("j00-0")
    cluster.advance(_SOON)
    assert cluster.attempts.count == before + 1
    assert cluster.members(jobs[1]) == 1


def test_pods_move_to_the_queue_of_an_elastic_quota_that_is_created_later() -> None:
    cluster = Cluster(node("n1", 4))
    cluster.submit(pod("first", 2), pod("big", 5))
    quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    meta = {"name": "team", "namespace": "default"}
    cluster.submit({**quota, "metadata": meta, "spec": {"min": {"cpu": 2}, "max": {"cpu": 3}}})
    cluster.submit(pod("second", 2))
    assert cluster.reason("second") == "QuotaExceeded"
