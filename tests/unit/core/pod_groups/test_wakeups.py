"""Groups that wait for room are attempted after the end of a pod only if that may help them."""

from __future__ import annotations

import pytest

from pyscheduler.core.pod_groups.room import insufficient_resources
from pyscheduler.core.scheduling.failure import Failure
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, gang, pod, queue, slots

WITHOUT_QUEUES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    plugins: {multiPoint: {enabled: [{name: PodGroups}]}}
"""


def job(name: str, size: int, priority: int = 0, **spec: str) -> Gang:
    pods = [pod(f"{name}{i}", priority=priority) for i in range(size)]
    return gang(name, size, pods, api=VOLCANO, **spec)


def cluster_of(nodes: list[Manifest], *running: Gang, config: str = WITHOUT_QUEUES) -> Cluster:
    """Return a cluster in which these groups run."""
    cluster = Cluster(*nodes, config=config) if config else Cluster(*nodes)
    for each in running:
        cluster.submit(each)
    return cluster


def attempts_after_end(cluster: Cluster, name: str) -> int:
    """Return the number of attempts of pods in the minute after a pod ended."""
    cluster.advance(60)
    before = cluster.attempts.count
    cluster.end(name)
    cluster.advance(60)
    return cluster.attempts.count - before


def test_group_is_attempted_once_there_is_room_for_its_minimum() -> None:
    cluster = cluster_of(slots(4), job("r", 3))
    cluster.submit(job("g", 3))
    assert attempts_after_end(cluster, "r0") == 0
    assert attempts_after_end(cluster, "r1") == 3
    assert "default/g0" in cluster.bindings


def test_group_is_attempted_once_it_may_preempt_enough() -> None:
    cluster = cluster_of(slots(4), job("high", 3, priority=20), job("low", 1))
    cluster.submit(job("g", 3, priority=10))
    assert attempts_after_end(cluster, "high0") == 0
    assert attempts_after_end(cluster, "high1") > 0
    assert "low0" in cluster.evicted_names


@pytest.mark.parametrize(("name", "expected"), [("head", True), ("other", False)])
def test_with_queues_the_head_is_attempted_and_groups_after_it_are_not(name: str, expected: bool) -> None:
    cluster = cluster_of(slots(4), job("r", 4), config="")
    for each in ("head", "other"):
        cluster.submit(job(each, 3))
        cluster.advance(1)
    cluster.advance(60)
    before = {entry.key.name: entry.attempts for entry in cluster.machine.context.queue.pod_groups}
    cluster.end("r0")
    cluster.advance(60)
    after = {entry.key.name: entry.attempts for entry in cluster.machine.context.queue.pod_groups}
    assert (after[name] > before[name]) is expected


def test_group_that_may_reclaim_from_another_queue_is_attempted() -> None:
    cluster = cluster_of([*slots(4), queue("a"), queue("b")], job("r", 4, queue="a"), config="")
    for name in ("head", "other"):
        cluster.submit(job(name, 4, queue="b"))
        cluster.advance(1)
    cluster.advance(60)
    entry = next(each for each in cluster.machine.context.queue.pod_groups if each.key.name == "other")
    before = entry.attempts
    cluster.end("r0")
    cluster.advance(60)
    assert entry.attempts > before


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("0/2 nodes are available: 2 Insufficient cpu.", {"cpu"}),
        ("0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient example.com/gpu.", {"cpu", "example.com/gpu"}),
        ("0/2 nodes are available: 2 Insufficient example.com/gpu2. No victims found.", set()),
        ("0/2 nodes are available: 2 node(s) had untolerated taints.", set()),
    ],
)
def test_resources_that_a_failure_names(message: str, expected: set[str]) -> None:
    assert insufficient_resources([Failure(message)], ("cpu", "memory", "example.com/gpu")) == expected
