"""Limits of users and of groups of users within queues."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import PodGroup
from pyscheduler.config.problems import ConfigError
from tests.scenarios.batch.cluster import Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, in_queue, node, pod, queue


def config(*limits: dict[str, Any]) -> str:
    """Return the batch configuration with limits."""
    return with_queue_args(limits=list(limits))


def of(user: str, manifest: Manifest, groups: str = "") -> Manifest:
    """Return a pod of a user."""
    return annotated(manifest, user=user, **({"user_groups": groups} if groups else {}))


def job(name: str, user: str, size: int, queue_name: str = "q", minimum: int = 0, **spec: Any) -> Gang:
    members = [of(user, pod(f"{name}{i}", **spec)) for i in range(size)]
    return gang(name, minimum or size, members, api=VOLCANO, queue=queue_name)


def test_job_over_the_limit_of_its_user_waits_until_the_use_has_fallen() -> None:
    limit = {"queue": "q", "users": ["*"], "maxResources": {"cpu": 3}}
    cluster = Cluster(node("n", 10), queue("q"), config=config(limit))
    cluster.submit(job("a", "alice", 2), runs=100)
    cluster.submit(job("b", "alice", 2))
    cluster.submit(job("c", "bob", 3))
    cluster.advance_to(99)
    assert [cluster.members(name) for name in "abc"] == [2, 0, 3]
    assert cluster.reason("b0") == "QuotaExceeded"
    text = "user alice would exceed its limit of 3 cpu in queue q by 1 cpu: 2 cpu allocated, 2 cpu requested"
    assert text in cluster.message("b0")
    cluster.advance_to(100)
    assert cluster.members("b") == 2
    assert cluster.started["default/b0"] == 100


def test_jobs_of_two_users_do_not_wait_for_each_other() -> None:
    """Both wait for the same amounts in the same queue."""
    limit = {"queue": "q", "users": ["*"], "maxResources": {"cpu": 2}}
    cluster = Cluster(node("n", 10), queue("q"), config=config(limit))
    cluster.submit(job("a", "alice", 2))
    cluster.submit(job("b", "bob", 2), runs=50)
    cluster.submit(job("c", "alice", 2))
    cluster.submit(job("d", "bob", 2))
    cluster.advance_to(51)
    assert [cluster.members(name) for name in "abcd"] == [2, 2, 0, 2]


def test_number_of_jobs_counts_pods_without_requests() -> None:
    limit = {"users": ["alice"], "maxJobs": 2}
    cluster = Cluster(node("n", 10), queue("q"), config=config(limit))
    for name in "abc":
        cluster.submit(job(name, "alice", 1, cpu=0), runs=60 if name == "a" else 0)
    cluster.advance_to(59)
    assert [cluster.members(name) for name in "abc"] == [1, 1, 0]
    assert "user alice has 2 jobs in queue q, its limit is 2" in cluster.message("c0")
    cluster.advance_to(60)
    assert cluster.members("c") == 1


@pytest.mark.parametrize("where", ["q", "above", "*"])
def test_limit_without_users_is_that_of_all_jobs_of_a_queue(where: str) -> None:
    config_ = config({"queue": where, "maxJobs": 2})
    cluster = Cluster(node("n", 10), queue("above"), queue("q", parent="above"), config=config_)
    for name, user in (("a", "alice"), ("b", "bob"), ("c", "carol")):
        cluster.submit(job(name, user, 1), runs=60 if name == "a" else 0)
    cluster.advance_to(59)
    assert [cluster.members(name) for name in "abc"] == [1, 1, 0]
    assert f"queue {where.replace('*', 'q')} has 2 jobs, its limit is 2" in cluster.message("c0")
    cluster.advance_to(61)
    assert cluster.members("c") == 1


def test_surplus_pod_of_a_running_job_is_no_further_job() -> None:
    limit = {"users": ["*"], "maxJobs": 1}
    cluster = Cluster(node("n", 1), queue("q"), config=config(limit))
    cluster.submit(job("a", "alice", 3, minimum=1))
    assert cluster.members("a") == 1
    cluster.submit(node("m", 5))
    cluster.advance_to(30)
    assert cluster.members("a") == 3


def test_surplus_pods_start_up_to_the_limit() -> None:
    limit = {"users": ["*"], "maxResources": {"cpu": 2}}
    cluster = Cluster(node("n", 9), queue("q"), config=config(limit))
    cluster.submit(job("a", "alice", 4, minimum=1))
    cluster.advance_to(30)
    assert cluster.members("a") == 2
    assert cluster.reason("a3") == "QuotaExceeded"


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        ([{"users": ["*"], "maxResources": {"cpu": 1}}, {"queue": "q", "users": ["*"], "maxResources": {"cpu": 2}}], 2),
        ([{"users": ["*"], "maxResources": {"cpu": 1}}, {"users": ["alice"], "maxResources": {"cpu": 2}}], 2),
        ([{"queue": "above", "users": ["alice"], "maxResources": {"cpu": 2}}], 2),
        ([{"queue": "root", "users": ["alice"], "maxResources": {"cpu": 2}}], 2),
        (
            [
                {"queue": "above", "users": ["*"], "maxResources": {"cpu": 2}},
                {"users": ["*"], "maxResources": {"cpu": 3}},
            ],
            2,
        ),
        ([{"queue": "other", "users": ["*"], "maxResources": {"cpu": 2}}], 5),
        ([{"users": ["bob"], "maxResources": {"cpu": 2}}], 5),
        ([{"users": ["*"], "maxResources": {"nvidia.com/gpu": 0}}], 5),
    ],
    ids=["queue before any", "user before any", "queue above", "root", "both", "other queue", "other user", "no gpu"],
)
def test_limit_that_applies(limits: list[dict[str, Any]], allowed: int) -> None:
    cluster = Cluster(node("n", 9), queue("above"), queue("q", parent="above"), queue("other"), config=config(*limits))
    for i in range(5):
        cluster.submit(job(f"j{i}-", "alice", 1))
    cluster.advance_to(30)
    assert cluster.members("j") == allowed


def test_limit_of_any_queue_is_that_of_each_queue() -> None:
    limit = {"users": ["*"], "maxResources": {"cpu": 1}}
    cluster = Cluster(node("n", 9), queue("p"), queue("q", parent="p"), queue("r", parent="p"), config=config(limit))
    for name, in_q in (("a", "q"), ("b", "r"), ("c", "r")):
        cluster.submit(job(name, "alice", 1, in_q))
    cluster.advance_to(30)
    assert [cluster.members(name) for name in "abc"] == [1, 1, 0]


def test_group_of_users_shares_its_limit() -> None:
    limit = {"queue": "q", "groups": ["ml"], "maxResources": {"cpu": 3}}
    cluster = Cluster(node("n", 9), queue("q"), config=config(limit))
    for user, groups in (("alice", "ml"), ("bob", " dev, ml "), ("carol", "dev")):
        for i in range(2):
            cluster.submit(in_queue("q", of(user, pod(f"{user}{i}"), groups)))
    cluster.advance_to(30)
    assert [cluster.members(user) for user in ("alice", "bob", "carol")] == [2, 1, 2]
    assert "group ml would exceed its limit of 3 cpu in queue q by 1 cpu" in cluster.message("bob1")


def test_pods_that_name_no_user_share_a_limit() -> None:
    limit = {"users": ["*"], "maxResources": {"cpu": 2}}
    cluster = Cluster(node("n", 9), config=config(limit))
    cluster.submit(*(pod(f"a{i}") for i in range(3)))
    cluster.advance_to(30)
    assert cluster.members("a") == 2
    assert "user nobody would exceed its limit of 2 cpu in queue default by 1 cpu" in cluster.message("a2")


def test_label_of_yunikorn_names_the_user() -> None:
    limit = {"users": ["alice"], "maxResources": {"cpu": 1}}
    cluster = Cluster(node("n", 9), config=config(limit))
    for name in ("a0", "a1"):
        manifest = pod(name)
        manifest["metadata"]["labels"]["yunikorn.apache.org/username"] = "alice"
        cluster.submit(manifest)
    cluster.advance_to(30)
    assert cluster.members("a") == 1


def test_group_of_pods_counts_toward_each_of_its_users() -> None:
    """Otherwise one pod with another user would hide the use of the others."""
    limit = {"users": ["*"], "maxResources": {"cpu": 3}}
    cluster = Cluster(node("n", 9), queue("q"), config=config(limit))
    mixed = [of("alice", pod("a0")), of("aaron", pod("a1"))]
    cluster.submit(gang("a", 2, mixed, api=VOLCANO, queue="q"))
    cluster.submit(job("b", "alice", 2))
    cluster.submit(job("c", "aaron", 2))
    cluster.advance_to(30)
    assert [cluster.members(name) for name in "abc"] == [2, 0, 0]


def test_job_preempts_pods_of_its_user_but_not_of_others_to_stay_within_the_limit() -> None:
    limit = {"users": ["*"], "maxResources": {"cpu": 2}}
    cluster = Cluster(node("n", 9), queue("q"), config=config(limit))
    cluster.submit(job("a", "alice", 1))
    cluster.submit(job("b", "alice", 1))
    cluster.submit(job("c", "bob", 2))
    cluster.submit(job("d", "alice", 1, priority=10))
    cluster.advance_to(30)
    assert len(cluster.evictions) == 1
    assert cluster.evicted_names[0] in ("a0", "b0")
    assert cluster.members("d") == 1


def test_job_over_the_limit_of_its_user_reclaims_nothing() -> None:
    limit = {"users": ["alice"], "maxResources": {"cpu": 1}}
    cluster = Cluster(
        node("n", 4), queue("q", deserved={"cpu": 3}), queue("r", deserved={"cpu": 1}), config=config(limit)
    )
    cluster.submit(job("r", "bob", 4, "r", minimum=1))
    cluster.submit(job("a", "alice", 2))
    cluster.advance_to(3600)
    assert cluster.evictions == []
    assert (cluster.members("r"), cluster.members("a")) == (4, 0)


def test_no_share_is_kept_for_a_job_over_the_limit_of_its_user() -> None:
    limit = {"queue": "q", "users": ["*"], "maxResources": {"cpu": 1}}
    cluster = Cluster(node("n", 4), queue("q"), queue("r"), config=config(limit))
    cluster.submit(job("a", "alice", 2))
    cluster.submit(*(job(f"r{i}-", "bob", 1, "r") for i in range(4)))
    cluster.advance_to(30)
    assert cluster.members("r") == 4


def test_job_over_the_limit_of_its_user_does_not_hold_back_others_in_strict_order() -> None:
    limit = {"users": ["alice"], "maxJobs": 1}
    cluster = Cluster(node("n", 4), queue("q", dequeueStrategy="fifo"), config=config(limit))
    cluster.submit(job("a", "alice", 1))
    cluster.submit(job("b", "alice", 1))
    cluster.submit(job("c", "bob", 1))
    cluster.advance_to(30)
    assert [cluster.members(name) for name in "abc"] == [1, 0, 1]


def test_use_is_counted_again_after_a_restart() -> None:
    limit = {"users": ["alice"], "maxJobs": 1}
    cluster = Cluster(node("n", 4), queue("q"), config=config(limit))
    cluster.submit(job("a", "alice", 1))
    cluster.submit(job("b", "alice", 1))
    cluster.restart()
    cluster.advance(400)
    assert [cluster.members(name) for name in "ab"] == [1, 0]


def test_job_starts_when_its_pods_get_another_user() -> None:
    limit = {"users": ["alice"], "maxJobs": 1}
    cluster = Cluster(node("n", 4), config=config(limit))
    cluster.submit(of("alice", pod("a")))
    cluster.submit(of("alice", pod("b")))
    assert "default/b" not in cluster.bindings
    cluster.submit(of("bob", pod("a")))
    cluster.advance(5)
    assert "default/b" in cluster.bindings


def test_thousands_of_users_of_one_group_are_limited() -> None:
    limit = {"users": ["*"], "maxResources": {"cpu": 100}}
    cluster = Cluster(node("n", 400), queue("q"), config=config(limit))
    members = [of(f"user{i}", pod(f"a{i}")) for i in range(300)]
    cluster.submit(gang("a", 100, members, api=VOLCANO, queue="q"))
    [(key, _)] = cluster.machine.context.groups.items()
    group = cluster.machine.context.groups.requirements(key)
    assert isinstance(group, PodGroup)
    assert len(group.accounts) == 17


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"users": ["a"]}, "limits[0]: Required value: maxResources or maxJobs"),
        ({"users": ["a"], "maxJobs": -1}, "limits[0].maxJobs: Invalid value: -1: must be greater than or equal to 0"),
        ({"users": [""], "maxJobs": 1}, "limits[0].users[0]: Required value"),
        ({"groups": ["a", "a"], "maxJobs": 1}, 'limits[0].groups[1]: Duplicate value: "a": queue * has a limit for it'),
        ({"users": ["a"], "queue": "", "maxJobs": 1}, "limits[0].queue: Required value"),
        ({"users": ["a"], "maxResources": {"cpu": "x"}}, 'limits[0].maxResources[cpu]: Invalid value: "x"'),
        ({"users": ["a"], "maxResources": {"cpu": -1}}, 'limits[0].maxResources[cpu]: Invalid value: "-1": must be'),
        ({"users": "a", "maxJobs": 1}, "limits[0].users"),
        ({"user": ["a"], "maxJobs": 1}, "limits[0]"),
    ],
    ids=["nothing", "jobs", "empty", "twice", "queue", "quantity", "negative", "no list", "unknown field"],
)
def test_invalid_limit_is_reported_with_its_place(limit: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Cluster(config=config(limit))
    assert message in str(raised.value)
