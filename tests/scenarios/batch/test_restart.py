"""Restarts of the scheduler: the outcome for pod groups is that of a scheduler that was never restarted."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import APIS, NATIVE, VOLCANO, annotated, gang, pod, slots


@pytest.mark.parametrize("api", APIS)
def test_restart_after_every_object_leaves_groups_whole(api: str) -> None:
    cluster = Cluster(*slots(8))
    groups = [gang(name, 4, api=api) for name in ("a", "b", "c")]
    for group in groups:
        cluster.declare(group)
    for members in zip(*(group.manifests for group in groups), strict=True):
        for manifest in members:
            cluster.submit(manifest)
            cluster.restart()
            cluster.run()
    assert [cluster.members(group) for group in groups] == [4, 4, 0]
    cluster.delete_all(groups[0])
    cluster.restart()
    cluster.advance(15)
    assert cluster.members(groups[2]) == 4


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_all_pods_of_a_group_are_bound_again_if_their_bindings_were_lost(api: str) -> None:
    cluster = Cluster(*slots(3))
    group = gang("a", 3, api=api)
    cluster.complete_bindings = False
    cluster.submit(group)
    assert len(cluster.pending_bindings) == 3
    cluster.complete_bindings = True
    cluster.restart()
    cluster.run()
    assert cluster.members(group) == 3


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
@pytest.mark.parametrize("time", [1, 60])
def test_evictions_for_a_group_are_not_repeated_after_a_restart(api: str, time: int) -> None:
    cluster = Cluster(*slots(3))
    cluster.submit(*(annotated(pod(f"low{i}"), ends_after="90") for i in range(2)))
    group = gang("a", 3, [pod(f"a{i}", priority=100) for i in range(3)], api=api)
    cluster.submit(group)
    cluster.advance_to(time)
    cluster.apply(pod("filler", priority=50))
    cluster.restart()
    cluster.advance_to(3600)
    assert sorted(cluster.evicted_names) == ["low0", "low1"]
    assert cluster.members(group) == 3
    assert "default/filler" not in cluster.bindings
    assert {cluster.started[key] for key in group.keys} <= {90, 91}


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_succeeded_pods_still_count_after_a_restart(api: str) -> None:
    cluster = Cluster(*slots(3))
    cluster.submit(gang("a", 3, api=api))
    cluster.end("a0")
    cluster.end("a1", phase="Failed")
    cluster.restart()
    cluster.submit(*gang("a", 3, [pod("a1-again")], api=api).pods)
    assert "default/a1-again" in cluster.bindings
