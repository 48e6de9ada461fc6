"""Order of the jobs in a queue by their dominant shares (jobOrder: drf)."""

from __future__ import annotations

import pytest

from pyscheduler.config.problems import ConfigError
from tests.scenarios.batch.cluster import CONFIG, Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Gang, annotated, gang, node, pod, queue
from tests.scenarios.batch.placements import count_placements

DRF = with_queue_args(jobOrder="drf")


def job(name: str, size: int, minimum: int = 1, *, cpu: int = 1, priority: int = 0, memory: str = "0") -> Gang:
    """Return a job of queue `q`."""
    pods = [pod(f"{name}{i}", cpu, priority=priority, memory=memory) for i in range(size)]
    return gang(name, minimum, pods, api=VOLCANO, queue="q")


@pytest.mark.parametrize(("config", "expected"), [(CONFIG, [10, 0]), (DRF, [5, 5])], ids=["time", "drf"])
def test_elastic_jobs_get_equal_parts(config: str, expected: list[int]) -> None:
    cluster = Cluster(node("n", 10), queue("q"), config=config)
    first, second = job("a", 10), job("b", 10)
    cluster.submit(first, second)
    assert [cluster.members(group) for group in (first, second)] == expected


def test_example_of_the_article_on_dominant_resource_fairness() -> None:
    """9 cpus and 18 GB: three tasks of <1 cpu, 4 GB> and two of <3 cpus, 1 GB> (Ghodsi et al., NSDI 2011)."""
    cluster = Cluster(queue("q"), config=DRF)
    cluster.submit(job("a", 9, memory="4Gi"), job("b", 9, cpu=3, memory="1Gi"))
    cluster.submit(node("n", 9, memory="18Gi"))
    cluster.advance(10)
    assert [cluster.members(name) for name in "ab"] == [3, 2]


def test_freed_room_goes_to_the_job_with_the_smallest_share() -> None:
    cluster = Cluster(node("n", 10), queue("q"), config=DRF)
    cluster.submit(job("a", 8))
    cluster.submit(job("b", 8))
    assert [cluster.members(name) for name in "ab"] == [8, 2]
    for i in range(4):
        cluster.end(f"a{i}")
    cluster.advance(20)
    assert [cluster.members(name) for name in "ab"] == [8, 6]


def test_job_that_has_not_started_precedes_an_older_one_that_has() -> None:
    cluster = Cluster(node("n", 4), queue("q"), config=DRF)
    cluster.submit(job("a", 6))
    assert cluster.members("a") == 4
    late = job("late", 2, 2)
    cluster.submit(late)
    for i in range(2):
        cluster.end(f"a{i}")
    cluster.advance(20)
    assert cluster.members(late) == 2


def test_priority_precedes_the_share() -> None:
    cluster = Cluster(queue("q"), config=DRF)
    cluster.submit(job("low", 4), job("high", 4, priority=10))
    cluster.submit(node("n", 4))
    cluster.advance(10)
    assert [cluster.members(name) for name in ("low", "high")] == [0, 4]


def test_queue_with_strict_order_serves_by_time() -> None:
    cluster = Cluster(node("n", 10), queue("q", dequeueStrategy="fifo"), config=DRF)
    cluster.submit(job("a", 10), job("b", 10))
    assert [cluster.members(name) for name in "ab"] == [10, 0]


def test_minimum_is_placed_as_a_whole() -> None:
    cluster = Cluster(node("n", 10), queue("q"), config=DRF)
    first, second = job("a", 8, 4), job("b", 8, 4)
    cluster.submit(first, second)
    assert [cluster.members(group) for group in (first, second)] == [5, 5]


def test_pods_of_different_sizes_are_served_one_by_one() -> None:
    cluster = Cluster(node("n", 12), queue("q"), config=DRF)
    pods = {name: [annotated(pod(f"{name}{i}", 1 + i % 2)) for i in range(8)] for name in "ab"}
    cluster.submit(*(gang(name, 1, pods[name], api=VOLCANO, queue="q") for name in "ab"))
    used = [sum(1 + i % 2 for i in range(8) if f"default/{name}{i}" in cluster.bindings) for name in "ab"]
    assert used == [6, 6]


def test_each_waiting_pod_above_the_minimum_has_a_reason() -> None:
    cluster = Cluster(node("n", 2), queue("q"), config=DRF)
    cluster.submit(job("a", 5))
    assert [cluster.reason(f"a{i}") for i in range(2, 5)] == ["Unschedulable"] * 3


def test_restart_does_not_change_the_order() -> None:
    cluster = Cluster(node("n", 10), queue("q"), config=DRF)
    cluster.submit(job("a", 8))
    cluster.submit(job("b", 8))
    cluster.restart()
    for i in range(4):
        cluster.end(f"a{i}")
    cluster.advance(20)
    assert [cluster.members(name) for name in "ab"] == [8, 6]


def test_unknown_order_is_named() -> None:
    with pytest.raises(ConfigError, match=r'jobOrder: Unsupported value: "share": supported values: "time", "drf"'):
        Cluster(config=with_queue_args(jobOrder="share"))


def test_pods_of_different_sizes_are_not_all_placed_for_each_one(monkeypatch: pytest.MonkeyPatch) -> None:
    placements = count_placements(monkeypatch)
    cluster = Cluster(node("n", 60), queue("q"), config=DRF)
    for name in "ab":
        pods = [pod(f"{name}{i}", 1 + i % 2) for i in range(20)]
        cluster.submit(gang(name, 1, pods, api=VOLCANO, queue="q"))
    assert [cluster.members(name) for name in "ab"] == [20, 20]
    assert placements() <= 2 * 40
