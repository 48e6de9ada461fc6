"""Placement of pod groups: all pods in one attempt or none, wherever a placement exists."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import (
    ANNOTATIONS,
    APIS,
    COSCHEDULING,
    NATIVE,
    VOLCANO,
    WITH_OBJECT,
    Gang,
    gang,
    node,
    pod,
    queue,
    slots,
)


@pytest.mark.parametrize("api", APIS)
def test_group_without_room_holds_no_place_while_an_interleaved_one_runs(api: str) -> None:
    cluster = Cluster(*slots(150))
    first, second = gang("a", 100, api=api), gang("b", 100, api=api)
    for each in (first, second):
        cluster.declare(each)
        cluster.apply_all(*each.objects)
        cluster.advance(1)
    for one, other in zip(first.pods, second.pods, strict=True):
        cluster.apply_all(one, other)
    cluster.run()
    assert (cluster.members(first), cluster.members(second)) == (100, 0)
    cluster.advance_to(10)
    singles = [pod(f"single{i}") for i in range(50)]
    cluster.submit(*singles)
    assert cluster.members("single") == 50
    cluster.advance_to(60)
    assert (cluster.members(first), cluster.members(second)) == (100, 0)
    cluster.delete_all(first, *(Gang(each["metadata"]["name"], 1, [each], []) for each in singles))
    cluster.advance_to(61)
    assert cluster.members(second) == 100


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
@pytest.mark.parametrize(
    ("rooms", "requests", "expected"),
    [
        pytest.param([1, 4], [1, 4], ["n1", "n4"], id="small pod before large"),
        pytest.param([1, 4], [4, 1], ["n4", "n1"], id="large pod before small"),
        pytest.param([3, 2, 1], [1, 2, 3], ["n1", "n2", "n3"], id="the only matching of three"),
        pytest.param([5, 4], [3, 3, 2], None, id="two ways to fill both nodes"),
    ],
)
def test_pods_of_different_size_are_matched_to_nodes(
    rooms: list[int], requests: list[int], expected: list[str] | None, api: str
) -> None:
    cluster = Cluster(*(node(f"n{cpu}", cpu) for cpu in rooms))
    pods = [pod(f"a{i}", cpu) for i, cpu in enumerate(requests)]
    cluster.submit(gang("a", len(pods), pods, api=api))
    assert cluster.members("a") == len(pods)
    if expected is not None:
        assert [cluster.bindings[f"default/a{i}"] for i in range(len(pods))] == expected


SPREADING = CONFIG.read_text(encoding="utf-8").replace("type: MostAllocated", "type: LeastAllocated")


@pytest.mark.parametrize("config", [CONFIG, SPREADING], ids=["full nodes first", "empty nodes first"])
@pytest.mark.parametrize(
    ("rooms", "requests", "expected"),
    [
        pytest.param([1, 4], [1, 4], ["n1", "n4"], id="small pod before large"),
        pytest.param([3, 2, 1], [1, 2, 3], ["n1", "n2", "n3"], id="the only matching of three"),
    ],
)
def test_scores_do_not_keep_a_group_from_the_only_placement(
    rooms: list[int], requests: list[int], expected: list[str], config: str | Path
) -> None:
    """With spreading, each pod has its highest score on the largest node."""
    cluster = Cluster(*(node(f"n{cpu}", cpu) for cpu in rooms), config=config)
    pods = [pod(f"a{i}", cpu) for i, cpu in enumerate(requests)]
    cluster.submit(gang("a", len(pods), pods))
    assert [cluster.bindings.get(f"default/a{i}") for i in range(len(pods))] == expected


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_message_of_a_group_without_a_placement_has_the_pod_and_the_missing_amount(api: str) -> None:
    cluster = Cluster(node("n1", 3), node("n2", 2))
    cluster.submit(gang("a", 2, [pod("a0", 3), pod("a1", 3)], api=api))
    assert cluster.bindings == {}
    message = cluster.message("a0", "a1")
    assert "1 of 2 required pods have a node, a1 lacks 1 cpu on node" in message


@pytest.mark.parametrize("api", [NATIVE, VOLCANO])
def test_pods_beyond_the_minimum_wait_as_surplus(api: str) -> None:
    cluster = Cluster(node("n1", 2))
    elastic = gang("a", 1, 3, api=api)
    cluster.submit(elastic)
    assert cluster.members(elastic) == 2
    condition_type = "PodGroupInitiallyScheduled" if api == NATIVE else "Scheduled"
    scheduled = cluster.condition("PodGroup", "default/a", condition_type)
    assert scheduled is not None
    assert scheduled["status"] == "True"
    [left] = [name for name in ("a0", "a1", "a2") if f"default/{name}" not in cluster.bindings]
    assert cluster.reason(left) == "Unschedulable"
    cluster.apply(node("n2", 1))
    cluster.advance_to(15)
    assert cluster.members(elastic) == 3


@pytest.mark.parametrize("api", [NATIVE, VOLCANO, ANNOTATIONS])
def test_members_without_requests_count_and_fit_full_nodes(api: str) -> None:
    cluster = Cluster(node("n1", 1), pod("filler"))
    cluster.run()
    free = [pod(f"a{i}", 0, priority=100) for i in range(3)]
    cluster.submit(gang("a", 3, free, api=api))
    assert cluster.members("a") == 3
    assert cluster.evictions == []


def test_members_without_requests_run_in_an_overused_queue() -> None:
    cluster = Cluster(node("n1", 4), queue("q", weight=1, deserved={"cpu": 1}), queue("other", deserved={"cpu": 3}))
    cluster.submit(gang("full", 4, api=VOLCANO, queue="q"))
    cluster.submit(gang("a", 2, [pod("a0", 0), pod("a1", 0)], api=VOLCANO, queue="q"))
    assert cluster.members("a") == 2
    assert cluster.evictions == []


# -- members that end, and changed groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_replacement_of_a_failed_pod_is_bound_at_once_beside_a_succeeded_one(api: str) -> None:
    cluster = Cluster(node("n1", 3))
    group = gang("a", 3, api=api)
    cluster.submit(group)
    cluster.end("a0")
    cluster.end("a1", phase="Failed")
    replacement = gang("a", 3, [pod("a1-again")], api=api).pods
    cluster.submit(*replacement)
    assert "default/a1-again" in cluster.bindings


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_job_with_more_completions_than_parallelism_runs_to_its_end(api: str) -> None:
    cluster = Cluster(node("n1", 4))
    cluster.submit(gang("train", 4, api=api))
    pods = gang("train", 4, 6, api=api).pods
    for i in range(6):
        cluster.advance_to(10 * (i + 1))
        assert f"default/train{i}" in cluster.bindings
        cluster.end(f"train{i}")
        if i + 4 < 6:
            cluster.submit(pods[i + 4])
    assert cluster.members("train") == 6


def two_of_three(api: str) -> tuple[Cluster, Gang]:
    """Return a cluster with two slots and a pending group of three."""
    cluster = Cluster(*slots(2))
    group = gang("a", 3, api=api)
    cluster.submit(group)
    cluster.advance_to(5)
    assert cluster.members(group) == 0
    return cluster, group


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_group_starts_at_the_instant_at_which_its_minimum_is_lowered(api: str) -> None:
    cluster, group = two_of_three(api)
    smaller = gang("a", 2, 3, api=api)
    cluster.declare(dataclasses.replace(group, minimum=2))
    cluster.submit(*smaller.objects)
    assert cluster.members(group) == 2


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_group_waits_once_its_minimum_is_raised(api: str) -> None:
    cluster = Cluster(*slots(2))
    group = gang("a", 3, 4, api=api)
    cluster.submit(group)
    raised = gang("a", 4, 4, api=api)
    cluster.declare(raised)
    cluster.submit(*raised.objects)
    cluster.submit(node("slot2"))
    cluster.advance_to(30)
    assert cluster.members(group) == 0
    cluster.submit(node("slot3"))
    cluster.advance_to(60)
    assert cluster.members(group) == 4


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_pods_of_a_deleted_group_leave_the_room_to_others(api: str) -> None:
    cluster, group = two_of_three(api)
    cluster.delete(f"PodGroup.{api.partition('/')[0]}", "a")
    cluster.submit(pod("single0"), pod("single1"))
    assert cluster.members("single") == 2
    cluster.advance_to(30)
    assert cluster.members(group) == 0


@pytest.mark.parametrize("api", WITH_OBJECT)
def test_group_starts_when_another_scheduler_binds_its_third_pod(api: str) -> None:
    cluster, group = two_of_three(api)
    cluster.apply(node("theirs"))
    bound = {**group.pods[2], "spec": {**group.pods[2]["spec"], "nodeName": "theirs"}}
    cluster.submit(bound)
    assert cluster.members(group) == 3


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
def test_group_of_1000_that_misses_one_slot_is_attempted_once(api: str) -> None:
    cluster = Cluster(*slots(999))
    cluster.submit(gang("a", 1000, api=api))
    assert cluster.bindings == {}
    before = cluster.attempts.count
    assert before <= 1001
    cluster.advance_to(60)
    cluster.submit(pod("single"))
    cluster.advance_to(120)
    assert cluster.members("single") == 1
    assert cluster.attempts.count - before <= 10
