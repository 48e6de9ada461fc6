"""Order of queues and of the groups in a queue, and groups that wait for their queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyscheduler.core.commands import Bind
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


def test_queues_do_not_hold_back_each_other_by_claims_that_none_can_use() -> None:
    cluster = Cluster(node("n1", 9), queue("a", weight=1), queue("b", weight=1))
    for name in "ab":
        singles(cluster, name, 3, cpu=3)
    cluster.run()
    assert Counter(name[0] for name in starts(cluster)) in ({"a": 2, "b": 1}, {"a": 1, "b": 2})


def test_claims_to_several_resources_leave_nothing_unused() -> None:
    cluster = Cluster(node("n1", 9, memory="18Gi"), queue("a", weight=1), queue("b", weight=1))
    singles(cluster, "a", 10, cpu=1, memory="4Gi")
    singles(cluster, "b", 10, cpu=3, memory="1Gi")
    cluster.run()
    running = Counter(name[0] for name in starts(cluster))
    cpu, memory = running["a"] + 3 * running["b"], 4 * running["a"] + running["b"]
    assert cpu > 9 - 1 or memory > 18 - 4, running
    assert cpu > 9 - 3 or memory > 18 - 1, running
    assert min(running["a"], running["b"]) >= 1


# -- order between queues ----------------------------------------------------------------------------------------------


def singles(cluster: Cluster, queue_name: str, count: int, **fields: Any) -> list[str]:
    """Create pods without a group, without starting any yet."""
    names = [f"{queue_name}-{i:02}" for i in range(count)]
    for name in names:
        manifest = pod(name, **fields)
        manifest["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = queue_name
        cluster.apply(manifest)
    return names


def starts(cluster: Cluster) -> list[str]:
    """Return the names of the bound pods in the order of their bindings."""
    return [command.pod.name for command in cluster.commands if isinstance(command, Bind)]


def test_queue_with_the_lower_share_goes_first() -> None:
    cluster = Cluster(node("n1", 100), queue("a", weight=1), queue("b", weight=3))
    singles(cluster, "a", 4)
    singles(cluster, "b", 12)
    cluster.run()
    order = [name[0] for name in starts(cluster)]
    assert [order[:each].count("b") for each in (4, 8, 12)] == [3, 6, 9]


def test_share_of_the_parent_counts_before_that_of_the_queue() -> None:
    cluster = Cluster(
        node("n1", 12),
        *(queue(name, weight=1) for name in ("p", "q")),
        *(queue(name, parent="p", weight=1) for name in ("p1", "p2")),
    )
    for name in ("p1", "p2", "q"):
        singles(cluster, name, 12)
    cluster.run()
    order = [name.partition("-")[0] for name in starts(cluster)]
    assert Counter(order[:4]) == {"p1": 1, "p2": 1, "q": 2}
    assert Counter(order) == {"p1": 3, "p2": 3, "q": 6}


def test_priority_counts_within_a_queue_only() -> None:
    cluster = Cluster(node("n1", 4), queue("a", weight=1), queue("b", weight=1))
    singles(cluster, "a", 4, priority=0)
    for manifest in (pod("a-high", priority=10), pod("a-mid", priority=5)):
        manifest["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "a"
        cluster.apply(manifest)
    singles(cluster, "b", 4, priority=1)
    cluster.run()
    assert starts(cluster) == ["a-high", "b-00", "a-mid", "b-01"]


def test_critical_pods_are_first_whatever_their_queue() -> None:
    cluster = Cluster(node("n1", 4), queue("a", weight=1), queue("b", weight=1))
    singles(cluster, "a", 4)
    singles(cluster, "b", 3, priority=2_000_000_000)
    cluster.run()
    assert starts(cluster)[:2] == ["b-00", "b-01"]


# -- strict order in a queue -------------------------------------------------------------------------------------------


def test_first_group_of_a_fifo_queue_holds_back_the_others() -> None:
    cluster = Cluster(node("n1", 4), queue("q", dequeueStrategy="fifo"), queue("other"))
    running, large = job("r", "q", 3), job("large", "q", 1, cpu=4)
    small = [job(f"s{i}", "q", 1) for i in range(3)]
    for each in (running, large):
        cluster.submit(each)
    cluster.apply(node("n2", 1))
    for each in small:
        cluster.submit(each)
    cluster.submit(job("o", "other", 1))
    cluster.advance(_SOON)
    assert [cluster.members(each) for each in small] == [0, 0, 0]
    assert cluster.members("o") == 1
    assert cluster.reason("s0-0") == "QuotaExceeded"
    assert "queue q has strict order, and pod group default/large comes before" in cluster.message("s0-0")
    for name in ("r-0", "r-1", "r-2", "o-0"):
        cluster.end(name)
    cluster.advance(_SOON)
    assert cluster.members(large) == 1
    cluster.end("large-0")
    cluster.advance(_SOON)
    assert [cluster.members(each) for each in small] == [1, 1, 1]


def test_group_of_a_higher_priority_comes_before_the_first_one_of_a_fifo_queue() -> None:
    cluster = Cluster(node("n1", 4), queue("q", dequeueStrategy="fifo"))
    cluster.submit(job("large", "q", 8))
    urgent = job("urgent", "q", 1, priority=5)
    cluster.submit(urgent)
    assert cluster.members(urgent) == 1


def test_fifo_queue_continues_when_its_first_group_is_deleted() -> None:
    cluster = Cluster(node("n1", 4), queue("q", dequeueStrategy="fifo"))
    large, later = job("large", "q", 8), [job(f"s{i}", "q", 2) for i in range(3)]
    cluster.submit(large)
    for each in later:
        cluster.submit(each)
    cluster.delete_all(large)
    cluster.advance(_SOON)
    assert [cluster.members(each) for each in later] == [2, 2, 0]


def test_incomplete_group_of_a_fifo_queue_holds_nothing_back() -> None:
    cluster = Cluster(node("n1", 4), queue("q", dequeueStrategy="fifo"))
    incomplete, later = job("large", "q", 2), job("s", "q", 1)
    cluster.apply_all(*incomplete.objects, incomplete.pods[0])
    cluster.submit(later)
    assert cluster.members(later) == 1


def test_queue_that_is_no_longer_fifo_starts_what_fits() -> None:
    cluster = Cluster(node("n1", 4), queue("q", dequeueStrategy="fifo"))
    later = job("s", "q", 1)
    cluster.submit(job("large", "q", 8))
    cluster.submit(later)
    assert cluster.members(later) == 0
    cluster.submit(queue("q", dequeueStrategy="traverse"))
    cluster.advance(_SOON)
    assert cluster.members(later) == 1
