"""Minimum run times: pods that have started a short time ago are neither reclaimed nor preempted."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.config.problems import ConfigError
from pyscheduler.core.commands import Evict
from tests.scenarios.batch.cluster import CONFIG, Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, node, pod, queue

HOUR = 3600


def job(name: str, queue_name: str, minimum: int, size: int = 0, **spec: Any) -> Gang:
    pods = [pod(f"{name}{i}", **spec) for i in range(size or minimum)]
    return gang(name, minimum, pods, api=VOLCANO, queue=queue_name)


def two_queues(**annotations: str) -> Cluster:
    """Return a cluster of 4 cpus of which queue b deserves 2; the annotations are those of queue a."""
    a = annotated(queue("a", deserved={"cpu": 2}), **annotations)
    return Cluster(node("n", 4), a, queue("b", deserved={"cpu": 2}))


def evicted_at(cluster: Cluster) -> set[float]:
    return {time - cluster.epoch for time, _ in cluster.evictions}


@pytest.mark.parametrize("size", [2, 1], ids=["group", "single"])
def test_pods_are_reclaimed_once_they_have_run_for_their_minimum_time(size: int) -> None:
    cluster = two_queues(reclaim_min_run_seconds="600")
    cluster.submit(*(job(f"a{i}-", "a", size) for i in range(4 // size)))
    cluster.advance_to(100)
    cluster.submit(job("b", "b", 2))
    cluster.advance_to(599)
    assert cluster.evictions == []
    assert "pods are not evicted before they have run for 600 s" in cluster.message("b0")
    cluster.advance_to(602)
    assert len(cluster.evictions) == 2
    assert evicted_at(cluster) == {600}
    assert cluster.started["default/b0"] == pytest.approx(600, abs=0.2)


def test_group_waits_until_enough_pods_may_be_reclaimed() -> None:
    """One pod has run for its minimum time at 100, the next one at 150."""
    cluster = two_queues(reclaim_min_run_seconds="100")
    cluster.submit(job("a", "a", 1))
    cluster.advance_to(50)
    cluster.submit(job("c", "a", 1))
    cluster.advance_to(70)
    cluster.submit(job("d", "a", 1), job("e", "a", 1))
    cluster.submit(job("b", "b", 2))
    attempts = cluster.attempts.count
    cluster.advance_to(149)
    assert cluster.evictions == []
    assert cluster.attempts.count - attempts <= 4, "a retry at 100 would be in vain"
    cluster.advance_to(152)
    assert sorted(cluster.evicted_names) == ["a0", "c0"]
    assert evicted_at(cluster) == {150}
    assert cluster.started["default/b0"] == pytest.approx(150, abs=0.2)


def test_group_counts_from_the_start_of_its_oldest_pod() -> None:
    cluster = two_queues(reclaim_min_run_seconds="100")
    group = job("a", "a", 3, 4)
    cluster.submit(group)
    cluster.advance_to(90)
    cluster.exempt(group)
    cluster.delete("Pod", "a3")
    cluster.submit(group.pods[3])
    cluster.submit(job("b", "b", 2))
    cluster.advance_to(99)
    assert cluster.evictions == []
    cluster.advance_to(102)
    assert evicted_at(cluster) == {100}
    assert cluster.started["default/b0"] == pytest.approx(100, abs=0.2)


def test_surplus_pod_counts_on_its_own() -> None:
    cluster = two_queues(reclaim_min_run_seconds="100")
    group = job("a", "a", 1, 4)
    cluster.submit(group)
    cluster.advance_to(90)
    for name in ("a2", "a3"):
        cluster.delete("Pod", name)
    cluster.submit(group.pods[2], group.pods[3])
    cluster.submit(job("b", "b", 1))
    cluster.advance_to(100)
    assert cluster.evicted_names == ["a1"]


def test_pods_are_preempted_by_jobs_of_their_queue_once_they_have_run_for_their_minimum_time() -> None:
    cluster = two_queues(preempt_min_run_seconds="300")
    cluster.submit(job("a", "a", 4))
    cluster.submit(job("high", "a", 1, priority=10))
    cluster.advance_to(299)
    assert cluster.evictions == []
    cluster.advance_to(302)
    assert evicted_at(cluster) == {300}
    assert cluster.started["default/high0"] == pytest.approx(300, abs=0.2)


def test_time_for_preemption_does_not_hold_for_reclaim() -> None:
    cluster = two_queues(preempt_min_run_seconds="300")
    cluster.submit(job("a", "a", 1, 4))
    cluster.submit(job("b", "b", 1))
    cluster.advance_to(10)
    assert len(cluster.evictions) == 1


def test_critical_pods_do_not_wait_for_pods_of_their_queue() -> None:
    cluster = two_queues(preempt_min_run_seconds="300")
    cluster.submit(job("a", "a", 1, 4))
    cluster.submit(job("critical", "a", 1, priority=2_000_000_000))
    cluster.advance_to(10)
    assert cluster.started["default/critical0"] <= 10


def test_job_is_not_retried_if_no_pod_may_ever_be_reclaimed() -> None:
    cluster = two_queues(reclaim_min_run_seconds="100")
    cluster.submit(job("a", "a", 2), job("b", "b", 2))
    cluster.submit(job("c", "b", 2))
    attempts = cluster.attempts.count
    cluster.advance_to(250)
    assert cluster.evictions == []
    assert cluster.attempts.count - attempts <= 2


def test_room_is_used_before_the_minimum_time_if_pods_end() -> None:
    cluster = two_queues(reclaim_min_run_seconds="600")
    cluster.submit(job("a", "a", 2), job("c", "a", 2))
    cluster.submit(job("b", "b", 2))
    cluster.advance_to(50)
    cluster.end("c0")
    cluster.end("c1")
    cluster.advance_to(60)
    assert cluster.members("b") == 2
    cluster.advance_to(HOUR)
    assert cluster.evictions == []


@pytest.mark.parametrize(
    ("of_parent", "of_queue", "argument", "at"),
    [("", "", 100, 100), ("200", "", 100, 200), ("200", "300", 100, 300), ("200", "0", 100, 1), ("0", "", 100, 1)],
    ids=["argument", "parent", "queue", "queue without", "parent without"],
)
def test_nearest_time_counts(of_parent: str, of_queue: str, argument: int, at: int) -> None:
    def with_time(manifest: Manifest, seconds: str) -> Manifest:
        return annotated(manifest, reclaim_min_run_seconds=seconds) if seconds else manifest

    p, a = with_time(queue("p"), of_parent), with_time(queue("a", parent="p"), of_queue)
    config = with_queue_args(reclaimMinRunSeconds=argument)
    cluster = Cluster(node("n", 4), p, a, queue("b", deserved={"cpu": 2}), config=config)
    cluster.submit(job("a", "a", 1, 4))
    cluster.submit(job("b", "b", 2))
    cluster.advance_to(HOUR)
    assert cluster.started["default/b0"] == pytest.approx(at, abs=2)


def test_minimum_time_continues_after_a_restart() -> None:
    cluster = two_queues(reclaim_min_run_seconds="600")
    cluster.submit(job("a", "a", 1, 4))
    cluster.submit(job("b", "b", 2))
    cluster.advance_to(300)
    cluster.restart()
    cluster.advance_to(599)
    assert cluster.evictions == []
    cluster.advance_to(602)
    assert evicted_at(cluster) == {600}
    assert cluster.started["default/b0"] == pytest.approx(600, abs=0.2)


def test_shorter_time_of_the_queue_counts_at_once() -> None:
    cluster = two_queues(reclaim_min_run_seconds="600")
    cluster.submit(job("a", "a", 1, 4))
    cluster.submit(job("b", "b", 2))
    cluster.advance_to(100)
    cluster.submit(annotated(queue("a", deserved={"cpu": 2}), reclaim_min_run_seconds="50"))
    cluster.advance_to(115)
    assert cluster.members("b") == 2


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "1e99", "never", ""])
def test_invalid_annotation_makes_the_queue_unusable(value: str) -> None:
    cluster = two_queues(reclaim_min_run_seconds=value)
    cluster.submit(job("a", "a", 1))
    cluster.advance_to(10)
    assert cluster.members("a") == 0
    text = (
        "queue a: metadata.annotations[pyscheduler.io/reclaim-min-run-seconds]: Invalid value:"
        f' "{value}": must be a number of seconds from 0 to 31536000'
    )
    assert text in cluster.message("a0")


@pytest.mark.parametrize("name", ["reclaimMinRunSeconds", "preemptMinRunSeconds", "quotaEvictionSeconds"])
def test_invalid_argument_is_reported_with_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: Invalid value: -1: must be from 0 to 31536000"):
        Cluster(config=with_queue_args(**{name: -1}))


def test_default_is_no_minimum_time() -> None:
    assert "MinRun" not in CONFIG.read_text(encoding="utf-8")
    cluster = two_queues()
    cluster.submit(job("a", "a", 1, 4))
    cluster.submit(job("b", "b", 1))
    cluster.advance_to(1)
    assert len(cluster.evictions) == 1


def test_pods_of_a_kubelet_that_is_down_count_from_their_assignment() -> None:
    """Nothing reports when they start."""
    cluster = two_queues(reclaim_min_run_seconds="100")
    cluster.complete_bindings = False
    cluster.submit(job("a", "a", 1, 4))
    cluster.advance_to(20)
    cluster.submit(job("b", "b", 1))
    cluster.advance_to(99)
    evictions = [command for command in cluster.commands if isinstance(command, Evict)]
    assert evictions == []
    cluster.advance_to(100)
    assert len([command for command in cluster.commands if isinstance(command, Evict)]) == 1
