"""Preemption for a group removes few pods in its dry runs, however many have a lower priority."""

from __future__ import annotations

import pytest

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit, PodGroupKey
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import preemption
from pyscheduler.core.state.cluster import ClusterState
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, gang, node, pod, slots


def removals_of_preemption(monkeypatch: pytest.MonkeyPatch, low: int, high: int, size: int) -> tuple[int, list[str]]:
    """Return how many pods a group removes for its preemption in full slots, and the evicted ones."""
    cluster = Cluster(*slots(low + high))
    cluster.submit(*(pod(f"low{i}") for i in range(low)))
    cluster.submit(*(pod(f"high{i}", priority=20) for i in range(high)))
    removed = 0
    remove = ClusterState.remove

    def counted(state: ClusterState, uid: str) -> Pod | None:
        nonlocal removed
        removed += uid in running
        return remove(state, uid)

    running = {pod.uid for pod in cluster.machine.context.pods.values()}
    monkeypatch.setattr(ClusterState, "remove", counted)
    cluster.submit(gang("g", size, [pod(f"g{i}", priority=10) for i in range(size)], VOLCANO))
    return removed, cluster.evicted_names


def test_no_more_are_removed_than_the_resources_require(monkeypatch: pytest.MonkeyPatch) -> None:
    removed, evicted = removals_of_preemption(monkeypatch, low=60, high=0, size=3)
    assert len(evicted) == 3
    assert removed < 60


def test_none_is_listed_if_all_of_lower_priority_leave_too_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    listings: list[int] = []

    def listed(_: Context, __: PodGroupKey, priority: int) -> Steps[list[EvictionUnit]]:
        listings.append(priority)
        yield from ()
        return []

    monkeypatch.setattr(preemption, "eviction_units", listed)
    assert removals_of_preemption(monkeypatch, low=2, high=2, size=3)[1] == []
    assert not listings


def test_only_pods_on_nodes_that_may_take_a_member_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members need a whole node each, and the units come in the order of their start, not of their nodes."""
    cluster = Cluster(*(node(f"n{i}", 4) for i in range(20)))
    for i in range(4):
        cluster.submit(*(pod(f"low{i}-{k}") for k in range(20)))
        cluster.advance(1)
    removed, remove = 0, ClusterState.remove

    def counted(state: ClusterState, uid: str) -> Pod | None:
        nonlocal removed
        removed += 1
        return remove(state, uid)

    monkeypatch.setattr(ClusterState, "remove", counted)
    cluster.submit(gang("g", 2, [pod(f"g{i}", 4, priority=10) for i in range(2)], VOLCANO))
    assert len(cluster.evicted_names) == 8
    assert removed <= 60


def test_large_group_of_different_members_evicts_no_pod_with_room_beside_a_member() -> None:
    """Each of the nodes, one of which was filled after the other, has room for one member, after two evictions."""
    size = 66
    cluster = Cluster(*(node(f"n{i}", 10) for i in range(size)))
    for i in range(size):
        lower = [pod(f"low{i}-{k}", 2) for k in range(4)]
        for each in lower:
            each["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"n{i}"}
        cluster.submit(*lower)
        cluster.advance(1)
    members = [pod(f"g{i}", f"{5200 - i}m", priority=10) for i in range(size)]
    cluster.submit(gang("g", size, members, VOLCANO))
    assert len(cluster.evicted_names) == 2 * size
