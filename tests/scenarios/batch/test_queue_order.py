"""Order of queues and of the groups in a queue, and groups that wait for their queue."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from pyscheduler.core.commands import Bind
from pyscheduler_plugins.queues.plugin import Queues
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, gang, node, pod, queue

_SOON = 30
"""Seconds within which a group is retried; groups that nothing wakes are retried after 300."""


def job(name: str, queue_name: str, size: int, cpu: str | int = 1, priority: int = 0) -> Gang:
    pods = [pod(f"{name}-{i}", cpu, priority=priority) for i in range(size)]
    return gang(name, size, pods, api=VOLCANO, queue=queue_name)


# -- groups that wait for their queue ----------------------------------------------------------------------------------


def test_group_starts_when_the_claim_of_another_queue_is_deleted() -> None:
    cluster = Cluster(node("n1", 5, {"pool": "x"}), queue("a", weight=1), queue("b", weight=1))
    borrowing, claim = job("more", "a", 2), job("big", "b", 1, cpu=5)
    claim.pods[0]["spec"]["nodeSelector"] = {"pool": "x"}
    cluster.submit(job("first", "a", 5))
    cluster.submit(node("n2", 5))
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


# -- other orders of queues --------------------------------------------------------------------------------------------


def config(**args: Any) -> str:
    """Return the batch configuration with args of Queues."""
    return CONFIG.read_text().replace(
        "    pluginConfig:\n", f"    pluginConfig:\n      - {{name: Queues, args: {json.dumps(args)}}}\n"
    )


DRF = config(queueOrder="drf")
HOUR = 3600


def running(cluster: Cluster) -> Counter[str]:
    """Return the number of pods of each queue that are bound and have not ended."""
    keys = [key for key in cluster.bindings if cluster.phase(key) != "Succeeded"]
    return Counter(key.partition("/")[2].partition("-")[0] for key in keys)


def test_dominant_shares_divide_several_resources() -> None:
    cluster = Cluster(node("n1", 9, memory="18Gi"), queue("a"), queue("b"), config=DRF)
    singles(cluster, "a", 10, cpu=1, memory="4Gi")
    singles(cluster, "b", 10, cpu=3, memory="1Gi")
    cluster.run()
    assert running(cluster) == {"a": 3, "b": 2}


def test_dominant_shares_in_a_hierarchy() -> None:
    children = [queue(name, parent="eng") for name in ("dev", "prod")]
    cluster = Cluster(node("n1", 10, memory="10Gi"), queue("sci"), queue("eng"), *children, config=DRF)
    for name, cpu, memory in (("sci", 1, "1Gi"), ("dev", 1, "0"), ("prod", 0, "1Gi")):
        singles(cluster, name, 10, cpu=cpu, memory=memory)
    cluster.run()
    assert running(cluster) == {"sci": 5, "dev": 5, "prod": 5}


def test_child_without_free_resources_does_not_hold_its_sibling_back() -> None:
    children = [queue(name, parent="q3") for name in ("q31", "q32")]
    others = [queue(name) for name in ("q1", "q2", "q3", "q4")]
    cluster = Cluster(node("n1", 30, memory="30Gi"), *others, *children, config=DRF)
    for name in ("q1", "q2", "q31"):
        singles(cluster, name, 30)
    for name in ("q32", "q4"):
        singles(cluster, name, 30, cpu=0, memory="1Gi")
    cluster.run()
    assert running(cluster) == {"q1": 10, "q2": 10, "q31": 10, "q32": 15, "q4": 15}


@pytest.mark.parametrize("seed", range(2))
def test_dominant_shares_do_not_drift_while_pods_end_and_start(seed: int) -> None:
    children = [queue(name, parent="n2") for name in ("n21", "n22")]
    cluster = Cluster(node("node", 10, gpu=10), queue("n1"), queue("n2"), *children, config=DRF)
    for name in ("n1", "n21"):
        singles(cluster, name, 40)
    singles(cluster, "n22", 15, cpu=0, gpu=1)
    cluster.run()
    rng = random.Random(seed)
    for _ in range(20):
        assert running(cluster) == {"n1": 5, "n21": 5, "n22": 10}
        ready = [key for key in cluster.bindings if cluster.phase(key) != "Succeeded" and "n22" not in key]
        cluster.end(rng.choice(sorted(ready)).partition("/")[2])
        cluster.advance(5)


def used_by_one(cluster: Cluster) -> None:
    """Let queue a use the cluster alone for an hour, and both queues request all of it afterwards."""
    singles(cluster, "a", 4)
    cluster.advance(HOUR)
    for i in range(4):
        cluster.end(f"a-{i:02}")
    for name in "ab":
        for manifest in (pod(f"{name}-new-{i}", 2) for i in range(2)):
            manifest["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = name
            cluster.apply(manifest)


@pytest.mark.parametrize(("order", "first"), [("share", "a-new-0"), ("usage", "b-new-0")])
def test_queue_that_has_used_little_goes_first(order: str, first: str) -> None:
    args = config(queueOrder=order, usageHalfLifeSeconds=HOUR)
    cluster = Cluster(node("n1", 4), queue("a"), queue("b"), config=args)
    used_by_one(cluster)
    cluster.run()
    assert starts(cluster)[4] == first


def test_usage_decays_by_half_in_the_half_life() -> None:
    args = config(queueOrder="usage", usageHalfLifeSeconds=HOUR)
    cluster = Cluster(node("n1", 4), queue("a"), config=args)
    singles(cluster, "a", 4)
    usage = usage_of(cluster, "a", HOUR)
    assert usage == pytest.approx(2000, rel=1e-3)
    for i in range(4):
        cluster.end(f"a-{i:02}")
    assert usage_of(cluster, "a", HOUR) == pytest.approx(1000, rel=1e-3)
    assert usage_of(cluster, "root", 0) == pytest.approx(1000, rel=1e-3)


def test_usage_of_running_pods_is_computed_again_after_a_restart() -> None:
    args = config(queueOrder="usage", usageHalfLifeSeconds=HOUR)
    cluster = Cluster(node("n1", 4), queue("a"), config=args)
    manifest = pod("old", 4)
    manifest["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "a"
    manifest["spec"]["nodeName"] = "n1"
    manifest["status"] = {"phase": "Running", "startTime": "1970-01-01T00:00:00Z"}
    cluster.apply(manifest)
    cluster.advance(2 * HOUR - cluster.now)
    cluster.restart()
    assert usage_of(cluster, "a", 0) == pytest.approx(3000, rel=1e-3)


def usage_of(cluster: Cluster, queue_name: str, later: float) -> float:
    """Return the average of the cpus that the queue has used, after some more seconds."""
    cluster.advance(later)
    plugin = cluster.machine.context.groups.quota
    assert isinstance(plugin, Queues)
    cluster.machine.cycle(cluster.now)
    return plugin._usage.of(queue_name).average.get("cpu", 0.0)
