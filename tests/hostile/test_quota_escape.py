"""A tenant that changes the declarations of its running pods gets no more than the quota of its queue."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Gang, gang, in_queue, node, pod, queue

Change = Callable[[Cluster, Gang], None]


def _delete_group(cluster: Cluster, job: Gang) -> None:
    cluster.delete("PodGroup", job.name)


def _need_a_missing_priority_class(cluster: Cluster, job: Gang) -> None:
    group = copy.deepcopy(job.objects[-1])
    group["spec"]["priorityClassName"] = "missing"
    cluster.apply(group)


def _declare_two_groups(cluster: Cluster, job: Gang) -> None:
    for each in job.pods:
        changed = copy.deepcopy(cluster.pods[f"default/{each['metadata']['name']}"].manifest)
        changed["metadata"].setdefault("labels", {})["scheduling.x-k8s.io/pod-group"] = "second"
        cluster.apply(changed)


def _give_an_invalid_grace_period(cluster: Cluster, job: Gang) -> None:
    group = copy.deepcopy(job.objects[-1])
    group["metadata"]["annotations"] = {"pyscheduler.io/pod-group-stale-grace-seconds": "soon"}
    cluster.apply(group)


CHANGES = [
    pytest.param(_delete_group, id="deletes the PodGroup"),
    pytest.param(_need_a_missing_priority_class, id="names a missing PriorityClass"),
    pytest.param(_declare_two_groups, id="adds a second declaration to its pods"),
    pytest.param(_give_an_invalid_grace_period, id="gives an invalid grace period"),
]


def job(name: str, size: int = 2) -> Gang:
    pods = [in_queue("q", pod(f"{name}{i}")) for i in range(size)]
    return gang(name, size, pods, api=VOLCANO, queue="q")


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("change", CHANGES)
def test_pods_of_an_invalid_group_count_toward_the_quota(change: Change, restarts: bool) -> None:
    cluster = Cluster(node("n", 8), queue("q", weight=1, capability={"cpu": 2}))
    running, later = job("a"), job("b")
    cluster.submit(running)
    cluster.exempt(running)
    change(cluster, running)
    if restarts:
        cluster.restart()
    cluster.submit(later)
    cluster.advance(60)
    assert (cluster.members(running), cluster.members(later)) == (2, 0)


@pytest.mark.parametrize("change", CHANGES)
def test_pods_of_an_invalid_group_are_reclaimed(change: Change) -> None:
    cluster = Cluster(node("n", 4), queue("q", weight=1), queue("other", weight=1))
    borrowed = job("a", 4)
    cluster.submit(borrowed)
    cluster.exempt(borrowed)
    change(cluster, borrowed)
    cluster.submit(gang("b", 2, api=VOLCANO, queue="other"))
    cluster.advance(60)
    assert cluster.members("b") == 2
