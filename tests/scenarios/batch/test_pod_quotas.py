"""Quotas, limits and shares of the resource `pods`: each pod counts as one, whatever it requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.batch.cluster import Cluster, with_queue_args
from tests.scenarios.batch.manifests import (
    VOLCANO,
    Gang,
    Manifest,
    annotated,
    elastic_quota,
    gang,
    in_namespace,
    in_queue,
    node,
    pod,
    queue,
)

LIMITS = [{"queue": "*", "users": ["*"], "maxResources": {"pods": 2}}]


def job(name: str, queue_name: str, minimum: int = 1, **options: Any) -> Gang:
    return gang(name, minimum, [pod(f"{name}{i}", **options) for i in range(minimum)], api=VOLCANO, queue=queue_name)


@pytest.mark.parametrize("cpu", [0, 1], ids=["without requests", "with requests"])
@pytest.mark.parametrize(
    ("declared", "config", "message"),
    [
        pytest.param(
            [queue("default", capability={"pods": 2})],
            {},
            "queue default would exceed its capability of 2 pods by 1 pods: 2 pods allocated, 1 pods requested",
            id="capability",
        ),
        pytest.param(
            [queue("root", capability={"pods": 2})],
            {},
            "queue root would exceed its capability of 2 pods by 1 pods: 2 pods allocated, 1 pods requested",
            id="capability of the root",
        ),
        pytest.param(
            [elastic_quota("default", {}, {"pods": 2})],
            {},
            "queue default/quota would exceed its capability of 2 pods by 1 pods: 2 pods allocated, 1 pods requested",
            id="max",
        ),
        pytest.param(
            [elastic_quota("default", {"pods": 2}, {"pods": 2})],
            {},
            "queue default/quota would exceed its capability of 2 pods by 1 pods: 2 pods allocated, 1 pods requested",
            id="min and max",
        ),
        pytest.param(
            [],
            {"limits": LIMITS},
            "user nobody would exceed its limit of 2 pods in queue default by 1 pods:"
            " 2 pods allocated, 1 pods requested",
            id="limit of a user",
        ),
    ],
)
def test_quota_of_pods_is_enforced(declared: list[Manifest], config: dict[str, Any], message: str, cpu: int) -> None:
    cluster = Cluster(node("n", 10), *declared, config=with_queue_args(**config))
    cluster.submit(*(pod(f"p{i}", cpu) for i in range(2)))
    cluster.restart()
    cluster.submit(*(pod(f"p{i}", cpu) for i in range(2, 4)))
    cluster.advance(60)
    assert cluster.members("p") == 2
    assert cluster.reason("p3") == "QuotaExceeded"
    assert cluster.message("p3").splitlines()[0] == message
    cluster.end("p0")
    cluster.advance(60)
    assert "default/p2" in cluster.bindings
    assert "default/p3" not in cluster.bindings


def test_quota_of_pods_counts_the_minimum_of_a_group() -> None:
    cluster = Cluster(node("n", 10), queue("a", capability={"pods": 3}))
    first, second = job("a", "a", 2), job("b", "a", 2)
    cluster.submit(first, second)
    cluster.advance(60)
    assert (cluster.members(first), cluster.members(second)) == (2, 0)
    assert "its capability of 3 pods by 1 pods: 2 pods allocated, 2 pods requested" in cluster.message("b0")


def test_quota_of_pods_that_is_created_later_counts_running_pods() -> None:
    cluster = Cluster(node("n", 10), queue("a"))
    cluster.submit(job("a", "a"), job("b", "a"))
    cluster.submit(queue("a", capability={"pods": 2}))
    cluster.submit(job("c", "a"))
    cluster.advance(60)
    assert sorted(cluster.bindings) == ["default/a0", "default/b0"]
    cluster.submit(queue("a"))
    cluster.advance(60)
    assert cluster.members("c") == 1


def test_terminating_pods_count_toward_the_quota_of_pods() -> None:
    cluster = Cluster(node("n", 10), queue("default", capability={"pods": 1}))
    cluster.submit(pod("a"))
    cluster.apply({**cluster.pods["default/a"].manifest, **_deleted(cluster.pods["default/a"].manifest)})
    cluster.submit(pod("b"))
    cluster.advance(10)
    assert cluster.members("b") == 0
    assert "1 pods used by terminating pods" in cluster.message("b")
    cluster.delete("Pod", "a")
    cluster.advance(60)
    assert cluster.members("b") == 1


def _deleted(manifest: Manifest) -> Manifest:
    return {"metadata": {**manifest["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def test_job_preempts_in_its_queue_for_the_quota_of_pods() -> None:
    cluster = Cluster(node("n", 10), queue("a", capability={"pods": 3}))
    cluster.submit(*(job(f"low{i}", "a") for i in range(3)))
    cluster.submit(job("high", "a", 2, priority=10))
    cluster.advance(60)
    assert cluster.members("high") == 2
    assert len(cluster.evictions) == 2


def test_lowered_quota_of_pods_evicts() -> None:
    def limited(count: int) -> Manifest:
        return annotated(queue("a", capability={"pods": count}), quota_eviction_seconds="60")

    cluster = Cluster(node("n", 10), limited(4))
    for i in range(4):
        cluster.submit(job(f"a{i}", "a"))
        cluster.advance(10)
    cluster.submit(limited(3))
    cluster.advance(100)
    assert cluster.evicted_names == ["a30"]


def test_guaranteed_pods_are_reclaimed() -> None:
    cluster = Cluster(node("n", 10, pods=4))
    cluster.submit(*(elastic_quota(name, {"pods": 2}, {"pods": 4}) for name in "xy"))
    cluster.submit(*(in_namespace("x", pod(f"x{i}", 0)) for i in range(4)))
    assert len(cluster.bindings) == 4
    cluster.submit(*(in_namespace("y", pod(f"y{i}", 0)) for i in range(3)))
    cluster.advance(60)
    assert sorted(key.partition("/")[0] for key in cluster.bindings) == ["x", "x", "y", "y"]
    assert len(cluster.evictions) == 2


@pytest.mark.parametrize(
    ("order", "declared", "expected"),
    [
        pytest.param("share", {}, (4, 8), id="share"),
        pytest.param("share", {"capability": {"pods": 100}}, (4, 8), id="share, quota of pods elsewhere"),
        pytest.param("drf", {}, (4, 8), id="drf"),
        pytest.param("drf", {"capability": {"pods": 100}}, (4, 8), id="drf, quota of pods elsewhere"),
        pytest.param("drf", {"deserved": {"pods": 1}}, (6, 6), id="drf, share of pods elsewhere"),
    ],
)
def test_pods_change_the_order_of_queues_only_if_they_have_shares(
    order: str, declared: dict[str, Any], expected: tuple[int, int]
) -> None:
    cluster = Cluster(
        node("n", 24, pods=12),
        *(queue(name, weight=1) for name in "ab"),
        queue("other", weight=1, **declared),
        config=with_queue_args(queueOrder=order),
    )
    jobs = [in_queue(name, pod(f"{name}{i}", cpu)) for i in range(12) for name, cpu in (("a", 2), ("b", 1))]
    cluster.submit(*jobs)
    cluster.advance(60)
    assert (cluster.members("a"), cluster.members("b")) == expected
