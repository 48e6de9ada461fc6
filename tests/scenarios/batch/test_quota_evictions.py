"""Quotas that are lowered below what is allocated: pods are evicted after a time, if the queue has one."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod
from tests.scenarios.batch.cluster import Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, elastic_quota, gang, node, pod, queue

HOUR = 3600


def job(name: str, queue_name: str, minimum: int, size: int = 0, **spec: Any) -> Gang:
    pods = [pod(f"{name}{i}", **spec) for i in range(size or minimum)]
    return gang(name, minimum, pods, api=VOLCANO, queue=queue_name)


def limited(name: str, cpu: int | str, after: str = "300", **spec: Any) -> Manifest:
    """Return a queue with a quota, and the time after which pods above it are evicted."""
    made = queue(name, capability={"cpu": cpu}, **spec)
    return annotated(made, quota_eviction_seconds=after) if after else made


def evicted_at(cluster: Cluster) -> set[float]:
    return {round(time - cluster.epoch) for time, _ in cluster.evictions}


def lowered(*jobs: Gang, to: int, after: str = "300") -> Cluster:
    """Return a cluster whose queue of 8 cpus was lowered at 100, when the jobs had started ten seconds apart."""
    cluster = Cluster(node("n", 8), limited("q", 8, after))
    for each in jobs:
        cluster.submit(each)
        cluster.advance(10)
    cluster.advance_to(100)
    cluster.submit(limited("q", to, after))
    return cluster


def test_surplus_is_evicted_after_the_time_of_the_queue() -> None:
    cluster = lowered(job("a", "q", 4, 8), to=6)
    cluster.advance_to(399)
    assert cluster.evictions == []
    cluster.advance_to(403)
    assert len(cluster.evictions) == 2
    assert evicted_at(cluster) <= {400, 401}
    text = "queue q has allocated more than its quota for 300 s"
    assert all(text in cluster.message(name) for name in cluster.evicted_names)
    cluster.advance_to(HOUR)
    assert len(cluster.evictions) == 2
    assert {cluster.reason(name) for name in cluster.evicted_names} == {"QuotaExceeded"}


@pytest.mark.parametrize("to", [2, 0])
def test_quota_below_the_deserved_amounts_and_the_guarantee_limits_these(to: int) -> None:
    """A queue that became invalid would keep all that it has."""
    shares: dict[str, Any] = {"deserved": {"cpu": 6}, "guarantee": {"cpu": 4}}
    cluster = Cluster(node("n", 8), limited("q", 8, **shares), queue("other"))
    cluster.submit(job("a", "q", 1, 6))
    cluster.submit(limited("q", to, **shares))
    cluster.advance_to(303)
    assert len(cluster.evictions) == 6 - to
    cluster.submit(large := job("b", "other", 8 - to))
    assert cluster.members(large) == 8 - to


@pytest.mark.parametrize("after", ["", "never"])
def test_nothing_is_evicted_without_a_time(after: str) -> None:
    cluster = lowered(job("a", "q", 4, 8), to=6, after=after)
    cluster.advance_to(HOUR)
    assert cluster.evictions == []


@pytest.mark.parametrize(
    ("jobs", "to", "evicted"),
    [
        ([job("a", "q", 1), job("b", "q", 1), job("c", "q", 1)], 2, {"c0"}),
        ([job("a", "q", 1), job("b", "q", 1, priority=10), job("c", "q", 1, priority=10)], 2, {"a0"}),
        ([job("a", "q", 3), job("b", "q", 1, 2)], 4, {"b1"}),
        ([job("a", "q", 3), job("b", "q", 2)], 3, {"b0", "b1"}),
        ([job("a", "q", 5), job("b", "q", 2)], 5, {"b0", "b1"}),
        ([job("a", "q", 4), job("b", "q", 4)], 0, {f"{name}{i}" for name in "ab" for i in range(4)}),
    ],
    ids=["newest", "lowest priority", "surplus", "smaller job", "fewest pods", "all"],
)
def test_smallest_set_is_evicted(jobs: list[Gang], to: int, evicted: set[str]) -> None:
    cluster = lowered(*jobs, to=to)
    cluster.advance_to(HOUR)
    assert set(cluster.evicted_names) == evicted
    assert len(cluster.evictions) == len(evicted)


def test_queue_that_is_within_its_quota_in_time_keeps_its_pods() -> None:
    cluster = lowered(job("a", "q", 1), job("b", "q", 1), to=1)
    cluster.advance_to(390)
    cluster.end("a0")
    cluster.advance_to(HOUR)
    assert cluster.evictions == []


def test_quota_that_is_raised_again_in_time_evicts_nothing_and_the_time_begins_anew() -> None:
    cluster = lowered(job("a", "q", 1, 8), to=7)
    cluster.advance_to(390)
    cluster.submit(limited("q", 8))
    cluster.advance_to(500)
    cluster.submit(limited("q", 7))
    cluster.advance_to(799)
    assert cluster.evictions == []
    cluster.advance_to(803)
    assert len(cluster.evictions) == 1


def test_jobs_of_equal_names_in_two_namespaces_are_evicted() -> None:
    cluster = Cluster(node("n", 8), limited("q", 8))
    for namespace in ("one", "two"):
        made = job("a", "q", 2)
        for manifest in made.manifests:
            cluster.apply({**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}})
    cluster.run()
    cluster.submit(limited("q", 0))
    cluster.advance_to(HOUR)
    assert {key for _, key in cluster.evictions} == {f"{n}/a{i}" for n in ("one", "two") for i in range(2)}


def test_quota_of_a_queue_above_takes_from_queues_above_their_shares() -> None:
    a, b = (queue(name, parent="p", deserved={"cpu": 4}) for name in "ab")
    cluster = Cluster(node("n", 8), limited("p", 8), a, b)
    cluster.submit(job("a", "a", 1, 6))
    cluster.advance(10)
    cluster.submit(job("b", "b", 1, 2))
    cluster.submit(limited("p", 6))
    cluster.advance_to(HOUR)
    assert [name[0] for name in cluster.evicted_names] == ["a", "a"]


def test_pods_that_a_lower_queue_gives_up_count_for_the_queue_above() -> None:
    cluster = Cluster(node("n", 8), limited("p", 8), limited("a", 8, parent="p"), queue("b", parent="p"))
    cluster.submit(job("a", "a", 1, 4), job("b", "b", 1, 4))
    cluster.submit(limited("p", 6), limited("a", 2, parent="p"))
    cluster.advance_to(HOUR)
    assert [name[0] for name in cluster.evicted_names] == ["a", "a"]


def test_terminating_pods_count_as_gone() -> None:
    cluster = Cluster(node("n", 8), limited("q", 8))
    members = [annotated(pod(f"a{i}"), ends_after="120") for i in range(8)]
    cluster.submit(gang("a", 1, members, api=VOLCANO, queue="q"))
    cluster.submit(limited("q", 6))
    cluster.advance_to(HOUR)
    assert len(cluster.evictions) == 2


def test_eviction_that_fails_is_repeated() -> None:
    cluster = lowered(job("a", "q", 1, 8), to=7)
    failures: list[str] = []

    def fail(victim: Pod) -> str:
        failures.append(victim.name)
        return "the API server is gone" if len(failures) < 3 else ""

    cluster.eviction_error = fail
    cluster.advance_to(HOUR)
    assert len(failures) == 3
    assert len(cluster.evictions) == 1
    assert 460 <= cluster.evictions[0][0] - cluster.epoch <= 465


def test_critical_pods_are_kept() -> None:
    cluster = lowered(job("a", "q", 2, priority=2_000_000_000), job("b", "q", 2), to=1)
    cluster.advance_to(HOUR)
    assert sorted(cluster.evicted_names) == ["b0", "b1"]


def test_pods_of_other_queues_and_resources_are_kept() -> None:
    cluster = Cluster(node("n", 8, gpu=4), limited("q", 4), queue("other"))
    cluster.submit(job("a", "q", 1, 2), job("g", "q", 1, cpu=0, gpu=1), job("o", "other", 1, 2))
    cluster.submit(limited("q", 1))
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == ["a1"]


def test_time_begins_anew_with_a_restart() -> None:
    cluster = lowered(job("a", "q", 1, 8), to=7)
    cluster.advance_to(350)
    cluster.restart()
    cluster.advance_to(640)
    assert cluster.evictions == []
    cluster.advance_to(655)
    assert len(cluster.evictions) == 1


def test_elastic_quota_has_the_time_too() -> None:
    quota = annotated(elastic_quota("default", {"cpu": 2}, {"cpu": 4}), quota_eviction_seconds="60")
    cluster = Cluster(node("n", 8), quota)
    cluster.submit(pod("a"))
    cluster.advance_to(50)
    cluster.submit(pod("b"))
    cluster.submit(annotated(elastic_quota("default", {"cpu": 1}, {"cpu": 1}), quota_eviction_seconds="60"))
    cluster.advance_to(105)
    assert cluster.evictions == []
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == ["b"]


def test_argument_is_the_time_of_queues_that_set_none() -> None:
    cluster = Cluster(node("n", 8), limited("q", 8, ""), config=with_queue_args(quotaEvictionSeconds=0))
    cluster.submit(job("a", "q", 1, 8))
    cluster.advance_to(50)
    cluster.submit(limited("q", 6, ""))
    cluster.advance_to(55)
    assert len(cluster.evictions) == 2


def test_pods_that_a_full_quota_holds_back_are_not_evicted_for_it() -> None:
    cluster = Cluster(node("n", 8), limited("q", 2, "0"))
    cluster.submit(job("a", "q", 1, 6))
    cluster.advance_to(HOUR)
    assert (cluster.members("a"), cluster.evictions) == (2, [])


def test_invalid_time_makes_the_queue_unusable() -> None:
    cluster = Cluster(node("n", 8), limited("q", 2, "later"))
    cluster.submit(job("a", "q", 1))
    cluster.advance_to(5)
    text = 'must be a number of seconds from 0 to 31536000 or "never"'
    path = "annotations[pyscheduler.io/quota-eviction-seconds]"
    assert f'{path}: Invalid value: "later": {text}' in cluster.message("a0")
